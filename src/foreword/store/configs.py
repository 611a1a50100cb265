"""Config files: YAML with the RFC's root key, overrides from the command line, and columns that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from foreword.config.dataset import OWN_TEMPLATE, ROOT, DatasetConfig
from foreword.errors import ConfigError
from foreword.store.columns import read_column

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from foreword.config.dataset import Source
    from foreword.config.lengths import LengthLaw

NO_FILE = frozenset({"builtin", "random_tokens"})
"""Sources of text that read no file."""

_LENGTH_COLUMNS = ("input_length", "input_len", "prompt_tokens", "ContextTokens", "length", "tokens")
_OUTPUT_COLUMNS = ("output_length", "output_len", "completion_tokens", "GeneratedTokens", "length", "tokens")
_GROUP_COLUMNS = ("prefix_group_id", "group", "group_id")


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a key that is given twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - the base class's signature
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is no plain word", key_node.start_mark)
            if key_node.value in seen:
                problem = f"key {key_node.value} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)


def load_dataset_config(path: Path, *, overrides: Sequence[str] = ()) -> DatasetConfig:
    """Read and validate a data-set config; files that it names are taken relative to its folder.

    ``overrides`` are ``path.to.key=value`` with a YAML value, below the root key.

    Raises ``ConfigError`` that names the file and line, or the key.
    """
    document = read_yaml(path)
    if not isinstance(document, dict) or ROOT not in document:
        found = f"found {', '.join(map(str, document))}" if isinstance(document, dict) and document else "found nothing"
        raise ConfigError(f"{path.name}: the root key {ROOT} is missing", field=ROOT, advice=found)
    others = [key for key in document if key != ROOT]
    if others:
        raise ConfigError(f"{path.name}: unknown root key {others[0]}", field=str(others[0]), advice=f"only {ROOT}")
    tree = document[ROOT]
    if not isinstance(tree, dict):
        raise ConfigError(f"{path.name}: {ROOT} has no keys below it", field=ROOT)
    for override in overrides:
        _override(tree, override)
    return _with_files(DatasetConfig.parse(tree, root=ROOT), path.parent)


def with_sources(config: DatasetConfig, *, tokenizer: str | None, corpus: Path | None) -> DatasetConfig:
    """Put a tokenizer and a text source from the command line, relative to the working folder, over the config's.

    A config that leaves the source open gets the one that the path holds: GSM8K where there is its ``train.jsonl`` or
    ``test.jsonl``, else text. Raises ``ConfigError`` where the config asks for a source that reads no file.
    """
    changed: dict[str, Any] = {}
    if tokenizer is not None:
        changed["tokenizer"] = tokenizer
    if corpus is not None:
        suffix = config.suffix
        if "source" not in suffix.model_fields_set:
            suffix = suffix.model_copy(update={"source": _source_at(corpus)})
        if {suffix.source, config.prefix.source} <= {*NO_FILE, None}:
            message = f"--corpus {corpus}: suffix.source {config.suffix.source} reads no file"
            raise ConfigError(message, field="suffix.source", advice="set suffix.source to text or gsm8k")
        changed["suffix"] = suffix.model_copy(update={"path": str(corpus)})
    return config.model_copy(update=changed)


def _source_at(path: Path) -> Source:
    """What a file or folder holds, by the names of its files."""
    files = [path.name] if path.is_file() else [file.name for file in path.glob("*.jsonl")]
    return "gsm8k" if set(files) & {"train.jsonl", "test.jsonl"} else "text"


def read_yaml(path: Path) -> object:
    """Parse one YAML file, with errors on one line."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as failure:
        raise ConfigError(f"{path}: cannot be read: {failure.strerror}", field="config") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text", field="config") from None
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as failure:
        line = failure.problem_mark.line + 1 if failure.problem_mark else 1
        raise ConfigError(f"{path}:{line}: {failure.problem}", field="config") from None
    except yaml.YAMLError as failure:
        raise ConfigError(f"{path}: {str(failure).splitlines()[0]}", field="config") from None


def _override(tree: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    keys = path.strip().removeprefix(f"{ROOT}.").split(".")
    if not equals or not all(keys):
        raise ConfigError(f"--set {override}: expected path.to.key=value", field=path)
    node = tree
    for key in keys[:-1]:
        below = node.get(key)
        if below is not None and not isinstance(below, dict):
            raise ConfigError(f"--set {override}: {key} holds a value, not keys", field=path)
        node[key] = node = dict(below or {})
    try:
        node[keys[-1]] = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"--set {override}: the value is not YAML", field=path) from None


def _with_files(config: DatasetConfig, folder: Path) -> DatasetConfig:
    """Read the columns that a config names, and make its other paths absolute."""
    lengths = {
        "input_length": _with_values(config.input_length, folder, columns=_LENGTH_COLUMNS, field="input_length"),
        "output_length": _with_values(config.output_length, folder, columns=_OUTPUT_COLUMNS, field="output_length"),
    }
    prefix = config.prefix.model_copy(update={"path": _absolute(config.prefix.path, folder)})
    if isinstance(prefix.assignment, str):
        names = read_column(folder / prefix.assignment, None, known=_GROUP_COLUMNS, field="prefix.assignment")
        prefix = prefix.model_copy(update={"assignment": tuple(str(name) for name in names)})
    suffix = config.suffix.model_copy(update={"path": _absolute(config.suffix.path, folder)})
    tokenizer = config.tokenizer
    if tokenizer != "builtin" and not tokenizer.startswith("hub:"):
        tokenizer = str(_absolute(tokenizer, folder))
    template = config.chat_template
    if template != OWN_TEMPLATE:
        template = str(_absolute(template, folder))
    changed = {"prefix": prefix, "suffix": suffix, "tokenizer": tokenizer, "chat_template": template}
    return config.model_copy(update={**lengths, **changed})


def _absolute(path: str | None, folder: Path) -> str | None:
    return None if path is None else str((folder / Path(path).expanduser()).resolve())


def _with_values(law: LengthLaw, folder: Path, *, columns: tuple[str, ...], field: str) -> LengthLaw:
    if law.mode not in {"explicit", "empirical"} or law.path is None:
        return law
    found = read_column(folder / law.path, law.column, known=columns, field=f"{field}.path")
    lengths: list[int] = []
    for row, value in enumerate(found, start=1):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            message = f"{field}.path: row {row} of {Path(law.path).name} has length {value!r}"
            raise ConfigError(message, field=f"{field}.path", advice="lengths are integers of at least 1")
        lengths.append(value)
    return law.model_copy(update={"values": tuple(lengths), "path": None, "column": None})
