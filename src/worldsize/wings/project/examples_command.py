"""The command `worldsize examples`, which lists the examples and copies one of them."""

from __future__ import annotations

import argparse
import os

from worldsize.cli.console import add_output_option, current_directory
from worldsize.cli.output import report, show, show_json
from worldsize.cli.table import table
from worldsize.common.atomic_files import storage_error
from worldsize.errors import UsageError
from worldsize.trust.decisions import try_write_decision
from worldsize.trust.documents import write_document
from worldsize.wings.project.examples import Example, examples_directory, files_of, find_example, read_examples

CONFIG = "worldsize.toml"
_EPILOG = """examples:
  worldsize examples                       a row for each
  worldsize examples digits                copies it into ./digits, and prints the command that runs it
  worldsize examples digits --to mine      copies it into ./mine"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("name", nargs="?", metavar="NAME", help="the example to copy; without it, all are listed")
    parser.add_argument("--to", metavar="DIR", help="destination of the copy (default: NAME, here)")
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    add_output_option(parser)
    parser.set_defaults(act=show_or_copy)


def show_or_copy(options: argparse.Namespace) -> int:
    directory = examples_directory()
    if options.name is not None:
        return _copy(directory, find_example(directory, options.name), options)
    if options.to is not None or options.force:
        raise UsageError("--to and --force need the NAME of an example", None, "worldsize examples lists them")
    found = read_examples(directory)
    if options.output == "json":
        show_json([example._asdict() for example in found])
        return 0
    rows = [(example.name, example.description, example.needs, example.time) for example in found]
    show(*table(rows, ("EXAMPLE", "WHAT IT SHOWS", "NEEDS", "TIME"), optional=("TIME", "NEEDS")))
    return 0


def _copy(directory: str, example: Example, options: argparse.Namespace) -> int:
    """Write the files of the example to a directory, print the commands that run it, and return the exit code 0.
    Without --force, write none and raise UsageError if one of the files already exists. Raise StorageError if a file
    cannot be written."""
    shown = os.path.normpath(options.to or example.name)
    target, files = os.path.join(current_directory(), shown), files_of(directory, example.name)
    there = [path for path in files if os.path.lexists(os.path.join(target, path))]
    if there and not options.force:
        hint = "--to DIR copies it elsewhere, --force overwrites"
        raise UsageError("exists already; nothing was copied", os.path.join(shown, there[0]), hint)
    for path, data in files.items():
        place = os.path.join(target, path)
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            write_document(place, data)
        except OSError as error:
            raise storage_error(error, place) from None
        if os.path.basename(path) == CONFIG:
            try_write_decision(place, True, os.environ, data)
    if options.output == "json":
        copied = {**example._asdict(), "commands": example.commands_in(shown)}
        show_json({**copied, "directory": target, "files": sorted(files)})
        return 0
    report(f"wrote {len(files)} files to {shown}")
    if example.needs:
        report(f"it needs {example.needs}, in the Python that runs it")
    show(*example.commands_in(shown).splitlines())
    return 0
