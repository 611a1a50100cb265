"""The built-in server as processes: the command, signals, ports, and the helper of the demo."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest

from foreword.config.server import ServerConfig
from foreword.errors import ServerError, TokenizerError
from foreword.server.running import server_process

if TYPE_CHECKING:
    from pathlib import Path

FOREWORD = [sys.executable, "-m", "foreword"]


def command(*flags: str) -> subprocess.Popen[str]:
    """``foreword serve`` with its output to read."""
    return subprocess.Popen([*FOREWORD, "serve", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def get(url: str) -> bytes:
    """A page of a loopback server."""
    with urllib.request.urlopen(url, timeout=30) as reply:  # noqa: S310 - a loopback URL of our own
        page: bytes = reply.read()
        return page


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_command_with_one_line(number: signal.Signals) -> None:
    """The command says where it serves; Ctrl-C and SIGTERM end it with exit 0 and no traceback."""
    with command("--port", "0", "--model", "tiny") as server:
        assert server.stdout is not None
        ready = server.stdout.readline()
        url = ready.split(" at ")[1].split(": ")[0]
        card = json.loads(get(f"{url}/v1/models"))["data"][0]
        server.send_signal(number)
        _, errors = server.communicate(timeout=30)

    assert ready.startswith("tiny at http://127.0.0.1:")
    assert card["id"] == "tiny"
    assert (server.returncode, errors) == (0, "foreword: server stopped\n")


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    """``--json`` prints the URL and the settings that hold."""
    file = tmp_path / "server.yaml"
    file.write_text("server:\n  block_size: 32\n  slots: 5\n  port: 0\n  decode_tokens_per_s: 10\n")
    flags = ["--config", str(file), "--slots", "7", "--decode-tokens-per-s", "unlimited", "--json"]
    with command(*flags) as server:
        assert server.stdout is not None
        document = "".join(iter(server.stdout.readline, "}\n")) + "}"
        server.terminate()
        server.communicate(timeout=30)

    ready = json.loads(document)
    assert (ready["block_size"], ready["slots"], ready["decode_tokens_per_s"]) == (32, 7, None)
    assert ready["url"].startswith("http://127.0.0.1:")


def test_the_process_helper_serves_and_ends() -> None:
    """The demo's server answers while its context lasts, and not after it."""
    with server_process(ServerConfig(port=0)) as url:
        taken = ServerConfig(port=int(url.rpartition(":")[2]))
        assert get(f"{url}/health") == b""
        with pytest.raises(ServerError, match="is in use"), server_process(taken):
            pass
        busy = subprocess.run(
            [*FOREWORD, "serve", "--port", str(taken.port)], capture_output=True, text=True, timeout=60, check=False
        )

    assert busy.returncode == 4
    assert busy.stderr.splitlines()[0].startswith(f"foreword: 127.0.0.1:{taken.port} is in use")
    assert len(busy.stderr.splitlines()) == 1
    with pytest.raises(OSError, match="refused"):
        get(f"{url}/health")


def test_the_process_helper_passes_errors_on(tmp_path: Path) -> None:
    """A tokenizer that is not there is the caller's TokenizerError, with its advice."""
    with (
        pytest.raises(TokenizerError, match="cannot read") as caught,
        server_process(ServerConfig(port=0, tokenizer=str(tmp_path / "none.json"))),
    ):
        pass

    assert caught.value.advice


def test_a_signal_cuts_open_streams() -> None:
    """A server that is told to stop does not wait for slow streams to end."""
    with command("--port", "0", "--decode-tokens-per-s", "0.001") as server:
        assert server.stdout is not None
        url = server.stdout.readline().split(" at ")[1].split(": ")[0]
        body = json.dumps({"prompt": "a", "stream": True}).encode()
        with urllib.request.urlopen(f"{url}/v1/completions", data=body, timeout=30) as reply:  # noqa: S310 - loopback
            first = reply.readline()
            server.send_signal(signal.SIGTERM)
            _, errors = server.communicate(timeout=30)

    assert first.startswith(b"data: {")
    assert (server.returncode, errors) == (0, "foreword: server stopped\n")


def test_the_server_process_ends_with_its_parent() -> None:
    """When the process that started the helper is killed, its server does not stay behind."""
    script = (
        "import os, sys, signal\n"
        "from foreword.config.server import ServerConfig\n"
        "from foreword.server.running import server_process\n"
        "if __name__ == '__main__':\n"
        "    with server_process(ServerConfig(port=0)) as url:\n"
        "        print(url, flush=True)\n"
        "        sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        url = parent.stdout.readline().decode().strip()
        assert get(f"{url}/health") == b""
        parent.kill()
        parent.wait(timeout=30)
        assert parent.stdout.read() == b""  # the child holds the pipe until it ends

    with pytest.raises(OSError, match="refused"):
        get(f"{url}/health")
