"""Each engine's pages, written by hand from its documented names, and what we read from them."""

from __future__ import annotations

from typing import Any

import pytest

from foreword.collect.counters import Snapshot, absent_metrics, cache_counters, gauge
from foreword.engines.model import EngineProfile, Logical
from foreword.engines.page import parse_page
from foreword.engines.registry import PROFILES, default_block_size, detect
from foreword.terms import Engine


def grown(before: str, after: str, block_size: int | None = None) -> dict[str, Any]:
    """Counters between two pages of the engine that the second page gives away."""
    pages = parse_page(before), parse_page(after)
    snapshots = [Snapshot(at_ns, (page,)) for at_ns, page in enumerate(pages)]
    return cache_counters(*snapshots, profile=engine_of(after), block_size=block_size)


def engine_of(text: str, planned: Engine = Engine.GENERIC) -> EngineProfile:
    """Engine that a page gives away."""
    return detect([parse_page(text)], [], planned=planned).profile


def block_size_of(text: str) -> int | None:
    """Block size that a page reports."""
    return engine_of(text).block_size(parse_page(text))


def old_vllm(queries: int, hits: int, unit: str, label: str) -> str:
    """VLLM up to 0.9.1: ``gpu_`` names, the unit in the HELP text alone."""
    return "".join(
        f"# HELP vllm:gpu_prefix_cache_{what} GPU prefix cache {what}, in terms of number of {verb} {unit}.\n"
        f"# TYPE vllm:gpu_prefix_cache_{what}_total counter\n"
        f"# HELP vllm:gpu_prefix_cache_{what}_total GPU prefix cache {what}, in terms of number of {verb} {unit}.\n"
        f"vllm:gpu_prefix_cache_{what}_total{label} {value}\n"
        for what, verb, value in (("queries", "queried", queries), ("hits", "cached", hits))
    )


@pytest.mark.parametrize("label", ['{model_name="m"}', '{engine="0",model_name="m"}'])
def test_vllm_that_counts_blocks(label: str) -> None:
    """0.8.0 (no rank) and 0.8.5 (with it) count blocks: times the block size they are tokens."""
    before, after = (old_vllm(*counts, "blocks", label) for counts in ((10, 5), (30, 15)))

    told = grown(before, after, block_size=16)

    assert (told["queries_delta"], told["hits_delta"], told["unit"]) == (320, 160, "tokens")
    assert grown(before, after)["unit"] == "blocks"


def test_vllm_that_counts_tokens_under_the_old_name() -> None:
    """0.9.1 has the same names as 0.8.5, but counts tokens."""
    before, after = (old_vllm(*counts, "tokens", '{engine="0"}') for counts in ((100, 50), (300, 150)))

    told = grown(before, after, block_size=16)

    assert (told["queries_delta"], told["hits_delta"], told["actual_hit_rate"]) == (200, 100, 0.5)


def new_vllm(queries: int, hits: int, engine: int = 0) -> str:
    """VLLM from 0.9.2 on."""
    label = f'{{engine="{engine}",model_name="m"}}'
    return f"vllm:prefix_cache_queries_total{label} {queries}\nvllm:prefix_cache_hits_total{label} {hits}\n"


def test_vllm_with_both_families() -> None:
    """0.10.2 shows old and new names at once; they are one count, not two."""
    old = '{engine="0"}'
    before = new_vllm(100, 40) + old_vllm(100, 40, "tokens", old)
    after = new_vllm(300, 140) + old_vllm(300, 140, "tokens", old)

    told = grown(before, after)

    assert (told["queries_delta"], told["hits_delta"]) == (200, 100)


def test_vllm_with_an_outer_tier() -> None:
    """1000 tokens, 600 local, 200 of the remaining 400 external: 800 of 1000 (case 17)."""
    label = '{engine="0",model_name="m"}'
    outer = f"vllm:external_prefix_cache_queries_total{label} 400\nvllm:external_prefix_cache_hits_total{label} 200\n"
    none = f"vllm:external_prefix_cache_queries_total{label} 0\nvllm:external_prefix_cache_hits_total{label} 0\n"

    told = grown(new_vllm(0, 0) + none, new_vllm(1000, 600) + outer)

    assert (told["actual_hit_rate"], told["total_hit_rate"]) == (0.6, 0.8)
    assert (told["external_queries_delta"], told["external_hits_delta"]) == (400, 200)


def test_vllm_ranks_are_kept_and_summed() -> None:
    """Two engines: 100 of 200 and 0 of 600 is 12.5 %, not the 25 % of averaged rates (case 20)."""
    before = new_vllm(0, 0) + new_vllm(0, 0, engine=1)

    told = grown(before, new_vllm(200, 100) + new_vllm(600, 0, engine=1))

    assert told["actual_hit_rate"] == 0.125
    (endpoint,) = told["endpoints"]
    assert {rank: row["hit_rate"] for rank, row in endpoint["series_by_rank"].items()} == {"0": 0.5, "1": 0.0}


@pytest.mark.parametrize(
    ("labels", "size"),
    [
        ('block_size="32",hash_block_size="None",cache_hit_alignment_tokens="None"', 32),
        ('block_size="784",hash_block_size="None",cache_hit_alignment_tokens="16"', 16),
        ('block_size="16",hash_block_size="8",cache_hit_alignment_tokens="None"', 8),
        ('enable_prefix_caching="True",block_size="None"', None),
    ],
)
def test_vllm_block_size(labels: str, size: int | None) -> None:
    """The match granularity is the alignment, then the hash block, then the block; "None" is none."""
    page = f'vllm:cache_config_info{{{labels},engine="0",num_gpu_blocks="2048"}} 1.0\n'

    assert block_size_of(page) == size


@pytest.mark.parametrize(
    ("page", "tokens"),
    [
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="81",engine="0"} 1.0\n', (1_280,)),
        (
            "".join(
                f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="81",{tokens},engine="{rank}"}} 1\n'
                for rank, tokens in enumerate(('kv_cache_size_tokens="656"', 'kv_cache_size_tokens="None"'))
            ),
            (640, 1_280),
        ),
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="None",engine="0"} 1.0\n', ()),
        ("".join(f'sglang:max_total_num_tokens{{tp_rank="{tp}",dp_rank="0"}} 9000.0\n' for tp in (0, 1)), (9_000,)),
    ],
)
def test_capacity_of_each_cache(page: str, tokens: tuple[int, ...]) -> None:
    """Tokens that each cache holds: the engine's own count, else its blocks, less the one that vLLM keeps."""
    assert engine_of(page).capacities(parse_page(page)) == tokens


def test_vllm_v0_has_a_rate_only() -> None:
    """V0 counts nothing that can be differenced: its rate is shown, never used."""
    page = 'vllm:gpu_prefix_cache_hit_rate{model_name="m"} -1.0\nvllm:gpu_cache_usage_perc{model_name="m"} 0.5\n'

    told = grown(page, page)

    assert (told["queries_delta"], told["hits_delta"], told["actual_hit_rate"]) == (None, None, None)
    assert {"queries", "hits"} <= set(absent_metrics([parse_page(page)], engine_of(page)))
    assert gauge(parse_page(page), Logical.KV_USAGE, profile=engine_of(page)) == 0.5


def test_vllm_ascend_shows_vllm_names() -> None:
    """Where vLLM's names are seen, the data set's word decides between vLLM and vLLM-Ascend."""
    assert engine_of(new_vllm(0, 0), Engine.VLLM_ASCEND).engine is Engine.VLLM_ASCEND
    assert engine_of(new_vllm(0, 0)).engine is Engine.VLLM


def test_sglang_before_tiers() -> None:
    """0.4.6: hits without a source are local; prompt tokens stand for queries."""
    before, after = (
        f'sglang:prompt_tokens_total{{model_name="m"}} {prompt}\n'
        f'sglang:cached_tokens_total{{model_name="m"}} {cached}\n'
        'sglang:cache_hit_rate{model_name="m"} 0.99\n'
        for prompt, cached in ((6, 0), (106, 40))
    )

    told = grown(before, after)

    assert (told["queries_delta"], told["hits_delta"], told["external_hits_delta"]) == (100, 40, None)
    assert told["actual_hit_rate"] == 0.4


def test_sglang_with_tiers() -> None:
    """0.5.9 and later: device is local, host and any storage are outer; unknown labels are summed."""
    sources = (("device", "true", 100), ("device", "false", 20), ("host", "true", 30), ("storage_mooncake", "true", 5))
    after = 'sglang:prompt_tokens_total{model_name="m"} 400\n' + "".join(
        f'sglang:cached_tokens_total{{cache_source="{source}",is_streaming="{stream}",model_name="m"}} {value}\n'
        for source, stream, value in sources
    )

    told = grown('sglang:prompt_tokens_total{model_name="m"} 0\n', after)

    assert (told["hits_delta"], told["external_hits_delta"]) == (120, 35)
    assert told["total_hit_rate"] == 155 / 400


def test_sglang_gauges_of_tensor_ranks_count_once() -> None:
    """DP 2 x TP 2: each dp rank counts once in sums and means."""
    page = "".join(
        f'sglang:num_running_reqs{{dp_rank="{dp}",tp_rank="{tp}"}} {10 * (dp + 1)}\n'
        f'sglang:token_usage{{dp_rank="{dp}",tp_rank="{tp}"}} {0.2 * (dp + 1)}\n'
        for dp in (0, 1)
        for tp in (0, 1)
    )

    parsed, profile = parse_page(page), engine_of(page)

    assert gauge(parsed, Logical.RUNNING, profile=profile) == 30
    assert gauge(parsed, Logical.KV_USAGE, profile=profile) == pytest.approx(0.3)
    assert block_size_of('sglang:page_size{tp_rank="0"} 64.0\n') == 64


def test_sglang_without_traffic() -> None:
    """Labelled counters that do not exist yet are absent before and count from 0 when they appear."""
    empty = 'sglang:token_usage{tp_rank="0"} 0\n'
    used = empty + "sglang:prompt_tokens_total 64\n" + 'sglang:cached_tokens_total{cache_source="device"} 16\n'

    assert grown(empty, empty)["actual_hit_rate"] is None
    assert (grown(empty, used)["queries_delta"], grown(empty, used)["hits_delta"]) == (64, 16)


def test_mindie_gauges_are_cumulative() -> None:
    """MindIE's two raw figures are typed gauge but only grow; its rate alone tells nothing."""
    before, after = (
        f'# TYPE all_radix_match_num gauge\nall_radix_match_num{{model_name="q"}} {asked}\n'
        f'# TYPE npu_radix_match_hit_num gauge\nnpu_radix_match_hit_num{{model_name="q"}} {hit}\n'
        f'# TYPE npu_prefix_cache_hit_rate gauge\nnpu_prefix_cache_hit_rate{{model_name="q"}} 0.5\n'
        for asked, hit in ((20480, 10240), (24576, 13312))
    )
    rate_only = '# TYPE npu_prefix_cache_hit_rate gauge\nnpu_prefix_cache_hit_rate{model_name="q"} 0.5\n'

    told = grown(before, after)

    assert (told["queries_delta"], told["hits_delta"], told["actual_hit_rate"]) == (4096, 3072, 0.75)
    assert grown(rate_only, rate_only)["hits_delta"] is None
    assert engine_of(rate_only).engine is Engine.MINDIE


def test_trtllm_prefers_tokens_to_blocks() -> None:
    """Token counters win; without them reused blocks times the block size are an upper bound."""
    tokens = "trtllm_prompt_tokens_total {}\ntrtllm_prompt_cached_tokens_total {}\n"
    blocks = (
        "trtllm_prompt_tokens_total {}\ntrtllm_kv_cache_reused_blocks_total {}\ntrtllm_kv_cache_tokens_per_block 32\n"
    )

    by_tokens = grown(tokens.format(0, 0), tokens.format(1000, 400))
    by_blocks = grown(blocks.format(0, 0), blocks.format(1000, 13), block_size=32)

    assert by_tokens["hits_delta"] == 400
    assert by_blocks["hits_delta"] == 416
    assert grown(blocks.format(0, 0), blocks.format(1000, 13))["hits_delta"] is None
    assert block_size_of(blocks.format(0, 0)) == 32


def test_llamacpp_leaves_cached_tokens_out_of_its_prompt_tokens() -> None:
    """Queries are processed plus cached; without the cached counter there is no rate, not a rate of 0."""
    pages = "llamacpp:prompt_tokens_total {}\nllamacpp:prompt_tokens_cached_total {}\n"
    older = "llamacpp:prompt_tokens_total {}\n"

    told = grown(pages.format(10, 0), pages.format(1034, 512))

    assert (told["queries_delta"], told["hits_delta"]) == (1536, 512)
    assert grown(older.format(10), older.format(1034))["actual_hit_rate"] is None


def test_lmdeploy_hits_are_derived_from_a_rate() -> None:
    """A cumulative rate times its denominator, differenced: 0.5 x 2000 - 0.25 x 1000 = 750, marked as derived."""
    page = 'lmdeploy:prefix_cache_hit_rate{{engine="0"}} {}\nlmdeploy:prompt_tokens_total{{engine="0"}} {}\n'

    told = grown(page.format(0.25, 1000), page.format(0.5, 2000))

    assert (told["queries_delta"], told["hits_delta"], told["derived"]) == (1000, 750, True)


def test_dynamo_sums_of_finished_requests() -> None:
    """The front end's histograms carry the token sums; an engine's own counters on the same page win."""
    page = (
        "# TYPE dynamo_frontend_input_sequence_tokens histogram\n"
        'dynamo_frontend_input_sequence_tokens_sum{{model="tiny"}} {}\n'
        "# TYPE dynamo_frontend_cached_tokens histogram\n"
        'dynamo_frontend_cached_tokens_sum{{model="tiny"}} {}\n'
        'dynamo_frontend_model_kv_cache_block_size{{model="tiny"}} 16\n'
    )

    told = grown(page.format(0, 0), page.format(1000, 896))

    assert (told["queries_delta"], told["hits_delta"]) == (1000, 896)
    assert block_size_of(page.format(0, 0)) == 16
    assert engine_of(page.format(0, 0) + new_vllm(0, 0)).name == "vllm"


@pytest.mark.parametrize(
    ("owner", "name"),
    [("vllm", "vllm"), ("sglang", "sglang"), ("llamacpp", "llamacpp"), ("MindIE Server", "mindie"), ("me", "generic")],
)
def test_an_engine_by_its_model_cards(owner: str, name: str) -> None:
    """Without a telling page, ``owned_by`` tells; without both, the data set's word, then nothing."""
    assert detect([], [owner], planned=Engine.GENERIC).profile.name == name
    assert detect([], ["me"], planned=Engine.LMDEPLOY).profile.name == "lmdeploy"
    assert detect([], ["me"], planned=Engine.GENERIC).detected_by == "nothing"


def test_pages_of_other_programs_give_nothing_away() -> None:
    """A store's or an exporter's page is a metrics page, but of no engine."""
    page = "master_exist_key_requests_total 5\nmaster_key_count 7\nnode_load1 0.5\n"

    assert engine_of(page).name == "generic"
    assert grown(page, page)["actual_hit_rate"] is None


def test_every_engine_has_a_block_size() -> None:
    """Defaults are those that the engines document."""
    assert {engine: default_block_size(engine) for engine in PROFILES} == {
        Engine.VLLM: 16,
        Engine.VLLM_ASCEND: 128,
        Engine.SGLANG: 1,
        Engine.MINDIE: 128,
        Engine.TRTLLM: 32,
        Engine.LLAMACPP: 1,
        Engine.LMDEPLOY: 64,
        Engine.GENERIC: 16,
    }
    assert set(PROFILES) == set(Engine)
