"""What the cluster's configuration files say. Pure: from a flavour and a folder to text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Flavour(NamedTuple):
    """What one cluster differs from another in.

    nodes           how many compute nodes
    cpus            CPUs that each node claims; with `affinity` the real ones instead
    gpus            GPUs per node; they are clones of /dev/null
    accounting      slurmdbd with MariaDB; without it sacct has nothing to tell
    enforce         submissions need an account and a QOS that exist: `research` and `teaching`; `normal` and `urgent`
    affinity        task/affinity binds tasks to the CPUs that this machine really has
    memory          a step that takes more memory than it asked for is killed; looked at every second
    limits          the kernel gives a job no more memory than it asked for, by control groups of version 1
    min_job_age     seconds after its end for which squeue and scontrol still know a job
    slurmd_timeout  seconds after which a silent node is down
    """

    nodes: int = 4
    cpus: int = 8
    gpus: int = 4
    accounting: bool = True
    enforce: bool = False
    affinity: bool = False
    memory: bool = False
    limits: bool = False
    min_job_age: int = 300
    slurmd_timeout: int = 5


class Machine(NamedTuple):
    """What has to be known of this machine: its name, Slurm's version, its CPUs as `slurmd -C` has them.

    groups   the version of the control groups that its nodes have; 0: none
    """

    name: str
    slurm: tuple[int, int]
    cpus: str
    groups: int = 0


class Network(NamedTuple):
    """A /24 of the range that RFC 2544 keeps for tests on one machine; its number tells clusters apart."""

    number: int

    @property
    def prefix(self) -> str:
        return "198.%d.%d" % (18 + self.number // 256, self.number % 256)

    @property
    def link(self) -> str:
        """The login side's end of the cable, the only trace of a cluster in the machine's own network."""
        return "wsslurm%d" % self.number

    @property
    def login(self) -> str:
        return self.prefix + ".1"

    @property
    def controller(self) -> str:
        return self.prefix + ".2"

    def node(self, index: int) -> str:
        """The address of node `index`, counted from 1."""
        return "%s.%d" % (self.prefix, 10 + index)


def node_names(flavour: Flavour) -> list[str]:
    return ["node%d" % (index + 1) for index in range(flavour.nodes)]


def hosts(flavour: Flavour, network: Network, here: str) -> str:
    """`here` is this machine's own name. Slurm asks for it, and stands still for seconds where nobody knows it."""
    taken = {"localhost", "login", "ctl", *node_names(flavour)}
    names = " ".join(["login", *sorted({here, here.partition(".")[0]} - taken - {""})])
    lines = ["127.0.0.1 localhost", "%s %s" % (network.login, names), network.controller + " ctl"]
    lines += ["%s %s" % (network.node(index + 1), name) for index, name in enumerate(node_names(flavour))]
    return "\n".join(lines) + "\n"


_SLURM = """\
ClusterName=testbed
SlurmctldHost=ctl({controller})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock,cred_expire=5
StateSaveLocation={folder}/local/state
SlurmdSpoolDir={folder}/nodes/%n
SlurmctldPidFile={folder}/log/slurmctld.pid
SlurmdPidFile={folder}/log/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/{tracking}
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1,\
default_queue_depth=1000,partition_job_depth=1000,sched_max_job_start=0
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=5
SlurmdTimeout={slurmd_timeout}
MessageTimeout=5
TCPTimeout=1
SlurmctldTimeout=30
InactiveLimit=0
MinJobAge={min_job_age}
MaxArraySize=10001
MaxJobCount=20000
MailProg={folder}/etc/mail
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobcomp.log
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency={gather_every}
PropagateResourceLimits=NONE
"""
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={controller}
AccountingStoragePass={folder}/munge/sock
AccountingStorageTRES=gres/gpu
"""
_PARTITIONS = """\
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=100 PreemptMode=OFF
PartitionName=short Nodes=ALL MaxTime=2 State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=cpu Nodes=ALL MaxNodes=2 MaxTime=60 State=UP PriorityTier=10 PreemptMode=OFF
"""
_SLURMDBD = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
DbdHost=ctl
DbdAddr={controller}
SlurmUser=root
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/log/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct
"""
_MAIL = """\
#!/bin/sh
printf '%s\\n' "$*" >> "{folder}/log/mail.log"
"""


def files(flavour: Flavour, network: Network, folder: str, machine: Machine) -> Mapping[str, str]:
    """File name in `folder`/etc → its text."""
    values = {
        "folder": folder,
        "controller": network.controller,
        "min_job_age": flavour.min_job_age,
        "slurmd_timeout": flavour.slurmd_timeout,
        "tracking": "cgroup" if machine.groups else "linuxproc",
        "gather_every": 1 if flavour.memory else 5,
    }
    written = {
        "hosts": hosts(flavour, network, machine.name),
        "slurm.conf": _SLURM.format(**values) + _options(flavour, machine, values) + _nodes(flavour, network, machine),
        "cgroup.conf": _cgroup(flavour, machine),
        "gres.conf": "AutoDetect=off\n" + _gpus(flavour, folder),
        "mail": _MAIL.format(**values),
    }
    if flavour.accounting:
        written["slurmdbd.conf"] = _SLURMDBD.format(**values)
    return written


def _cgroup(flavour: Flavour, machine: Machine) -> str:
    """That control groups are not used, each version of Slurm wants to be told in its own way."""
    if flavour.limits:
        mounted = "" if machine.slurm >= (24, 5) else "CgroupAutomount=no\n"
        return mounted + "CgroupPlugin=cgroup/v1\nConstrainRAMSpace=yes\nMinRAMSpace=1\n"
    if machine.groups:
        return "CgroupPlugin=cgroup/v%d\n" % machine.groups + ("IgnoreSystemd=yes\n" if machine.groups == 2 else "")
    if machine.slurm >= (23, 2):
        return "CgroupPlugin=disabled\n"
    return "CgroupAutomount=no\n" + ("CgroupPlugin=cgroup/v1\n" if machine.slurm >= (22, 5) else "")


def _options(flavour: Flavour, machine: Machine, values: Mapping[str, object]) -> str:
    text = _ACCOUNTING.format(**values) if flavour.accounting else ""
    if flavour.enforce:
        text += "AccountingStorageEnforce=associations,limits,qos\n"
    plugins = ["task/affinity"] * flavour.affinity + ["task/cgroup"] * bool(machine.groups or flavour.limits)
    if plugins:
        text += "TaskPlugin=%s\n" % ",".join(plugins)
    if flavour.memory:
        text += "JobAcctGatherParams=OverMemoryKill\n"
    return text


def _cpus(flavour: Flavour, machine: Machine) -> str:
    if flavour.affinity:
        return machine.cpus
    return "CPUs=%d Sockets=1 CoresPerSocket=%d ThreadsPerCore=1" % (flavour.cpus, flavour.cpus)


def _nodes(flavour: Flavour, network: Network, machine: Machine) -> str:
    rest = _cpus(flavour, machine) + " RealMemory=16000" + (" Gres=gpu:h100:%d" % flavour.gpus if flavour.gpus else "")
    addresses = {name: network.node(index + 1) for index, name in enumerate(node_names(flavour))}
    lines = ["NodeName=%s NodeAddr=%s %s State=UNKNOWN\n" % (name, at, rest) for name, at in addresses.items()]
    return "".join(lines) + _PARTITIONS


def _gpus(flavour: Flavour, folder: str) -> str:
    return "Name=gpu Type=h100 File=%s/gpu/gpu[0-%d]\n" % (folder, flavour.gpus - 1) if flavour.gpus else ""
