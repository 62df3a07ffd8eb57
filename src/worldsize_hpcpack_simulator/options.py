"""What a simulated cluster is to be like."""

from __future__ import annotations

from typing import NamedTuple

GENERATIONS = ("2016", "2019", "both")
ROLES = ("Administrator", "JobAdministrator", "JobOperator", "User")


class Account(NamedTuple):
    """A user of the cluster. `name` is `DOMAIN\\user` or `user`."""

    name: str
    password: str
    role: str = "User"


class SimulatorOptions(NamedTuple):
    """nodes         how many compute nodes
    port             of the head node on 127.0.0.1; 0: any that is free
    share            the shared directory, an absolute path; `at` is its name on the nodes
    account          the administrator
    others           further users; with none, `x-ms-as-user` accepts any name
    unmounted        nodes that lack the share
    days             for how long the certificate holds; below 0: since when it has not
    generation       which paths are served: "2016", "2019" or "both"
    delay            seconds that a job or task spends in each state that it only passes
    grace            seconds between the asking and the killing of a task that is cancelled
    cores, gpus      of each node
    namespaces       whether nodes get a view of the machine of their own
    cached           whether the head node holds the credentials of whoever submits
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
