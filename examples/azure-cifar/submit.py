"""The Azure guide's Python sample; what changed is its import line, its data's path and `compute="local"`.

    cd examples/azure-cifar
    python make_small_cifar.py data
    python submit.py data

Follows the run to its end and prints its state and what rank 0 printed.
"""

from __future__ import annotations

import sys

from worldsize import AssetTypes, Input, command, submit

inputs = {
    "cifar": Input(type=AssetTypes.URI_FOLDER, path=sys.argv[1] if len(sys.argv) > 1 else "data"),
    "epoch": 10,
    "batchsize": 64,
    "workers": 2,
    "lr": 0.01,
    "momen": 0.9,
    "prtfreq": 200,
    "output": "./outputs",
}

job = command(
    code="./src",
    command="python train.py --data-dir ${{inputs.cifar}} --epochs ${{inputs.epoch}} "
    "--batch-size ${{inputs.batchsize}} --workers ${{inputs.workers}} --learning-rate ${{inputs.lr}} "
    "--momentum ${{inputs.momen}} --print-freq ${{inputs.prtfreq}} --model-dir ${{inputs.output}}",
    inputs=inputs,
    environment="azureml:AzureML-pytorch-1.9-ubuntu18.04-py37-cuda11-gpu:6",
    compute="local",
    instance_count=2,
    distribution={
        "type": "PyTorch",
        "process_count_per_instance": 1,
    },
)

if __name__ == "__main__":
    run = submit(job)
    run.wait()
    print(run.status)
    print(run.logs(rank=0))
