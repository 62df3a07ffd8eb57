"""The command `convert`, which rewrites a training for one process into one for all ranks that a launcher starts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from worldsize.cli.console import add_output_option, parse_seconds
from worldsize.cli.output import report, show_document, show_json, show_transient_line
from worldsize.cli.questions import ask, can_ask
from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import UsageError
from worldsize.extras import require_packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.wings.convert.check.findings import CheckResult
    from worldsize.wings.convert.converted_files import ConvertedFiles

_EXAMPLES = """examples:
  worldsize convert train.py                            the changes, as a diff; nothing is written
  worldsize convert train.py --check                    and whether the result trains like the original
  worldsize convert train.py --check -- --data /data    with the script's arguments
  worldsize convert train.py --write && worldsize run -w 2x4 -- python train.py

Modules next to the script that it imports are converted with it. Remaining work is reported on standard error, with its
line, and marked in the file. Only --check executes anything. To train a script as it is:
worldsize run -w 2x4 --data-parallel -- python train.py"""

_QUESTION = "Run its first steps, before and after, in a copy without network (at most %.0f s)?"
_REFUSED = "nothing was converted; worldsize run --data-parallel may train it as it is"
_WRONG, _NOT_CONVERTED = 1, 2
_SECONDS = 60.0


class _Outcome(NamedTuple):
    """The outcome of a conversion. `check` is None if no check was requested."""

    files: ConvertedFiles
    check: CheckResult | None = None
    is_written: bool = False

    @property
    def exit_code(self) -> int:
        if self.files.errors:
            return _NOT_CONVERTED
        return _WRONG if self.check is not None and not self.check.is_right else 0


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.usage = "worldsize convert [options] SCRIPT.PY [MODULE.PY ...] [-- ARGUMENTS OF THE SCRIPT]"
    parser.add_argument("scripts", nargs="+", metavar="SCRIPT.PY", help="the training script, for one process")
    parser.add_argument("--write", action="store_true", help="change the files instead of printing a diff")
    parser.add_argument(
        "--check",
        action="store_true",
        help="run the first steps of the original, and of the result on 1 rank and on 2, and compare them",
    )
    help = f"time limit of --check ({_SECONDS:.0f})"
    parser.add_argument("--timeout", type=parse_seconds, metavar="SECONDS", default=_SECONDS, help=help)
    add_output_option(parser)
    parser.set_defaults(act=convert)


def convert(options: argparse.Namespace) -> int:
    require_packages("convert", "convert", "libcst")
    from worldsize.wings.convert.converted_files import convert_training

    is_json = options.output == "json"
    outcome = _Outcome(convert_training(options.scripts))
    if not is_json:
        _report_conversion(outcome.files)
        if not options.write:
            show_document(outcome.files.diff())
    if not outcome.files.errors:
        is_offered = not is_json and options.words is None and can_ask()
        if options.check or (is_offered and ask(_QUESTION % options.timeout)):
            outcome = outcome._replace(check=_check(outcome.files, options.words or (), options.timeout))
        if options.write and outcome.exit_code == 0:
            outcome.files.write()
            outcome = outcome._replace(is_written=True)
    if is_json:
        show_json(_as_json(outcome))
    elif outcome.check is not None:
        report(*outcome.check.lines())
    return outcome.exit_code


def _report_conversion(files: ConvertedFiles) -> None:
    """Print the remarks of a conversion on what was left unchanged, and its errors. Raise UsageError with the last
    error if there are errors, so that the result would not be right."""
    for remark in files.remarks:
        report(f"{remark.path}:{remark.line}: {remark.text}")
    for error in files.errors[:-1]:
        report(f"{error.path}:{error.line}: error: {error.text}")
    if files.errors:
        path, line, text = files.errors[-1]
        raise UsageError(text, f"{path}:{line}", _REFUSED)


def _check(files: ConvertedFiles, arguments: Sequence[str], seconds: float) -> CheckResult:
    from worldsize.wings.convert.check.findings import check_training

    tell = show_transient_line if sys.stderr.isatty() else _show_nothing
    return check_training(files, arguments, tell, seconds)


def _show_nothing(text: str = "") -> None:
    """Do nothing. The replacement for `show_transient_line`, which shows the current trial of the check, if stderr is
    no terminal."""


def _as_json(outcome: _Outcome) -> dict[str, Any]:
    files = outcome.files
    return {
        "files": [
            {"path": path, "text": text, "is_new": path == files.helpers and not files.before[path]}
            for path, text in files.after.items()
        ],
        "errors": [each._asdict() for each in files.errors],
        "remarks": [each._asdict() for each in files.remarks],
        "is_written": outcome.is_written,
        "check": outcome.check.as_json() if outcome.check is not None else None,
    }
