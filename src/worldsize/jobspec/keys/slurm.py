"""The keys of a job or a configured compute about Slurm. Options that are not set are not passed to Slurm either."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.jobspec.keys.key import Key

SLURM: Mapping[str, Key] = {
    "partition": Key("words", "The partition, or several to choose from.", blank=False, harmless=True),
    "account": Key("text", "The account to charge.", blank=False, harmless=True),
    "qos": Key("text", "The quality of service.", blank=False, harmless=True),
    "time": Key("as_text", "The time limit, as sbatch takes it: minutes, 2:00:00, 1-12.", blank=False, harmless=True),
    "constraint": Key("text", "Features that the nodes must have.", blank=False, harmless=True),
    "exclude": Key("words", "Nodes to exclude.", blank=False, harmless=True),
    "nodelist": Key("words", "Nodes to run on.", blank=False, harmless=True),
    "reservation": Key("text", "The reservation to use.", blank=False, harmless=True),
    "gpus_per_node": Key("as_text", "GPUs of each node: 4, or a100:4.", blank=False, harmless=True),
    "cpus_per_rank": Key("int", "CPUs of each rank.", minimum=1, maximum=65536, harmless=True),
    "mem": Key("as_text", "Memory of each node: 64G; 0 for all of it.", blank=False, harmless=True),
    "signal": Key("as_text", "When to signal ranks before the time limit: 120 (seconds), or USR1@120.", blank=False,
                  harmless=True),
    "requeue": Key("flag", "Whether Slurm may start the run again after a node failed or it was preempted.",
                   harmless=True),
    "dependency": Key("text", "Dependencies, as sbatch takes them; --after RUN writes one.", blank=False,
                      harmless=True),
    "exclusive": Key("as_text", "true: whole nodes; user, mcs or topo as in sbatch.",
                     choices=("true", "false", "user", "mcs", "topo"), harmless=True),
    "sbatch_options": Key("labels", "Any other option of sbatch: its long name and value, such as mail-type: END."),
}  # fmt: skip
"""The keys of both a job's `slurm:` and a configured compute of type slurm. The job's values win key by key."""

SETUP: Mapping[str, Key] = {
    "modules": Key("texts", "Modules to load before the ranks start (Lmod or Environment Modules).", blank=False),
    "setup": Key(
        "texts", "Shell lines to execute before the ranks start: on the first node; on HPC Pack and Azure ML on each."
    ),
}
"""The keys for setup of a job and of a configured compute. The compute's modules and lines come first."""
