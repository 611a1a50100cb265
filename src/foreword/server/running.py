"""Start and stop the built-in server: in this event loop, until a signal, or in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import multiprocessing
import os
import signal
from typing import TYPE_CHECKING

from aiohttp import web

from foreword.errors import ForewordError, ServerError
from foreword.server.app import Api
from foreword.store.tokenizers import load_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from foreword.config.server import ServerConfig
    from foreword.server.text import ServedTokenizer

_BACKLOG = 1024
_DRAIN_S = 0.5
_START_S = 120.0
_STOP_S = 10.0


class RunningServer:
    """A server that answers at ``url`` until ``close``."""

    def __init__(self, runner: web.AppRunner, url: str) -> None:
        self.url = url
        self._runner = runner

    async def close(self) -> None:
        """Stop listening; streams that are still open are cut."""
        await self._runner.cleanup()


async def start(config: ServerConfig, tokenizer: ServedTokenizer) -> RunningServer:
    """Serve in the running event loop; raises ``ServerError`` when the address cannot be had."""
    app = Api(config, tokenizer.engine).application()
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=_DRAIN_S
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, config.host, config.port, backlog=_BACKLOG).start()
    except OSError as problem:
        await runner.cleanup()
        raise _cannot_listen(config, problem) from None
    return RunningServer(runner, _url(runner.addresses[0]))


async def serve_until_stopped(
    config: ServerConfig, tokenizer: ServedTokenizer, *, on_ready: Callable[[str], None]
) -> None:
    """Serve until SIGINT, SIGTERM or the end of the process that started this one; ``on_ready`` gets the URL."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    parent = multiprocessing.parent_process()
    if parent is not None:
        loop.add_reader(parent.sentinel, stopped.set)
    server = await start(config, tokenizer)
    try:
        on_ready(server.url)
        await stopped.wait()
    finally:
        await server.close()


def serve(config: ServerConfig, on_ready: Callable[[str], None]) -> None:
    """Load the tokenizer and serve until SIGINT or SIGTERM; ``on_ready`` gets the URL."""
    asyncio.run(serve_until_stopped(config, load_tokenizer(config.tokenizer), on_ready=on_ready))


@contextlib.contextmanager
def server_process(config: ServerConfig) -> Iterator[str]:
    """Run the server in a process of its own and yield its URL; it ends with the context.

    A failure to start (tokenizer, address) is raised here as the child met it.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve_child, args=(config, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield _await_ready(ours)
    finally:
        ours.close()
        process.terminate()
        process.join(_STOP_S)
        if process.is_alive():
            process.kill()
            process.join()


def _await_ready(pipe: Connection) -> str:
    """The child's URL, or the error that it sent instead."""
    try:
        message = pipe.recv() if pipe.poll(_START_S) else None
    except EOFError:
        message = None
    match message:
        case str(url):
            return url
        case ForewordError() as failure:
            raise failure
        case _:
            raise ServerError("the built-in server did not start")


def _serve_child(config: ServerConfig, pipe: Connection) -> None:
    """Body of the server's process: says its URL or its error through the pipe."""
    try:
        serve(config, pipe.send)
    except ForewordError as failure:
        pipe.send(failure)


def _cannot_listen(config: ServerConfig, problem: OSError) -> ServerError:
    address = f"{config.host}:{config.port}"
    if problem.errno == errno.EADDRINUSE:
        return ServerError(f"{address} is in use", advice="choose another port; --port 0 takes a free one")
    reason = os.strerror(problem.errno) if problem.errno and problem.errno > 0 else str(problem)
    return ServerError(f"cannot listen on {address}: {reason}", advice="choose another host or port")


def _url(address: tuple[str, int]) -> str:
    host, port = address[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
