"""Where requests go: addresses from the command line, and which of them a lane belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from foreword.errors import UsageError
from foreword.run.openai import PATHS
from foreword.run.privacy import public_url

if TYPE_CHECKING:
    from collections.abc import Sequence
    from urllib.parse import SplitResult

    from foreword.terms import PromptFormat

ONE_URL_PER_RANK = "start one server for each rank, and give one URL per rank, with commas"
RANK_HEADER = "X-data-parallel-rank"
_ENDPOINTS = ("/chat/completions", "/completions")


@dataclass(frozen=True, slots=True)
class Target:
    """One server: ``base`` (before ``/v1``) and the endpoint that takes the requests."""

    base: str
    endpoint: str


def parse_target(url: str, prompt_format: PromptFormat) -> Target:
    """Read a base URL or a full endpoint; raises ``UsageError`` when it does not fit the prompts.

    >>> from foreword.terms import PromptFormat
    >>> parse_target("http://localhost:8000/v1/completions", PromptFormat.COMPLETIONS_TEXT).base
    'http://localhost:8000'
    """
    parts = _split(url, "--url")
    path = parts.path.rstrip("/")
    wanted = PATHS[prompt_format]
    ending = next((ending for ending in _ENDPOINTS if path.endswith(ending)), None)
    if ending and ending != wanted.removeprefix("/v1"):
        raise UsageError(
            f"{public_url(url)} does not take {prompt_format} prompts", advice=f"its path must end in {wanted}"
        )
    stem = path.removesuffix(ending or "").removesuffix("/v1")
    endpoint = path if ending else stem + wanted
    base = urlunsplit((parts.scheme, parts.netloc, stem, "", ""))
    return Target(base, urlunsplit((parts.scheme, parts.netloc, endpoint, parts.query, "")))


def parse_metrics_url(url: str) -> str:
    """Read a metrics URL; one without a path gets ``/metrics``."""
    parts = _split(url, "--metrics-url")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or "/metrics", parts.query, ""))


def _split(url: str, option: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid and "://" not in url:
        raise UsageError(f"{option} {_shown(url)} has no scheme", advice="write http:// or https:// before the host")
    if not valid:
        raise UsageError(f"{option} takes http://host:port, not {_shown(url)}")
    return parts


def _shown(url: str) -> str:
    """What was given in place of an address, unless it may hold a user, a password or a key."""
    return "(not shown)" if set("@?#") & set(url) else url


@dataclass(frozen=True, slots=True)
class Router:
    """Sends each lane to its server, or names its rank to the one server there is."""

    targets: tuple[Target, ...]
    by_header: bool

    def url_index(self, planned_dp_id: int) -> int:
        """Which address a lane belongs to."""
        return planned_dp_id if len(self.targets) > 1 else 0

    def headers(self, planned_dp_id: int) -> dict[str, str]:
        """Header that names the lane's rank, where the address alone does not."""
        return {RANK_HEADER: str(planned_dp_id)} if self.by_header else {}


def route(targets: Sequence[Target], *, dp_size: int, by_send_order: bool) -> Router:
    """Bind lanes to addresses; raises ``UsageError`` when their numbers differ (workload decision 3)."""
    if len(targets) > 1 and len(targets) != dp_size:
        raise UsageError(
            f"the data set is planned for {dp_size} data-parallel lane{'s' * (dp_size != 1)}, "
            f"but {len(targets)} URLs are given",
            advice="give one URL a lane, or one URL of a server that has the ranks, or plan with routing.dp_size",
        )
    return Router(tuple(targets), by_header=len(targets) == 1 and dp_size > 1 and not by_send_order)
