# PYTHON_ARGCOMPLETE_OK
"""The entry point of the command line. It finds the verb, loads only that verb's module, runs it, and turns errors into
messages and exit codes."""

from __future__ import annotations

import os
import sys

try:
    from worldsize.cli.argparse_import import import_argparse

    import_argparse()
    import argparse
    import errno
    import gc
    from collections.abc import Mapping, Sequence

    from worldsize.common.named_tuple import NamedTuple, NoReturn
    from worldsize.common.numbers import parse_digits
    from worldsize.errors import UsageError, WorldsizeError, windows_error
    from worldsize.registry import find_module, load_module
except KeyboardInterrupt:  # Ctrl-C this early must not print a traceback either
    os._exit(130)

INTERRUPTED = 130
PIPE_CLOSED = 141
_REPLACED = (
    "worldsize: this installation was replaced or removed while the command ran; a run that it started continues",
    "  → worldsize status, with the present installation",
)
_WIDEST = 10_000
"""The maximum number of columns of a terminal."""


class Verb(NamedTuple):
    """A verb of the command line. `module` is a module name for `load_module`, and may be that of a wing."""

    module: str
    help: str


VERBS = {
    "run": Verb("cli.run.run", "run a job and follow it to its end"),
    "submit": Verb("cli.run.run", "start a job and print its run id"),
    "rehearse": Verb("cli.run.run", "run a cluster's job here, with virtual GPUs"),
    "debug": Verb("cli.run.debug", "run a job as one rank here, with this terminal: pdb, stdin"),
    "rerun": Verb("cli.run.run", "run an earlier run's job and code again"),
    "check": Verb("wings.checks.command", "check a job's nodes and script before it runs"),
    "bench": Verb("wings.bench.command", "measure a job, or ResNet-50, at several world sizes"),
    "list": Verb("cli.runs.list", "list the latest runs"),
    "status": Verb("cli.runs.status", "show one run's state, and why it failed"),
    "why": Verb("cli.runs.why", "explain why a run failed, and what followed from it"),
    "stacks": Verb("wings.hangs.command", "show where ranks are, and which one the others wait for"),
    "events": Verb("cli.runs.events", "show a run's events, with their times"),
    "describe": Verb("cli.runs.describe", "show everything recorded about a run"),
    "wait": Verb("cli.runs.wait", "wait for a run's end; exit with its code"),
    "cancel": Verb("cli.runs.cancel", "cancel a run"),
    "requeue": Verb("wings.requeue.command", "ask the scheduler to start a run again"),
    "rm": Verb("wings.prune.command", "remove runs"),
    "prune": Verb("wings.prune.command", "remove finished runs, by age, number or state"),
    "logs": Verb("cli.runs.logs", "show the ranks' output, merged or per rank"),
    "outputs": Verb("cli.runs.outputs", "list the files that a run has written"),
    "path": Verb("cli.runs.outputs", "print the path of a run's directory, outputs, logs or code"),
    "fetch": Verb("cli.runs.outputs", "copy a run's output files"),
    "metrics": Verb("wings.metrics.command", "show a run's metrics and resource use: table, CSV, picture"),
    "report": Verb("wings.report.command", "make one HTML page of a run, to keep and to send"),
    "bugreport": Verb("wings.bug_report.command", "make one archive about a run, without its secrets, to send"),
    "nodes": Verb("wings.node_commands.list_nodes", "list a compute's nodes, and what is free"),
    "exec": Verb("wings.node_commands.exec", "run a command on every node of a run"),
    "shell": Verb("wings.node_commands.shell", "open a shell on one of a run's nodes"),
    "hpcpack": Verb("wings.hpcpack.command", "mount or check the share of an HPC Pack cluster"),
    "env": Verb("wings.environments.cli.command", "build, list, show, lock and remove environments"),
    "diff": Verb("wings.comparison.command", "show the differences between two runs: job, code, environment"),
    "convert": Verb("wings.convert.command", "rewrite a script for one process for all ranks, as a diff"),
    "import": Verb("wings.batch_scripts.command", "write the job file for a Slurm batch script"),
    "export": Verb("wings.azure.export.command", "write a job file as Azure Machine Learning's own"),
    "doctor": Verb("wings.doctor.command", "show what this machine and account can do, and each fix"),
    "selftest": Verb("wings.selftest.command", "test worldsize on a compute of yours, and write a report"),
    "simulate": Verb("worldsize_hpcpack_simulator.command", "start a simulated cluster on this machine"),
    "init": Verb("wings.project.command", "write a job file and worldsize.toml for this project"),
    "examples": Verb("wings.project.examples_command", "list or copy the bundled examples"),
    "schema": Verb("wings.project.command", "print the JSON schema of job files, or of a verb's output"),
    "config": Verb("cli.settings", "show the configuration, and where each value comes from"),
    "completion": Verb("cli.settings", "print the shell's completion script"),
}

ALIASES = {
    "ps": ("list",),
    "ls": ("list",),
    "top": ("metrics", "--used"),
    "cp": ("fetch",),
    "ssh": ("shell",),
    "remove": ("rm",),
}
"""Words of other programs, and the verb that each of them means."""

_WITH_COMMAND = ("run", "submit", "rehearse", "debug", "check", "convert", "bench", "exec")
_DESCRIPTION = "From one process to a cluster: one job file, any world size."
_EXAMPLES = """examples:
  worldsize run -w 2x4 -- python train.py --lr 0.1     2 nodes × 4 ranks on this machine, no file needed
  worldsize run job.yml --set inputs.lr=0.1            an Azure ML commandJob
  worldsize logs -f --rank 0                           follow rank 0 of the latest run
  worldsize status                                     the latest run's state, and why it failed

RUN is a run id, a unique beginning of it or of its last part, or a run's name; without it, the latest run that was
started from this directory.
`worldsize VERB --help` describes each verb."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """The formatter of help texts, as wide as the terminal. argparse would query shutil for each option, which imports
    every compression library."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    said = parse_digits(os.environ.get("COLUMNS"))
    if said is not None:
        return min(max(said, 20), _WIDEST)
    try:
        return max(os.get_terminal_size(1).columns, 20)
    except OSError:
        return 80


class Parser(argparse.ArgumentParser):
    """An argparse parser with worldsize's exit code and a pointer to the verb's help. `verbs` contains the parsers of
    the verbs."""

    verbs: Mapping[str, argparse.ArgumentParser] = {}

    def error(self, message: str) -> NoReturn:
        self.exit(_fail(UsageError(message, None, f"{self.prog} --help"), 2))


def build_parser(verbs: Sequence[str], only: str | None = None) -> Parser:
    """Return the command-line parser that knows the names of all `verbs`, and the options of the verb `only` (None: of
    every verb)."""
    parser = Parser(
        prog="worldsize",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    table = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser, prog="worldsize")
    for name in verbs:
        verb = VERBS[name]
        one = table.add_parser(name, help=verb.help, allow_abbrev=False, formatter_class=Formatter)
        one.add_argument(
            "-v", "--verbose", action="store_true", help="report each decision and each program started, on stderr"
        )
        one.description = verb.help[0].upper() + verb.help[1:] + "."
        module = load_module(verb.module, f"`worldsize {name}`") if only == name else None
        if only is None:
            module = find_module(verb.module)
        if module is not None:
            module.configure(name, one)
    parser.verbs = table.choices
    return parser


def split_words(argv: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Split the arguments into worldsize's own words, and the words after the first `--`, which are a command of the
    user, exactly as typed; None if there is no `--`."""
    words = list(argv)
    if "--" not in words:
        return words, None
    cut = words.index("--")
    return words[:cut], words[cut + 1 :]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one worldsize command with the arguments `argv`, by default those of this process. Return its exit code.
    Expected errors are printed, never raised."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(build_parser(list(VERBS)))
    words, command = split_words(sys.argv[1:] if argv is None else argv)
    try:
        words = _begin_notes_if_asked(words)
        return _dispatch(words, command)
    except WorldsizeError as error:
        return _fail(error, error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _discard_stream(1)
        return PIPE_CLOSED
    except OSError as error:
        _discard_stream(1)
        return _fail(_error_text(error), 1)


def _error_text(error: OSError) -> str:
    """Return the message that the command line prints for an OSError. An error about a file that worldsize writes is
    caught where the file is written, so an error without a file name is about the output."""
    if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"cannot write the output: {error.strerror}"
    if error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def _fail(error: WorldsizeError | str, code: int) -> int:
    from worldsize.cli.output import report_error

    try:
        report_error(error)
    except OSError:
        _discard_stream(2)
    return code


def _dispatch(words: list[str], command: list[str] | None) -> int:
    words = _plain_words(words)
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb is not None and verb not in VERBS:
        from worldsize.cli.suggestions import unknown_verb_error

        raise unknown_verb_error(words, verb, VERBS)
    parser = build_parser(list(VERBS) if verb is None else [verb], only=verb or "")
    options, extra = parser.parse_known_args(words)
    if extra:
        _raise_unknown_words(parser, verb, words, extra)
    if options.version:
        from worldsize.cli.output import show
        from worldsize.version import VERSION

        show(f"worldsize {VERSION}")
        return 0
    if verb is None:
        if command is not None:
            raise UsageError("no verb before --", None, "worldsize run -w 2x4 -- python train.py")
        parser.print_help()
        return 0
    options.typed, options.words = words, command
    if command is not None and verb not in _WITH_COMMAND and getattr(options, "action", None) != "shell":
        raise UsageError(f"{verb} takes no command after --", None, f"worldsize {verb} --help")
    code: int = options.act(options)
    return code


def _begin_notes_if_asked(words: list[str]) -> list[str]:
    """Report decisions and started programs on stderr from now on, if `-v` among the command-line `words` or
    WORLDSIZE_DEBUG requests it. Return the words without `-v`."""
    asked = "-v" in words or "--verbose" in words
    if not asked and os.environ.get("WORLDSIZE_DEBUG", "0") in ("", "0"):
        return words
    import time

    from worldsize.cli.output import report
    from worldsize.common.debug_notes import begin_notes, note_decision
    from worldsize.version import VERSION

    begin_notes(report, time.monotonic())
    note_decision(f"worldsize {VERSION}, Python {sys.version.split()[0]} ({sys.executable}), process {os.getpid()}")
    return [word for word in words if word not in ("-v", "--verbose")] or words


def _plain_words(words: list[str]) -> list[str]:
    """Return the command-line `words` with `help`, `help VERB` and `version` replaced by the options of those names,
    and an alias by its verb."""
    if words[:1] == ["help"]:
        return _plain_words([*words[1:], "--help"])
    if words and words[0] in ALIASES:
        return [*ALIASES[words[0]], *words[1:]]
    return ["--version"] if words == ["version"] else words


def _raise_unknown_words(parser: Parser, verb: str | None, words: list[str], extra: list[str]) -> NoReturn:
    if verb is None:
        raise UsageError(f"there is no option {extra[0][:60]}", None, "worldsize --help")
    from worldsize.cli.suggestions import unknown_words_error

    raise unknown_words_error(parser.verbs[verb], verb, words, extra)


def _discard_stream(descriptor: int) -> None:
    """Redirect the stream with this file descriptor to the null device, including the output of its last flush, because
    its reader is gone or its disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _open_streams() -> None:
    """Prepare the standard streams for printing, regardless of how this process was started. Closed streams are opened
    on the null device, and characters that cannot be encoded are escaped."""
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while os.open(os.devnull, os.O_RDWR) <= 2:
            pass
        sys.stdin = sys.stdin or open(0, closefd=False)
        sys.stdout = sys.stdout or open(1, "w", closefd=False)
        sys.stderr = sys.stderr or open(2, "w", closefd=False)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def run() -> NoReturn:
    """Run the command line as the console script, and exit without the shutdown of the interpreter, which takes
    milliseconds and does nothing useful.

    The garbage collector starts when a run is followed. Before that it would only scan the imported modules, again and
    again.
    """
    gc.disable()
    try:
        _open_streams()
        if sys.platform == "win32":
            os._exit(_flush_streams(_fail(windows_error(), 2)))
        if "PEX" in os.environ:
            from worldsize.cli.zipapp import restore_environment

            restore_environment(os.environ)
        if "WORLDSIZE_HPCPACK_PASSWORD" in os.environ:
            from worldsize.trust.procfs import withhold_password

            withhold_password()
        os._exit(_flush_streams(_run_main()))
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)


def _run_main() -> int:
    installed = _identify_installation()
    try:
        return main()
    except SystemExit as end:  # argparse has printed help, or an error
        return end.code if isinstance(end.code, int) else 0
    except Exception:  # noqa: BLE001  (a defect of worldsize; the traceback may contain text from other programs)
        if _identify_installation() != installed:  # what has not been imported yet is of another release, or gone
            output = sys.modules.get("worldsize.cli.output")
            if output is not None:
                output.report(*_REPLACED)
            return 1
        from traceback import format_exc

        from worldsize.cli.output import report, report_message

        report_message(format_exc().rstrip("\n"))
        report("worldsize: this is a defect of worldsize", "  → worldsize bugreport RUN makes an archive for a report")
        return 1


def _identify_installation() -> tuple[int, int, int] | None:
    """Return values that differ once this file has been replaced by that of another installation; None if it is
    gone."""
    try:
        status = os.stat(__file__)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _flush_streams(code: int) -> int:
    """Flush the standard streams before the process exits. Return the exit code `code`, or another one if it is 0 and
    the output cannot be written."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        return code or (PIPE_CLOSED if isinstance(error, BrokenPipeError) else 1)
    return code
