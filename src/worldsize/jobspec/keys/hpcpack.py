"""The keys of a job about HPC Pack. A key that is not set has the head node's default."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.jobspec.keys.key import Key

HPCPACK: Mapping[str, Key] = {
    "nodes": Key("words", "Nodes to run on; as many names as the run has nodes also fix the order of node "
                          "ranks.", blank=False,
                 harmless=True),
    "node_group": Key("words", "The node group to run on, or several.", blank=False, harmless=True),
    "node_group_op": Key("text", "With several groups: nodes of all (Intersect), any (Union), or one (Uniform).",
                         choices=("Intersect", "Uniform", "Union"), harmless=True),
    "exclusive": Key("flag", "Whether the job has its nodes to itself.", harmless=True),
    "priority": Key("text", "The job's priority.",
                    choices=("Lowest", "BelowNormal", "Normal", "AboveNormal", "Highest"), harmless=True),
    "project": Key("text", "The project that the job is charged to.", blank=False, harmless=True),
    "template": Key("text", "The job template.", blank=False, harmless=True),
    "rdzv_endpoint": Key("text", "The rendezvous of torchrun, NODE or NODE:PORT, instead of the first "
                                 "node.", blank=False),
    "job_properties": Key("labels", "Any other property of an HPC Pack job: its name and value."),
}  # fmt: skip
"""The keys of both a job's `hpcpack:` and a configured compute of type hpcpack. The job's values win key by key."""
