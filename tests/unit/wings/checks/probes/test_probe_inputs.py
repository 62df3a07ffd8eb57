"""The job's files as a node sees them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from recorded_node import node, row

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, OK, WARNING
from worldsize.wings.checks.agent.probes import inputs
from worldsize.wings.checks.agent.probes.inputs import probe


def files(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "full").mkdir(parents=True)
    (data / "empty").mkdir()
    for number in range(3):
        (data / "full" / str(number)).write_text("x")
    (data / "file").write_text("x")
    (data / "nothing").write_text("")
    return data


def test_paths_that_are_there(tmp_path: Path) -> None:
    data = files(tmp_path)
    paths = [[name, str(data / name)] for name in ("full", "empty", "file", "nothing")]
    table = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 21 0:50 / %s rw - nfs4 server:/export rw\n" % (data / "full")
    result = probe(node(tmp_path, {"paths": paths}, files={"proc/self/mountinfo": table}))
    assert (row(result, "files.inputs").verdict, row(result, "files.inputs").value) == (OK, "4 paths can be read")
    assert result.facts["paths"] == {
        "full": ["directory", 3, "server:/export", "nfs4"],
        "empty": ["directory", 0, "/dev/sda1", "ext4"],
        "file": ["file", 1, "/dev/sda1", "ext4"],
        "nothing": ["file", 0, "/dev/sda1", "ext4"],
    }


def test_missing_paths_are_named(tmp_path: Path) -> None:
    data = files(tmp_path)
    paths = [["inputs.data", str(data / "none")], ["inputs.more", str(data / "file" / "x")], ["code", str(data)]]
    found = row(probe(node(tmp_path, {"paths": paths})), "files.inputs")
    assert found.verdict == BAD
    assert found.value == "inputs.data: {0}/none is missing; inputs.more: {0}/file/x is missing".format(data)
    assert "mount" in found.hint


def test_many_missing_paths_are_counted(tmp_path: Path) -> None:
    paths = [["key%d" % number, "/none/%d" % number] for number in range(9)]
    assert row(probe(node(tmp_path, {"paths": paths})), "files.inputs").value.endswith("; 6 more")


@pytest.mark.parametrize(
    "number, words", [(errno.EIO, "Input/output"), (errno.ESTALE, "Stale"), (errno.ENOTCONN, "not connected")]
)
def test_paths_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str) -> None:
    data = files(tmp_path)

    def refuse(path: str) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(inputs.os, "scandir", refuse)
    result = probe(node(tmp_path, {"paths": [["inputs.data", str(data / "full")]]}))
    assert (row(result, "files.inputs").verdict, words in row(result, "files.inputs").value) == (BAD, True)
    assert result.facts["paths"]["inputs.data"][0] == "error"


def test_output_that_cannot_be_written_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = files(tmp_path)
    monkeypatch.setattr(inputs.os, "access", lambda path, mode: False)
    asked = {"paths": [["outputs.model", str(data)], ["inputs.data", str(data)]]}
    found = row(probe(node(tmp_path, asked)), "files.inputs")
    assert (found.verdict, found.value) == (WARNING, "outputs.model: %s cannot be written" % data)


def test_output_whose_directory_is_missing_may_be_made_by_the_script(tmp_path: Path) -> None:
    found = row(probe(node(tmp_path, {"paths": [["outputs.model", str(tmp_path / "none")]]})), "files.inputs")
    assert (found.verdict, found.value) == (WARNING, "outputs.model: %s is missing" % (tmp_path / "none"))


def test_mount_of_fstab_that_is_not_there(tmp_path: Path) -> None:
    data = files(tmp_path)
    table = {
        "proc/self/mountinfo": "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
        "etc/fstab": "# a comment\nserver:/export %s/empty nfs rw 0 0\nUUID=1 / ext4 rw 0 0\nnone\n\0" % data,
    }
    context = node(tmp_path, {"paths": [["inputs.data", str(data / "empty")]]}, files=table)
    found = row(probe(context), "files.inputs")
    assert (found.verdict, found.value) == (
        WARNING,
        "inputs.data: {0}/empty is empty, and {0}/empty is not mounted".format(data),
    )
    context = context._replace(asked={"paths": [["inputs.data", str(data / "empty" / "train")]]})
    found = row(probe(context), "files.inputs")
    assert (found.verdict, found.hint) == (BAD, "mount %s/empty on this node: it is in /etc/fstab" % data)


@pytest.mark.parametrize("options, mounted", [("rw,noauto", ""), ("rw", "40 21 0:50 / %s rw - nfs4 s:/e rw\n")])
def test_mount_that_is_there_or_not_meant_to_be(tmp_path: Path, options: str, mounted: str) -> None:
    data = files(tmp_path) / "empty"
    top = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    table = {
        "proc/self/mountinfo": top + (mounted and mounted % data),
        "etc/fstab": "server:/export %s nfs %s 0 0\n" % (data, options),
    }
    context = node(tmp_path, {"paths": [["inputs.data", str(data)]]}, files=table)
    assert row(probe(context), "files.inputs").verdict == OK


def test_relative_paths_are_of_the_code(tmp_path: Path) -> None:
    context = node(tmp_path, {"paths": [["inputs.config", "config.yml"]]})
    assert row(probe(context), "files.inputs").verdict == BAD
    (tmp_path / "run" / "code" / "config.yml").write_text("x")
    assert row(probe(context), "files.inputs").verdict == OK


def test_large_directories_are_counted_up_to_a_hundred(tmp_path: Path) -> None:
    for number in range(150):
        (tmp_path / "many" / str(number)).mkdir(parents=True)
    assert probe(node(tmp_path, {"paths": [["many", str(tmp_path / "many")]]})).facts["paths"]["many"][1] == 100


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    facts = probe(node(tmp_path, {"paths": [["pipe", str(tmp_path / "pipe")], ["null", "/dev/null"]]})).facts
    assert {key: fact[0] for key, fact in facts["paths"].items()} == {"pipe": "other", "null": "other"}


@pytest.mark.parametrize("paths", [None, [], "abc", [["a"]], [[1, 2]], [["a", ""]], {"a": "b"}, [None]])
def test_nothing_is_said_without_paths(tmp_path: Path, paths: Any) -> None:
    assert probe(node(tmp_path, {"paths": paths})) == ((), {})


@pytest.mark.parametrize("path", ["/a\0b", "/" + "x" * 5000, "/tmp/\udcff\n\x1b[31m"])
def test_hostile_paths(tmp_path: Path, path: str) -> None:
    found = row(probe(node(tmp_path, {"paths": [["key", path]]})), "files.inputs")
    assert found.verdict == BAD
    assert found.value.isprintable()
    assert len(found.value) < 300


def test_secrets_in_paths_are_masked(tmp_path: Path) -> None:
    found = row(probe(node(tmp_path, {"paths": [["key", "/none/token=abcdefgh12345678"]]})), "files.inputs")
    assert "abcdefgh" not in found.value


@pytest.mark.parametrize("key", ["inputs.data", "outputs.model"])
def test_directory_that_may_be_entered_and_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    def refuse(path: str) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(inputs.os, "scandir", refuse)
    found = row(probe(node(tmp_path, {"paths": [[key, str(files(tmp_path))]]})), "files.inputs")
    assert found.verdict == OK


def test_mount_of_fstab_by_another_spelling(tmp_path: Path) -> None:
    data = files(tmp_path) / "empty"
    (tmp_path / "link").symlink_to(data)
    for spelling in (str(data) + "/", str(tmp_path / "link")):
        table = {
            "proc/self/mountinfo": "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 21 0:50 / %s rw - nfs4 s:/e rw\n" % data,
            "etc/fstab": "server:/export %s nfs rw 0 0\n" % spelling,
        }
        context = node(tmp_path, {"paths": [["inputs.data", spelling]]}, files=table)
        assert row(probe(context), "files.inputs").verdict == OK
