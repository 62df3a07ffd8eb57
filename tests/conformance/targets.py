"""The computes that every test of the suite runs on here: a new one is one more entry in TARGETS."""

from __future__ import annotations

from typing import NamedTuple

from worldsize_conformance.place import Target


class OwnTarget(NamedTuple):
    """A target, and the fixture of its cluster, which says where nodes see files, and how it is reached."""

    target: Target
    cluster: str | None = None


TARGETS = [
    OwnTarget(Target("local", "", 60)),
    OwnTarget(Target("slurm", '[compute.slurm]\ntype = "slurm"\n', 90, unknown={"job": "99999999"}), "slurm"),
    OwnTarget(
        Target("slurm-alone", '[compute.slurm-alone]\ntype = "slurm"\n', 90, unknown={"job": "99999999"}),
        "slurm_without_accounting",
    ),
    OwnTarget(Target("hpcpack", "", 90, inherits=False, unknown={"job": 99999999}), "hpcpack"),
    OwnTarget(Target("azureml", "", 90, inherits=False, unknown={"name": "nobody"}, modules=False), "azureml"),
]
