"""`--dry-run`: exactly what would be started, as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from worldsize.plan.environ import CONVENTIONS, Host, RankContext, World, convention_variables
from worldsize.plan.paths import RunPaths
from worldsize.service.prepare import Prepared

_SHOWN_RANKS = 8


def preview(prepared: Prepared, environ: Mapping[str, str]) -> str:
    """The submission, the command, and every rank's own variables (the first ranks of a large run)."""
    from worldsize.environment.secrets import mask

    plan = prepared.plan
    paths = RunPaths("RUN_DIR")
    lines = [
        "# %s on %s: %d node(s), world size %d" % (plan.name, plan.compute, len(plan.nodes), plan.world_size),
        "# framework %s, launcher %s, conventions %s"
        % (plan.framework, plan.launcher, ", ".join(plan.conventions or CONVENTIONS)),
        "# threads per rank: %s; CPU binding: %s"
        % (plan.threads or "the node's share", "per rank" if plan.binding else "none"),
        "# stop: TERM, %g s, KILL; time limit: %s" % (plan.grace, "%g s" % plan.timeout if plan.timeout else "none"),
        prepared.compute.render(plan, paths).preview.rstrip(),
        "",
        "# the command of every rank, in the snapshot of %s" % (prepared.job.code or "no code"),
        shlex.join(plan.argv),
    ]
    if plan.environment:
        lines += ["", "# the job's variables"]
        lines += ["%s=%s" % (name, shlex.quote(mask(name, value))) for name, value in plan.environment.items()]
    world = World("<head>", 0, tuple(Host("<node %d>" % node.node_rank, 0) for node in plan.nodes))
    every = [(node, rank) for node in plan.nodes for rank in node.ranks]
    for node, rank in every[:_SHOWN_RANKS]:
        context = RankContext(plan, world, node, rank, "RUN_DIR", paths.rank_error(rank.rank))
        values = convention_variables(context)
        values["MASTER_PORT"] = "<a free port>"
        lines += ["", "# rank %d on node %d" % (rank.rank, node.node_rank)]
        lines += ["%s=%s" % pair for pair in values.items() if not pair[0].startswith("AZ_BATCH")]
    if len(every) > _SHOWN_RANKS:
        lines += ["", "# … and %d more ranks" % (len(every) - _SHOWN_RANKS)]
    return "\n".join(lines) + "\n"
