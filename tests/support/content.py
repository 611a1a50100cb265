"""Plans, prompts and replays for the tests of content."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from foreword.cache.blocks import block_keys, root_key
from foreword.store.corpora import load_corpus
from foreword.store.tokenizers import LoadedTokenizer, load_tokenizer
from foreword.workload.content import ComposedPrompt, ContentPlan
from foreword.workload.tokens import Frame
from foreword.workload.units import Corpus, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.workload.content import Composer
    from foreword.workload.stories import StoryLanguage


@cache
def builtin_tokenizer() -> LoadedTokenizer:
    """The built-in tokenizer, loaded once."""
    return load_tokenizer("builtin")


@cache
def few_stories(language: StoryLanguage = "en", count: int = 400) -> Corpus:
    """A small built-in corpus, so that preparing is quick."""
    return load_corpus("builtin", language=language, stories=count)


_STRANGE = (
    "def f(x):\n    return x**2  # sq\n",
    "emoji 👩\u200d🚀👨\u200d👩\u200d👧 ok 🏳\ufe0f\u200d🌈",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "line one\r\nline two\r\n\r\nthree",
    "cafe\u0301 nai\u0308ve A\u030a",
    "ภาษาไทยเป็นภาษาที่มีระดับเสียง",
    "हिन्दी में लिखा हुआ वाक्य।",
    "مرحبا بالعالم، كيف الحال؟",
    "한국어 ᄒ\u1161\u11ab글 자모",
    "broken \ufffd char",
    "/usr/local/bin",
    "\u00a0nbsp start",
    "\u3000全角空格",
    "special <|im_end|> text",
    "<think>x</think>",
    "\u2581mark",
    "    indented",
    "tab\tsep\tvals",
    "1234567890 12,345.67",
    "don't can't we'll I'm",
    "http://x.y/z?a=1&b=2",
    '{"k": [1, 2, {"z": null}]}',
    "日本語テキスト、カタカナ。",
    "Ω≈ç√∫˜µ≤≥÷",
    "\u200bzero width\u200b",
    "a\u2028b\u2029c",
    "\x7f del \x1b[0m",
    "“quotes” — dash… end",
    "ⅷ ½ ﬁ ﬀ ①",
    "𝒜𝓁𝓅𝒽𝒶 𐍈𐌰",
    "e\u0301\u0301\u0301",
    "x" * 60,
    "=-" * 40,
    "\n\n\ninner\n\n\nlines\n\n\n",
    "'s start",
    "\u0301combining first",
    "(paren) [br] {cu}",
)


@cache
def strange_text(count: int = 1_500) -> Corpus:
    """Code, tables, joiners, scripts, decomposed accents and control characters, in runs of one to six pieces."""
    chance = np.random.Generator(np.random.PCG64(1))
    samples = []
    for place in range(count):
        pieces = [_STRANGE[choice] for choice in chance.integers(0, len(_STRANGE), chance.integers(1, 7))]
        glue = (" ", "\n", ", ", "", "\t")[chance.integers(5)]
        samples.append(Sample(f"strange:{place}", glue.join([*pieces, str(place)])))
    return Corpus("text", tuple(samples), "")


_WHO = ("孩子", "医生", "记者", "警察", "老师", "司机", "农民", "画家", "邻居", "船长")
_WHERE = ("在办公室", "在雨里", "在河边", "在山下的村子", "在图书馆", "在车站", "在厨房", "在海港")
_WHAT = (
    "描述两种语言",
    "打开一封旧信",
    "修理那台机器",
    "寻找一把钥匙",
    "讨论新的计划",
    "忘记了红色的雨伞",
    "画下那座石桥",
)


@cache
def chinese_text(count: int = 200) -> Corpus:
    """Paragraphs of 60 to 200 Chinese characters, in clauses and sentences, as a user's own text has them."""
    chance = np.random.Generator(np.random.PCG64(3))
    samples = []
    for place in range(count):
        text, length = "", int(chance.integers(60, 200))
        while len(text) < length:
            parts = (str(chance.choice(words)) for words in (_WHO, _WHERE, _WHAT))
            text += "".join(parts) + str(chance.choice(list("，，。。！？；")))
        samples.append(Sample(f"zh:{place}", text[:-1] + "。"))
    return Corpus("text", tuple(samples), "")


def random_words() -> Corpus:
    """The source without samples."""
    return load_corpus("random_tokens")


def spread_plan(  # noqa: PLR0913 - each number is a case to vary
    count: int,
    *,
    block_size: int,
    frame: Frame | None = None,
    lengths: tuple[int, int] = (64, 464),
    groups: int = 4,
    minimum: int = 1,
    seed: int = 1,
    as_ids: bool = False,
    token_granular: bool = False,
) -> ContentPlan:
    """A plan with any allowed prefix length, drawn by seed."""
    frame = frame or Frame()
    rng = np.random.default_rng(seed)
    tail = frame.tail_len
    input_len = np.maximum(rng.integers(*lengths, count, endpoint=True), frame.head_len + tail + 1)
    trunk = frame.head_len // block_size * block_size
    most = np.maximum((input_len - max(minimum, tail + 1)) // block_size * block_size, trunk)
    steps = (most - trunk) // block_size
    prefix_len = trunk + rng.integers(0, steps, endpoint=True) * block_size
    return ContentPlan(
        rng.integers(0, groups, count),
        input_len,
        prefix_len,
        tuple(f"group-{place}" for place in range(groups)),
        block_size,
        minimum,
        frame,
        seed,
        as_ids,
        token_granular,
    )


def text_of(prompt: ComposedPrompt) -> str:
    """The prompt as a server reads it."""
    return str(json.loads(b'"' + prompt.escaped + b'"'))


def as_seen(prompt: ComposedPrompt, frame: Frame) -> list[int]:
    """Ids that the engine has, head and tail included."""
    return [*frame.head_ids, *prompt.ids.tolist(), *frame.tail_ids]


def problems(
    tokenizer: LoadedTokenizer, composer: Composer, plan: ContentPlan, prompts: Sequence[ComposedPrompt]
) -> list[str]:
    """What is wrong with the prompts, by encoding each again as written."""
    found = []
    encoded = tokenizer.encode_batch([text_of(prompt) for prompt in prompts])
    for number, (prompt, ids) in enumerate(zip(prompts, encoded, strict=True)):
        shared = max(int(plan.prefix_len[number]) - plan.frame.head_len, 0)
        master = composer.masters[plan.group_ids[plan.group[number]]]
        text = text_of(prompt)
        if ids != prompt.ids.tolist():
            found.append(f"{number}: other ids")
        if len(ids) + plan.frame.head_len + plan.frame.tail_len != plan.input_len[number]:
            found.append(f"{number}: {len(ids)} content tokens")
        if ids[:shared] != master.ids[:shared].tolist():
            found.append(f"{number}: other prefix")
        if text != text.strip():
            found.append(f"{number}: blank end")
    return found


def served_hits(prompts: Sequence[Sequence[int]], block_size: int) -> list[int]:
    """Tokens that each prompt finds when all are served in turn by a cache that forgets nothing."""
    known: set[int] = set()
    hits = []
    for ids in prompts:
        keys = block_keys(ids, block_size, parent=root_key())
        usable = keys[: (len(ids) - 1) // block_size]
        found = next((place for place, key in enumerate(usable) if key not in known), len(usable))
        hits.append(found * block_size)
        known.update(keys)
    return hits


def planned_hits(plan: ContentPlan) -> list[int]:
    """Hits of the serial theory: the group's watermark, and the trunk that all requests share."""
    trunk = plan.frame.head_len // plan.block_size * plan.block_size
    marks = np.zeros(len(plan.group_ids), np.int64)
    hits = []
    for number, (group, prefix) in enumerate(zip(plan.group.tolist(), plan.prefix_len.tolist(), strict=True)):
        hits.append(min(prefix, max(int(marks[group]), trunk if number else 0)))
        marks[group] = max(int(marks[group]), prefix)
    return hits
