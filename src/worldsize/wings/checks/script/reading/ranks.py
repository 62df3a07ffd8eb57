"""Detection of expressions that are the global rank, the rank in the whole run."""

from __future__ import annotations

import ast

from worldsize.wings.checks.script.reading.calls import text
from worldsize.wings.checks.script.reading.program import Program

_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
_READS = ("os.environ.get", "os.getenv", "environ.get", "getenv")
_CALLS = (
    "torch.distributed.get_rank", "torch.distributed.distributed_c10d.get_rank", "horovod.torch.rank",
    "horovod.tensorflow.rank", "horovod.tensorflow.keras.rank",
)  # fmt: skip


def is_global_rank(program: Program, node: ast.expr) -> bool:
    """Return whether the value of an expression in the script is certainly the global rank (such as `dist.get_rank()`
    or `os.environ["RANK"]`), and not the local one."""
    origins = program.flow.origins(node)
    return bool(origins) and all(_is_rank(program, origin) for origin in origins or ())


def _is_rank(program: Program, node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        name = program.index.full_name(node.func)
        if name in ("int", "str") and len(node.args) == 1:
            return is_global_rank(program, node.args[0])
        if name in _READS and node.args:
            return text(node.args[0]) in _VARIABLES
        return name in _CALLS and not node.args and not node.keywords
    if isinstance(node, ast.Subscript):
        name = program.index.full_name(node.value)
        return name in ("os.environ", "environ") and text(node.slice) in _VARIABLES
    return False
