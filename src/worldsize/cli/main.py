# PYTHON_ARGCOMPLETE_OK
"""The command line's entry: find the verb, load that verb's module alone, run it, turn errors into words and codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, NoReturn

from worldsize.errors import WorldsizeError


class Verb(NamedTuple):
    module: str
    help: str


VERBS = {
    "run": Verb("run", "run a job and follow it to its end"),
    "submit": Verb("run", "start a job and print its run id"),
    "rerun": Verb("run", "run a former run's job and code again"),
    "list": Verb("runs", "the latest runs"),
    "status": Verb("runs", "one run's state, and why it failed"),
    "wait": Verb("runs", "wait for a run's end; exit with its code"),
    "cancel": Verb("runs", "end a run"),
    "prune": Verb("runs", "remove finished runs"),
    "logs": Verb("logs", "what the ranks wrote, merged or one by one"),
    "diff": Verb("diff", "what differs between two runs: job, code, environment"),
    "init": Verb("init", "write a job file and worldsize.toml for what is here"),
    "schema": Verb("project", "the job file's JSON schema, for editors"),
    "config": Verb("project", "the configuration, and where each value comes from"),
    "completion": Verb("project", "the shell's completion script"),
}

_DESCRIPTION = "From one process to a cluster: one job file, any world size."
_EXAMPLES = """examples:
  worldsize run -w 2x4 -- python train.py --lr 0.1     2 nodes × 4 ranks on this machine, no file needed
  worldsize run job.yml --set inputs.lr=0.1            an Azure ML commandJob
  worldsize logs -f --rank 0                           follow rank 0 of the latest run
  worldsize status                                     the latest run's state, and why it failed

RUN is a run id, a unique beginning of it or of its last part; the latest when left out.
`worldsize VERB --help` tells more."""


class Parser(argparse.ArgumentParser):
    """argparse with our exit code and a pointer to the verb's help."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, "worldsize: %s\n  → %s --help\n" % (message, self.prog))


def build_parser(verbs: Sequence[str], only: str | None = None) -> argparse.ArgumentParser:
    """The parser that knows all verbs by name, and in full those of `only` (None: every one)."""
    parser = Parser(
        prog="worldsize",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    table = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)
    for name in verbs:
        verb = VERBS[name]
        one = table.add_parser(name, help=verb.help, add_help=True, allow_abbrev=False)
        one.formatter_class = argparse.RawDescriptionHelpFormatter
        one.description = verb.help[0].upper() + verb.help[1:] + "."
        if only in (None, name):
            import_module("worldsize.cli." + verb.module).configure(name, one)
    return parser


def split_words(argv: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Our own words, and those after the first `--`: a command of the user's, exactly as typed."""
    words = list(argv)
    if "--" not in words:
        return words, None
    cut = words.index("--")
    return words[:cut], words[cut + 1 :]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Expected errors are printed, never raised."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(build_parser(list(VERBS)))
    words, command = split_words(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words, command)
    except WorldsizeError as error:
        print("worldsize: %s" % error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("worldsize: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _forget_stdout()
        return 141


def _dispatch(words: list[str], command: list[str] | None) -> int:
    verb = next((word for word in words if not word.startswith("-")), None)
    known = [verb] if verb in VERBS else list(VERBS)
    parser = build_parser(known, only=verb if verb in VERBS else "")
    if verb is not None and verb not in VERBS:
        _unknown(parser, verb)
    options = parser.parse_args(words)
    if options.version:
        from worldsize.version import VERSION

        print("worldsize %s" % VERSION)
        return 0
    if verb is None:
        parser.print_help()
        return 0
    options.words = command
    if command is not None and verb not in ("run", "submit"):
        parser.error("%s takes no command after --" % verb)
    code: int = options.act(options)
    return code


def _unknown(parser: argparse.ArgumentParser, verb: str) -> NoReturn:
    from difflib import get_close_matches

    near = get_close_matches(verb, VERBS, 1)
    guess = ": did you mean %s?" % near[0] if near else ""
    parser.error("there is no verb %s%s" % (verb[:40], guess))


def _forget_stdout() -> None:
    """Whoever read us has gone; nothing more may be written, not even by the interpreter's last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def run() -> NoReturn:
    """The console script: leaves without the interpreter's tear-down, which costs milliseconds and does nothing."""
    code = main()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
    sys.stderr.flush()
    os._exit(code)
