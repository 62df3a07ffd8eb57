"""A run's life as a picture: which process does what in which state, and which file of the run directory it writes."""

from __future__ import annotations

import html
from typing import NamedTuple

WIDTH, ROW, TOP, LEFT = 900, 44, 54, 128
"""Pixels: of the picture, of a row, above the first row, left of the first lane."""
LANES = ("client", "scheduler", "head's agent", "other agents", "ranks", "run directory")
STATES = {
    "CREATED": "wait",
    "PREPARING": "wait",
    "QUEUED": "wait",
    "STARTING": "wait",
    "RUNNING": "work",
    "STOPPING": "stop",
    "SUCCEEDED": "good",
    "FAILED": "stop",
    "CANCELLED": "stop",
    "LOST": "stop",
}
"""The states of a run, in the order in which it can have them, and their colours."""
FINAL = ("SUCCEEDED", "FAILED", "CANCELLED", "LOST")


class Step(NamedTuple):
    """What happens in a state. `lanes`: the processes, from the first to the last of them. `file`: what they write."""

    state: str
    lanes: tuple[str, str]
    text: str
    file: str = ""


STEPS = (
    Step("CREATED", ("client", "client"), "takes an id", "preparing"),
    Step("PREPARING", ("client", "client"), "copies the code", "code/"),
    Step("PREPARING", ("client", "client"), "writes the plan", "plan.json"),
    Step("QUEUED", ("client", "scheduler"), "submits, and may then leave", "handle.json"),
    Step("QUEUED", ("scheduler", "scheduler"), "finds nodes"),
    Step("STARTING", ("scheduler", "other agents"), "starts one agent on each node"),
    Step("STARTING", ("head's agent", "other agents"), "agents meet at the head", "attempt-0/rendezvous.json"),
    Step("RUNNING", ("head's agent", "ranks"), "each agent starts its ranks", "attempt-0/events/node-0000.jsonl"),
    Step("RUNNING", ("ranks", "ranks"), "train, print", "attempt-0/logs/rank-00000.log"),
    Step("STOPPING", ("ranks", "ranks"), "one rank fails", "attempt-0/errors/rank-00000.json"),
    Step("STOPPING", ("head's agent", "ranks"), "the others end: TERM, grace, KILL"),
    Step("FINAL", ("head's agent", "other agents"), "record each rank's end", "attempt-0/exit/node-0000.json"),
    Step("FINAL", ("client", "head's agent"), "the first process to notice settles the end", "result.json"),
)
_STYLE = """
text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #1f2328 } .mid { text-anchor: middle }
.head { font-weight: 600 } .file { font-family: ui-monospace, monospace; font-size: 11px }
.lane { stroke: #c9d1d9; stroke-dasharray: 3 4 } .box { fill: #eef4ff; stroke: #4a6fa5 }
.doc { fill: #f6f8fa; stroke: #8b98a9 }
.to { stroke: #8b98a9; fill: none } .wait { fill: #ddf4ff } .work { fill: #dafbe1 }
.good { fill: #dafbe1 } .stop { fill: #ffebe9 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .lane { stroke: #3d444d } .box { fill: #1c2a40; stroke: #7aa2dd }
  .doc { fill: #21262d; stroke: #8b98a9 }
  .wait { fill: #10304d } .work { fill: #12391f } .good { fill: #12391f } .stop { fill: #4a1d1d }
}
"""


def draw_life() -> str:
    """Return the picture, as SVG."""
    height = TOP + ROW * len(STEPS) + 16
    title = "A run's life: its states, the processes that act, and the files that they write"
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img">' % (WIDTH, height, WIDTH),
        "<title>%s</title><style>%s</style>" % (html.escape(title), _STYLE),
    ]
    for lane in LANES:
        x = _middle(lane)
        parts.append('<text class="mid head" x="%d" y="24">%s</text>' % (x, html.escape(lane)))
        parts.append('<line class="lane" x1="%d" y1="34" x2="%d" y2="%d"/>' % (x, x, height - 8))
    parts += _state_bars()
    parts += [text for number, step in enumerate(STEPS) for text in _step(number, step)]
    return "\n".join([*parts, "</svg>", ""])


def _lane_width(lane: str) -> int:
    return 230 if lane == LANES[-1] else (WIDTH - LEFT - 230) // (len(LANES) - 1)


def _middle(lane: str) -> int:
    place = LANES.index(lane)
    return LEFT + place * _lane_width(LANES[0]) + _lane_width(lane) // 2


def _state_bars() -> list[str]:
    """The bar at the left, with a piece for each state."""
    parts = []
    for name in dict.fromkeys(step.state for step in STEPS):
        rows = [number for number, step in enumerate(STEPS) if step.state == name]
        y, height = TOP + rows[0] * ROW, len(rows) * ROW - 6
        words = FINAL if name == "FINAL" else (name,)
        kind = "good" if name == "FINAL" else STATES[name]
        parts.append('<rect class="%s" x="8" y="%d" width="104" height="%d" rx="5"/>' % (kind, y, height))
        first = y + height // 2 + 4 - 8 * (len(words) - 1)
        for number, word in enumerate(words):
            parts.append('<text class="mid head" x="60" y="%d">%s</text>' % (first + 16 * number, word))
    return parts


def _step(number: int, step: Step) -> list[str]:
    y = TOP + number * ROW
    first, last = step.lanes
    width = _lane_width(LANES[0])
    left, right = _middle(first) - width // 2 + 5, _middle(last) + width // 2 - 5
    words = _wrapped(step.text, (right - left) // 6)
    parts = ['<rect class="box" x="%d" y="%d" width="%d" height="%d" rx="5"/>' % (left, y, right - left, ROW - 8)]
    for line, text in enumerate(words):
        base = y + 22 - 7 * (len(words) - 1) + 14 * line
        parts.append('<text class="mid" x="%d" y="%d">%s</text>' % ((left + right) // 2, base, html.escape(text)))
    if step.file:
        start = _middle(LANES[-1]) - 112
        parts.append('<path class="to" d="M%d %dH%d"/>' % (right, y + 18, start))
        parts.append('<rect class="doc" x="%d" y="%d" width="224" height="24" rx="3"/>' % (start, y + 6))
        parts.append('<text class="mid file" x="%d" y="%d">%s</text>' % (start + 112, y + 22, html.escape(step.file)))
    return parts


def _wrapped(text: str, letters: int) -> list[str]:
    """The text in at most two lines of about this length."""
    if len(text) <= letters:
        return [text]
    words = text.split()
    cut = min(range(1, len(words)), key=lambda place: abs(len(" ".join(words[:place])) - len(text) / 2))
    return [" ".join(words[:cut]), " ".join(words[cut:])]
