"""What a node reads for the judgement of its transport: its ports, and where variables come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.transport.origins import variable_origins
from worldsize.wings.checks.agent.transport.ports import active_ports, best_kind, rate_of

NAME = "NCCL_IB_DISABLE"


def write(root: Path, path: str, text: str | bytes) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)


def origin(root: Path, environ: dict[str, str], **asked: Any) -> str | None:
    context = NodeContext(0, 2, "h", "n", "/run", environ, asked, root=str(root))
    return variable_origins([NAME], context).get(NAME)


def test_a_variable_of_the_job_is_the_jobs(tmp_path: Path) -> None:
    write(tmp_path, ".dockerenv", "")

    assert origin(tmp_path, {NAME: "1"}, variables={NAME: "1"}) == "the job"
    assert origin(tmp_path, {NAME: "1"}, variables=[NAME]) == "the job"
    assert origin(tmp_path, {NAME: "1"}, variables=7) == "the container's environment"


@pytest.mark.parametrize("file", [".dockerenv", "run/.containerenv"])
def test_in_a_container_it_is_the_images_where_the_first_process_has_it(tmp_path: Path, file: str) -> None:
    write(tmp_path, file, "")
    assert origin(tmp_path, {NAME: "1"}) == "the container's environment"

    write(tmp_path, "proc/1/environ", "A=1\0X%s=1\0" % NAME)
    assert origin(tmp_path, {NAME: "1"}) == "the node's environment"

    write(tmp_path, "proc/1/environ", "A=1\0%s=1\0" % NAME)
    assert origin(tmp_path, {NAME: "1"}) == "the image"


def test_apptainers_image_must_say_it_itself(tmp_path: Path) -> None:
    write(tmp_path, ".singularity.d/env/90-environment.sh", "export MY_%s=1\n" % NAME)
    assert origin(tmp_path, {NAME: "1"}) == "the node's environment"

    write(tmp_path, ".singularity.d/env/91-environment.sh", "export %s=1\n" % NAME)
    assert origin(tmp_path, {NAME: "1"}) == "the image"


def test_files_of_nccls_are_looked_at_after_the_environment(tmp_path: Path) -> None:
    write(tmp_path, "etc/nccl.conf", b"# \xff\n%s=1\n" % NAME.encode())
    assert origin(tmp_path, {}) == "/etc/nccl.conf"
    assert origin(tmp_path, {NAME: "0"}) == "the node's environment"

    write(tmp_path, "home/.nccl.conf", "%s=1\n" % NAME)
    assert origin(tmp_path, {"HOME": str(tmp_path / "home")}) == "~/.nccl.conf"


def test_a_variable_of_which_nothing_is_found_is_missing(tmp_path: Path) -> None:
    write(tmp_path, "etc/nccl.conf", "#%s=1\nX=1\n" % NAME)

    assert origin(tmp_path, {}) is None


def test_ports_with_their_rates() -> None:
    port = {"device": "mlx5_0", "port": 1, "state": "ACTIVE", "rate_gbps": 100, "layer": "InfiniBand"}
    ports = active_ports(
        {"fabric": [port, {**port, "device": "mlx5_1", "layer": "Ethernet"}, {**port, "state": "DOWN"}]}
    )

    assert [(each.name, each.kind) for each in ports] == [("mlx5_0:1", "InfiniBand"), ("mlx5_1:1", "RoCE")]
    assert best_kind(ports) == "InfiniBand"
    assert best_kind([]) == ""
    assert rate_of(ports, ["mlx5_0:1/IB", "mlx5_1:1/RoCE"]) == 200
    assert rate_of(ports, ["mlx5_1:1/RoCE", "mlx5_7:1/IB"]) == 0
    assert rate_of(ports, []) == 0


def test_infiniband_devices_may_be_named_by_their_place() -> None:
    """udev's names: rdmap… is not Amazon's alone, ibp… is usual for InfiniBand."""
    port = {"device": "rdmap1s0", "port": 1, "state": "ACTIVE", "layer": "InfiniBand"}

    assert active_ports({"fabric": [port]})[0].kind == "InfiniBand"
