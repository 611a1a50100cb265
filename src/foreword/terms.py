"""The words of the field as types, and keyed draws.

Every enumeration here is part of a file format: a member's value is what is written.
Draws follow Law 7: a value depends on its key alone, never on a clock, a worker or a global state.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt
import xxhash

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
UInt64Array = npt.NDArray[np.uint64]


class Engine(StrEnum):
    """Serving engines whose hit rule and metric names are known (spec: engines)."""

    VLLM = "vllm"
    VLLM_ASCEND = "vllm_ascend"
    SGLANG = "sglang"
    MINDIE = "mindie"
    TRTLLM = "trtllm"
    LLAMACPP = "llamacpp"
    LMDEPLOY = "lmdeploy"
    GENERIC = "generic"


class PromptFormat(StrEnum):
    """What is sent to the server, and so what the server adds to it."""

    COMPLETIONS_TEXT = "completions_text"
    COMPLETIONS_IDS = "completions_ids"
    CHAT = "chat"


class Semantics(StrEnum):
    """What the target hit ratio means: sum(P)/sum(L) of a warmed cache, or sum(H)/sum(L) in send order."""

    STATIC_PREFIX_RATIO = "static_prefix_ratio"
    ORDER_AWARE_GLOBAL = "order_aware_global"


class TargetScope(StrEnum):
    """One target for the data set, or one for each group."""

    GLOBAL = "global"
    PER_GROUP = "per_group"


class CacheScope(StrEnum):
    """Whether all data-parallel ranks see one cache, or each its own."""

    GLOBAL = "global"
    DP_LOCAL = "dp_local"


class ExecutionMode(StrEnum):
    """Which passes a run makes over the data set (RFC 3.1.5)."""

    COLD = "cold"
    WARMUP = "warmup"
    HOT = "hot"
    COMPARE = "compare"
    PROGRESSIVE_PREFIX_FILL = "progressive_prefix_fill"

    @property
    def designed_cold(self) -> bool:
        """Whether the mode has a cold pass only."""
        return self in {ExecutionMode.COLD, ExecutionMode.PROGRESSIVE_PREFIX_FILL}


class Pass(StrEnum):
    """One walk over the requests of a data set; warm-up requests count in no ratio."""

    COLD = "cold"
    WARMUP = "warmup"
    HOT = "hot"


class Shape(StrEnum):
    """How shared prefixes follow input lengths before the last blocks are placed."""

    PROPORTIONAL = "proportional"
    UNIFORM_CAP = "uniform_cap"


class MatchSemantics(StrEnum):
    """How an engine finds cached content, and so what of a prompt has to be unique (RFC 3.3.14; decision 9)."""

    CHAINED_PREFIX = "chained_prefix"
    INDEPENDENT_BLOCK = "independent_block"
    CONTENT_DEFINED_CHUNK = "content_defined_chunk"


class Visibility(StrEnum):
    """From when on others can match the blocks of a prompt (spec: engines 0.9, theory section 4)."""

    SCHEDULED = "scheduled"
    """As soon as they are scheduled, before they are computed: vLLM V1."""
    FORWARD = "forward"
    """After the forward pass that computes them: SGLang, MindIE, vLLM V0."""


class PlanAim(StrEnum):
    """Which ratio a plan brings to the target: that of requests one by one, or that of the simulated run."""

    DESIGNED = "designed"
    PREDICTED = "predicted"


class RequestClass(StrEnum):
    """What a request does to its lane's watermark (workload decisions, 11)."""

    FIRST_OF_LANE = "first of lane"
    EXTENDS_LANE = "extends the lane"
    FULL_HIT = "full hit"
    NONE_PLANNED = "none planned"


class Status(StrEnum):
    """Verdict on the construction of a data set (RFC 3.3.17)."""

    PASS = "PASS"
    PASS_WITH_WARNING = "PASS_WITH_WARNING"
    FAIL = "FAIL"


class Reason(StrEnum):
    """Why a verdict is what it is."""

    OK = "OK"
    TARGET_UNREACHABLE = "TARGET_UNREACHABLE"
    BELOW_FLOOR = "BELOW_FLOOR"
    GRANULARITY = "GRANULARITY"


class RuntimeVerdict(StrEnum):
    """Verdict on a run: measured minus designed against the RFC's guide ranges (RFC 3.3.21)."""

    WITHIN_GUIDE = "WITHIN_GUIDE"
    OUTSIDE_GUIDE = "OUTSIDE_GUIDE"
    UNPROVEN = "UNPROVEN"


def request_id(index: int) -> str:
    """Name of the request with this generation index.

    >>> request_id(7)
    'r0000007'
    """
    return f"r{index:07d}"


def draw_key(purpose: str, *parts: object) -> int:
    """64-bit key of a draw, from its purpose and whatever it may depend on.

    >>> draw_key("length", 42, "set") == draw_key("length", 42, "set") != draw_key("order", 42, "set")
    True
    """
    text = "\x1f".join([purpose, *(str(part) for part in parts)])
    return xxhash.xxh3_64_intdigest(text.encode())


def raw_bits(key: int, n: int) -> UInt64Array:
    """Draw ``n`` raw 64-bit words: PCG64's bit stream, which NumPy promises to keep."""
    return np.asarray(np.random.PCG64(key).random_raw(n), dtype=np.uint64)


def below(bits: UInt64Array, limit: int | IntArray) -> IntArray:
    """Map raw words to integers in ``[0, limit)``, limit below 2**32, by multiply and shift."""
    high = bits >> np.uint64(32)
    return ((high * np.asarray(limit, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)


def permutation(key: int, n: int) -> IntArray:
    """Keyed random order of ``n`` things."""
    return np.argsort(raw_bits(key, n), kind="stable").astype(np.int64)
