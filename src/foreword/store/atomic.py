"""Files replaced in one step: a reader finds the old content or the new, never half of one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Put ``content`` on the disk beside ``path``, then give it the name; a failure leaves the old file alone."""
    growing = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with growing.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        growing.replace(path)
    finally:
        growing.unlink(missing_ok=True)
