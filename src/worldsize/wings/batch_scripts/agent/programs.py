"""The programs of Slurm's that need Python, as a batch script on virtual nodes finds them."""

from __future__ import annotations

import os
from collections.abc import Sequence


def main(run_dir: str, words: Sequence[str]) -> int:
    """`words` begins with the program's name. Its exit code."""
    if words[0] == "scontrol":
        from worldsize.wings.batch_scripts.agent.scontrol import scontrol

        return scontrol(words[1:])
    if words[0] == "sbcast":
        from worldsize.wings.batch_scripts.agent.sbcast import sbcast

        return sbcast(words[1:])
    from worldsize.plan.run_paths import RunPaths
    from worldsize.wings.batch_scripts.agent.srun import srun

    return srun(RunPaths(run_dir, int(os.environ.get("WORLDSIZE_ATTEMPT") or 0)), words[1:])
