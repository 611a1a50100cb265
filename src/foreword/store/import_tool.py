"""Settings of the small AISBench prefix tools: ``aisbench_test.py`` with its options, and their ``config.py``.

``repeat_rate`` is the share of each prompt that stands at the front of others too. The tools take it for the hit ratio;
it is that of warm caches only, less what blocks round away, so it becomes a ``static_prefix_ratio`` here, and a run
without ``prefix_test`` is a cold one whose designed ratio the plan states.
"""

from __future__ import annotations

import ast
import shlex
from typing import TYPE_CHECKING, Any

from foreword.errors import ConfigError, DataError
from foreword.store.import_draft import KEY_NOTE, Draft, groups_of, ranks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

SCRIPT = "aisbench_test.py"
_FLAGS = {"prefix_test", "enable_think", "test_accuracy"}
_NUMBERS = {
    "input_len", "output_len", "data_num", "concurrency", "prefix_num", "seed", "dp", "repeat", "npu_num",
    "length_mean", "length_std", "length_min", "length_max",
}  # fmt: skip
_WORDS = {"repeat_rate", "request_rate", "dataset_type", "dataset", "test_type"}
_SETTINGS = {
    "DATASET_PATH", "WORK_PATH", "MODEL_NAME", "MODEL_PATH", "HOST_IP", "HOST_PORT", "API_KEY", "POD_INFO",
    "OUTPUT_DIR", "DEFAULT_PERFORMANCE_TEST",
}  # fmt: skip
_ELSEWHERE = {
    "test_accuracy": "answers are not judged; keep the other tool for accuracy",
    "enable_think": "chat_template_kwargs: {enable_thinking: true}, with prompt_format: chat",
    "test_type": "answers are streamed; run --no-stream asks for whole ones",
    "repeat": "run as often as you like; each run has its own salt",
    "npu_num": "divide throughput by it",
    "dataset": "its lengths are not planned; suffix.path takes its text",
}
_ALL_PERCENT = 100


def from_tool(files: Sequence[tuple[Path, str]], *, engine: str) -> Draft:
    """The config of a command line and of ``config.py`` files; raises ``ConfigError`` or ``DataError``."""
    asked: dict[str, str] = {}
    settings: dict[str, Any] = {}
    for path, text in files:
        if path.suffix == ".py":
            settings |= _constants(path, text)
        else:
            asked |= _options(path, text)
    if not asked:
        message = f"no command line with {SCRIPT} in {', '.join(str(path) for path, _ in files)}"
        raise ConfigError(message, field="--input", advice="give the shell script, or a file with the command")
    host = _address(settings)
    return Draft(_config(asked, settings, engine), host, _pods(settings, host), tuple(_notes(asked, settings)))


def _constants(path: Path, text: str) -> dict[str, Any]:
    """Constants that a Python file assigns; nothing of it is run."""
    try:
        tree = ast.parse(text)
    except SyntaxError as failure:
        raise DataError(f"{path}:{failure.lineno}: is not Python: {failure.msg}", field="--input") from None
    found: dict[str, Any] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _SETTINGS:
                try:
                    found[name] = ast.literal_eval(value)
                except ValueError:
                    message = f"{path}:{node.lineno}: {name}: is no plain value"
                    raise DataError(message, field=name) from None
    return found


def _options(path: Path, text: str) -> dict[str, str]:
    """Options of the first command that calls the script."""
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), start=1):
        if SCRIPT in line and not line.lstrip().startswith("#"):
            return dict(_pairs(f"{path}:{number}", line.partition(SCRIPT)[2]))
    return {}


def _pairs(where: str, line: str) -> Iterator[tuple[str, str]]:
    try:
        words = iter(shlex.split(line, comments=True))
    except ValueError as failure:
        raise DataError(f"{where}: cannot be read as a command: {failure}", field="--input") from None
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--") or name not in _FLAGS | _NUMBERS | _WORDS:
            raise ConfigError(f"{where}: {word}: unknown option of {SCRIPT}", field=word)
        if name not in _FLAGS:
            value = value or next(words, "")
            _check(where, name, value)
        yield name, value


def _check(where: str, name: str, value: str) -> None:
    if "$" in value:
        raise ConfigError(f"{where}: --{name}: {value}: give a value, not a shell variable", field=name)
    if name in _NUMBERS and not value.isdecimal():
        raise ConfigError(f"{where}: --{name}: must be a whole number, got {value!r}", field=name)


def _config(asked: dict[str, str], settings: dict[str, Any], engine: str) -> dict[str, Any]:
    warm = "prefix_test" in asked
    shares = asked.get("dataset_type", "normal") == "prefix_cache"
    ratio = _ratio(asked.get("repeat_rate", "0.5")) if shares else 0.0
    suffix = {"source": "gsm8k", "path": asked["dataset"]} if "dataset" in asked else {"source": "builtin"}
    rate = float(asked.get("request_rate", 0))
    return {
        "dataset_id": f"prefix-{_whole(asked, 'input_len')}-seed-{asked.get('seed', '1')}",
        "seed": int(asked.get("seed", 1)),
        "request_count": _whole(asked, "data_num"),
        "engine": engine,
        "tokenizer": settings.get("MODEL_PATH", "builtin"),
        **({"model": settings["MODEL_NAME"]} if "MODEL_NAME" in settings else {}),
        "input_length": _lengths(asked),
        "output_length": _whole(asked, "output_len"),
        "target": {"hit_ratio": ratio, "semantics": "static_prefix_ratio"},
        "prefix": groups_of([1.0] * int(asked.get("prefix_num", 1))),
        "suffix": suffix,
        "request_order": {"mode": "shuffle"},
        "execution": {"mode": "warmup" if warm else "cold", "concurrency": int(asked.get("concurrency", 1))},
        **ranks_of(int(asked.get("dp", 1))),
        **({"serving": {"requests_per_s": rate}} if rate else {}),
        "validation": {"allow_nearest": True, "on_failure": "warn"},
    }


def _whole(asked: dict[str, str], name: str) -> int:
    if name not in asked:
        raise ConfigError(f"--{name}: required, but not given", field=name)
    return int(asked[name])


def _ratio(text: str) -> float:
    """``50%`` or ``0.5``."""
    try:
        value = float(text.removesuffix("%")) / (_ALL_PERCENT if text.endswith("%") else 1)
    except ValueError:
        raise ConfigError(f"--repeat_rate: must be like 0.5 or 50%, got {text!r}", field="repeat_rate") from None
    if not 0 <= value <= 1:
        raise ConfigError(f"--repeat_rate: must lie between 0 and 1, got {text}", field="repeat_rate")
    return value


def _lengths(asked: dict[str, str]) -> dict[str, Any]:
    if not {"length_mean", "length_std", "length_min", "length_max"} <= asked.keys():
        return {"mode": "fixed", "value": _whole(asked, "input_len")}
    low, high = int(asked["length_min"]), int(asked["length_max"])
    mean, std = float(asked["length_mean"]), float(asked["length_std"])
    return {"mode": "truncated_normal", "min": low, "max": high, "mean": mean, "std": std}


def _address(settings: dict[str, Any]) -> str:
    host, port = str(settings.get("HOST_IP", "127.0.0.1")), str(settings.get("HOST_PORT", "8000"))
    bare = host.strip("[]")
    return f"http://[{bare}]:{port}" if ":" in bare else f"http://{host}:{port}"


def _pods(settings: dict[str, Any], host: str) -> tuple[str, ...]:
    """Pages of counters: of each pod, IPv6 in brackets, else of the host."""
    pods: Iterable[object] = settings.get("POD_INFO") or ()
    return tuple(f"{_pod(str(pod))}/metrics" for pod in pods) or (f"{host}/metrics",)


def _pod(pod: str) -> str:
    host, colon, port = pod.rpartition(":")
    bare = host.strip("[]")
    if not colon or not port.isdecimal() or not bare:
        raise ConfigError(f"POD_INFO: {pod!r} is no address and port", field="POD_INFO", advice="like 10.0.0.1:8000")
    return f"http://[{bare}]:{port}" if ":" in bare else f"http://{bare}:{port}"


def _notes(asked: dict[str, str], settings: dict[str, Any]) -> Iterator[str]:
    """What has no counterpart, and what repeat_rate comes to."""
    if asked.get("dataset_type") == "prefix_cache":
        pass_ = "warm" if "prefix_test" in asked else "cold"
        yield f"repeat_rate: the share of each prompt that is planned as prefix; plan says what the {pass_} pass hits"
        yield "three random tokens after the prefix: a whole block of each request's own text parts them here"
    yield "block_size: the engine's default is assumed; set block_size to the server's"
    if float(asked.get("request_rate", 0)):
        yield "request_rate: predictions are made for it; run sends as answers come, --concurrency at once"
    yield from (f"{name}: {meaning}" for name, meaning in _ELSEWHERE.items() if name in asked)
    if settings.get("API_KEY"):
        yield KEY_NOTE
    unread = sorted({"DATASET_PATH", "WORK_PATH", "OUTPUT_DIR", "DEFAULT_PERFORMANCE_TEST"} & settings.keys())
    if unread:
        yield f"{', '.join(unread)}: folders and modes of AISBench; foreword run needs none"
