"""Rows for `list`: from results, from the cache, from whoever looks live; and the removal of finished runs."""

from __future__ import annotations

import os
import stat

import msgspec
import pytest

from worldsize.common import atomic_files
from worldsize.errors import NotFound
from worldsize.plan.run_paths import RunPaths
from worldsize.snapshot.snapshot import take_snapshot
from worldsize.store import find, prune, runs, summaries
from worldsize.store.summaries import Summary

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


def nobody(paths: RunPaths) -> Summary:
    raise AssertionError("asked for " + paths.root)


def many(home: str, count: int, later: float = 0.0) -> list[str]:
    """Finished runs that are nothing but a result, as far as `list` can tell; other `later` seconds make other ids."""
    ids = [runs.new_run_id(NOW - 86400 + number + later, os.urandom) for number in range(count)]
    for run_id in ids:
        os.makedirs(os.path.join(home, "runs", run_id))
        finish(RunPaths(os.path.join(home, "runs", run_id)))
    return ids


def test_a_directory_that_others_can_write_to_has_no_cache(home):
    ids = many(home, 300)
    os.chmod(os.path.join(home, "runs"), 0o777)
    assert len(summaries.summaries(home, ids, lambda paths: [])) == 300
    assert not os.path.exists(os.path.join(home, "runs", ".summaries"))
    os.chmod(os.path.join(home, "runs"), 0o700)
    summaries.summaries(home, ids, lambda paths: [])
    assert os.path.exists(os.path.join(home, "runs", ".summaries"))


def test_finished_runs_from_their_result_the_others_live(home, tmp_path):
    first, second = make(home, NOW), make(home, NOW + 1, runs_dir=str(tmp_path / "lab"))
    third, fourth = make(home, NOW + 2), make(home, NOW + 3)
    expected = [finish(first), finish(second)]
    atomic_files.write_text(third.result, '{"summary":')
    asked = []

    def live(runs: list[RunPaths]) -> list[Summary]:
        asked.append([paths.root for paths in runs])
        return [row(paths.run_id, "RUNNING") for paths in runs]

    rows = summaries.summaries(home, find.list_ids(home), live)
    assert rows[2:] == expected[::-1] and asked == [[fourth.root, third.root]]
    assert [r.state for r in rows[:2]] == ["RUNNING", "RUNNING"]


def test_a_result_with_undecodable_names_is_asked_live(home):
    paths = make(home)
    atomic_files.write_json(paths.result, {"summary": {"id": paths.run_id, "name": "\udcff"}})
    assert summaries.summaries(home, [paths.run_id], lambda runs: [row(runs[0].run_id, "LOST")])[0].state == "LOST"


def test_the_cache_serves_many_and_never_few(home, monkeypatch):
    many(home, 250)
    ids = find.list_ids(home)
    plain = summaries.summaries(home, ids, nobody)
    cache = os.path.join(home, "runs", ".summaries")
    assert os.path.exists(cache) and stat.S_IMODE(os.stat(cache).st_mode) == 0o600
    opened: list[str] = []
    final = summaries.final_summary
    monkeypatch.setattr(summaries, "final_summary", lambda path: opened.append(path) or final(path))
    assert summaries.summaries(home, ids, nobody) == plain and opened == []
    monkeypatch.setattr(summaries, "_read_cache", lambda directory: pytest.fail("read for 20 runs"))
    assert summaries.summaries(home, ids[:20], nobody) == plain[:20]


@pytest.mark.parametrize("garbage", [b"", b"\xc1", b"\x91\x01", b"\x00" * 100])
def test_a_broken_cache_is_made_anew(home, garbage):
    many(home, 250)
    ids = find.list_ids(home)
    plain = summaries.summaries(home, ids, nobody)
    cache = os.path.join(home, "runs", ".summaries")
    with open(cache, "wb") as file:
        file.write(garbage)
    assert summaries.summaries(home, ids, nobody) == plain
    assert os.path.getsize(cache) > 1000


def test_the_cache_forgets_runs_that_are_gone(home):
    many(home, 250)
    summaries.summaries(home, find.list_ids(home), nobody)
    removed = [run_id for run_id, _ in prune.prune(home, now=NOW, keep=150)]
    many(home, 100, later=0.5)
    ids = find.list_ids(home)
    assert [r.id for r in summaries.summaries(home, ids, nobody)] == ids and not set(ids) & set(removed)
    assert set(summaries._read_cache(os.path.join(home, "runs"))) == set(ids)


def test_live_runs_are_not_cached(home):
    many(home, 250)
    paths = make(home, NOW + 1)
    ids = find.list_ids(home)
    assert summaries.summaries(home, ids, lambda runs: [row(runs[0].run_id, "RUNNING")])[0].state == "RUNNING"
    finish(paths, "FAILED")
    assert summaries.summaries(home, ids, nobody)[0].state == "FAILED"


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
    rehearsed = prune.prune(home, now=NOW, older_than=60, dry_run=True)
    assert os.path.exists(old.root) and [run_id for run_id, _ in rehearsed] == [old.run_id]
    assert 1000 <= rehearsed[0][1] < 1000 + 2000
    assert prune.prune(home, now=NOW, older_than=60) == rehearsed
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
    assert [i for i, _ in prune.prune(home, now=NOW, keep=1, states={"FAILED"})] == [made[2].run_id, made[0].run_id]
    assert [i for i, _ in prune.prune(home, now=NOW, keep=1)] == [made[1].run_id]
    assert find.list_ids(home) == [made[3].run_id]


def test_prune_follows_a_runs_dir_elsewhere(home, tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "a.py").write_text("a")
    paths = make(home, runs_dir=str(tmp_path / "lab"), code=str(code))
    finish(paths)
    prune.prune(home, now=NOW)
    assert os.listdir(os.path.join(home, "runs")) == []
    assert stored(str(tmp_path / "lab")) == []


def test_what_a_broken_snapshot_left_goes_after_a_while(home):
    paths = make(home)
    objects = runs.objects_dir(os.path.dirname(paths.root))
    os.makedirs(objects)
    for name in ("tmp-0123", "index-0123"):
        atomic_files.write_text(os.path.join(objects, name), "")
    now = os.stat(objects).st_mtime
    prune.prune(home, now=now + 60)
    assert len(os.listdir(objects)) == 2
    prune.prune(home, now=now + 2 * 3600)
    assert os.listdir(objects) == ["index-0123"]
    prune.prune(home, now=now + 31 * 86400)
    assert os.listdir(objects) == []


def test_prune_finishes_what_was_interrupted_and_leaves_strangers_alone(home, tmp_path):
    paths = make(home)
    finish(paths)
    os.rename(paths.root, os.path.join(home, "runs", ".pruned-" + paths.run_id))
    os.mkdir(tmp_path / "precious")
    finish(RunPaths(str(tmp_path / "precious")))
    os.symlink(tmp_path / "precious", os.path.join(home, "runs", runs.new_run_id(NOW, os.urandom)))
    os.symlink(tmp_path / "gone", os.path.join(home, "runs", runs.new_run_id(NOW, os.urandom)))
    assert prune.prune(home, now=NOW) == []
    assert len(os.listdir(os.path.join(home, "runs"))) == 2 and os.path.exists(tmp_path / "precious/result.json")
