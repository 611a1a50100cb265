"""What planned requests hit, one after the other, in the caches of a replay config."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from foreword.cache.rules import usable_hit_tokens
from foreword.config.replay import ReplayConfig
from foreword.simulate.jobs import jobs_of, warm_jobs
from foreword.simulate.replay import Replay
from foreword.trace.schema import RowKind, TraceRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.simulate.jobs import Job, Load
    from foreword.terms import IntArray


def tiered_hits(load: Load, config: ReplayConfig) -> IntArray:
    """Hit tokens of each request; every cache domain has the config's one instance for itself."""
    domains = int(load.domain.max(initial=-1)) + 1
    replay = Replay(_for_domains(config, domains))
    rows = list(_rows(load, step_ns=config.trace_replay.write_delay_ns + 1))
    if replay.foresees:
        replay.foresee(rows)
    for row in rows:
        replay.feed(row)
    replay.finish()
    shared = np.zeros(len(load.input_len), np.int64)
    for domain, at in enumerate(replay.instances.values()):
        # Without masks nothing is "local": what the caches of a replay serve is remote to the one who asks.
        shared[load.domain == domain] = np.asarray(at.series.remote_blocks, np.int64) * load.block_size
    return usable_hit_tokens(load.rule, prompt_tokens=load.input_len, shared_tokens=shared, block_size=load.block_size)


def _for_domains(config: ReplayConfig, domains: int) -> ReplayConfig:
    """The same config with a group for each domain."""
    document = config.model_dump(mode="json", exclude_unset=True)
    (group,) = document["instance_groups"]
    (instance,) = group["instances"]
    document["instance_groups"] = [
        {**group, "group_name": f"cache{domain}", "instances": [{**instance, "instance_id": _name(domain)}]}
        for domain in range(domains)
    ]
    return ReplayConfig.parse(document, root="tiers")


def _name(domain: int) -> str:
    return f"dp{domain}"


def _rows(load: Load, *, step_ns: int) -> Iterator[TraceRow]:
    """Warm-up writes, then requests; each after the write of the one before."""
    now = 0
    for domain, job in warm_jobs(load):
        now += step_ns
        yield _row(job, domain, now, kind=RowKind.WRITE)
    for job in jobs_of(load):
        now += step_ns
        yield _row(job, int(load.domain[job.index]), now, kind=RowKind.REQUEST)


def _row(job: Job, domain: int, now_ns: int, *, kind: RowKind) -> TraceRow:
    tokens = job.prompt_tokens if kind is RowKind.REQUEST else 0
    return TraceRow(kind, _name(domain), now_ns, array("q", job.block_keys()), tokens)
