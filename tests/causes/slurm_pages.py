"""The screens of runs on the tests' Slurm cluster, in the pages of docs/causes/.

`python -m causes.slurm_pages [PATTERN]` runs these cases, or those whose titles match, and writes their pages anew."""

from __future__ import annotations

import re
import sys

from slurm.cluster import Cluster
from slurm.fixtures import leave_as_found
from slurm.login import login_of

from causes.pages import documented_screens
from causes.pages import write_pages as write_folder
from causes.slurm_case import SlurmCase, slurm_screen
from causes.tables.slurm_cases import SLURM_CASES


def taken_screen(case: SlurmCase, cluster: Cluster) -> str:
    print(case.title, flush=True)
    try:
        with login_of(cluster) as login:
            return slurm_screen(login, case.provoke(login)).text
    finally:
        leave_as_found(cluster)


def write_pages(pattern: str = "") -> None:
    """Write the pages with the screens of these cases, and all others as they stand."""
    wanted = [case for case in SLURM_CASES if re.search(pattern, case.title)]
    taken: dict[str, dict[str, str]] = {}
    for flavour in dict.fromkeys(case.flavour for case in wanted):
        with Cluster.start(flavour) as cluster:
            for case in wanted:
                if case.flavour == flavour:
                    taken.setdefault(case.folder, {})[case.title] = taken_screen(case, cluster)
    for folder, screens in taken.items():
        write_folder(folder, {**documented_screens(folder), **screens})


if __name__ == "__main__":
    write_pages(*sys.argv[1:])
