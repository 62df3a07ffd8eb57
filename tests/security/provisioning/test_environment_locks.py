"""A lock file of an environment, as somebody else may have written it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Cli

LOCK = {
    "format": "worldsize-environment-lock",
    "version": 1,
    "name": "x",
    "conda": [],
    "pip": [],
    "spec": {},
    "fingerprint": "00",
}


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(str(tmp_path))
    yield cli
    cli.close()


@pytest.mark.exhaustive(unless=["run-{'digest': ''}", "build-{'digest': '00'}", "run-{}", "build-{'digest': None}"])
@pytest.mark.parametrize("digest", [{}, {"digest": None}, {"digest": ""}, {"digest": "00"}], ids=str)
@pytest.mark.parametrize("verb", ["build", "run"])
def test_it_names_no_directory_that_is_removed(cli: Cli, digest: dict[str, str], verb: str) -> None:
    """Found by review: a directory that is no environment had no digest either, and what is not ready is made anew."""
    thesis = Path(cli.write("thesis/chapter.tex", "years"))
    cli.write("evil.lock.json", json.dumps({**LOCK, "prefix": str(thesis.parent), **digest}))
    cli.write("job.yml", json.dumps({"command": "true", "environment": "evil.lock.json"}))
    words = ("env", "build", "evil.lock.json") if verb == "build" else ("run", "job.yml")
    result = cli(*words)
    assert thesis.read_text() == "years", result
    assert "Traceback" not in result.err
    assert sorted(each.name for each in thesis.parent.iterdir()) == ["chapter.tex"]
