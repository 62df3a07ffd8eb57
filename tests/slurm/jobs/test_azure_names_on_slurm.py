"""An Azure job file, unchanged, on Slurm: its compute stands for a cluster, and its data for a shared directory."""

from __future__ import annotations

from slurm.login import PATIENCE, Login

JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: cat ${{inputs.words}}
inputs:
  words: {type: uri_file, path: 'azureml:words:4', mode: ro_mount}
compute: azureml:gpu-cluster
distribution: {type: pytorch, process_count_per_instance: 1}
resources: {instance_count: 2, instance_type: Standard_NC6}
"""


CONFIG = """\
default_compute = "local"
[compute.slurm]
type = "slurm"
[azure.computes]
"*" = "slurm"
[azure.data]
words = "words.txt"
"""


def test_a_file_for_a_workspace_runs_on_slurm(login: Login) -> None:
    login.write("job.yml", JOB)
    login.write("words.txt", "good day\n")
    login.write("worldsize.toml", CONFIG)
    login.ok("config", "trust", "worldsize.toml")
    shown = login.ok("run", "job.yml", "--dry-run")
    assert shown.out.startswith("#!"), "stdout is the batch script alone"
    assert "# compute" in shown.err and "slurm, by azure.computes.*" in shown.err
    assert login.ok("run", "job.yml", timeout=PATIENCE).out == "×2: good day\n"
