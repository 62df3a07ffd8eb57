"""Reasons why Slurm lets a job wait: every reason of 20.11 to 26.05 in plain words, with what its owner can do.

The names are those of job_state_reason (Slurm's src/common/job_state_reason.c, before 24.05 job_reason_string in
slurm_protocol_defs.c). Free texts are the `state_desc` that slurmctld writes instead of a name.
"""

from __future__ import annotations

import re

from worldsize.common.named_tuple import NamedTuple


class WaitReason(NamedTuple):
    """The reason why a job waits.

    words   text for people, after "it waits "
    advice  what its owner can do; "" if the owner can only wait
    stuck   whether the job will not start unless a person intervenes
    """

    words: str
    advice: str = ""
    stuck: bool = False


_CHANGE = "cancel it and submit it again with other options"
_ADMIN = "ask the cluster's administrators"

REASONS = {
    "": WaitReason("for the scheduler to look at it"),
    "None": WaitReason("for the scheduler to look at it"),
    "SchedDefer": WaitReason("for the scheduler to look at it"),
    "Priority": WaitReason("behind jobs of higher priority", "shorter and smaller jobs fit into gaps"),
    "Resources": WaitReason("for free nodes: it is next", "shorter and smaller jobs fit into gaps"),
    "Dependency": WaitReason("for other jobs to end"),
    "DependencyNeverSatisfied": WaitReason("for a job that did not end as required", "cancel it", stuck=True),
    "BeginTime": WaitReason("until the time that it may begin"),
    "JobHeldUser": WaitReason("because its owner holds it", "`scontrol release JOB`", stuck=True),
    "JobHeldAdmin": WaitReason("because an administrator, or Slurm after a failed start, holds it", _ADMIN, stuck=True),
    "JobHoldMaxRequeue": WaitReason("on hold: it was put back too often", "`scontrol release JOB`", stuck=True),
    "JobArrayTaskLimit": WaitReason("for other elements of its array: only a limited number may run at once"),
    "PartitionTimeLimit": WaitReason(
        "with a longer time limit than its partition allows", "shorten slurm.time", stuck=True
    ),
    "PartitionNodeLimit": WaitReason(
        "with more nodes than its partition allows, or than are up in it", "ask for fewer nodes", stuck=True
    ),
    "PartitionConfig": WaitReason("with nodes or a time that its partition does not allow", _CHANGE, stuck=True),
    "PartitionDown": WaitReason("for its partition, which starts no jobs now", "another partition, or wait"),
    "PartitionInactive": WaitReason("for its partition, which is closed", "another partition, or wait"),
    "ReqNodeNotAvail": WaitReason(
        "for nodes that it needs and that are down, drained or reserved", "another partition"
    ),
    "NodeDown": WaitReason("for a node that is down", "do not ask for that node by name"),
    "BadConstraints": WaitReason("for nodes that do not exist: none has all that was asked for", _CHANGE, stuck=True),
    "Constraints": WaitReason("for nodes with the features asked for, or for a switch", "ask for less, or wait"),
    "Licenses": WaitReason("for licences held by other jobs"),
    "Reservation": WaitReason("for its reservation to begin"),
    "ReservationDeleted": WaitReason("for a reservation that was deleted", _CHANGE, stuck=True),
    "ReservationInvalid": WaitReason("for a reservation that it may not use", _CHANGE, stuck=True),
    "InvalidAccount": WaitReason("with an account that is not valid", "another slurm.account", stuck=True),
    "InvalidQOS": WaitReason("with a QOS that is not valid", "another slurm.qos", stuck=True),
    "AccountNotAllowed": WaitReason(
        "with an account that its partition does not take", "another slurm.account", stuck=True
    ),
    "QOSNotAllowed": WaitReason(
        "with a QOS that its partition or account does not take", "another slurm.qos", stuck=True
    ),
    "QOSUsageThreshold": WaitReason(
        "until its account has used less: the QOS's threshold is passed", "another slurm.qos"
    ),
    "AccountingPolicy": WaitReason("because of a limit of its account or QOS", "ask for less, or wait"),
    "AssociationJobLimit": WaitReason("for other jobs of its account to end: their number is limited"),
    "AssociationResourceLimit": WaitReason("for resources that other jobs of its account hold"),
    "AssociationTimeLimit": WaitReason("with a longer time than its account allows", "shorten slurm.time", stuck=True),
    "QOSJobLimit": WaitReason("for other jobs of its QOS to end: their number is limited"),
    "QOSResourceLimit": WaitReason("for resources that other jobs of its QOS hold"),
    "QOSTimeLimit": WaitReason("with a longer time than its QOS allows", "shorten slurm.time", stuck=True),
    "MaxMemPerLimit": WaitReason(
        "with more memory per CPU or node than the partition allows", "a smaller slurm.mem", stuck=True
    ),
    "MaxPoweredUpNodes": WaitReason("for nodes to be powered down: only a limited number may be up at once"),
    "MpiPortsBusy": WaitReason("for ports that MPI needs and other jobs hold"),
    "NvidiaImexChannels": WaitReason("for a free NVLink channel (IMEX)"),
    "BurstBufferResources": WaitReason("for space in the burst buffer"),
    "BurstBufferStageIn": WaitReason("for its data to be copied into the burst buffer"),
    "BurstBufferOperation": WaitReason("on hold: the burst buffer failed", _ADMIN, stuck=True),
    "Cleaning": WaitReason("for what is left of its last start to be cleaned up"),
    "Prolog": WaitReason("for its prolog to end: the nodes are being made ready"),
    "FedJobLock": WaitReason("for the federation's clusters to agree on who runs it"),
    "FrontEndDown": WaitReason("for a front-end node that is down", _ADMIN),
    "PowerNotAvail": WaitReason("for electrical power"),
    "PowerReserved": WaitReason("for electrical power that is reserved"),
    "DeadLine": WaitReason("though its deadline can no longer be met", "cancel it", stuck=True),
    "SystemFailure": WaitReason("after a failure of the system", _ADMIN),
    "JobLaunchFailure": WaitReason("after its launch failed", _ADMIN),
    "NonZeroExitCode": WaitReason("after it ended with an error"),
    "TimeLimit": WaitReason("after it reached its time limit"),
    "InactiveLimit": WaitReason("after it was inactive for too long"),
    "OutOfMemory": WaitReason("after it ran out of memory"),
    "RaisedSignal": WaitReason("after it was ended by a signal"),
    "BlockMaxError": WaitReason("after too many errors of its block"),
    "BlockFreeAction": WaitReason("for its block to be freed"),
}

_TEXTS = (
    (r"\bheld\b", WaitReason("on hold", "`scontrol release JOB`, once its cause is fixed", stuck=True)),
    (r"reserved for maintenance", WaitReason("because maintenance begins before it could end", "a shorter slurm.time")),
    (r"may be reserved for other job", WaitReason("for nodes that are kept for another job")),
    (
        r"nodes required for job are down, drained or reserved",
        WaitReason("for nodes that are down, drained or kept for others", "another partition"),
    ),
    (
        r"reservation \S+ (was deleted|is invalid)",
        WaitReason("for a reservation that no longer exists", _CHANGE, stuck=True),
    ),
    (
        r"not (in group )?permitted to use this partition",
        WaitReason("in a partition closed to it", _CHANGE, stuck=True),
    ),
    (r"burst.?buffer", WaitReason("for the burst buffer", _ADMIN)),
    (
        r"job is at or exceeds .*(minutes|wall)",
        WaitReason("with its account's or QOS's budget of time used up", "more budget"),
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


def wait_reason(reason: str) -> WaitReason:
    """Return the WaitReason that explains `reason`, Slurm's word or text for why a job waits; an unknown reason is
    quoted. For "ReqNodeNotAvail, UnavailableNodes:n[1-2]" the explanation names the nodes."""
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
    return WaitReason(f"(Slurm: {reason})")


def _limit_wait(reason: str) -> WaitReason | None:
    """Return the WaitReason for a Slurm reason that names a limit of an account or QOS: AssocGrp*, AssocMax*, QOSGrp*,
    QOSMax*, QOSMin*, Max*PerAccount, Max*RunMinsPerUser; None for other reasons."""
    match = re.fullmatch(_LIMIT, reason)
    if not match:
        return None
    scope, what, minutes, per = match.group("scope", "what", "minutes", "per")
    owner = "account" if scope.startswith("Assoc") else "QOS"
    amount = _RESOURCES.get(what.upper(), "time") + (" × minutes" if minutes else "")
    if scope == "QOSMin":
        return WaitReason(f"with less than the least {amount} that its QOS takes", _CHANGE, stuck=True)
    if per in ("PerJob", "PerNode"):
        one = "node" if per == "PerNode" else "job"
        return WaitReason(f"with more {amount} than its {owner} allows one {one}", "ask for less", stuck=True)
    if minutes == "Minutes" or what == "Wall":
        return WaitReason(f"because its {owner} has used up its {amount}", "another account or QOS, or more budget")
    who = {"PerUser": "QOS lets you", "PerAccount": "QOS lets your account"}.get(per or "", owner + " may")
    if what.startswith(("Job", "SubmitJob")):
        return WaitReason(f"for other jobs to end: its {who} have a limited number")
    words = f"for other jobs to end: its {who} use a limited amount of {amount} at once"
    return WaitReason(words, "ask for less, or wait")
