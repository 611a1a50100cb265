"""Samples with known ids, ready to be joined.

A *unit* is a sample with the separator's parts around it, encoded once between other samples; an *end unit* is the same
sample as the last thing of a prompt. Samples that cannot be joined exactly are dropped and counted by reason.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from foreword.config.dataset import HASHED
from foreword.errors import ConfigError, ConstructionError
from foreword.workload.escaping import escaped
from foreword.workload.joints import bad_joints, probe_ends, probe_units, unsafe_characters
from foreword.workload.tokens import SPACE_MARK, Family
from foreword.workload.vocabulary import SENTINEL, proved_by_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foreword.terms import IntArray
    from foreword.workload.joints import Separator
    from foreword.workload.tokens import TokenizerProtocol, Vocabulary

UNSAFE = ("special text", "lone surrogate", "NUL")
"""Why a sample is unsafe whatever stands beside it: control tokens, bytes that are no UTF-8, NUL."""

_BOUNDARY = re.compile(r"(?<=[!-~]) (?=[A-Za-z])")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHORTEST_TAIL = 12
_CHUNK = 2_048


@dataclass(frozen=True, slots=True)
class Sample:
    """One piece of a corpus: its name in the corpus, and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Units:
    """Units and end units, by place; ``raw`` is a unit's text, ``stops`` the bytes at which its tokens end.

    ``end_raw`` and the others hold the same for end units. ``dropped`` counts samples by reason, ``refused`` has
    the reason for each of them.
    """

    names: tuple[str, ...]
    raw: tuple[bytes, ...]
    texts: tuple[bytes, ...]
    ids: tuple[IntArray, ...]
    lengths: IntArray
    end_raw: tuple[bytes, ...]
    end_texts: tuple[bytes, ...]
    end_ids: tuple[IntArray, ...]
    end_stops: tuple[IntArray, ...]
    end_lengths: IntArray
    dropped: Mapping[str, int]
    refused: Mapping[str, str]
    joints: int
    replacement_characters: int

    def __len__(self) -> int:
        """Number of units."""
        return len(self.names)


def no_units() -> Units:
    """Units of a source that has no samples (random words)."""
    nothing = np.zeros(0, np.int64)
    return Units((), (), (), (), nothing, (), (), (), (), nothing, {}, {}, 0, 0)


@dataclass(frozen=True, slots=True)
class _Found:
    """A sample that passed every check so far."""

    sample: Sample
    unit: tuple[int, ...]
    end: tuple[int, ...]
    stops: IntArray


def read_units(tokenizer: TokenizerProtocol, samples: Sequence[Sample], *, separator: Separator) -> Units:
    """Encode, check and filter samples; the order of the corpus is kept."""
    vocabulary = tokenizer.pieces()
    refused: dict[str, str] = {}
    clean = _clean(tokenizer, vocabulary, samples, refused)
    lasts, firsts = {s.text[-1] for s in clean}, {s.text[0] for s in clean}
    no_last, no_first = unsafe_characters(bad_joints(tokenizer, separator, lasts=lasts, firsts=firsts))
    joinable = [s for s in clean if s.text[-1] not in no_last and s.text[0] not in no_first]
    kept = {sample.name for sample in joinable}
    refused |= dict.fromkeys((sample.name for sample in clean if sample.name not in kept), "joint moves")
    found: list[_Found] = []
    for start in range(0, len(joinable), _CHUNK):
        found += _encoded(tokenizer, joinable[start : start + _CHUNK], separator, refused)
    return _collected(found, separator, refused, len(lasts) * len(firsts))


def read_id_units(tokenizer: TokenizerProtocol, samples: Sequence[Sample], *, separator: Separator) -> Units:
    """Units for prompts that are sent as ids: samples encoded alone, nothing to join."""
    refused: dict[str, str] = {}
    clean = _clean(tokenizer, tokenizer.pieces(), samples, refused)
    ends = tokenizer.encode_batch([sample.text for sample in clean])
    found = [
        _Found(sample, (*ids, *separator.after_word), tuple(ids), np.zeros(len(ids), np.int64))
        for sample, ids in zip(clean, ends, strict=True)
    ]
    silent = _collected(found, separator, refused, 0)
    nothing = (b"",) * len(found)
    return replace(silent, raw=nothing, texts=nothing, end_raw=nothing, end_texts=nothing)


def sample_problem(text: str, reserved: re.Pattern[str]) -> str:
    """Why a sample cannot stand in a prompt whatever the tokenizer makes of it; empty if it can."""
    if not text:
        return "empty"
    if "\0" in text:
        return "NUL"
    if _SURROGATE.search(text):
        return "lone surrogate"
    if reserved.search(text):
        return "special text"
    return ""


def reserved_pattern(vocabulary: Vocabulary) -> re.Pattern[str]:
    """Matches any text that encodes to an added token."""
    contents = sorted((text for text in vocabulary.reserved if text.strip()), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, contents)) or r"(?!)")


def _clean(
    tokenizer: TokenizerProtocol, vocabulary: Vocabulary, samples: Sequence[Sample], refused: dict[str, str]
) -> list[Sample]:
    reserved = reserved_pattern(vocabulary)
    clean: list[Sample] = []
    seen: set[str] = set()
    for sample in samples:
        text = sample.text.strip()
        problem = sample_problem(text, reserved)
        if not problem and vocabulary.widths is not None:
            text = tokenizer.normalize(text).strip()
            problem = _after_normalising(tokenizer, text, reserved)
        if vocabulary.family is Family.SENTENCEPIECE_BPE and SPACE_MARK in text:
            problem = problem or "space mark"
        problem = problem or ("repeated" if text in seen else "")
        if problem:
            refused[sample.name] = problem
        else:
            seen.add(text)
            clean.append(Sample(sample.name, text))
    return clean


def _after_normalising(tokenizer: TokenizerProtocol, text: str, reserved: re.Pattern[str]) -> str:
    if not text.isascii() and tokenizer.normalize(text) != text:
        return "normalises twice"
    return sample_problem(text, reserved)


def _encoded(
    tokenizer: TokenizerProtocol, samples: Sequence[Sample], separator: Separator, refused: dict[str, str]
) -> list[_Found]:
    texts = [sample.text for sample in samples]
    units = probe_units(tokenizer, separator, samples=texts)
    ends = _ends(tokenizer, separator, texts, units)
    widths = tokenizer.pieces().widths
    found = []
    for sample, unit, end in zip(samples, units, ends, strict=True):
        if unit is None or end is None:
            refused[sample.name] = "sentinel moves"
            continue
        stops = _stops(tokenizer, separator, sample.text, end, widths)
        end_bytes = len((separator.right + sample.text).encode())
        unit_bytes = end_bytes + len(separator.left.encode())
        if stops[-1] != end_bytes or (widths is not None and widths[list(unit)].sum() != unit_bytes):
            refused[sample.name] = "bytes do not add up"
            continue
        found.append(_Found(sample, unit, end, stops))
    return found


def _ends(
    tokenizer: TokenizerProtocol,
    separator: Separator,
    texts: Sequence[str],
    units: Sequence[tuple[int, ...] | None],
) -> list[tuple[int, ...] | None]:
    """End units; where word joints are proved by rule, only the text after the last one is encoded again."""
    widths = tokenizer.pieces().widths
    if widths is None or not proved_by_rule(tokenizer.pieces()):
        return probe_ends(tokenizer, separator, samples=texts)
    places = [_last_boundary(text) for text in texts]
    tails = [
        SENTINEL + text[at:] if at else separator.opening + separator.right + text
        for text, at in zip(texts, places, strict=True)
    ]
    short, full = len(tokenizer.encode(SENTINEL)), len(separator.before)
    ends: list[tuple[int, ...] | None] = []
    for text, at, unit, ids in zip(texts, places, units, tokenizer.encode_batch(tails), strict=True):
        if unit is None or not at:
            ends.append(tuple(ids[full:]) or None)
            continue
        stops = np.cumsum(widths[list(unit)])
        place = len((separator.right + text[:at]).encode())
        kept = int(np.searchsorted(stops, place, side="right"))
        ends.append((*unit[:kept], *ids[short:]) if kept and stops[kept - 1] == place else None)
    return ends


def _last_boundary(text: str) -> int:
    """Place of the last word joint that leaves some text after it; 0 if there is none."""
    place = 0
    window = max(0, len(text) - 8 * _SHORTEST_TAIL)
    for match in _BOUNDARY.finditer(text, window, max(0, len(text) - _SHORTEST_TAIL)):
        place = match.start()
    return place


def _stops(
    tokenizer: TokenizerProtocol, separator: Separator, text: str, ids: tuple[int, ...], widths: IntArray | None
) -> IntArray:
    """Bytes of ``right + text`` at which each of its tokens ends."""
    if widths is not None:
        return np.cumsum(widths[list(ids)])
    ends = tokenizer.token_ends(separator.opening + separator.right + text)
    return np.array(ends[len(separator.before) :], dtype=np.int64) - len(separator.opening.encode())


def _collected(found: Sequence[_Found], separator: Separator, refused: dict[str, str], joints: int) -> Units:
    end_raw = tuple((separator.right + item.sample.text).encode() for item in found)
    raw = tuple(end + separator.left.encode() for end in end_raw)
    return Units(
        names=tuple(item.sample.name for item in found),
        raw=raw,
        texts=tuple(map(escaped, raw)),
        ids=tuple(np.array(item.unit, dtype=np.int64) for item in found),
        lengths=np.array([len(item.unit) for item in found], dtype=np.int64),
        end_raw=end_raw,
        end_texts=tuple(map(escaped, end_raw)),
        end_ids=tuple(np.array(item.end, dtype=np.int64) for item in found),
        end_stops=tuple(item.stops for item in found),
        end_lengths=np.array([len(item.end) for item in found], dtype=np.int64),
        dropped=dict(sorted(Counter(refused.values()).items())),
        refused=refused,
        joints=joints,
        replacement_characters=sum("\ufffd" in item.sample.text for item in found),
    )


_MORE_TEXT = (
    "use more text, shorter prefixes or shorter prompts; or keep the text for the masters alone "
    "(prefix.source, prefix.path) and set suffix.source: builtin"
)


def too_small(what: str, *, field: str, advice: str = _MORE_TEXT) -> ConstructionError:
    """The refusal of a text that cannot fill what is wanted without a repetition in one prompt."""
    return ConstructionError(f"CORPUS_TOO_SMALL: {what}", advice=advice, stage="content", field=field)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Samples of one source, in a fixed order; none for random words. ``sha256`` digests names and texts."""

    source: str
    samples: tuple[Sample, ...]
    sha256: str


def places_of(names: Sequence[str], corpus: Corpus, *, units: Units, field: str) -> tuple[int, ...]:
    """Places of samples that are named by their names in the corpus, or by the sha256 of their texts.

    Raises ``ConfigError`` for a name that the corpus does not have, ``ConstructionError`` for a sample that cannot
    stand in a prompt.
    """
    if not names:
        return ()
    places = {name: place for place, name in enumerate(units.names)}
    known = {sample.name for sample in corpus.samples}
    hashed = any(name.startswith(HASHED) for name in names)
    digests = [(_digest(sample.text), sample.name) for sample in corpus.samples] if hashed else []
    return tuple(_place(_found(name, known, digests, corpus, field), places, units, field) for name in names)


def _digest(text: str) -> str:
    return HASHED + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _found(name: str, known: set[str], digests: Sequence[tuple[str, str]], corpus: Corpus, field: str) -> str:
    """The name in the corpus; of several samples with one text, the first."""
    if name in known:
        return name
    texts = {digest: found for digest, found in reversed(digests) if digest.startswith(name)}
    if name.startswith(HASHED) and len(texts) == 1:
        return next(iter(texts.values()))
    what = f"is the beginning of {len(texts)} hashes" if texts else "is no sample of this text"
    first, last = corpus.samples[0].name, corpus.samples[-1].name
    raise ConfigError(
        f"{field}: {name} {what}",
        field=field,
        advice=f"samples are named {first} to {last}, or {HASHED} and the beginning of the hash of their text",
    )


def _place(name: str, places: Mapping[str, int], units: Units, field: str) -> int:
    if name in places:
        return places[name]
    reason = units.refused.get(name, "not joinable")
    code = "SPECIAL_TEXT" if reason == "special text" else "SAMPLE_NOT_USABLE"
    raise ConstructionError(
        f"{code}: {field}: the sample {name} cannot stand in a prompt: {reason}",
        advice="name another sample, or change its text",
        stage="content",
        field=field,
    )
