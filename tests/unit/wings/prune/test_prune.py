"""Finished runs removed, with the stored code that only they used."""

from __future__ import annotations

import errno
import os

import msgspec
import pytest
from in_process import InProcess

from worldsize.common import atomic_files
from worldsize.errors import NotFound
from worldsize.plan.run_paths import RunPaths
from worldsize.snapshot.snapshot import take_snapshot
from worldsize.store import find, runs
from worldsize.store.summaries import Summary
from worldsize.wings.prune import removal

NOW = 1795257118.0


@pytest.fixture
def home(tmp_path):
    return str(tmp_path / "home")


def row(run_id: str, state: str = "SUCCEEDED", ended: float = NOW) -> Summary:
    code = 0 if state == "SUCCEEDED" else 1
    return Summary(run_id, "näme", state, None, "local", 2, 4, ended - 60, ended - 50, ended, code)


def finish(paths: RunPaths, state: str = "SUCCEEDED", ended: float = NOW) -> Summary:
    summary = row(paths.run_id, state, ended)
    value = {"summary": msgspec.to_builtins(summary), "failure": None, "message": ""}
    assert atomic_files.write_once(paths.result, value)
    return summary


def make(home: str, now: float = NOW, runs_dir: str | None = None, code: str | None = None) -> RunPaths:
    paths = runs.create_run(home, runs_dir, now=lambda: now)
    atomic_files.write_text(paths.plan, "{}")
    if code:
        take_snapshot(code, paths, runs.objects_dir(os.path.dirname(paths.root)))
    return paths


def test_prune_removes_finished_runs_and_what_only_they_used(home, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "common.py").write_text("c" * 100)
    (code / "first.py").write_text("f" * 1000)
    old = make(home, NOW - 100, code=str(code))
    (code / "first.py").unlink()
    kept = make(home, NOW - 50, code=str(code))
    live = make(home, NOW - 200, code=str(code))
    finish(old, ended=NOW - 90)
    finish(kept, ended=NOW - 10)
    os.chmod(old.outputs, 0o500)
    objects = runs.objects_dir(os.path.join(home, "runs"))
    assert len(stored(objects)) == 2
    rehearsed = removal.prune(home, now=NOW, older_than=60, dry_run=True)
    assert os.path.exists(old.root) and [run_id for run_id, _ in rehearsed] == [old.run_id]
    assert 1000 <= rehearsed[0][1] < 1000 + 2000
    assert removal.prune(home, now=NOW, older_than=60) == rehearsed
    assert sorted(find.list_ids(home)) == sorted([kept.run_id, live.run_id])
    assert len(stored(objects)) == 1
    assert (tmp_path / "home/runs" / kept.run_id / "code/common.py").read_text() == "c" * 100
    with pytest.raises(NotFound):
        find.find_run_paths(home, old.run_id)


def stored(directory: str) -> list[str]:
    return [name for _, _, names in os.walk(directory) for name in names]


def test_prune_by_state_and_number(home):
    made = [make(home, NOW + number) for number in range(4)]
    for paths, state in zip(made, ["FAILED", "SUCCEEDED", "FAILED", "SUCCEEDED"], strict=True):
        finish(paths, state)
    assert [i for i, _ in removal.prune(home, now=NOW, keep=1, states={"FAILED"})] == [made[2].run_id, made[0].run_id]
    assert [i for i, _ in removal.prune(home, now=NOW, keep=1)] == [made[1].run_id]
    assert find.list_ids(home) == [made[3].run_id]


def test_prune_follows_a_runs_dir_elsewhere(home, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "a.py").write_text("a")
    paths = make(home, runs_dir=str(tmp_path / "lab"), code=str(code))
    finish(paths)
    removal.prune(home, now=NOW)
    assert os.listdir(os.path.join(home, "runs")) == []
    assert stored(str(tmp_path / "lab")) == []


def test_what_a_broken_snapshot_left_goes_after_a_while(home):
    paths = make(home)
    objects = runs.objects_dir(os.path.dirname(paths.root))
    os.makedirs(objects)
    for name in ("tmp-0123", "index-0123"):
        atomic_files.write_text(os.path.join(objects, name), "")
    now = os.stat(objects).st_mtime
    removal.prune(home, now=now + 60)
    assert len(os.listdir(objects)) == 2
    removal.prune(home, now=now + 2 * 3600)
    assert os.listdir(objects) == ["index-0123"]
    removal.prune(home, now=now + 31 * 86400)
    assert os.listdir(objects) == []


def test_links_among_stored_code_lead_nowhere(home, tmp_path):
    objects = runs.objects_dir(os.path.dirname(make(home).root))
    os.makedirs(os.path.join(objects, "ab"))
    name = "0" * 40 + "-400"
    precious = tmp_path / "precious"
    precious.mkdir()
    for path in (os.path.join(objects, "ab", name), str(precious / name), str(precious / "tmp-0123")):
        atomic_files.write_text(path, "")
    os.symlink(precious, os.path.join(objects, "cd"))
    os.symlink(precious, os.path.join(objects, "ab", "ef"))
    removal.prune(home, now=NOW + 31 * 86400)
    assert os.listdir(os.path.join(objects, "ab")) == ["ef"]
    assert sorted(os.listdir(precious)) == [name, "tmp-0123"]


def test_stored_code_that_cannot_be_listed_is_left_to_the_next_time(home, monkeypatch):
    paths = make(home)
    finish(paths)
    objects = runs.objects_dir(os.path.dirname(paths.root))
    os.makedirs(objects)
    scan, stored_code = os.scandir, os.stat(objects)

    def scan_unless_stale(place):
        if isinstance(place, int) and os.path.samestat(os.fstat(place), stored_code):
            raise OSError(errno.ESTALE, "Stale file handle")
        return scan(place)

    monkeypatch.setattr(os, "scandir", scan_unless_stale)
    assert [run for run, _ in removal.prune(home, now=NOW)] == [paths.run_id]


def test_prune_finishes_what_was_interrupted_and_leaves_strangers_alone(home, tmp_path):
    paths = make(home)
    finish(paths)
    os.rename(paths.root, os.path.join(home, "runs", ".pruned-" + paths.run_id))
    os.mkdir(tmp_path / "precious")
    finish(RunPaths(str(tmp_path / "precious")))
    os.symlink(tmp_path / "precious", os.path.join(home, "runs", runs.new_run_id(NOW, os.urandom)))
    os.symlink(tmp_path / "gone", os.path.join(home, "runs", runs.new_run_id(NOW, os.urandom)))
    assert removal.prune(home, now=NOW) == []
    assert len(os.listdir(os.path.join(home, "runs"))) == 2 and os.path.exists(tmp_path / "precious/result.json")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("prune", "no option selects runs"),
        ("prune --older-than yesterday", "30d"),
        ("prune --older-than yesterday", "--older-than"),
    ],
)
def test_words_that_choose_no_runs(tmp_path, words, says):
    cli = InProcess(str(tmp_path))
    result = cli(*words.split())
    assert (result.code, result.out) == (2, "") and says in result.err, result
    assert not os.path.exists(cli.home)
