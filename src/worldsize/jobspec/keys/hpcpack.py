"""What a job may say of HPC Pack. What nobody says is left to the head node's defaults."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.jobspec.keys.key import Key

HPCPACK: Mapping[str, Key] = {
    "nodes": Key("words", "Nodes to run on; as many names as the run has nodes give them their ranks.", blank=False,
                 harmless=True),
    "node_group": Key("words", "The node group to run on, or several.", blank=False, harmless=True),
    "node_group_op": Key("text", "Of several groups: nodes of all (Intersect), any (Union), or one (Uniform).",
                         choices=("Intersect", "Uniform", "Union"), harmless=True),
    "exclusive": Key("flag", "Whether other jobs are kept off the nodes.", harmless=True),
    "priority": Key("text", "How urgent it is.",
                    choices=("Lowest", "BelowNormal", "Normal", "AboveNormal", "Highest"), harmless=True),
    "project": Key("text", "The project that the job is charged to.", blank=False, harmless=True),
    "template": Key("text", "The job template.", blank=False, harmless=True),
    "rdzv_endpoint": Key("text", "Where torchrun meets, NODE or NODE:PORT, and not on the first node.", blank=False),
    "job_properties": Key("labels", "Any other property of an HPC Pack job: its name and value."),
}  # fmt: skip
"""Of both a job's `hpcpack:` and a configured compute of type hpcpack; the job's words win key by key."""
