"""What a manifest records is enough to make its data set again (RFC 3.4.2); here is what it is made from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from foreword._version import __version__
from foreword.config.dataset import ROOT, DatasetConfig
from foreword.errors import ConfigError, DataError
from foreword.store.configs import NO_FILE, with_sources
from foreword.store.decoding import read_object
from foreword.store.frames import with_stated_frame
from foreword.store.reading import digest_problems
from foreword.store.rows import DATA, MANIFEST, ZSTD

if TYPE_CHECKING:
    from foreword.simulate.validate import Problem

_IN_THE_PACKAGE = ("builtin", "hub:")


class Recipe(NamedTuple):
    """A config and how it was made; ``made_by`` is the version that did."""

    config: DatasetConfig
    full_proof: bool
    compress: bool
    made_by: str
    manifest: dict[str, Any]

    @property
    def other_version(self) -> bool:
        """Whether another version made it, whose bytes this one need not give."""
        return self.made_by != f"foreword {__version__}"


@dataclass(frozen=True, slots=True)
class Regenerated:
    """A data set that was made again, and where it differs from the manifest's."""

    dataset_id: str
    folder: Path | None
    files: int
    problems: tuple[Problem, ...]
    made_by: str
    other_version: bool

    @property
    def exit_code(self) -> int:
        """5 where a file differs, else 0."""
        return 5 if self.problems else 0

    def document(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "dataset_id": self.dataset_id,
            "equal": not self.problems,
            "files": self.files,
            "output": None if self.folder is None else str(self.folder),
            "made_by": self.made_by,
            "this_version": f"foreword {__version__}",
            "problems": [asdict(problem) for problem in self.problems],
        }


def read_recipe(path: Path, *, tokenizer: str | None, corpus: Path | None) -> Recipe:
    """The recipe in a manifest; files that it names without their folders have to be given.

    Raises ``DataError`` for a manifest that is damaged or not of a finished data set, ``ConfigError`` for a file that
    is not given.
    """
    found = path / MANIFEST if path.is_dir() else path
    manifest = read_object(found, advice="--manifest takes the manifest.json of a data set")
    if manifest.get("state") != "complete" or not isinstance(manifest.get("config"), dict):
        raise DataError(f"{found} is no manifest of a finished data set", advice="generate the data set first")
    config = DatasetConfig.parse(manifest["config"], root=ROOT)
    if tokenizer is None and not config.tokenizer.startswith(_IN_THE_PACKAGE) and not Path(config.tokenizer).exists():
        name = config.tokenizer
        raise ConfigError(f"the tokenizer {name} is not here", field="tokenizer", advice="give it with --tokenizer")
    sources = {config.suffix.source, config.prefix.source} - {*NO_FILE, None}
    if corpus is None and sources and not Path(config.suffix.path or config.prefix.path or "").exists():
        raise ConfigError(
            f"the corpus {config.suffix.path or config.prefix.path} is not here",
            field="suffix.path",
            advice="give it with --corpus",
        )
    return Recipe(
        config=with_stated_frame(with_sources(config, tokenizer=tokenizer, corpus=corpus), manifest.get("template")),
        full_proof=(manifest.get("reencode") or {}).get("level") == "full",
        compress=f"{DATA}{ZSTD}" in (manifest.get("files") or {}),
        made_by=str(manifest.get("generator_version")),
        manifest=manifest,
    )


def compare(recipe: Recipe, folder: Path, *, kept: bool) -> Regenerated:
    """Every file that was made again against the digests that the manifest has."""
    return Regenerated(
        dataset_id=recipe.config.dataset_id,
        folder=folder if kept else None,
        files=len(recipe.manifest.get("files") or {}),
        problems=tuple(digest_problems(folder, recipe.manifest)),
        made_by=recipe.made_by,
        other_version=recipe.other_version,
    )
