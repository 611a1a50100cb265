"""Settings of other tools as data-set configs of ours, with what became of each setting that has no counterpart."""

from __future__ import annotations

import json
import shlex
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from foreword.config.dataset import ROOT, DatasetConfig
from foreword.errors import ConfigError, DataError
from foreword.store.atomic import replace_file
from foreword.store.import_plugin import from_scenario
from foreword.store.import_tool import from_tool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class ImportFormat(StrEnum):
    """Whose settings are read."""

    AISBENCH_PLUGIN = "aisbench-plugin"
    AISBENCH_TOOL = "aisbench-tool"


class Imported(NamedTuple):
    """A config, the addresses that the source names, and what of it has no counterpart."""

    config: DatasetConfig
    url: str
    metrics_urls: tuple[str, ...]
    notes: tuple[str, ...]
    output: Path

    @property
    def commands(self) -> tuple[str, ...]:
        """How to go on."""
        metrics = "".join(f" --metrics-url {shlex.quote(each)}" for each in self.metrics_urls)
        config = shlex.quote(str(self.output))
        return (
            f"foreword plan --config {config}",
            f"foreword generate --config {config} --output dataset",
            f"foreword run --dataset dataset --url {shlex.quote(self.url)}{metrics}",
        )


def import_settings(inputs: Sequence[Path], output: Path, *, source: ImportFormat, engine: str) -> Imported:
    """Read settings, and write the config that plans the same.

    Raises ``ConfigError`` or ``DataError`` that names file and key for what cannot be read or has no equal here.
    """
    match source:
        case ImportFormat.AISBENCH_PLUGIN:
            if len(inputs) != 1:
                raise ConfigError("a scenario is one file", field="--input", advice="give it once")
            draft = from_scenario(_json(inputs[0]), inputs[0].parent, engine=engine)
        case ImportFormat.AISBENCH_TOOL:
            draft = from_tool([(path, _text(path)) for path in inputs], engine=engine)
    config = DatasetConfig.parse(draft.config, root=ROOT)
    made = Imported(config, draft.url, draft.metrics_urls, draft.notes, output)
    replace_file(output, _yaml(draft.config, draft.notes, source).encode())
    return made


def _yaml(config: dict[str, Any], notes: Sequence[str], source: ImportFormat) -> str:
    """The config below its root key, behind what is to be known of it."""
    head = [f"# Imported from {source}. What has no counterpart here:", *(f"# - {note}" for note in notes)]
    body = yaml.safe_dump({ROOT: config}, sort_keys=False, allow_unicode=True)
    return "\n".join([*head, body])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as failure:
        raise ConfigError(f"cannot read {path}: {failure.strerror}", field="--input") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: is no UTF-8 text", field="--input") from None


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(_text(path))
    except ValueError as failure:
        raise DataError(f"{path}: is not JSON: {failure}", field="--input") from None
    if not isinstance(document, dict):
        raise DataError(f"{path}: must be a JSON object", field="--input")
    return document
