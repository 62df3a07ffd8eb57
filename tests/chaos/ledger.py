"""What trials have come to: a line of JSON for each, so that a series goes on where it stopped; and a table of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from chaos.trials import Verdict

HEADER = ("| fault | compute | trials | struck | wrong | processes left |", "| --- | --- | --- | --- | --- | --- |")


class Ledger:
    """A file to which several processes may append."""

    def __init__(self, path: str) -> None:
        self.path = path

    def verdicts(self) -> list[Verdict]:
        """The last one of each trial; a line that a dying process has cut off counts for nothing."""
        found: dict[str, Verdict] = {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                for line in file:
                    try:
                        value = json.loads(line)
                    except ValueError:
                        continue
                    found[value["trial"]] = Verdict(**{**value, "wrong": tuple(value["wrong"])})
        return list(found.values())

    def add(self, verdict: Verdict) -> None:
        line = "\n" * self._is_cut_off() + json.dumps(verdict._asdict()) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def _is_cut_off(self) -> bool:
        try:
            with open(self.path, "rb") as file:
                return file.seek(0, os.SEEK_END) > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read() != b"\n"
        except FileNotFoundError:
            return False


def table(verdicts: Iterable[Verdict]) -> str:
    """Counts by compute and kind, as Markdown."""
    rows: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        kind = "two at once" if " and " in verdict.kind else verdict.kind
        rows.setdefault((verdict.compute, kind), []).append(verdict)
    lines = [_row(kind, compute, found) for (compute, kind), found in sorted(rows.items())]
    for each in sorted({compute for compute, _ in rows}):
        lines.append(_row("**all**", each, [one for key, found in rows.items() if key[0] == each for one in found]))
    return "\n".join([*HEADER, *lines]) + "\n"


def _row(kind: str, compute: str, verdicts: list[Verdict]) -> str:
    struck = sum(verdict.hit > 0 for verdict in verdicts)
    wrong, orphans = sum(bool(verdict.wrong) for verdict in verdicts), sum(verdict.orphans for verdict in verdicts)
    return "| %s | %s | %d | %d | %d | %d |" % (kind, compute, len(verdicts), struck, wrong, orphans)
