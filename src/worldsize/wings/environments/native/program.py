"""Build steps on a node of a compute, as the one rank of a run: `python -m MODULE ORDER`.

The node shares the environment's directory with whoever ordered the steps, and waits for their end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from worldsize.common.atomic_files import read_json, write_json
from worldsize.errors import WorldsizeError
from worldsize.plan.rank_environment import scrub
from worldsize.wings.environments.native.steps import run_steps
from worldsize.wings.environments.sources import spec_from_json
from worldsize.wings.environments.workspace.builder import Build
from worldsize.wings.environments.workspace.programs import without_active_environment


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    os.umask(0o077)  # an environment is its owner's: others could change what runs execute
    order: dict[str, Any] = read_json(argv[0])
    if not os.path.isdir(order["prefix"]):
        print(f"this node does not see {order['prefix']}", file=sys.stderr)
        return 2
    work = Build(order["prefix"], lambda what: print(what, flush=True), order["log"])
    work.secrets = order["secrets"]
    try:
        done = run_steps(
            work,
            spec_from_json(order["spec"]),
            without_active_environment(scrub(environ)),
            order["cache"],
            order["sources"],
        )
    except WorldsizeError as error:
        print(str(error), file=sys.stderr)
        return error.exit_code
    write_json(order["result"], done)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
