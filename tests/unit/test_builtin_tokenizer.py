"""The shipped tokenizer is the one that its script trains."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "train_tokenizer.py"


@pytest.mark.data
def test_training_again_gives_the_same_bytes(test_data: Path, tmp_path: Path) -> None:
    """GSM8K's training set, the stories and the pinned library make the file that is shipped."""
    pinned = next(line for line in SCRIPT.read_text().splitlines() if line.startswith("TRAINED_WITH"))
    if version("tokenizers") not in pinned:
        pytest.skip(f"the file was trained with another version of tokenizers: {pinned}")

    output = tmp_path / "tokenizer.json"
    subprocess.run([sys.executable, SCRIPT, test_data / "data" / "gsm8k" / "train.jsonl", output], check=True)

    assert output.read_bytes() == (files("foreword") / "data" / "tokenizer.json").read_bytes()
