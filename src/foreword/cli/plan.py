"""``foreword plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from foreword.cli.options import Json, Overrides, Strict, print_json, print_warnings


def plan(
    *,
    config: Annotated[Path, Parameter(help="Data-set config, YAML with the root key prefix_cache_dataset.")],
    set_: Overrides = (),
    aim: Annotated[
        Literal["designed", "predicted"] | None,
        Parameter(help="Ratio that meets the target: that of requests one by one, or that of the simulated run."),
    ] = None,
    json: Json = False,
    strict: Strict = False,
) -> int:
    """Plan a data set without text: reachability, lengths, groups and predicted hits."""
    from foreword import flow
    from foreword.report.plan import plan_document, plan_text
    from foreword.store.configs import load_dataset_config

    asked = (*set_, f"planning.aim={aim}") if aim else set_
    design = flow.plan(load_dataset_config(config, overrides=asked))
    if json:
        print_json(plan_document(design))
    else:
        print(plan_text(design))
    print_warnings(design.warnings)
    return flow.construction_exit_code(design, strict=strict)
