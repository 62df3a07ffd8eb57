"""Job files of the kinds that Azure's users have, none written for worldsize: each runs as it is, with a configuration
that says where the data is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from driver import Cli

HEAD = "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\n"
CLUSTER = "compute: azureml:cpu-cluster\n"
CONFIG = (
    """\
[azure.computes]
gpu-cluster = "lab"
[azure.data]
"iris" = "data/iris.csv"
"flowers:2" = "data/model"
"datastores/workspaceblobstore" = "data/blob"
[environment_map]
"library/python" = "%s"
[compute.lab]
type = "local"
"""
    % sys.prefix
)


class Kind(NamedTuple):
    """A job file, what its ranks print (each line once for each), and the verdicts of some of its keys."""

    text: str
    printed: str
    ranks: int = 1
    verdicts: tuple[tuple[str, str], ...] = ()


KINDS = {
    "an-image": Kind(
        'command: echo "good day"\nenvironment:\n  image: library/python:3.11.6\n' + CLUSTER,
        "good day",
        1,
        (("environment.image", "mapped"), ("compute", "mapped")),
    ),
    "variables": Kind(
        "command: echo $greeting\nenvironment: azureml:AzureML-sklearn-1.5@latest\nenvironment_variables:\n"
        "  greeting: good day\n  AZUREML_COMPUTE_USE_COMMON_RUNTIME: 'true'\n" + CLUSTER,
        "good day",
        1,
        (("environment", "mapped"),),
    ),
    "literals": Kind(
        "command: >-\n  echo ${{inputs.text}} ${{ inputs.number }}\n  ${{inputs.flag}}\n"
        "inputs:\n  text: good day\n  number: 10\n  flag: true\n" + CLUSTER,
        "good day 10 True",
    ),
    "an-output": Kind(
        "command: echo x > ${{outputs.made}}/made.txt && cat ${{outputs.made}}/made.txt\noutputs:\n  made:\n" + CLUSTER,
        "x",
    ),
    "a-datastore": Kind(
        "code: src\ncommand: |\n  ls ${{inputs.folder}}\n  python show.py ${{inputs.folder}}/a.csv\n"
        "inputs:\n  folder:\n    type: uri_folder\n    path: azureml://datastores/workspaceblobstore/paths/example/\n"
        "    mode: ro_mount\n"
        "environment: azureml:AzureML-sklearn-1.0-ubuntu20.04-py38-cpu:3\n" + CLUSTER,
        "a.csv\nblob",
        1,
        (("inputs.folder.path", "mapped"), ("inputs.folder.mode", "kept")),
    ),
    "an-asset": Kind(
        "code: src\ncommand: python show.py ${{inputs.table}}\ninputs:\n  table:\n    type: uri_file\n"
        "    path: azureml:iris@latest\n    mode: download\noutputs:\n  made: {type: uri_folder, mode: rw_mount}\n"
        + CLUSTER,
        "5.1,3.5",
        1,
        (("inputs.table.path", "mapped"), ("outputs.made.mode", "kept")),
    ),
    "a-model": Kind(
        "command: ls ${{inputs.model}}\ninputs:\n  model: {type: mlflow_model, path: 'azureml:flowers:2'}\n" + CLUSTER,
        "MLmodel",
        1,
        (("inputs.model.path", "mapped"),),
    ),
    "pytorch": Kind(
        "code: src\ncommand: >-\n  python world.py\n  --epochs ${{inputs.epochs}}\ninputs: {epochs: 1}\n"
        "environment: azureml:AzureML-acpt-pytorch-2.2-cuda12.1@latest\ncompute: azureml:gpu-cluster\n"
        "distribution:\n  type: pytorch\n  process_count_per_instance: 2\nresources:\n  instance_count: 2\n"
        "display_name: of-two\nexperiment_name: of-two\ndescription: Two processes on each of two.\n",
        "4 --epochs 1",
        4,
        (("compute", "mapped"), ("distribution.process_count_per_instance", "kept")),
    ),
    "tensorflow": Kind(
        "command: test -n \"$TF_CONFIG\" && echo worker\ndistribution:\n  type: tensorflow\n  worker_count: 2\n"
        "resources:\n  instance_count: 2\n  shm_size: 2g\n" + CLUSTER,
        "worker",
        2,
        (("resources.shm_size", "kept"),),
    ),
    "serverless": Kind(
        "command: echo here\ntype: command\nresources:\n  instance_type: Standard_D2_v2\n  instance_count: 1\n"
        "queue_settings:\n  job_tier: spot\nidentity:\n  type: user_identity\nlimits:\n  timeout: 120\n"
        "services:\n  board:\n    job_service_type: tensor_board\n    properties: {logDir: outputs/tblogs}\n"
        "tags:\n  owner: somebody\nproperties:\n  a: b\n",
        "here",
        1,
        (
            ("resources.instance_type", "ignored"),
            ("queue_settings.job_tier", "ignored"),
            ("identity.type", "ignored"),
            ("services.board", "kept"),
            ("limits.timeout", "kept"),
            ("tags", "kept"),
            ("properties", "ignored"),
        ),
    ),
    "a-dockerfile": Kind(
        "command: echo built\nenvironment:\n  build:\n    path: context\n" + CLUSTER,
        "built",
        1,
        (("environment.build", "ignored"),),
    ),
}  # fmt: skip


@pytest.fixture
def azure(cli: Cli) -> Cli:
    files = {
        "src/show.py": "import sys\nprint(open(sys.argv[1]).read().strip())\n",
        "src/world.py": "import os, sys\nprint(os.environ['WORLD_SIZE'], *sys.argv[1:])\n",
        "context/Dockerfile": "FROM python:3.11\n",
    }
    own = {"iris.csv": "5.1,3.5\n", "model/MLmodel": "flavors: {}\n", "blob/example/a.csv": "blob\n"}
    home = Path(cli.environ["HOME"], ".config", "worldsize")
    for base, texts in ((Path(cli.project), files), (home / "data", own)):
        for name, text in texts.items():
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text(text)
    (home / "worldsize.toml").write_text(CONFIG)
    return cli


@pytest.mark.exhaustive(unless=["a-datastore", "pytorch", "serverless"])
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_azures_kind_run(azure: Cli, kind: str) -> None:
    """The dry run says what their keys mean, none of which is impossible; and they run."""
    wanted = KINDS[kind]
    azure.write("job.yml", HEAD + wanted.text)
    rows = json.loads(azure.ok("run", "job.yml", "--dry-run", "-o", "json").out)["keys"]
    verdicts = {row["key"]: row["verdict"] for row in rows}
    assert "impossible" not in verdicts.values()
    assert all((key, verdict) in verdicts.items() for key, verdict in wanted.verdicts), verdicts
    result = azure.ok("run", "job.yml", "--fold", "off")
    printed = sorted(line.partition(": ")[2] for line in result.lines)
    assert printed == sorted(wanted.printed.split("\n") * wanted.ranks), result


def test_a_time_limit_of_azures_ends_the_run(azure: Cli) -> None:
    azure.write("job.yml", HEAD + "command: sleep 60\nlimits:\n  timeout: 1\n" + CLUSTER)
    result = azure("run", "job.yml")
    assert result.code == 124 and "TIME_LIMIT" in result.err
