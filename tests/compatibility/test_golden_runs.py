"""This client reads the runs of each release (tests/golden): status, why, logs, describe and outputs say what they said
then. The runs were on every compute, of which none is configured here, and ended in every way."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from compatibility import golden
from driver import Cli

RUNS = [archive for release in golden.releases() for archive in golden.archives(release)]
OF_THIS_MACHINE = ("local-failed.tar.gz", "local-succeeded.tar.gz")


def named(archive: Path) -> str:
    return "%s-%s" % (archive.parent.name, archive.name.removesuffix(".tar.gz"))


@pytest.mark.parametrize("archive", RUNS, ids=named)
def test_it_is_read_as_it_was(archive: Path, cli: Cli) -> None:
    run = golden.unpack(archive, cli.home)
    assert golden.read(cli, run) == golden.expected(archive.parent.name)[archive.name.removesuffix(".tar.gz")]


def test_all_computes_and_endings_are_there() -> None:
    names = {archive.name.removesuffix(".tar.gz") for archive in golden.archives(golden.releases()[-1])}
    computes = ("local", "slurm", "hpcpack", "azureml")
    endings = ("succeeded", "failed", "killed", "cancelled", "time_limit")
    assert names == {"%s-%s" % (compute, ending) for compute in computes for ending in endings} | {
        "local-lost", "local-array", "slurm-array"
    }  # fmt: skip
    assert set(golden.expected(golden.releases()[-1])) == names


def test_no_archive_tells_of_the_machine_that_made_it() -> None:
    for archive in RUNS:
        with tarfile.open(archive) as file:
            for entry in file:
                content = file.extractfile(entry) if entry.isfile() else None
                text = content.read().decode(errors="replace") if content else entry.linkname
                for word in (str(Path(__file__).resolve().parents[2]), "/root/", "pytest-of-"):
                    assert word not in text, (archive.name, entry.name, word)


def test_all_of_them_are_listed_beside_each_other(cli: Cli) -> None:
    runs = {golden.unpack(archive, cli.home) for archive in golden.archives(golden.releases()[-1])}
    assert {row["id"] for row in cli.json("list", "-n", "100")} >= runs


def test_a_run_of_a_newer_release_is_refused_by_name_and_others_are_listed(cli: Cli) -> None:
    newer, known = (
        golden.unpack(archive, cli.home)
        for archive in golden.archives(golden.releases()[-1])
        if archive.name in OF_THIS_MACHINE
    )
    plan = Path(cli.path(newer, "plan.json"))
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "version": 99}))
    for words in (["status"], ["describe"], ["logs"], ["why"], ["outputs"], ["cancel"], ["events"]):
        result = cli(*words, newer)
        assert "Traceback" not in result.err, words
        assert result.code == 0 or "newer worldsize" in result.err, (words, result)
    assert known in cli.ok("list").out


def test_what_a_newer_release_adds_to_its_files_is_left_out(cli: Cli) -> None:
    archive = next(each for each in RUNS if each.name == "local-failed.tar.gz")
    run = golden.unpack(archive, cli.home)
    for file in (*Path(cli.path(run)).glob("*.json"), *Path(cli.path(run)).glob("attempt-0/**/*.json")):
        value = json.loads(file.read_text())
        if isinstance(value, dict):
            file.write_text(json.dumps({**value, "of_a_newer_release": {"deep": [1]}}))
    for file in Path(cli.path(run)).glob("attempt-0/events/*.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        more = [{**line, "of_a_newer_release": 1} for line in lines] + [{"event": "of a newer release", "time": 1e9}]
        file.write_text("".join(json.dumps(line) + "\n" for line in more))
    assert golden.read(cli, run) == golden.expected(archive.parent.name)["local-failed"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("archive", RUNS, ids=named)
def test_every_file_of_it_may_be_gone_or_damaged(archive: Path, cli: Cli) -> None:
    """No command ends with a traceback, whichever file it does not find or cannot understand."""
    run = golden.unpack(archive, cli.home)
    root = cli.path(run)
    whole = root + ".whole"
    shutil.copytree(root, whole, symlinks=True)
    files = sorted(str(path.relative_to(whole)) for path in Path(whole).rglob("*.json") if path.is_file())
    for name in files:
        for content in (None, b"", b"{", b"[]", b"\xff"):
            path = os.path.join(root, name)
            os.remove(path)
            if content is not None:
                Path(path).write_bytes(content)
            for verb in ("status", "why"):
                result = cli(verb, run)
                assert "Traceback" not in result.err, (name, content, verb)
            shutil.copy2(os.path.join(whole, name), path)
