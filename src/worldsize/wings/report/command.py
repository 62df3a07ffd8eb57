"""report: to be written."""

from __future__ import annotations

import argparse

from worldsize.cli.console import add_run_argument


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.set_defaults(act=lambda options: 0)
