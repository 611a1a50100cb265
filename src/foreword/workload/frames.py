"""Where a chat template's own tokens end and those of the content begin (theory section 3; design: content, 6).

A template is text around the content. Its head and tail are known once several contents, which differ in their first
and last words, come back with their own ids between the same ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.errors import TokenizerError
from foreword.workload.tokens import Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foreword.workload.tokens import TokenizerProtocol

PROBES = ("The river and the boat", "Another house by day", "Who")
"""Contents that differ in their first and last words."""

_ADVICE = "use prompt_format: completions_ids, or another chat_template"


def split_template(render: Callable[[str], str]) -> tuple[str, str]:
    """Text that a template puts before and after any content; TokenizerError where that depends on the content."""
    sides = {_around(render(probe), probe) for probe in PROBES}
    if len(sides) > 1:
        raise _unfit("writes other text around another content")
    return sides.pop()


def _around(rendered: str, content: str) -> tuple[str, str]:
    if rendered.count(content) != 1:
        raise _unfit(f"writes the content {rendered.count(content)} times instead of once, or changes it")
    before, _, after = rendered.partition(content)
    return before, after


def frame_of_text(tokenizer: TokenizerProtocol, before: str, *, after: str) -> Frame:
    """Ids of the text around a content; TokenizerError where they depend on the content."""
    sides = common_frame([(tokenizer.encode(f"{before}{probe}{after}"), tokenizer.encode(probe)) for probe in PROBES])
    if sides is None:
        raise _unfit("has text whose tokens merge with those of the content")
    return Frame(*sides, head_text=before, tail_text=after)


def common_frame(seen: Sequence[tuple[Sequence[int], Sequence[int]]]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Head and tail of prompts, each given with its content's own ids; None where they are not the same in all."""
    found = {_frame_ids(whole, content) for whole, content in seen}
    return found.pop() if len(found) == 1 else None


def _frame_ids(whole: Sequence[int], content: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Ids before and after the content's own, where these come once."""
    size = len(content)
    starts = [start for start in range(len(whole) - size + 1) if list(whole[start : start + size]) == list(content)]
    if len(starts) != 1:
        return None
    return tuple(whole[: starts[0]]), tuple(whole[starts[0] + size :])


def first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    """Place of the first id in which two lists differ, or where the shorter one ends."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _unfit(what: str) -> TokenizerError:
    return TokenizerError(f"TEMPLATE_NOT_FIT: the chat template {what}", advice=_ADVICE, field="chat_template")
