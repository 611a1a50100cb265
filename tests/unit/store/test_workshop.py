"""Where prompts are made: the same lines in any stretch, sharing what they should and nothing else."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from foreword import flow
from foreword.config.dataset import DatasetConfig
from foreword.errors import ConstructionError
from foreword.store.workshop import Order, Workshop, open_workshop
from tests.support.datasets import encoder, small

ON_TWO_RANKS = {"cache_scope": "dp_local", "dp_size": 2, "assignment": "round_robin"}


@pytest.fixture(scope="module")
def workshop() -> Workshop:
    """The workshop of the small data set on two ranks."""
    return opened(routing=ON_TWO_RANKS)


def opened(**changes: object) -> Workshop:
    """The workshop of the small config with changes."""
    config = DatasetConfig.parse(small(**changes), root="prefix_cache_dataset")
    return open_workshop(Order(config, flow.plan(config).facts, "full"))


def lines(workshop: Workshop, *stretches: tuple[int, int]) -> bytes:
    """Data and metadata of these stretches."""
    rows = [part for stretch in stretches for part in workshop.rows(*stretch)]
    return b"".join(part.data for part in rows) + b"".join(part.metadata for part in rows)


@pytest.mark.parametrize("cuts", [[0, 40], [0, 1, 40], [0, 13, 14, 39, 40]])
def test_stretches_join_to_the_whole(cuts: list[int], workshop: Workshop) -> None:
    """A request is the same whichever requests are made with it."""
    whole = lines(workshop, (0, 40))

    assert lines(workshop, *itertools.pairwise(cuts)) == whole


def test_stretches_may_be_made_in_any_order(workshop: Workshop) -> None:
    """Nothing is carried from one request to the next."""
    backwards = [lines(workshop, (place, place + 1)) for place in reversed(range(40))]

    forwards = [lines(workshop, (place, place + 1)) for place in range(40)]

    assert backwards[::-1] == forwards


def test_first_private_blocks_differ(workshop: Workshop) -> None:
    """No two requests, and no warm-up, start their private part alike."""
    private = [digest for part in workshop.rows(0, 40) for digest in part.first_private.tolist()]
    warmups = workshop.warmup_lines()[1].tolist()
    shared = {key for chain in workshop.chains for key in np.asarray(chain, dtype=np.uint64).view(np.int64).tolist()}

    assert len({*private, *warmups}) == 40 + 4
    assert not shared & {*private, *warmups}


def test_there_is_one_warm_up_a_lane(workshop: Workshop) -> None:
    """Two groups on two ranks are four lanes, each named by group and rank."""
    rows = [json.loads(line) for line in workshop.warmup_lines()[0].splitlines()]

    assert {(row["prefix_group_id"], row["planned_dp_id"]) for row in rows} == {(g, r) for g in "AB" for r in (0, 1)}
    for row in rows:
        assert len(encoder().encode(row["prompt"]).ids) == row["input_len"] > row["planned_prefix_len"]


def test_every_prompt_is_proved_under_full_proof(workshop: Workshop) -> None:
    """The proof counts each request once, and none wrong."""
    proofs = [part.proof for part in workshop.rows(0, 40)]

    assert (sum(proof.full for proof in proofs), sum(proof.wrong for proof in proofs)) == (40, 0)


def test_a_prompt_that_does_not_share_its_master_is_never_written(workshop: Workshop) -> None:
    """If composing went wrong it would be an error that names the request, not a data set."""
    masters = tuple(np.roll(master, 1) for master in workshop.masters)

    with pytest.raises(ConstructionError, match=r"request r\d{7} does not start with \d+ tokens"):
        list(replace(workshop, masters=masters).rows(0, 40))


def test_ids_are_written_as_numbers() -> None:
    """Prompts of ids have as many ids as planned tokens, all of the vocabulary and none special."""
    found = opened(prompt_format="completions_ids")

    rows = [json.loads(line) for part in found.rows(0, 40) for line in part.data.splitlines()]

    assert [len(row["prompt_token_ids"]) for row in rows] == found.design.prompts.input_len[found.design.order].tolist()
    assert {tuple(row) for row in rows} == {("request_id", "prompt_token_ids", "max_tokens", "prefix_group_id")}
    special = {entry for entry in range(4) if str(encoder().id_to_token(entry)).startswith("<|")}
    used = {one for row in rows for one in row["prompt_token_ids"]}
    assert special == {0, 1, 2, 3}
    assert not used & special
    assert max(used) < encoder().get_vocab_size()


def test_too_many_siblings_of_single_tokens_are_refused_before_anything_is_made() -> None:
    """Where tokens are matched one by one, each first private token must differ from every sibling's.

    With everything shared that can be, all part before their last token, and no plan can spread them.
    """
    crowd = {"request_count": 6_000, "input_length": 33, "prefix": {"minimum_non_shared_length": 1}}
    crowd |= {"target": {"hit_ratio": 1}}

    with pytest.raises(ConstructionError, match="3200 requests part at the same place"):
        opened(**crowd, block_size=1)


def test_a_block_that_is_never_full_conflicts_with_none() -> None:
    """With one private token after whole blocks, equal private tokens are never cached, and nothing is refused."""
    alike = opened(request_count=3_000, input_length=33, block_size=16, prefix={"minimum_non_shared_length": 1})

    digests = next(alike.rows(0, 256)).first_private

    assert len(np.unique(digests)) == 256
