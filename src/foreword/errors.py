"""Every failure a user can meet.

``ForewordError``
 |- ``UsageError``         2  the command line
 |- ``ConfigError``        2  a config file or value
 |- ``TokenizerError``     2  a tokenizer that is missing or cannot be composed with
 |- ``ConstructionError``  3  a data set that cannot be built as asked
 |- ``ServerError``        4  a server, a network or a metrics page
 |- ``DataError``          5  a damaged data set, trace row or run folder
 `- ``Interrupted``      130  stopped by the user, everything so far saved

Each class has the exit code of the command line; each instance says what went wrong, where, and what is possible
instead. The data stays apart from the wording, so that logs and JSON carry fields (RFC 3.4.3).
"""

from __future__ import annotations

from typing import ClassVar


class ForewordError(Exception):
    """A failure that a user can act on."""

    exit_code: ClassVar[int] = 1

    def __init__(  # noqa: PLR0913 - the fields that RFC 3.4.3 asks of every error
        self,
        message: str,
        *,
        advice: str = "",
        stage: str | None = None,
        dataset_id: str | None = None,
        request_id: str | None = None,
        group: str | None = None,
        retry: int | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.stage = stage
        self.dataset_id = dataset_id
        self.request_id = request_id
        self.group = group
        self.retry = retry
        self.field = field

    def __str__(self) -> str:
        """One line: what is wrong, then what is possible instead."""
        return f"{self.message} ({self.advice})" if self.advice else self.message

    def context(self) -> dict[str, str | int]:
        """The fields that are set, for logs and ``--json``."""
        names = ("stage", "dataset_id", "request_id", "group", "retry", "field", "advice")
        return {name: value for name in names if (value := getattr(self, name)) not in (None, "")}


class UsageError(ForewordError):
    """The command line asks for something that does not exist or does not fit."""

    exit_code = 2


class ConfigError(ForewordError):
    """A config value is missing, unknown or out of range; ``field`` is its path."""

    exit_code = 2


class TokenizerError(ForewordError):
    """A tokenizer cannot be loaded, or text cannot be composed with it exactly."""

    exit_code = 2


class ConstructionError(ForewordError):
    """A data set cannot be built as asked."""

    exit_code = 3


class ServerError(ForewordError):
    """A server or metrics page does not answer as it should."""

    exit_code = 4


class DataError(ForewordError):
    """A file of ours or of the user's is damaged; the message names file and line."""

    exit_code = 5


class Interrupted(ForewordError):
    """The user stopped the command; what was done so far is saved."""

    exit_code = 130
