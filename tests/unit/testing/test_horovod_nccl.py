"""The check of `make horovod-nccl`: what it refuses in a Horovod, and its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts.environments.horovod_nccl import Findings, problems, recorded, report

FACTS = {
    "built": 22907,
    "mapped": ["/env/lib/libnccl.so.2"],
    "horovod": "0.28.1",
    "torch": "2.13.0+cu130",
    "python": "3.11.7",
    "nccl": "2.29.7",
    "nvcc": "13.0.88",
    "cudart": "13.0.96",
}
TOOLS = {"gcc": "12.2.0", "mpi": "4.1.4", "platform": "linux-64", "glibc": "2.36"}
GOOD = Findings(
    facts=FACTS,
    tools=TOOLS,
    seconds=412.4,
    needed=("libnccl.so.2", "libcudart.so.13", "libc.so.6"),
    undefined=("ncclAllReduce", "ncclBroadcast", "ncclCommInitRank"),
    missing=(),
    sections="[ 9] .nv_fatbin PROGBITS",
    check_build="Available Tensor Operations:\n    [X] NCCL\n    [X] Gloo    \n\n",
    job="".join("rank %d of 2: sum 3, built with mpi and nccl and gloo\n" % rank for rank in range(2)),
)


def test_one_with_nccl_is_accepted() -> None:
    assert problems(GOOD, "/env") == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"facts": {**FACTS, "built": 0}}, "nccl_built() is 0, and the wheel's NCCL 22907"),
        ({"facts": {**FACTS, "mapped": ["/usr/lib/libnccl.so.2"]}}, "the NCCL that is loaded is not the environment's"),
        ({"facts": {**FACTS, "mapped": []}}, "not the environment's: none"),
        ({"needed": ("libcudart.so.13",)}, "libnccl.so.2 is not among the libraries"),
        ({"undefined": ("ncclAllReduce", "ncclBroadcast")}, "it does not call ncclCommInitRank"),
        ({"missing": ("libmpi.so.40",)}, "the loader does not find libmpi.so.40"),
        ({"sections": ".text"}, "it has no code for GPUs"),
        ({"check_build": "[ ] NCCL"}, "--check-build does not show NCCL"),
        ({"job": "rank 0 of 1: sum 1, built with mpi and nccl and gloo"}, "its two ranks do not print"),
    ],
)
def test_each_lack_is_named(changed: dict[str, object], said: str) -> None:
    (sentence,) = problems(GOOD._replace(**changed), "/env")
    assert said in sentence


def test_the_report_has_the_versions_and_what_was_printed() -> None:
    page = report(GOOD, "2026-12-01")
    assert page.startswith("# Horovod with NCCL, compiled, 2026-12-01\n") and "No GPU has executed it" in page
    assert "| NCCL | 2.29.7, headers and library of the wheel nvidia-nccl-cu13 |\n" in page
    assert "| built in | 412 s |\n" in page
    assert (
        "\n## horovodrun --check-build\n\n```text\nAvailable Tensor Operations:\n    [X] NCCL\n    [X] Gloo\n```\n"
        in page
    )
    assert page.endswith("rank 1 of 2: sum 3, built with mpi and nccl and gloo\n```\n")


def test_what_compiled_it_is_read_from_worldsizes_description(tmp_path: Path) -> None:
    path = tmp_path / "worldsize-environment.json"
    steps = [{"name": "a line"}, {"name": "Horovod with NCCL", "tools": TOOLS}]
    path.write_text(json.dumps({"steps": steps, "took": 9.5}))
    assert recorded(str(path)) == (TOOLS, 9.5)
