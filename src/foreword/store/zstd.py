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


def plain_file(raw: IO[bytes]) -> IO[bytes]:
    """A file of frames as the bytes in them; ``zlib.error`` for damage, as other compressions have."""
    return io.BufferedReader(_Plain(raw))


class _Plain(io.RawIOBase):
    """What a decompressor gives."""

    def __init__(self, raw: IO[bytes]) -> None:
        zstandard = _zstandard()
        self._reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        self._damage: type[Exception] = zstandard.ZstdError

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any buffer
        """Fill a buffer; 0 at the end."""
        try:
            return int(self._reader.readinto(buffer))
        except self._damage as damage:
            raise zlib.error(str(damage)) from None


def _zstandard() -> Any:  # noqa: ANN401 - a module
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError("files ending .zst need zstandard", advice="pip install 'foreword[zstd]'") from None
    return zstandard
