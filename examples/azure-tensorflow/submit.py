"""The Azure guide's TensorFlow sample; what changed is its import line. worldsize.toml says what its names mean here.

    cd examples/azure-tensorflow
    python submit.py

Follows the run to its end and prints its state and what worker 0 printed.
"""

from __future__ import annotations

from worldsize import TensorFlowDistribution, command, submit

# create the command
job = command(
    code="./src",  # local path where the code is stored
    command="python main.py --epochs ${{inputs.epochs}} --model-dir ${{inputs.model_dir}}",
    inputs={"epochs": 1, "model_dir": "outputs/keras-model"},
    environment="AzureML-tensorflow-2.4-ubuntu18.04-py37-cuda11-gpu@latest",
    compute="cpu-cluster",
    instance_count=2,
    # distribution = {"type": "mpi", "process_count_per_instance": 1},
    distribution={
        "type": "tensorflow",
        "parameter_server_count": 1,
        "worker_count": 2,
        "added_property": 7,
    },
    # distribution = {
    #        "type": "pytorch",
    #        "process_count_per_instance": 4,
    #        "additional_prop": {"nested_prop": 3},
    #    },
    display_name="tensorflow-mnist-distributed-example",
    # experiment_name: tensorflow-mnist-distributed-example
    # description: Train a basic neural network with TensorFlow on the MNIST dataset, distributed via TensorFlow.
)

if __name__ == "__main__":
    run = submit(job)
    run.wait()
    print(run.status)
    print(run.logs(rank=0))

    # can also set the distribution in a separate step and using the typed objects instead of a dict
    job.distribution = TensorFlowDistribution(parameter_server_count=1, worker_count=2)
    run = submit(job)
    run.wait()
    print(run.status)
