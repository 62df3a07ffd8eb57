"""`export azureml`: a file with Azure's keys alone, which means the same there and, read again, here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from body_oracle import BodyOracle
from hypothesis import given
from job_strategies import FULL, fuzz, several_jobs

from worldsize.cli.main import main
from worldsize.jobspec.dump import dump_job, dump_tree
from worldsize.jobspec.job import Job
from worldsize.jobspec.keys.job import JOB
from worldsize.jobspec.reading.job_file import load_job, parse_job
from worldsize.wings.azure.export.job import export_job
from worldsize.wings.azure.export.rows import IMPOSSIBLE, LEFT_OUT, TRANSLATED

HEAD = "command: python train.py\n"
ENVIRONMENT = "environment: azureml:env:1\n"
AZURE_KEYS = {
    "$schema",
    "type",
    "name",
    "display_name",
    "experiment_name",
    "description",
    "tags",
    "properties",
    "command",
    "code",
    "environment",
    "environment_variables",
    "distribution",
    "compute",
    "resources",
    "limits",
    "inputs",
    "outputs",
    "queue_settings",
    "services",
    "identity",
    "parent_job_name",
}


def exported(text: str, base: str = "/p") -> tuple[dict[str, Any], dict[str, tuple[str, str]]]:
    done = export_job(parse_job(text, base + "/job.yml").job, base)
    return done.tree, {row.key: (row.verdict, row.text) for row in done.rows}


def test_a_file_of_azures_stays_what_it_is() -> None:
    text = (
        HEAD
        + ENVIRONMENT
        + "code: src\ncompute: azureml:gpu\nlimits: {timeout: 60}\nresources: {instance_count: 2, shm_size: 2g}\n"
        "distribution: {type: pytorch, process_count_per_instance: 4}\n"
        "inputs: {data: {type: uri_folder, path: data, mode: ro_mount}, lr: 0.1}\n"
        "outputs: {model: {type: uri_folder}}\n"
    )
    tree, rows = exported(text)
    assert rows == {}
    assert set(tree) <= AZURE_KEYS
    assert (tree["code"], tree["inputs"]["data"]["path"]) == ("src", "data")
    assert parse_job(dump_tree(tree), "/p/job.yml").job == parse_job(text, "/p/job.yml").job


@pytest.mark.parametrize(
    ("line", "key", "word"),
    [
        ("matrix: {lr: [1, 2]}\ninputs: {lr: 1}", "matrix", "sweep"),
        ("autotune: {}", "autotune", "sweep"),
        ("count: 3", "count", "one run"),
        ("data_parallel: split", "data_parallel", "convert"),
        ("environment: my-env", "environment", "my-env"),
        ("environment: {python: /opt/venv}", "environment.python", "/opt/venv"),
        ("environment: {build: [make]}", "environment.build", "image"),
    ],
)
def test_what_azure_has_not_is_refused_by_name(line: str, key: str, word: str) -> None:
    text = HEAD + line + "\n" + ("" if line.startswith("environment") else ENVIRONMENT)
    verdict, why = exported(text)[1][key]
    assert verdict == IMPOSSIBLE
    assert word in why


def test_a_job_without_an_environment_is_refused() -> None:
    assert exported(HEAD)[1]["environment"][0] == IMPOSSIBLE


@pytest.mark.parametrize(
    ("kind", "azures"), [("horovod", "mpi"), ("deepspeed", "pytorch"), ("jax", "mpi"), ("none", "pytorch")]
)
def test_kinds_that_azure_lacks_become_its_own(kind: str, azures: str) -> None:
    tree, rows = exported(HEAD + ENVIRONMENT + "distribution: {type: %s, process_count_per_instance: 2}\n" % kind)
    assert tree["distribution"] == {"type": azures, "process_count_per_instance": 2}
    assert rows["distribution.type"][0] == TRANSLATED


def test_packages_become_a_conda_file_inside() -> None:
    tree, rows = exported(HEAD + "environment: {python: '3.11', conda: [numpy], pip: [torch]}\n")
    assert tree["environment"]["conda_file"] == {
        "channels": ["conda-forge"],
        "dependencies": ["python=3.11", "numpy", "pip", {"pip": ["torch"]}],
    }
    assert tree["environment"]["image"]
    assert rows["environment"][0] == TRANSLATED


def test_requirements_become_a_conda_file_inside(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# packages\ntorch==2.13.0\nnumpy\n")
    tree, _ = exported(HEAD + "environment: requirements.txt\n", str(tmp_path))
    assert tree["environment"]["conda_file"]["dependencies"] == ["python", "pip", {"pip": ["torch==2.13.0", "numpy"]}]
    (tmp_path / "requirements.txt").write_text("-r other.txt\n")
    assert exported(HEAD + "environment: requirements.txt\n", str(tmp_path))[1]["environment"][0] == IMPOSSIBLE


def test_no_secret_is_written() -> None:
    tree, rows = exported(
        HEAD + ENVIRONMENT + "environment_variables: {HF_TOKEN: hf_abcdefghijklmnop, DEBUG: '1'}\nsecrets: [LOGIN]\n"
    )
    assert tree["environment_variables"] == {"DEBUG": "1"}
    assert rows["environment_variables.HF_TOKEN"][0] == rows["secrets.LOGIN"][0] == LEFT_OUT


def test_setup_threads_and_devices_are_translated() -> None:
    tree, _ = exported(HEAD + ENVIRONMENT + "setup: [ulimit -n 4096]\nthreads: 4\nvisible_devices: true\n")
    lines = tree["command"].split("\n")
    assert lines[:2] == ["set -e", "ulimit -n 4096"]
    assert lines[2].startswith("export CUDA_VISIBLE_DEVICES=")
    assert lines[3:] == ["set +e", "python train.py"]
    assert tree["environment_variables"] == {"OMP_NUM_THREADS": "4"}


def test_each_key_of_a_job_is_kept_or_spoken_of() -> None:
    """A key that a later release adds fails here until an export knows what becomes of it."""
    loaded = parse_job(FULL.replace("instance_count: 2", "instance_count: 3"), "/p/job.yml").job
    tree, rows = exported(FULL)
    said = {key.partition(".")[0] for key in rows}
    changed = {name for name in Job._fields if getattr(loaded, name) != Job._field_defaults[name]} - {"source"}
    assert changed <= AZURE_KEYS | said
    from worldsize.wings.azure.export import job as module

    known = AZURE_KEYS | set(module._LEFT_OUT) | set(module._REFUSED) | {"argv", "setup", "secrets", "threads"}
    assert set(JOB) <= known | {"visible_devices"}
    assert set(tree) <= AZURE_KEYS


def test_the_verb_writes_a_file_and_keeps_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, target = tmp_path / "job.yml", tmp_path / "out" / "azure.yml"
    target.parent.mkdir()
    job.write_text(HEAD + ENVIRONMENT + "code: .\nthreads: 2\n")
    assert main(["export", "azureml", str(job), "--to", str(target), "-w", "2x3", "-o", "json"]) == 0
    rows = {row["key"]: row["verdict"] for row in json.loads(capsys.readouterr().out)}
    assert rows == {"threads": TRANSLATED, "distribution.type": TRANSLATED}
    read = load_job(str(target)).job
    assert (read.resources.instance_count, read.code) == (2, str(tmp_path))
    assert main(["export", "azureml", str(job), "--to", str(target)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["export", "azureml", str(job), "--to", str(target), "--force"]) == 0


def test_a_refused_job_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, target = tmp_path / "job.yml", tmp_path / "azure.yml"
    job.write_text(HEAD + "count: 2\n")
    assert main(["export", "azureml", str(job), "--to", str(target)]) == 2
    assert "2 problems" in capsys.readouterr().err
    assert not target.exists()


def test_every_job_is_exported_or_refused() -> None:
    @fuzz
    @given(several_jobs)
    def check(job: Job) -> None:
        done = export_job(job, "/p")
        assert set(done.tree) <= AZURE_KEYS
        if not any(row.verdict == IMPOSSIBLE for row in done.rows):
            again = parse_job(dump_tree(done.tree), "/p/job.yml").job
            assert again.inputs.keys() <= job.inputs.keys()
            assert again.resources == job.resources
            assert again.tags == job.tags

    check()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_azures_own_client_reads_what_is_written(oracle: BodyOracle, tmp_path: Path) -> None:
    texts = [
        HEAD + ENVIRONMENT + "setup: [ulimit -n 4096]\nthreads: 4\nvisible_devices: true\ngrace: 3\n",
        HEAD + "environment: {python: '3.11', conda: [numpy], pip: [torch]}\n",
        HEAD + ENVIRONMENT + "distribution: {type: horovod, process_count_per_instance: 2}\nstrict: true\n",
        "argv: [python, 'a b.py', '$HOME']\n" + ENVIRONMENT + "code: .\n",
        HEAD
        + ENVIRONMENT
        + "outputs: {a: {path: /data/out, description: x}}\ninputs: {b: {path: ., sha256: '%s'}}\n" % ("0" * 64),
    ]
    paths = []
    for number, text in enumerate(texts):
        done = export_job(parse_job(text, str(tmp_path / "job.yml")).job, str(tmp_path))
        assert not any(row.verdict == IMPOSSIBLE for row in done.rows)
        path = tmp_path / ("%d.yml" % number)
        path.write_text(dump_tree(done.tree))
        paths.append(str(path))
    for text, body in zip(texts, oracle.bodies(paths), strict=True):
        assert "refused" not in body, (text, body)


def test_a_dumped_job_is_exported_as_itself() -> None:
    job = parse_job(HEAD + ENVIRONMENT, "/p/job.yml").job
    assert export_job(parse_job(dump_job(job), "/p/job.yml").job, "/p") == export_job(job, "/p")
