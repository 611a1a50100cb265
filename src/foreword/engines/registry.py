"""All engines, and which one a server is: by its metrics page, then by its model cards, then by the data set's word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foreword.engines.dynamo import DYNAMO
from foreword.engines.generic import GENERIC
from foreword.engines.llamacpp import LLAMACPP
from foreword.engines.lmdeploy import LMDEPLOY
from foreword.engines.mindie import MINDIE
from foreword.engines.sglang import SGLANG
from foreword.engines.trtllm import TRTLLM
from foreword.engines.vllm import VLLM, VLLM_ASCEND
from foreword.terms import Engine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from foreword.engines.model import EngineProfile
    from foreword.engines.page import Page

# Order matters where a page holds several: an engine's own counters win over those of a front end.
DETECTABLE = (VLLM, SGLANG, TRTLLM, LLAMACPP, LMDEPLOY, DYNAMO, MINDIE)

PROFILES: dict[Engine, EngineProfile] = {
    Engine.VLLM: VLLM,
    Engine.VLLM_ASCEND: VLLM_ASCEND,
    Engine.SGLANG: SGLANG,
    Engine.MINDIE: MINDIE,
    Engine.TRTLLM: TRTLLM,
    Engine.LLAMACPP: LLAMACPP,
    Engine.LMDEPLOY: LMDEPLOY,
    Engine.GENERIC: GENERIC,
}


@dataclass(frozen=True, slots=True)
class Detection:
    """An engine, and what gave it away: ``metrics``, ``models``, ``data set`` or ``nothing``."""

    profile: EngineProfile
    detected_by: str


def default_block_size(engine: Engine) -> int:
    """Block size an engine uses when nobody sets one (a warning is due where this is relied on)."""
    return PROFILES[engine].default_block_size


def detect(pages: Iterable[Page], owners: Iterable[str], *, planned: Engine) -> Detection:
    """Decide on the engine. vLLM-Ascend shows vLLM's names, so there the data set's word decides between the two."""
    names = tuple({name for page in pages for name in page.samples})
    owned = frozenset(owners)
    for told, by in ((_by_names(names), "metrics"), (_by_owner(owned), "models")):
        if told is not None:
            ascend = told is VLLM and planned is Engine.VLLM_ASCEND
            return Detection(VLLM_ASCEND if ascend else told, by)
    if planned is not Engine.GENERIC:
        return Detection(PROFILES[planned], "data set")
    return Detection(GENERIC, "nothing")


def _by_names(names: tuple[str, ...]) -> EngineProfile | None:
    found = (profile for profile in DETECTABLE if any(name.startswith(profile.prefixes) for name in names))
    return next(found, None)


def _by_owner(owners: frozenset[str]) -> EngineProfile | None:
    return next((profile for profile in DETECTABLE if owners.intersection(profile.owned_by)), None)
