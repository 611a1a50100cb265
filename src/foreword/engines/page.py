"""A metrics page in the Prometheus text formats: bytes in, samples out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Labels = tuple[tuple[str, str], ...]
_SHOWN = 60


class NotMetricsError(ValueError):
    """The text is no Prometheus page; the message says what it looks like."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One series at one time, with every label it has (sorted by name)."""

    name: str
    labels: Labels
    value: float

    def label(self, name: str) -> str | None:
        """Value of a label, or ``None``."""
        return dict(self.labels).get(name)


@dataclass(frozen=True, slots=True)
class Page:
    """Samples by exposed name, and HELP texts by family name."""

    samples: Mapping[str, tuple[Sample, ...]]
    help_texts: Mapping[str, str]

    def of(self, name: str) -> tuple[Sample, ...]:
        """Series of a name; a counter is found with or without its ``_total``."""
        return self.samples.get(name) or self.samples.get(f"{name}_total") or ()

    def help_of(self, name: str) -> str:
        """HELP text of a series' family, or nothing."""
        return self.help_texts.get(name) or self.help_texts.get(name.removesuffix("_total"), "")


def parse_page(text: str) -> Page:
    """Samples of a page; raises ``NotMetricsError`` for anything else, an empty page included."""
    _refuse_other_formats(text)
    samples: dict[str, list[Sample]] = {}
    help_texts: dict[str, str] = {}
    parse = parse_openmetrics if text.rstrip().endswith("# EOF") else parse_prometheus
    try:
        for family in parse(text):
            help_texts[family.name] = family.documentation
            for raw in family.samples:
                labels = tuple(sorted(raw.labels.items()))
                samples.setdefault(raw.name, []).append(Sample(raw.name, labels, float(raw.value)))
    except (ValueError, IndexError, KeyError) as error:
        raise NotMetricsError(f"text that is no metrics page ({_excerpt(text)})") from error
    if not samples:
        raise NotMetricsError("a page without a single metric")
    return Page({name: tuple(found) for name, found in samples.items()}, help_texts)


def parse_only(text: str, names: Iterable[str]) -> Page:
    """Samples of a few names, without reading the rest of a large page; none is fine."""
    wanted = tuple(names)
    lines = [line for line in text.splitlines() if line.startswith(wanted)]
    return parse_page("\n".join(lines) + "\n") if lines else Page({}, {})


def _refuse_other_formats(text: str) -> None:
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if not start:
        raise NotMetricsError("an empty page")
    if start == "<":
        raise NotMetricsError("an HTML page")
    if start in "{[":
        raise NotMetricsError("JSON, which is not the Prometheus text format")


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return repr(line[:_SHOWN] + ("..." if len(line) > _SHOWN else ""))
