"""The page of the documentation that says how often a hang is named, and named rightly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median

from hangs.cases import ANOTHER, NEVER, START, STAYS, HangCase, all_cases
from hangs.healthy import KINDS as HEALTHY_KINDS
from hangs.healthy import all_healthy
from hangs.results import (
    ALIVE,
    KIND,
    NAMED,
    PLACES,
    RIGHT,
    RIGHTLY_UNKNOWN,
    UNKNOWN,
    WRONG,
    Outcome,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "hang-accuracy.md"

_WAYS = {NEVER: "H1", ANOTHER: "H2", STAYS: "H3", START: "H1"}
_MEANINGS = {
    RIGHT: "the right ranks are named, and in what way",
    KIND: "the right ranks are named, with another way than the table's",
    RIGHTLY_UNKNOWN: "no rank is named, and none could be named",
    UNKNOWN: "the run is called stuck, and no rank is named",
    ALIVE: "the run is not called stuck",
    WRONG: "another rank is named",
}
_INTRODUCTION = """\
# How often a hang is named

[`watchdog`](../how-to/runs/hang.md#when-a-run-hangs) finds the rank that keeps the others waiting. These are runs of
programs that hang on purpose, unmodified by worldsize, with PyTorch on gloo, Open MPI, or only sockets and files; and
of programs that are slow but healthy. `make hangs` runs them and writes this page. Each is one run, on a machine with
two cores; the limit was 4 s of silence (`watchdog: {timeout: 4, action: stop}`) unless the row has another one.
NCCL's part (its watchdog's lines, its Flight Recorder, its RAS) is *simulated* in unit tests: no run here had a GPU.

"After" is the time from the end of the limit to the verdict. With the default limit of 300 s, silence is seen up to
15 s later, and the two samples of stacks are 5 s apart.
"""


def page_text(results: Mapping[tuple[str, str], Outcome]) -> str:
    """The page. `results`: by place and case."""
    cases = {case.id: case for case in all_cases()}
    healthy = {case.id: case.kind for case in all_healthy()}
    lines = [_INTRODUCTION]
    for where in PLACES:
        hangs = [each for (place, case), each in results.items() if place == where and case in cases]
        if hangs:
            lines += ["## Programs that hang, %s" % where, "", *_summary(hangs), "", *_table(hangs, cases), ""]
    well = [each for each in results.values() if each.case in healthy]
    lines += ["## Programs that are slow and well", "", *_well(well, healthy)]
    return "\n".join(lines).rstrip() + "\n"


def _summary(outcomes: Iterable[Outcome]) -> list[str]:
    found = list(outcomes)
    counts = Counter(each.outcome for each in found)
    named = sum(counts[each] for each in NAMED)
    nameable = len(found) - counts[RIGHTLY_UNKNOWN]
    seconds = [each.seconds for each in found if each.seconds is not None]
    places = [each.place for each in found if each.place is not None]
    lines = [
        "%d of %d runs in which a rank can be named: **%d named rightly, %d wrongly**. The line was right in %d of %d. "
        % (nameable, len(found), named, counts[WRONG], sum(places), len(places))
        + "After the limit: median %.1f s, at most %.1f s." % (median(seconds), max(seconds)),
        "",
        "| Outcome | Runs | |",
        "|---|---|---|",
    ]
    return lines + ["| %s | %d | %s |" % (name, counts[name], said) for name, said in _MEANINGS.items() if counts[name]]


def _table(outcomes: Iterable[Outcome], cases: Mapping[str, HangCase]) -> list[str]:
    lines = ["| Program | What happens | Way | Outcome | After | Verdict |", "|---|---|---|---|---|---|"]
    for each in sorted(outcomes, key=lambda each: list(cases).index(each.case)):
        case = cases[each.case]
        after = "" if each.seconds is None else "%.1f s" % each.seconds
        outcome = each.outcome + (", other line" if each.place is False else "")
        row = (case.id, case.why, _WAYS[case.kind], outcome, after, _without_machine(each.said))
        lines.append("| %s |" % " | ".join(value.replace("|", "\\|") for value in row))
    return lines


def _without_machine(said: str) -> str:
    """The sentence without the time of day, cut where it is long."""
    text = re.sub(r"\d\d:\d\d:\d\d", "…", said)
    return text if len(text) <= 260 else text[:259].rstrip() + "…"


def _well(outcomes: Iterable[Outcome], kinds: Mapping[str, str]) -> list[str]:
    found = list(outcomes)
    wrong = [each for each in found if each.outcome != RIGHT]
    runs = Counter(kinds[each.case] for each in found)
    alarms = Counter(kinds[each.case] for each in wrong)
    lines = ["%d runs; **%d were called stuck**." % (len(found), len(wrong)), ""]
    lines += ["| Program | What happens | Runs | Called stuck |", "|---|---|---|---|"]
    for kind in HEALTHY_KINDS:
        if runs[kind.id]:
            lines.append("| %s | %s | %d | %d |" % (kind.id, kind.why, runs[kind.id], alarms[kind.id]))
    return lines
