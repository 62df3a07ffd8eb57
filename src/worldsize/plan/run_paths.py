"""The run directory's layout, in one place.

<run id>/                 0700, its files 0600
  job.yml                 the job as resolved: `rerun` starts it again
  plan.json               the plan that every node starts
  record.json             versions, git commit, hosts, user, time
  environment.json        the content of its environment, as a lock file: `rerun` builds it again
  code.json               the content of the snapshot: path, kind, size, digest of each file
  code.diff               uncommitted changes of the code, if it is in a git repository
  submission.txt          exactly what was passed to the compute
  batch.log               output of a scheduler's batch script
  job                     the scheduler's job that started it: a link without a target
  agent.pyz               the agent that ran it
  launcher-NAME.py        a launcher of another package, which agents load
  preparing               until it is submitted: a link that names the process that prepares it
  handle.json             the compute's native id, once submitted
  relay.key               on Azure ML: the key that proves that a line of a node's log is the agent's
  relay/                  on Azure ML: the position to which each node's log has been read
  trial.json              of a trial of a search: its measurements, or why there are none
  cancel.json             present once a user requested to cancel it
  result.json             the final state; written once, by the first process that settles it
  code/                   the snapshot, the ranks' working directory
  inrank/                 files that Python ranks load: the exception hook, and worldsize_inrank/; bin/:
                          nvidia-smi of a rehearsal; a batch script, and the programs (srun, scontrol,
                          module, …) that it finds first on its PATH: shims/ on virtual nodes, real/ on a cluster
  mlruns/                 MLflow logs of the ranks, of all attempts
  outputs/  user_logs/    results of the job (./outputs and ./logs of the command)
  attempt-0/
    `errands/ID/`         a command that a user executes next to the ranks, if no other way leads to the nodes
    steps/step-0000.json  the ranks that each srun of a batch script started, and how it ended
    rendezvous.json       the head's address and ports
    check.json            the result of a check of the nodes before their ranks started
    scheduler.json        the scheduler's report of its job after this attempt had ended, if it contained facts
    control.sock          the socket at which virtual nodes join the head, until all have
    isolation.json        of a rehearsal: why its network could not be cut, or its disks could not be separated
    disks/                of a rehearsal: the mount points of the nodes' own disks, each seen by its node alone
    debugger-00000.json   the address at which a debugger can attach to the rank that waits for one
    metrics/rank-00000.jsonl  values that a rank has logged with worldsize.log
    metrics/mlflow-ID-0   when a rank opened this MLflow run in the attempt, in Unix seconds
    metrics/files-0000.jsonl  files of TensorBoard that the ranks of a node write, as its agent has seen
    samples/node-0000.jsonl   CPUs, memory, network and GPUs that a node's ranks use
    facts/node-0000.json  hardware of a node, and software that its ranks find installed
    stacks/rank-00000.txt stacks of a rank's threads, written on request; each rank opens its own
    stacks/rank-00000.dump  content of its Flight Recorder on request; rank-00000.nccl.dump: NCCL's own recorder
    stacks/nccl-rank-0    content of that one when NCCL's watchdog gave a call up
    notify.log            output of the job's `notify` command, call by call
    hang.json             the judgement on the latest examination of a silent run
    hostfile              the nodes in the list format of other launchers
    launch/               programs that such a launcher starts first, and that become the ranks
    logs/rank-00000.times times and sizes in bytes of the rank's log: a line of both numbers
    events/node-0000.jsonl  logs/rank-00000.log  logs/agent-0000.log  exit/node-0000.json
    errors/rank-00000.json

Paths are plain strings rather than pathlib's. The agent starts once per node, and importing pathlib would double its
start time.
"""

from __future__ import annotations

import os

from worldsize.common.numbers import parse_digits

_ATTEMPT = "attempt-"
LAUNCHER_PREFIX = "launcher-"
"""Prefix of the names of files of other packages' launchers."""

NODE_PROGRAM_FILE = "visit.py"
"""Name in `errands/ID/` of the program that each node executes (`wings.node_commands.agent.run_command`). It is part of
the protocol: agents of running runs start the program by this name."""


class RunPaths:
    """Paths inside one run directory. No method accesses the disk."""

    def __init__(self, root: str, attempt: int = 0) -> None:
        at = os.path.join(root, "")  # joined once, since a list of many runs creates many of these
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
        """Return the path of the file with the stacks of a node's ranks that were collected in the watchdog's
        examination `number` of a silent run."""
        return os.path.join(self.stacks_dir, f"node-{node_rank:04d}-{number:04d}.jsonl")

    @property
    def judged(self) -> str:
        """The path of the judgement on the latest examination of a silent run."""
        return self.attempt_dir + "/hang.json"

    def agent_log(self, node_rank: int) -> str:
        return os.path.join(self.logs_dir, f"agent-{node_rank:04d}.log")

    def launcher_log(self, node_rank: int, launcher: str = "torchrun") -> str:
        """Return the path of the log with the output of a launcher such as torchrun itself, on one node, if a launcher
        other than the agent starts the ranks."""
        return os.path.join(self.logs_dir, f"{launcher}-{node_rank:04d}.log")

    def setup_log(self, node_rank: int) -> str:
        """Return the path of the log with the output of the job's modules and setup lines on a node, if each node
        executes them."""
        return f"{self.batch_log[: -len('.log')]}-{node_rank:04d}.log" if node_rank else self.batch_log

    def rank_log(self, rank: int) -> str:
        return os.path.join(self.logs_dir, f"rank-{rank:05d}.log")

    def rank_times(self, rank: int) -> str:
        """Return the path of the file in which the agent records when the rank's log had which size, for the times of
        its lines."""
        return os.path.join(self.logs_dir, f"rank-{rank:05d}.times")

    def debugger(self, rank: int) -> str:
        """Return the path of the JSON file with the address at which a debugger can attach to rank `rank`."""
        return os.path.join(self.attempt_dir, f"debugger-{rank:05d}.json")

    def rank_error(self, rank: int) -> str:
        return os.path.join(self.errors_dir, f"rank-{rank:05d}.json")

    def logged_values(self, rank: int) -> str:
        """Return the path of the file (JSON lines) with the values that a rank has logged with `worldsize.log`."""
        return os.path.join(self.metrics_dir, f"rank-{rank:05d}.jsonl")

    def tensorboard_files(self, node_rank: int) -> str:
        """Return the path of the file (JSON lines) that lists the TensorBoard files that the ranks of a node have had
        open."""
        return os.path.join(self.metrics_dir, f"files-{node_rank:04d}.jsonl")

    def samples(self, node_rank: int) -> str:
        """Return the path of the file (JSON lines) with the resource usage of a node's ranks, sampled by the node's
        agent."""
        return os.path.join(self.samples_dir, f"node-{node_rank:04d}.jsonl")

    def node_facts(self, node_rank: int) -> str:
        """Return the path of the JSON file with the facts about a node's hardware and software, as the node's agent has
        found them."""
        return os.path.join(self.facts_dir, f"node-{node_rank:04d}.json")

    def common_directories(self) -> list[str]:
        """Return the paths of the directories that both a run directory and an array's directory have: code, outputs,
        user_logs and inrank."""
        return [self.code, self.outputs, self.user_logs, self.inrank]

    def directories(self) -> list[str]:
        """Return the paths of all directories of the run and its attempt that must exist before a node starts, parents
        first."""
        return [
            *self.common_directories(),
            self.attempt_dir,
            self.events_dir,
            self.logs_dir,
            self.exit_dir,
            self.errors_dir,
        ]


def latest_attempt(paths: RunPaths) -> RunPaths:
    """Return the RunPaths of the run's latest attempt that has begun; `paths` itself if none is later, or if the run
    directory cannot be read."""
    try:
        names = os.listdir(paths.root)
    except OSError:
        return paths
    numbers = [parse_digits(name[len(_ATTEMPT) :]) for name in names if name.startswith(_ATTEMPT)]
    newest = max([number for number in numbers if number is not None], default=0)
    return RunPaths(paths.root, newest) if newest > paths.attempt else paths
