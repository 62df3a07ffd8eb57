"""env check, env probe: whether an environment works on the nodes of a compute, and what these nodes have."""

from __future__ import annotations

import argparse
import os
from typing import Any

from worldsize.cli.console import load_current_config, table
from worldsize.cli.output import lines_of, report, show, show_json
from worldsize.wings.environments.cli.build import look_up


def check(options: argparse.Namespace) -> int:
    from worldsize.jobspec.job import Job
    from worldsize.service.compute_nodes import left_out_notice
    from worldsize.service.computes import choose_compute, open_compute
    from worldsize.wings.environments.inspect.node_check import find_problems
    from worldsize.wings.environments.nodes import check_on_nodes

    config = load_current_config()
    name = choose_compute(config, options.compute, None)
    compute = open_compute(config, name, os.environ)
    environment = look_up(options.spec, config, name) if options.spec else None
    modules = [each.strip() for each in options.modules.split(",") if each.strip()]
    rows, left_out = check_on_nodes(compute, config, environment, modules, options.world, os.environ)
    problems = find_problems(rows, compute.facts(Job()).gpus_per_node)
    if left_out:
        report(left_out_notice(left_out))
    failed = any(problem.level == "error" for problem in problems)
    if options.output == "json":
        nodes = [{"node": row.node, **(dict(row.said) if row.said else {"error": row.error})} for row in rows]
        show_json(
            {"compute": name, "ok": not failed, "nodes": nodes, "problems": [each._asdict() for each in problems]}
        )
    else:
        _show(rows, problems)
    return 1 if failed else 0


def _show(rows: Any, problems: Any) -> None:
    from worldsize.plan.hostlist import fold_hostlist
    from worldsize.wings.environments.inspect.node_check import version_of

    answered = [row for row in rows if row.said and "imports" in row.said]
    names = list(dict.fromkeys(name for row in answered for name in row.said["imports"]))
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in answered:
        said = row.said
        versions = [version_of(said, name) if version_of(said, name) is not None else "FAILS" for name in names]
        gpus = f"{len(said['gpus'])} × {said['gpus'][0][0]}" if said["gpus"] else ""
        cells = (said["python"], said["glibc"], said["driver"], gpus, *(text or "there" for text in versions))
        alike.setdefault(cells, []).append(row.node)
    if alike:
        headers = ["NODES", "PYTHON", "GLIBC", "DRIVER", "GPUS", *names]
        show(*table([[fold_hostlist(nodes), *cells] for cells, nodes in alike.items()], headers))
    for each in problems:
        show(*lines_of(f"{each.level}: {fold_hostlist(each.nodes)}: {each.what}"))
        if each.mend:
            show("  → " + each.mend)


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
        report(f"asked of {found.node}: environments for {name} are built for this")
    return 0
