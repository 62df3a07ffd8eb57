"""The Azure guide's Python sample. What changed is the package that its import lines name, and `compute="local"`.

    cd examples/azure-cifar
    python submit.py

Makes a small data set as the output of a first job, trains on it, follows the run to its end and prints its state and
what rank 0 printed.
"""

from worldsize import command
from worldsize.entities import Data  # noqa: F401
from worldsize import Input
from worldsize import Output
from worldsize import MLClient
from worldsize.constants import AssetTypes

ml_client = MLClient.from_config(credential=None)

returned_job = ml_client.create_or_update(
    command(
        code=".",
        command="python make_small_cifar.py ${{outputs.cifar}}",
        outputs={"cifar": Output(type=AssetTypes.URI_FOLDER)},
        compute="local",
    )
)
returned_job.wait(check=True)

inputs = {
    "cifar": Input(type=AssetTypes.URI_FOLDER, path=returned_job.outputs.cifar.path),
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
    run = ml_client.create_or_update(job)
    run.wait()
    print(run.status)
    print(run.logs(rank=0))
