"""The built-in server over HTTP, in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from foreword.store.tokenizers import load_tokenizer
from tests.support.builtin import CHAT, COMPLETIONS, ask, builtin_tokenizer, cached_of, metrics, served, stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from aiohttp import ClientSession

WORDS = "the quick brown fox jumps over the lazy dog and then it rests for a while in the shade of an old tree"
MESSAGES = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": WORDS}]
USAGE = {"include_usage": True}


@pytest.fixture
async def client() -> AsyncIterator[ClientSession]:
    """A client of a fresh, fast server with blocks of 16 tokens."""
    async with served() as session:
        yield session


# What the server says about itself


async def test_models_names_the_one_model(client: ClientSession) -> None:
    """The model card has the served name and the longest request."""
    async with client.get("/v1/models") as reply:
        (card,) = (await reply.json())["data"]

    assert (card["id"], card["object"], card["max_model_len"]) == ("foreword", "model", 131_072)


async def test_a_bounded_cache_bounds_the_longest_request() -> None:
    """What can never fit is refused at once instead of waiting for ever."""
    async with served(capacity_blocks=4, block_size=16) as client:
        async with client.get("/v1/models") as reply:
            (card,) = (await reply.json())["data"]
        async with client.post(COMPLETIONS, json={"prompt": [*range(60)], "max_tokens": 5}) as reply:
            status, error = reply.status, (await reply.json())["error"]
        answer = await ask(client, prompt=[*range(60)], max_tokens=4)

    assert card["max_model_len"] == 64
    assert (status, error["code"], error["type"], error["param"]) == (400, 400, "BadRequestError", "prompt")
    assert answer["usage"]["total_tokens"] == 64


async def test_health_is_an_empty_200(client: ClientSession) -> None:
    """Readiness probes read the status only."""
    async with client.get("/health") as reply:
        assert (reply.status, await reply.read()) == (200, b"")


async def test_version_says_which_vllm_it_mirrors(client: ClientSession) -> None:
    """Tools pick units and names by vLLM's version."""
    async with client.get("/version") as reply:
        version = await reply.json()

    assert version["version"] == "0.32.0"
    assert version["server"].startswith("foreword ")


# Prompts


@pytest.mark.parametrize(
    ("prompt", "choices", "prompt_tokens"),
    [
        ("a", 1, None),
        (["a", "a"], 2, None),
        ([5, 6, 7], 1, 3),
        ([[5, 6, 7], [8, 9]], 2, 5),
    ],
    ids=["text", "texts", "ids", "lists of ids"],
)
async def test_the_four_forms_of_a_prompt(
    client: ClientSession, prompt: object, choices: int, prompt_tokens: int | None
) -> None:
    """Each prompt gets a choice; usage counts all of them."""
    answer = await ask(client, prompt=prompt, max_tokens=3)

    one_text = len(builtin_tokenizer().encode("a"))
    assert [choice["index"] for choice in answer["choices"]] == [*range(choices)]
    assert answer["usage"]["prompt_tokens"] == (prompt_tokens or choices * one_text)
    assert answer["usage"]["completion_tokens"] == 3 * choices
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + 3 * choices


async def test_text_is_tokenised_as_the_tokenizer_does(client: ClientSession) -> None:
    """``return_token_ids`` shows the ids that were hashed; ``/tokenize`` gives the same."""
    answer = await ask(client, prompt=WORDS, return_token_ids=True)
    async with client.post("/tokenize", json={"prompt": WORDS}) as reply:
        tokenised = await reply.json()

    ids = builtin_tokenizer().encode(WORDS)
    assert answer["choices"][0]["prompt_token_ids"] == ids
    assert tokenised == {"count": len(ids), "max_model_len": 131_072, "tokens": ids, "token_strs": None}


@pytest.mark.tokenizers
async def test_text_gets_the_special_tokens_of_its_tokenizer(tokenizer_file: Callable[[str], Path]) -> None:
    """Text completions begin with BOS where the tokenizer adds it; ids, chats and texts that decline it do not."""
    tokenizer = load_tokenizer(str(tokenizer_file("sp32000")))
    plain = tokenizer.encode("Hello")
    async with served(tokenizer) as client:
        prompts = [
            (await ask(client, COMPLETIONS, return_token_ids=True, **body))["choices"][0]["prompt_token_ids"]
            for body in ({"prompt": "Hello"}, {"prompt": "Hello", "add_special_tokens": False}, {"prompt": plain})
        ]
        chat = await ask(client, CHAT, messages=MESSAGES, return_token_ids=True)

    assert prompts == [[1, *plain], plain, plain]
    assert chat["prompt_token_ids"][0] != 1


async def test_chat_is_tokenised_by_the_documented_template(client: ClientSession) -> None:
    """A chat's prompt is ``<|role|>``, newline, content, newline for each message, then the assistant's head."""
    answer = await ask(client, CHAT, messages=MESSAGES, return_token_ids=True)
    async with client.post("/tokenize", json={"messages": MESSAGES}) as reply:
        tokenised = await reply.json()

    rendered = f"<|system|>\nYou are brief.\n<|user|>\n{WORDS}\n<|assistant|>\n"
    assert answer["prompt_token_ids"] == tokenised["tokens"] == builtin_tokenizer().encode(rendered)


async def test_chat_content_may_be_text_parts(client: ClientSession) -> None:
    """Text parts are joined."""
    whole = await ask(client, CHAT, messages=[{"role": "user", "content": "good day"}], return_token_ids=True)
    parts = [{"type": "text", "text": "good "}, {"type": "text", "text": "day"}]
    split = await ask(client, CHAT, messages=[{"role": "user", "content": parts}], return_token_ids=True)

    assert split["prompt_token_ids"] == whole["prompt_token_ids"]


async def test_a_long_text_goes_through_a_thread_and_gives_the_same(client: ClientSession) -> None:
    """Long prompts are tokenised off the event loop, with the same result."""
    text = f"{WORDS} " * 200

    answer = await ask(client, prompt=text, max_tokens=1)

    assert answer["usage"]["prompt_tokens"] == len(builtin_tokenizer().encode(text))


# Answers


async def test_text_and_ids_of_an_answer_agree(client: ClientSession) -> None:
    """Prompt and answer as one text encode to the prompt's ids and the answer's ids."""
    answer = await ask(client, prompt=WORDS, max_tokens=200, return_token_ids=True)
    choice = answer["choices"][0]

    assert builtin_tokenizer().encode(WORDS + choice["text"]) == [*choice["prompt_token_ids"], *choice["token_ids"]]
    assert len(choice["token_ids"]) == 200


async def test_the_same_prompt_gets_the_same_answer_and_another_one_another(client: ClientSession) -> None:
    """Answers are a function of the prompt's ids."""
    texts = [(await ask(client, prompt=prompt))["choices"][0]["text"] for prompt in (WORDS, WORDS, WORDS[1:])]

    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("decode", [None, 20_000.0])
@pytest.mark.parametrize("with_ids", [True, False])
async def test_a_streamed_completion_says_what_a_whole_one_says(decode: float | None, *, with_ids: bool) -> None:
    """One event a token, whose texts and ids add up to the answer that does not stream."""
    asked: dict[str, Any] = {"prompt": WORDS, "max_tokens": 16, "return_token_ids": with_ids}
    async with served(decode_tokens_per_s=decode) as client:
        whole = await ask(client, **asked)
        *tokens, usage = await stream(client, **asked, stream_options=USAGE)

    choices = [event["choices"][0] for event in tokens]
    assert len(choices) == 16
    assert "".join(choice["text"] for choice in choices) == whole["choices"][0]["text"]
    assert [choice["finish_reason"] for choice in choices] == [None] * 15 + ["length"]
    assert {event["object"] for event in tokens} == {"text_completion"}
    assert usage["choices"] == []
    assert usage["usage"] | {"prompt_tokens_details": None} == whole["usage"] | {"prompt_tokens_details": None}
    assert [i for choice in choices for i in choice.get("token_ids", [])] == whole["choices"][0].get("token_ids", [])
    assert choices[0].get("prompt_token_ids") == whole["choices"][0].get("prompt_token_ids")


@pytest.mark.parametrize("with_ids", [True, False])
async def test_a_streamed_chat_begins_with_the_role(client: ClientSession, *, with_ids: bool) -> None:
    """The first event has a role and no token; the others add up to the whole answer (case 21)."""
    asked: dict[str, Any] = {"messages": MESSAGES, "max_tokens": 5, "return_token_ids": with_ids}
    whole = await ask(client, CHAT, **asked)
    role, *tokens = await stream(client, CHAT, **asked)

    choices = [event["choices"][0] for event in tokens]
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [set(choice["delta"]) for choice in choices] == [{"content"}] * 5
    assert "".join(choice["delta"]["content"] for choice in choices) == whole["choices"][0]["message"]["content"]
    assert choices[-1]["finish_reason"] == "length"
    assert {event["object"] for event in tokens} == {"chat.completion.chunk"}
    assert [i for choice in choices for i in choice.get("token_ids", [])] == whole["choices"][0].get("token_ids", [])
    assert role.get("prompt_token_ids") == whole.get("prompt_token_ids")


async def test_two_prompts_stream_side_by_side(client: ClientSession) -> None:
    """Each choice of a request with two prompts has its own events and end."""
    asked: dict[str, Any] = {"prompt": [[1, 2, 3], [4, 5]], "max_tokens": 4}
    whole = await ask(client, **asked)
    *tokens, usage = await stream(client, **asked, stream_options=USAGE)

    for index in (0, 1):
        mine = [event["choices"][0] for event in tokens if event["choices"][0]["index"] == index]
        assert "".join(choice["text"] for choice in mine) == whole["choices"][index]["text"]
        assert mine[-1]["finish_reason"] == "length"
    assert usage["usage"]["completion_tokens"] == 8


async def test_without_the_option_a_stream_has_no_usage(client: ClientSession) -> None:
    """Usage comes only when asked for."""
    events = await stream(client, prompt="a", max_tokens=2)

    assert len(events) == 2
    assert not any("usage" in event for event in events)


async def test_max_tokens_is_16_unless_given(client: ClientSession) -> None:
    """Completions and chats answer with 16 tokens, or as many as asked for by either name."""
    counts = [
        (await ask(client, path, **body))["usage"]["completion_tokens"]
        for path, body in (
            (COMPLETIONS, {"prompt": "a"}),
            (CHAT, {"messages": MESSAGES}),
            (CHAT, {"messages": MESSAGES, "max_completion_tokens": 3, "max_tokens": 9}),
            (COMPLETIONS, {"prompt": "a", "max_tokens": 7, "min_tokens": 7, "ignore_eos": True}),
        )
    ]

    assert counts == [16, 16, 3, 7]


# Cache


@pytest.mark.parametrize(("prompt_tokens", "hit"), [(1024, 0), (1025, 1024)])
async def test_a_prompt_of_whole_blocks_loses_its_last_one(prompt_tokens: int, hit: int) -> None:
    """Case 14: with blocks of 1,024 a repeated prompt of 1,024 tokens hits nothing, one of 1,025 hits 1,024."""
    async with served(block_size=1024) as client:
        answers = [await ask(client, prompt=[*range(prompt_tokens)]) for _ in range(2)]

    assert [cached_of(answer) for answer in answers] == [0, hit]


async def test_text_and_ids_share_the_cache(client: ClientSession) -> None:
    """What was sent as text is hit by the same prompt as ids."""
    ids = builtin_tokenizer().encode(WORDS)
    await ask(client, prompt=WORDS)

    assert cached_of(await ask(client, prompt=ids)) == (len(ids) - 1) // 16 * 16 > 0


async def test_a_next_turn_hits_the_answer(client: ClientSession) -> None:
    """Blocks that the answer filled are hit; its last token has no KV (vLLM's rule, blocks of 16)."""
    prompt = [*range(200)]
    choice = (await ask(client, prompt=prompt, max_tokens=40, return_token_ids=True))["choices"][0]

    following = await ask(client, prompt=[*prompt, *choice["token_ids"], *range(500, 560)])

    assert cached_of(following) == 239 // 16 * 16


async def test_a_salt_isolates(client: ClientSession) -> None:
    """A fresh salt is a cold cache; the same salt is warm."""
    hits = [cached_of(await ask(client, prompt=[*range(100)], cache_salt=salt)) for salt in ("a", "b", "a")]

    assert hits == [0, 0, 96]


async def test_sixteen_at_once_share_a_cold_prefix(client: ClientSession) -> None:
    """One miss and 15 hits: a block is matchable once its request is scheduled."""
    prompts = [[*range(900), *range(1000 + 100 * n, 1060 + 100 * n)] for n in range(16)]

    answers = await asyncio.gather(*(ask(client, prompt=prompt) for prompt in prompts))

    assert sorted(map(cached_of, answers)) == [0] + [896] * 15


async def test_a_small_cache_forgets_tails_first() -> None:
    """Ten blocks hold one prompt of nine; another one pushes all but its first block out."""
    async with served(capacity_blocks=10) as small:
        hits = [cached_of(await ask(small, prompt=[*range(n, n + 140)], max_tokens=1)) for n in (0, 0, 1000, 0)]

    assert hits == [0, 128, 0, 16]


async def test_reset_empties_the_cache(client: ClientSession) -> None:
    """After a reset a known prompt is cold; the counters go on."""
    await ask(client, prompt=[*range(100)])
    async with client.post("/reset_prefix_cache") as reply:
        answer = await reply.json()
    again = await ask(client, prompt=[*range(100)])

    assert answer == {"success": True}
    assert cached_of(again) == 0
    assert (await metrics(client))["vllm:prefix_cache_queries_total"] == 200


async def test_reset_fails_while_a_request_runs_and_leaving_ends_it() -> None:
    """Case 15: HTTP 200 with success false. A client that leaves its stream is an abort, and frees the cache."""
    async with served(decode_tokens_per_s=0.001) as client:
        async with client.post(COMPLETIONS, json={"prompt": [*range(50)], "stream": True}) as reply:
            await reply.content.readline()
            async with client.post("/reset_prefix_cache") as reset:
                refused = (reset.status, await reset.json())
            reply.close()
        while (await metrics(client))["vllm:num_requests_running"]:
            pass
        async with client.post("/reset_prefix_cache") as reset:
            accepted = await reset.json()
        aborted = (await metrics(client))["vllm:request_success_total{abort}"]

    assert refused == (200, {"success": False})
    assert (accepted, aborted) == ({"success": True}, 1)


async def test_leaving_without_streaming_is_an_abort_too() -> None:
    """A client that gives up waiting for a whole answer frees its slot."""
    async with served(decode_tokens_per_s=0.001, slots=1) as client:
        asking = asyncio.ensure_future(ask(client, prompt="a"))
        while not (await metrics(client))["vllm:num_requests_running"]:
            pass
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        while not (samples := await metrics(client))["vllm:request_success_total{abort}"]:
            pass

    assert samples["vllm:num_requests_running"] == 0


# Metrics


async def test_counters_are_the_sums_of_usage(client: ClientSession) -> None:
    """Prompt, cached and generated tokens on the page equal what the answers reported."""
    answers = [await ask(client, prompt=[*range(10 * n % 70, 200)], max_tokens=n % 5 + 1) for n in range(20)]
    samples = await metrics(client)

    prompt, generated = (
        sum(answer["usage"][key] for answer in answers) for key in ("prompt_tokens", "completion_tokens")
    )
    cached = sum(map(cached_of, answers))
    assert samples["vllm:prompt_tokens_total"] == samples["vllm:prefix_cache_queries_total"] == prompt
    assert samples["vllm:prefix_cache_hits_total"] == samples["vllm:prompt_tokens_cached_total"] == cached > 0
    assert samples["vllm:prompt_tokens_by_source_total{local_cache_hit}"] == cached
    assert samples["vllm:prompt_tokens_by_source_total{local_compute}"] == prompt - cached
    assert samples["vllm:prompt_tokens_cached_by_source_total{device}"] == cached
    assert samples["vllm:generation_tokens_total"] == generated
    assert samples["vllm:request_success_total{length}"] == samples["vllm:e2e_request_latency_seconds_count"] == 20
    assert samples["vllm:inter_token_latency_seconds_count"] == generated - 20
    assert samples["vllm:request_prefill_kv_computed_tokens_sum"] == prompt - cached


async def test_a_scrape_right_after_an_answer_has_counted_it(client: ClientSession) -> None:
    """The last byte of an answer is sent after its request is counted."""
    for n in range(30):
        await stream(client, prompt=[n], max_tokens=2)
        assert (await metrics(client))["vllm:request_success_total{length}"] == n + 1


async def test_the_page_is_openmetrics_when_asked(client: ClientSession) -> None:
    """Content negotiation as in vLLM: strict OpenMetrics parses, and ends with its mark."""
    await ask(client, prompt="a")
    async with client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}) as reply:
        page, kind = await reply.text(), reply.headers["Content-Type"]

    families = {family.name: family.type for family in parse_openmetrics(page)}  # type: ignore[no-untyped-call]  # not annotated by the library
    assert families["vllm:prefix_cache_queries"] == "counter"
    assert kind.startswith("application/openmetrics-text")
    assert page.endswith("# EOF\n")
