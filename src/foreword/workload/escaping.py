"""JSON escaping as a map of bytes, so that escaped pieces can be joined (design: content, 4)."""

from __future__ import annotations

import re

import numpy as np

from foreword.terms import IntArray  # noqa: TC001 - named in a module constant

_SHORT = {0x22: b'\\"', 0x5C: b"\\\\", 0x08: b"\\b", 0x0C: b"\\f", 0x0A: b"\\n", 0x0D: b"\\r", 0x09: b"\\t"}
_TABLE = [_SHORT.get(byte, b"\\u%04x" % byte if byte < 0x20 else bytes([byte])) for byte in range(256)]  # noqa: PLR2004 - JSON's control range
_WIDTH: IntArray = np.array([len(escape) for escape in _TABLE], dtype=np.int64)
_NEEDS_ESCAPE = re.compile(rb'[\x00-\x1f"\\]')


def escaped(raw: bytes) -> bytes:
    r"""UTF-8 text as it stands between the quotes of a JSON string.

    >>> escaped('a "b"\n'.encode())
    b'a \\"b\\"\\n'
    """
    return _NEEDS_ESCAPE.sub(lambda match: _TABLE[match[0][0]], raw)


def escaped_ends(raw: bytes, ends: IntArray) -> IntArray:
    """Where the given byte offsets of the text lie in its escaped form."""
    widths = _WIDTH[np.frombuffer(raw, dtype=np.uint8)]
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)])[ends]
