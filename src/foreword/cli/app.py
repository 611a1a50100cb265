"""The command table, and how failures leave the process.

Commands are import strings, so that ``foreword --help`` loads none of the libraries that they need.
"""

from __future__ import annotations

import keyword
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from foreword._version import __version__
from foreword.errors import ForewordError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 130

COMMANDS = {
    "demo": ("Run the whole chain on the built-in server; ends with the path of a report.", "foreword demo"),
    "plan": (
        "Plan a data set without text: reachability, lengths, groups, predicted hits.",
        "foreword plan --config examples/progressive_multi_prefix_50.yaml --set target.hit_ratio=0.9",
    ),
    "generate": (
        "Plan a data set, write its prompts token-exactly and check them.",
        "foreword generate --config examples/quickstart.yaml --output dataset",
    ),
    "validate": (
        "Re-encode a data set, replay its blocks and check every stated number.",
        "foreword validate --dataset dataset",
    ),
    "regenerate": (
        "Make a data set again from its manifest and prove that it is the same.",
        "foreword regenerate --manifest dataset/manifest.json",
    ),
    "probe": (
        "Ask a server what it puts around prompts, and how large its cache blocks are.",
        "foreword probe http://127.0.0.1:8000 --output server.yaml",
    ),
    "export": (
        "Write a data set for another load generator, with the command that keeps its ratio.",
        "foreword export --dataset dataset --format vllm --output exported",
    ),
    "import": (
        "Make a data-set config from settings of AISBench's prefix-cache plugin or tools.",
        "foreword import --format aisbench-plugin --input scenario.json --output config.yaml",
    ),
    "run": (
        "Send a data set to a server, closed loop, and record every request.",
        "foreword run --dataset dataset --url http://127.0.0.1:8000 --concurrency 1",
    ),
    "report": (
        "Explain a run: target, designed and measured, as JSON and one HTML file.",
        "foreword report --run-dir outputs/run_001",
    ),
    "serve": (
        "Start the built-in OpenAI-compatible server with a real prefix cache.",
        "foreword serve --block-size 16 --capacity-blocks 4096 --port 8000",
    ),
    "replay": (
        "Replay a trace of block keys through caches with tiers, policies and quotas.",
        "foreword replay --config examples/replay_three_tiers.json --output replayed",
    ),
}
"""What each command does, and an example of it."""


def _module(command: str) -> str:
    """The module and the function of a command; a word of Python gets an underscore."""
    return f"{command}_" if keyword.iskeyword(command) else command


app = App(
    name="foreword",
    help="Plan, generate, run and explain prefix-cache workloads for LLM serving.",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help_epilogue=(
        "Exit codes: 0 fine; 1 warnings under --strict; 2 usage, config or tokenizer; 3 construction failed; "
        "4 server, network or metrics; 5 damaged data; 130 interrupted."
    ),
)
for _name, (_help, _example) in COMMANDS.items():
    _place = f"foreword.cli.{_module(_name)}:{_module(_name)}"
    app.command(_place, name=_name, help=_help, help_epilogue=f"Example: {_example}")


app.meta.suppress_keyboard_interrupt = False


@app.meta.default
def _launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None, Parameter(help="Log lines on stderr from this level on.")
    ] = None,
    log_file: Annotated[Path | None, Parameter(help="Log lines as JSON, appended to this file.")] = None,
) -> object:
    if log_level is not None or log_file is not None:
        from foreword.cli.logs import start_logging

        start_logging(log_level, log_file)
    return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a failure is one line on stderr."""
    try:
        code = app.meta(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as failure:
        return _fail(UsageError(" ".join(str(failure).split()), advice="see foreword --help"))
    except ForewordError as failure:
        return _fail(failure)
    except KeyboardInterrupt:
        print("foreword: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, MemoryError) as failure:
        return _fail(_machine_problem(failure))
    return code if isinstance(code, int) else 0


def _machine_problem(failure: OSError | MemoryError) -> UsageError:
    if isinstance(failure, MemoryError):
        return UsageError("this needs more memory than there is", advice="ask for fewer or shorter requests")
    return UsageError(f"{failure.filename or 'a file'}: {failure.strerror or failure}")


def _fail(failure: ForewordError) -> int:
    import logging

    if logging.getLogger("foreword").handlers:
        from foreword.logs import note_failure

        note_failure(failure)
    where = f"{failure.stage}: " if failure.stage else ""
    print(f"foreword: {where}{failure}", file=sys.stderr)
    return failure.exit_code
