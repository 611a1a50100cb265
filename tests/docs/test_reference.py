"""The reference pages name everything that exists."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from foreword.cli.app import COMMANDS
from foreword.config.dataset import DatasetConfig
from foreword.config.replay import ReplayConfig
from foreword.config.server import ServerConfig
from tests.support.groups import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel


def keys_and_choices(schema: object) -> set[str]:
    """Every property name and every enumerated or constant text of a JSON schema."""
    match schema:
        case dict():
            own: set[str] = set(schema.get("properties", {}))
            own |= {value for value in (*schema.get("enum", ()), schema.get("const")) if isinstance(value, str)}
            return own.union(*(keys_and_choices(value) for value in schema.values()))
        case list():
            return set[str]().union(*(keys_and_choices(value) for value in schema))
        case _:
            return set()


def quoted_words(page: str) -> set[str]:
    """Words that a page sets in code, or that stand as keys in its examples."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    code = re.findall(r"```.*?```", text, re.DOTALL) + re.findall(r"`[^`\n]+`", text.replace("```", ""))
    return set(re.findall(r"\w+", " ".join(code)))


@pytest.mark.parametrize(
    ("model", "page"),
    [(DatasetConfig, "configuration.md"), (ServerConfig, "configuration.md"), (ReplayConfig, "replay.md")],
)
def test_the_page_of_a_config_names_every_key_and_choice(model: type[BaseModel], page: str) -> None:
    """No key, and no value that a key can take, is left out of the page about a config."""
    schema: Mapping[str, object] = model.model_json_schema()

    assert keys_and_choices(dict(schema)) - quoted_words(page) == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_page_names_every_option(command: str) -> None:
    """The section of a command names each option of its help; what all commands share stands at the top."""
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    head, _, rest = page.partition(f"## `foreword {command}`")
    section = head.partition("## ")[0] + rest.partition("\n## ")[0]
    done = subprocess.run(
        [sys.executable, "-m", "foreword", command, "--help"], capture_output=True, text=True, check=True
    )

    options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", done.stdout))
    assert rest
    assert {option for option in options - {"--help", "--version"} if f"`{option}`" not in section} == set()
