"""Trial imports in the job's Python: the program that the Python executes, and the parser of its output.

The program prints lines of JSON that begin with a random mark, because imported modules may print, too. It prints the
name of a module before it imports it. This names a module that ends the process or never returns.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.checks.agent.programs.program_output import ProgramEnd, run_program

_PROGRAM = r"""
import os, sys

first = sys.path.pop(0)  # the job's directory may have a json.py of its own
import json
sys.path.insert(0, first)
mark, asked, names = sys.argv[1], sys.argv[2], sys.argv[3:]
sys.argv[1:] = []

def say(**value):
    sys.__stdout__.write("\n" + mark + json.dumps(value) + "\n")
    sys.__stdout__.flush()

def attempt(function):
    try:
        return function()
    except BaseException:
        return None

say(python="%d.%d.%d" % sys.version_info[:3])
for name in names:
    say(begun=name)
    try:
        __import__(name)
    except BaseException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        say(module=name, kind=type(error).__name__, is_import=isinstance(error, ImportError),
            text=(lines[-1] if lines else "")[-300:])
if asked == "torch":
    say(begun="torch")
    torch = attempt(lambda: __import__("torch"))
    if torch is not None:
        say(torch={
            "version": attempt(lambda: str(torch.__version__)),
            "cuda": attempt(lambda: torch.version.cuda),
            "hip": attempt(lambda: torch.version.hip),
            "nccl": attempt(lambda: ".".join(map(str, torch.cuda.nccl.version()))),
            "has_nccl": attempt(lambda: bool(torch.distributed.is_nccl_available())),
            "mpi": attempt(lambda: bool(torch.distributed.is_mpi_available())),
            "gloo": attempt(lambda: bool(torch.distributed.is_gloo_available())),
        })
say(end=True)
os._exit(0)  # without waiting for threads that something has started
"""

_MOST_BYTES = 1 << 20
_LONGEST = 300


class FailedImport(NamedTuple):
    """The failure of one import.

    module     the name as the script imports it
    kind       the class of the error
    is_import  whether it is an ImportError; another error may depend on how Python is started here
    text       the last line of the error
    """

    module: str
    kind: str
    is_import: bool
    text: str


class ImportTrial(NamedTuple):
    """The result of the trial imports.

    python   the version, like "3.11.7"; "" if Python itself did not start
    failed   the imports that failed
    torch    the properties of torch; empty if they were not requested or torch is missing
    is_over  whether all imports were tried
    begun    the last module whose import began
    code     the exit code; None if the program was late and was killed
    last     the last line of its output that is not a line of the program itself
    """

    python: str = ""
    failed: tuple[FailedImport, ...] = ()
    torch: Mapping[str, Any] = {}
    is_over: bool = False
    begun: str = ""
    code: int | None = 0
    last: str = ""

    @property
    def ending(self) -> str:
        """The reason why the program ended too early, as text: `SIGSEGV`, `exit code 3`."""
        if self.code is not None and self.code < 0:
            names = {each.value: each.name for each in signal.Signals}
            return names.get(-self.code, f"signal {-self.code}")
        return f"exit code {self.code}"


def try_imports(
    python: str, environ: Mapping[str, str], directory: str, modules: Sequence[str], torch: bool, limit: float
) -> ImportTrial:
    """Start the Python at the path `python` in `directory`, import the `modules` one after the other, and return an
    ImportTrial with the result. With `torch`, also read the properties of torch if it is installed. Raise OSError if
    Python cannot be started."""
    mark = f"@{os.urandom(12).hex()}@"
    argv = [python, "-c", _PROGRAM, mark, "torch" if torch else "", *modules]
    return understand(run_program(argv, environ, directory, limit, _MOST_BYTES), mark)


def understand(end: ProgramEnd, mark: str) -> ImportTrial:
    """Parse the output of the import program, whose own lines begin with `mark`, and return an ImportTrial. Damaged
    lines are skipped."""
    trial = ImportTrial(code=end.code, last=_last_line(end.output, mark))
    failed: list[FailedImport] = []
    for value in _said(end.output, mark):
        for name, kind in (("python", str), ("begun", str), ("torch", dict)):
            if isinstance(value.get(name), kind):
                trial = trial._replace(**{name: value[name]})
        if isinstance(value.get("module"), str):
            failed.append(_failed_import(value))
        if value.get("end") is True:
            trial = trial._replace(is_over=True)
    return trial._replace(failed=tuple(failed))


def _failed_import(value: Mapping[str, Any]) -> FailedImport:
    module, kind, text = (str(value.get(key, ""))[:_LONGEST] for key in ("module", "kind", "text"))
    return FailedImport(module, kind, value.get("is_import") is True, text)


def _said(output: str, mark: str) -> list[dict[str, Any]]:
    found = []
    for line in output.split("\n"):
        if line.startswith(mark):
            try:
                value = json.loads(line[len(mark) :])
            except (ValueError, RecursionError):  # incomplete, or mixed with the output of another thread
                continue
            if isinstance(value, dict):
                found.append(value)
    return found


def _last_line(output: str, mark: str) -> str:
    lines = [line.strip() for line in output.split("\n") if line.strip() and not line.startswith(mark)]
    return lines[-1][:_LONGEST] if lines else ""
