"""What nvidia-smi printed with several drivers, cut down to what is read, and a node with a tree of its own.

The forms are those of public logs: AstraExt/astra-monitor#131 (555), netdata/netdata#2759 (340),
SysMonTask#60 (460), flutter_server_box#286 (a list of clocks that is not XML), Azure/azhpc-diagnostics#73 (NVLinks),
NVIDIA/nccl#1617 (topo).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worldsize.wings.checks.agent.node_context import NodeContext

H100 = "NVIDIA H100 80GB HBM3"
THROTTLE_NAMES = (
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown",
    "hw_power_brake_slowdown", "sync_boost", "sw_thermal_slowdown", "display_clocks_setting",
)  # fmt: skip
BROKEN_CLOCKS = """<supported_clocks>
    <supported_graphics_clock>210 MHz</supported_graphics_clock>
    </supported_mem_clock>
    <supported_mem_clock>
    5001 MHz
    <supported_graphics_clock>2100 MHz</supported_graphics_clock>
    </supported_clocks>"""
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.86\n"
NO_DEVICES = "No devices were found\n"
TOPO_H100 = """\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV6\tNV6\tNV6\tPIX\tSYS\t6,14,22,30\t3\t\tN/A
GPU1\tNV6\t X \tNV6\tNV6\tSYS\tPIX\t4,12,20,28\t1\t\tN/A
GPU2\tNV6\tNV6\t X \tNV6\tSYS\tSYS\t7,15,23,31\t7\t\tN/A
GPU3\tNV6\tNV6\tNV6\t X \tSYS\tSYS\t5,13,21,29\t5\t\tN/A
NIC0\tPIX\tSYS\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tPIX\tSYS\tSYS\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
"""
TOPO_DGX1 = """\tGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tCPU Affinity
GPU0\t X \tNV1\tNV2\tSYS\tPIX\t0-19,40-59
GPU1\tNV1\t X \tSYS\tNV2\tPIX\t0-19,40-59
GPU2\tNV2\tSYS\t X \tNV1\tSYS\t20-39,60-79
GPU3\tSYS\tNV2\tNV1\t X \tSYS\t20-39,60-79
mlx5_0\tPIX\tPIX\tSYS\tSYS\t X
"""


def gpu_xml(driver: int = 570, **said: Any) -> str:
    """One GPU's part of `nvidia-smi -q -x`, in the form of that driver's generation; `said`: what is special of it."""
    get = {
        "model": H100, "uuid": "GPU-aaaa", "bus": "00000000:01:00.0", "total": "81559 MiB", "used": "1 MiB",
        "reserved": "520 MiB", "free": "81037 MiB", "active": (), "recovery": "None", "uncorrected": "0",
        "pending": "No", "failure": "No", "processes": "", "mig": "Disabled", "mig_devices": "None", "state": "N/A",
        "width": "16x", **said,
    }.get  # fmt: skip
    reason = "clocks_event_reason" if driver >= 535 else "clocks_throttle_reason"
    reasons = "".join(
        "<%s_%s>%s</%s_%s>" % (reason, name, "Active" if name in get("active") else "Not Active", reason, name)
        for name in THROTTLE_NAMES
    )
    reserved = "<reserved>%s</reserved>" % get("reserved") if driver >= 510 else ""
    if driver >= 550:
        ecc = "<sram_uncorrectable_parity>0</sram_uncorrectable_parity><dram_uncorrectable>%s</dram_uncorrectable>"
    elif driver >= 450:
        ecc = "<sram_uncorrectable>0</sram_uncorrectable><dram_uncorrectable>%s</dram_uncorrectable>"
    else:
        ecc = "<double_bit><device_memory>0</device_memory><total>%s</total></double_bit>"
    action = "<gpu_recovery_action>%s</gpu_recovery_action>" % get("recovery") if driver >= 565 else ""
    old_action = "Requested functionality has been deprecated" if driver >= 565 else get("old_reset", "No")
    old_drain = old_action if driver >= 565 else get("old_drain", "No")
    return f"""
    <gpu id="{get("bus")}">
      <product_name>{get("model")}</product_name>
      <mig_mode><current_mig>{get("mig")}</current_mig><pending_mig>{get("mig")}</pending_mig></mig_mode>
      <mig_devices>{get("mig_devices")}</mig_devices>
      <serial>N/A</serial>
      <uuid>{get("uuid")}</uuid>
      <gpu_reset_status><reset_required>{old_action}</reset_required>
        <drain_and_reset_recommended>{old_drain}</drain_and_reset_recommended>
      </gpu_reset_status>
      {action}
      <pci><pci_bus_id>{get("bus")}</pci_bus_id><pci_gpu_link_info>
        <link_widths><max_link_width>16x</max_link_width><current_link_width>{get("width")}</current_link_width></link_widths>
      </pci_gpu_link_info></pci>
      <{reason}s>{reasons}</{reason}s>
      <fb_memory_usage><total>{get("total")}</total>{reserved}<used>{get("used")}</used><free>{get("free")}</free>
      </fb_memory_usage>
      <bar1_memory_usage><total>131072 MiB</total><used>7 MiB</used><free>131065 MiB</free></bar1_memory_usage>
      <ecc_errors><volatile>{ecc % get("uncorrected")}</volatile>
        <aggregate><dram_uncorrectable>17</dram_uncorrectable><double_bit><total>17</total></double_bit></aggregate></ecc_errors>
      <retired_pages><pending_retirement>N/A</pending_retirement></retired_pages>
      <remapped_rows><remapped_row_pending>{get("pending")}</remapped_row_pending>
        <remapped_row_failure>{get("failure")}</remapped_row_failure></remapped_rows>
      <fabric><state>{get("state")}</state><status>N/A</status></fabric>
      {BROKEN_CLOCKS}
      <processes>{get("processes")}</processes>
      <accounted_processes></accounted_processes>
    </gpu>"""


def process_xml(
    pid: int, kind: str = "C", name: str = "/usr/bin/python3 train.py --token=s3cret", used: str = ""
) -> str:
    return (
        "<process_info><gpu_instance_id>N/A</gpu_instance_id><pid>%s</pid><type>%s</type>"
        "<process_name>%s</process_name><used_memory>%s</used_memory></process_info>" % (pid, kind, name, used or "N/A")
    )


def smi_xml(*gpus: str, driver: int = 570) -> str:
    """The whole of `nvidia-smi -q -x`."""
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        "<timestamp>Mon Oct 13 00:25:36 2025</timestamp><driver_version>%d.86.15</driver_version>"
        "<cuda_version>12.8</cuda_version><attached_gpus>%d</attached_gpus>%s\n</nvidia_smi_log>\n"
        % (driver, len(gpus), "".join(gpus))
    )


def several(count: int, driver: int = 570, **said: Any) -> str:
    """That many equal GPUs."""
    gpus = [gpu_xml(driver, uuid="GPU-%d000" % n, bus="00000000:%02X:00.0" % (n + 1), **said) for n in range(count)]
    return smi_xml(*gpus, driver=driver)


def node(root: Path, asked: Mapping[str, Any] | None = None, nodes: int = 1, **environ: str) -> NodeContext:
    """A node whose machine is this folder."""
    return NodeContext(0, nodes, "node1", "node1", "/run", {"PATH": "", **environ}, asked or {}, root=str(root))


def put(root: Path, files: Mapping[str, str]) -> None:
    """Write files below the root."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def put_driver(root: Path, count: int, model: str = H100, version: str = "NVRM version: 570") -> None:
    """The files of NVIDIA's driver with this many GPUs."""
    put(root, {"proc/driver/nvidia/version": version})
    for number in range(count):
        put(root, {
            "dev/nvidia%d" % number: "",
            "proc/driver/nvidia/gpus/0000:%02x:00.0/information" % (number + 1): "Model: \t\t %s\nIRQ: 1\n" % model,
        })  # fmt: skip
