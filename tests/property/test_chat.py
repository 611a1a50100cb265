"""Chat prompts: exact behind any head and before any tail, with the hits that the plan says (Law 5, the trunk law).

Each prompt is rendered by the template and encoded as a whole, as a server does it; nothing is taken from the frame.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.store.frames import chat_frame
from foreword.store.templates import ChatTemplate, load_template, own_template
from foreword.store.tokenizers import LoadedTokenizer, load_tokenizer
from foreword.workload.content import ContentOptions, prepare
from tests.support.chat import BRACKETS, KINDS, rendered
from tests.support.content import (
    builtin_tokenizer,
    few_stories,
    planned_hits,
    random_words,
    served_hits,
    spread_plan,
    text_of,
)
from tests.support.small_tokenizers import small_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from foreword.workload.units import Corpus

BLOCK_SIZES = (1, 16, 32, 128, 784)


@cache
def _template(folder: Path, source: str) -> ChatTemplate:
    path = folder / f"{abs(hash(source))}.jinja"
    path.write_text(source, encoding="utf-8")
    return load_template(str(path), tokenizer="builtin")


def _check(
    tokenizer: LoadedTokenizer, template: ChatTemplate, corpus: Corpus, *, block_size: int, minimum: int, seed: int
) -> None:
    """Rendered and encoded, every prompt has its length, its prefix, and the hits of the plan."""
    frame = chat_frame(tokenizer, template, arguments={})
    longest = max(400, 2 * block_size + 200)
    plan = spread_plan(40, block_size=block_size, frame=frame, lengths=(40, longest), minimum=minimum, seed=seed)
    composer = prepare(tokenizer, corpus, plan=plan, options=ContentOptions(full_least=0, full_share=0))

    prompts = composer.compose(range(40))

    seen = [tokenizer.encode(rendered(template, text_of(prompt))) for prompt in prompts]
    assert [len(ids) for ids in seen] == plan.input_len.tolist()
    assert [frame.ids_around(prompt.ids.tolist()) for prompt in prompts] == seen
    assert served_hits(seen, block_size) == planned_hits(plan)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where templates are kept."""
    return tmp_path_factory.mktemp("templates")


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    source=st.sampled_from([few_stories, random_words]),
    pad=st.text("abcdefgh ", max_size=90),
    minimum=st.sampled_from([1, 5, 16, 900]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=3)
def test_chats_are_exact_in_any_template(  # noqa: PLR0913 - each is a case to vary
    folder: Path, block_size: int, *, kind: str, source: Callable[[], Corpus], pad: str, minimum: int, seed: int
) -> None:
    """Heads of any length, with and without a token before the content and behind it."""
    template = _template(folder, f"{pad}\n\n{KINDS[kind]}")

    _check(builtin_tokenizer(), template, source(), block_size=block_size, minimum=minimum, seed=seed)


@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("qwen-like", KINDS["plain"]),
        ("gpt2-like", KINDS["plain"]),
        ("tekken-like", KINDS["plain"]),
        ("unknown", KINDS["plain"]),
        ("sentencepiece", BRACKETS),
        ("unigram", BRACKETS),
    ],
)
def test_chats_are_exact_in_every_family(folder: Path, name: str, source: str, block_size: int) -> None:
    """Tails of text, which may not merge with what a sample ends in."""
    corpus = few_stories("en", 1_500)

    _check(small_tokenizer(name), _template(folder, source), corpus, block_size=block_size, minimum=1, seed=block_size)


@pytest.mark.tokenizers
@pytest.mark.parametrize("name", ["qwen", "deepseek", "sp32000"])
@pytest.mark.parametrize("block_size", [16, 128])
def test_chats_are_exact_with_real_tokenizers_and_their_templates(
    tokenizer_file: Callable[[str], Path], folder: Path, name: str, block_size: int
) -> None:
    """The template that comes with each, found beside the file; Mistral's kind for the one that has none."""
    path = str(tokenizer_file(name))
    template = own_template(path) or _template(folder, BRACKETS)

    _check(load_tokenizer(path), template, few_stories("en", 1_500), block_size=block_size, minimum=1, seed=block_size)
