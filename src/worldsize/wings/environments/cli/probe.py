"""env probe: what a compute's nodes have that conda packages depend on."""

from __future__ import annotations

import argparse
import os

from worldsize.cli.console import add_output_option, load_current_config
from worldsize.cli.output import report, show, show_json
from worldsize.wings.environments.cli.build import add_compute_option

_EXAMPLES = """examples:
  worldsize env probe --compute lab           asks a node of lab; environments for lab go by its answer from now on

What is printed may stand in worldsize.toml too, in the compute's table, where it wins."""


def configure(action: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_compute_option(parser)
    add_output_option(parser)
    parser.set_defaults(act=probe_compute)


def probe_compute(options: argparse.Namespace) -> int:
    from worldsize.service.computes import choose_compute, open_compute
    from worldsize.wings.environments.location import write_probe
    from worldsize.wings.environments.probe import probe

    config = load_current_config()
    name = choose_compute(config, options.compute, None)
    found = probe(open_compute(config, name, os.environ))
    write_probe(config.home, name, found.virtual, found.node)
    if options.output == "json":
        show_json({"compute": name, "node": found.node, "virtual_packages": list(found.virtual)})
    else:
        show("virtual_packages = [{}]".format(", ".join(f'"{each}"' for each in found.virtual)))
        report(f"asked of {found.node}: environments for {name} are built for this")
    return 0
