"""Container images: how runtimes call them, and the words that start a rank in one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from recorded_progress import RecordedProgress
from runtimes import APPTAINER, install

from worldsize.errors import UsageError
from worldsize.store.content_store import ContentStore
from worldsize.wings.provisioning.job_image import (
    apptainer_address,
    apptainer_command,
    enroot_address,
    has_password,
    is_file,
    pull_image,
    pyxis_options,
)


@pytest.mark.parametrize(
    ("image", "apptainer", "enroot"),
    [
        ("pytorch/pytorch:2.3.0", "docker://pytorch/pytorch:2.3.0", "pytorch/pytorch:2.3.0"),
        ("ubuntu", "docker://ubuntu", "ubuntu"),
        (
            "nvcr.io/nvidia/pytorch:24.01-py3",
            "docker://nvcr.io/nvidia/pytorch:24.01-py3",
            "nvcr.io#nvidia/pytorch:24.01-py3",
        ),
        (
            "docker://nvcr.io/nvidia/pytorch:24.01",
            "docker://nvcr.io/nvidia/pytorch:24.01",
            "nvcr.io#nvidia/pytorch:24.01",
        ),
        ("localhost:5000/x", "docker://localhost:5000/x", "localhost:5000#x"),
        ("oras://ghcr.io/me/image:1", "oras://ghcr.io/me/image:1", "oras://ghcr.io/me/image:1"),
        ("/images/torch.sif", "/images/torch.sif", "/images/torch.sif"),
        ("./torch.sqsh", "./torch.sqsh", "./torch.sqsh"),
    ],
)
def test_names(image: str, apptainer: str, enroot: str) -> None:
    assert apptainer_address(image) == apptainer
    if "oras" not in image:
        assert enroot_address(image) == enroot
    assert is_file(image) is image.endswith(("sif", "sqsh"))


@pytest.mark.parametrize("login", ["anna:hunter2@", "a@b:hunter2@", "anna:@"])
@pytest.mark.parametrize("image", ["registry.example.org/team/img:1", "registry.example.org:5000#team/img"])
def test_an_address_with_a_password(login: str, image: str) -> None:
    for scheme in ("", "docker://"):
        assert has_password(scheme + login + image)
        assert not has_password(scheme + image) and not has_password(scheme + "anna@" + image)
    assert not has_password("team/img@sha256:0123")


def test_the_words_of_apptainer() -> None:
    binds = ["/runs/r", "/runs/r/outputs", "/data", "/data"]
    words = apptainer_command("apptainer", "/i.sif", binds, True, ["--writable-tmpfs"])
    assert words == (
        *("apptainer", "exec", "--nv", "--bind", "/data", "--bind", "/runs/r"),
        *("--writable-tmpfs", "/i.sif"),
    )
    assert "--nv" not in apptainer_command("apptainer", "/i.sif", binds, False, [])
    assert apptainer_command("x", "i", ["/a:b"], False, ()) == ("x", "exec", "--bind", "/a\\:b", "i")


def test_the_words_of_pyxis() -> None:
    assert pyxis_options("nvcr.io#nvidia/pytorch:24.01", ["/runs/r", "/data"], ["--container-remap-root"]) == (
        "--container-image=nvcr.io#nvidia/pytorch:24.01",
        "--container-mounts=/data:/data,/runs/r:/runs/r",
        "--no-container-mount-home",
        "--container-remap-root",
    )


@pytest.mark.heavy
def test_an_image_is_fetched_once(tmp_path: Path) -> None:
    program = os.path.join(install(str(tmp_path / "bin"), "apptainer", APPTAINER), "apptainer")
    told = RecordedProgress()
    store = ContentStore(str(tmp_path / "data"), told)
    environ = {"PATH": os.environ["PATH"], "SAID": str(tmp_path / "said")}
    paths = {pull_image("pytorch/pytorch:2.3", "apptainer", program, store, environ) for _ in range(2)}
    (path,) = paths
    assert Path(path).read_text() == "docker://pytorch/pytorch:2.3" and path.endswith(".sif")
    assert (tmp_path / "said").read_text().count("pull") == 1 and len(told.notices) == 1
    with pytest.raises(UsageError, match="no such image: docker://no-such"):
        pull_image("no-such", "apptainer", program, store, environ)
    with pytest.raises(UsageError, match="No such file"):
        pull_image("other", "apptainer", "/no/apptainer", store, environ)
