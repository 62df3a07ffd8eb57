"""The problems that a script would have with a number of ranks, found in its text. The script is not executed, and
nothing is reported in doubtful cases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from worldsize.wings.checks.script.reading.program import Program, read_program
from worldsize.wings.checks.script.request import ScriptFinding as ScriptFinding
from worldsize.wings.checks.script.request import ScriptRequest as ScriptRequest
from worldsize.wings.checks.script.rules.address import fixed_addresses
from worldsize.wings.checks.script.rules.alone import separate_trainings
from worldsize.wings.checks.script.rules.downloads import download_findings
from worldsize.wings.checks.script.rules.frameworks import wrong_distributions
from worldsize.wings.checks.script.rules.loaders import loader_findings
from worldsize.wings.checks.script.rules.placement import crowded_gpus, global_devices
from worldsize.wings.checks.script.rules.saving import saves_by_all

RULES: tuple[Callable[[Program], Iterator[ScriptFinding]], ...] = (
    wrong_distributions,
    separate_trainings,
    global_devices,
    crowded_gpus,
    fixed_addresses,
    loader_findings,
    saves_by_all,
)


def script_findings(request: ScriptRequest, clock: Callable[[], float] = time.thread_time) -> list[ScriptFinding]:
    """Return the ScriptFindings about the job's script, in the order of files and lines. There are none except
    downloads if the script is not found, is not valid for this Python, or is too large to be read within the time limit
    of a check. `clock` returns the CPU seconds of this thread, so that a busy machine finds as much as an idle one."""
    program = read_program(request, clock)
    found = [] if program is None else findings_of(program)
    return _by_place([*found, *downloads(request, clock)])


def downloads(request: ScriptRequest, clock: Callable[[], float] = time.thread_time) -> list[ScriptFinding]:
    """Return only the ScriptFindings about downloads of the job's script and commands on nodes without internet. They
    are found without code and in batch scripts, too. Return an empty list if the analysis fails."""
    try:
        return download_findings(request, clock)
    except Exception:  # noqa: BLE001  as for the other rules
        return []


def findings_of(program: Program) -> list[ScriptFinding]:
    """Apply all rules to a script that was read, and return their ScriptFindings in the order of files and lines. A
    rule that fails is skipped."""
    found: list[ScriptFinding] = []
    for rule in RULES:
        try:
            found += rule(program)
        except Exception:  # noqa: BLE001  a rule that fails on a strange source reports nothing about it
            continue
    return _by_place(found)


def _by_place(found: list[ScriptFinding]) -> list[ScriptFinding]:
    return sorted(dict.fromkeys(found), key=lambda each: (each.file, each.line, each.id))
