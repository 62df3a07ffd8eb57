"""The run directory's layout, in one place.

```
<run id>/                 0700, its files 0600
  job.yml                 the job as resolved: what `rerun` starts again
  plan.json               what every node starts
  record.json             versions, git commit, hosts, who, when
  code.json               what the snapshot holds: path, kind, size, digest of each file
  code.diff               uncommitted changes of the code, when it lies in a git repository
  submission.txt          exactly what the compute was given
  agent.pyz               the agent that ran it
  preparing               until it is submitted: a link that names the process that prepares it
  handle.json             the compute's native id, once submitted
  cancel.json             present once somebody asked to cancel
  result.json             the final state; written once, by whoever settles it first
  code/                   the snapshot, the ranks' working directory
  inrank/                 what Python ranks load: the exception hook
  outputs/  user_logs/    what the job leaves behind (./outputs and ./logs of the command)
  attempt-0/
    rendezvous.json       the head's address and ports
    events/node-0000.jsonl  logs/rank-00000.log  logs/agent-0000.log  exit/node-0000.json  errors/rank-00000.json
```

Plain strings rather than pathlib: the agent starts once per node, and importing pathlib costs as much as
everything else it does.
"""

from __future__ import annotations

import os


class RunPaths:
    """Paths inside one run directory; touches no disk."""

    def __init__(self, root: str, attempt: int = 0) -> None:
        join = os.path.join
        self.root = root
        self.attempt = attempt
        self.job = join(root, "job.yml")
        self.plan = join(root, "plan.json")
        self.record = join(root, "record.json")
        self.manifest = join(root, "code.json")
        self.diff = join(root, "code.diff")
        self.submission = join(root, "submission.txt")
        self.agent = join(root, "agent.pyz")
        self.preparing = join(root, "preparing")
        self.handle = join(root, "handle.json")
        self.cancel = join(root, "cancel.json")
        self.result = join(root, "result.json")
        self.code = join(root, "code")
        self.outputs = join(root, "outputs")
        self.user_logs = join(root, "user_logs")
        self.inrank = join(root, "inrank")
        self.attempt_dir = join(root, "attempt-%d" % attempt)
        self.rendezvous = join(self.attempt_dir, "rendezvous.json")
        self.events_dir = join(self.attempt_dir, "events")
        self.logs_dir = join(self.attempt_dir, "logs")
        self.exit_dir = join(self.attempt_dir, "exit")
        self.errors_dir = join(self.attempt_dir, "errors")

    @property
    def run_id(self) -> str:
        return os.path.basename(self.root)

    def events(self, node_rank: int) -> str:
        return os.path.join(self.events_dir, "node-%04d.jsonl" % node_rank)

    def exit_record(self, node_rank: int) -> str:
        return os.path.join(self.exit_dir, "node-%04d.json" % node_rank)

    def agent_log(self, node_rank: int) -> str:
        return os.path.join(self.logs_dir, "agent-%04d.log" % node_rank)

    def launcher_log(self, node_rank: int) -> str:
        """What torchrun itself prints, where it starts the ranks."""
        return os.path.join(self.logs_dir, "torchrun-%04d.log" % node_rank)

    def rank_log(self, rank: int) -> str:
        return os.path.join(self.logs_dir, "rank-%05d.log" % rank)

    def rank_error(self, rank: int) -> str:
        return os.path.join(self.errors_dir, "rank-%05d.json" % rank)

    def directories(self) -> list[str]:
        """Every directory that must exist before a node starts, parents first."""
        return [
            self.code,
            self.outputs,
            self.user_logs,
            self.inrank,
            self.attempt_dir,
            self.events_dir,
            self.logs_dir,
            self.exit_dir,
            self.errors_dir,
        ]
