"""Which runs were started from a directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.errors import NotFound
from worldsize.store.find import find_latest_from, list_ids
from worldsize.store.runs import create_run
from worldsize.store.started_from import note_start, started_from


def start(home: str, directory: Path, now: float) -> str:
    run_id = create_run(home, now=lambda: now).run_id
    note_start(home, str(directory), run_id)
    return run_id


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


def test_each_directory_has_its_own_newest_first(home: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    (tmp_path / "link").symlink_to(here)
    first, other, second = start(home, here, 1e9), start(home, there, 2e9), start(home, here, 3e9)
    assert started_from(home, str(here)) == [second, first] == started_from(home, str(tmp_path / "link"))
    assert started_from(home, str(there)) == [other]
    assert find_latest_from(home, str(here)).run_id == second


def test_a_run_that_was_removed_is_none(home: str, tmp_path: Path) -> None:
    first, second = start(home, tmp_path, 1e9), start(home, tmp_path, 2e9)
    os.rename(os.path.join(home, "runs", second), os.path.join(home, "removed"))
    assert started_from(home, str(tmp_path)) == [first]


def test_where_nothing_was_started_the_latest_of_all_is_named(home: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no run yet"):
        find_latest_from(home, str(tmp_path))
    run = start(home, tmp_path / "there", 1e9)
    with pytest.raises(NotFound, match="no run was started from this directory") as error:
        find_latest_from(home, str(tmp_path))
    assert run in (error.value.hint or "")


@pytest.mark.parametrize("text", [b"", b"\0\xff\n../../etc\n", b"x" * 100_000])
def test_a_damaged_file_loses_nothing_but_itself(home: str, tmp_path: Path, text: bytes) -> None:
    start(home, tmp_path, 1e9)
    (file,) = Path(home, "started").iterdir()
    file.write_bytes(text)
    assert started_from(home, str(tmp_path)) == [] and len(list_ids(home)) == 1
    run = start(home, tmp_path, 2e9)
    assert started_from(home, str(tmp_path))[:1] in ([run], [])


def test_what_cannot_be_noted_keeps_no_run_from_starting(home: str, tmp_path: Path) -> None:
    os.makedirs(home)
    Path(home, "started").write_text("a file")
    note_start(home, str(tmp_path), "20261128-120502-219kaj")
    assert started_from(home, str(tmp_path)) == []
