"""Report a run: read its folder, build the document, write every rendering beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foreword.errors import UsageError
from foreword.report.build import build_document, examine
from foreword.report.csv import groups_csv, requests_csv
from foreword.report.html import render_html
from foreword.report.load import load_record
from foreword.store.atomic import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from foreword.report.document import ReportDocument

JSON_NAME = "prefix_cache_report.json"
HTML_NAME = "prefix_cache_report.html"
REQUESTS_NAME = "requests.csv"
GROUPS_NAME = "groups.csv"


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """A report and where it stands."""

    document: ReportDocument
    html: Path
    json: Path
    tables: tuple[Path, ...]


def write_report(run_dir: Path, output: Path | None = None) -> WrittenReport:
    """Write the report of a run into ``output``, by default the run's own ``report/``; raises ``DataError``."""
    record = load_record(run_dir)
    evidence = examine(record)
    document = build_document(record, evidence)
    folder = run_dir / "report" if output is None else output
    renderings = {
        JSON_NAME: document.model_dump_json(indent=2) + "\n",
        HTML_NAME: render_html(document),
        REQUESTS_NAME: requests_csv(evidence),
        GROUPS_NAME: groups_csv(document),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in renderings.items():
            replace_file(folder / name, content.encode())
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot write the report: {error.strerror}", advice="give --output a path"
        ) from error
    return WrittenReport(
        document=document,
        html=folder / HTML_NAME,
        json=folder / JSON_NAME,
        tables=(folder / REQUESTS_NAME, folder / GROUPS_NAME),
    )
