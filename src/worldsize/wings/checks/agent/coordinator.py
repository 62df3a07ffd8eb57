"""The head's part in a check: it waits for the results of the nodes' own probes, leads the nodes through the stages,
and collects the rows. It is a state machine of messages and a clock, which starts no process and never waits.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any, TypeAlias
from worldsize.state.check_rows import BAD, OK, UNKNOWN, CheckRow, row_of
from worldsize.wings.checks.agent.cluster import Cluster, Stage
from worldsize.wings.checks.agent.selection import Selection
from worldsize.wings.checks.agent.stage_table import StageEntry
from worldsize.wings.checks.agent.time_limits import TOLD_LATE

Send: TypeAlias = "Callable[[int, Mapping[str, Any]], None]"

PROBES = "probes"
_MOST_NOTICES, _MOST_LABELS, _LONGEST_NOTICE = 20, 4, 2000
_STRANGE = (*PARSE_ERRORS, ArithmeticError, AssertionError)
"""The exceptions that a judge may raise on an unforeseen answer."""


class Coordinator:
    """A check of all nodes.

    cluster  what is known of the nodes
    rows     the rows so far
    done     whether the check is complete
    """

    def __init__(
        self, cluster: Cluster, selection: Selection, load: Callable[[str], Stage], send: Send, now: float, limit: float
    ) -> None:
        """Begin the node check, which first waits for the probes of all nodes. `selection` names the rows that are
        wanted. `load` returns the stage of a module's name. `send` is called with a node's rank and the order for it.
        `limit` is the time for the whole check in seconds."""
        self.cluster = cluster
        self.rows: list[CheckRow] = []
        self.done = False
        self._selection = selection
        self._load = load
        self._send = send
        self._checks = selection.probes()
        self._due = selection.stages()
        self._ends_at = now + limit
        self._absent: set[int] = set()
        self._name = PROBES
        self._waiting = {node.node_rank for node in cluster.nodes}
        self._entry: StageEntry | None = None
        self._stage: Stage | None = None
        longest = max((check.limit for check in self._checks), default=0.0)
        self._late_at = min(now + longest + TOLD_LATE, self._ends_at)

    def deadline(self) -> float:
        """Return the time from which the nodes of the current stage count as late and `tick` must be called, on the
        clock of `now`."""
        return self._late_at

    def hear(self, node_rank: int, message: Mapping[str, Any], now: float) -> None:
        """Process a message that a node sends to the head during the node check, or that the node's agent sends if the
        node's program is `gone`. A message that is too late, or belongs to another stage, is ignored."""
        is_gone = "gone" in message and node_rank not in self._absent
        if self.done or (not is_gone and (node_rank not in self._waiting or message.get("stage") != self._name)):
            return
        self._waiting.discard(node_rank)
        if is_gone:
            self._leave_out(node_rank, str(message["gone"])[:200])
        elif self._name == PROBES:
            self._take_probes(node_rank, message)
        else:
            self._take_answer(node_rank, message.get("answer"))
        if not self._waiting:
            self._advance(now)

    def tick(self, now: float) -> None:
        """Continue the node check without the nodes that are late, if the deadline of the current stage has passed."""
        if not self.done and now >= self._late_at:
            self._mark_late()
            self._advance(now)

    # messages of nodes

    def _take_probes(self, node_rank: int, message: Mapping[str, Any]) -> None:
        try:
            rows, facts = [row_of(row) for row in message["rows"]], dict(message["facts"])
            address = str(message.get("address", ""))
        except PARSE_ERRORS:
            self._leave_out(node_rank, "its own results cannot be read")
            return
        label = self.cluster.nodes[node_rank].label  # a node may report only on itself
        self.rows += [row._replace(node=label) for row in rows if self._selection.wants(row.id)]
        self._change_node(node_rank, facts=facts, address=address)

    def _take_answer(self, node_rank: int, answer: object) -> None:
        if isinstance(answer, Mapping):
            node = self.cluster.nodes[node_rank]
            self._change_node(node_rank, answers={**node.answers, self._name: answer})

    def _change_node(self, node_rank: int, **changes: Any) -> None:
        nodes = list(self.cluster.nodes)
        nodes[node_rank] = nodes[node_rank]._replace(**changes)
        self.cluster = self.cluster._replace(nodes=tuple(nodes))

    def _mark_late(self) -> None:
        """Stop waiting for the nodes that are late in the current stage of the node check. Nodes that are late with
        their probes are left out of all stages."""
        if self._name == PROBES:
            for node_rank in sorted(self._waiting):
                self._leave_out(node_rank, "its own checks were not finished in time")
        self._waiting = set()

    def _leave_out(self, node_rank: int, why: str) -> None:
        label = self.cluster.nodes[node_rank].label
        self.rows.append(CheckRow(label, "node", "the node", why, UNKNOWN, "examine it: is it overloaded?"))
        self._absent.add(node_rank)

    # next stages

    def _advance(self, now: float) -> None:
        """Judge the current stage of the node check, and begin further stages until nodes must be waited for, or the
        check is complete."""
        self._judge()
        while not self._waiting:
            if not self._due or now >= self._ends_at:
                self._finish()
                return
            self._begin(self._due.pop(0), now)
            if not self._waiting:
                self._judge()

    def _begin(self, entry: StageEntry, now: float) -> None:
        try:
            stage = self._load(entry.module)
            orders = stage.orders(self._present())
        except (*_STRANGE, ImportError) as error:
            self._add_unknown(entry, f"{type(error).__name__}: {error}")
            return
        self._entry, self._stage, self._name = entry, stage, stage.name
        self._late_at = min(now + stage.limit + TOLD_LATE, self._ends_at)
        self._waiting = set(orders)
        for node_rank, order in orders.items():
            self._send(node_rank, {"stage": self._name, "order": order})

    def _present(self) -> Cluster:
        """Return the cluster with only the nodes that still take part in the node check."""
        nodes = tuple(node for node in self.cluster.nodes if node.node_rank not in self._absent)
        return self.cluster._replace(nodes=nodes)

    def _judge(self) -> None:
        if self._stage is None or self._entry is None:
            return
        try:
            found = self._stage.judge(self._present())
            self.rows += [row for row in found if self._selection.wants(row.id)]
        except _STRANGE as error:
            self._add_unknown(self._entry, f"{type(error).__name__}: {error}")
        self._stage = None

    def _add_unknown(self, entry: StageEntry, why: str) -> None:
        known = {row.id for row in self.rows}
        wanted = [id for id in entry.ids if id not in known and self._selection.wants(id)]
        self.rows += [CheckRow("", id, entry.what, "unknown", UNKNOWN, why[:200]) for id in wanted]

    def _finish(self) -> None:
        for entry in self._due:
            self._add_unknown(entry, "the check's time had run out")
        self.done = True


def notices_of(rows: Sequence[CheckRow]) -> list[str]:
    """Return the notices for the user that follow from the rows of the node check, before the ranks start: a line for
    each bad row, then one for each warning. Rows of several nodes that are otherwise equal are one line. If there are
    too many, only the first ones are returned, and the number of the rest."""
    nodes: dict[CheckRow, list[str]] = {}
    for row in sorted(rows, key=lambda row: row.verdict != BAD):
        if row.verdict not in (OK, UNKNOWN):
            nodes.setdefault(row._replace(node=""), []).append(row.node)
    lines = [_notice_of(row, [label for label in labels if label]) for row, labels in nodes.items()]
    more = [f"{len(lines) - _MOST_NOTICES} more of the kind (attempt-N/check.json has all)"]
    return lines if len(lines) <= _MOST_NOTICES else lines[:_MOST_NOTICES] + more


def row_of_notice(text: str) -> str:
    """Return the id of the check's row, such as `network.port`, in brackets at the end of a notice of `notices_of`; ""
    if `text` does not end with one."""
    name = text.rpartition(" [")[2]
    return name[:-1] if text.endswith("]") and "." in name and " " not in name else ""


def _notice_of(row: CheckRow, labels: Sequence[str]) -> str:
    """Return a row of the node check, which holds for the nodes `labels`, as one line: `node2, node3: the head's port:
    refused (a firewall?) [network.port]`."""
    where = ", ".join(labels) if len(labels) <= _MOST_LABELS else f"{', '.join(labels[:3])} and {len(labels) - 3} more"
    text = ": ".join(word for word in (where, row.what, row.value) if word)
    text = f"{text} ({row.hint})" if row.hint else text
    return f"{text[:_LONGEST_NOTICE]} [{row.id}]"
