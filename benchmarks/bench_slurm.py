"""worldsize on a real Slurm cluster: submission, the start of ranks, the state of 500 runs, and what others need.

Starts the test suite's cluster of four nodes itself; that needs root and the packages which `make test` installs.
"""

from __future__ import annotations

import sys

import slurm_bed
import slurm_peers
import slurm_start
import slurm_status
import slurm_submit
from harness import Bench


def main() -> None:
    with Bench("slurm", __doc__) as bench:
        missing = slurm_bed.missing()
        if missing:
            print("!!  NO SLURM CLUSTER HERE, so nothing of it is measured: %s" % "; ".join(missing), file=sys.stderr)
            return
        parts = {"submit": slurm_submit, "status": slurm_status, "start": slurm_start, "peers": slurm_peers}
        found = {}
        for name, part in parts.items():
            with slurm_bed.open_bed(bench) as bed:  # each its own: a controller holds so many ended jobs at most
                found[name] = part.contest(bench, bed)
        bench.finish(found)


if __name__ == "__main__":
    main()
