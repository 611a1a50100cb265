"""Keep raw metrics pages while a run goes on: a program of its own, so that no stream waits for a scrape.

Started as ``python -m foreword.run.sampler``; one JSON line on standard input says what to do (addresses may hold
credentials, so they are no arguments). It ends when standard input closes, so it cannot outlive the run. Each page is
one line of a gzip member of its own: what was written stays readable whatever happens. Times are ns since the run's
start on the system's monotonic clock, taken before the page is asked for. Standard library only.
"""

from __future__ import annotations

import base64
import gzip
import json
import select
import sys
import time
import urllib.error
import urllib.request
from typing import IO, Any
from urllib.parse import unquote, urlsplit, urlunsplit

LONGEST_PAGE_BYTES = 32 * 1024 * 1024
_TIMEOUT_S = 5.0
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request_for(url: str) -> urllib.request.Request:
    """Request for a page in the plain text format; user and password of the address become a header."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    request = urllib.request.Request(bare, headers={"Accept": "text/plain; version=0.0.4"})  # noqa: S310 - http(s) only
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        request.add_header("Authorization", f"Basic {base64.b64encode(pair).decode()}")
    return request


def fetch(url: str) -> str | None:
    """Text of a page, or ``None`` when it cannot be had now."""
    try:
        with _opener.open(request_for(url), timeout=_TIMEOUT_S) as response:
            body: bytes = response.read(LONGEST_PAGE_BYTES)
    except (OSError, urllib.error.URLError, ValueError):
        return None
    return body.decode("utf-8", "replace")


def sample(urls: list[str], origin_ns: int, *, file: IO[bytes]) -> None:
    """Fetch every page once and append it."""
    for index, url in enumerate(urls):
        at_ns = time.monotonic_ns() - origin_ns
        body = fetch(url)
        if body is not None:
            line = json.dumps({"t_ns": at_ns, "url_index": index, "body": body}) + "\n"
            file.write(gzip.compress(line.encode(), compresslevel=1))
    file.flush()


def main(stdin: IO[str] = sys.stdin) -> None:
    """Sample until standard input closes."""
    order: dict[str, Any] = json.loads(stdin.readline())
    with open(order["path"], "ab") as file:  # noqa: PTH123 - pathlib is a slow import for a sampler
        while True:
            sample(order["urls"], order["origin_ns"], file=file)
            if select.select([stdin], [], [], order["interval_s"])[0]:
                return


if __name__ == "__main__":
    main()
