"""The whole command: on a machine with nothing on PATH, with wrong files, and on the present machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from in_process import InProcess

from worldsize.wings.doctor import facts
from worldsize.wings.doctor.facts import begin_all, directory_facts


@pytest.fixture
def cli(tmp_path: Path) -> InProcess:
    return InProcess(str(tmp_path))


def test_a_machine_with_nothing_on_path(cli: InProcess, tmp_path: Path) -> None:
    done = cli("doctor", PATH=str(tmp_path / "empty"), VIRTUAL_ENV="/none")
    assert done.code == 1 and done.err == "", done
    for line in (
        "no       jobs.shell ",
        "no       jobs.python ",
        "no       slurm.programs ",
        "yes      worldsize.python ",
    ):
        assert "\n" + line in done.out
    assert done.lines[-1] == "Not: this machine (jobs.shell)"
    fixes = [below for line, below in zip(done.lines, done.lines[1:], strict=False) if line.startswith("no ")]
    assert fixes and all(fix.lstrip().startswith("→ ") for fix in fixes)


def test_the_same_rows_as_data(cli: InProcess) -> None:
    done = cli("doctor", "-o", "json")
    value = json.loads(done.out)
    assert (done.code, value["run"], value["nodes"]) == (0, None, []), done
    assert value["computes"] == [{"name": "local", "type": "local", "verdict": "ok", "row": ""}]
    assert {row["id"] for row in value["rows"]} >= {"worldsize.version", "home.directory", "compute.local"}


def test_a_wrong_configuration_is_a_row(cli: InProcess) -> None:
    cli.write("worldsize.toml", "[compute.lab]\ntype = 'slrum'\n")
    done = cli("doctor")
    assert done.code == 1 and "no       config.files" in done.out
    assert "worldsize.toml:2: compute.lab.type" in done.out and "→ did you mean 'slurm'?" in done.out


def test_computes_that_cannot_be_used(cli: InProcess) -> None:
    lab = '[compute.lab]\ntype = "slurm"\npython = "python3"\n'
    hpc = '[compute.hpc]\ntype = "hpcpack"\nurl = "https://head"\nuser = "a"\n'
    cloud = '[compute.cloud]\ntype = "azureml"\nsubscription_id = "a"\nresource_group = "b"\nworkspace_name = "c"\n'
    cli.write("worldsize.toml", lab + hpc + cloud)
    done = cli("doctor", "-o", "json", PATH="/none", WORLDSIZE_HPCPACK_PASSWORD="hunter2hunter2")
    value = json.loads(done.out)
    assert done.code == 1 and "hunter2" not in done.out
    rows = {row["id"]: row for row in value["rows"] if row["verdict"] != "ok"}
    assert "sbatch" in rows["compute.lab"]["value"] and "share.node" in rows["compute.hpc"]["value"]
    assert rows["compute.cloud"]["verdict"] == "unknown" and "az login" in rows["compute.cloud"]["hint"]
    verdicts = {each["name"]: each["verdict"] for each in value["computes"]}
    assert verdicts == {"local": "bad", "lab": "bad", "hpc": "bad", "cloud": "unknown"}


def test_a_file_system_that_does_not_answer_is_unknown(cli: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(facts, "directory_facts", lambda path: os.read(reading, 1))
    monkeypatch.setattr("worldsize.wings.doctor.command.SECONDS", 0.1)
    done = cli("doctor")
    os.write(writing, b"x")  # the thread may end
    assert "unknown  home.directory" in done.out and "gave no answer in 0.1 s" in done.out
    assert "Not known: this machine (home.directory)" in done.out and done.code == 0


def test_a_directory_is_left_as_it_was(tmp_path: Path) -> None:
    found = directory_facts(str(tmp_path))
    assert (found.exists, found.writable, found.links, found.locks) == (True, True, "", "") and found.kind
    assert os.listdir(tmp_path) == [] and found.free is not None
    missing = directory_facts(str(tmp_path / "a" / "b"))
    assert (missing.exists, missing.writable) == (False, True) and os.listdir(tmp_path) == []


def test_an_exception_in_a_thread_is_raised() -> None:
    def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        begin_all({"a": fail})(1e9)
