"""What a job or a configured compute may say of HPC Pack. What nobody says is left to the head node's defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

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

SHARE: Mapping[str, Key] = {
    "head": Key("text", r"As Windows calls it, \\HEAD\CcpSpoolDir\app; or a path of this machine.", blank=False),
    "node": Key("text", "The directory where the Linux nodes have it mounted: /app.", blank=False),
    "local": Key("path", "Where this machine has it mounted.", blank=False),
}

HEAD: Mapping[str, Key] = {
    "url": Key("text", "The head node: https://HEAD.", blank=False),
    "user": Key("text", r"The account on the cluster: DOMAIN\name.", blank=False),
    "share": Key("object", "The directory that all nodes share, by its names.", keys=SHARE),
    "ca_file": Key("path", "Certificates that the head's is verified with, where it is not a public authority's.",
                   blank=False),
    "verify": Key("flag", "Whether the head's certificate is verified (true)."),
    "as_user": Key("text", "On whose behalf an administrator acts.", blank=False),
    "generation": Key("as_text", "How the head names its nodes: 2016 or 2019; without it, that is found out.",
                      choices=("2016", "2019"), harmless=True),
}  # fmt: skip
"""Of a configured compute alone."""

NO_PASSWORD = "a password is kept in no file: set WORLDSIZE_HPCPACK_PASSWORD, use a keyring, or type it when asked"


def local_share(share: Mapping[str, Any]) -> str | None:
    """Where this machine sees the share; None where nobody says and no name of it is a directory here."""
    if share.get("local"):
        return str(share["local"])
    head, node = str(share.get("head", "")), str(share.get("node", ""))
    if head.startswith("/"):
        return head
    return node if node and os.path.isdir(node) else None


def default_runs_dir(options: Mapping[str, Any]) -> str | None:
    """Where the runs of a compute of type hpcpack are kept: on its share."""
    local = local_share(options.get("share", {}))
    return os.path.join(local, "runs") if local else None
