"""What the ranks of a rehearsal printed."""

from __future__ import annotations

from driver import Cli

PATIENCE = 240.0


def rehearsed(cli: Cli, *words: str) -> list[str]:
    """What each rank printed, once the rehearsal has succeeded."""
    result = cli(*words, timeout=PATIENCE)
    assert result.code == 0, result
    assert "SUCCEEDED" in result.err and ", a rehearsal with 2 virtual GPUs per node" in result.err
    run = cli.latest()
    return [cli.read(run, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(cli.status(run)["ranks"])]
