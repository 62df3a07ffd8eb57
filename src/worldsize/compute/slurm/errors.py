"""Conversion of the error text of a Slurm program to a worldsize error with a hint.

The texts are those of Slurm's src/common/slurm_errno.c, 20.11 to 26.05, of its programs' own error lines, and of the C
library's strerror, which Slurm prints for connections.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected, WorldsizeError

_DEFAULTS_OF_SBATCH = {"account": "SBATCH_ACCOUNT", "partition": "SBATCH_PARTITION", "qos": "SBATCH_QOS"}
_UNREACHABLE = (
    "(?i)unable to contact slurm controller|unable to connect to database|problem talking to the database"
    "|communication connection failure|message (send|receive) failure|socket timed out|zero bytes were transmitted"
    "|connection (refused|reset|timed out)|no route to host|network is unreachable|broken pipe|temporarily unable"
    "|transport endpoint is not connected|resource temporarily unavailable|interrupted system call"
    "|standby mode|rate limit exceeded|unable to create job record, try again|job queue full|temporarily disabled"
    "|unexpected missing socket error|controller not responding|failed to open persistent connection"
)
_NO_CLUSTER = (
    "(?i)could not establish a configuration source|failed to fetch config|unable to establish control machine"
    "|unable to (open|stat|process) (configuration|slurm\\.conf)|can't find an address, check slurm\\.conf"
)
_PREFIX = (
    r"^(?:[\w./-]+: )?(?:error|fatal|warning|info): |^(?:sbatch|squeue|sacct|sinfo|scancel|scontrol|srun|salloc): "
)
_LEAD = r"(?i)^(?:batch job submission failed|allocation failure|slurm_\w+(?: error)?): "
_NOISE = r'^(?:Try "?\w+ --help"?.*|.*--help.* for more information\.?)$'
_OWN_ASSOCIATIONS = "`sacctmgr show associations user=$USER`"
_HINTS = (
    ("invalid partition name", "slurm.partition must be one that `sinfo --summarize` lists"),
    ("no partition specified", "set slurm.partition; `sinfo --summarize` lists them"),
    ("group not permitted to use this partition", "choose another slurm.partition"),
    (
        "invalid account or account/partition",
        "slurm.account must be yours and allowed in the partition: " + _OWN_ASSOCIATIONS,
    ),
    ("invalid qos|invalid or unknown association", "slurm.qos must be one of " + _OWN_ASSOCIATIONS),
    (
        "violates accounting/qos policy",
        "fewer nodes, less time or fewer runs at once: `sacctmgr show qos` has limits",
    ),
    (
        "requested node configuration is not available|topology configuration is not available",
        "no node of the partition has the GPUs, cores, memory or features asked for: `worldsize nodes` shows them",
    ),
    ("more processors requested than permitted", "fewer ranks per node, or a smaller slurm.cpus_per_rank"),
    ("cpu count|task count specification", "fewer ranks per node, or a smaller slurm.cpus_per_rank"),
    ("node count specification invalid", "the partition has fewer nodes, or a lower limit: `worldsize nodes`"),
    ("memory (specification|required)", "a smaller slurm.mem; `worldsize nodes` shows what nodes have"),
    ("invalid feature|invalid constraint", "slurm.constraint must name features that `sinfo -o '%P %f'` shows"),
    ("requested time limit is invalid", "slurm.time must not exceed the partition's limit: `sinfo -o '%P %l'`"),
    ("time limit specification required", "this cluster requires a time limit: slurm.time"),
    ("invalid time specification", "slurm.time is minutes, HH:MM:SS or DAYS-HH:MM:SS"),
    (
        r"generic resource|\bgres\b|trackable resource",
        "the partition's nodes have other GPUs, or another name for them: `worldsize nodes`",
    ),
    ("reservation", "slurm.reservation must be one of `scontrol show reservation` that is yours, and active"),
    ("invalid license", "`scontrol show licenses` lists what there is"),
    ("invalid node name|requested nodes not in this partition", "`worldsize nodes` lists the names and partitions"),
    ("dependency problem|circular job dependency", "slurm.dependency must name jobs that exist"),
    ("job array specification", "more elements than the cluster's MaxArraySize allows: `scontrol show config`"),
    (
        "pathname of a file, directory or other parameter too long",
        "the batch script is longer than the cluster's max_script_size (4 MiB by default): `scontrol show config`",
    ),
    ("i/o error writing script", "slurmctld's disk is full or broken: report it to the cluster's administrators"),
    ("protocol authentication|munge", "munge does not work on this machine: report it to the cluster's administrators"),
    ("incompatible versions", "this machine's Slurm programs do not fit the cluster's: load another Slurm module"),
    ("submissions disabled|presently disabled", "the cluster accepts no jobs now: ask its administrators, or wait"),
    ("access/permission denied", "the job or the action belongs to another user"),
)


def slurm_error(program: str, text: str, environ: Mapping[str, str] | None = None) -> WorldsizeError:
    """Return the exception for `text`, the error output of the Slurm program `program`: SubmitAgain if the controller
    or the database is away or busy, ConfigError if this machine knows no cluster, and SubmitRejected in all other
    cases.

    The exception contains Slurm's own words. That of SubmitRejected has the hint of the first matching pattern, if
    there is one; `environ` is the user's environment, for a hint about sbatch's default variables.
    """
    words = error_text_of(text)
    if re.search(_NO_CLUSTER, text):
        return ConfigError(
            f"this machine belongs to no Slurm cluster that {program} could find: {words}",
            program,
            "run this on the cluster's login node, or set SLURM_CONF to the cluster's slurm.conf",
        )
    if re.search(_UNREACHABLE, text):
        return SubmitAgain(f"Slurm cannot be reached now: {words}", program, "it may be restarting; try again")
    return SubmitRejected(words, program, _hint(words, environ or {}))


def error_text_of(text: str) -> str:
    """Return the error output `text` of a Slurm program on one line, with at most 1000 characters: without prefixes
    such as "sbatch: error:", each line once, joined with "; "."""
    lines = []
    for line in text.splitlines():
        stripped = line.strip()
        shorter = re.sub(_PREFIX, "", stripped)
        while shorter != stripped:
            stripped, shorter = shorter, re.sub(_PREFIX, "", shorter)
        stripped = re.sub(_LEAD, "", stripped).strip()
        if stripped and not re.match(_NOISE, stripped):
            lines.append(stripped)
    words = "; ".join(dict.fromkeys(lines)) or text.strip()
    return words if len(words) <= 1000 else words[:997] + "..."


def _hint(words: str, environ: Mapping[str, str]) -> str | None:
    """Return the hint for `words`, the error text of a Slurm program; None if no pattern matches. If the error is about
    the account, partition or QOS, and a variable of `environ` (SBATCH_ACCOUNT, …) sets a default that worldsize
    ignores, the hint names that variable."""
    hint = next((hint for pattern, hint in _HINTS if re.search(pattern, words, re.IGNORECASE)), None)
    for key, name in _DEFAULTS_OF_SBATCH.items():
        if key in words.lower() and environ.get(name):
            return f"{name}={environ[name]} of your shell is ignored: set slurm.{key}"
    return hint
