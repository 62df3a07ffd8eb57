"""A workspace whose storage gives no signatures: the user's login opens it, for uploads and for what comes back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml_double.double import Double
from azureml_double.fixtures import compute_table, double_target
from sdk import run_script

from worldsize_conformance.fixtures import make_place
from worldsize_conformance.place import Place


@pytest.fixture
def keyless(tmp_path: Path) -> Iterator[Double]:
    (tmp_path / "double").mkdir()
    double = Double.start(str(tmp_path / "double"), keyless=True)
    try:
        yield double
    finally:
        double.stop()
    assert not double.errors()


@pytest.fixture
def cloud(keyless: Double, tmp_path: Path) -> Iterator[Place]:
    yield from make_place(str(tmp_path), double_target(keyless, compute_table(keyless, "cloud")))


@pytest.mark.exhaustive
def test_a_run_and_all_that_it_leaves(cloud: Place, keyless: Double) -> None:
    cloud.write("src/train.py", "print('trained on', open('large.bin', 'rb').seek(0, 2), 'bytes')\n")
    cloud.write("src/large.bin", "x" * (9 << 20))  # more than one block
    cloud.write("data/a.txt", "content of a\n")
    cloud.write("image/Dockerfile", "FROM scratch\n")
    cloud.job(
        "python train.py; cat ${{inputs.data}}/a.txt ${{inputs.one}}; echo w > ${{outputs.model}}/w; "
        "echo f > ${{outputs.file}}; echo o > outputs/o",
        code="src",
        environment={"build": {"path": "image"}},
        inputs={"data": {"type": "uri_folder", "path": "data"}, "one": {"type": "uri_file", "path": "data/a.txt"}},
        outputs={"model": {"type": "uri_folder"}, "file": {"type": "uri_file"}},
    )
    result = cloud.ok("run", "job.yml")
    assert "0:0: trained on %d bytes" % (9 << 20) in result.lines
    assert [line for line in result.lines if "content of a" in line] == ["0:0: content of a"] * 2
    run = cloud.latest()
    cloud.fetch_outputs(run)
    assert os.listdir(cloud.path(run, "outputs", "model")) == ["w"] and cloud.read_output(run, "o") == "o\n"
    assert Path(cloud.ok("path", run, "file").out.strip()).read_text() == "f\n"
    refused = [line for line in keyless.requests() if line.endswith(" 403") and ".blob." in line]
    assert not refused and not [line for line in keyless.requests() if "listSecrets" in line]


@pytest.mark.exhaustive
def test_azures_own_client_has_its_code_there_and_its_outputs_back(keyless: Double, tmp_path: Path) -> None:
    """It judges the double. Its `stream` signs the logs' addresses with a key, and fails where there is none."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("open('outputs/kept', 'w').write('kept')\n")
    script = (
        "data = client.data.create_or_update(Data(name='d', version='1', type='uri_folder', path=%r))\n"
        "job = command(code=%r, command='python train.py', environment=%r, compute='cpu-cluster')\n"
        "job = client.jobs.create_or_update(job)\n"
        "import time\n"
        "while client.jobs.get(job.name).status not in ('Completed', 'Failed'):\n"
        "    time.sleep(0.1)\n"
        "client.jobs.download(job.name, download_path=folder, all=True)\n"
    )
    code, environment = str(tmp_path / "code"), "azureml://registries/azureml/environments/any/versions/1"
    run_script(keyless, script % (code, code, environment), tmp_path / "results")
    assert (tmp_path / "results" / "artifacts" / "outputs" / "kept").read_text() == "kept"
