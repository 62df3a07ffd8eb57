"""Run ids, run directories, and finding runs again."""

from __future__ import annotations

import errno
import os
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.errors import NotFound, StorageError, UsageError, WorldsizeError
from worldsize.store import find, runs

NOW = 1795257118.417  # 2026-11-21 10:31:58.417 UTC


def fixed(number: int):
    return lambda size: number.to_bytes(size, "big")


@pytest.fixture
def home(tmp_path):
    return str(tmp_path / "home")


def make(home: str, now: float = NOW, number: int = 0, runs_dir: str | None = None):
    paths = runs.create_run(home, runs_dir, now=lambda: now, random=fixed(number))
    open(paths.plan, "w").close()
    return paths


def test_ids_sort_by_time_and_say_their_date():
    assert runs.new_run_id(NOW, fixed(0)) == "20261121-103158-417000"
    moments = [NOW + step for step in (-1e6, -0.002, 0, 0.002, 1, 86400)]
    ids = [runs.new_run_id(now, os.urandom) for now in moments]
    assert ids == sorted(ids) and all(runs.is_run_id(i) and i == i.lower() for i in ids)
    assert runs.is_run_id(ids[0] + "-1234") and not any(runs.is_run_id(ids[0] + end) for end in ("-", "-x", "_3", "1"))
    assert not any(runs.is_run_id(name) for name in (".objects-1000", ".summaries", "notes", ".0261121-103158-417000"))


def test_home_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert runs.home_dir({"WORLDSIZE_HOME": "here"}) == str(tmp_path / "here")
    assert runs.home_dir({"WORLDSIZE_HOME": ""}) == os.path.expanduser("~/.worldsize")


def test_a_new_run_is_private_and_complete(home):
    paths = make(home)
    for directory in (home, os.path.dirname(paths.root), paths.root, *paths.directories()):
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700, directory
    open(os.path.join(paths.code, "outputs", "model"), "w").close()
    open(os.path.join(paths.code, "logs", "log"), "w").close()
    assert os.listdir(paths.outputs) == ["model"] and os.listdir(paths.user_logs) == ["log"]


def test_plain_directories_where_links_are_impossible(home, monkeypatch):
    def refuse(*args):
        raise OSError(errno.EPERM, "no symlinks here")

    monkeypatch.setattr(os, "symlink", refuse)
    paths = make(home)
    assert os.path.isdir(os.path.join(paths.code, "outputs")) and os.path.isdir(os.path.join(paths.code, "logs"))


def test_a_taken_id_is_not_taken_twice(home):
    numbers = iter([0, 0, 0, 1])
    make(home)
    second = runs.create_run(home, now=lambda: NOW, random=lambda size: next(numbers).to_bytes(size, "big"))
    assert second.run_id == "20261121-103158-417100"


def test_a_stuck_clock_and_no_randomness_end_in_an_error(home):
    make(home)
    with pytest.raises(StorageError, match="no free run id"):
        make(home)


def test_a_runs_dir_elsewhere_is_linked_from_home(home, tmp_path):
    paths = make(home, runs_dir=str(tmp_path / "shared" / "runs"))
    assert paths.root == str(tmp_path / "shared" / "runs" / paths.run_id)
    assert find.find_run_paths(home, paths.run_id[-6:]).root == paths.root
    assert find.find_run_paths(home, None).root == paths.root
    # an id taken in the home alone is taken too, and no empty directory stays in the runs_dir
    os.rename(paths.root, paths.root + "x")
    with pytest.raises(StorageError):
        make(home, runs_dir=str(tmp_path / "shared" / "runs"))
    assert os.listdir(tmp_path / "shared" / "runs") == [paths.run_id + "x"]


def test_a_runs_dir_that_is_the_homes_own_by_another_name(home, tmp_path):
    first = make(home)
    os.symlink(home, tmp_path / "alias")
    paths = make(home, NOW + 1, runs_dir=str(tmp_path / "alias" / "runs"))
    assert find.list_ids(home) == [paths.run_id, first.run_id]
    assert os.path.samefile(find.find_run_paths(home, None).root, paths.root)


def test_discarded_without_a_trace(home, tmp_path):
    for runs_dir in (None, str(tmp_path / "elsewhere")):
        paths = make(home, runs_dir=runs_dir)
        runs.discard_run(home, paths)
        runs.discard_run(home, paths)
        assert os.listdir(os.path.join(home, "runs")) == [] and not os.path.lexists(paths.root)


def test_home_that_is_a_file(tmp_path):
    (tmp_path / "home").write_text("x")
    with pytest.raises(StorageError) as caught:
        make(str(tmp_path / "home"))
    assert "Not a directory" in caught.value.what and "a file is" in (caught.value.hint or "")
    assert str(tmp_path / "home") in (caught.value.where or "")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_disk_that_says_no_half_way_leaves_nothing(home, monkeypatch, number):
    make(home, now=NOW - 1)
    mkdir = os.mkdir

    def refuse(path, *args, **kwargs):
        if path.endswith("exit"):
            raise OSError(number, os.strerror(number), path)
        mkdir(path, *args, **kwargs)

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(StorageError) as caught:
        make(home)
    assert os.strerror(number) in caught.value.what and caught.value.hint
    assert len(os.listdir(os.path.join(home, "runs"))) == 1


def test_resolve_by_beginning_and_by_last_part(home):
    old = make(home, NOW - 3600, 5)
    new = make(home, NOW, 9)
    assert find.find_run_paths(home, None).root == new.root
    assert find.find_run_paths(home, old.run_id).root == old.root
    assert find.find_run_paths(home, old.run_id[:11]).root == old.root
    assert find.find_run_paths(home, new.run_id[-6:-2]).root == new.root
    with pytest.raises(UsageError, match="names 2 runs") as caught:
        find.find_run_paths(home, "2026")
    assert old.run_id in str(caught.value) and new.run_id in str(caught.value)


def test_an_ambiguous_beginning_lists_five(home):
    for number in range(7):
        make(home, NOW + number)
    with pytest.raises(UsageError, match="and 2 more"):
        find.find_run_paths(home, "2026")


def test_nothing_found_says_what_is_near(home):
    with pytest.raises(NotFound, match="no run yet"):
        find.find_run_paths(home, None)
    paths = make(home)
    with pytest.raises(NotFound, match="did you mean " + paths.run_id):
        find.find_run_paths(home, "20261121-103158-41800")
    with pytest.raises(NotFound, match="no run is named") as gone:
        find.find_run_paths(home, "20261121-103158-418000")
    assert paths.run_id not in str(gone.value), "an id is of one run, which is gone: another is not meant"
    with pytest.raises(NotFound, match="the latest is " + paths.run_id):
        find.find_run_paths(home, "zebra")


@pytest.mark.parametrize("text", ["../x", "/etc", "a/../b", ".", "..", "", " ", "\0", "x" * 5000, "\udcff", "-f", "*"])
def test_what_is_no_run_is_refused(home, tmp_path, monkeypatch, text):
    make(home)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound):
        find.find_run_paths(home, text)


@settings(max_examples=cases(200), suppress_health_check=list(HealthCheck))
@given(st.text(st.characters(), max_size=12) | st.text("./2016-\ud800\udcff", max_size=6))
def test_any_text_is_a_run_or_a_clear_error(home, text):
    if not find.list_ids(home):
        make(home)
    try:
        assert runs.is_run_id(find.find_run_paths(home, text).run_id)
    except WorldsizeError as error:
        assert error.what


def test_a_run_is_found_by_its_directory(home, tmp_path, monkeypatch):
    paths = make(str(tmp_path / "colleague"))
    assert find.find_run_paths(home, paths.root).root == paths.root
    monkeypatch.chdir(paths.code)
    assert find.find_run_paths(home, "..").root == paths.root
    monkeypatch.chdir(os.path.dirname(paths.root))
    assert find.find_run_paths(home, paths.run_id).run_id == paths.run_id


def test_a_run_whose_directory_is_gone_is_still_known(home, tmp_path):
    paths = make(home, runs_dir=str(tmp_path / "shared"))
    os.rename(tmp_path / "shared", tmp_path / "away")
    assert find.find_run_paths(home, paths.run_id).root == paths.root


def test_list_is_newest_first_and_limited(home):
    made = [make(home, NOW + number).run_id for number in range(5)]
    os.mkdir(os.path.join(home, "runs", ".objects-0"))
    assert find.list_ids(home) == made[::-1]
    assert find.list_ids(home, 2) == made[::-1][:2]
    assert find.list_ids(home + "none", 2) == []
