"""Chat templates of several kinds, and tokenizers with them beside, for the tests of chat prompts."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from foreword.config.dataset import ROOT, DatasetConfig
from foreword.store.templates import A_DAY, ChatTemplate, load_template

if TYPE_CHECKING:
    from pathlib import Path

MARKED = (
    "{%- for message in messages %}{{ '<|start|>' + message['role'] + '\\n' + message.content | trim + '<|end|>\\n' }}"
    "{%- endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}"
)
"""Tokens of its own around every turn, as Qwen's and many others."""

SYSTEM = "{{ '<|start|>system\\nYou are a helpful assistant who answers in full sentences.<|end|>\\n' }}" + MARKED
"""The same with a system text that is longer than a block of 16."""

PLAIN = (
    "{{ bos_token }}{% for message in messages %}### {{ message.role }}:\n{{ message.content }}\n\n{% endfor %}"
    "### answer:"
)
"""Text without any token of its own behind the content."""

BRACKETS = "{% for message in messages %}[INST] {{ message.content }} [/INST]{% endfor %}"
"""Mistral's kind, spelled in text."""

DATED = (
    "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    "{{ '<|start|>system\\nToday: ' + date_string + '<|end|>\\n' }}" + MARKED
)
"""Llama 3's kind: the date stands in the head unless it is given."""

KINDS = {"marked": MARKED, "system": SYSTEM, "plain": PLAIN}


def tokenizer_folder(folder: Path, template: str | None, **config: object) -> Path:
    """The built-in tokenizer as a model's folder has it, with a chat template in its config."""
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_bytes((files("foreword") / "data" / "tokenizer.json").read_bytes())
    told: dict[str, object] = (
        config if template is None else {"bos_token": "<|endoftext|>", "chat_template": template, **config}
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


def template_of(folder: Path) -> ChatTemplate:
    """The template of such a folder."""
    return load_template("tokenizer", tokenizer=str(folder))


def rendered(template: ChatTemplate, content: str, **arguments: object) -> str:
    """One user's message as a server renders it."""
    return template.render([{"role": "user", "content": content}], now=A_DAY, arguments=arguments)


def chat_config(**changes: object) -> DatasetConfig:
    """A small chat data set."""
    sections: dict[str, Any] = {
        "dataset_id": "chat",
        "request_count": 40,
        "block_size": 16,
        "engine": "vllm",
        "prompt_format": "chat",
        "input_length": {"mode": "truncated_normal", "min": 60, "max": 300, "mean": 170, "std": 60},
        "output_length": 2,
        "target": {"hit_ratio": 0.5},
        "prefix": {"mode": "multi_prefix", "group_count": 2},
        "request_order": {"across_group": "interleave"},
    }
    return DatasetConfig.parse(sections | changes, root=ROOT)
