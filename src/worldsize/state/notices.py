"""Notices: remarks of worldsize about a run that do not make it fail. Each has a kind and, if there is one, a file and
line that it refers to."""

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
"""The kinds of notices that name no kind, such as those of another package's compute, or of an older agent."""

HANG = "hang"
"""The kind of the watchdog's notices. Separate events and the run's state contain the same information."""

NOTICES = {
    "array-at-once": "all runs of an array start at once: `at_once` has no effect",
    "azure-compute": "a compute of Azure is replaced by the default one here",
    "azure-key-left-out": "a key that the service gets only through worldsize's agent",
    "azure-only": "a key that only Azure ML honours",
    "batch-option": "an option of a batch script that has no effect, or another, on virtual nodes",
    "batch-script": "a line of a batch script that would fail, or names a file that does not exist",
    "certificate": "the certificate of HPC Pack's head node is not verified",
    "code-left-out": "files that a snapshot of the code leaves out, or keeps as links",
    "code-location": "the code is a directory that contains more than code",
    "configuration": "a configuration file, or a key of one, that is ignored, or used without a question",
    "cores-shared": "there are more ranks than cores",
    "data-parallel": "how data parallel handles a step of the script, and why",
    "downloads": "the script would download on nodes without a network",
    "environment": "which environment the job has here, or what it lacks",
    "environment-place": "files of an environment still name the directory where it was packed",
    "fetch": "a download, or the use of an older copy",
    "git": "uncommitted changes are not recorded",
    "group-access": "the group cannot enter the run's directory",
    "hang": "the run hangs, or continues",
    "hidden-failure": "a failure that the command's shell would hide",
    "image": "a container image is not used, or the nodes fetch it themselves",
    "input-mode": "an input's `mode` is not honoured exactly",
    "job-file": "a key of the job file that is not used",
    "node": "a message of a node, of no other kind",
    "node-python": "the compute's Python may not be visible on every node",
    "nodes-busy": "the requested nodes are in use, or some are not as they should be",
    "not-checked": "what could not be checked before the start",
    "notify": "the command of `notify` has failed",
    "output-shared": "every run of an array writes to one place",
    "plain-start": "why a node's ranks start without preloaded modules",
    "preflight": "a finding before the start, of no other kind",
    "preparation": "a build, packing, download or upload before the start",
    "read-only": "an input could not be made read-only on a node",
    "rehearsal": "what a rehearsal substitutes for the cluster",
    "run-location": "runs may not be visible on every node",
    "script": "a line of the script that would fail with several ranks",
    "secret-shown": "a secret becomes part of data that a scheduler stores",
    "service": "a service of the job: its address, its end, or why it does not start",
    "share": "the shared directory of HPC Pack lacks something",
    "shared-memory": "a node has less shared memory than the job asks for",
    "slurm": "Slurm's message about the job, or a limit that may not hold",
}
"""The subject of each kind of notice, by its id. Ids with a dot are those of a check's rows (`network.port`)."""


class Notice(NamedTuple):
    """A notice about a run. `id` is one of NOTICES, or the id of a check's row. `file` and `line` are the place in a
    file of the user that it is about, if there is one."""

    id: str
    text: str
    file: str | None = None
    line: int | None = None


def notice_at(id: str, text: str, where: str | None) -> Notice:
    """Return a Notice with the kind `id` about the place `where`, which has the form of findings: `job.yml:7:
    inputs.lr`, `train.py:8`. For any other form, the notice is without file and line."""
    place, colon, rest = (where or "").partition(":")
    number = rest.partition(":")[0]
    if not colon or not (number.isascii() and number.isdecimal() and len(number) < 10):
        return Notice(id, text)
    return Notice(id, text, place, int(number))


def notice_of(value: Any, otherwise: str) -> Notice | None:
    """Return the Notice that the JSON object `value` describes; None if it is not a notice. `otherwise` is the kind of
    a notice that names none."""
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
    """Return the notices that the ranks of the attempt in `paths` have written, as unchecked JSON values. Lines that
    cannot be parsed are left out. [] if there are none, or the file cannot be read."""
    found = []
    for line in read_if_possible(paths.rank_notices, _MOST_BYTES).splitlines():
        try:
            found.append(json.loads(line))
        except PARSE_ERRORS:
            continue  # cut, or another program's
    return found


def append_rank_notice(paths: RunPaths, notice: Notice) -> None:
    """Append a notice, as a JSON line, to the file of notices that are written while the ranks of an attempt run.
    Nothing is written if the disk does not permit it."""
    try:
        with open(paths.rank_notices, "a") as file:
            file.write(json.dumps(notice._asdict()) + "\n")
    except OSError:
        pass
