"""The values from which on a GPU is not healthy, and the reasons for a lower clock.

The bits are read from the documentation of NVML (nvmlClocksEventReasons), not measured. The harmless ones are those
that Azure's health checks for nodes accept (Azure/azurehpc-health-checks). They are tested as bits, not for equality.
The limit for memory in use before a job is that of Meta's gcm (facebookresearch/gcm, 15 MiB).

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}

SLOWED = {
    0x40: ("too hot (hardware thermal slowdown)", "its cooling fails"),
    0x80: ("held by its power supply (power brake)", "its power supply asks it to slow down"),
    0x20: ("too hot (software thermal slowdown)", "its cooling is at its limit"),
    0x8: ("held by the hardware (hardware slowdown)", "its cooling or its power supply fails"),
}
"""The clock reasons that indicate a problem, the most specific first."""

LEAST_PROCESS_MIB = 15
"""The memory in MiB from which on a process counts as a user of the GPU."""

LEAST_UNEXPLAINED_MIB = 512
"""The memory in MiB from which on memory without a known process is reported. One CUDA context takes 300 to 500 MiB."""

NOT_JOBS = ("nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "nv-hostengine", "nvidia-persistenced")
"""Programs of the system that may use a GPU's memory at any time."""

RESET_FIRST = {
    "Reset": "it must be reset",
    "Reboot": "the node must be rebooted",
    "Drain P2P": "its traffic with other GPUs must stop, and the node must be checked",
}
"""Recovery actions, in the words of nvidia-smi, that must precede any new job on the GPU."""
