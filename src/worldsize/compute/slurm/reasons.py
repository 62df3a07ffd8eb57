"""Why Slurm lets a job wait: every reason of 20.11 to 26.05 in plain words, with what its owner can do.

The names are those of job_state_reason (Slurm's src/common/job_state_reason.c, before 24.05 job_reason_string in
slurm_protocol_defs.c); free texts are the `state_desc` that slurmctld writes instead of a name.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Wait(NamedTuple):
    """Why a job waits.

    words   for people, after "it waits "
    advice  what its owner can do; "" for: wait
    stuck   it will not start unless somebody does something
    """

    words: str
    advice: str = ""
    stuck: bool = False


_CHANGE = "cancel it and submit it again with other options"
_ADMIN = "ask the cluster's administrators"

REASONS = {
    "": Wait("for the scheduler to look at it"),
    "None": Wait("for the scheduler to look at it"),
    "SchedDefer": Wait("for the scheduler to look at it"),
    "Priority": Wait("behind jobs of higher priority", "shorter and smaller jobs fit into gaps"),
    "Resources": Wait("for free nodes: it is next", "shorter and smaller jobs fit into gaps"),
    "Dependency": Wait("for other jobs to end"),
    "DependencyNeverSatisfied": Wait("for a job that ended otherwise than asked", "cancel it", stuck=True),
    "BeginTime": Wait("until the time that it may begin"),
    "JobHeldUser": Wait("because its owner holds it", "`scontrol release JOB`", stuck=True),
    "JobHeldAdmin": Wait("because an administrator, or Slurm after a failed start, holds it", _ADMIN, stuck=True),
    "JobHoldMaxRequeue": Wait("on hold: it was put back too often", "`scontrol release JOB`", stuck=True),
    "JobArrayTaskLimit": Wait("for other elements of its array: only so many may run at once"),
    "PartitionTimeLimit": Wait("with a longer time limit than its partition allows", "shorten slurm.time", stuck=True),
    "PartitionNodeLimit": Wait(
        "with more nodes than its partition allows, or than are up in it", "ask for fewer nodes", stuck=True
    ),
    "PartitionConfig": Wait("with nodes or a time that its partition does not allow", _CHANGE, stuck=True),
    "PartitionDown": Wait("for its partition, which starts no jobs now", "another partition, or wait"),
    "PartitionInactive": Wait("for its partition, which is closed", "another partition, or wait"),
    "ReqNodeNotAvail": Wait("for nodes that it needs and that are down, drained or reserved", "another partition"),
    "NodeDown": Wait("for a node that is down", "do not ask for that node by name"),
    "BadConstraints": Wait("for nodes that do not exist: none has all that was asked for", _CHANGE, stuck=True),
    "Constraints": Wait("for nodes with the features asked for, or for a switch", "ask for less, or wait"),
    "Licenses": Wait("for licences that others hold"),
    "Reservation": Wait("for its reservation to begin"),
    "ReservationDeleted": Wait("for a reservation that was deleted", _CHANGE, stuck=True),
    "ReservationInvalid": Wait("for a reservation that it may not use", _CHANGE, stuck=True),
    "InvalidAccount": Wait("with an account that is not valid", "another slurm.account", stuck=True),
    "InvalidQOS": Wait("with a QOS that is not valid", "another slurm.qos", stuck=True),
    "AccountNotAllowed": Wait("with an account that its partition does not take", "another slurm.account", stuck=True),
    "QOSNotAllowed": Wait("with a QOS that its partition or account does not take", "another slurm.qos", stuck=True),
    "QOSUsageThreshold": Wait("until its account has used less: the QOS's threshold is passed", "another slurm.qos"),
    "AccountingPolicy": Wait("because of a limit of its account or QOS", "ask for less, or wait"),
    "AssociationJobLimit": Wait("for other jobs of its account to end: so many may run"),
    "AssociationResourceLimit": Wait("for resources that other jobs of its account hold"),
    "AssociationTimeLimit": Wait("with a longer time than its account allows", "shorten slurm.time", stuck=True),
    "QOSJobLimit": Wait("for other jobs of its QOS to end: so many may run"),
    "QOSResourceLimit": Wait("for resources that other jobs of its QOS hold"),
    "QOSTimeLimit": Wait("with a longer time than its QOS allows", "shorten slurm.time", stuck=True),
    "MaxMemPerLimit": Wait(
        "with more memory per CPU or node than the partition allows", "a smaller slurm.mem", stuck=True
    ),
    "MaxPoweredUpNodes": Wait("for nodes to be powered down: only so many may be up at once"),
    "MpiPortsBusy": Wait("for ports that MPI needs and that others hold"),
    "NvidiaImexChannels": Wait("for a free NVLink channel (IMEX)"),
    "BurstBufferResources": Wait("for space in the burst buffer"),
    "BurstBufferStageIn": Wait("for its data to be copied into the burst buffer"),
    "BurstBufferOperation": Wait("on hold: the burst buffer failed", _ADMIN, stuck=True),
    "Cleaning": Wait("for what is left of its last start to be cleaned up"),
    "Prolog": Wait("for its prolog to end: the nodes are being made ready"),
    "FedJobLock": Wait("for the federation's clusters to agree on who runs it"),
    "FrontEndDown": Wait("for a front-end node that is down", _ADMIN),
    "PowerNotAvail": Wait("for electrical power"),
    "PowerReserved": Wait("for electrical power that is reserved"),
    "DeadLine": Wait("though its deadline can no longer be met", "cancel it", stuck=True),
    "SystemFailure": Wait("after a failure of the system", _ADMIN),
    "JobLaunchFailure": Wait("after its launch failed", _ADMIN),
    "NonZeroExitCode": Wait("after it ended with an error"),
    "TimeLimit": Wait("after it reached its time limit"),
    "InactiveLimit": Wait("after it was inactive for too long"),
    "OutOfMemory": Wait("after it ran out of memory"),
    "RaisedSignal": Wait("after it was ended by a signal"),
    "BlockMaxError": Wait("after too many errors of its block"),
    "BlockFreeAction": Wait("for its block to be freed"),
}

_TEXTS = (
    (r"\bheld\b", Wait("on hold", "`scontrol release JOB`, once what it says is mended", stuck=True)),
    (r"reserved for maintenance", Wait("because maintenance begins before it could end", "a shorter slurm.time")),
    (r"may be reserved for other job", Wait("for nodes that are kept for another job")),
    (
        r"nodes required for job are down, drained or reserved",
        Wait("for nodes that are down, drained or kept for others", "another partition"),
    ),
    (
        r"reservation \S+ (was deleted|is invalid)",
        Wait("for a reservation that is gone", _CHANGE, stuck=True),
    ),
    (
        r"not (in group )?permitted to use this partition",
        Wait("in a partition closed to it", _CHANGE, stuck=True),
    ),
    (r"burst.?buffer", Wait("for the burst buffer", _ADMIN)),
    (
        r"job is at or exceeds .*(minutes|wall)",
        Wait("with its account's or QOS's budget of time used up", "more budget"),
    ),
)

_LIMIT = (
    r"(?P<scope>AssocGrp|AssocMax|QOSGrp|QOSMax|QOSMin|Max)"
    r"(?P<what>CPU|Cpu|Memory|Mem|Node|GRES|Gres|License|Lic|Energy|Billing|BB|Unknown"
    r"|SubmitJobs?|Jobs?|Wall|WallDuration)"
    r"(?P<minutes>RunMinutes|RunMins|Minutes)?"
    r"(?P<per>Per(?:Job|Node|User|Account))?(?:Limit|NotSatisfied)?"
)
_RESOURCES = {
    "CPU": "CPUs",
    "MEMORY": "memory",
    "MEM": "memory",
    "NODE": "nodes",
    "GRES": "GPUs or other devices",
    "LICENSE": "licences",
    "LIC": "licences",
    "ENERGY": "energy",
    "BILLING": "billing units",
    "BB": "burst buffer space",
    "UNKNOWN": "resources",
}


def wait_of(reason: str) -> Wait:
    """Why it waits; an unknown reason is quoted. "ReqNodeNotAvail, UnavailableNodes:n[1-2]" names the nodes."""
    reason = reason.strip().strip("()")
    known = REASONS.get(reason) or _limit_wait(reason)
    if known:
        return known
    for pattern, wait in _TEXTS:
        if re.search(pattern, reason, re.IGNORECASE):
            return wait._replace(words=f"{wait.words} ({reason})")
    first, _, rest = reason.partition(",")
    if first in REASONS:
        nodes = rest.strip().partition("UnavailableNodes:")[2]
        return REASONS[first]._replace(words=REASONS[first].words + (": " + nodes if nodes else ""))
    return Wait(f"(Slurm: {reason})")


def _limit_wait(reason: str) -> Wait | None:
    """The families of limits: AssocGrp*, AssocMax*, QOSGrp*, QOSMax*, QOSMin*, Max*PerAccount, Max*RunMinsPerUser."""
    match = re.fullmatch(_LIMIT, reason)
    if not match:
        return None
    scope, what, minutes, per = match.group("scope", "what", "minutes", "per")
    owner = "account" if scope.startswith("Assoc") else "QOS"
    amount = _RESOURCES.get(what.upper(), "time") + (" × minutes" if minutes else "")
    if scope == "QOSMin":
        return Wait(f"with less than the least {amount} that its QOS takes", _CHANGE, stuck=True)
    if per in ("PerJob", "PerNode"):
        one = "node" if per == "PerNode" else "job"
        return Wait(f"with more {amount} than its {owner} allows one {one}", "ask for less", stuck=True)
    if minutes == "Minutes" or what == "Wall":
        return Wait(f"because its {owner} has used up its {amount}", "another account or QOS, or more budget")
    who = {"PerUser": "QOS lets you", "PerAccount": "QOS lets your account"}.get(per or "", owner + " may")
    if what.startswith(("Job", "SubmitJob")):
        return Wait(f"for other jobs to end: its {who} have only so many")
    many = "many" if amount.endswith("s") else "much"
    words = f"for other jobs to end: its {who} use only so {many} {amount} at once"
    return Wait(words, "ask for less, or wait")
