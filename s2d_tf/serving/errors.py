"""What a client is told when its request cannot be answered."""


class RequestError(Exception):
    """A refused request: an HTTP status and one line that says what was expected.

    Attributes:
        status: HTTP status code.
        message: the line, sent as `{"error": message}`.
    """

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status
        self.message = message


def bad_request(message):
    return RequestError(400, message)
