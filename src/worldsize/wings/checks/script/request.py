"""What is asked about a script, and what is found in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple


class ScriptRequest(NamedTuple):
    """A command of a job, and the world in which its ranks would run.

    argv           the words of a rank's command; `bash -c LINE` is understood where the line is plain
    gpus_per_node  None: not known; 0: none
    distribution   the job's `distribution.type`, "none" without one
    environ        the names of the job's variables
    virtual        whether all nodes are this one machine
    texts          of shells, that start ranks or prepare for them: the command, the setup, a batch script
    stage          what the job brings to its nodes, as its key `stage` says
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
    """One thing that would go wrong. `file`: relative to the code's directory, "" for the command itself; `line`: from
    1, and 0 where there is no file; `verdict`: BAD or WARNING of the rows of a check; `refused`: whether the job cannot
    but fail by it, so that it is not started."""

    id: str
    file: str
    line: int
    what: str
    verdict: str
    hint: str
    refused: bool = False
