"""Messages of schedulers, launchers and shells."""

from __future__ import annotations

from worldsize.diagnose.signatures.signature import Role, Signature

LAUNCH = (
    Signature(
        "time-limit",
        r"DUE TO TIME LIMIT|job killed: walltime \d+ exceeded limit",
        "the scheduler ended it at its time limit",
        "ask for more time (limits.timeout, slurm: time), or continue from a checkpoint",
        "Slurm: slurmstepd",
    ),
    Signature(
        "preempted",
        r"DUE TO PREEMPTION|CANCELLED .* PREEMPT",
        "the scheduler took its nodes for a job that goes first",
        "run it again from its checkpoint; `requeue` lets the scheduler do so",
        "Slurm: slurmstepd",
    ),
    Signature(
        "requeued",
        r"CANCELLED AT .* DUE TO JOB REQUEUE",
        "the scheduler put it back into its queue",
        "nothing: it starts again; `worldsize logs --attempt N` shows each start",
        "Slurm: slurmstepd",
        Role.CONFIRMATION,
    ),
    Signature(
        "node-failed",
        r"CANCELLED AT .* DUE TO NODE FAILURE|srun: error: Node failure on (?P<detail>\S+)"
        r"|srun: error: (?:Cannot communicate with|Aborting, .* (?:to|on)) node \d+",
        "a node of it failed",
        "run it again; leave that node out (slurm.exclude: NAME)",
        "Slurm: slurmstepd, srun",
    ),
    Signature(
        "cancelled",
        r"slurmstepd\S*: error: \*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ \*\*\*",
        "Slurm was asked to cancel it",
        "nothing, if you did; `sacct -j JOB -o State%40` names the user",
        "Slurm: slurmstepd",
        Role.CONFIRMATION,
    ),
    Signature(
        "processes-stay",
        r"STEPD TERMINATED ON .* DUE TO JOB NOT ENDING WITH SIGNALS",
        "processes of it did not end, not even by SIGKILL",
        "they wait in the kernel, usually for a file server or a device: Slurm drains such a node; leave it out "
        "(slurm.exclude: NAME), and report it to the cluster's administrators",
        "Slurm: slurmstepd",
        Role.CONFIRMATION,
    ),
    Signature(
        "step-refused",
        r"srun: error: Unable to create step for job \d+: (?P<detail>.+)"
        r"|srun: error: Task launch for \S+ failed on node (?P<detail2>\S+: .+)"
        r"|srun: error: (?:task \d+|Application) launch failed: (?P<detail3>.+)",
        "Slurm could not start a step",
        "a step that asks for more than its job has (--mem, -c, -n and --gres of srun) is refused; a node that cannot "
        "start one should be left out (slurm.exclude: NAME)",
        "Slurm: srun",
    ),
    Signature(
        "step-ended",
        r"srun: error: (?P<detail>\S+: tasks? [\d,-]+: (?:Segmentation fault|Aborted|Bus error"
        r"|Illegal instruction|Floating point exception)(?: \(core dumped\))?)$",
        "Slurm saw a signal end a task",
        "the ranks' own output, or the node's log, has the reason",
        "Slurm: srun",
        Role.CONFIRMATION,
    ),
    Signature(
        "slots-missing",
        r"There are not enough slots available in the system",
        "mpirun has fewer slots than ranks to start",
        "`worldsize run -w NxM` starts the ranks itself; of an mpirun of your own: `--oversubscribe`, or fewer ranks",
        "Open MPI",
    ),
    Signature(
        "scheduler-unreachable",
        r"(?:srun|sbatch|salloc|squeue|scontrol|sinfo|sacct|scancel|slurm_\w{1,60})(?:: fatal| error|: error|): "
        r".{0,120}(?:Could not establish a configuration source|[Uu]nable to contact slurm controller)",
        "a command of Slurm found no controller",
        "`scontrol ping` shows whether it is up; a container has to see Slurm's configuration (/etc/slurm, SLURM_CONF) "
        "and munge's socket",
        "Slurm",
    ),
    Signature(
        "mpi-daemons",
        r"(?:ORTE|PRTE) (?:was unable to reliably start|has lost communication with)"
        r"|A daemon failed to report back after being spawned",
        "mpirun could not reach a node, or lost it",
        "look at that node; `type: mpi` needs no ssh between nodes",
        "Open MPI",
    ),
    Signature(
        "program-missing",
        r"(?:^|: )(?P<detail>[^\s:]+): command not found$|: command not found: (?P<detail2>\S+)$"
        r"|: \d+: (?:exec: )?(?P<detail3>[^\s:]+): not found$|: exec: (?P<detail4>[^\s:]+): not found$"
        r"|can't open file '(?P<detail5>[^']+)': \[Errno 2\]|execve\(\): (?P<detail6>.+): No such file or directory"
        r"|(?:(?:env|nohup|nice|xargs):|failed to (?:run command|execute)) [‘']?(?P<detail7>[^\s’':]+)[’']?: "
        r"No such file or directory$"
        r"|(?:^|/)bash: (?P<detail8>[^\s:]+): No such file or directory$"
        r"|sh: 0: [Cc]an(?:no|')t open (?P<detail9>[^\s:]+)"
        r"|(?:mpirun|mpiexec|prterun) was unable to find the specified executable file",
        "there is no such program or script on the node",
        "install it in the environment, load its module (`modules:`), or give its path; a script's path counts from "
        "the job's `code`",
        "shells, coreutils, Python, Open MPI, Slurm: slurmstepd",
    ),
    Signature(
        "library-missing",
        r"(?:^|[^\w.+-])(?P<detail>[\w.+-]+\.so[.\d]*): cannot open shared object file|cannot find -l(?P<detail2>\w+)",
        "a library was not found",
        "load its module (`modules:`), install it into the environment, or name its directory in LD_LIBRARY_PATH",
        "the dynamic linker",
    ),
    Signature(
        "library-version",
        r"version `(?P<detail>\w+_[\d.]+)' not found|undefined symbol: (?P<detail2>\w+)|binary incompatibility"
        r"|numpy\.dtype size changed|compiled against (?:NumPy )?(?:C-)?A[BP]I version \S+"
        r"|compiled using NumPy 1\.x cannot be run in",
        "two libraries do not fit together",
        "one environment with all packages from one place; build native ones where they run; on an older node build "
        "for its C library",
        "the dynamic linker, numpy",
    ),
)
