"""What engines put around prompts: heads and tails of formats, templates and probed servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from foreword.errors import ConfigError, TokenizerError
from foreword.store.frames import framing_for, with_stated_frame
from foreword.store.tokenizers import load_tokenizer
from foreword.workload.tokens import Frame
from tests.support.chat import BRACKETS, DATED, KINDS, MARKED, chat_config, rendered, template_of, tokenizer_folder
from tests.support.content import builtin_tokenizer
from tests.support.small_tokenizers import small_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from foreword.store.frames import Framing


def _framing(folder: Path, **changes: object) -> Framing:
    return framing_for(load_tokenizer(str(folder)), chat_config(tokenizer=str(folder), **changes))


def test_ids_have_no_frame_and_text_has_the_tokenizers() -> None:
    """Engines send ids on as they are, and put the special tokens of the file around text."""
    tokenizer = small_tokenizer("sentencepiece")

    ids, text = (framing_for(tokenizer, chat_config(prompt_format=f"completions_{kind}")) for kind in ("ids", "text"))

    assert ids.frame == Frame()
    assert text.frame == tokenizer.frame() != Frame()
    assert (ids.document, text.document) == (None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_head_and_tail_are_what_the_template_puts_around_a_message(tmp_path: Path, kind: str) -> None:
    """Head, content and tail are the ids of the rendered chat, for contents that were not probed."""
    folder = tokenizer_folder(tmp_path / kind, KINDS[kind])
    framing, tokenizer = _framing(folder), load_tokenizer(str(folder))

    for content in ("A day in May", "Words", "Three towns by the sea keep"):
        whole = tokenizer.encode(rendered(template_of(folder), content))
        assert framing.frame.ids_around(tokenizer.encode(content)) == whole
        assert framing.frame.around(content) == rendered(template_of(folder), content)
    assert framing.source == "tokenizer_config.json"


def test_arguments_of_a_template_change_its_frame(tmp_path: Path) -> None:
    """Such as Qwen's enable_thinking, which adds to the tail."""
    folder = tokenizer_folder(tmp_path / "model", MARKED + "{% if quiet %}<|pad|>{% endif %}")

    loud, quiet = _framing(folder).frame, _framing(folder, chat_template_kwargs={"quiet": True}).frame

    assert quiet.tail_ids == (*loud.tail_ids, 3)
    assert quiet.head_ids == loud.head_ids


def test_a_template_that_writes_the_date_is_refused_with_its_place(tmp_path: Path) -> None:
    """Case 33: what is cached today would not be hit tomorrow; given a date, the template is as good as any."""
    folder = tokenizer_folder(tmp_path / "model", DATED)
    same = builtin_tokenizer().encode("<|start|>system\nToday: ")

    with pytest.raises(ConfigError, match=f"TEMPLATE_HAS_DATE.* token {len(same)}:") as caught:
        _framing(folder)
    fixed = _framing(folder, chat_template_kwargs={"date_string": "1 May 2026"}).frame

    assert caught.value.field == "chat_template"
    assert "date_string" in caught.value.advice
    assert "1 May 2026" in fixed.head_text


UNFIT = {
    "twice": "{{ messages[0].content }} {{ messages[0].content }}",
    "dropped": "hello",
    "changed": "{{ messages[0].content | upper }}",
    "depends": "{{ messages[0].content | length }} {{ messages[0].content }}",
    "space-before": BRACKETS,
    "merges-before": "un{{ messages[0].content | lower }}",
    "merges-after": "{{ messages[0].content }}s",
}


@pytest.mark.parametrize("source", list(UNFIT.values()), ids=list(UNFIT))
def test_a_template_whose_tokens_depend_on_the_content_is_refused(tmp_path: Path, source: str) -> None:
    """Prompts could not be planned to the token."""
    folder = tokenizer_folder(tmp_path / "model", source)

    with pytest.raises(TokenizerError, match="TEMPLATE_NOT_FIT") as caught:
        _framing(folder)

    assert "completions_ids" in caught.value.advice


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_text", [True, False])
def test_a_stated_frame_needs_no_template(tmp_path: Path, kind: str, *, with_text: bool) -> None:
    """What a manifest or a probe states gives the same frame, from its text or from the ids alone."""
    folder = tokenizer_folder(tmp_path / kind, KINDS[kind])
    found = _framing(folder)
    stated = dict(found.document or {})
    if not with_text:
        del stated["head_text"], stated["tail_text"]

    config = with_stated_frame(chat_config(chat_template="gone.jinja"), stated)

    again = framing_for(load_tokenizer(str(folder)), config)
    assert again.frame == found.frame
    assert again.source == "probed"


def test_a_stated_frame_of_another_tokenizer_is_refused() -> None:
    """Its ids do not exist, or its text has other ids."""
    for frame, words in (
        ({"head_ids": [9_000]}, "id 9000"),
        ({"head_ids": [5], "head_text": "<|start|>"}, "other ids"),
    ):
        with pytest.raises(ConfigError, match=words) as caught:
            framing_for(builtin_tokenizer(), chat_config(frame=frame))
        assert caught.value.field == "frame"


def test_ids_that_are_no_text_of_their_own_stand_beside_the_content() -> None:
    """A probed BOS, say: content is then encoded alone."""
    framing = framing_for(builtin_tokenizer(), chat_config(frame={"head_ids": [300, 301], "tail_ids": []}))

    assert (framing.frame.head_ids, framing.frame.tail_ids) == ((300, 301), ())


def test_sentencepiece_takes_templates_of_text(tmp_path: Path) -> None:
    """The space of the template is the one that the content's first token begins with."""
    (tmp_path / "inst.jinja").write_text(BRACKETS, encoding="utf-8")
    tokenizer = small_tokenizer("sentencepiece")

    frame = framing_for(tokenizer, chat_config(chat_template=str(tmp_path / "inst.jinja"))).frame

    assert frame.ids_around(tokenizer.encode("The sea")) == tokenizer.encode("[INST] The sea [/INST]")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt_format": "completions_ids", "frame": {"head_ids": [1]}}, "frame"),
        ({"prompt_format": "completions_text", "chat_template": "mine.jinja"}, "prompt_format: chat"),
        ({"prompt_format": "completions_text", "chat_template_kwargs": {"a": 1}}, "prompt_format: chat"),
    ],
)
def test_a_template_that_no_prompt_meets_is_an_error(changes: dict[str, Any], words: str) -> None:
    """A key that would be ignored is refused."""
    with pytest.raises(ConfigError, match=words):
        chat_config(**changes)
