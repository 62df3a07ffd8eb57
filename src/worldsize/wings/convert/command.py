"""convert: a script for one process, with DistributedDataParallel written out."""

from __future__ import annotations

import argparse

from worldsize.cli.output import report, show_document
from worldsize.common.atomic_files import read_file
from worldsize.errors import UsageError
from worldsize.extras import require_packages
from worldsize.trust.documents import write_document

_EXAMPLES = """examples:
  worldsize convert train.py                            the changes, as a diff; nothing is written
  worldsize convert train.py | patch                    the same as --write
  worldsize convert train.py --write && worldsize run -w 2x4 -- python train.py

What is left alone is said on standard error, with its line. Nothing is executed. To train it as it is:
worldsize run -w 2x4 --data-parallel -- python train.py"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("script", metavar="SCRIPT.PY", help="the training script, for one process")
    parser.add_argument("--write", action="store_true", help="change the file, in place of printing a diff")
    parser.set_defaults(act=convert)


def convert(options: argparse.Namespace) -> int:
    require_packages("convert", "convert", "libcst")
    import libcst

    from worldsize.wings.convert.rewrite import convert_source

    path = options.script
    source = _read(path)
    try:
        converted = convert_source(source)
    except libcst.ParserSyntaxError as error:
        raise UsageError(f"not Python: {error.message}", f"{path}:{error.raw_line}") from None
    if converted.reason is not None:
        raise UsageError(f"nothing to convert: {converted.reason}", path)
    if options.write:
        try:
            write_document(path, converted.text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise UsageError(f"cannot be written: {error.strerror}", path) from None
    else:
        show_document("".join(_diff(path, source, converted.text)))
    for line, remark in converted.remarks:
        report(f"{path}:{line}: left alone: {remark}")
    return 0


def _read(path: str) -> str:
    try:
        return read_file(path).decode("utf-8")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", path or "convert") from None
    except ValueError:
        raise UsageError("is not text in UTF-8", path) from None


def _diff(path: str, before: str, after: str) -> list[str]:
    from difflib import unified_diff

    lines = unified_diff(_lines(before), _lines(after), path, path)
    return [line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines]


def _lines(text: str) -> list[str]:
    """As patch counts them: `str.splitlines` ends them at form feeds and others, too."""
    from io import StringIO

    return StringIO(text, newline="\n").readlines()
