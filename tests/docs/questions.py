"""Questions of people who are new, where the documentation answers them, and what they would search for."""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """A question.

    text    as a person asks it
    search  what the person types into the site's search
    pages   that answer it, below docs/; one of them is among the first results
    answer  words on one of these pages
    """

    text: str
    search: str
    pages: tuple[str, ...]
    answer: str


QUESTIONS = (
    Question(
        "My job was killed for memory. What does exit code 137 mean, and what can I do?",
        "OOM",
        ("causes/machine/host-memory.md",),
        "fewer ranks or loader workers per node",
    ),
    Question(
        "How do I run the batch script that I already have?",
        "batch script",
        ("how-to/clusters/batch-script.md",),
        "worldsize run job.slurm",
    ),
    Question(
        "How do I run my Azure ML job file on this machine or on Slurm?",
        "Azure ML job file",
        ("how-to/clusters/azure-job.md",),
        "[azure.data]",
    ),
    Question(
        "How does my job use my conda environment?",
        "conda environment",
        ("how-to/environments/conda-environment.md",),
        "environment: environment.yml",
    ),
    Question(
        "My run hangs. Which rank is it?",
        "hangs",
        ("how-to/runs/hang.md", "explanation/hang-detection.md"),
        "worldsize stacks",
    ),
    Question(
        "How do I get the files that my run has written?",
        "bring outputs home",
        ("how-to/runs/outputs-home.md",),
        "worldsize fetch",
    ),
    Question(
        "What do I do first on a new cluster?",
        "new cluster",
        ("how-to/clusters/new-cluster.md",),
        "worldsize nodes",
    ),
    Question(
        "The compute nodes have no internet. How do I get data and wheels there?",
        "nodes without a network",
        ("how-to/clusters/offline.md",),
        "stage:",
    ),
    Question(
        "How do I ask for GPUs on Slurm?",
        "GPUs on Slurm",
        ("how-to/clusters/slurm.md", "reference/job-file/schedulers.md"),
        "gpus_per_node",
    ),
    Question(
        "How do I run one job with several learning rates?",
        "matrix",
        ("how-to/training/arrays.md",),
        "--matrix",
    ),
    Question(
        "Which variable has the rank in my script?",
        "RANK variable",
        ("reference/variables.md",),
        "| `LOCAL_RANK` |",
    ),
    Question(
        "How do I debug one rank with pdb?",
        "pdb",
        ("how-to/runs/debugging.md",),
        "worldsize debug",
    ),
    Question(
        "What happens when my job is preempted?",
        "preempted",
        ("causes/launch/preempted.md", "reference/states.md"),
        "PREEMPTED",
    ),
    Question(
        "My script is for one GPU. Can I train it on several without changing it?",
        "unchanged script one process",
        ("how-to/training/data-parallel.md", "explanation/data-parallel-training.md"),
        "--data-parallel",
    ),
    Question(
        "How do I keep my Hugging Face token out of files and logs?",
        "secrets",
        ("reference/job-file/end-and-access.md", "explanation/trust.md"),
        "secrets: [",
    ),
    Question(
        "address already in use: what is it?",
        "address already in use",
        ("causes/communication/address-in-use.md",),
        "port",
    ),
    Question(
        "What does exit code 124 mean?",
        "exit codes",
        ("reference/exit-codes.md",),
        "| 124 |",
    ),
    Question(
        "Which keys does the JSON of `status` have?",
        "status JSON",
        ("reference/json/status-json.md", "reference/json/runs-json.md"),
        "`exit_code`",
    ),
    Question(
        "How many nodes are worth it for my training?",
        "benchmark scaling efficiency",
        ("how-to/training/bench.md", "how-to/training/bench-results.md"),
        "worldsize bench",
    ),
    Question(
        "Is my data safe on a machine that others use?",
        "security other users",
        ("explanation/trust.md",),
        "Who is trusted with what",
    ),
    Question(
        "How do I run MPI or Horovod programs?",
        "mpirun Horovod",
        ("how-to/training/frameworks.md", "how-to/training/horovod.md"),
        "type: horovod",
    ),
    Question(
        "How does worldsize compare with torchrun in speed?",
        "performance",
        ("explanation/performance/index.md",),
        "first step over torchrun",
    ),
)
