"""env pack: an environment as one file, for nodes' own disks."""

from __future__ import annotations

import argparse
import os
import sys

from worldsize.cli.console import current_directory
from worldsize.cli.output import report, report_message, show
from worldsize.wings.environments.cli.build import add_compute_option, ensure_environment

_EXAMPLES = """examples:
  worldsize env pack /shared/me/venv                    writes venv.tar.gz here, and prints its name
  worldsize env pack torch -o /shared/me/torch.tar.gz
  worldsize run job.yml --set environment=/shared/me/torch.tar.gz

SPEC is a virtual or conda environment, by path or by name, or what `worldsize env build` takes, which is built first.
Nodes unpack the file on their own disks, once for all of their ranks, and keep it there for later runs. A job that
says `distribute: local` packs by itself. The Python of a virtual environment travels too, unless it is the system's
own."""


def configure(action: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("spec", metavar="SPEC", help="an environment, by path or by name; or what it is made of")
    parser.add_argument("-o", "--to", metavar="FILE", help="a file, or a folder for NAME.tar.gz (default: here)")
    add_compute_option(parser)
    parser.set_defaults(act=run_pack)


def run_pack(options: argparse.Namespace) -> int:
    from worldsize.cli.progress_line import NoticePrinter, ProgressLine
    from worldsize.common.numbers import bytes_text
    from worldsize.errors import UsageError
    from worldsize.registry import load_module

    packer = load_module("wings.provisioning.pack", "`worldsize env pack`")
    environment, _ = ensure_environment(options)
    if environment.archive:
        raise UsageError("is packed already", options.spec, f"name it as it is: environment: {options.spec}")
    existing = environment.existing
    target = os.path.abspath(options.to or "")
    if os.path.isdir(target):
        target = os.path.join(target, os.path.basename(existing.prefix) + packer.SUFFIX)
    told = ProgressLine() if sys.stderr.isatty() else NoticePrinter()
    try:
        found = packer.pack(existing, target, lambda done, total: told.transfer("packing", done, total))
    finally:
        told.clear()
    for notice in found.notices:
        report_message("notice: " + notice)
    report(f"{found.files} files, {bytes_text(found.size)} of {bytes_text(found.unpacked)}")
    show(os.path.relpath(target, current_directory()) if target.startswith(current_directory() + os.sep) else target)
    return 0
