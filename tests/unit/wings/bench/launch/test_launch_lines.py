"""What ranks say of themselves among a launcher's words, and the times that follow."""

from __future__ import annotations

import os
import runpy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.bench.launch import trial
from worldsize.wings.bench.launch.rounds import PROBE
from worldsize.wings.bench.launch.trial import Heard, find_machine

HERE = find_machine()


def taken(*lines: bytes, began: float = 100.0, came: float = 200.0) -> dict[tuple[str, int], float]:
    times: dict[tuple[str, int], float] = {}
    for line in lines:
        trial._take(line, began, came, times)
    return times


def said(what: str, rank: int, seconds: float, machine: str = HERE) -> bytes:
    return b"worldsize-bench %s %d %d %s;" % (what.encode(), rank, int(seconds * 1e9), machine.encode())


@pytest.mark.parametrize(
    "around", [b"%s", b"[1,0]<stdout>:%s", b"0: %s\r", b"\x1b[32mrank 0\x1b[0m | %s", b"\xff\xfe%s worldsize-bench"]
)
def test_a_line_counts_whatever_a_launcher_writes_around_it(around: bytes) -> None:
    assert taken(around % said("first", 0, 150)) == {("first", 0): 150.0}


def test_lines_of_two_ranks_that_became_one_are_two() -> None:
    assert taken(said("first", 0, 150) + said("first", 1, 151)) == {("first", 0): 150.0, ("first", 1): 151.0}


@pytest.mark.parametrize(
    "line",
    [
        b"", b"worldsize-bench", b"worldsize-bench first 0 12", b"worldsize-bench first -1 12 x;",
        b"worldsize-bench other 0 12 x;", b"worldsize-bench first 12345678 12 x;",
        b"worldsize-bench first 0 12345678901234567890 x;", b"worldsize-bench fir", b"worldsize-bench first 0 12 \xff;",
        "worldsize-bench first ٣ 12 x;".encode(),
    ],
)  # fmt: skip
def test_a_garbled_line_is_none(line: bytes) -> None:
    assert taken(line) == {}


def test_the_clock_of_another_machine_does_not_count() -> None:
    assert taken(said("first", 0, 150, "another")) == {("first", 0): 200.0}


@pytest.mark.parametrize("seconds", [99.0, 201.0])
def test_a_clock_that_was_set_meanwhile_does_not_count(seconds: float) -> None:
    assert taken(said("first", 0, seconds)) == {("first", 0): 200.0}


def test_the_first_time_that_a_rank_says_something_counts() -> None:
    assert taken(said("first", 0, 150), said("first", 0, 160)) == {("first", 0): 150.0}


@given(st.binary(max_size=300))
def test_rubbish_is_no_error(line: bytes) -> None:
    taken(line, b"worldsize-bench first 0 " + line)


@given(st.lists(st.sampled_from(["first", "step", "failing"]), max_size=5), st.integers(0, 9))
def test_cut_lines_never_give_another_time(whats: list[str], cut: int) -> None:
    text = b"".join(said(what, 3, 150) for what in whats)
    assert set(taken(text[: len(text) - cut]).values()) <= {150.0}


def test_the_probe_says_what_is_read(capfd: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(PROBE)["tell"]("first", 3)
    assert list(taken(capfd.readouterr().out.encode(), began=0.0, came=2e9)) == [("first", 3)]


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"RANK": "1", "WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, (1, 4)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}, (2, 3)),
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, (0, 2)),
        ({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "RANK": "rubbish"}, (1, 2)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8"}, (5, 8)),
    ],
)
def test_a_rank_knows_its_place_by_each_launcher(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], place: tuple[int, int]
) -> None:
    monkeypatch.setattr(os, "environ", variables)
    assert runpy.run_path(PROBE)["find_place"]() == place


def test_a_rank_without_a_launcher_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    with pytest.raises(SystemExit, match="no launcher has set"):
        runpy.run_path(PROBE)["find_place"]()


def heard(ended: float | None = 120.0, other: str = "", **times: tuple[float, ...]) -> Heard:
    return Heard({(what, rank): at for what, all_at in times.items() for rank, at in enumerate(all_at)}, other, ended)


def times(said: Heard, fails: bool = False, gone: float | None = 121.0) -> tuple[Any, ...]:
    found = trial._trial(said, 100.0, gone, 2, fails)
    return found.first, found.step, found.over


def test_the_last_rank_decides() -> None:
    assert times(heard(first=(101.0, 103.0), step=(104.0, 103.5))) == (3.0, 4.0, 17.0)


def test_after_a_failure_time_runs_from_the_rank_that_failed() -> None:
    said = heard(first=(101.0, 103.0), step=(104.0, 103.5), failing=(110.0,))
    assert times(said, fails=True) == (3.0, 4.0, pytest.approx(11.0 - trial.FAILS_AFTER))
    assert runpy.run_path(PROBE)["FAILS_AFTER"] == trial.FAILS_AFTER


def test_what_did_not_come_about_has_no_time() -> None:
    assert times(heard(first=(101.0,))) == (None, None, None)
    assert times(heard(first=(101.0, 102.0), step=(103.0, 104.0)), gone=None) == (2.0, 4.0, None)
    assert times(heard(first=(101.0, 102.0), step=(103.0, 104.0)), fails=True) == (2.0, 4.0, None)


ALL = {"first": (1.0, 2.0), "step": (3.0, 4.0)}


@pytest.mark.parametrize(
    ("said", "code", "fails", "failure"),
    [
        (heard(**ALL), 0, False, ""),
        (heard(**ALL, failing=(5.0,)), 3, True, ""),
        (heard(first=(1.0,), failing=(5.0,)), 3, True, ""),
        (heard(**ALL), 1, False, "its exit code was 1"),
        (heard(**ALL, failing=(5.0,)), 0, True, "a rank failed, and its exit code was 0"),
        (heard(None, **ALL), None, False, "it continued for 60 s"),
        (heard(None, "a\n", failing=(5.0,)), None, True, ""),
        (heard(None, "stuck\n"), None, True, "it continued for 60 s: stuck"),
        (heard(first=(1.0,)), 0, False, "not every rank has started"),
        (
            heard(other="There are not enough slots\n  in the system\n-------\n\n"),
            1, False, "not every rank has started: There are not enough slots",
        ),
        (heard(first=(1.0, 2.0), step=(1.0,)), 1, False, "the ranks have not met"),
    ],
)  # fmt: skip
def test_what_went_wrong_is_one_sentence(said: Heard, code: int | None, fails: bool, failure: str) -> None:
    assert trial._failure(said, code, 2, fails, 60.0) == failure
