"""Lines of schedulers, launchers and shells, see `signature_lines`."""

from __future__ import annotations

from unit.diagnose.signature_example import Example

LAUNCH_EXAMPLES = (
    Example(
        "time-limit",
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T01:00:00 DUE TO TIME LIMIT ***",
        "time limit: 1 h",
    ),
    Example(
        "preempted",
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T01:00:00 DUE TO PREEMPTION ***",
        "the partition allows preemption",
    ),
    Example(
        "requeued",
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T01:00:00 DUE TO JOB REQUEUE ***",
        "a job requeue is not asked for",
    ),
    Example(
        "node-failed",
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T01:00:00 DUE TO NODE FAILURE, SEE LOG ***",
        "no node failure in 30 days",
    ),
    Example("node-failed", "srun: error: Node failure on n2", "Node failure on n2 is unlikely"),
    Example(
        "node-failed",
        "srun: error: Aborting, io error and missing step on node 1",
        "srun: error: Aborting, no step to wait for",
    ),
    Example(
        "node-failed", "srun: error: Cannot communicate with node 1.  Aborting job.", "Cannot communicate with node 1"
    ),
    Example(
        "cancelled",
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T01:00:00 ***",
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-29T01:00:00 ***",
    ),
    Example(
        "processes-stay",
        "slurmstepd: error: *** JOB 7 STEPD TERMINATED ON n1 AT 2026-11-29T01:00:00 DUE TO JOB NOT ENDING WITH "
        "SIGNALS ***",
        "the stepd terminated",
    ),
    Example(
        "step-refused",
        "srun: error: Unable to create step for job 7: Memory required by task is not available",
        "step 0 created",
    ),
    Example(
        "step-refused",
        "srun: error: Task launch for StepId=7.0 failed on node n2: Communication connection failure",
        "srun: task launch for StepId=7.0",
    ),
    Example(
        "step-refused",
        "srun: error: Application launch failed: Invalid job credential",
        "srun: launch of the application",
    ),
    Example(
        "step-ended",
        "srun: error: n2: tasks 1,3-4: Bus error (core dumped)",
        "srun: error: n2: task 1: Killed",
    ),
    Example("step-ended", "srun: error: n2: task 1: Segmentation fault (core dumped)", "n2: task 1 has no fault"),
    Example(
        "slots-missing",
        "There are not enough slots available in the system to satisfy the 4 slots",
        "4 slots are available",
    ),
    Example(
        "mpi-daemons",
        "ORTE was unable to reliably start one or more daemons.",
        "one or more daemons were started",
    ),
    Example(
        "mpi-daemons",
        "A daemon failed to report back after being spawned. This could",
        "the daemon was spawned",
    ),
    Example(
        "scheduler-unreachable",
        "srun: fatal: Could not establish a configuration source",
        "srun: a configuration source was established",
    ),
    Example(
        "scheduler-unreachable",
        "squeue: error: slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "squeue: contacts the slurm controller",
    ),
    Example("program-missing", "bash: run.sh: No such file or directory", "bash: run.sh: line 3: fi"),
    Example("program-missing", "dash: 0: cannot open run.sh: No such file", "sh: 0: opened run.sh"),
    Example("program-missing", "setsid: failed to execute x: No such file or directory", "failed to execute step 3"),
    Example(
        "program-missing",
        "prterun was unable to find the specified executable file, and therefore did",
        "mpirun found the executable file",
    ),
    Example(
        "program-missing", "bash: line 1: nosuchprogram: command not found", "the command was not found to be slow"
    ),
    Example("program-missing", "sh: 1: nosuchprogram: not found", "epoch 1: checkpoint: not found, starting anew"),
    Example("program-missing", "bash: line 1: exec: nosuchprogram: not found", "key lr: not found"),
    Example("program-missing", "zsh:1: command not found: nosuchprogram", "command not found in the list"),
    Example(
        "program-missing",
        "slurmstepd-n1: error: execve(): nosuchprogram: No such file or directory",
        "execve() of nosuchprogram",
    ),
    Example("program-missing", "env: ‘python9’: No such file or directory", "env: python9 is set"),
    Example(
        "program-missing",
        "timeout: failed to run command ‘python9’: No such file or directory",
        "timeout: the command runs",
    ),
    Example(
        "program-missing",
        "python: can't open file '/job/tran.py': [Errno 2] No such file or directory",
        "python: opened file '/job/train.py'",
    ),
    Example(
        "library-missing",
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        "opened shared object file libcudart.so.12",
    ),
    Example(
        "library-version",
        "ImportError: /lib/libc.so.6: version `GLIBC_2.34' not found (required by /opt/lib/x.so)",
        "version 2.34 of glibc is used",
    ),
    Example(
        "library-version",
        "RuntimeError: module was compiled against NumPy C-API version 0x10 (NumPy 1.23) but the running NumPy has "
        "C-API version 0xf.",
        "NumPy C-API version 0x10",
    ),
)
