"""The actions `env pack` and `env shell`: an environment as one file for the nodes' own disks, or in a shell."""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from worldsize.cli.console import current_directory
from worldsize.cli.output import report, report_message, show
from worldsize.errors import UsageError
from worldsize.wings.environments.cli.build import ensure_environment


def pack(options: argparse.Namespace) -> int:
    from worldsize.cli.progress_line import NoticePrinter, ProgressLine
    from worldsize.common.numbers import bytes_text
    from worldsize.registry import load_module

    packer = load_module("wings.provisioning.pack", "`worldsize env pack`")
    environment, _ = ensure_environment(options)
    if environment.archive:
        raise UsageError("is packed already", options.spec, f"use it directly: environment: {options.spec}")
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


def open_shell(options: argparse.Namespace) -> int:
    from worldsize.agent.posix.processes import find_program
    from worldsize.plan.setup_script import bash_command
    from worldsize.trust.procfs import with_password

    if options.words is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = f"without one: worldsize env shell {shlex.quote(options.spec)} -- COMMAND"
        raise UsageError("a shell needs a terminal", None, hint)
    environment, _ = ensure_environment(options, prefix=False)
    lines = environment.activation(os.environ).shell_lines()
    if options.words:
        last = f"exec {shlex.join(options.words)}"
    else:
        report("{}; leave it with exit".format(environment.prefix or "the current Python"))
        last = "exec {} -i".format(shlex.quote(os.environ.get("SHELL") or "bash"))
    sys.stdout.flush()
    words, variable = bash_command([*lines, last])
    os.execve(find_program("bash", os.environ), words, {**with_password(os.environ), **variable})
