"""What counts for the digest of an environment, and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from worldsize.errors import NotFound, UsageError
from worldsize.jobspec.environment import BuildStep, EnvironmentSpec, FetchStep
from worldsize.wings.environments.fingerprint import fingerprint, lock_fingerprint

MACHINE = {"platform": "linux-64"}


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_what_does_not_count_for_the_fingerprint() -> None:
    spec = EnvironmentSpec(conda=("a", "b >=1"), pip=("x",), variables={"A": "1"})
    same = [
        spec._replace(conda=("b   >=1", "a")),
        spec._replace(name="other"),
        spec._replace(pip=("x  # why",)),
        spec._replace(variables={"A": "2"}, path=("/x",)),
    ]
    assert {fingerprint(each, MACHINE) for each in same} == {fingerprint(spec, MACHINE)}


def test_what_counts_for_the_fingerprint() -> None:
    step = BuildStep(run="make")
    spec = EnvironmentSpec(conda=("a",), pip=("x",), steps=(step,), variables={"A": "1"})
    others = [
        spec._replace(conda=("a", "b")),
        spec._replace(channels=("c",)),
        spec._replace(pip=("x", "y")),
        spec._replace(python="3.11"),
        spec._replace(modules=("gcc",)),
        spec._replace(steps=(step._replace(variables={"B": "1"}),)),
        spec._replace(steps=(step._replace(when="cuda"),)),
        spec._replace(variables={"A": "2"}),
        spec._replace(fetch=(FetchStep("u", "0" * 64),)),
    ]
    prints = [fingerprint(each, MACHINE) for each in (spec, *others)]
    prints.append(fingerprint(spec, {"platform": "linux-aarch64"}))
    assert len(set(prints)) == len(prints)
    assert all(len(each) == 40 for each in prints)


def test_the_content_of_files_counts_and_not_their_place(tmp_path: Path) -> None:
    def of(place: str, text: str, more: str) -> str:
        write(tmp_path / place / "more.txt", more)
        path = write(tmp_path / place / "r.txt", text)
        return fingerprint(EnvironmentSpec(pip=("-r " + path,)), MACHINE)

    first = of("a", "x\n-r more.txt\n", "y==1\n")
    assert first == of("b", "x  # a comment\n\n-r more.txt\n", "y==1\n")
    assert first != of("c", "x\n-r more.txt\n", "y==2\n")
    assert first != of("d", "x\n-c more.txt\n", "y==1\n")


def test_local_packages_count_by_what_is_in_them(tmp_path: Path) -> None:
    source = tmp_path / "pkg"
    write(source / "setup.py", "1")
    spec = EnvironmentSpec(pip=(str(source),))
    first = fingerprint(spec, MACHINE)
    write(source / "__pycache__" / "x.pyc", "noise")
    assert fingerprint(spec, MACHINE) == first
    write(source / "mod.py", "new")
    assert fingerprint(spec, MACHINE) != first
    wheel = write(tmp_path / "x.whl", "1")
    before = fingerprint(EnvironmentSpec(pip=(wheel,)), MACHINE)
    write(tmp_path / "x.whl", "2")
    assert fingerprint(EnvironmentSpec(pip=(wheel,)), MACHINE) != before


def test_requirements_that_cannot_have_a_fingerprint_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "-r b.txt\n")
    write(tmp_path / "b.txt", "-r a.txt\n")
    with pytest.raises(UsageError, match="loop"):
        fingerprint(EnvironmentSpec(pip=("-r %s/a.txt" % tmp_path,)), MACHINE)
    with pytest.raises(UsageError, match="leave out -e"):
        fingerprint(EnvironmentSpec(pip=("-e /x",)), MACHINE)
    with pytest.raises(NotFound):
        fingerprint(EnvironmentSpec(pip=("-r /nowhere.txt",)), MACHINE)


def test_a_locks_fingerprint_is_that_of_its_packages() -> None:
    """Found by review: a lock that claimed the digest of another one, with other packages, was taken for it."""
    row = {"name": "a", "version": "1", "hashes": ["sha256:1"], "url": "u"}
    lock = {"digest": "d", "platform": "linux-64", "pip": [row], "conda": [], "spec": {"variables": {"A": "1"}}}
    for same in (
        {"prefix": "/x", "created": 1, "name": "n", "worldsize": "2"},
        {"spec": {}},
        {"spec": {"path": ["b"]}},
    ):
        assert lock_fingerprint({**lock, **same}) == lock_fingerprint(lock)
    different: list[dict[str, Any]] = [
        {"digest": "e"},
        {"platform": "linux-aarch64"},
        {"pip": [{**row, "hashes": ["sha256:2"]}]},
        {"pip": [{**row, "url": "v"}]},
        {"options": ["--find-links /x"]},
        {"spec": {"steps": [{"run": "true"}]}},
        {"spec": {"fetch": [{"url": "u"}]}},
    ]
    prints = {lock_fingerprint({**lock, **each}) for each in ({}, *different)}
    assert len(prints) == 1 + len(different)
