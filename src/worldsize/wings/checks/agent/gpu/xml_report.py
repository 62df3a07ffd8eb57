"""Parser for `nvidia-smi -q -x` of drivers 340 to 580: one output with all facts that are needed.

The output is not always XML: drivers of 2024 close tags that were never opened, names of processes contain any
characters, and messages about lost GPUs appear between the lines. It is therefore read tag by tag, and anything that
does not fit is skipped.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re

from worldsize.wings.checks.agent.gpu import values
from worldsize.wings.checks.agent.gpu.device import Gpu, GpuProcess, GpuReport
from worldsize.wings.checks.agent.tables.gpu_limits import REASONS

_TAG = re.compile(r"<(/?)([A-Za-z_][\w.-]{0,63})(?: [^<>]{0,200})?>([^<]{0,4096})")
_NO_ANSWER = re.compile(r"Unable to determine the device handle for ([^\n<]{1,160})", re.IGNORECASE)
_DEEPEST = 12
_MOST_GPUS = 256
_MOST_PROCESSES = 256


class _Section:
    """The part of the output for one GPU: its texts by their paths, and its lists."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.processes: list[dict[str, str]] = []
        self.mig_devices = 0

    def get(self, *paths: str) -> str:
        """Return the text at the first of the given `paths` of tags that exists in this part of the output; "" if none
        does."""
        return next((self.texts[path] for path in paths if path in self.texts), "")


def parse_xml(text: str) -> GpuReport:
    """Parse the output of `nvidia-smi -q -x` into a GpuReport. If it contains no GPUs, the report's failure is the
    first line of the output."""
    head, sections = _sections(text)
    missing = tuple(values.plain(found) for found in _NO_ANSWER.findall(text)[:_MOST_GPUS])
    missing = tuple(each for each in missing if "Permission" not in each)
    gpus = tuple(_gpu(index, section) for index, section in enumerate(sections))
    failure = "" if gpus or missing else values.plain(text) or "nvidia-smi printed nothing"
    driver, cuda = (values.known(head.get(name)) for name in ("driver_version", "cuda_version"))
    return GpuReport("nvidia-smi", driver, cuda, gpus, missing, failure)


def _sections(text: str) -> tuple[_Section, list[_Section]]:
    head = _Section()
    sections: list[_Section] = []
    stack: list[str] = []
    section = head
    for closing, name, content in _TAG.findall(text):
        if name == "gpu":
            section, stack = (head if closing else _Section()), []
            if not closing and len(sections) < _MOST_GPUS:
                sections.append(section)
        elif closing:
            if name in stack:
                del stack[len(stack) - 1 - stack[::-1].index(name) :]
        elif name != "nvidia_smi_log" and len(stack) < _DEEPEST:
            stack.append(name)
            _note(section, stack, content.strip())
    return head, sections


def _note(section: _Section, stack: list[str], text: str) -> None:
    """Record the `text` of a tag of nvidia-smi's output in `section`. `stack` contains the names of the open tags."""
    name = stack[-1]
    if name == "process_info" and len(section.processes) < _MOST_PROCESSES:
        section.processes.append({})
    elif name == "mig_device":
        section.mig_devices += 1
    elif len(stack) > 1 and stack[-2] == "process_info" and section.processes:
        section.processes[-1].setdefault(name, text)
    elif text:
        section.texts.setdefault("/".join(stack), text)


def _gpu(index: int, section: _Section) -> Gpu:
    total, free, reserved = (
        values.number(section.get(f"fb_memory_usage/{name}")) for name in ("total", "free", "reserved")
    )
    used, is_exact = used_memory(total, values.number(section.get("fb_memory_usage/used")), free, reserved)
    return Gpu(
        number=index,
        model=values.known(section.get("product_name")),
        uuid=values.known(section.get("uuid")),
        bus=values.known(section.get("pci/pci_bus_id")),
        memory_mib=total,
        used_mib=used,
        is_exact=is_exact,
        mig=section.get("mig_mode/current_mig") == "Enabled",
        mig_devices=section.mig_devices,
        processes=tuple(_process(each) for each in section.processes),
        uncorrected=_uncorrected_errors(section),
        pending=_is_pending(section),
        remap_failed=section.get("remapped_rows/remapped_row_failure") == "Yes",
        recovery=_recovery(section),
        throttle=_throttle(section),
        fabric=values.known(section.get("fabric/state")),
        fault=_fault(section),
        width=values.number(section.get("pci/pci_gpu_link_info/link_widths/current_link_width")),
    )


def used_memory(total: int | None, used: int | None, free: int | None, reserved: int | None) -> tuple[int | None, bool]:
    """Return the memory of a GPU in use by programs, and whether the driver's own memory is known and not part of it.
    All sizes have one unit.

    Drivers before 510 do not report their own memory, and some count it as used. If it is known, the memory that is
    neither free nor reserved is in use.
    """
    if total is None or free is None or reserved is None:
        return used, False
    return max(0, total - free - reserved), True


def _process(fields: dict[str, str]) -> GpuProcess:
    return GpuProcess(
        values.number(fields.get("pid", "")) or 0,
        fields.get("type", "")[:8],
        values.program_name(fields.get("process_name", "")),
        values.number(fields.get("used_memory", "")),
    )


def _uncorrected_errors(section: _Section) -> int | None:
    """Return the number of volatile uncorrected ECC errors in a GPU's section of nvidia-smi's output; None if it is not
    reported. It is named `double_bit` up to Volta, by the kind of memory since Ampere, and by its cause since 550."""
    at = "ecc_errors/volatile/"
    kinds = ("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable")
    found = [values.number(section.get(at + name)) for name in (*kinds, "double_bit/total")]
    counts = [count for count in found if count is not None]
    return sum(counts) if counts else None


def _is_pending(section: _Section) -> bool:
    """Return whether memory of the GPU waits for a reset to be replaced, according to its section of nvidia-smi's
    output: rows since Ampere, pages before, which older drivers call blacklisted."""
    pages = ("retired_pages/pending_retirement", "retired_pages/pending_blacklist")
    return any(section.get(name) == "Yes" for name in ("remapped_rows/remapped_row_pending", *pages))


def _recovery(section: _Section) -> str:
    """Return the recovery action that the driver requests for the GPU of a section of nvidia-smi's output: the driver's
    own word since 565, and before that the one that follows from two Yes-or-No values. "" if there is none."""
    if action := values.known(section.get("gpu_recovery_action")):
        return action[:40]
    if section.get("gpu_reset_status/reset_required") == "Yes":
        return "Reset"
    return "Drain and Reset" if section.get("gpu_reset_status/drain_and_reset_recommended") == "Yes" else ""


def _throttle(section: _Section) -> int | None:
    """Return the bits of the reasons for a lower clock of the GPU of a section of nvidia-smi's output:
    `clocks_event_reasons` since 535, `clocks_throttle_reasons` before. None if none is reported."""
    found = None
    for name, bit in REASONS.items():
        state = section.get(
            f"clocks_event_reasons/clocks_event_reason_{name}", f"clocks_throttle_reasons/clocks_throttle_reason_{name}"
        )
        if state in ("Active", "Not Active"):
            found = (found or 0) | (bit if state == "Active" else 0)
    return found


def _fault(section: _Section) -> str:
    return next(filter(None, (values.fault_in(text) for text in section.texts.values())), "")
