"""The part of one node in the stage `bandwidth`.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.programs.mpi_run import measure_mpi
from worldsize.wings.checks.agent.programs.nccl_run import measure_nccl


def run(context: NodeContext, order: Mapping[str, Any]) -> dict[str, Any]:
    """Execute this node's part of the check's stage `bandwidth`: run NCCL's and Open MPI's tests as the head's `order`
    requests, and return what they reported and their speed. Raise OSError if there is no space for their logs."""
    wanted = context.environ.get("TMPDIR", "")
    folder = tempfile.mkdtemp(prefix="worldsize-check-", dir=wanted if os.path.isdir(wanted) else None)
    try:
        answer: dict[str, Any] = {}
        if order.get("mpi"):
            answer.update(measure_mpi(context, folder))
        if order.get("nccl"):
            answer.update(_nccl(context, order["nccl"], folder))
        return answer
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # logs of a measurement: failed removals do no harm


def _nccl(context: NodeContext, order: Mapping[str, Any], folder: str) -> dict[str, Any]:
    try:
        return measure_nccl(context, order, folder)
    except (OSError, ValueError) as error:
        return {"failure": f"{getattr(error, 'strerror', None) or error}"}
