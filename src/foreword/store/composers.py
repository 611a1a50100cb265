"""A composer from names and numbers alone, so that any process can build the same one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from foreword.store.corpora import DEFAULT_STORIES, Source, load_corpus
from foreword.store.tokenizers import load_tokenizer
from foreword.workload.content import ContentOptions, prepare

if TYPE_CHECKING:
    from foreword.workload.content import Composer, ContentPlan
    from foreword.workload.stories import StoryLanguage
    from foreword.workload.units import Corpus


@dataclass(frozen=True, slots=True)
class CorpusSpec:
    """Where samples come from; the arguments of ``load_corpus``."""

    source: Source = "builtin"
    path: str | None = None
    language: StoryLanguage = "en"
    seed: int = 0
    stories: int = DEFAULT_STORIES

    def load(self) -> Corpus:
        """Read the samples."""
        return load_corpus(self.source, path=self.path, language=self.language, seed=self.seed, stories=self.stories)


@dataclass(frozen=True, slots=True, eq=False)
class ComposerSpec:
    """All that a composer depends on; small enough to send to a worker process."""

    tokenizer: str
    corpus: CorpusSpec
    plan: ContentPlan
    options: ContentOptions = field(default_factory=ContentOptions)
    prefix_corpus: CorpusSpec | None = None


def build_composer(spec: ComposerSpec) -> Composer:
    """Load tokenizer and corpora and prepare; the same spec gives the same prompts in every process."""
    tokenizer = load_tokenizer(spec.tokenizer)
    corpus = spec.corpus.load()
    other = spec.prefix_corpus
    prefix = corpus if other is None or other == spec.corpus else other.load()
    return prepare(tokenizer, corpus, spec.plan, spec.options, prefix_corpus=prefix)
