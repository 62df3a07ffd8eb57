"""The action `env propose`, which splits a requirements list between conda and pip."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile

from worldsize.cli.console import load_current_config
from worldsize.cli.output import report, show_document, show_json
from worldsize.errors import UsageError
from worldsize.trust.secrets import mask_text


def propose_split(options: argparse.Namespace) -> int:
    from functools import partial

    from worldsize.cli.progress_line import NoticePrinter, ProgressLine
    from worldsize.wings.environments.conda import packages
    from worldsize.wings.environments.conda.split_requirements import environment_yaml, propose, read_list
    from worldsize.wings.environments.job_environment import DEFAULT_CHANNELS
    from worldsize.wings.environments.workspace.builder import Build

    if options.python and not re.fullmatch(r"\d+(\.\d+)*", options.python):
        raise UsageError(f"--python: {options.python!r:.60} is not a version", None, "such as 3.11")
    found = read_list(options.file)
    config = load_current_config()
    channels = tuple(options.channel) or config.conda.get("channels") or DEFAULT_CHANNELS
    alias = config.conda.get("channel_alias")
    cache = packages.ensure_cache_directory(os.path.join(config.home, "cache"), os.environ, channels, alias)
    source = packages.PackageSource(channels, alias, (), cache)
    told = ProgressLine() if sys.stderr.isatty() else NoticePrinter()
    with tempfile.TemporaryDirectory(prefix="worldsize-") as scratch:
        work = Build(scratch, told.show_activity)
        known = partial(packages.find_known, work, source, environ=os.environ)
        trial = partial(packages.find_conflict, work, source, environ=os.environ)
        proposal = propose(found, options.python, known, trial)
    told.clear()
    name = options.name or os.path.basename(os.path.dirname(os.path.abspath(options.file))) or "env"
    if options.output == "json":
        show_json({"name": name, "channels": list(channels), **proposal._asdict()})
        return 0
    for line, why in proposal.why.items():
        report(f"pip: {mask_text(line)} {why}")
    show_document(environment_yaml(proposal, name, channels))
    return 0
