"""``foreword plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from foreword.cli.options import Json, Overrides, Strict, print_json, print_warnings


def plan(
    *,
    config: Annotated[Path, Parameter(help="Data-set config, YAML with the root key prefix_cache_dataset.")],
    set_: Overrides = (),
    json: Json = False,
    strict: Strict = False,
) -> int:
    """Plan a data set without text: reachability, lengths, groups and predicted hits."""
    from foreword import flow
    from foreword.report.plan import plan_document, plan_text
    from foreword.store.configs import load_dataset_config

    design = flow.plan(load_dataset_config(config, overrides=set_))
    if json:
        print_json(plan_document(design))
    else:
        print(plan_text(design))
    print_warnings(design.warnings)
    return flow.construction_exit_code(design, strict=strict)
