"""What a run found, as it is printed and written into the documents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from bench.queues.measures import WHAT, Figure
from bench.queues.peers import KINDS

ROOT = Path(__file__).parents[2]
LAST = ROOT / ".cache" / "bench" / "last.json"
DOCUMENTS = {ROOT / "README.md": False, ROOT / "docs" / "performance.md": True}
"""Each has the two marks; whether all is written there."""

BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"

OURS, LIMIT, ALL = "rowlock", "limit", "all"
LIMITS = {
    "insert": "insert and commit, rows/s",
    "update": "update and commit, rows/s",
    "delete1": "delete ... skip locked limit 1, rows/s",
    "delete100": "delete ... skip locked limit 100, rows/s",
}


@dataclass
class Report:
    made: str = ""
    """With what, when and how."""
    versions: dict[str, str] = field(default_factory=dict)
    figures: dict[str, dict[str, Figure]] = field(default_factory=dict)
    failed: dict[str, dict[str, str]] = field(default_factory=dict)
    """The reason, by queue and measure; ALL where there is nothing to measure."""

    def save(self) -> None:
        LAST.parent.mkdir(parents=True, exist_ok=True)
        LAST.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def last(cls) -> Self:
        return cls(**json.loads(LAST.read_text()))

    # -- one JSON object

    def line(self) -> str:
        told: dict[str, Any] = {
            name: {part: _rounded(figure) for part, figure in parts.items()}
            for name, parts in self.figures.items()
        }
        for name, reasons in self.failed.items():
            told.setdefault(name, {})["failed"] = reasons
        return json.dumps(told)

    # -- Markdown

    def text(self, *, whole: bool = True) -> str:
        sections = [f"{self.made}.", self._at_work(), self._conclusions(), self._besides()]
        if whole:
            sections += [self._limits(), self._settings()]
        return "\n\n".join(each for each in [*sections, self._failures()] if each)

    def write(self) -> None:
        """Puts the text between the marks of the documents."""
        for path, whole in DOCUMENTS.items():
            before, begin, rest = path.read_text().partition(BEGIN)
            _, end, after = rest.partition(END)
            assert begin, f"{path} lacks {BEGIN}"
            assert end, f"{path} lacks {END}"
            path.write_text(f"{before}{BEGIN}\n{self.text(whole=whole)}\n{END}{after}")

    @property
    def _queues(self) -> list[str]:
        names = [OURS, *(folder.replace("_", "-") for folder in KINDS)]
        return [name for name in names if name in self.figures or name in self.failed]

    def _at_work(self) -> str:
        """A to D, a line a queue; in parentheses how it compares with Rowlock."""
        parts = [part for part in "CABD" if any(part in each for each in self.figures.values())]
        if not any(part in self.figures.get(name, {}) for name in self._queues for part in parts):
            return ""
        titles = {
            "C": "drain, jobs/s (C)",
            "A": "enqueue, jobs/s (A)",
            "B": "in bulk, jobs/s (B)",
            "D": "pick-up p50 / p95 / p99, ms (D)",
        }
        rows = [
            [
                f"{name} {self.versions.get(name, '')}".strip(),
                *(self._cell(name, part) for part in parts),
            ]
            for name in self._queues
        ]
        return _table(["", *(titles[part] for part in parts)], rows)

    def _cell(self, name: str, part: str) -> str:
        figure = self.figures.get(name, {}).get(part)
        if figure is None:
            return "failed" if part in self.failed.get(name, {}) else "-"
        if isinstance(figure, dict):
            return " / ".join(f"{value:.1f}" for value in figure.values())
        ours = self.figures.get(OURS, {}).get(part)
        ratio = f" ({figure / ours:.2f})" if name != OURS and isinstance(ours, float) else ""
        return f"{figure:,.0f}{ratio}"

    def _conclusions(self) -> str:
        ours, limits = self.figures.get(OURS, {}), self.figures.get(LIMIT, {})
        peers = {
            name: figure
            for name in self._queues
            if name != OURS and isinstance(figure := self.figures.get(name, {}).get("C"), float)
        }
        told: list[str] = []
        if isinstance(c := ours.get("C"), float):
            if peers:
                fastest = max(peers, key=lambda name: peers[name])
                ratio = c / peers[fastest]
                told.append(
                    f"Rowlock drains {ratio:.2f} times as fast as the fastest peer, {fastest}"
                )
            if isinstance(limit := limits.get("delete100"), float):
                told.append(
                    f"its drain is {c / limit:.2f} of what one connection can delete from a bare"
                    f" table, a hundred a transaction ({limit:,.0f} rows/s)"
                )
        if isinstance(a := ours.get("A"), float) and isinstance(limits.get("insert"), float):
            insert = limits["insert"]
            assert isinstance(insert, float)
            told.append(
                f"its enqueue one by one is {a / insert:.2f} of a bare insert and commit"
                f" ({insert:,.0f} rows/s)"
            )
        text = "; ".join(told)
        return text[:1].upper() + text[1:] + "." if text else ""

    def _besides(self) -> str:
        """E to K, a line a measure."""
        queues = [name for name in self.figures if set(self.figures[name]) & set("EFGHIJK")]
        rows = [
            [part, what, *(text_of(self.figures[name].get(part)) for name in queues)]
            for part, what in WHAT.items()
            if part >= "E" and any(part in self.figures[name] for name in queues)
        ]
        return _table(["", "measured", *queues], rows) if rows else ""

    def _limits(self) -> str:
        rows = [[LIMITS[name], text_of(rate)] for name, rate in self.figures.get(LIMIT, {}).items()]
        return _table(["the server's limit, one connection", ""], rows) if rows else ""

    def _settings(self) -> str:
        """What each peer was set to; of those that took part."""
        kinds = {folder.replace("_", "-"): kind for folder, kind in KINDS.items()}
        rows = [
            [name, f"{kinds[name].drains:,}", kinds[name].settings, kinds[name].documented]
            for name in self._queues
            if name in kinds
        ]
        return _table(["peer", "jobs of a drain", "settings", "documented"], rows) if rows else ""

    def _failures(self) -> str:
        lines: list[str] = []
        for name, reasons in self.failed.items():
            for part, reason in reasons.items():
                what = name if part == ALL else f"{name} {part}"
                lines.append(f"- {what}: {reason}")
        return "\n".join(["Not measured:", "", *lines]) if lines else ""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def text_of(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    if isinstance(figure, dict):
        return ", ".join(f"{name} {text_of(value)}" for name, value in figure.items())
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"


def _rounded(figure: Figure) -> Figure:
    if isinstance(figure, dict):
        return {name: round(value, 1 if value >= 100 else 3) for name, value in figure.items()}
    return round(figure, 1 if figure >= 100 else 3)
