"""All cases, by the page of docs/causes/ on which their screens stand."""

from __future__ import annotations

from causes.case import Case
from causes.tables.communication_cases import COMMUNICATION_CASES
from causes.tables.end_cases import DECIDED_CASES, END_CASES
from causes.tables.gpu_cases import GPU_CASES
from causes.tables.launch_cases import LAUNCH_CASES
from causes.tables.library_cases import LIBRARY_CASES
from causes.tables.machine_cases import MACHINE_CASES
from causes.tables.nccl_cases import NCCL_CASES
from causes.tables.network_cases import NETWORK_CASES
from causes.tables.program_cases import PROGRAM_CASES

CASES: dict[str, tuple[Case, ...]] = {
    "gpus": GPU_CASES,
    "communication": (*COMMUNICATION_CASES, *NETWORK_CASES, *LIBRARY_CASES, *NCCL_CASES),
    "launch": (*LAUNCH_CASES, *DECIDED_CASES),
    "machine": MACHINE_CASES,
    "programs": PROGRAM_CASES,
    "ends": END_CASES,
}
