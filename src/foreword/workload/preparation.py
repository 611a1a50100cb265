"""From a tokenizer and corpora to the materials of a data set: words, samples, joints and masters, read once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from foreword.errors import ConfigError, ConstructionError, TokenizerError
from foreword.terms import draw_key, permutation
from foreword.workload.escaping import escaped
from foreword.workload.joints import CutTester, Separator, check_words, read_separator
from foreword.workload.masters import Layout, MasterBuilder, MasterSource
from foreword.workload.materials import Materials
from foreword.workload.suffix import suffix_pool
from foreword.workload.tokens import NO_FRAME, Family
from foreword.workload.units import UNSAFE, no_units, places_of, read_id_units, read_units, too_small
from foreword.workload.vocabulary import (
    FEWEST_WORDS,
    NEXT_WORD,
    SENTINEL,
    Lexicon,
    Words,
    id_lexicon,
    long_words,
    proved_by_rule,
    read_lexicon,
    whole_starts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foreword.terms import IntArray
    from foreword.workload.masters import Master
    from foreword.workload.suffix import Picking, SuffixPool
    from foreword.workload.tokens import Frame, TokenizerProtocol, Vocabulary
    from foreword.workload.units import Corpus, Units

_ENOUGH_WORDS = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class Need:
    """What a data set needs: shared and longest private content tokens, where masters are cut, and where blocks end.

    ``by_first_token`` says that some first private token alone must tell a request from its siblings.
    """

    shared_tokens: IntArray
    cuts: tuple[Sequence[int], ...]
    longest_private: int
    longest_content: int
    requests: int
    requests_at_root: int
    layout: Layout
    as_ids: bool
    by_first_token: bool
    frame: Frame = NO_FRAME

    @property
    def root_tokens(self) -> int:
        """Content tokens of the first block that holds any."""
        return self.layout.block_size - self.layout.head_len % self.layout.block_size


@dataclass(frozen=True, slots=True)
class Text:
    """Samples of suffixes and of masters, what stands between them, and which of them are chosen."""

    suffix: Corpus
    prefix: Corpus
    separator: str
    picking: Picking

    @property
    def same(self) -> bool:
        """Whether masters and suffixes are made of the same samples."""
        return self.prefix is self.suffix or (self.suffix.sha256 != "" and self.prefix.sha256 == self.suffix.sha256)


def gather(tokenizer: TokenizerProtocol, text: Text, *, need: Need) -> Materials:
    """Read everything; TokenizerError or ConstructionError where exact prompts are impossible."""
    lexicon, between = _lexicon(tokenizer, text.separator, need.frame, as_ids=need.as_ids)
    if not need.as_ids:
        lexicon = _plainest(lexicon, tokenizer.pieces(), need)
    units = _units(tokenizer, text.suffix, between, need)
    prefix_units = units if text.same else _units(tokenizer, text.prefix, between, need)
    named, allowed = _chosen(text, units, prefix_units)
    _check_text(units, prefix_units, need, text)
    openings, starts = _openings(lexicon, need)
    source = MasterSource(tokenizer, lexicon.words, prefix_units, between, need.as_ids)
    builder = MasterBuilder(source, need.layout, len(need.shared_tokens), allowed=allowed)
    masters = _masters(builder, openings, need)
    return Materials(
        tokenizer=tokenizer,
        words=lexicon.words,
        starts=starts,
        masters=masters,
        units=units,
        common=_common_pool(units, builder.used_units if text.same else frozenset(), need, (text.picking, named)),
        same_text=text.same,
        prefix_names=prefix_units.names,
        named=named,
        picking=text.picking,
        longest=need.longest_private,
        seed_key=need.layout.seed_key,
        separator=between,
        separator_text=b"" if need.as_ids else escaped(between.left.encode()),
        separator_ids=np.array(between.after_word, dtype=np.int64),
        cuts=None if need.as_ids else CutTester(tokenizer),
        proved_by_rule=proved_by_rule(tokenizer.pieces()),
        diagnostics=_diagnostics(lexicon, starts, units, builder),
        warnings=tuple(_warnings(tokenizer.pieces(), units, builder=builder, need=need)),
    )


def branches_of(tokenizer: TokenizerProtocol, separator: str, *, frame: Frame, as_ids: bool) -> int:
    """Requests that can leave a master at one place, each with a first token that neither it nor a sibling has."""
    lexicon, _ = _lexicon(tokenizer, separator, frame, as_ids=as_ids)
    return len(lexicon.words) - 1


def _lexicon(tokenizer: TokenizerProtocol, text: str, frame: Frame, *, as_ids: bool) -> tuple[Lexicon, Separator]:
    """Words that keep their ids wherever they are put, and the separator."""
    if as_ids:
        return id_lexicon(tokenizer.pieces()), _id_separator(tokenizer, text)
    between = read_separator(tokenizer, text)
    return _in_frame(tokenizer, frame, _beside(tokenizer, between, read_lexicon(tokenizer))), between


def _masters(builder: MasterBuilder, openings: list[list[tuple[int, bytes]]], need: Need) -> tuple[Master, ...]:
    """One a group, for its longest shared prefix."""
    return tuple(
        builder.build(group, openings[group], shared=shared, cuts=need.cuts[group])
        for group, shared in enumerate(need.shared_tokens.tolist())
    )


def _chosen(text: Text, units: Units, prefix_units: Units) -> tuple[tuple[int, ...], IntArray]:
    """Places of the samples that the suffix names, and those of all that masters may use."""
    picking = text.picking
    named = places_of(picking.names, text.suffix, units=units, field="suffix.samples")
    masters = places_of(picking.master_names, text.prefix, units=prefix_units, field="prefix.samples")
    both = set(named) & set(masters) if text.same else ()
    if both:
        raise ConfigError(
            f"prefix.samples: {units.names[min(both)]} is named for the suffix too, so prompts would hold it twice",
            field="prefix.samples",
            advice="name each sample for the masters or for the suffix",
        )
    allowed = np.array(masters, dtype=np.int64) if masters else np.arange(len(prefix_units))
    return named, np.setdiff1d(allowed, named) if text.same else allowed


def _common_pool(
    units: Units, used: frozenset[int], need: Need, chosen: tuple[Picking, tuple[int, ...]]
) -> SuffixPool | None:
    """The named samples, or those outside all masters if they have twice the tokens of the longest suffix."""
    picking, named = chosen
    longest = need.longest_private
    pool = suffix_pool(units, used, seed_key=need.layout.seed_key, picking=picking, named=named, longest=longest)
    only_named = bool(named) and picking.mode != "named_then_random"
    return pool if pool and (only_named or pool.tokens >= 2 * longest) else None


def _check_text(units: Units, prefix_units: Units, need: Need, text: Text) -> None:
    """Refuse texts with fewer tokens than the longest master, or the longest prompt without its divergence block.

    Suffixes of named or repeated samples are checked as they are made.
    """
    own = text.picking.names or text.picking.repeat
    size, same = need.layout.block_size, prefix_units is units
    shared = int(need.shared_tokens.max(initial=0))
    filled = 0 if own else (need.longest_content if same else need.longest_private) - size
    what = "longest prompt" if same else "longest suffix"
    checks = (
        (prefix_units, shared and shared + size, "longest master prefix", "prefix.source"),
        (units, filled, what, "suffix.source"),
    )
    for source, wanted, part, name in checks:
        there = int(source.lengths.sum())
        if len(source) and there < wanted:
            raise too_small(f"the text has {there} tokens, the {part} needs {wanted} without a repetition", field=name)


def _units(tokenizer: TokenizerProtocol, corpus: Corpus, separator: Separator, need: Need) -> Units:
    if not corpus.samples:
        return no_units()
    read = read_id_units if need.as_ids else read_units
    units = read(tokenizer, corpus.samples, separator=separator)
    if not len(units):
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(units.dropped.items()))
        raise ConstructionError(
            f"CORPUS_TOO_SMALL: none of {len(corpus.samples)} samples can be joined exactly ({reasons})",
            advice="use another corpus or separator, or source: random_tokens",
            stage="content",
            field="suffix.source",
        )
    return units


def _id_separator(tokenizer: TokenizerProtocol, text: str) -> Separator:
    """A separator whose ids stand alone, for prompts that are sent as ids."""
    return Separator(text, "", (), tuple(tokenizer.encode(text)), ())


def _beside(tokenizer: TokenizerProtocol, separator: Separator, lexicon: Lexicon) -> Lexicon:
    """The lexicon without words that change beside the separator."""
    return Lexicon(
        _kept(tokenizer, separator, lexicon.words), _kept(tokenizer, separator, lexicon.starts), lexicon.unsafe
    )


def _plainest(lexicon: Lexicon, vocabulary: Vocabulary, need: Need) -> Lexicon:
    """The lexicon without short words and pieces of words, where it stays large without them.

    That is: a thousand words, two start words a group, and first blocks for twice the requests. All words stay where
    the first token alone must tell requests apart. Nothing here depends on the target.
    """
    words, starts = long_words(lexicon.words), whole_starts(lexicon.starts, vocabulary)
    if need.by_first_token:
        return lexicon
    if len(words) < _ENOUGH_WORDS or len(words) // 2 * len(words) < 2 * need.requests:
        words = lexicon.words
    free = len(starts) - len(need.shared_tokens)
    if free < max(len(need.shared_tokens), FEWEST_WORDS) or free * len(words) < 2 * need.requests:
        starts = lexicon.starts
    return Lexicon(words, starts, lexicon.unsafe)


def _in_frame(tokenizer: TokenizerProtocol, frame: Frame, lexicon: Lexicon) -> Lexicon:
    """Start words that keep their ids behind the head, and words that keep theirs before the tail."""
    if not frame.in_text:
        return lexicon
    before, word = tokenizer.encode(SENTINEL), tokenizer.encode(SENTINEL + NEXT_WORD)[-1]
    starts, words = lexicon.starts, lexicon.words
    first = tokenizer.encode_batch([frame.around(text.decode() + NEXT_WORD) for text in starts.texts])
    good = [place for place, ids in enumerate(first) if ids == frame.ids_around([int(starts.ids[place]), word])]
    starts = starts.only(good)
    if frame.open_tail(tokenizer.pieces().reserved):
        last = tokenizer.encode_batch([frame.around(SENTINEL + text.decode()) for text in words.texts])
        good = [place for place, ids in enumerate(last) if ids == frame.ids_around([*before, int(words.ids[place])])]
        words = words.only(good)
    return Lexicon(words, starts, lexicon.unsafe + len(lexicon.words) - len(words))


def _kept(tokenizer: TokenizerProtocol, separator: Separator, words: Words) -> Words:
    pairs = [(token, text.decode()) for token, text in zip(words.ids.tolist(), words.texts, strict=True)]
    return words.only(np.flatnonzero(check_words(tokenizer, separator, words=pairs)).tolist())


def _openings(lexicon: Lexicon, need: Need) -> tuple[list[list[tuple[int, bytes]]], Words]:
    """First words of each master, unlike any other's, and the start words that no master begins with."""
    groups, count = len(need.shared_tokens), len(lexicon.starts)
    order = permutation(draw_key("start words", need.layout.seed_key), count)
    narrow = need.root_tokens == 1
    reserve = min(need.requests_at_root, 1 if narrow else count // 2)
    taken = min(groups, count - reserve)
    if taken < 1 or (groups > taken and (narrow or groups > taken * len(lexicon.words))):
        raise _not_enough(count, groups, reserve)
    openings = []
    for group in range(groups):
        place = int(order[group % taken])
        opening = [(int(lexicon.starts.ids[place]), lexicon.starts.texts[place])]
        if groups > taken:
            word = group // taken
            opening.append((int(lexicon.words.ids[word]), lexicon.words.texts[word]))
        openings.append(opening)
    starts = lexicon.starts.only(order[taken:].tolist())
    _check_capacity(lexicon, starts, need)
    return openings, starts


def _check_capacity(lexicon: Lexicon, starts: Words, need: Need) -> None:
    """Refuse more requests than two words can tell apart; half is kept for warm-ups and retries."""
    pairs = len(lexicon.words) // 2 * len(lexicon.words)
    root_pairs = len(starts) * len(lexicon.words)
    for requests, numbers in ((need.requests, pairs), (need.requests_at_root, root_pairs)):
        if 2 * requests > numbers:
            raise TokenizerError(
                f"NOT_ENOUGH_WORDS: {requests} requests need first words of their own, the words of this tokenizer "
                f"tell {numbers // 2} apart",
                advice="use fewer requests or prompt_format: completions_ids",
                stage="content",
                field="request_count",
            )


def _not_enough(count: int, groups: int, reserve: int) -> TokenizerError:
    return TokenizerError(
        f"NOT_ENOUGH_WORDS: {groups} groups need first words of their own, the tokenizer has {count} "
        f"({reserve} kept for requests that share nothing)",
        advice="use fewer groups, a larger block_size or prompt_format: completions_ids",
        stage="content",
        field="prefix.groups",
    )


def _warnings(vocabulary: Vocabulary, units: Units, *, builder: MasterBuilder, need: Need) -> Iterator[str]:
    """What a user should know about text that is exact all the same."""
    if vocabulary.family in {Family.WORDPIECE, Family.UNIGRAM}:
        yield f"no known server has a prefix cache for a {vocabulary.family} tokenizer"
    unsafe = {reason: units.dropped[reason] for reason in UNSAFE if reason in units.dropped}
    if unsafe:
        what = ", ".join(f"{reason} {count}" for reason, count in unsafe.items())
        yield f"{sum(unsafe.values())} samples of the text are left out, for what they hold: {what}"
    if units.replacement_characters:
        yield f"{units.replacement_characters} samples hold U+FFFD, as their source does"
    if builder.counts.reused:
        yield (
            f"{builder.counts.reused} samples stand in the masters of more than one group: "
            f"masters need {need.shared_tokens.sum()} tokens, the text has {builder.text_tokens}; "
            "more text or fewer groups keep them apart"
        )


def _diagnostics(lexicon: Lexicon, starts: Words, units: Units, builder: MasterBuilder) -> dict[str, object]:
    return {
        "words": len(lexicon.words),
        "start_words": len(lexicon.starts),
        "start_words_free": len(starts),
        "unsafe_words": lexicon.unsafe,
        "samples": len(units),
        "text_tokens": int(units.lengths.sum()),
        "samples_dropped": dict(units.dropped),
        "samples_with_replacement_character": units.replacement_characters,
        "joints_probed": units.joints,
        "masters": asdict(builder.counts),
    }
