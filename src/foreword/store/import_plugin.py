"""Scenarios of AISBench's prefix-cache plugin (spec: interop 2; its schema 1.0)."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from foreword.config.aisbench import ROOT, Scenario
from foreword.errors import ConfigError
from foreword.store.import_draft import KEY_NOTE, Draft, groups_of, ranks_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from foreword.config.aisbench import Assignment, CorpusSection, Length, ServiceSection

_API_PATHS = ("/v1/completions", "/v1/chat/completions", "/v1")
_COLUMNS = ("input_prompt_tokens", "content_tokens", "input_tokens", "output_tokens")
_ORDERS: dict[str, dict[str, str]] = {
    "sequential": {"mode": "sequential"},
    "within_group_shuffle": {"within_group": "shuffle", "across_group": "grouped"},
    "interleave": {"mode": "interleave"},
    "global_shuffle": {"mode": "shuffle"},
    "input_len_asc": {"within_group": "input_len_asc", "across_group": "interleave"},
}
_POINTS = 100
_Value = TypeVar("_Value", int, str)


def from_scenario(document: dict[str, Any], folder: Path, *, engine: str) -> Draft:
    """The config that plans what a scenario asks for; files that it names are taken relative to its ``folder``.

    Raises ``ConfigError`` that names the scenario's key.
    """
    scenario = Scenario.parse(document, root=ROOT)
    if scenario.prefix_cache.groups.overrides:
        raise ConfigError(
            f"{ROOT}.prefix_cache.groups.overrides: lengths and samples of single groups have no equal here",
            field="prefix_cache.groups.overrides",
            advice="make a scenario for each group, or give all lengths as an explicit list",
        )
    return Draft(
        _config(scenario, folder, engine),
        _server(scenario.service.inference_url),
        _metrics(scenario),
        tuple(_notes(scenario)),
    )


def _config(scenario: Scenario, folder: Path, engine: str) -> dict[str, Any]:
    cache, requests, size = scenario.prefix_cache, scenario.requests, scenario.tokenizer.block_size
    apart = cache.seed_blocks * size
    if cache.minimum_non_shared_length is not None and cache.minimum_non_shared_length < apart:
        message = f"{ROOT}.prefix_cache.minimum_non_shared_length: below seed_blocks × block_size, {apart}"
        raise ConfigError(message, field="prefix_cache.minimum_non_shared_length")
    warm = cache.mode == "warmup"
    semantics = "static_prefix_ratio" if warm else "order_aware_global"
    return {
        "dataset_id": scenario.run.run_id,
        "seed": scenario.run.random_seed,
        "request_count": requests.count,
        "block_size": size,
        "engine": engine,
        "tokenizer": _tokenizer(scenario),
        "model": scenario.service.model,
        "input_length": _length(requests.input_length, "input_length", folder=folder),
        "output_length": _length(requests.output_length, "output_length", folder=folder),
        "target": {"hit_ratio": cache.target_hit_rate, "semantics": semantics},
        "prefix": {
            **groups_of(_weights(cache.groups.count, cache.groups.assignment)),
            "minimum_non_shared_length": cache.minimum_non_shared_length or apart,
        },
        "suffix": _suffix(scenario.corpus, folder),
        "request_order": _ORDERS[cache.order.strategy],
        "execution": {"mode": cache.mode, "concurrency": scenario.aisbench.model.batch_size},
        **ranks_of(scenario.service.dp_size),
        "validation": {
            "pass_tolerance": scenario.validation.target_warning_pp / _POINTS,
            "warning_tolerance": 1.0,
            "allow_nearest": True,
            "on_failure": "warn",
        },
    }


def _tokenizer(scenario: Scenario) -> str:
    """A folder as it is; a name of the hub with its revision."""
    given = scenario.tokenizer
    return f"hub:{given.path}@{given.revision}" if given.revision else given.path


def _length(length: Length, name: str, *, folder: Path) -> dict[str, Any]:
    where = f"{ROOT}.requests.{name}"
    match length.mode:
        case "fixed":
            return {"mode": "fixed", "value": _given(length.value, f"{where}.value")}
        case "explicit":
            return {"mode": "explicit", "values": list(length.values)}
        case "csv":
            path = folder / _given(length.path, f"{where}.path")
            return {"mode": "explicit", "path": str(path.resolve()), "column": _column(path, f"{where}.path")}
        case "range":
            return _bins([(each.min, each.max, float(each.count)) for each in length.ranges])
        case "uniform" | "truncated_normal":
            return _spread(length, where)


def _bins(closed: list[tuple[int, int, float]]) -> dict[str, Any]:
    """Closed intervals with weights as bins without their upper ends.

    A bin without weight stands last, since the last one of a histogram has its upper end.
    """
    beyond = max((high for _, high, _ in closed), default=0) + 1
    bins = [{"range": [low, high + 1], "weight": weight} for low, high, weight in closed]
    return {"mode": "histogram", "bins": [*bins, {"range": [beyond, beyond + 1], "weight": 0.0}]}


def _column(path: Path, name: str) -> str:
    """The column of a CSV that holds the lengths, by the plugin's names."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            columns = [column.strip().strip('"') for column in file.readline().split(",")]
    except OSError as failure:
        raise ConfigError(f"{name}: cannot read {path}: {failure.strerror}", field=name) from None
    found = next((column for column in _COLUMNS if column in columns), None)
    if found is None:
        raise ConfigError(f"{name}: {path} has none of the columns {', '.join(_COLUMNS)}", field=name)
    return found


def _spread(length: Length, where: str) -> dict[str, Any]:
    low, high = _given(length.min, f"{where}.min"), _given(length.max, f"{where}.max")
    if low == high:
        return {"mode": "fixed", "value": low}
    if length.mode == "uniform":
        return _bins([(low, high, 1.0)])
    mean = (low + high) / 2 if length.mean is None else length.mean
    std = max(1.0, (high - low) / 4) if length.std is None else length.std
    return {"mode": "truncated_normal", "min": low, "max": high, "mean": mean, "std": std}


def _given(value: _Value | None, name: str) -> _Value:
    if value is None:
        raise ConfigError(f"{name}: required by this mode, but not given", field=name)
    return value


def _weights(count: int, assignment: Assignment) -> list[float]:
    match assignment.mode:
        case "uniform":
            return [1.0] * count
        case "zipf":
            return [1 / (rank + 1) ** assignment.exponent for rank in range(count)]
        case "weights":
            if len(assignment.weights) != count:
                name = f"{ROOT}.prefix_cache.groups.assignment.weights"
                raise ConfigError(f"{name}: has {len(assignment.weights)} weights for {count} groups", field=name)
            return list(assignment.weights)


def _suffix(corpus: CorpusSection, folder: Path) -> dict[str, Any]:
    """The same rows of the same file; rows are counted from 1 here."""
    chosen = corpus.selection
    rows = (*chosen.values, *chosen.indices) if chosen.mode == "indices" else chosen.indices
    if chosen.mode in {"question_sha256", "mixed"} and (chosen.question_sha256 or chosen.values):
        name = f"{ROOT}.corpus.selection.question_sha256"
        message = f"{name}: is a digest of the question alone; samples here have question and answer"
        raise ConfigError(message, field=name, advice="name the rows by indices")
    suffix: dict[str, Any] = {"source": "gsm8k", "path": str((folder / corpus.path).resolve())}
    if not rows:
        return suffix
    stem = PurePosixPath(corpus.path).stem
    return {**suffix, "mode": "cycle", "samples": [f"{stem}:{int(row) + 1}" for row in rows], "repeat_samples": True}


def _server(url: str) -> str:
    ending = next((path for path in _API_PATHS if url.rstrip("/").endswith(path)), "")
    return url.rstrip("/").removesuffix(ending)


def _metrics(scenario: Scenario) -> tuple[str, ...]:
    return (scenario.service.metrics_url,) if scenario.service.metrics_url else ()


def _notes(scenario: Scenario) -> Iterator[str]:
    """What the scenario says and the config does not, a line each."""
    yield from _notes_on_data(scenario)
    yield from _notes_on_service(scenario.service)
    yield "service.timeout_seconds, poll_interval_seconds, validation.actual_warning_pp: options of run and report"
    yield "aisbench: foreword run sends the requests itself; foreword export --format aisbench writes its config"
    if scenario.multimodal is not None:
        yield "multimodal: pictures are not made; prompts are text"


def _notes_on_data(scenario: Scenario) -> Iterator[str]:
    modes = {scenario.requests.input_length.mode, scenario.requests.output_length.mode}
    if scenario.run.output_dir or scenario.run.overwrite:
        yield "run.output_dir, run.overwrite: say them to generate, as --output and --overwrite"
    if "path" not in scenario.tokenizer.model_fields_set:
        yield "tokenizer.path: not given; set tokenizer to that of the model"
    if scenario.tokenizer.trust_remote_code:
        yield "tokenizer.trust_remote_code: no code of a tokenizer is ever run; it is read from tokenizer.json"
    if scenario.corpus.field != "question":
        yield f"corpus.field: rows need question and answer; {scenario.corpus.field} is not read"
    if "range" in modes:
        yield "ranges: become bins with these counts as weights"
    if scenario.prefix_cache.seed_blocks > 1:
        yield "prefix_cache.seed_blocks: one unique block is enough; the rest of them is text of the corpus"
    if scenario.output.output_key:
        yield "output.output_key: other tools get their files from foreword export"


def _notes_on_service(service: ServiceSection) -> Iterator[str]:
    if service.api_key:
        yield KEY_NOTE
    if service.reset_url:
        yield "service.reset_url: passes are kept apart by a salt where the engine takes one; isolation: reset resets"
    if service.assume_empty_cache or service.engine_label_map:
        yield "service.assume_empty_cache, engine_label_map: found by the run itself"
    if service.dp_size > 1:
        yield "service.dp_size: requests of a group go to ranks in turn, in warm runs too; warm-up warms every rank"
