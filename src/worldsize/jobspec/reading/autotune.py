"""From `autotune:` of a job to an explicit list of trials. Loaded only where somebody says it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from worldsize.errors import PlanError
from worldsize.jobspec.distributions.base import Arrangement
from worldsize.jobspec.keys.autotune import AUTOTUNE, MAX_TRIALS
from worldsize.jobspec.keys.key import Key
from worldsize.jobspec.reading.matrix import read_matrix
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.jobspec.reading.values import READERS, ValueReader, mapping_of, read_keys
from worldsize.plan.launchers import launcher_facts

MICRO_BATCH = "train_micro_batch_size_per_gpu"
SHORT_NAMES = {"micro_batch": MICRO_BATCH, "zero_stage": "zero_optimization.stage"}

_READERS: Mapping[str, ValueReader] = {**READERS, "search": read_matrix}
_SEARCH = {"zero_stage": (0, 1, 2, 3), "micro_batch": (1, 2, 4, 8, 16, 32, 64)}
_DEFAULTS = {
    "config": "ds_config.json", "metric": "throughput", "goal": "max", "steps": 10, "reports": 3, "timeout": 600,
    "patience": None,
}  # fmt: skip


def read_autotune(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, Any] | None:
    nodes = mapping_of(node, path, report)
    return None if nodes is None else read_keys(nodes, path, AUTOTUNE, report, _READERS)


def with_trials(arrangement: Arrangement, said: Mapping[str, Any]) -> Arrangement:
    """Trials of `arrangement` in its place. Raises PlanError where they do not fit its nodes."""
    if said.get("by") == "deepspeed":
        return _with_deepspeed_tuning(arrangement)
    instances = len(arrangement.nodes)
    each = said.get("nodes", instances)
    if instances % each:
        what = f"{instances} nodes cannot be shared out to trials of {each}"
        raise PlanError(what, "autotune.nodes", "take a divisor of the run's nodes")
    search = {name: said.get(name, default) for name, default in _DEFAULTS.items()}
    if os.path.isabs(search["config"]) or ".." in search["config"].split("/"):
        what = f"{search['config']!r} does not lie in the code by its name"
        raise PlanError(what, "autotune.config", "name a file of the code: conf/ds_config.json")
    trials = trial_settings(said.get("search") or _SEARCH, said.get("trials"))
    options = {
        **{name: getattr(arrangement, name) for name in ("launcher", "options", "ports", "leaders", "lingering")},
        "search": {**search, "nodes": each, "trials": trials},
    }
    return arrangement._replace(launcher="autotune", options=options, ports="node", leaders=(), lingering=())


def trial_settings(search: Mapping[str, Sequence[Any]], most: int | None) -> list[dict[str, Any]]:
    """Each combination, by the keys' full names: growing micro-batches one after the other, so that what does not fit
    into memory tells of those that follow."""
    from itertools import product
    from math import prod

    values = {SHORT_NAMES.get(name, name): tuple(tried) for name, tried in search.items()}
    if MICRO_BATCH in values:
        values[MICRO_BATCH] = tuple(sorted(values.pop(MICRO_BATCH), key=_size))
    count = prod(map(len, values.values()))
    if most is None and count > MAX_TRIALS:
        raise PlanError(f"{count} combinations to try", "autotune.search", "say how many with autotune.trials")
    combinations = (dict(zip(values, each, strict=True)) for each in product(*values.values()))
    if most is None or count <= most:
        return list(combinations)
    import random

    chosen = set(random.Random(0).sample(range(count), most))  # nosec B311  # the same choice each time
    return [each for number, each in enumerate(combinations) if number in chosen]


def _size(value: Any) -> float:
    return value if isinstance(value, (int, float)) else 0


def _with_deepspeed_tuning(arrangement: Arrangement) -> Arrangement:
    if not launcher_facts(arrangement.launcher).own_tuning:
        what = "DeepSpeed's own autotuning is a part of its launcher"
        raise PlanError(what, "autotune.by", "let the command be: deepspeed train.py …")
    if len(arrangement.nodes) > 1:
        what = f"on {len(arrangement.nodes)} nodes, DeepSpeed's own autotuning needs ssh and pdsh"
        raise PlanError(what, "autotune.by", "take one node, or leave it out: worldsize needs neither")
    return arrangement._replace(options={**arrangement.options, "autotuning": "tune"})
