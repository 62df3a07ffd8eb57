"""Which run `open_run()` opens, and how runs are shown as text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize import NotFound, open_run
from worldsize.common.atomic_files import write_json, write_text
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.store.runs import create_run
from worldsize.store.started_from import note_start


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORLDSIZE_SITE_CONFIG", str(tmp_path / "none.toml"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return str(tmp_path / "home")


def start(home: str, directory: Path, now: float) -> str:
    run_id = create_run(home, now=lambda: now).run_id
    note_start(home, str(directory), run_id)
    return run_id


def test_without_an_id_it_is_the_latest_of_this_directory(home: str, tmp_path: Path) -> None:
    own, other = start(home, tmp_path / "here", 1e9), start(home, tmp_path / "there", 2e9)
    assert open_run().id == own
    assert open_run(other).id == other


def test_where_none_was_started_no_other_is_taken(home: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no run yet"):
        open_run()
    other = start(home, tmp_path / "there", 1e9)
    with pytest.raises(NotFound, match="no run was started from this directory") as caught:
        open_run()
    assert other in str(caught.value.hint)


def test_a_directory_that_is_gone_is_told(home: str, tmp_path: Path) -> None:
    os.rmdir(tmp_path / "here")
    with pytest.raises(Exception, match="the current directory cannot be read"):
        open_run()


def test_the_text_of_a_run_is_one_short_line(home: str, tmp_path: Path) -> None:
    run = open_run(start(home, tmp_path / "here", 1e9))
    assert repr(run) == "Run(%r)" % run.id, "no evidence was recorded yet"
    plan = Plan(run.id, "s3cret", "local", 1.0, 0, node_major_layout(2, 4), ("true",), {})
    write_text(run.paths.plan, plan.to_json())
    write_json(run.paths.record, {})
    assert repr(run).startswith("Run(%r, " % run.id) and repr(run).endswith(", 2x4)") and len(repr(run)) < 80
    assert "s3cret" not in repr(run)
