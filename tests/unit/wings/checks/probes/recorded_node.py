"""A node whose /proc, /sys and /dev are files of a test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import CheckRow
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult


def node(
    tmp_path: Path,
    asked: Mapping[str, Any] = {},
    environ: Mapping[str, str] = {},
    files: Mapping[str, str | bytes] = {},
    nodes: int = 2,
) -> NodeContext:
    """A context whose machine consists of these files, by their paths without the first slash; the run's directory is
    there, with an empty code/."""
    root, run = tmp_path / "machine", tmp_path / "run"
    (run / "code").mkdir(parents=True, exist_ok=True)
    root.mkdir(exist_ok=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return NodeContext(0, nodes, "node0", "node0", str(run), environ, asked, root=str(root))


def row(result: ProbeResult, id: str) -> CheckRow:
    """The one row with this id."""
    (found,) = [each for each in result.rows if each.id == id]
    return found
