"""Real servers as context managers: started on a free loopback port, ended with their whole process group."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

MODEL_NAME = "tiny"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1"}


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def process(command: Sequence[str], *, log: Path, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a process group of its own; its output goes to ``log``."""
    with log.open("wb") as sink:
        program = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={**os.environ, **env},
            start_new_session=True,
        )
    try:
        yield program
    finally:
        end(program)


def end(program: subprocess.Popen[bytes], *, patience_s: float = 15.0) -> None:
    """Ask the process group to stop, then make it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGTERM)
    try:
        program.wait(patience_s)
    except subprocess.TimeoutExpired:
        program.send_signal(signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait(patience_s)


def answers(url: str, needle: str) -> bool:
    """Whether the URL answers with a page that holds ``needle``."""
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:  # noqa: S310 - a loopback URL of our own
            page: bytes = reply.read()
            return needle in page.decode()
    except (urllib.error.URLError, OSError):
        return False


def wait_until_ready(url: str, needle: str, *, programs: Mapping[str, subprocess.Popen[bytes]], limit_s: float) -> None:
    """Poll a URL until it holds ``needle``; an ended program or the limit is an error that names the log."""
    end_time = time.monotonic() + limit_s
    while not answers(url, needle):
        for log, program in programs.items():
            if program.poll() is not None:
                message = f"server ended with {program.returncode}, see {log}"
                raise RuntimeError(message)
        if time.monotonic() > end_time:
            message = f"{url} not ready after {limit_s:.0f} s, see {', '.join(programs)}"
            raise TimeoutError(message)
        time.sleep(0.25)


@contextlib.contextmanager
def mocker_server(venv: Path, model: Path, work: Path, *, block_size: int, blocks: int = 65_536) -> Iterator[str]:
    """NVIDIA Dynamo's front end before one simulated worker with a real KV-block table; gives the base URL."""
    port, python = free_port(), str(venv / "bin" / "python")
    (work / "kv").mkdir(parents=True, exist_ok=True)
    env = {
        **OFFLINE,
        "DYN_DISCOVERY_BACKEND": "file",
        "DYN_FILE_KV": str(work / "kv"),
        "DYN_REQUEST_PLANE": "tcp",
        "DYN_EVENT_PLANE": "zmq",
        "DYN_HTTP_HOST": "127.0.0.1",
        "DYN_TCP_RPC_HOST": "127.0.0.1",
    }
    worker = [python, "-m", "dynamo.mocker", "--model-path", str(model), "--model-name", MODEL_NAME]
    worker += ["--block-size", str(block_size), "--num-gpu-blocks-override", str(blocks)]
    worker += ["--num-workers", "1", "--speedup-ratio", "10", "--enable-prefix-caching"]
    front = [python, "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(port)]
    front += ["--router-mode", "round-robin", "--kv-cache-block-size", str(block_size)]
    with (
        process(worker, log=work / "worker.log", env=env) as first,
        process(front, log=work / "front.log", env=env) as second,
    ):
        programs = {str(work / "worker.log"): first, str(work / "front.log"): second}
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(f"{url}/v1/models", f'"{MODEL_NAME}"', programs=programs, limit_s=90)
        yield url


@contextlib.contextmanager
def vllm_server(
    venv: Path, model: Path, work: Path, *, block_size: int, gpu_blocks: int | None = None
) -> Iterator[str]:
    """A real vLLM on the CPU with its block cache, of ``gpu_blocks`` if given; gives the base URL."""
    port = free_port()
    work.mkdir(parents=True, exist_ok=True)
    env = {**OFFLINE, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
    command = [str(venv / "bin" / "vllm"), "serve", str(model), "--served-model-name", MODEL_NAME]
    command += ["--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--max-model-len", "8192"]
    command += ["--enable-prefix-caching", "--block-size", str(block_size), "--enable-prompt-tokens-details"]
    command += ["--disable-uvicorn-access-log"]
    command += [] if gpu_blocks is None else ["--num-gpu-blocks-override", str(gpu_blocks)]
    log = work / "vllm.log"
    with process(command, log=log, env=env) as program:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(f"{url}/v1/models", f'"{MODEL_NAME}"', programs={str(log): program}, limit_s=240)
        yield url


@contextlib.contextmanager
def sglang_server(venv: Path, model: Path, work: Path, *, page_size: int) -> Iterator[str]:
    """A real SGLang on the CPU with its radix cache in pages; gives the base URL."""
    port = free_port()
    work.mkdir(parents=True, exist_ok=True)
    command = [str(venv / "bin" / "python"), "-m", "sglang.launch_server", "--model-path", str(model)]
    command += ["--served-model-name", MODEL_NAME, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"]
    command += ["--grammar-backend", "none", "--disable-overlap-schedule", "--disable-cuda-graph"]
    command += ["--mem-fraction-static", "0.1", "--max-total-tokens", "400000", "--context-length", "8192"]
    command += ["--page-size", str(page_size), "--enable-metrics", "--enable-cache-report"]
    log = work / "sglang.log"
    with process(command, log=log, env={**OFFLINE, "SGLANG_USE_CPU_ENGINE": "1"}) as program:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(f"{url}/v1/models", f'"{MODEL_NAME}"', programs={str(log): program}, limit_s=300)
        yield url
