"""Reading GPUs: what nvidia-smi of several generations says, NVML, and what is no answer at all."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gpu_recordings import H100, MISMATCH, NO_DEVICES, gpu_xml, node, process_xml, put, put_driver, several, smi_xml

from worldsize.agent.machine.visible_gpus import visible_gpus, visible_units
from worldsize.wings.checks.agent.gpu import reader
from worldsize.wings.checks.agent.gpu.device import Gpu, GpuProcess
from worldsize.wings.checks.agent.gpu.nvml import read_nvml
from worldsize.wings.checks.agent.gpu.xml_report import parse_xml
from worldsize.wings.checks.agent.programs.program_output import ProgramEnd


@pytest.mark.parametrize("driver", [440, 470, 535, 550, 570, 580])
def test_every_generation_of_nvidia_smi_is_read(driver: int) -> None:
    report = parse_xml(several(8, driver, active=("gpu_idle", "sw_power_cap"), uncorrected="2", pending="Yes"))
    assert (report.driver, report.cuda, report.failure) == ("%d.86.15" % driver, "12.8", "")
    assert [gpu.number for gpu in report.gpus] == list(range(8))
    gpu = report.gpus[3]
    assert (gpu.model, gpu.uuid, gpu.bus) == (H100, "GPU-3000", "00000000:04:00.0")
    assert (gpu.memory_mib, gpu.throttle, gpu.uncorrected, gpu.pending) == (81559, 0x5, 2, True)
    assert (gpu.width, gpu.mig, gpu.fault, gpu.remap_failed) == (16, False, "", False)
    assert gpu.is_exact == (driver >= 510)


def test_the_drivers_own_memory_is_not_used_memory() -> None:
    new, old, counted = (
        parse_xml(smi_xml(gpu_xml(driver, used=used))).gpus[0]
        for driver, used in ((570, "1 MiB"), (470, "1 MiB"), (570, "522 MiB"))
    )
    assert (new.used_mib, old.used_mib, counted.used_mib) == (2, 1, 2)


def test_recovery_is_the_drivers_word_or_its_two_older_questions() -> None:
    def recovery(driver: int, **said: str) -> str:
        return parse_xml(smi_xml(gpu_xml(driver, **said))).gpus[0].recovery

    assert recovery(570, recovery="Drain and Reset") == "Drain and Reset"
    assert recovery(570, recovery="N/A") == ""
    assert recovery(550) == ""
    assert recovery(550, old_reset="Yes") == "Reset"
    assert recovery(550, old_drain="Yes") == "Drain and Reset"


def test_processes_are_read_without_their_arguments() -> None:
    text = several(1, processes=process_xml(4711, used="30211 MiB") + process_xml(9, "G", "[Not Found]"))
    assert parse_xml(text).gpus[0].processes == (GpuProcess(4711, "C", "python3", 30211), GpuProcess(9, "G", "", None))


def test_a_divided_gpu_counts_by_its_parts() -> None:
    part = "<mig_device><index>0</index><fb_memory_usage><total>9856 MiB</total></fb_memory_usage></mig_device>"
    gpu = parse_xml(smi_xml(gpu_xml(mig="Enabled", mig_devices=part * 7))).gpus[0]
    assert (gpu.mig, gpu.mig_devices, gpu.units, gpu.memory_mib) == (True, 7, 7, 81559)
    assert parse_xml(several(1)).gpus[0].units == 1


def test_a_gpu_that_does_not_answer_is_named() -> None:
    said = "Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error\n"
    report = parse_xml(said + several(7))
    assert (len(report.gpus), report.missing, report.failure) == (7, ("GPU3: 0000:5F:00.0: Unknown Error",), "")
    alone = parse_xml("Unable to determine the device handle for GPU 0000:25:00.0: GPU is lost.  Reboot the system\n")
    assert (alone.gpus, alone.failure, len(alone.missing)) == ((), "", 1)
    lost = parse_xml(smi_xml(gpu_xml(), gpu_xml(total="GPU is lost", used="GPU is lost", free="GPU is lost")))
    assert [gpu.fault for gpu in lost.gpus] == ["", "GPU is lost"]
    assert parse_xml("Unable to determine the device handle for GPU 1: Insufficient Permissions").missing == ()


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", NO_DEVICES, MISMATCH, "GPUS none\n", "<nvidia_smi_log></nvidia_smi_log>", "\x00\xff<gp", "<" * 5000],
)
def test_what_is_no_answer_is_a_failure_in_words(text: str) -> None:
    report = parse_xml(text)
    assert report.gpus == ()
    assert report.failure
    assert len(report.failure) < 200
    assert report.failure.isprintable()


def test_nothing_that_a_program_can_print_breaks_the_reader() -> None:
    text, chance = several(3, processes=process_xml(1)), random.Random(5)
    for _ in range(60):
        at = chance.randrange(len(text))
        broken = text[:at] + chance.choice(["", "<gpu>", "</gpu>", "\0", "<a" * 50, "9" * 5000]) + text[at + 20 :]
        parse_xml(broken)
    assert parse_xml("<gpu>" * 5_000).gpus[255:256]
    assert len(parse_xml("<gpu>" * 5_000).gpus) == 256
    parse_xml("<gpu>" + "<a>" * 5_000 + "</a>" * 5_000)
    huge = parse_xml("<gpu><fb_memory_usage><total>%s MiB</total></fb_memory_usage>" % ("9" * 4000))
    assert huge.gpus[0].memory_mib is None


class Program:
    """nvidia-smi that answers by its first word, and notes what it was asked with which libraries."""

    def __init__(self, answers: Mapping[str, ProgramEnd | OSError]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str | None]] = []

    def __call__(
        self, argv: Sequence[str], environ: Mapping[str, str], directory: str, limit: float, most: int
    ) -> ProgramEnd:
        self.asked.append((argv[1], environ.get("LD_LIBRARY_PATH")))
        known = argv[1] if environ.get("LD_LIBRARY_PATH") != "/stubs" else "stubs"
        found = self.answers.get(known, ProgramEnd(2, "what?"))
        if isinstance(found, OSError):
            raise found
        return found


@pytest.fixture
def with_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put(tmp_path, {"usr/bin/nvidia-smi": "#!/bin/sh\n"})
    (tmp_path / "usr/bin/nvidia-smi").chmod(0o755)
    monkeypatch.setattr(reader, "load_nvml", lambda: None)
    return tmp_path


def test_the_long_answer_is_enough(with_program: Path) -> None:
    program = Program({"-q": ProgramEnd(0, several(2))})
    assert len(reader.read_gpus(node(with_program), program).gpus) == 2
    assert program.asked == [("-q", None)]


def test_stubs_of_cuda_on_the_ranks_paths_do_not_hide_the_gpus(with_program: Path) -> None:
    program = Program(
        {"-q": ProgramEnd(0, several(2)), "stubs": ProgramEnd(255, "should always run with libnvidia-ml.so")}
    )
    assert len(reader.read_gpus(node(with_program, LD_LIBRARY_PATH="/stubs"), program).gpus) == 2


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (ProgramEnd(None, ""), reader.LATE),
        (ProgramEnd(9, "No devices were found\n"), "No devices were found"),
        (ProgramEnd(0, "GPUS none"), "GPUS none"),
        (ProgramEnd(None, several(2).partition("</gpu>")[0]), reader.LATE),
        (ProgramEnd(0, several(2).partition("<nvidia_smi_log>")[2]), reader.CUT_OFF),
        (ProgramEnd(139, several(2).partition("</gpu>")[0]), reader.CUT_OFF),
        (PermissionError(13, "Permission denied"), "nvidia-smi cannot be started: Permission denied"),
    ],
)
def test_why_nothing_could_be_read(with_program: Path, answer: ProgramEnd | OSError, failure: str) -> None:
    report = reader.read_gpus(node(with_program), Program({"-q": answer}))
    assert (report.gpus, report.failure) == ((), failure)


def test_without_the_program_the_report_says_so(tmp_path: Path) -> None:
    assert reader.read_gpus(node(tmp_path)).failure == reader.NOT_FOUND


def test_gpus_that_programs_see() -> None:
    gpus = [Gpu(number, uuid="GPU-%d00" % number) for number in range(4)]

    def seen(variable: str | None) -> list[int]:
        return [gpu.number for gpu in visible_gpus(gpus, variable)]

    assert seen(None) == [0, 1, 2, 3]
    assert seen("2, 0") == [2, 0]
    assert seen("GPU-9,GPU-100") == []
    assert seen("GPU-") == []
    assert seen("GPU-300,GPU-100") == [3, 1]
    assert [seen(word) for word in ("", "-1", "NoDevFiles", "7", "²", "9" * 5000)] == [[]] * 6
    assert seen("1,-1,2") == [1]
    assert visible_units([Gpu(0, mig=True, mig_devices=7)], "MIG-a,MIG-b") == 2
    assert visible_units([], "MIG-a,MIG-b") == 0
    assert visible_units([Gpu(0, mig=True, mig_devices=7), Gpu(1)], None) == 8


class FakeNvml:
    """As much of pynvml as is asked; `answers`: what a question gives, or the error that it raises."""

    nvmlMemory_v2 = 2

    def __init__(self, count: int, **answers: Any) -> None:
        self.count = count
        self.answers = answers

    def nvmlInit(self) -> None:
        if self.count < 0:
            raise RuntimeError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        error = self.answers.get("handle_%d" % index)
        if error:
            raise RuntimeError(error)
        return index

    def __getattr__(self, name: str) -> Any:
        if name not in self.answers:
            raise AttributeError(name)
        return lambda *words: self._answer(name)

    def _answer(self, name: str) -> Any:
        if isinstance(self.answers[name], Exception):
            raise self.answers[name]
        return self.answers[name]


def test_nvml_tells_the_same_as_nvidia_smi() -> None:
    mib = 1 << 20
    nvml = FakeNvml(
        1,
        nvmlSystemGetDriverVersion=b"570.86",
        nvmlSystemGetCudaDriverVersion=12080,
        nvmlDeviceGetName=H100,
        nvmlDeviceGetUUID="GPU-1",
        nvmlDeviceGetPciInfo=SimpleNamespace(busId=b"00000000:01:00.0"),
        nvmlDeviceGetMemoryInfo=SimpleNamespace(total=81559 * mib, used=mib, free=81000 * mib, reserved=520 * mib),
        nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=7, usedGpuMemory=512 * mib)],
        nvmlSystemGetProcessName="/usr/bin/python3",
        nvmlDeviceGetTotalEccErrors=3,
        nvmlDeviceGetRemappedRows=(0, 1, 1, 0),
        nvmlDeviceGetRemappedRows_v2=TypeError("missing 1 required positional argument: 'info'"),
        nvmlDeviceGetFieldValues=[SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=4))],
        nvmlDeviceGetCurrentClocksThrottleReasons=0x41,
    )
    report = read_nvml(nvml)
    assert report is not None
    assert (report.source, report.driver, report.cuda) == ("NVML", "570.86", "12.8")
    gpu = report.gpus[0]
    assert (gpu.model, gpu.bus, gpu.memory_mib, gpu.used_mib, gpu.is_exact) == (
        H100,
        "00000000:01:00.0",
        81559,
        39,
        True,
    )
    assert gpu.processes == (GpuProcess(7, "C", "python3", 512),)
    assert (gpu.uncorrected, gpu.pending, gpu.recovery, gpu.throttle) == (3, True, "Drain and Reset", 0x41)


@pytest.mark.parametrize(("number", "word"), [(0, "None"), (6, "Bus Reset"), (7, "System Reboot"), (99, "")])
def test_recovery_actions_of_nvml(number: int, word: str) -> None:
    field = SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=number))
    report = read_nvml(FakeNvml(1, nvmlDeviceGetFieldValues=[field]))
    assert report is not None
    assert report.gpus[0].recovery == word


def test_nvml_that_knows_little_or_nothing() -> None:
    assert read_nvml(FakeNvml(-1)) is None
    assert read_nvml(FakeNvml(0)) is None
    lost = {"nvmlDeviceGetMemoryInfo": RuntimeError("GPU is lost")}
    report = read_nvml(FakeNvml(3, handle_1="GPU is lost", handle_2="Insufficient Permissions", **lost))
    assert report is not None
    assert [gpu.number for gpu in report.gpus] == [0]
    assert report.missing == ("GPU 1: GPU is lost",)
    assert report.gpus[0] == Gpu(0, fault="GPU is lost")


def test_gpus_are_looked_at_where_they_matter(tmp_path: Path) -> None:
    assert not reader.is_looked_at(node(tmp_path))
    assert not reader.is_looked_at(node(tmp_path, {"gpus": 0}))
    assert reader.is_looked_at(node(tmp_path, {"gpus": 4}))
    put_driver(tmp_path, 1)
    assert reader.is_looked_at(node(tmp_path))
    assert reader.is_looked_at(node(tmp_path, {"gpus": "many"}))
    assert not reader.is_looked_at(node(tmp_path, {"gpus": 0}))
    assert not reader.is_looked_at(node(tmp_path, {"gpus": 4}, WORLDSIZE_VIRTUAL_GPUS="4"))
