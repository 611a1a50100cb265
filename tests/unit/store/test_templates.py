"""Chat templates: where they are found, and that they render as Hugging Face's libraries render them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from foreword.errors import TokenizerError
from foreword.store.templates import A_DAY, ANOTHER_DAY, load_template, own_template, served_template
from tests.support.chat import MARKED, PLAIN, rendered, template_of, tokenizer_folder

if TYPE_CHECKING:
    from pathlib import Path


def test_a_template_is_found_beside_its_tokenizer(tmp_path: Path) -> None:
    """In the tokenizer's config, by folder or file; a special token is named by the config, plain or as an object."""
    folder = tokenizer_folder(tmp_path / "model", PLAIN, bos_token={"content": "<|pad|>", "lstrip": False})

    by_file = load_template("tokenizer", tokenizer=str(folder / "tokenizer.json"))

    assert by_file.name == "tokenizer_config.json"
    assert by_file.sha256 == template_of(folder).sha256
    assert rendered(by_file, "Hi") == "<|pad|>### user:\nHi\n\n### answer:"


def test_a_template_file_goes_before_the_config(tmp_path: Path) -> None:
    """Newer models carry chat_template.jinja; it wins."""
    folder = tokenizer_folder(tmp_path / "model", PLAIN)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}!", encoding="utf-8")

    assert rendered(template_of(folder), "Hi") == "Hi!"
    assert template_of(folder).name == "chat_template.jinja"


def test_of_several_templates_the_default_one_is_used(tmp_path: Path) -> None:
    """A config may hold a list of named templates."""
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "{{ messages[0].content }}?"}]
    folder = tokenizer_folder(tmp_path / "model", None, chat_template=named)

    assert rendered(template_of(folder), "Hi") == "Hi?"


@pytest.mark.parametrize("name", ["mine.jinja", "mine.json"])
def test_a_template_may_be_a_file_of_its_own(tmp_path: Path, name: str) -> None:
    """As text, or as the entry of a JSON file; its special tokens are the tokenizer's."""
    folder, file = tokenizer_folder(tmp_path / "model", MARKED), tmp_path / name
    file.write_text(json.dumps({"chat_template": PLAIN}) if name.endswith("json") else PLAIN, encoding="utf-8")

    template = load_template(str(file), tokenizer=str(folder))

    assert (template.name, rendered(template, "Hi")) == (name, "<|endoftext|>### user:\nHi\n\n### answer:")


def test_blanks_around_blocks_are_taken_off() -> None:
    """trim_blocks and lstrip_blocks, as models' templates expect; the built-in one keeps its line ends."""
    assert rendered(load_template("tokenizer", tokenizer="builtin"), "Hi") == "<|user|>\nHi\n<|assistant|>\n"


def test_what_the_libraries_offer_to_templates_is_there(tmp_path: Path) -> None:
    """Their filter, their functions, loop controls, generation blocks and arguments."""
    source = (
        "{% for message in messages %}\n"
        "    {% if loop.index > 1 %}{% break %}{% endif %}\n"
        "{% generation %}{{ message | tojson }}{% endgeneration %}\n"
        "{% endfor %}"
        "{{ strftime_now('%Y') }} {{ kind }} {{ tools is none }}"
    )
    (tmp_path / "all.jinja").write_text(source, encoding="utf-8")
    template = load_template(str(tmp_path / "all.jinja"), tokenizer="builtin")
    messages = [{"role": "user", "content": "é <b>"}, {"role": "user", "content": "never"}]

    text = template.render(messages, now=ANOTHER_DAY, arguments={"kind": "dry"})

    assert text == '{"role": "user", "content": "é <b>"}2025 dry True'


REFUSED = {
    "syntax": ("{% for %}", "is not a Jinja template"),
    "exception": ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
    "undefined": ("{{ nobody.name }}", "cannot be rendered"),
    "sandbox": ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "cannot be rendered"),
    "changes": ("{{ messages.append(1) }}", "cannot be rendered"),
}


@pytest.mark.parametrize(("source", "words"), list(REFUSED.values()), ids=list(REFUSED))
def test_a_template_that_fails_is_one_line(tmp_path: Path, source: str, words: str) -> None:
    """Whatever a template does, the message names it and says what is wrong; nothing outside it is reached."""
    (tmp_path / "bad.jinja").write_text(source, encoding="utf-8")

    with pytest.raises(TokenizerError, match=words) as caught:
        load_template(str(tmp_path / "bad.jinja"), tokenizer="builtin").render(
            [{"role": "user", "content": "Hi"}], now=A_DAY
        )

    assert "bad.jinja" in caught.value.message
    assert "\n" not in str(caught.value)


def test_a_missing_template_says_where_it_is_looked_for(tmp_path: Path) -> None:
    """A tokenizer without one, and a file that is not there; the server then has the built-in one."""
    folder = tokenizer_folder(tmp_path / "model", None)

    with pytest.raises(TokenizerError, match="no chat template") as without:
        template_of(folder)
    with pytest.raises(TokenizerError, match=r"cannot read chat template .*none\.jinja"):
        load_template(str(tmp_path / "none.jinja"), tokenizer="builtin")
    (tmp_path / "empty.json").write_text("{}", encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"empty\.json holds no chat_template"):
        load_template(str(tmp_path / "empty.json"), tokenizer="builtin")

    assert "chat_template" in without.value.advice
    assert own_template(str(folder)) is None
    assert served_template("tokenizer", tokenizer=str(folder)).name == "builtin"
