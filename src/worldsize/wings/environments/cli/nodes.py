"""The actions `env check` and `env probe`: whether an environment works on the nodes of a compute, and what these nodes
have."""

from __future__ import annotations

import argparse
import os
import time

from worldsize.cli.console import load_current_config
from worldsize.cli.output import report, show, show_json
from worldsize.wings.environments.cli.build import look_up


def check(options: argparse.Namespace) -> int:
    from worldsize.cli.check_results import CheckResults, show_results
    from worldsize.jobspec.job import Job
    from worldsize.service.compute_nodes import left_out_rows
    from worldsize.service.computes import choose_compute, open_compute
    from worldsize.wings.environments.inspect.report_rows import NODES, report_rows
    from worldsize.wings.environments.nodes import check_on_nodes

    config = load_current_config()
    name = choose_compute(config, options.compute, None)
    compute = open_compute(config, name, os.environ)
    environment = look_up(options.spec, config, name) if options.spec else None
    modules = [each.strip() for each in options.modules.split(",") if each.strip()]
    began = time.monotonic()
    reports, nodes = check_on_nodes(compute, config, environment, modules, options.world, os.environ)
    rows = (*left_out_rows(nodes, NODES), *report_rows(reports, compute.facts(Job()).gpus_per_node))
    hosts = tuple(report.node for report in reports)
    return show_results(CheckResults(None, time.monotonic() - began, hosts, rows), options.output)


def probe_compute(options: argparse.Namespace) -> int:
    from worldsize.service.computes import choose_compute, open_compute
    from worldsize.wings.environments.job_environment import write_probe
    from worldsize.wings.environments.nodes import probe

    config = load_current_config()
    name = choose_compute(config, options.compute, None)
    found = probe(open_compute(config, name, os.environ))
    write_probe(config.home, name, found.virtual, found.node)
    if options.output == "json":
        show_json({"compute": name, "node": found.node, "virtual_packages": list(found.virtual)})
    else:
        show("virtual_packages = [{}]".format(", ".join(f'"{each}"' for each in found.virtual)))
        report(f"from {found.node}: environments for {name} are built for this")
    return 0
