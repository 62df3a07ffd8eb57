"""`nvidia-smi --query-gpu=… --format=csv`: what is asked where the long answer cannot be had.

A driver refuses the whole question where it does not know one of the fields, so there are several, each with less:
`clocks_event_reasons.active` came with 535, `memory.reserved` with 510.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.wings.checks.agent.gpu import values
from worldsize.wings.checks.agent.gpu.device import Gpu, GpuReport
from worldsize.wings.checks.agent.gpu.xml_report import used_memory

_BASE = ("index", "name", "uuid", "memory.total", "memory.used", "driver_version")
QUESTIONS = (
    (*_BASE, "memory.free", "memory.reserved", "clocks_event_reasons.active"),
    (*_BASE, "memory.free", "clocks_throttle_reasons.active"),
    _BASE,
)


def question(fields: tuple[str, ...]) -> tuple[str, ...]:
    """The words that ask for these fields."""
    return (f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")


def parse_csv(text: str, fields: tuple[str, ...]) -> GpuReport:
    """What the answer says. Lines with another number of values are messages, and passed over."""
    rows = [[value.strip() for value in line.split(",")] for line in text.splitlines()[:256]]
    named = [dict(zip(fields, row)) for row in rows if len(row) == len(fields)]
    gpus = tuple(_gpu(row) for row in named if values.number(row["index"]) is not None)
    driver = next((values.known(row["driver_version"]) for row in named), "")
    failure = "" if gpus else values.plain(text) or "nvidia-smi said nothing"
    return GpuReport("nvidia-smi", driver if gpus else "", "", gpus, (), failure)


def _gpu(row: dict[str, str]) -> Gpu:
    total, used, free, reserved = (
        values.number(row.get(f"memory.{name}", "")) for name in ("total", "used", "free", "reserved")
    )
    foreign, is_exact = used_memory(total, used, free, reserved)
    reasons = row.get("clocks_event_reasons.active") or row.get("clocks_throttle_reasons.active") or ""
    return Gpu(
        number=values.number(row["index"]) or 0,
        model=values.known(row["name"]),
        uuid=values.known(row["uuid"]),
        memory_mib=total,
        used_mib=foreign,
        is_exact=is_exact,
        throttle=values.bits(reasons),
        fault=next(filter(None, (values.fault_in(value) for value in row.values())), ""),
    )
