"""Files and directories that join the code."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from worldsize.errors import SnapshotError
from worldsize.plan.run_paths import RunPaths
from worldsize.snapshot.includes import find_in_includes, include_problems
from worldsize.snapshot.snapshot import Snapshot, take_snapshot


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def snapshot(tmp_path: Path, code: Path | None, *includes: Path, run: str = "run") -> tuple[Snapshot, Path]:
    paths = RunPaths(str(tmp_path / run))
    for directory in (paths.root, paths.code, paths.outputs, paths.user_logs):
        os.makedirs(directory, exist_ok=True)
    taken = take_snapshot(
        code and str(code), paths, str(tmp_path / "objects"), includes=[str(include) for include in includes]
    )
    return taken, Path(paths.code)


def files(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text() for path in sorted(directory.rglob("*")) if path.is_file()
    }


@pytest.fixture
def code(tmp_path: Path) -> Path:
    write(tmp_path / "code" / "main.py", "main")
    return tmp_path / "code"


def test_files_and_directories_join_under_their_last_names(tmp_path: Path, code: Path) -> None:
    lib = write(tmp_path / "shared" / "lib" / "deep" / "a.py", "a").parents[1]
    taken, there = snapshot(tmp_path, code, lib, write(tmp_path / "one.py", "one"))
    assert files(there) == {"main.py": "main", "lib/deep/a.py": "a", "one.py": "one"}
    assert taken.files == 3


def test_they_stand_alone_without_code(tmp_path: Path) -> None:
    _, there = snapshot(tmp_path, None, write(tmp_path / "lib" / "a.py").parent, write(tmp_path / "one.py"))
    assert sorted(files(there)) == ["lib/a.py", "one.py"]


def test_ignore_files_of_the_code_and_their_own_count(tmp_path: Path, code: Path) -> None:
    write(code / ".amlignore", "*.tmp\nlib/secret\n")
    lib = tmp_path / "lib"
    for name in ("a.py", "b.tmp", "c.log", "secret/key"):
        write(lib / name)
    write(lib / ".amlignore", "*.log\n")
    _, there = snapshot(tmp_path, code, lib)
    assert sorted(files(there)) == [".amlignore", "lib/.amlignore", "lib/a.py", "main.py"]


def test_an_archive_stands_for_a_directory_and_is_the_same_each_time(tmp_path: Path, code: Path) -> None:
    write(tmp_path / "data" / "b.txt", "b")
    os.chmod(write(tmp_path / "data" / "a.sh", "a"), 0o755)
    first, there = snapshot(tmp_path, code, tmp_path / "data.zip")
    os.utime(tmp_path / "data" / "b.txt", (1, 1))
    second, _ = snapshot(tmp_path, code, tmp_path / "data.zip", run="again")
    with zipfile.ZipFile(there / "data.zip") as archive:
        assert archive.namelist() == ["data/", "data/a.sh", "data/b.txt"]
        assert archive.read("data/b.txt") == b"b"
    assert first.digest == second.digest
    assert not list((tmp_path / "run").glob("includes-*"))


def test_an_archive_that_is_there_is_taken_as_it_is(tmp_path: Path, code: Path) -> None:
    write(tmp_path / "data" / "b.txt")
    _, there = snapshot(tmp_path, code, write(tmp_path / "data.zip", "mine"))
    assert (there / "data.zip").read_text() == "mine"


def test_links_inside_stay_links_and_links_outside_become_files(tmp_path: Path, code: Path) -> None:
    lib = write(tmp_path / "lib" / "a.py", "a").parent
    (lib / "inside").symlink_to("a.py")
    (lib / "outside").symlink_to(write(tmp_path / "far.py", "far"))
    (tmp_path / "named").symlink_to(lib)
    _, there = snapshot(tmp_path, code, tmp_path / "named")
    assert os.readlink(there / "named" / "inside") == "a.py"
    assert not (there / "named" / "outside").is_symlink()
    assert (there / "named" / "outside").read_text() == "far"


def test_collisions_are_refused_with_both_names(tmp_path: Path, code: Path) -> None:
    one, other = write(tmp_path / "a" / "lib" / "x").parent, write(tmp_path / "b" / "lib" / "x").parent
    main = write(tmp_path / "main.py")
    told = [what for what, _ in include_problems(str(code), [str(one), str(other), str(main)])]
    assert told == [
        "%s and %s would have the same name" % (other, one),
        "%s and %s would have the same name" % (main, code / "main.py"),
    ]
    with pytest.raises(SnapshotError, match="has a 'lib' already"):
        snapshot(tmp_path, code, one, other)


def test_what_is_missing_or_would_be_the_runs_own_is_a_problem(tmp_path: Path) -> None:
    outputs = write(tmp_path / "outputs" / "x").parent
    told = [what for what, _ in include_problems(None, ["/", str(outputs), str(tmp_path / "no.py")])]
    assert told == [
        "the root directory cannot be included",
        "%s: the run has a directory outputs" % outputs,
        "no such file or directory: %s" % (tmp_path / "no.py"),
    ]


def test_a_script_is_found_where_it_comes_from(tmp_path: Path) -> None:
    script = write(tmp_path / "lib" / "run.py")
    assert find_in_includes([str(tmp_path / "lib")], "lib/run.py") == str(script)
    assert find_in_includes([str(tmp_path / "lib")], "lib/no.py") is None
    assert find_in_includes([str(tmp_path / "lib")], "other.py") is None
