"""Addresses from the command line, and which lane goes where."""

from __future__ import annotations

import pytest

from foreword.errors import UsageError
from foreword.run.targets import RANK_HEADER, parse_metrics_url, parse_target, route
from foreword.terms import PromptFormat

TEXT, IDS, CHAT = PromptFormat.COMPLETIONS_TEXT, PromptFormat.COMPLETIONS_IDS, PromptFormat.CHAT


@pytest.mark.parametrize(
    ("url", "prompt_format", "base", "endpoint"),
    [
        ("http://h:1", TEXT, "http://h:1", "http://h:1/v1/completions"),
        ("http://h:1/", IDS, "http://h:1", "http://h:1/v1/completions"),
        ("http://h:1/v1/", TEXT, "http://h:1", "http://h:1/v1/completions"),
        ("http://h:1/v1/completions", TEXT, "http://h:1", "http://h:1/v1/completions"),
        ("https://h/llm/v1", TEXT, "https://h/llm", "https://h/llm/v1/completions"),
        (
            "https://h/openai/completions?api-version=1",
            TEXT,
            "https://h/openai",
            "https://h/openai/completions?api-version=1",
        ),
        ("http://h:1", CHAT, "http://h:1", "http://h:1/v1/chat/completions"),
        ("http://h:1/v1/chat/completions", CHAT, "http://h:1", "http://h:1/v1/chat/completions"),
        ("http://u:p@[::1]:1/v1", TEXT, "http://u:p@[::1]:1", "http://u:p@[::1]:1/v1/completions"),
    ],
)
def test_a_base_url_or_an_endpoint(url: str, prompt_format: PromptFormat, base: str, endpoint: str) -> None:
    """Both forms lead to the same base and endpoint."""
    target = parse_target(url, prompt_format)

    assert (target.base, target.endpoint) == (base, endpoint)


@pytest.mark.parametrize(
    ("url", "prompt_format"),
    [
        ("http://h:1/v1/chat/completions", TEXT),
        ("http://h:1/v1/completions", CHAT),
        ("h:1", TEXT),
        ("ftp://h/v1", TEXT),
        ("http://", TEXT),
        ("http://h:99999", TEXT),
        ("", TEXT),
    ],
)
def test_an_address_that_does_not_fit(url: str, prompt_format: PromptFormat) -> None:
    """An endpoint for other prompts, or no HTTP address at all, is a usage error."""
    with pytest.raises(UsageError):
        parse_target(url, prompt_format)


def test_credentials_of_a_bad_address_are_not_repeated() -> None:
    """The message repeats an address only where nothing in it can be private."""
    for url in ("http://me:secret@h/v1/chat/completions", "me:secret@h:80", "ftp://h?key=secret", "h:80#secret"):
        with pytest.raises(UsageError) as failure:
            parse_target(url, TEXT)

        assert "secret" not in str(failure.value)


def test_an_address_without_a_scheme_is_shown_with_what_is_missing() -> None:
    """What was typed and what to write before it, in one line."""
    with pytest.raises(UsageError, match=r"--url 127\.0\.0\.1:28801 has no scheme \(write http:// or https://"):
        parse_target("127.0.0.1:28801", TEXT)


def test_a_metrics_address_without_a_path() -> None:
    """A host alone means its ``/metrics``; a path is left as it is."""
    assert parse_metrics_url("http://h:9/") == "http://h:9/metrics"
    assert parse_metrics_url("http://h:9/prometheus/metrics") == "http://h:9/prometheus/metrics"


def test_lanes_go_to_their_servers() -> None:
    """With one address a lane, lane k goes to address k and no header is needed."""
    router = route([parse_target(f"http://h:{port}", TEXT) for port in (1, 2)], dp_size=2, by_send_order=False)

    assert [router.url_index(lane) for lane in (0, 1)] == [0, 1]
    assert router.headers(1) == {}


def test_lanes_name_their_rank() -> None:
    """With one address for several lanes, each request names its rank, unless the server is to choose."""
    targets = [parse_target("http://h:1", TEXT)]

    assert route(targets, dp_size=4, by_send_order=False).headers(3) == {RANK_HEADER: "3"}
    assert route(targets, dp_size=4, by_send_order=True).headers(3) == {}
    assert route(targets, dp_size=1, by_send_order=False).headers(0) == {}


@pytest.mark.parametrize("dp_size", [1, 2, 4])
def test_another_number_of_servers_than_lanes(dp_size: int) -> None:
    """Three servers cannot carry one, two or four lanes as planned."""
    with pytest.raises(UsageError, match=f"planned for {dp_size} data-parallel lane"):
        route([parse_target(f"http://h:{port}", TEXT) for port in (1, 2, 3)], dp_size=dp_size, by_send_order=False)
