"""Zstandard, which is an extra: streams of frames in, streams of frames out."""

from __future__ import annotations

import io
import zlib
from typing import IO, TYPE_CHECKING, Any

from foreword.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LEVEL = 3


def check_zstd() -> None:
    """Raise ``UsageError`` where the extra is not installed."""
    _zstandard()


def compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces of one frame that holds these pieces."""
    packer = _zstandard().ZstdCompressor(level=_LEVEL).compressobj()
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def decompressed_lines(raw: IO[bytes]) -> Iterator[bytes]:
    """Lines of a file of frames; ``zlib.error`` for a damaged one, as other compressions have."""
    zstandard = _zstandard()
    plain = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    try:
        yield from io.BufferedReader(plain)
    except zstandard.ZstdError as damage:
        raise zlib.error(str(damage)) from None


def _zstandard() -> Any:  # noqa: ANN401 - a module
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError("files ending .zst need zstandard", advice="pip install 'foreword[zstd]'") from None
    return zstandard
