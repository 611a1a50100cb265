"""One run of the small data set, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foreword.run.session import run_dataset
from foreword.run.spec import RunSpec, Silent
from tests.support.fake_openai import FakeOpenAI, serving
from tests.support.run_data import write_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from foreword.run.spec import RunOutcome


async def make_run(
    server: FakeOpenAI,
    folder: Path,
    dataset: Path | None = None,
    **options: Any,  # noqa: ANN401 - fields of RunSpec
) -> RunOutcome:
    """Send a data set, by default the small one, to a server that lives for the run."""
    dataset = dataset or write_dataset(folder / "dataset")
    async with serving(server) as url:
        fields = {"urls": (url,), "outputs": folder / "outputs", **options}
        return await run_dataset(RunSpec(dataset=dataset, **fields), Silent())
