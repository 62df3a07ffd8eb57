"""Recorded runs whose pages are made, and what a browser would read of a page."""

from __future__ import annotations

import json
import os
from html.parser import HTMLParser
from typing import Any

from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.state.records import Failure, Status
from worldsize.store.runs import create_run
from worldsize.wings.report.facts import RunFacts, read_facts

MADE = 1_800_000_000.0
FAILED = Status(
    "FAILED",
    "EXIT_CODE",
    1,
    "rank 2 fell",
    Failure("EXIT_CODE", "rank 2 fell", 1, 2, 1, MADE + 20),
    MADE + 5,
    MADE + 21,
)
SUCCEEDED = Status("SUCCEEDED", None, 0, "", None, MADE + 5, MADE + 21)


def write(path: str, value: Any) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", errors="surrogateescape") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))


def rank_exit(rank: int, code: int, stopped: bool = False) -> dict[str, Any]:
    return {"rank": rank, "code": code, "started": MADE + 8, "ended": MADE + 20, "stopped": stopped}


def record_run(
    home: str, nodes: int = 2, ranks: int = 2, codes: dict[int, int] | None = None, **fields: Any
) -> RunPaths:
    """A run of this user's own; the `codes` of ranks, 0 where none is said."""
    paths = create_run(home)
    plan = Plan(
        paths.run_id, "t", "local", MADE, 0, node_major_layout(nodes, ranks), ("python", "train.py"),
        **{"environment": {}, **fields},
    )  # fmt: skip
    write(paths.plan, plan.to_json())
    write(paths.job, "command: python train.py\n")
    write(paths.submission, "srun python train.py\n")
    record = {"worldsize": "9.9", "user": "ada", "host": "login1", "argv": ["worldsize", "run"], "platform": "Linux"}
    write(paths.record, {"version": 1, **record})
    for node in plan.nodes:
        record_node(paths, node.node_rank, [rank.rank for rank in node.ranks], codes or {})
    return paths


def record_node(paths: RunPaths, node: int, ranks: list[int], codes: dict[int, int]) -> None:
    events = [
        {"time": MADE + 5, "event": "agent_started", "pid": 7, "host": f"n{node}"},
        {"time": MADE + 8, "event": "ranks_started", "pids": {str(rank): 100 + rank for rank in ranks}},
    ]
    write(paths.events(node), "".join(json.dumps(event) + "\n" for event in events))
    exits = [rank_exit(rank, codes.get(rank, 0)) for rank in ranks]
    record = {"node_rank": node, "host": f"n{node}", "attempt": 0, "started": MADE + 5, "ended": MADE + 21}
    write(paths.exit_record(node), {**record, "ranks": exits, "stop": None, "failure": None, "code": 0})
    for rank in ranks:
        write(paths.rank_log(rank), f"hello from rank {rank}\n")


def facts_of(paths: RunPaths, status: Status = SUCCEEDED, log_lines: int = 200) -> RunFacts:
    return read_facts(Run(paths, {}), status, log_lines)


class ReadPage(HTMLParser):
    """Its `tags`, and the text of each section by its id."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {"": ""}
        self._section = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self._section = str(dict(attrs)["id"])
            self.texts[self._section] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag in ("tr", "dd", "p", "li", "pre", "summary"):
            self.texts[self._section] += "\n"
        elif tag in ("td", "th", "dt"):
            self.texts[self._section] += "|"

    def handle_data(self, data: str) -> None:
        self.texts[self._section] += data
