"""The creation of trials, the elements of an array, from `autotune:` of a job. Loaded only for jobs that have the
key."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from worldsize.common.atomic_files import read_json
from worldsize.compute.base import CheckResult, Compute
from worldsize.compute.capabilities import ALLOCATION, start_place
from worldsize.errors import PlanError
from worldsize.jobspec.distributions.base import Arrangement
from worldsize.jobspec.job import ElementValues, Job, Literal
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import Plan
from worldsize.service.request import KeyOrigins
from worldsize.wings.trials.keys import MAX_TRIALS

_MICRO_BATCHES = ("micro_batch", "train_micro_batch_size_per_gpu")
_SEARCH = {"zero_stage": (0, 1, 2, 3), "micro_batch": (1, 2, 4, 8, 16, 32, 64)}
_GRACE = 3.0
_DEFAULTS = {
    "config": "ds_config.json", "metric": "throughput", "goal": "max", "steps": 10, "reports": 3, "timeout": 600,
    "patience": None,
}  # fmt: skip


class Search(NamedTuple):
    """A search, as an array of trials.

    job       the job of each trial, without its settings
    settings  the settings of each trial
    at_once   the largest number of trials that run at the same time
    options   the rules of the search, for agents (`search` in wings/trials/agent/search.py)
    """

    job: Job
    settings: tuple[ElementValues, ...]
    at_once: int
    options: Mapping[str, Any]

    def find_problems(self, job: Job, compute: Compute, origins: KeyOrigins) -> list[CheckResult]:
        """Check that the compute does not start all trials at once, and that the configuration file that the search
        varies is part of the job's code and a JSON object. Return the problem as a list of one CheckResult; an empty
        list if there is none."""
        what, hint = "", "autotune.config names the JSON file of the code to vary"
        code, name = job.code or "", self.options["config"]
        if "array" not in compute.capabilities:
            place = start_place(compute)
            what = f"{place} all trials would start at once"
            hint = "leave the allocation's shell" if place == ALLOCATION else "choose another compute"
        elif "://" in code:
            return []
        elif not code or not os.path.isfile(os.path.join(code, name)):
            what = "there is no {} in {}".format(name, code or "the code: the job names none")
        elif not _holds_object(os.path.join(code, name)):
            what = f"{name} does not contain a JSON object"
        return [CheckResult("error", what, origins.of("autotune"), hint)] if what else []

    def with_trials(self, plan: Plan) -> Plan:
        """Return `plan` as the plan of a trial of this search: with the rules of the search in its options, and with a
        short grace period, since a trial has nothing to save at its end."""
        return plan._replace(options={**plan.options, "search": self.options}, grace=min(plan.grace, _GRACE))


def _holds_object(path: str) -> bool:
    try:
        return isinstance(read_json(path), dict)
    except (OSError, ValueError):
        return False


def make_search(job: Job) -> Search:
    """Return the Search that the job's `autotune` key describes. Raise PlanError if no trials can be made from it."""
    said = job.autotune or {}
    if job.batch_script is not None:
        raise PlanError("a batch script cannot be varied", "autotune", "use its command in a job")
    for key, value in (("matrix", job.matrix), ("count", job.count)):
        if value:
            raise PlanError(
                f"cannot be combined with {key}: a search is several runs itself", "autotune", "keep one of them"
            )
    instances = job.resources.instance_count
    each = said.get("nodes", instances)
    if instances % each:
        what = f"{instances} nodes cannot be divided into trials of {each}"
        raise PlanError(what, "autotune.nodes", "use a divisor of the run's nodes")
    options = {name: said.get(name, default) for name, default in _DEFAULTS.items()}
    if os.path.isabs(options["config"]) or ".." in options["config"].split("/"):
        what = f"{options['config']!r} is not in the code under its name"
        raise PlanError(what, "autotune.config", "name a file of the code: conf/ds_config.json")
    resources = job.resources._replace(instance_count=each)
    trial = job._replace(autotune=None, at_once=None, resources=resources)
    settings = trial_settings(said.get("search") or _SEARCH, said.get("trials"))
    return Search(trial, settings, job.at_once or instances // each, options)


def trial_settings(search: Mapping[str, Sequence[Literal]], most: int | None) -> tuple[ElementValues, ...]:
    """Return the settings of each trial: the combinations of the values in `search`. If there are more than `most`,
    return `most` of them, always the same ones. Micro-batches grow from one combination to the next, so that those
    after one that does not fit into memory can be left out. Raise PlanError if there are too many."""
    from math import prod

    sizes = {name: sorted(search[name], key=_size) for name in search if name in _MICRO_BATCHES}
    values = {**{name: tried for name, tried in search.items() if name not in sizes}, **sizes}
    count = prod(map(len, values.values()))
    if count > (MAX_TRIALS if most is None else sys.maxsize):
        raise PlanError(f"{count} combinations to try", "autotune.search", "set a limit with autotune.trials")
    numbers: Sequence[int] = range(count)
    if most is not None and count > most:
        import random

        numbers = sorted(random.Random(0).sample(numbers, most))  # nosec B311  # the same choice each time
    return tuple(_combination(values, number) for number in numbers)


def _combination(values: Mapping[str, Sequence[Literal]], number: int) -> ElementValues:
    """Return the combination number `number`, from 0, of the `values` of each name, as a mapping of name to value. The
    last name varies fastest."""
    found: dict[str, Literal] = {}
    for name in reversed(list(values)):
        number, place = divmod(number, len(values[name]))
        found[name] = values[name][place]
    return dict(reversed(found.items()))


def _size(value: Literal) -> float:
    return value if isinstance(value, (int, float)) else 0


def with_own_tuning(arrangement: Arrangement) -> Arrangement:
    """Return `arrangement` with DeepSpeed's own autotuning turned on in its launcher. Raise PlanError if the launcher
    has none, or if there are several nodes."""
    if not launcher_facts(arrangement.launcher).own_tuning:
        what = "DeepSpeed's own autotuning is a part of its launcher"
        raise PlanError(what, "autotune.by", "use the command: deepspeed train.py …")
    if len(arrangement.nodes) > 1:
        what = f"on {len(arrangement.nodes)} nodes, DeepSpeed's own autotuning needs ssh and pdsh"
        raise PlanError(what, "autotune.by", "use one node, or leave it out: worldsize needs neither")
    return arrangement._replace(options={**arrangement.options, "autotuning": "tune"})
