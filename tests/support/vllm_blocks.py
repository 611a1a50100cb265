"""Drive vLLM's own block manager without a model: run by the Python of a virtual environment that has vLLM.

Reads one JSON document from standard input: ``block_size``, ``num_gpu_blocks``, and ``requests``, each the ids of a
prompt and of its answer. Serves them one after another and prints the tokens that each found in the prefix cache.
"""

from __future__ import annotations

import json
import sys

import torch
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request


class Manager:
    """``KVCacheManager`` of vLLM 0.32 with one group of full attention, used as its scheduler uses it."""

    def __init__(self, block_size: int, num_gpu_blocks: int) -> None:
        init_none_hash(sha256)
        self.hasher = get_request_block_hasher(block_size, sha256)
        attention = FullAttentionSpec(block_size=block_size, num_kv_heads=1, head_size=32, dtype=torch.float32)
        layers = [KVCacheGroupSpec(["layer"], attention)]
        self.manager = KVCacheManager(
            KVCacheConfig(num_blocks=num_gpu_blocks, kv_cache_tensors=[], kv_cache_groups=layers),
            max_model_len=1 << 20,
            scheduler_block_size=block_size,
            hash_block_size=block_size,
            enable_caching=True,
            log_stats=False,
        )

    def request(self, number: int, prompt: list[int], most_tokens: int) -> Request:
        """A request as the engine would make it."""
        sampling = SamplingParams(max_tokens=most_tokens)
        sampling.update_from_generation_config({}, 0)
        return Request(
            request_id=str(number),
            prompt_token_ids=prompt,
            sampling_params=sampling,
            pooling_params=None,
            block_hasher=self.hasher,
        )

    def serve(self, number: int, prompt: list[int], answer: list[int]) -> int:
        """Run a request to its end; the last token of its answer needs no slot."""
        request = self.request(number, prompt, len(answer))
        self.manager.new_step_starts()
        computed, hit_tokens, *_ = self.manager.get_computed_blocks(request)
        if self.manager.allocate_slots(request, request.num_tokens - hit_tokens, hit_tokens, computed) is None:
            raise MemoryError(f"request {number} does not fit")
        request.num_computed_tokens = request.num_tokens
        for token in answer[:-1]:
            request.append_output_token_ids(token)
            self.manager.new_step_starts()
            if self.manager.allocate_slots(request, 1) is None:
                raise MemoryError(f"the answer of request {number} does not fit")
            request.num_computed_tokens += 1
        self.manager.free(request)
        return int(hit_tokens)


def main() -> None:
    """Serve what standard input says."""
    asked = json.load(sys.stdin)
    manager = Manager(asked["block_size"], asked["num_gpu_blocks"])
    hits = [manager.serve(number, *request) for number, request in enumerate(asked["requests"])]
    json.dump(hits, sys.stdout)


if __name__ == "__main__":
    main()
