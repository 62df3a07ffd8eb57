"""What worldsize says of a run without failing it: notices, each of a kind, and about a line of a file where it is."""

from __future__ import annotations

import json

from worldsize.common.atomic_files import read_if_possible
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.plan.run_paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

EVENT = "notice"
_MOST_BYTES = 1 << 20

PREFLIGHT, PREPARATION, NODE = "preflight", "preparation", "node"
"""The kinds of those that name none, as of another package's compute, or of an older agent."""

HANG = "hang"
"""Those of the watchdog: events of their own and the run's state tell the same."""

NOTICES = {
    "array-at-once": "all runs of an array start at once, whatever `at_once` says",
    "azure-compute": "a compute of Azure's means the default one here",
    "azure-key-left-out": "a key that the service cannot be told without worldsize's agent",
    "azure-only": "a key that only Azure ML honours",
    "batch-option": "an option of a batch script that has no effect, or another, on virtual nodes",
    "batch-script": "a line of a batch script that would go wrong, or names what is not there",
    "certificate": "the certificate of HPC Pack's head node is not verified",
    "code-left-out": "what a snapshot of the code leaves out, or keeps as a link",
    "code-location": "the code is a directory that holds more than code",
    "configuration": "a configuration file, or a key of one, that does not count, or counts without a question",
    "cores-shared": "there are more ranks than cores",
    "data-parallel": "what data parallel does with a step of the script, and why",
    "downloads": "the script would download on nodes that reach no network",
    "environment": "what the job's environment is here, or does not hold",
    "environment-place": "files of an environment still name the place where it was packed",
    "fetch": "what is fetched, or that an older copy is used",
    "git": "uncommitted changes are not recorded",
    "group-access": "the group cannot reach what it may read",
    "hang": "the run stands still, or goes on again",
    "hidden-failure": "a failure that the command's shell would hide",
    "image": "a container image is not used, or the nodes fetch it themselves",
    "input-mode": "an input's `mode` is not honoured as it is said",
    "job-file": "a key of the job file that is not used",
    "node": "what a node says, of no other kind",
    "node-python": "the compute's Python lies where not every node may see it",
    "nodes-busy": "the nodes that are asked for are in use, or not all are what they should be",
    "not-checked": "what could not be asked before the start",
    "notify": "the command of `notify` has failed",
    "output-shared": "every run of an array writes to one place",
    "plain-start": "why the ranks of a node start without what was to be imported once for all of them",
    "preflight": "what was found before the start, of no other kind",
    "preparation": "what is built, packed, fetched or uploaded before the start",
    "read-only": "an input could not be made read-only on a node",
    "rehearsal": "what a rehearsal has in place of the cluster",
    "run-location": "runs lie where not every node may see them",
    "script": "a line of the script that would go wrong with several ranks",
    "secret-shown": "a secret becomes part of what a scheduler keeps",
    "service": "a service of the job: its address, its end, or why it does not start",
    "share": "the shared directory of HPC Pack lacks something",
    "shared-memory": "a node has less shared memory than the job asks for",
    "slurm": "what Slurm says of the job, or a limit that may not hold",
}
"""By its id, what each kind is about. Ids with a dot are those of a check's rows (`network.port`)."""


class Notice(NamedTuple):
    """`id`: of NOTICES, or of a row of a check. `file` and `line`: of the user's, where it is about one."""

    id: str
    text: str
    file: str | None = None
    line: int | None = None


def notice_at(id: str, text: str, where: str | None) -> Notice:
    """Return the notice about a place, as findings name it: `job.yml:7: inputs.lr`, `train.py:8`; any other is no
    line."""
    place, colon, rest = (where or "").partition(":")
    number = rest.partition(":")[0]
    if not colon or not (number.isascii() and number.isdecimal() and len(number) < 10):
        return Notice(id, text)
    return Notice(id, text, place, int(number))


def notice_of(value: Any, otherwise: str) -> Notice | None:
    """Return the notice that a file holds as an object; None for what is none. `otherwise`: the kind where none is
    named."""
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        return None
    kinds: Mapping[str, Any] = value
    kind, file, line = kinds.get("id"), kinds.get("file"), kinds.get("line")
    return Notice(
        kind if isinstance(kind, str) and kind else otherwise,
        kinds["text"],
        file if isinstance(file, str) else None,
        line if isinstance(line, int) and not isinstance(line, bool) else None,
    )


def read_rank_notices(paths: RunPaths) -> list[Any]:
    """What the ranks of an attempt have written down, as it stands there; [] for none, or what cannot be read."""
    found = []
    for line in read_if_possible(paths.rank_notices, _MOST_BYTES).splitlines():
        try:
            found.append(json.loads(line))
        except PARSE_ERRORS:
            continue  # cut, or somebody else's
    return found


def append_rank_notice(paths: RunPaths, notice: Notice) -> None:
    """Write down what is said while ranks run; nothing where the disk does not take it."""
    try:
        with open(paths.rank_notices, "a") as file:
            file.write(json.dumps(notice._asdict()) + "\n")
    except OSError:
        pass
