"""What the head compares between nodes: read from recorded files of machines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from recorded_node import node

from worldsize.wings.checks.agent.probes.system import locale_of, probe

X86 = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)  Platinum 8480C\nprocessor\t: 1\nmodel name\t: Intel(R)\n"
ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
POWER = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n"


def test_facts_of_a_node(tmp_path: Path) -> None:
    files = {
        "proc/sys/kernel/osrelease": "5.14.0-427.el9.x86_64\n",
        "proc/sys/kernel/random/boot_id": "0aa8c2ab-71e8-4e2c-8f3a-0d6a0c2e8f5e\n",
        "proc/cpuinfo": X86,
        "proc/meminfo": "MemTotal:       1056411212 kB\nMemFree: 1 kB\n",
        "sys/devices/system/cpu/online": "0-95,128-223\n",
    }
    result = probe(node(tmp_path, environ={"LANG": "en_US.UTF-8"}, files=files))
    assert result.rows == ()
    assert result.facts == {
        "kernel": "5.14.0-427.el9.x86_64",
        "locale": "en_US.UTF-8",
        "nccl_variables": {},
        "nccl_files": {},
        "variables": {},
        "cores": 192,
        "cpu_model": "Intel(R) Xeon(R) Platinum 8480C",
        "memory_mib": 1031651,
        "boot_id": "0aa8c2ab-71e8-4e2c-8f3a-0d6a0c2e8f5e",
    }


@pytest.mark.parametrize("text, model", [(ARM, "0xd4f"), (POWER, "POWER9, altivec supported"), ("", None)])
def test_processors_of_other_makers(tmp_path: Path, text: str, model: str | None) -> None:
    facts = probe(node(tmp_path, files={"proc/cpuinfo": text})).facts
    assert facts.get("cpu_model") == model
    assert facts.get("cores") == (1 if text else None)


@pytest.mark.parametrize("junk", [b"", b"\0\xff\xfe" * 999, b"9" * 5000, b"0-" + b"9" * 400, b"3-1", b"-\n,"])
def test_damaged_files_are_not_known(tmp_path: Path, junk: bytes) -> None:
    names = ("proc/cpuinfo", "proc/meminfo", "sys/devices/system/cpu/online")
    facts = probe(node(tmp_path, files=dict.fromkeys(names, junk))).facts
    assert not {"cores", "cpu_model", "memory_mib"} & facts.keys()


def test_variables_without_secrets_and_without_those_of_one_process(tmp_path: Path) -> None:
    environ = {
        "NCCL_IB_DISABLE": "1",
        "NCCL_API_TOKEN": "abc",
        "UCX_TLS": "rc,cuda",
        "UCX_URL": "https://me:geheim@host/",
        "OMPI_MCA_btl": "^openib",
        "OMPI_MCA_orte_ess_vpid": "3",
        "OMPI_MCA_ess_base_jobid": "7",
        "CUDA_VISIBLE_DEVICES": "0",
        "HOME": "/home/me",
        "OMP_NUM_THREADS": "8" * 999,
    }
    facts = probe(node(tmp_path, environ=environ)).facts
    assert facts["nccl_variables"] == {"NCCL_IB_DISABLE": "1"}
    assert facts["variables"] == {"UCX_TLS": "rc,cuda", "OMPI_MCA_btl": "^openib", "OMP_NUM_THREADS": "8" * 200}


def test_files_of_nccl_count_where_the_environment_has_nothing(tmp_path: Path) -> None:
    (tmp_path / ".nccl.conf").write_text("NCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5_0\n# NCCL_NO=1\nPATH=/bin\n\n")
    files = {"etc/nccl.conf": "NCCL_IB_HCA=mlx5_1\nNCCL_IB_DISABLE=1\nNCCL_TOKEN=abc\n"}
    environ = {"HOME": str(tmp_path), "NCCL_DEBUG": "WARN"}
    facts = probe(node(tmp_path, environ=environ, files=files)).facts
    assert facts["nccl_variables"] == {"NCCL_DEBUG": "WARN", "NCCL_IB_DISABLE": "1", "NCCL_IB_HCA": "mlx5_0"}
    own = str(tmp_path / ".nccl.conf")
    assert {name: facts["nccl_files"].get(name) for name in ("NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_IB_DISABLE")} == {
        "NCCL_DEBUG": None,
        "NCCL_IB_HCA": own,
        "NCCL_IB_DISABLE": "/etc/nccl.conf",
    }


def test_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    context = node(tmp_path, environ={"HOME": str(tmp_path)})
    os.mkfifo(tmp_path / ".nccl.conf")
    assert probe(context).facts["nccl_variables"] == {}


@pytest.mark.parametrize(
    "environ, locale",
    [
        ({}, "C.UTF-8"),
        ({"LANG": "C"}, "C.UTF-8"),
        ({"LANG": "POSIX", "LC_ALL": ""}, "C.UTF-8"),
        ({"LANG": "de_DE.utf8"}, "de_DE.UTF-8"),
        ({"LANG": "de_DE.UTF-8", "LC_CTYPE": "en_US.utf-8"}, "en_US.UTF-8"),
        ({"LANG": "x", "LC_CTYPE": "y", "LC_ALL": "de_DE.utf8@euro"}, "de_DE.UTF-8@euro"),
        ({"LANG": "en_US"}, "en_US"),
    ],
)
def test_locale_is_the_one_that_python_uses(environ: dict[str, str], locale: str) -> None:
    assert locale_of(environ) == locale
