"""Rows of GPUs: how many the ranks see against what was asked for, and who else uses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_recordings import H100, MISMATCH, NO_DEVICES, NO_DRIVER, gpu_xml, node, process_xml, put, put_driver, several
from gpu_recordings import smi_xml as smi

from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.gpu.device import Gpu, GpuReport
from worldsize.wings.checks.agent.gpu.reader import LATE, NOT_FOUND
from worldsize.wings.checks.agent.gpu.xml_report import parse_xml
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.probes.gpus import gpus_result, probe

GPUS = parse_xml(several(8))


def count(context: NodeContext, text: str) -> CheckRow:
    (row,) = (row for row in gpus_result(context, parse_xml(text)).rows if row.id == "gpu.count")
    return row


def memory(context: NodeContext, text: str) -> CheckRow:
    (row,) = (row for row in gpus_result(context, parse_xml(text)).rows if row.id == "gpu.memory")
    return row


def test_as_many_as_asked_for(tmp_path: Path) -> None:
    context = node(tmp_path, {"gpus": 8, "ranks": 8, "backend": "nccl"})
    result = gpus_result(context, parse_xml(several(8)))
    assert [(row.id, row.value, row.verdict) for row in result.rows] == [
        ("gpu.count", "8 × " + H100, OK),
        ("gpu.memory", "2 MiB at most", OK),
    ]
    assert result.facts["driver"] == "570.86.15"
    assert result.facts["cuda_driver"] == "12.8"
    assert result.facts["gpus"][7] == {
        "index": 7, "model": H100, "memory_mib": 81559, "used_mib": 2, "uuid": "GPU-7000",
    }  # fmt: skip


def test_fewer_than_asked_for_is_bad(tmp_path: Path) -> None:
    row = count(node(tmp_path, {"gpus": 8}), several(7))
    assert (row.verdict, row.value) == (BAD, "7 of 8")
    lost = "Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error\n" + several(7)
    assert "GPU3: 0000:5F:00.0: Unknown Error" in count(node(tmp_path, {"gpus": 8}), lost).hint
    put_driver(tmp_path, 8)
    row = count(node(tmp_path, {"gpus": 4}), several(2))
    assert (row.value, row.hint[:17]) == ("2 of 4", "the node has 8, a")
    row = count(node(tmp_path, {"gpus": 4}, CUDA_VISIBLE_DEVICES="0,1,2"), several(3))
    assert (row.verdict, row.value) == (BAD, "3 of 4")


def test_gpus_that_somebody_hides_by_choice_are_not_missing(tmp_path: Path) -> None:
    row = count(node(tmp_path, {"gpus": 8, "ranks": 2, "backend": "nccl"}, CUDA_VISIBLE_DEVICES="4,5"), several(8))
    assert (row.verdict, row.value) == (OK, "2 × " + H100)
    row = count(node(tmp_path, {"gpus": 8, "ranks": 8, "backend": "nccl"}, CUDA_VISIBLE_DEVICES="4,5"), several(8))
    assert (row.verdict, row.value) == (BAD, "2 for 8 ranks")
    cpu = gpus_result(node(tmp_path, {"gpus": 8, "ranks": 8, "backend": "nccl"}, CUDA_VISIBLE_DEVICES=""), GPUS)
    assert cpu.rows == ()
    lost = smi(gpu_xml(), gpu_xml(uuid="GPU-b", total="GPU is lost"), gpu_xml(uuid="GPU-c"))
    row = count(node(tmp_path, {"gpus": 2}, CUDA_VISIBLE_DEVICES="0,1"), lost)
    assert (row.verdict, row.value) == (BAD, "1 of 2")


def test_a_lost_gpu_that_the_job_does_not_need_is_a_warning(tmp_path: Path) -> None:
    text = smi(gpu_xml(), gpu_xml(total="GPU is lost"))
    row = count(node(tmp_path, {"gpus": 1}), text)
    assert (row.verdict, row.value) == (WARNING, "1 answer; GPU 1: GPU is lost")
    assert count(node(tmp_path, {"gpus": 2}), text).verdict == BAD
    row = count(node(tmp_path, {"gpus": 1}, CUDA_VISIBLE_DEVICES="0"), text)
    assert (row.verdict, row.value) == (OK, "1 × " + H100)
    assert count(node(tmp_path, {"gpus": 1}, CUDA_VISIBLE_DEVICES="1"), text).verdict == BAD
    first = smi(gpu_xml(total="GPU is lost"), gpu_xml(uuid="GPU-b"))
    assert count(node(tmp_path, {"gpus": 1}, CUDA_VISIBLE_DEVICES="1"), first).verdict == OK
    alone = "Unable to determine the device handle for GPU 0000:25:00.0: Unknown Error"
    assert count(node(tmp_path), alone).verdict == WARNING


def test_more_than_asked_for_and_unknown_numbers_are_fine(tmp_path: Path) -> None:
    for asked in ({"gpus": 4}, {}, {"gpus": None}, {"gpus": "x"}, {"gpus": True}):
        assert count(node(tmp_path, asked), several(8)).verdict == OK


def test_parts_of_a_divided_gpu_count(tmp_path: Path) -> None:
    text = smi(gpu_xml(mig="Enabled", mig_devices="<mig_device><index>0</index></mig_device>" * 7))
    result = gpus_result(node(tmp_path, {"gpus": 7}), parse_xml(text))
    assert [(row.value, row.verdict) for row in result.rows] == [("7 parts of 1 × " + H100, OK)]


def test_two_ranks_on_one_gpu_fail_with_nccl_alone(tmp_path: Path) -> None:
    def verdict(**asked: Any) -> str:
        return count(node(tmp_path, {"gpus": 2, "ranks": 4, **asked}), several(2)).verdict

    assert verdict(backend="nccl") == BAD
    assert [verdict(backend="gloo"), verdict(), verdict(backend="nccl", ranks=2), verdict(ranks="x")] == [OK] * 4
    context = node(tmp_path, {"ranks": 4, "backend": "nccl"}, NCCL_MULTI_RANK_GPU_ENABLE="1")
    assert count(context, several(2)).verdict == OK


@pytest.mark.parametrize("text", [NO_DEVICES, NO_DRIVER, MISMATCH, "Failed to initialize NVML: Unknown Error\n"])
def test_what_nvidia_smi_says_where_programs_see_none_either(tmp_path: Path, text: str) -> None:
    for put_files in (lambda: None, lambda: put_driver(tmp_path, 4)):
        put_files()
        row = count(node(tmp_path, {"gpus": 4}), text)
        assert (row.verdict, row.value[:6]) == (BAD, "0 of 4")
        assert row.hint
    assert count(node(tmp_path), text).verdict == UNKNOWN


def test_a_node_of_another_maker_is_not_judged_by_a_stray_nvidia_smi(tmp_path: Path) -> None:
    put(tmp_path, {"dev/kfd": "", "dev/dri/renderD128": ""})
    row = count(node(tmp_path, {"gpus": 8}), NO_DRIVER)
    assert (row.verdict, row.value) == (UNKNOWN, "an AMD GPU")
    nodes = "sys/class/kfd/kfd/topology/nodes/%d/properties"
    put(tmp_path, {nodes % n: "cpu_cores_count 0\nsimd_count %d\n" % (0 if n < 2 else 1216) for n in range(10)})
    row = count(node(tmp_path, {"gpus": 8}), NO_DRIVER)
    assert (row.verdict, row.value) == (OK, "8 × AMD")
    row = count(node(tmp_path, {"gpus": 9}), NO_DRIVER)
    assert (row.verdict, row.value) == (UNKNOWN, "8 of 9: AMD")
    (tmp_path / "dev/kfd").unlink()
    assert count(node(tmp_path, {"gpus": 8}), NO_DRIVER).verdict == BAD


def test_nothing_that_is_read_brings_control_characters_into_a_row(tmp_path: Path) -> None:
    text = smi(gpu_xml(model="H100\x1b[31m\r\n" + "x" * 4000, recovery="Reset\x07", uuid="GPU-\x00"))
    rows = gpus_result(node(tmp_path, {"gpus": 2}, CUDA_VISIBLE_DEVICES="0\x1b,7"), parse_xml(text)).rows
    assert all(each.isprintable() and len(each) < 300 for row in rows for each in row)
    fine = gpus_result(node(tmp_path, {"gpus": 1}), parse_xml(text)).rows
    assert all(each.isprintable() and len(each) < 300 for row in fine for each in row)


def test_the_whole_probe_with_a_program(tmp_path: Path) -> None:
    put(tmp_path, {"bin/nvidia-smi": "#!/bin/sh\ncat %s/answer\n" % tmp_path, "answer": several(3)})
    (tmp_path / "bin/nvidia-smi").chmod(0o755)
    result = probe(node(tmp_path, {"gpus": 4}, PATH="%s/bin:/usr/bin:/bin" % tmp_path))
    assert [(row.id, row.value, row.verdict) for row in result.rows] == [
        ("gpu.count", "3 of 4", BAD),
        ("gpu.memory", "2 MiB at most", OK),
    ]


def test_a_program_in_the_working_directory_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, {"nvidia-smi": "#!/bin/sh\ntouch %s/executed\n" % tmp_path})
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert probe(node(tmp_path, {"gpus": 4}, PATH=".:.")).rows[0].verdict == BAD
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("failure", [NOT_FOUND, LATE, "GPUS none", "libnvidia-ml.so: cannot open"])
def test_without_an_answer_only_the_kernels_files_can_say_that_there_is_none(tmp_path: Path, failure: str) -> None:
    def verdict(**environ: str) -> str:
        (row,) = gpus_result(node(tmp_path, {"gpus": 1}), GpuReport(failure=failure)).rows
        return row.verdict

    assert verdict() == BAD
    put(tmp_path, {"dev/dri/renderD128": ""})
    assert verdict() == UNKNOWN
    put(tmp_path, {"dev/kfd": ""})
    assert verdict() == UNKNOWN
    put_driver(tmp_path, 1)
    assert verdict() == UNKNOWN
    (tmp_path / "dev/kfd").unlink()
    assert verdict() == UNKNOWN


def test_nothing_is_said_where_gpus_do_not_matter(tmp_path: Path) -> None:
    assert probe(node(tmp_path)) == ProbeResult()
    hidden = gpus_result(node(tmp_path, CUDA_VISIBLE_DEVICES=""), parse_xml(several(2)))
    assert hidden.rows == ()


def test_another_program_is_named_with_its_memory(tmp_path: Path) -> None:
    context = node(tmp_path, {"gpus": 1})
    row = memory(context, several(1, processes=process_xml(4711, used="3021 MiB"), free="78000 MiB"))
    assert (row.verdict, row.value) == (WARNING, "GPU 0: pid 4711 (python3) 3021 MiB")
    row = memory(context, several(1, processes=process_xml(4711, used="50000 MiB")))
    assert row.verdict == BAD
    assert "s3cret" not in str(row)
    row = memory(context, several(1, processes=process_xml(4711), free="10000 MiB"))
    assert (row.verdict, row.value) == (BAD, "GPU 0: pid 4711 (python3)")
    row = memory(context, several(8, processes="".join(process_xml(pid) for pid in range(90, 99))))
    assert row.value.endswith("6 more; 5 more")
    assert len(row.value) < 250


def test_who_is_always_there_is_not_reported(tmp_path: Path) -> None:
    context = node(tmp_path, {"gpus": 1})
    always = process_xml(1, "G", "/usr/lib/xorg/Xorg", "984 MiB")
    for processes in (
        process_xml(2, "M+C", "nvidia-cuda-mps-server", "30 MiB"),
        process_xml(2, "C", "tiny", "3 MiB"),
        process_xml(3, "C+G", "chrome"),
        always,
    ):
        free = "80000 MiB" if processes == always else "81037 MiB"
        assert memory(context, several(1, processes=processes, free=free)).verdict == OK


def test_memory_that_nobody_accounts_for(tmp_path: Path) -> None:
    """In a container the driver shows no processes of others."""
    context = node(tmp_path, {"gpus": 1})
    row = memory(context, several(1, used="30000 MiB", free="51039 MiB"))
    assert (row.verdict, row.value) == (WARNING, "GPU 0: 30000 MiB")
    assert memory(context, several(1, used="70000 MiB", free="11039 MiB")).verdict == BAD
    assert memory(context, several(1, used="400 MiB", free="80600 MiB")).verdict == OK
    assert memory(context, several(1, 470, used="1200 MiB")).verdict == OK
    assert memory(context, several(1, 470, used="9000 MiB")).verdict == WARNING


def test_a_gpu_whose_memory_is_not_told_gives_no_row(tmp_path: Path) -> None:
    assert [row.id for row in gpus_result(node(tmp_path), GpuReport("x", gpus=(Gpu(0),))).rows] == ["gpu.count"]
    hidden = node(tmp_path, {"gpus": 1}, CUDA_VISIBLE_DEVICES="0")
    busy = smi(gpu_xml(), gpu_xml(processes=process_xml(5, used="9999 MiB")))
    assert memory(hidden, busy).verdict == OK
