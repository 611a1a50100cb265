"""Columns of numbers as CSV text, made by the column and not by the cell.

A table of up to four digits gives integers; ratios are rounded to six significant digits as integers. A value too close
to the middle between two of those, or outside of ``[0.0001, 1)``, is left to Python's own exact rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

_PIECE_ROWS = 8_192
_GROUP = 10_000
_DIGITS = 6
_LEAST = 1e-4
_NEAR_THE_MIDDLE = 1e-6
_SCALES = np.array([1e6, 1e7, 1e8, 1e9])
_PADDED, _PLAIN, _ZERO = 0, _GROUP, 2 * _GROUP
_HEADS = 400


def _table(texts: Iterable[str], kind: str) -> Array:
    """Texts as numbers of a width, so that a column of them is looked up at once; NUL is no character."""
    width = np.dtype(kind).itemsize
    return np.frombuffer("".join(text.rjust(width, "\0") for text in texts).encode(), kind)


_FOUR = [f"{value:04}" for value in range(_GROUP)]
_GROUPS = _table([*_FOUR, *(four.lstrip("0") for four in _FOUR), "0"], "u4")
"""Four digits with leading zeros, without, and last the single zero."""
_ENDS = _table((four.rstrip("0") for four in _FOUR), "u4")
"""The last four digits of six behind the point."""
_TWO = [f"0.{'0' * zeros}{value:02}" for zeros in range(4) for value in range(100)]
_STARTS = _table([*_TWO, *(two.rstrip("0") for two in _TWO)], "u8")
"""What stands before them, up to three zeros included; then the same where they are nothing."""


def csv_rows(columns: Sequence[Array]) -> Iterator[bytes]:
    """Rows of CSV with LF, some thousand at a time: integers as they are, doubles with six significant digits."""
    for start in range(0, len(columns[0]), _PIECE_ROWS):
        piece = [column[start : start + _PIECE_ROWS] for column in columns]
        cells = []
        for column in piece:
            cells += [_cells(column), np.full((len(column), 1), ord(","), np.uint8)]
        cells[-1][:] = ord("\n")
        text = np.concatenate(cells, axis=1)
        yield text.tobytes().translate(None, b"\0")


def _cells(values: Array) -> Array:
    """A row of characters for each value; NUL is no character."""
    if values.dtype == np.float64:
        return _ratio_cells(values)
    if values.dtype == np.int64 and values.min(initial=0) >= 0:
        return _integer_cells(values)
    return _any_cells(values)


def _any_cells(values: Array) -> Array:
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values.tolist()]
    return np.array(texts, "S").reshape(-1, 1).view(np.uint8)


def _integer_cells(values: Array) -> Array:
    """Non-negative integers, four digits at a time from the last."""
    groups: list[Array] = []
    rest, top = values, int(values.max(initial=0))
    while not groups or top:
        above = rest // _GROUP
        groups.append(rest - above * _GROUP + np.where(above > 0, _PADDED, _PLAIN))
        rest, top = above, top // _GROUP
    groups[0] = np.where(values == 0, _ZERO, groups[0])
    cells: Array = _GROUPS[np.stack(groups[::-1], axis=1)].view(np.uint8)
    return cells


def _ratio_cells(values: Array) -> Array:
    """``0.`` and up to three zeros, six digits without trailing zeros; what does not fit is put in place one by one."""
    odd = ~((values >= _LEAST) & (values < 1))
    ratios = np.where(odd, _LEAST, values)
    zeros = sum((ratios < step).astype(np.int64) for step in (0.1, 0.01, 0.001))
    scaled = ratios * _SCALES[zeros]
    digits = np.rint(scaled).astype(np.int64)
    carried = digits == 10**_DIGITS
    zeros -= carried
    odd |= (zeros < 0) | (np.abs(scaled - np.floor(scaled) - 0.5) < _NEAR_THE_MIDDLE)
    digits[carried] = 10 ** (_DIGITS - 1)
    first = digits // _GROUP
    rest = digits - first * _GROUP
    start = _STARTS[np.where(odd, 0, zeros) * 100 + first + np.where(rest == 0, _HEADS, 0)]
    cells = np.concatenate([start[:, None].view(np.uint8), _ENDS[rest][:, None].view(np.uint8)], axis=1)
    return _with_odd(cells, values, odd) if odd.any() else cells


def _with_odd(cells: Array, values: Array, odd: Array) -> Array:
    """The cells with those of odd values replaced; many are 0 or 1, so that each value is formatted once."""
    unlike, which = np.unique(values[odd], return_inverse=True)
    texts = _any_cells(unlike)
    width = max(texts.shape[1], cells.shape[1])
    texts, cells = (np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in (texts, cells))
    cells[odd] = texts[which]
    return cells
