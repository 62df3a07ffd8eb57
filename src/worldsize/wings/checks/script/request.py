"""The request to check a script, and the findings about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple


class ScriptRequest(NamedTuple):
    """The command of a job, and the world in which its ranks would run.

    argv           the words of a rank's command; `bash -c LINE` is parsed if the line is simple
    gpus_per_node  None: not known; 0: none
    distribution   the job's `distribution.type`, "none" if there is none
    environ        the names of the job's variables
    virtual        whether all nodes are this one machine
    texts          shell texts that start ranks or prepare for them: the command, the setup, a batch script
    stage          the value of the job's key `stage`, which names the files copied to its nodes
    offline        whether the nodes reach no network
    """

    code_dir: str
    argv: Sequence[str]
    nodes: int = 1
    ranks_per_node: int = 1
    world_size: int = 1
    gpus_per_node: int | None = None
    cores_per_node: int | None = None
    framework: str = ""
    launcher: str = ""
    distribution: str = "none"
    data_parallel: bool = False
    environ: Collection[str] = ()
    virtual: bool = False
    texts: Sequence[str] = ()
    stage: Mapping[str, Any] = {}
    offline: bool = False


class ScriptFinding(NamedTuple):
    """A problem in a script. `file` is relative to the code's directory, "" for the command itself. `line` counts from
    1, and is 0 if there is no file. `verdict` is BAD or WARNING, as in the rows of a check. `refused` means that the
    job certainly fails for this reason, so that it is not started."""

    id: str
    file: str
    line: int
    what: str
    verdict: str
    hint: str
    refused: bool = False
