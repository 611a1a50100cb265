"""Where log lines of the package go, when somebody asks: structured, to stderr and to a file.

The package logs through the standard library, under the names ``foreword.<kind>``, with data as extra fields and no
prompt, key or address; here structlog renders them. Nothing is rendered unless a level or a file is given.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

Level = Literal["debug", "info", "warning", "error"]


def start_logging(level: Level | None, file: Path | None) -> None:
    """Render log lines: as text on stderr from ``level`` on, as JSON lines in ``file``, there from info on at least.

    One of the two is given.
    """
    root = logging.getLogger("foreword")
    for handler in [*root.handlers]:
        root.removeHandler(handler)
        handler.close()
    if level is not None:
        root.addHandler(_handler(logging.StreamHandler(sys.stderr), level, as_json=False))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        in_file: Level = "debug" if level == "debug" else "info"
        root.addHandler(_handler(logging.FileHandler(file, encoding="utf-8", delay=True), in_file, as_json=True))
    root.setLevel(min(handler.level for handler in root.handlers))


def _handler(handler: logging.Handler, level: Level, *, as_json: bool) -> logging.Handler:
    import structlog

    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last]
        )
    )
    handler.setLevel(level.upper())
    return handler
