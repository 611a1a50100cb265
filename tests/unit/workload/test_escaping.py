"""Escaping bytes piece by piece."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foreword.workload.escaping import escaped, escaped_ends

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(_TEXT, _TEXT)
def test_escaping_pieces_is_escaping_the_whole(left: str, right: str) -> None:
    """Joined escapes are the escape of the joined text, and a JSON reader gives the text back."""
    joined = escaped(left.encode()) + escaped(right.encode())

    assert joined == escaped((left + right).encode())
    assert json.loads(b'"' + joined + b'"') == left + right


@given(_TEXT)
def test_ends_follow_the_text(text: str) -> None:
    """Every offset of the text lies where its escaped part ends."""
    raw = text.encode()

    ends = escaped_ends(raw, np.arange(len(raw) + 1))

    assert ends.tolist() == [len(escaped(raw[:end])) for end in range(len(raw) + 1)]
