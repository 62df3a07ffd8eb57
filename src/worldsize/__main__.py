"""Entry point of `python -m worldsize`: the command line."""

from worldsize.cli.main import run

run()
