"""The run directory's layout, in one place.

```
<run id>/                 0700, its files 0600
  job.yml                 the job as resolved: what `rerun` starts again
  plan.json               what every node starts
  record.json             versions, git commit, hosts, who, when
  environment.json        what the environment it runs in holds, as a lock file: what `rerun` builds again
  code.json               what the snapshot holds: path, kind, size, digest of each file
  code.diff               uncommitted changes of the code, when it lies in a git repository
  submission.txt          exactly what the compute was given
  batch.log               what a scheduler's batch script said
  job                     the scheduler's job that started it: a link that leads nowhere
  agent.pyz               the agent that ran it
  launcher-NAME.py        a launcher that another package brings, which agents load
  preparing               until it is submitted: a link that names the process that prepares it
  handle.json             the compute's native id, once submitted
  relay.key               on Azure ML: what proves that a line of a node's log is the agent's
  relay/                  on Azure ML: how far each node's log has been read
  trial.json              of a trial of a search: what it has measured, or why it did not
  cancel.json             present once somebody asked to cancel
  result.json             the final state; written once, by whoever settles it first
  code/                   the snapshot, the ranks' working directory
  inrank/                 what Python ranks load: the exception hook, and worldsize_inrank/; bin/: nvidia-smi of a
                          rehearsal; a batch script, and the programs (srun, scontrol, module, …) that it finds first on
                          its PATH: shims/ on virtual nodes, real/ on a cluster
  mlruns/                 what ranks have logged with MLflow, of all attempts
  outputs/  user_logs/    what the job leaves behind (./outputs and ./logs of the command)
  attempt-0/
    errands/ID/           a command that somebody executes beside the ranks, where no other way leads to the nodes
    steps/step-0000.json  what each srun of a batch script started, and how it ended
    rendezvous.json       the head's address and ports
    check.json            what a check of the nodes found before their ranks started
    scheduler.json        what the scheduler said of its job when this attempt had ended, where that told something
    control.sock          where virtual nodes join the head, until all have
    isolation.json        of a rehearsal: why its network could not be cut, or its disks not be kept apart
    disks/                of a rehearsal: where each node's own disk is mounted, seen by that node alone
    debugger-00000.json   where a debugger can attach to the rank that waits for one
    metrics/rank-00000.jsonl  what a rank has logged with worldsize.log
    metrics/mlflow-ID-0   when a rank opened this MLflow run in the attempt, in Unix seconds
    metrics/files-0000.jsonl  which files of TensorBoard the ranks of a node write, as its agent has seen
    samples/node-0000.jsonl   what a node's ranks use of CPUs, memory, network and GPUs
    facts/node-0000.json  what a node is made of, and what its ranks find installed
    stacks/rank-00000.txt what a rank has written of its threads' stacks, when it was asked to; each opens its own
    stacks/rank-00000.dump  what its Flight Recorder knew when it was asked; rank-00000.nccl.dump: NCCL's own recorder
    stacks/nccl-rank-0    what that one knew when NCCL's watchdog gave a call up
    notify.log            what the job's `notify` command has printed, call by call
    hang.json             how the latest look at a silent run was judged
    hostfile              the nodes as other launchers want them listed
    launch/               what such a launcher starts first: it becomes the rank
    logs/rank-00000.times when the rank's log had how many bytes: a line of both numbers
    events/node-0000.jsonl  logs/rank-00000.log  logs/agent-0000.log  exit/node-0000.json  errors/rank-00000.json
```

Plain strings rather than pathlib: the agent starts once per node, and importing pathlib costs as much as
everything else it does.
"""

from __future__ import annotations

import os

from worldsize.common.numbers import parse_digits

_ATTEMPT = "attempt-"
LAUNCHER_PREFIX = "launcher-"
"""Begins the names of files of other packages' launchers."""

NODE_PROGRAM_FILE = "visit.py"
"""The name in `errands/ID/` of the program that each node executes (`wings.node_commands.agent.run_command`). It is
protocol: agents of running runs start the program by this name."""


class RunPaths:
    """Paths inside one run directory; touches no disk."""

    def __init__(self, root: str, attempt: int = 0) -> None:
        at = os.path.join(root, "")  # joined once: a list of many runs makes many of these
        self.root = root
        self.attempt = attempt
        self.job = at + "job.yml"
        self.plan = at + "plan.json"
        self.record = at + "record.json"
        self.environment = at + "environment.json"
        self.manifest = at + "code.json"
        self.diff = at + "code.diff"
        self.submission = at + "submission.txt"
        self.batch_log = at + "batch.log"
        self.agent = at + "agent.pyz"
        self.preparing = at + "preparing"
        self.handle = at + "handle.json"
        self.cancel = at + "cancel.json"
        self.result = at + "result.json"
        self.code = at + "code"
        self.outputs = at + "outputs"
        self.user_logs = at + "user_logs"
        self.inrank = at + "inrank"
        self.script = at + "inrank/script.sh"
        self.mlruns = at + "mlruns"
        self.attempt_dir = at + f"{_ATTEMPT}{attempt}"
        self.rendezvous = self.attempt_dir + "/rendezvous.json"
        self.scheduler_record = self.attempt_dir + "/scheduler.json"
        self.control_socket = self.attempt_dir + "/control.sock"
        self.events_dir = self.attempt_dir + "/events"
        self.logs_dir = self.attempt_dir + "/logs"
        self.exit_dir = self.attempt_dir + "/exit"
        self.errors_dir = self.attempt_dir + "/errors"
        self.metrics_dir = self.attempt_dir + "/metrics"
        self.samples_dir = self.attempt_dir + "/samples"
        self.facts_dir = self.attempt_dir + "/facts"
        self.stacks_dir = self.attempt_dir + "/stacks"
        self.steps_dir = self.attempt_dir + "/steps"
        self.errands = self.attempt_dir + "/errands"
        self.isolation = self.attempt_dir + "/isolation.json"
        self.disks = self.attempt_dir + "/disks"
        self.rank_notices = self.attempt_dir + "/notices.jsonl"
        self.notify_log = self.attempt_dir + "/notify.log"
        self.hostfile = self.attempt_dir + "/hostfile"
        self.launch_dir = self.attempt_dir + "/launch"

    @property
    def run_id(self) -> str:
        return os.path.basename(self.root)

    def events(self, node_rank: int) -> str:
        return os.path.join(self.events_dir, f"node-{node_rank:04d}.jsonl")

    def exit_record(self, node_rank: int) -> str:
        return os.path.join(self.exit_dir, f"node-{node_rank:04d}.json")

    def stacks_of_node(self, node_rank: int, number: int) -> str:
        """What was seen of a node's ranks when they were looked at for the so-manieth time."""
        return os.path.join(self.stacks_dir, f"node-{node_rank:04d}-{number:04d}.jsonl")

    @property
    def judged(self) -> str:
        """How the latest look at a silent run was judged."""
        return self.attempt_dir + "/hang.json"

    def agent_log(self, node_rank: int) -> str:
        return os.path.join(self.logs_dir, f"agent-{node_rank:04d}.log")

    def launcher_log(self, node_rank: int, launcher: str = "torchrun") -> str:
        """What a launcher itself prints, where another than the agent starts the ranks."""
        return os.path.join(self.logs_dir, f"{launcher}-{node_rank:04d}.log")

    def setup_log(self, node_rank: int) -> str:
        """What modules and setup print on a node, where each executes them."""
        return f"{self.batch_log[: -len('.log')]}-{node_rank:04d}.log" if node_rank else self.batch_log

    def rank_log(self, rank: int) -> str:
        return os.path.join(self.logs_dir, f"rank-{rank:05d}.log")

    def rank_times(self, rank: int) -> str:
        """When the rank's log had how many bytes, as its agent has seen."""
        return os.path.join(self.logs_dir, f"rank-{rank:05d}.times")

    def debugger(self, rank: int) -> str:
        """Where a debugger can attach to the rank."""
        return os.path.join(self.attempt_dir, f"debugger-{rank:05d}.json")

    def rank_error(self, rank: int) -> str:
        return os.path.join(self.errors_dir, f"rank-{rank:05d}.json")

    def logged_values(self, rank: int) -> str:
        """What a rank has logged with `worldsize.log`."""
        return os.path.join(self.metrics_dir, f"rank-{rank:05d}.jsonl")

    def tensorboard_files(self, node_rank: int) -> str:
        """Which files of TensorBoard the ranks of a node have had open."""
        return os.path.join(self.metrics_dir, f"files-{node_rank:04d}.jsonl")

    def samples(self, node_rank: int) -> str:
        """What a node's ranks use, sampled by its agent."""
        return os.path.join(self.samples_dir, f"node-{node_rank:04d}.jsonl")

    def node_facts(self, node_rank: int) -> str:
        """What a node is made of, as its agent has found."""
        return os.path.join(self.facts_dir, f"node-{node_rank:04d}.json")

    def common_directories(self) -> list[str]:
        """Those that an array of runs has too: what its elements begin with."""
        return [self.code, self.outputs, self.user_logs, self.inrank]

    def directories(self) -> list[str]:
        """Return every directory that must exist before a node starts, parents first."""
        return [
            *self.common_directories(),
            self.attempt_dir,
            self.events_dir,
            self.logs_dir,
            self.exit_dir,
            self.errors_dir,
        ]


def latest_attempt(paths: RunPaths) -> RunPaths:
    """Return the paths of the latest attempt that has begun; `paths` itself where none is later, or nothing can be
    read."""
    try:
        names = os.listdir(paths.root)
    except OSError:
        return paths
    numbers = [parse_digits(name[len(_ATTEMPT) :]) for name in names if name.startswith(_ATTEMPT)]
    newest = max([number for number in numbers if number is not None], default=0)
    return RunPaths(paths.root, newest) if newest > paths.attempt else paths
