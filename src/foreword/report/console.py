"""The report in a terminal: verdict, four numbers, ladder, proofs and notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from foreword.report import text
from foreword.report.document import Finding, Proof, Severity
from foreword.report.view import ladder_view
from foreword.report.wording import CAUSES

if TYPE_CHECKING:
    from rich.console import Console

    from foreword.report.document import PassSection, ReportDocument, RequestProof

STYLES = {
    "PASS": "green",
    "PASS_WITH_WARNING": "yellow",
    "FAIL": "red",
    "WITHIN_GUIDE": "green",
    "OUTSIDE_GUIDE": "red",
    "UNPROVEN": "yellow",
    Severity.ALARM: "bold red",
    Severity.WARNING: "yellow",
    Severity.NOTE: "dim",
    Finding.FOUND: "red",
    Finding.OPEN: "yellow",
    Proof.EQUAL: "green",
    Proof.DIFFERENT: "red",
    Proof.NOT_REPORTED: "dim",
}


def print_report(document: ReportDocument, console: Console) -> None:
    """Print the summary of a report."""
    head = document.headline
    console.print(Text(head.sentence, style="bold"))
    console.print(_verdict("construction", head.construction.status), _verdict("run", head.runtime.verdict))
    for section in sorted(document.passes, key=lambda section: not section.designed):
        console.print()
        console.print(_ladder_table(section))
        view = ladder_view(section.ladder)
        console.print(Text(f"{view.remainder} {view.bound}".strip()))
        for line in [*_cause_lines(section), *_proof_lines(section)]:
            console.print(line)
    if document.notices:
        console.print()
    for notice in document.notices:
        advice = f" ({notice.advice})" if notice.advice else ""
        console.print(Text(f"{notice.severity}: {notice.message}{advice}", style=STYLES[notice.severity]))


def _verdict(subject: str, verdict: str) -> Text:
    return Text.assemble(f"{subject} ", (verdict, STYLES[verdict]))


def _ladder_table(section: PassSection) -> Table:
    table = Table(title=text.PASSES[section.pass_name], title_justify="left", box=None, pad_edge=False)
    table.add_column("rung")
    for name in ("hit ratio", "step", "hit tokens", "of prompt tokens"):
        table.add_column(name, justify="right")
    view = ladder_view(section.ladder)
    for row in view.rows:
        tokens = ("" if count is None else text.whole(count) for count in (row.hit_tokens, row.input_tokens))
        table.add_row(row.name, row.ratio, row.step, *tokens)
    note = f" ({view.total_note})" if view.total_note else ""
    table.add_row(f"measured − target{note}", "", view.total, "", "", style="bold")
    return table


def _cause_lines(section: PassSection) -> list[Text]:
    """Causes of the remainder that this run does not rule out."""
    return [
        Text.assemble(
            (text.FINDINGS[check.finding], STYLES[check.finding]), f": {CAUSES[check.cause]} ({check.evidence})"
        )
        for check in section.ladder.checks
        if check.finding is not Finding.RULED_OUT
    ]


def _proof_lines(section: PassSection) -> list[Text]:
    lines = [
        Text.assemble((text.PROOFS[proof.outcome], STYLES[proof.outcome]), f": {proof.left} and {proof.right}")
        for proof in section.token_proofs
    ]
    lines.append(_request_line(text.LENGTHS_AS_PLANNED, section.length_proof))
    lines.append(_request_line(text.HITS_AS_PREDICTED, section.hit_proof))
    remark = text.moved(section.hit_proof, section.ladder.remainder, in_flight=section.ladder.max_in_flight)
    if remark:
        lines[-1].append(f"; {remark}")
    return lines


def _request_line(subject: str, proof: RequestProof | None) -> Text:
    if proof is None:
        return Text.assemble((text.NOT_REPORTED, STYLES[Proof.NOT_REPORTED]), f": {subject}, request by request")
    outcome = Proof.EQUAL if proof.equal == proof.compared else Proof.DIFFERENT
    share = f"{text.whole(proof.equal)} of {text.whole(proof.compared)}"
    return Text.assemble((share, STYLES[outcome]), f": {subject}, request by request")
