"""What signals say of the ranks that they ended."""

from __future__ import annotations

from worldsize.diagnose.signatures.signature import Signature

SIGNALS = {
    130: "interrupted",
    132: "illegal-instruction",
    134: "native-abort",
    135: "bus-error",
    136: "arithmetic-error",
    137: "killed",
    139: "segmentation-fault",
    143: "terminated",
    152: "cpu-time-limit",
}
"""By exit code, the id of a row, of `ENDS` or of the tables."""

ENDS = {
    "bus-error": Signature(
        "bus-error",
        "",
        "a file or shared memory that it had mapped was not there (bus error)",
        "a larger /dev/shm where that was full (shm_size of the job); files that are read must not be cut short "
        "meanwhile",
        "Linux",
    ),
    "arithmetic-error": Signature(
        "arithmetic-error",
        "",
        "native code divided by zero, or the like (SIGFPE)",
        "PYTHONFAULTHANDLER=1 shows the Python line",
        "Linux",
    ),
    "killed": Signature(
        "killed",
        "",
        "somebody killed it (SIGKILL), and left no word",
        "the node's kernel log, or the scheduler's accounting (`sacct -o MaxRSS`), says whether memory was full; else "
        "look for the person or the program of the node that did",
        "Linux",
    ),
    "terminated": Signature(
        "terminated",
        "",
        "somebody ended it (SIGTERM), and left no word",
        "look for who sent TERM to this process alone: a person, a program of the node, a scheduler",
        "Linux",
    ),
    "cpu-time-limit": Signature(
        "cpu-time-limit",
        "",
        "it used more CPU time than it may (SIGXCPU)",
        "`ulimit -t` in setup shows the limit: that of a login node, as a rule; run it on a compute node",
        "Linux",
    ),
}
"""What ends a rank by a signal and has no line of its own, by its id."""
