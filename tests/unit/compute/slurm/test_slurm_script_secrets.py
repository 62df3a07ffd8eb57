"""What of a job becomes part of the batch script, which Slurm keeps, and holds a secret."""

from __future__ import annotations

from worldsize.compute.slurm.preflight import check_secrets
from worldsize.plan.plan import Plan, node_major_layout


def test_options_and_setup_lines_with_secrets() -> None:
    """Found by review: an option was not looked at."""
    plan = Plan("r", "n", "slurm", 1.0, 0, node_major_layout(1, 1), ("true",), {}, setup=("export HF_TOKEN=hunter2",))
    found = list(check_secrets(plan, [("comment", "token=hunter2"), ("partition", "debug"), ("exclusive", None)]))
    assert [each.level for each in found] == ["notice", "notice"]
    assert "comment" in found[0].what and "setup" in found[1].what
    assert "hunter2" not in repr(found)
