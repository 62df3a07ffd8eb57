"""Whether a run's agents sample what its ranks use, and its ranks find a place for what they log."""

from __future__ import annotations

import os

from worldsize.jobspec.config.config import Config
from worldsize.plan.plan import Plan
from worldsize.registry import source_file


def with_metrics(plan: Plan, config: Config) -> Plan:
    """`plan` with metrics, unless its compute has `metrics = false` or this installation is without the wing. A batch
    script, whose environment is its own, and a rehearsal, which measures nothing, have none."""
    if config.computes[plan.compute].metrics is False or plan.batch is not None or plan.rehearsal is not None:
        return plan
    return plan._replace(metrics=os.path.isfile(source_file("wings", "metrics", "agent", "sampler.py")))
