"""A job file with every key of a commandJob, and lines with a word that is misspelt."""

FULL = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
name: mnist-1
display_name: MNIST on two nodes
experiment_name: mnist
description: |
  Several
  lines.
tags: {team: vision, version: 1.0, empty: }
properties: {origin: "guide"}
command: >-
  python train.py --data ${{inputs.data}}
  --lr ${{inputs.lr}}
code: src
environment: azureml:AzureML-pytorch-1.9-ubuntu18.04-py37-cuda11-gpu:6
environment_variables:
  NCCL_DEBUG: INFO
  DEBUG: true
  RATE: 1.50
  MODE: 010
  DAY: 2024-01-01
  EMPTY: ""
distribution:
  type: PyTorch
  process_count_per_instance: 2
  added_property: 7
compute: azureml:gpu-cluster
resources:
  instance_count: 2
  instance_type: STANDARD_NC6
  shm_size: 2g
  docker_args: [--ipc=host, --shm-size 4g]
  locations: [westeurope]
  max_instance_count: 4
  properties: {AISuperComputer: {interactive: true}}
limits: {timeout: 3600}
inputs:
  data: {type: uri_folder, path: ../data, mode: ro_mount}
  store: {path: "azureml://datastores/a/paths/b"}
  maybe: {type: uri_file, optional: true}
  lr: 0.1
  count: 010
  on_: yes
  day: 2024-01-01
  text: two words
  huge: .inf
outputs:
  model: {type: custom_model, mode: rw_mount, name: best, version: 3}
  log:
queue_settings: {job_tier: Spot, priority: medium}
services:
  board: {type: tensor_board, log_dir: logs, nodes: all, port: 6006}
identity: {type: user_identity}
parent_job_name: sweep_7
conventions: [torch, AzureML]
grace: 5
threads: 4
bind: none
share: group
share_gpus: true
visible_devices: false
modules: [gcc/12, "cuda/12.4"]
setup: [ulimit -n 4096]
slurm: {partition: [gpu, big], time: 1:30:00, gpus_per_node: 4, requeue: false, exclusive: true}
hpcpack: {node_group: GPU, nodes: [n1, n2], exclusive: true, priority: Highest}
"""

WRONG_KEYS = [
    ("comand: x", "comand: is not a key of a job", "command"),
    ("resources: {instanc_count: 2}", "resources.instanc_count: is not a key of resources", "instance_count"),
    ("inputs: {a: {paht: x}}", "inputs.a.paht: is not a key of inputs.a", "path"),
    ("outputs: {a: {mod: x}}", "outputs.a.mod: is not a key of outputs.a", "mode"),
    ("services: {a: {prot: 1}}", "services.a.prot: is not a key of services.a", "port"),
    ("environment: {imgae: x}", "environment.imgae: is not a key of environment", "image"),
    ("services: {a: {type: tensorbord}}", "services.a.type: 'tensorbord' is none", "TensorBoard"),
    ("identity: {type: managd}", "identity.type: 'managd' is none", "managed"),
    ("limits: {timeuot: 3}", "limits.timeuot: is not a key of limits", "timeout"),
    ("bind: nonee", "bind: 'nonee' is none of the values allowed", "none"),
    ("conventions: [troch]", "conventions[0]: 'troch' is none of the values allowed", "torch"),
    ("inputs: {a: {type: uri_floder, path: x}}", "inputs.a.type: 'uri_floder' is none", "uri_folder"),
    ("distribution: {type: tensorflw}", "distribution.type: 'tensorflw' is none", "tensorflow"),
]
"""A line, what is said of it, the nearest right word."""
