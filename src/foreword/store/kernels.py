"""Where compiled code is kept between runs: in the user's cache, under the digest of the sources that it was made from.

Numba keeps it beside the sources, which may not be writable, and does not see a change in what a kernel calls. A folder
that cannot be written is replaced by one for this process.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash
from numba.core import config

from foreword.store.trace_cache import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGE = Path(__file__).parents[1]
_SOURCES = ("cache/*.py", "trace/scan.py")


@contextmanager
def kept_kernels() -> Iterator[None]:
    """Import modules with kernels in here; a folder that the user gave to Numba stays."""
    settings = vars(config)
    given = settings["CACHE_DIR"]
    try:
        settings["CACHE_DIR"] = given or _folder()
        yield
    finally:
        settings["CACHE_DIR"] = given


def _folder() -> str:
    digest = xxhash.xxh3_64()
    for source in sorted(file for pattern in _SOURCES for file in _PACKAGE.glob(pattern)):
        digest.update(source.read_bytes())
    kept = cache_folder() / "kernels" / digest.hexdigest()
    try:
        kept.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=kept).close()
    except OSError:
        return _temporary().name
    return str(kept)


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    """A folder that goes with the process."""
    return tempfile.TemporaryDirectory(prefix="foreword-kernels-")
