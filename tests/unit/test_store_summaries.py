"""Rows for `list`: from results, from the cache, from whoever looks live."""

from __future__ import annotations

import os
import shutil
import stat

import msgspec
import pytest

from worldsize.common import atomic_files
from worldsize.plan.run_paths import RunPaths
from worldsize.store import find, runs, summaries
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


def make(home: str, now: float = NOW, runs_dir: str | None = None) -> RunPaths:
    paths = runs.create_run(home, runs_dir, now=lambda: now)
    atomic_files.write_text(paths.plan, "{}")
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
    removed = find.list_ids(home)[150:]
    for run_id in removed:
        shutil.rmtree(os.path.join(home, "runs", run_id))
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
