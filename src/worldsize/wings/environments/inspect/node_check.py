"""The command by which nodes report on their Python and packages, and the parser for its output. Nothing here executes
anything on a node."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple

KNOWN_PACKAGES = (
    "torch", "torchvision", "tensorflow", "jax", "numpy", "scipy", "pandas", "scikit-learn", "transformers", "datasets",
    "lightning", "deepspeed", "horovod", "mpi4py", "accelerate",
)  # fmt: skip
"""Packages that are checked on every node on which they are installed, without a request."""

_BOOT = """\
import sys
if sys.version_info < (3, 8):
    sys.stdout.write('{"python": "%d.%d.%d"}\\n' % sys.version_info[:3])
else:
    text = sys.argv[1]
    sys.argv[1:2] = []
    exec(compile(text, "checkup", "exec"), {"__name__": "__main__"})
"""


class NodeReport(NamedTuple):
    """The answer of one node. `said` is its report; None if it gave none."""

    node: str
    said: Mapping[str, Any] | None
    code: int = 0
    error: str = ""


def check_argv(python: str, modules: Sequence[str], distributions: Sequence[str]) -> list[str]:
    """Return the command that a node executes to report whether `modules` and `distributions` can be imported by
    `python`, and those of KNOWN_PACKAGES that are installed there."""
    from worldsize.wings.environments.agent import python_report

    with open(python_report.__file__, encoding="utf-8") as file:
        program = file.read()
    asked = {"modules": modules, "distributions": distributions, "optional": KNOWN_PACKAGES}
    return [python, "-c", _BOOT, program, json.dumps(asked)]


def parse_node_report(node: str, code: int | None, out: str, err: str) -> NodeReport:
    """Return the report on Python and packages (a NodeReport) that a node's check command has printed to `out`, among
    other lines of the node's start-up files. If there is none, the report holds the error instead. A node whose exit
    code `code` is None was lost."""
    if code is None:
        return NodeReport(node, None, 1, err)
    for line in reversed(out.splitlines()):
        if line.startswith("{"):
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict) and "python" in said:
                return NodeReport(node, said)
    last = err.strip().splitlines()
    return NodeReport(node, None, code, last[-1] if last else f"it printed nothing, and ended with code {code}")
