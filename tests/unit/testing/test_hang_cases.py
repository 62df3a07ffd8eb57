"""The table of programs that hang, and that of healthy ones, fit the programs that there are."""

from __future__ import annotations

import argparse
from collections import Counter

import pytest
from hangs.cases import KINDS, NEVER, PROGRAMS, START, HangCase, all_cases
from hangs.check import asked
from hangs.healthy import KINDS as HEALTHY_KINDS
from hangs.healthy import HealthyKind, all_healthy, one_of_each_kind

CASES = all_cases()
HEALTHY = all_healthy()
MARKERS = {"here", "parent", "child", "thread", "caller", "others", "partner", "server"}
NEEDS = {"", "mpi", "fuse"}


def words(*ids: str, healthy: bool = False, every: bool = False) -> argparse.Namespace:
    return argparse.Namespace(ids=list(ids), healthy=healthy, every=every)


def ids(names: argparse.Namespace) -> list[str]:
    return [each.id for each in asked(names)]


def test_there_are_many_of_each() -> None:
    assert len(CASES) >= 46 and len({case.program for case in CASES}) >= 46
    assert len(HEALTHY) >= 200 and len(HEALTHY_KINDS) >= 24
    kinds = Counter(case.kind for case in CASES)
    assert set(kinds) == set(KINDS) and min(kinds.values()) >= 4, kinds


def test_no_two_cases_have_one_id() -> None:
    counts = Counter([*(case.id for case in CASES), *(case.id for case in HEALTHY)])
    assert [name for name, count in counts.items() if count > 1] == []


def test_each_program_is_in_a_table() -> None:
    there = {str(path.relative_to(PROGRAMS)) for path in PROGRAMS.glob("*/*.py") if path.parent.name != "phases"}
    assert {case.program for case in (*CASES, *HEALTHY)} == there


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_case(case: HangCase) -> None:
    assert case.kind in KINDS and case.needs in NEEDS
    assert case.why.endswith(".") and len(case.why) < 100
    assert 2 <= case.ranks_in_all <= 4 and case.ranks <= set(range(case.ranks_in_all))
    if case.ended:
        assert case.place is None
    else:
        assert case.place is not None and case.place.startswith(case.program + ":")
    if len(case.ranks) == 1:
        rank = int(case.arguments[case.arguments.index("--rank") + 1]) if "--rank" in case.arguments else 1
        assert case.ranks == {rank}
        symmetrical = {case.place} == {case.others or case.place}
        assert not symmetrical or case.kind != NEVER, "the others are where it is"
    if case.kind == START:
        assert case.call == "init_process_group"


@pytest.mark.parametrize("program", sorted({case.program for case in (*CASES, *HEALTHY)}))
def test_a_program(program: str) -> None:
    text = (PROGRAMS / program).read_text()
    compile(text, program, "exec")
    assert text.startswith('"""')
    found = {line.rpartition("  # ")[2] for line in text.splitlines() if "  # " in line and "# type:" not in line}
    assert found <= MARKERS
    assert not program.startswith("healthy/") or not found


@pytest.mark.parametrize("kind", HEALTHY_KINDS, ids=[kind.id for kind in HEALTHY_KINDS])
def test_a_healthy_kind(kind: HealthyKind) -> None:
    """What gives no sign is over before the limit."""
    assert kind.needs in NEEDS and kind.why.endswith(".")
    silent = kind.sign.startswith("none") and kind.phase != "all"
    assert not silent or max(kind.times) < 1
    phases = "".join(path.read_text() for path in (PROGRAMS / "phases").glob("*.py"))
    own = (PROGRAMS / kind.program).read_text()
    assert not kind.phase or '"%s":' % kind.phase in phases or '"%s"' % kind.phase in own or kind.phase == "all"


def test_one_of_each_kind_is_of_each_kind() -> None:
    assert [case.kind for case in one_of_each_kind()] == [kind.id for kind in HEALTHY_KINDS]


def test_cases_are_found_by_their_ids_and_how_those_begin() -> None:
    assert ids(words()) == [case.id for case in CASES]
    assert ids(words("loader-fifo")) == ["loader-fifo"], "not those whose ids begin so"
    assert ids(words("mpi-")) == [case.id for case in CASES if case.needs == "mpi"]
    assert ids(words("healthy-mpi-python-2x2")) == ["healthy-mpi-python-2x2-3-1.5-0", "healthy-mpi-python-2x2-3-2.5-0"]
    assert ids(words(healthy=True)) == [case.id for case in one_of_each_kind()]
    assert ids(words(healthy=True, every=True)) == [case.id for case in HEALTHY]
    with pytest.raises(SystemExit, match="no case loader-nothing"):
        asked(words("loader-nothing"))
