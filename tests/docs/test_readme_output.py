"""The output that the README shows is the output that the commands give."""

from __future__ import annotations

import re

import pytest

from foreword.cli.app import main
from tests.support.groups import ROOT

SHOWN = re.compile(r"```console\n\$ foreword (plan [^\n|]+?)(?: \|\| [^\n]*)?\n```\n\n```\n(.*?)```", re.DOTALL)


def _shown() -> list[tuple[str, str]]:
    return SHOWN.findall((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("command", "output"), _shown(), ids=lambda text: text.splitlines()[0][:60])
def test_a_plan_prints_what_the_readme_shows(
    command: str, output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line of a sample stands in the real output, in order."""
    monkeypatch.chdir(ROOT)

    main(command.split())

    assert capsys.readouterr().out.startswith(output.rstrip())


def test_the_readme_shows_output() -> None:
    """A plan that fits and one that does not are both shown."""
    assert len(_shown()) == 2
