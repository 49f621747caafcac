"""The one kind of error whose message is for the person, not for the programmer."""

from typing import Any


class UserError(ValueError):
    """An error whose message is all that a person needs.

    The command `s2d` shows it in one line, of the form
    `<argument or file>: expected <what>, received <what>. <What to do.>`. Any other error but
    those of the operating system is a bug of ours, and keeps its traceback.
    """

    @classmethod
    def unless(cls, condition: Any, message: str) -> None:
        """Raises this error with a message unless a condition holds."""
        if not condition:
            raise cls(message)
