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
    assert {"nowhere", "pipe"} <= set(found.left_out)
    assert len(found.left_out) == 3


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with open(os.path.join(os.fsencode(tmp_path), b"\xff"), "w"):
        pass
    with pytest.raises(SnapshotError, match="UTF-8"):
        folder_content(str(tmp_path))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="missing"):
        folder_content(str(tmp_path / "missing"))
