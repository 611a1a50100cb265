"""The product on one page: each entry is a chain of stages.

Config to design, design to data set, data set to run, run to report. Stages are pure or do one kind of I/O; what they
noticed comes back with their values.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from foreword.cache.rules import HitRule
from foreword.engines.registry import PROFILES
from foreword.errors import ConfigError, Interrupted, UsageError
from foreword.logs import Kind, about, note, note_design, note_run
from foreword.simulate.design import Design, Facts, design
from foreword.terms import Engine, PromptFormat, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from foreword.config.dataset import DatasetConfig
    from foreword.config.replay import ReplayConfig
    from foreword.config.server import ServerConfig
    from foreword.report.write import WrittenReport
    from foreword.run.probe import Probed, ProbeSpec
    from foreword.run.spec import Progress as RunProgress
    from foreword.run.spec import RunOutcome, RunSpec
    from foreword.simulate.replay import Replay
    from foreword.simulate.summary import TraceFacts
    from foreword.store.checking import Check
    from foreword.store.commands import ExportFormat
    from foreword.store.dataset import Written
    from foreword.store.exporting import Exported
    from foreword.store.importing import Imported, ImportFormat
    from foreword.store.regenerating import Regenerated
    from foreword.store.replays import Export
    from foreword.store.second_engine import ProofEngine
    from foreword.store.tokenizers import LoadedTokenizer
    from foreword.store.traces import TraceSource
    from foreword.workload.content import ProofLevel
    from foreword.workload.tokens import Frame

    Hear = Callable[[str, str], AbstractContextManager[Callable[[int, int], None]]]

_WORTH_A_WORKER = 10_000


class Making(NamedTuple):
    """How to generate: processes (``None``: as many as help), proof level, and what to do with what stands there.

    ``resume`` goes on with an unfinished data set; ``compress`` writes data and metadata as ``.zst``;
    ``proof_engine`` encodes for a full proof.
    """

    workers: int | None = None
    proof: ProofLevel = "window"
    overwrite: bool = False
    resume: bool = False
    compress: bool = False
    proof_engine: ProofEngine = "tokenizers"


class Generated(NamedTuple):
    """A design and the data set that was written from it."""

    design: Design
    written: Written


class Hearing(NamedTuple):
    """Who hears how far a demonstration is."""

    generated: Callable[[int, int], None]
    ran: RunProgress | None


class Demonstration(NamedTuple):
    """A design, the run over it and its report."""

    design: Design
    outcome: RunOutcome
    report: WrittenReport


class Replaying(NamedTuple):
    """How to replay: folder of the results (``None``: the config's), what to write, whether errors are skipped."""

    output: Path | None
    export: Export
    skip_errors: bool = False
    core: str = "auto"
    cached: bool = True
    save_trace: Path | None = None
    prefill_tokens_per_s: float | None = None
    load_state: Path | None = None
    save_state: Path | None = None


class Replayed(NamedTuple):
    """Totals of a replay and the folder of its files."""

    output: Path
    summary: dict[str, Any]


def _unheard(_done: int, _total: int) -> None:
    """Progress that nobody watches."""


def plan(config: DatasetConfig) -> Design:
    """Plan a data set without text."""
    as_ids = config.prompt_format is PromptFormat.COMPLETIONS_IDS
    bare = as_ids and _block_size(config)[0] > 1
    return _design(config, None if bare else _tokenizer(config))


def generate(
    config: DatasetConfig, output: Path, *, making: Making, progress: Callable[[int, int], None] = _unheard
) -> Generated:
    """Plan a data set, compose and prove its prompts, and write its folder.

    A target that cannot be met still gives the nearest data set, with status FAIL in its report.
    """
    from foreword.store.dataset import Writing, check_folder, write_dataset
    from foreword.store.workshop import Order
    from foreword.store.zstd import check_zstd

    tokenizer = _tokenizer(config)
    _check_engine(making, tokenizer)
    planned = _design(config, tokenizer)
    check_folder(output, overwrite=making.overwrite, resume=making.resume)
    if making.compress:
        check_zstd()
    workers = making.workers or _fitting_workers(config.request_count)
    writing = Writing(workers, making.resume, making.compress)
    order = Order(config, planned.facts, making.proof, making.proof_engine)
    with about(Kind.COLLISIONS, config.dataset_id):
        written = write_dataset(order, planned, folder=output, writing=writing, progress=progress)
    note(Kind.COLLISIONS, "data set written", dataset_id=config.dataset_id, **written.report["collisions"])
    return Generated(written.design, written)


def validate(
    dataset: Path,
    *,
    tokenizer: str | None = None,
    corpus: Path | None = None,
    progress: Callable[[int, int], None] = _unheard,
) -> Check:
    """Prove a data set from its files: re-encode, replay, compare every stated number, compose again if possible."""
    from foreword.store.checking import check_dataset

    return check_dataset(dataset, tokenizer=tokenizer, corpus=corpus, progress=progress)


def export(
    dataset: Path,
    output: Path,
    *,
    target: ExportFormat,
    url: str,
    tokenizer: str | None = None,
    progress: Callable[[int, int], None] = _unheard,
) -> Exported:
    """Write a data set for another tool, ``target``, and say how to send it as it was planned."""
    from foreword.store.exporting import export_dataset

    return export_dataset(dataset, output, target=target, url=url, tokenizer=tokenizer, progress=progress)


def import_settings(inputs: Sequence[Path], output: Path, *, source: ImportFormat, engine: str) -> Imported:
    """Make a data-set config from settings of another tool, and say what of them has no counterpart."""
    from foreword.store.importing import import_settings as make

    return make(inputs, output, source=source, engine=engine)


def regenerate(
    manifest: Path,
    output: Path | None = None,
    *,
    tokenizer: str | None = None,
    corpus: Path | None = None,
    progress: Callable[[int, int], None] = _unheard,
) -> Regenerated:
    """Make a data set again from its manifest alone and compare every file; it is kept where ``output`` says."""
    from foreword.store.regenerating import compare, read_recipe

    recipe = read_recipe(manifest, tokenizer=tokenizer, corpus=corpus)
    making = Making(proof="full" if recipe.full_proof else "window", compress=recipe.compress)
    with tempfile.TemporaryDirectory(prefix="foreword-regenerate-") as temporary:
        folder = output or Path(temporary) / "dataset"
        generate(recipe.config, folder, making=making, progress=progress)
        return compare(recipe, folder, kept=output is not None)


def probe(spec: ProbeSpec) -> Probed:
    """Ask a server what it puts around prompts and how large its blocks are."""
    from foreword.run.probe import probe as ask

    return ask(spec)


def run(spec: RunSpec, progress: RunProgress | None = None) -> RunOutcome:
    """Send a data set to a server and record every request; see ``foreword.run.session``."""
    from foreword.run.session import run as make_run

    outcome = make_run(spec, progress)
    note_run(outcome)
    return outcome


def report(run_dir: Path, output: Path | None = None) -> WrittenReport:
    """Explain a run as JSON, one offline HTML file and tables."""
    from foreword.report.write import write_report

    written = write_report(run_dir, output)
    head = written.document.headline
    figures = {name: getattr(head, f"{name}_hit_ratio") for name in ("target", "designed", "measured")}
    note(Kind.REPORT, "run explained", run=run_dir.name, verdict=head.runtime.verdict.value, **figures)
    return written


def replay(config_path: Path, asked: Replaying, *, hearing: Hear) -> Replayed:
    """Replay a trace through the caches of a config, and write what it came to; an error leaves no file.

    With ``load_state`` it goes on from where an earlier trace ended, and its results are those of one run over both;
    ``save_state`` keeps where this one ends.
    """
    from foreword.simulate.replay import Replay
    from foreword.simulate.summary import TraceFacts
    from foreword.store.replay_states import check_can_go_on, load_state, packed_state
    from foreword.store.replays import load_replay_config
    from foreword.store.traces import load_trace, replay_trace

    config = load_replay_config(config_path)
    replayed = Replay(config, lifecycle=asked.export.lifecycle, templates=asked.export.templates)
    if asked.save_state or asked.load_state:
        check_can_go_on(replayed)
    before = load_state(asked.load_state, replayed)
    source = _trace_source(config, asked)
    with hearing("reading", "bytes") as progress:
        trace = load_trace(source, progress)
    before.check_follows(trace.columns, config.trace_file_path)
    if asked.save_trace is not None:
        from foreword.store.parquet import write_parquet

        write_parquet(trace.columns, asked.save_trace)
    goes_on = asked.save_state is not None
    with hearing("replaying", "rows") as progress:
        moved = replay_trace(replayed, trace, source=source, progress=progress, goes_on=goes_on)
    now = before.then(trace.columns, TraceFacts(len(trace.columns), moved, trace.refused))
    state = packed_state(replayed, now) if goes_on else None
    replayed.finish()
    return _written(replayed, now.facts, asked=asked, name=config_path.stem, state=state)


def _trace_source(config: ReplayConfig, asked: Replaying) -> TraceSource:
    from foreword.simulate.cores import Core
    from foreword.store.traces import TraceSource

    return TraceSource(
        config.trace_file_path,
        skip_errors=asked.skip_errors,
        core=Core(asked.core),
        with_ids=asked.export.templates,
        cached=asked.cached,
    )


def _written(
    replayed: Replay, facts: TraceFacts, *, asked: Replaying, name: str, state: bytes | None = None
) -> Replayed:
    """Files of a replay that has ended, and its state if it may go on."""
    from foreword.report.replay_page import HTML_NAME, render_replay
    from foreword.simulate.summary import summarise
    from foreword.simulate.timeline import timeline
    from foreword.store.atomic import replace_file
    from foreword.store.replays import write_replay

    summary = summarise(replayed, facts, prefill_tokens_per_s=asked.prefill_tokens_per_s)
    page = render_replay(summary, timeline(replayed), name=name)
    output = asked.output or Path(replayed.config.output_result_path)
    if asked.save_state is not None and state is not None:
        replace_file(asked.save_state, state)
    write_replay(replayed, summary, output=output, export=asked.export, pages={HTML_NAME: page})
    return Replayed(output, summary)


def demo(output: Path | None, hearing: Hearing) -> Demonstration:
    """The whole chain on the built-in server, tokenizer and corpus."""
    from foreword.run.spec import RunSpec
    from foreword.server.running import server_process

    with tempfile.TemporaryDirectory(prefix="foreword-demo-") as folder:
        dataset = Path(folder) / "dataset"
        made = generate(_demo_dataset(), dataset, making=Making(), progress=hearing.generated)
        with server_process(_demo_server()) as url:
            spec = RunSpec(dataset=dataset, urls=(url,), metrics_urls=(f"{url}/metrics",), output=output)
            outcome = run(spec, hearing.ran)
    if outcome.interrupted:
        raise Interrupted(f"stopped; what was measured is in {outcome.folder}")
    return Demonstration(made.design, outcome, report(outcome.folder))


def _demo_dataset() -> DatasetConfig:
    from foreword.config.dataset import ROOT, DatasetConfig

    lengths = {"mode": "truncated_normal", "min": 256, "max": 2048, "mean": 1000, "std": 350}
    return DatasetConfig.parse(
        {
            "dataset_id": "demo",
            "request_count": 240,
            "block_size": 16,
            "input_length": lengths,
            "target": {"hit_ratio": 0.6},
            "prefix": {"mode": "multi_prefix", "group_count": 3},
            "request_order": {"within_group": "input_len_asc", "across_group": "interleave"},
            "execution": {"mode": "compare"},
        },
        root=ROOT,
    )


def _demo_server() -> ServerConfig:
    """Slow enough at prefill that a hit shows in the time to first token."""
    from foreword.config.server import ServerConfig

    return ServerConfig(port=0, prefill_tokens_per_s=20_000.0, decode_tokens_per_s=1_000.0, capacity_blocks=16_384)


def construction_exit_code(plan: Design, *, strict: bool) -> int:
    """3 for a design that failed (unless the config only warns), 1 for warnings under ``strict``, else 0."""
    status = plan.verdict.status
    if status is Status.FAIL and plan.config.validation.on_failure == "error":
        return 3
    return int(strict and (status is not Status.PASS or bool(plan.warnings)))


def _fitting_workers(requests: int) -> int:
    """One process a core, as far as there is work for them."""
    return max(1, min(os.cpu_count() or 1, requests // _WORTH_A_WORKER))


def _tokenizer(config: DatasetConfig) -> LoadedTokenizer:
    from foreword.store.tokenizers import load_tokenizer

    return load_tokenizer(config.tokenizer)


def _check_engine(making: Making, tokenizer: LoadedTokenizer) -> None:
    """Refuse a second engine before anything is written, where it does not fit."""
    from foreword.store.second_engine import second_engine

    if making.proof_engine == "tokenizers":
        return
    if making.proof != "full":
        raise UsageError("--proof-engine is for whole prompts", advice="add --proof full, or leave it out")
    second_engine(tokenizer)


def _design(config: DatasetConfig, tokenizer: LoadedTokenizer | None) -> Design:
    block_size, notes = _block_size(config)
    facts = Facts(block_size, PROFILES[config.engine].hit_rule)
    if tokenizer is not None:
        from foreword.store.frames import frame_for

        frame = frame_for(tokenizer, config)
        facts = replace(facts, head_len=len(frame.head_ids), tail_len=len(frame.tail_ids))
        if block_size == 1:
            facts = replace(facts, branches=_branches(config, tokenizer, frame))
    with about(Kind.PLANNING, config.dataset_id):
        planned = design(config, facts)
    note_design(planned)
    return replace(planned, warnings=(*notes, *planned.warnings))


def _branches(config: DatasetConfig, tokenizer: LoadedTokenizer, frame: Frame) -> int:
    """Requests that can leave a master at one place, with one word kept for the warm-up of each lane (X16)."""
    from foreword.workload.preparation import branches_of

    as_ids = config.prompt_format is PromptFormat.COMPLETIONS_IDS
    words = branches_of(tokenizer, config.suffix.separator, frame=frame, as_ids=as_ids)
    return max(1, words - config.routing.rank_count)


def _block_size(config: DatasetConfig) -> tuple[int, tuple[str, ...]]:
    """Block size as written, else the engine's default with a warning (RFC 3.2.3)."""
    profile = PROFILES[config.engine]
    notes: tuple[str, ...] = ()
    size = config.block_size
    if not isinstance(size, int):
        if config.engine is Engine.GENERIC:
            message = "block_size: cannot be planned without a number"
            raise ConfigError(message, field="block_size", advice="give block_size, or engine for its default")
        size = profile.default_block_size
        notes = (f"block_size is {profile.name}'s default, {size}; check it against the server",)
    if profile.hit_rule is HitRule.CAP_ONLY and size > 1:
        message = f"block_size: {profile.name} matches single tokens, not blocks of {size}"
        raise ConfigError(message, field="block_size", advice="set block_size: 1")
    return size, notes
