"""What `autotune:` of a job may say, and how it is read; loaded only for jobs that have it."""

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
    "search": Key("search", "Keys of the configuration (zero_optimization.stage, say), and the values to try; two of "
                  "DeepSpeed's have short names: micro_batch, zero_stage."),
    "config": Key("text", "The JSON file to vary, as the command finds it in the code: ds_config.json.", blank=False),
    "metric": Key("text", "What is measured: throughput, as DeepSpeed's log tells it, or the NAME of a line "
                  "NAME=NUMBER of rank 0.", blank=False),
    "goal": Key("text", "Whether the metric is to be large or small.", choices=("max", "min")),
    "steps": Key("int", "DeepSpeed tells its throughput after so many steps.", minimum=3, maximum=1_000_000),
    "reports": Key("int", "A trial ends once it has told the metric so often.", minimum=1, maximum=1_000_000),
    "timeout": Key("number", "Seconds after which a trial is stopped.", above=0, maximum=10 * 86400),
    "nodes": Key("int", "Of each trial: as many trials run at once as the job has nodes for.", minimum=1,
                 maximum=1_000_000),
    "trials": Key("int", "At most so many, chosen by chance where there are more.", minimum=1, maximum=MAX_TRIALS),
    "patience": Key("int", "Ends the search after so many trials in a row that were not better.", minimum=1,
                    maximum=MAX_TRIALS),
    "by": Key("text", "worldsize; or deepspeed: its own --autotuning, on one node.",
              choices=("worldsize", "deepspeed")),
}  # fmt: skip

_READERS: Mapping[str, ValueReader] = {**READERS, "search": read_matrix}


def read(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, Any]:
    return read_keys(mapping_of(node, path, report), path, KEYS, report, _READERS)
