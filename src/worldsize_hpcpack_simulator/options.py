"""The options of a simulated cluster."""

from __future__ import annotations

from typing import NamedTuple

GENERATIONS = ("2016", "2019", "both")
ROLES = ("Administrator", "JobAdministrator", "JobOperator", "User")


class Account(NamedTuple):
    r"""A user of the cluster. `name` is `DOMAIN\user` or `user`."""

    name: str
    password: str
    role: str = "User"


class SimulatorOptions(NamedTuple):
    """The options of a simulated cluster.

    nodes            the number of compute nodes
    port             the head node's port on 127.0.0.1; 0: any free one
    share            the shared directory, an absolute path; `at` is its path on the nodes
    account          the administrator
    others           further users; if there are none, `x-ms-as-user` accepts any name
    unmounted        nodes that lack the share
    days             the number of days for which the certificate is valid; below 0: since when it is not
    generation       the generation of the paths that are served: "2016", "2019" or "both"
    delay            seconds that a job or task spends in each state that it only passes through
    grace            seconds between INT and KILL for a task that is cancelled
    cores, gpus      the numbers of cores and GPUs of each node
    namespaces       whether each node gets its own view of the machine
    cached           whether the head node holds the credentials of users who submit jobs
    """

    share: str
    account: Account
    nodes: int = 4
    port: int = 0
    at: str = "/app"
    others: tuple[Account, ...] = ()
    unmounted: tuple[str, ...] = ()
    days: float = 30
    generation: str = "both"
    delay: float = 0.1
    grace: float = 15.0
    cores: int = 4
    gpus: int = 0
    namespaces: bool = True
    cached: bool = True

    @property
    def version(self) -> str:
        return "5.3.6450.0" if self.generation == "2016" else "6.0.7214.0"
