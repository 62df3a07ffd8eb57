"""The keys of `autotune:` in a job, and their reader; loaded only for jobs that have the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.reading.matrix import read_matrix
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.jobspec.reading.values import READERS, ValueReader, mapping_of, read_keys

MAX_TRIALS = 1000

KEYS: Keys = {
    "search": Key("search", "Keys of the configuration, such as zero_optimization.stage, and the values to try; two of "
                  "DeepSpeed's have short names: micro_batch, zero_stage."),
    "config": Key("text", "The JSON file to vary, relative to the code: ds_config.json.", blank=False),
    "metric": Key("text", "The metric: throughput, from DeepSpeed's log, or the NAME of a line NAME=NUMBER of "
                          "rank 0.", blank=False),
    "goal": Key("text", "Whether a large or a small metric is better.", choices=("max", "min")),
    "steps": Key("int", "The number of steps between DeepSpeed's throughput reports.", minimum=3, maximum=1_000_000),
    "reports": Key("int", "The number of reported metrics after which a trial ends.", minimum=1, maximum=1_000_000),
    "timeout": Key("number", "Seconds after which a trial is stopped.", above=0, maximum=10 * 86400),
    "nodes": Key("int", "Nodes of each trial: as many trials run at once as the job has nodes for.", minimum=1,
                 maximum=1_000_000),
    "trials": Key("int", "The most trials, chosen at random if there are more combinations.", minimum=1,
                  maximum=MAX_TRIALS),
    "patience": Key("int", "The number of trials in a row without improvement after which the search ends.", minimum=1,
                    maximum=MAX_TRIALS),
    "by": Key("text", "worldsize; or deepspeed: its own --autotuning, on one node.",
              choices=("worldsize", "deepspeed")),
}  # fmt: skip

_READERS: Mapping[str, ValueReader] = {**READERS, "search": read_matrix}


def read(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, Any]:
    return read_keys(mapping_of(node, path, report), path, KEYS, report, _READERS)
