"""A local double of Azure Machine Learning, for tests: `Double.start(folder)` in `double.py`.

One process answers, over HTTPS on a loopback address of its own, what a client needs to submit a command job, to
follow it and to fetch its results: the control plane (Azure Resource Manager), the run history, and blob storage. A
job's ranks run as real processes on virtual nodes of this machine.

What was taken from where:

* paths, bodies and states of workspaces, computes, datastores, assets and jobs: the published REST specification of
  `Microsoft.MachineLearningServices`, as far as azure-ai-ml 1.35.2 (MIT) asks for it. The bodies were written anew.
* run history (`/history/v1.0`), resolved data URIs (`/data/v1.0`) and the workspace's discovery address: what
  azure-ai-ml and Azure's `azd` request; these are not in the published specification.
* blobs: the published REST reference of Blob Storage, as far as azure-storage-blob 12.31 calls it.
* the variables of ranks: the product's documentation of distributed training.
* the cloud's metadata (`/metadata/endpoints`): the published form of api-version 2019-05-01 and later.

What is guessed, since no document says it: how long a cancelled job's processes have between SIGTERM and SIGKILL, the
order of the passing states, that a job whose rank fails waits for the other ranks (users report it), and the number in
a log's name where there are ten ranks or more (after the pattern with which azure-ai-ml looks for the first).

Not there: images and conda environments (a job runs with the Python that runs the double, or with the programs that
its options name for the environment), registries, pipelines, sweeps, Ray as a distribution of the service's, schedules,
quotas, signatures of requests to storage.
"""
