"""Meanings of the signals that end ranks."""

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
"""Signature ids by exit code. Their rows are in `ENDS` or in the tables."""

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
        "native code divided by zero, or made a similar arithmetic error (SIGFPE)",
        "PYTHONFAULTHANDLER=1 shows the Python line",
        "Linux",
    ),
    "killed": Signature(
        "killed",
        "",
        "it was killed (SIGKILL), and no record names the sender",
        "the node's kernel log, or the scheduler's accounting (`sacct -o MaxRSS`), shows whether memory was full; "
        "else look for the user or the program on the node that sent the signal",
        "Linux",
    ),
    "terminated": Signature(
        "terminated",
        "",
        "it was terminated (SIGTERM), and no record names the sender",
        "find out what sent TERM to this process alone: a user, a program on the node, a scheduler",
        "Linux",
    ),
    "cpu-time-limit": Signature(
        "cpu-time-limit",
        "",
        "it used more CPU time than its limit allows (SIGXCPU)",
        "`ulimit -t` in setup shows the limit: usually that of a login node; run it on a compute node",
        "Linux",
    ),
}
"""Signatures, by id, of signals that end a rank and leave no log line that a table could match."""
