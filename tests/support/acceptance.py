"""The product's commands against a server that is not ours, and the comparison of every request with its prediction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.support.groups import ROOT
from tests.support.servers import MODEL_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

FOREWORD = Path(sys.executable).parent / "foreword"
LIMIT_S = 600
PREDICTION = {"cold": "expected_hit_len_cold", "hot": "expected_hit_len_hot"}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One data set and how it is run; ``seed`` tells its content from that of every other case.

    With an ``example``, a config of that folder with the server's block size, fewer requests, and text of ``corpus``.
    """

    prompt_format: str
    mode: str
    seed: int
    block_size: int
    isolation: str
    engine: str = "vllm"
    request_count: int = 300
    language: str = "en"
    example: str = ""
    corpus: Path | None = None

    @property
    def name(self) -> str:
        """Short name, for ids and folders."""
        return f"{self.example or self.mode}-{self.prompt_format}-{self.block_size}"

    @property
    def passes(self) -> tuple[str, ...]:
        """Passes whose requests are compared; warm-up requests have no prediction."""
        match self.mode:
            case "compare":
                return ("cold", "hot")
            case "progressive_prefix_fill" | "cold":
                return ("cold",)
            case _:
                return ("hot",)

    def config(self) -> dict[str, Any]:
        """The data set's config: the example's, or three tenants with spread lengths."""
        return self._example() if self.example else self._tenants()

    def _example(self) -> dict[str, Any]:
        text = (ROOT / "examples" / f"{self.example}.yaml").read_text(encoding="utf-8")
        config: dict[str, Any] = yaml.safe_load(text)["prefix_cache_dataset"]
        prefix = config["prefix"] | {"minimum_non_shared_length": self.block_size}
        suffix = config.get("suffix", {}) | {"source": "gsm8k"}
        own = {"dataset_id": f"{self.name}-{self.seed}", "prefix": prefix, "suffix": suffix, "output_length": 2}
        names = ("request_count", "block_size", "engine", "prompt_format", "isolation")
        return config | own | {name: getattr(self, name) for name in names}

    def _tenants(self) -> dict[str, Any]:
        warmed = self.mode in {"warmup", "hot"}
        return {
            "dataset_id": f"{self.name}-{self.seed}",
            "seed": self.seed,
            "request_count": self.request_count,
            "block_size": self.block_size,
            "engine": self.engine,
            "prompt_format": self.prompt_format,
            "isolation": self.isolation,
            "input_length": {"mode": "truncated_normal", "min": 300, "max": 900, "mean": 560, "std": 140},
            "output_length": 4,
            "target": {"hit_ratio": 0.55, "semantics": "static_prefix_ratio" if warmed else "order_aware_global"},
            "prefix": {
                "mode": "multi_prefix",
                "groups": [{"id": name, "request_weight": weight} for name, weight in (("A", 5), ("B", 3), ("C", 2))],
            },
            "suffix": {"source": "builtin", "language": self.language},
            "request_order": {"across_group": "interleave"},
            "execution": {"mode": self.mode},
        }


@dataclass(frozen=True, slots=True)
class PassResult:
    """Predicted and measured hit tokens of one pass; ``differing`` says for which requests they are not the same."""

    case: Case
    name: str
    requests: int
    prompt_tokens: int
    predicted_tokens: int
    cached_tokens: int
    queries_delta: float | None
    hits_delta: float | None
    differing: tuple[str, ...]


def foreword(*arguments: str | Path) -> None:
    """Run a command of the product; any exit code but 0 is an error with what it printed."""
    command = [str(FOREWORD), *(str(argument) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        message = f"{' '.join(command)} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        raise AssertionError(message)


def exercise(case: Case, url: str, *, tokenizer: Path, folder: Path) -> list[PassResult]:
    """Generate, validate, run one request at a time and report; then compare each pass."""
    folder.mkdir(parents=True)
    config, dataset, run = folder / "config.yaml", folder / "dataset", folder / "run"
    config.write_text(json.dumps({"prefix_cache_dataset": case.config()}), encoding="utf-8")
    sources = ("--tokenizer", tokenizer, *(("--corpus", case.corpus) if case.corpus else ()))
    foreword("generate", "--config", config, "--output", dataset, *sources)
    foreword("validate", "--dataset", dataset, *sources)
    to_server = ("--url", url, "--metrics-url", f"{url}/metrics", "--model", MODEL_NAME)
    foreword("run", "--dataset", dataset, "--output", run, "--concurrency", "1", "--mode", case.mode, *to_server)
    foreword("report", "--run-dir", run)
    assert (run / "report" / "prefix_cache_report.html").is_file()
    return [compare(case, name, dataset=dataset, runtime=run / "runtime") for name in case.passes]


def rows_of(path: Path) -> list[Row]:
    """Rows of a JSON Lines file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def compare(case: Case, name: str, *, dataset: Path, runtime: Path) -> PassResult:
    """Compare one pass with the metadata of the data set, and read the counters' difference."""
    planned = {row["request_id"]: row for row in rows_of(dataset / "request_metadata.jsonl")}
    rows = [row for row in rows_of(runtime / "request_results.jsonl") if row["pass"] == name]
    counters = counters_of(json.loads((runtime / "prefix_cache_metrics.json").read_text(encoding="utf-8")), name)
    assert {row["request_id"] for row in rows} == planned.keys()
    predicted = {id_: row[PREDICTION[name]] for id_, row in planned.items()}
    return PassResult(
        case=case,
        name=name,
        requests=len(rows),
        prompt_tokens=sum(row["prompt_tokens"] or 0 for row in rows),
        predicted_tokens=sum(predicted.values()),
        cached_tokens=sum(row["cached_tokens"] or 0 for row in rows),
        queries_delta=counters["queries_delta"],
        hits_delta=counters["hits_delta"],
        differing=tuple(differences(rows, planned, predicted)),
    )


def counters_of(metrics: Row, name: str) -> Row:
    """The entry of a pass in ``prefix_cache_metrics.json``."""
    entry: Row = next(entry for entry in metrics["passes"] if entry["pass"] == name)
    return entry


def differences(rows: Iterable[Row], planned: dict[str, Row], predicted: dict[str, int]) -> Iterable[str]:
    """One line for each request that failed, or whose prompt or hits are not as planned."""
    for row in rows:
        id_ = row["request_id"]
        wanted = (True, planned[id_]["input_len"], predicted[id_])
        found = (row["ok"], row["prompt_tokens"], row["cached_tokens"])
        if found != wanted:
            yield f"{id_}: ok, prompt tokens, hit tokens are {found}, predicted {wanted}"


def assert_as_predicted(result: PassResult) -> None:
    """Every request as predicted, and the server's own counters equal to the sum."""
    assert result.differing == ()
    assert result.requests == result.case.request_count
    assert result.cached_tokens == result.predicted_tokens
    assert result.hits_delta == result.predicted_tokens
    assert result.queries_delta == result.prompt_tokens


HEADER = (
    "| server | block | prompts | data set | pass | requests | prompt tokens | predicted hits | hits by usage "
    "| hits by counters | requests that differ |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|\n"
)


def table_row(server: str, result: PassResult) -> str:
    """One line of the table that docs/accuracy.md holds."""
    case = result.case
    prompts = {"completions_text": "text", "completions_ids": "token ids", "chat": "chat"}[case.prompt_format]
    numbers = (result.requests, result.prompt_tokens, result.predicted_tokens, result.cached_tokens)
    cells = [
        server,
        str(case.block_size),
        prompts,
        case.example or case.mode,
        result.name,
        *(f"{number:,}" for number in numbers),
    ]
    cells += ["absent" if result.hits_delta is None else f"{result.hits_delta:,.0f}", str(len(result.differing))]
    return f"| {' | '.join(cells)} |\n"


def begun_table(prefix: str = "") -> Path | None:
    """The file of ``FOREWORD_ACCURACY_TABLE``, its name with a prefix, begun anew; or nothing."""
    name = os.environ.get("FOREWORD_ACCURACY_TABLE")
    if not name:
        return None
    path = Path(name).with_name(f"{prefix}{Path(name).name}")
    path.write_text(HEADER, encoding="utf-8")
    return path


def check(case: Case, url: str, *, server: str, table: Path | None, tokenizer: Path, folder: Path) -> None:
    """Exercise a server, note what it did under its name, and hold it to the prediction."""
    results = exercise(case, url, tokenizer=tokenizer, folder=folder)
    if table is not None:
        with table.open("a", encoding="utf-8") as lines:
            lines.writelines(table_row(server, result) for result in results)
    for result in results:
        assert_as_predicted(result)
