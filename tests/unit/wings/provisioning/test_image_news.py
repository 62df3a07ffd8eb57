"""What is told of a container image shows no password."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.compute.base import CheckResult
from worldsize.errors import UsageError
from worldsize.service.request import Progress
from worldsize.store.content_store import ContentStore
from worldsize.wings.provisioning.job_image import ContainerRuntime, _find_obstacle, pull_image

IMAGE = "docker://anna:Canary@host/image:1"


def test_the_name_of_an_image(tmp_path: Path) -> None:
    program = tmp_path / "apptainer"
    program.write_text('#!/bin/sh\necho "cannot reach $3" >&2; exit 1\n')
    program.chmod(0o755)

    class Told(Progress):
        said = ""

        def show_notice(self, text: str) -> None:
            self.said += text

    told = Told()
    for path in (str(program), str(tmp_path / "none")):
        with pytest.raises(UsageError) as refused:
            pull_image(IMAGE, "apptainer", path, ContentStore(str(tmp_path / "data"), told), os.environ)
        assert "Canary" not in str(refused.value) + str(refused.value.where)
    assert "fetching the container image docker://anna:***@host/image:1" in told.said and "Canary" not in told.said
    for runtime in (None, ContainerRuntime("none", "")):
        found = _find_obstacle(None, None, IMAGE, runtime, "image")  # type: ignore[arg-type]
        assert isinstance(found, CheckResult) and "anna:***@host" in found.what and "Canary" not in found.what
