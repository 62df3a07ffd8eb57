"""The check of an HPC Pack cluster: the head node, the share, and what each node that can be reached sees and has."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from worldsize.compute.base import Compute
from worldsize.compute.capabilities import ComputeNode
from worldsize.compute.http.errors import WrongCertificate
from worldsize.errors import StorageError, SubmitAgain, SubmitRejected
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.service.compute_nodes import NODES_HINT, default_nodes, left_out_rows
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.hpcpack.check_rows import NODES, node_rows
from worldsize.wings.hpcpack.head.certificate_notice import CERTIFICATE_HINT, take_certificate_notice
from worldsize.wings.hpcpack.head.errors import LoginRefused
from worldsize.wings.hpcpack.settings import HeadAccess, NotMounted, Share, head_access, require_mounted, share_of
from worldsize.wings.hpcpack.share_check import check_on_share

CERTIFICATE, LOGIN = "hpcpack.certificate", "hpcpack.login"
MOUNTED, FEATURES = "hpcpack.share.mounted", "hpcpack.share.features"

_CERTIFICATE, _LOGIN = "the head node's certificate", "the head node"


class ClusterCheck(NamedTuple):
    """The result of the check of an HPC Pack cluster. `hosts` are the names of the nodes that were checked, `rows` the
    results."""

    hosts: tuple[str, ...]
    rows: tuple[CheckRow, ...]


def check_cluster(compute: Compute, settings: ComputeSettings, tell: Callable[[str], None]) -> ClusterCheck:
    """Check the head node and the share of an HPC Pack cluster, and every node that a run uses by default. Return the
    rows of all checks. `tell` receives messages for people. Raise ConfigError if too little is configured. Errors of
    the compute about the nodes' task are raised as they are."""
    access = head_access(settings)
    share, mounted = _find_share(share_of(settings.options), settings.name)
    nodes, answered = _ask_head(compute, access)
    names = tuple(node.name for node in nodes if node.usable)
    rows = [*answered, mounted, *left_out_rows(nodes, NODES)]
    if answered[-1].verdict == OK and not names:
        rows.append(CheckRow("", NODES, "nodes", "none is usable", BAD, NODES_HINT))
    if share is None:
        return ClusterCheck((), tuple(rows))
    try:
        features, found = check_on_share(compute, share, settings.python or "python3", names, tell)
    except StorageError as error:
        value = f"{error.where}: {error.what}" if error.where else error.what
        rows.append(CheckRow("", FEATURES, "writing", value, BAD, error.hint or ""))
        return ClusterCheck((), tuple(rows))
    rows += [*features.rows(FEATURES), *node_rows(found, settings.gpus_per_node, settings.name)]
    return ClusterCheck(names, tuple(rows))


def _find_share(share: Share | None, compute: str) -> tuple[Share | None, CheckRow]:
    """Return the cluster's share and the row of the check about its mount on this machine. The share is None if it is
    not mounted. Raise ConfigError if too little is configured."""
    try:
        share = require_mounted(share, f"compute.{compute}.")
    except NotMounted as error:
        return None, CheckRow("", MOUNTED, "the share", error.what, BAD, error.hint or "")
    return share, CheckRow("", MOUNTED, "the share", str(share.local), OK)


def _ask_head(compute: Compute, access: HeadAccess) -> tuple[list[ComputeNode], list[CheckRow]]:
    """Query the head node for the nodes that a run uses by default. Return these nodes and the rows of the check about
    the head node: its certificate, then the login. The list of nodes is empty if the head node did not list them. Raise
    ConfigError for a wrong configuration."""
    unverified = take_certificate_notice(access)
    certificate = CheckRow("", CERTIFICATE, _CERTIFICATE, "verified", OK)
    if unverified is not None:
        certificate = certificate._replace(value=unverified, verdict=WARNING, hint=CERTIFICATE_HINT)
    login = CheckRow("", LOGIN, _LOGIN, f"{access.url} answers {access.user}", OK)
    try:
        return default_nodes(compute), [certificate, login]
    except WrongCertificate as error:
        certificate = certificate._replace(value=error.what, verdict=BAD, hint=error.hint or "")
        login = login._replace(value="not asked", verdict=UNKNOWN, hint="nothing was sent to it")
    except LoginRefused as error:
        login = login._replace(value=error.what, verdict=BAD, hint=error.hint or "")
    except (SubmitAgain, SubmitRejected) as error:
        login = login._replace(value=error.what, verdict=BAD, hint=error.hint or "")
        if isinstance(error, SubmitAgain) and unverified is None:
            certificate = certificate._replace(value="not seen", verdict=UNKNOWN)
    return [], [certificate, login]
