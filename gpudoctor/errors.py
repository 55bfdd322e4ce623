"""The one error a user sees: what is wrong, where, and what to do about it."""


class GpudoctorError(Exception):
    """Bad usage, unreadable input or broken rules. The CLI prints it without a traceback and exits with 2.

    `message` says what is wrong and where; `hint` says what to do; `details` holds one line per further problem.
    """

    def __init__(self, message: str, hint: str | None = None, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
