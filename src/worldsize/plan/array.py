"""Arrays: several runs submitted together, each an ordinary run directory inside the array's own.

<array id>/
  array.json              number and size of the elements, and the inputs that vary: written once
  handles.json            the compute's native ids, one for each element
  after.json              the runs that the array, or a single run, waits for before it starts
  job.yml  record.json  code/  code.json  agent.pyz  inrank/  submission.txt  cancel.json  result.json
                          as in a run
  <array id>_0/           an element: a run directory; its code is linked from the array's when it starts
  <array id>_1/  …

Elements that ended before they began, in the same way, share one result.json, which has the array's id.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import ModuleType

from worldsize.common.json_values import check_fields, read_record, require_version, tuple_of
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import LAUNCHER_PREFIX, RunPaths

ARRAY_VERSION = 1
MAX_ELEMENTS = 10_000
"""Maximum number of runs of an array. Schedulers have such limits too (Slurm's MaxArraySize), and so have
directories."""
_TRIALS = "wings.trials.agent."
_OPTIONAL = ("search", "labels")
_SUBMITTED = frozenset(("job.yml", "plan.json", "agent.pyz", "record.json", "code.json", "environment.json"))
"""Files in a new element's directory. It contains only these, and those of other packages' launchers, until an event
concerns the element."""


class Array(NamedTuple):
    """The properties that all elements share, and the inputs that differ.

    nodes, ranks  number of each in one element
    elements      number of elements
    at_once       maximum number of elements that run at the same time; None: as many as the compute has room for
    values        the varied inputs of each element; for a search the settings; empty if the elements are equal
    search        the aim of the search whose trials the elements are; None: the elements are independent runs
    labels        as in a plan
    """

    run_id: str
    name: str
    compute: str
    created: float
    nodes: int
    ranks: int
    elements: int
    at_once: int | None = None
    values: tuple[Mapping[str, Any], ...] = ()
    search: Mapping[str, Any] | None = None
    labels: Mapping[str, Any] = {}

    def to_json(self) -> str:
        said = {name: value for name, value in self._asdict().items() if name not in _OPTIONAL or value}
        return json.dumps({"version": ARRAY_VERSION, **said}, separators=(",", ":"))

    @classmethod
    def from_value(cls, value: Any) -> Array:
        """Convert `value`, the content of an array.json, to an Array. Raise ValueError for an array of another version,
        or a value that is no array."""
        require_version(value, ARRAY_VERSION, "array")
        try:
            array = check_fields(tuple_of(cls, value))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an array: {error}") from None
        if not 0 < array.elements <= MAX_ELEMENTS:
            raise ValueError(f"not an array: its number of elements is {array.elements!r}")
        if len(array.values) not in (0, array.elements):
            raise ValueError(f"not an array: it has {len(array.values)} values for {array.elements} elements")
        if array.search and not all(isinstance(array.search.get(name), str) for name in ("config", "goal", "metric")):
            raise ValueError(f"not an array: the kind of search is unknown: {array.search!r:.60}")
        return array


def array_file(root: str) -> str:
    return os.path.join(root, "array.json")


def handles_file(root: str) -> str:
    return os.path.join(root, "handles.json")


def after_file(root: str) -> str:
    return os.path.join(root, "after.json")


def element_id(array_id: str, element: int) -> str:
    return f"{array_id}_{element}"


def element_root(root: str, element: int) -> str:
    """Return the run directory of element number `element` of the array in the directory `root`."""
    return os.path.join(root, element_id(os.path.basename(root), element))


def is_untouched(root: str) -> bool:
    """Return whether `root`, the run directory of an array's element, is unchanged since its submission: the element
    has not begun or ended, and nothing was requested of it. False if it cannot be read."""
    try:
        return all(name in _SUBMITTED or name.startswith(LAUNCHER_PREFIX) for name in os.listdir(root))
    except OSError:  # nothing is known about a directory that cannot be read
        return False


def split_element(run_id: str) -> tuple[str, int] | None:
    """Split the id of an array's element, "RUN_3", into the array's id and the element's number, ("RUN", 3); None if
    the text is no element's id."""
    array_id, _, text = run_id.rpartition("_")
    number = parse_digits(text)
    if not array_id or number is None or str(number) != text:
        return None
    return array_id, number


def array_of(paths: RunPaths) -> tuple[str, int] | None:
    """Return, for the run in `paths`, the directory of the array that it is an element of and its number in the array;
    None for a run without an array."""
    split = split_element(paths.run_id)
    parent = os.path.dirname(paths.root)
    return (parent, split[1]) if split and os.path.basename(parent) == split[0] else None


def read_array(root: str) -> Array | None:
    """Read array.json in the directory `root` and return the Array; None if there is none (yet). Raise DamagedRun if it
    cannot be understood. Raise OSError."""
    return read_record(array_file(root), Array.from_value)


def read_after(root: str) -> list[dict[str, Any]]:
    """Read after.json in the directory `root` of a run or array and return the runs that must end before it starts,
    each as a mapping {run, roots, any_end}; empty if it waits for none. Raise DamagedRun if the file cannot be
    understood. Raise OSError."""
    return read_record(after_file(root), _parse_after) or []


def _parse_after(value: Any) -> list[dict[str, Any]]:
    for each in value:
        if not isinstance(each["run"], str) or not all(isinstance(root, str) for root in each["roots"]):
            raise ValueError("it does not name the runs to wait for")
    return [{"run": each["run"], "roots": list(each["roots"]), "any_end": bool(each["any_end"])} for each in value]


def load_trials(module: str) -> ModuleType:
    """Import and return the module `module` ("trial" or "record") with the functions for hyperparameter searches on
    nodes. Raise ConfigError if this installation does not include it.

    `trial` has Trial(plan, paths), the StopRule of `agent/supervision/trial_stop_rule.py`. `record` has
    output_names(search), the names of outputs that belong to the array alone, write_configuration(array, trial,
    search), and write_outputs(root, array). The last two raise OSError.
    """
    from worldsize.registry import load_module

    return load_module(_TRIALS + module, "`autotune:`")


def write_search_outputs(root: str, array: Array) -> None:
    """Write the outputs of a hyperparameter search, whose array is in the directory `root`, from the trials that have
    ended. Do nothing for an array without a search, or if this installation has no searches. Raise OSError."""
    if array.search:
        from worldsize.registry import find_module

        record = find_module(_TRIALS + "record")
        if record is not None:
            record.write_outputs(root, array)


def slurm_array_variables(plan: Plan) -> dict[str, str]:
    """Return the SLURM_ARRAY_* variables for a plan that is an element of an array made from a user's batch script;
    empty for other plans. Slurm counts worldsize's elements from 0, and these variables replace its indices with the
    script's own."""
    batch = plan.batch
    indices = batch.indices if batch else ()
    if batch is None or plan.array is None or len(indices) != plan.array.elements:
        return {}
    gaps = {later - earlier for earlier, later in zip(indices, indices[1:])}
    found = {
        "SLURM_ARRAY_TASK_ID": indices[plan.array.element],
        "SLURM_ARRAY_TASK_COUNT": len(indices),
        "SLURM_ARRAY_TASK_MIN": indices[0],
        "SLURM_ARRAY_TASK_MAX": indices[-1],
        "SLURM_ARRAY_TASK_STEP": gaps.pop() if len(gaps) == 1 else 1,
    }
    if batch.virtual:
        found["SLURM_ARRAY_JOB_ID"] = int(plan.created)
    return {name: str(value) for name, value in found.items()}


def is_cancelled(paths: RunPaths) -> bool:
    """Return whether a user requested the end of the run, or of the array that it belongs to."""
    if os.path.exists(paths.cancel):
        return True
    place = array_of(paths)
    return place is not None and os.path.exists(RunPaths(place[0]).cancel)
