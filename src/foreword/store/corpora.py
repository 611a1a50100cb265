"""Corpora from files or from the built-in story generator."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from foreword.errors import ConfigError, DataError
from foreword.workload.stories import pool
from foreword.workload.units import Corpus, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from foreword.workload.stories import StoryLanguage

Source = Literal["builtin", "gsm8k", "text", "random_tokens"]
DEFAULT_STORIES = 4_096
HUB = "hub"

_GSM8K_FILES = ("train.jsonl", "test.jsonl")
_GSM8K_NAME = "openai/gsm8k"
_TEXT_SUFFIXES = frozenset({".txt", ".md", ".rst", ".jsonl"})
_LONGEST_SAMPLE = 2_000
_SHORT_STORY = 40
_VARIED_STORIES = 8_192
_MOST_STORIES = 65_536
_FEWEST_STORIES = 1_024
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_SENTENCE = re.compile(r"(?<=[.!?])(?=\s)|(?<=[。！？])(?![。！？”’」』）\s])|(?<=\S)(?=\n)")


def load_corpus(
    source: Source,
    *,
    path: str | None = None,
    language: StoryLanguage = "en",
    seed: int = 0,
    stories: int = DEFAULT_STORIES,
) -> Corpus:
    """Samples of a source; ``path`` is the file or folder, ``stories`` the size of the built-in pool."""
    match source:
        case "builtin":
            samples = tuple(
                Sample(f"{language}:{index}", text) for index, text in pool(stories, seed, language=language)
            )
        case "gsm8k":
            samples = tuple(_hub_questions() if path == HUB else _questions(_required(source, path)))
        case "text":
            samples = tuple(_texts(_required(source, path)))
        case "random_tokens":
            samples = ()
    if not samples and source != "random_tokens":
        raise DataError(f"{path} holds no text", advice="give a file or folder with text", field="suffix.path")
    return Corpus(source, samples, _digest(samples))


def stories_for(*, longest: int, shared: int, total: int, apart: bool = False) -> int:
    """Size of the built-in pool: a power of two that gives every prompt and master stories of its own.

    ``longest`` tokens in a prompt, ``shared`` in all masters together, ``total`` in the data set. With ``apart`` no two
    prompts should have a story in common.
    """
    most = _MOST_STORIES if apart else _VARIED_STORIES
    needed = max((2 * longest + shared) // _SHORT_STORY, min(total // _SHORT_STORY, most), _FEWEST_STORIES)
    return int(1 << (needed - 1).bit_length())


def _required(source: Source, path: str | None) -> Path:
    if path is None:
        raise ConfigError(
            f"source {source} needs a path",
            advice="set suffix.path (or prefix.path, or --corpus) to the file or folder",
            field="suffix.path",
        )
    return Path(path).expanduser()


def _questions(path: Path) -> Iterator[Sample]:
    """Question and answer of each row of ``train.jsonl`` and ``test.jsonl``, or of one file."""
    folder, wanted = (path.parent, (path.name,)) if path.is_file() else (path, _GSM8K_FILES)
    names = [name for name in wanted if (folder / name).is_file()]
    if not names:
        raise ConfigError(
            f"no {' or '.join(_GSM8K_FILES)} in {folder}",
            advice="give the folder of GSM8K's JSON lines, or use source: builtin, which needs no file",
            field="suffix.path",
        )
    for name in names:
        for number, row in _rows(folder / name):
            yield Sample(f"{name.removesuffix('.jsonl')}:{number}", _question(row, folder / name, number))


def _hub_questions() -> Iterator[Sample]:
    """GSM8K through the ``datasets`` library."""
    try:
        from datasets import load_dataset  # noqa: PLC0415 - the extra may be absent
    except ImportError as error:
        raise ConfigError(
            "GSM8K from the hub needs the extra hub",
            advice="pip install 'foreword[hub]', or give the folder with train.jsonl",
            field="suffix.path",
        ) from error
    for split in ("train", "test"):
        for number, row in enumerate(load_dataset(_GSM8K_NAME, "main", split=split), start=1):
            yield Sample(f"{split}:{number}", _question(row, Path(_GSM8K_NAME), number))


def _question(row: object, path: Path, number: int) -> str:
    match row:
        case {"question": str(question), "answer": str(answer)}:
            return f"{question}\n{answer}"
        case _:
            raise DataError(f"{path.name} line {number}: no question and answer", field="suffix.path")


def _rows(path: Path) -> Iterator[tuple[int, object]]:
    """Rows of a JSON Lines file with their line numbers; blank lines are left out."""
    for number, line in enumerate(_read(path).splitlines(), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise DataError(f"{path.name} line {number}: not JSON", field="suffix.path") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}", advice="give a file or folder with text", field="suffix.path"
        ) from error


def _texts(path: Path) -> Iterator[Sample]:
    """Paragraphs of text files, or the texts of JSON Lines; folders are read in order of name."""
    if not path.is_dir():
        yield from _file_samples(path, path.name)
        return
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.suffix in _TEXT_SUFFIXES:
            yield from _file_samples(file, file.relative_to(path).as_posix())


def _file_samples(path: Path, name: str) -> Iterator[Sample]:
    if path.suffix == ".jsonl":
        for number, row in _rows(path):
            yield Sample(f"{name}:{number}", _row_text(row, path, number))
        return
    paragraphs = (part for part in _BLANK_LINE.split(_read(path)) if part.strip())
    pieces = (piece for part in paragraphs for piece in _shortened(part.strip()))
    for number, piece in enumerate(pieces, start=1):
        yield Sample(f"{name}:{number}", piece)


def _row_text(row: object, path: Path, number: int) -> str:
    match row:
        case str(text) | {"text": str(text)} | {"prompt": str(text)}:
            return text
        case {"question": str(), "answer": str()}:
            return _question(row, path, number)
        case _:
            raise DataError(f"{path.name} line {number}: no text, prompt, or question and answer", field="suffix.path")


def _shortened(paragraph: str) -> Iterator[str]:
    """The paragraph, or runs of its sentences where it is longer than a sample should be."""
    if len(paragraph) <= _LONGEST_SAMPLE:
        yield paragraph
        return
    run = ""
    for sentence in _SENTENCE.split(paragraph):
        for start in range(0, len(sentence), _LONGEST_SAMPLE):
            piece = sentence[start : start + _LONGEST_SAMPLE]
            if run and len(run) + len(piece) >= _LONGEST_SAMPLE:
                yield run.strip()
                run = ""
            run += piece
    if run.strip():
        yield run.strip()


def _digest(samples: Iterable[Sample]) -> str:
    """Digest of names and texts in order."""
    digest = hashlib.sha256()
    for sample in samples:
        for part in (sample.name, sample.text):
            data = part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
