"""What a client is told when its request cannot be answered."""


class RequestError(Exception):
    """A rejected request: one line that says what was expected, and an HTTP status."""

    def __init__(self, message: str, status: int = 400):
        super().__init__(message)
        self.status = status
