"""What a design gives under load and with caches that are full: predictions side by side (theory section 4).

Each is made for the designed pass, by request in send order, after the engine's hit rule.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from foreword.cache.rules import usable_hit_tokens
from foreword.engines.registry import PROFILES
from foreword.errors import ConfigError
from foreword.simulate.jobs import Load
from foreword.simulate.serving import Client, Service, serve
from foreword.simulate.tiered_forecast import tiered_hits
from foreword.terms import Visibility, request_id

if TYPE_CHECKING:
    from foreword.config.dataset import DatasetConfig
    from foreword.simulate.design import Design
    from foreword.terms import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Forecast:
    """Hit tokens by request; ``None`` for what the config does not ask about.

    ``serial`` is the design: one request after the other, nothing evicted. ``in_flight`` is the least that so many
    requests under way can leave of it, ``simulated`` what they leave by the event simulation, and ``capacity_bounded``
    the same with a cache of the config's size; for ``tiers`` requests run one after the other.
    """

    serial: IntArray
    in_flight: IntArray | None = None
    simulated: IntArray | None = None
    capacity_bounded: IntArray | None = None

    @property
    def predicted(self) -> IntArray:
        """The one that knows most."""
        known = (self.capacity_bounded, self.simulated)
        return next((hits for hits in known if hits is not None), self.serial)


def forecast(design: Design) -> Forecast:
    """Predictions for a design. Raises ``ConfigError`` where a request does not fit the cache."""
    load, config = load_of(design), design.config
    service, client = service_of(config), client_of(config)
    found = Forecast(design.designed_hit)
    together = client.requests_per_s is not None or client.concurrency > 1
    if client.requests_per_s is None and together:
        found = replace(found, in_flight=_least_hits(load, client.concurrency))
    if together:
        found = replace(found, simulated=_simulated(load, service, client, found.serial))
    if config.tiers is not None:
        found = replace(found, capacity_bounded=tiered_hits(load, config.replay_of_tiers))
    elif config.capacity_blocks is not None:
        _check_room(load, config.capacity_blocks, design)
        service = replace(service, capacity_blocks=config.capacity_blocks)
        found = replace(found, capacity_bounded=serve(load, service, client=client).hit_tokens)
    return found


def load_of(design: Design) -> Load:
    """The requests of a design as engines get them."""
    order, prompts = design.order, design.prompts
    domain = np.unique(prompts.domain, return_inverse=True)[1].astype(np.int64)
    return Load(
        input_len=prompts.input_len[order],
        prefix_len=design.plan.prefix_len[order],
        output_len=design.output_len[order],
        lane=prompts.lane[order],
        domain=domain[order],
        block_size=prompts.block_size,
        rule=design.facts.rule,
        trunk_len=prompts.trunk_len,
        warm_lanes=frozenset() if design.designed_cold else frozenset(prompts.lane.tolist()),
    )


def service_of(config: DatasetConfig) -> Service:
    """The engine of a config, without a limit to its cache."""
    asked = config.serving
    return Service(
        visibility=asked.visibility or PROFILES[config.engine].visibility,
        slots=asked.slots,
        step_tokens=asked.step_tokens,
        prefill_tokens_per_s=asked.prefill_tokens_per_s,
        decode_tokens_per_s=asked.decode_tokens_per_s,
    )


def client_of(config: DatasetConfig) -> Client:
    """How the requests of a config are sent."""
    return Client(config.execution.concurrency, config.serving.requests_per_s)


def certain_prefix(prefix_len: IntArray, lane: IntArray, *, warmed: BoolArray, in_flight: int) -> IntArray:
    """Tokens of each prefix that are cached for certain when at most ``in_flight`` requests are unfinished.

    At most ``in_flight - 1`` others run when a request is looked up, so of the prefixes sent before it in its lane at
    least the ``in_flight``-th longest is cached. Arrays stand in the order of sending; requests that are ``warmed``
    are over before the others begin.
    """
    level = np.zeros(len(prefix_len), np.int64)
    longest: dict[int, list[int]] = {}
    warm: dict[int, int] = {}
    rows = zip(prefix_len.tolist(), lane.tolist(), warmed.tolist(), strict=True)
    for at, (prefix, own, is_warm) in enumerate(rows):
        if is_warm:
            warm[own] = max(warm.get(own, 0), prefix)
            continue
        heap = longest.setdefault(own, [])
        certain = heap[0] if len(heap) == in_flight else 0
        level[at] = min(prefix, max(certain, warm.get(own, 0)))
        (heapq.heappush if len(heap) < in_flight else heapq.heappushpop)(heap, prefix)
    return level


def _least_hits(load: Load, in_flight: int) -> IntArray:
    """What each request hits at least; all of its prefix in a warm cache."""
    level = load.prefix_len
    if not load.warm_lanes:
        level = certain_prefix(load.prefix_len, load.lane, warmed=np.zeros(len(level), np.bool_), in_flight=in_flight)
    return usable_hit_tokens(load.rule, prompt_tokens=load.input_len, shared_tokens=level, block_size=load.block_size)


def _simulated(load: Load, service: Service, client: Client, serial: IntArray) -> IntArray:
    """Hits under load in an endless cache.

    Where blocks can be matched as soon as they are scheduled, requests in the order of their arrival find what they
    find one after the other (a property test holds the simulation to that), so nothing need be simulated.
    """
    return serial if service.visibility is Visibility.SCHEDULED else serve(load, service, client=client).hit_tokens


def _check_room(load: Load, capacity_blocks: int, design: Design) -> None:
    """Refuse a request that would wait for ever."""
    needed = load.blocks_needed
    at = int(needed.argmax())
    if int(needed[at]) > capacity_blocks:
        name = request_id(int(design.order[at]))
        message = f"request {name} needs {int(needed[at]):,} blocks, more than capacity_blocks {capacity_blocks:,}"
        raise ConfigError(message, field="capacity_blocks", request_id=name)
