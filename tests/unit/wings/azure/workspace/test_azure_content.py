"""The digest of a folder goes by paths, executable bits and content, and by nothing else."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.selection import cases

from worldsize.errors import SnapshotError
from worldsize.wings.azure.storage.content import file_content, folder_content

NAMES = st.sampled_from(["a", "b", "ab", "Ä", "a b", "x.py"])
FILES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.tuples(st.binary(max_size=5), st.booleans()), max_size=5
).filter(lambda files: not any(one != other and one.startswith(other + "/") for one in files for other in files))


def written(folder: Path, files: dict[str, tuple[bytes, bool]], shuffled: random.Random) -> Path:
    for name in shuffled.sample(sorted(files), len(files)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name][0])
        path.chmod(0o755 if files[name][1] else 0o644)
        os.utime(path, (shuffled.randrange(10**9),) * 2)
    return folder


@settings(max_examples=cases(100))
@given(FILES, FILES, st.randoms(use_true_random=False))
def test_digests_are_equal_where_files_are(
    one: dict[str, tuple[bytes, bool]], other: dict[str, tuple[bytes, bool]], shuffled: random.Random
) -> None:
    top = Path(tempfile.mkdtemp())
    try:
        first = folder_content(str(written(top / "1", one, shuffled) if one else top))
        again = folder_content(str(written(top / "2" / "3", one, shuffled) if one else top))
        second = folder_content(str(written(top / "4", other, shuffled))) if other else None
        assert first.digest == again.digest
        if one:
            assert {file.name: file.size for file in first.files} == {name: len(each[0]) for name, each in one.items()}
        if one and second is not None:
            assert (first.digest == second.digest) == (one == other)
    finally:
        shutil.rmtree(top)


def test_the_digest_of_a_file_is_that_of_its_content(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"1,2\n")
    found = file_content(str(path))
    assert found.digest == hashlib.sha256(b"1,2\n").hexdigest()
    assert [(file.name, file.size) for file in found.files] == [("data.csv", 4)]
    assert found.size == 4


def test_links_are_what_they_lead_to_and_circles_end(tmp_path: Path) -> None:
    folder, outside = tmp_path / "code", tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "data").write_text("1")
    (folder / "linked").symlink_to(outside)
    (folder / "sub" / "circle").symlink_to("..")
    (folder / "nowhere").symlink_to("missing")
    os.mkfifo(folder / "pipe")
    found = folder_content(str(folder))
    assert "linked/data" in [file.name for file in found.files]
    assert found.left_out == ("left out, since they point to no file: nowhere, pipe, sub/circle",)


def test_an_ignore_file_of_the_folder_itself_counts(tmp_path: Path) -> None:
    """`.amlignore` rather than `.gitignore`; none of those below."""
    for name in ("a.txt", "x.tmp", "sub/b.tmp", "sub/.gitignore", "cache/deep/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("*\n")
    (tmp_path / ".gitignore").write_text("*.tmp\n!sub/b.tmp\ncache/\n")
    found = folder_content(str(tmp_path), ignores=True)
    assert [file.name for file in found.files] == [".gitignore", "a.txt", "sub/.gitignore", "sub/b.tmp"]
    assert found.left_out == ("left out by its .gitignore: 2 of 6 files",)
    (tmp_path / ".amlignore").write_text("a.txt\n")
    assert folder_content(str(tmp_path), ignores=True).left_out == ("left out by its .amlignore: 1 of 7 files",)
    assert len(folder_content(str(tmp_path)).files) == 7


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with open(os.path.join(os.fsencode(tmp_path), b"\xff"), "w"):
        pass
    with pytest.raises(SnapshotError, match="UTF-8"):
        folder_content(str(tmp_path))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="missing"):
        folder_content(str(tmp_path / "missing"))
