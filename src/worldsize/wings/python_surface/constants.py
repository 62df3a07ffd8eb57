"""The classes of `azure.ai.ml.constants` for a command job, in addition to `AssetTypes`."""

from __future__ import annotations


class InputOutputModes:
    """The values of `mode` in Azure ML: the ways in which inputs reach the nodes and outputs leave them."""

    MOUNT = "mount"
    DOWNLOAD = "download"
    UPLOAD = "upload"
    RO_MOUNT = "ro_mount"
    RW_MOUNT = "rw_mount"
    EVAL_MOUNT = "eval_mount"
    EVAL_DOWNLOAD = "eval_download"
    DIRECT = "direct"


class DistributionType:
    """The values of `type` for the kinds of distribution in Azure ML."""

    MPI = "mpi"
    TENSORFLOW = "tensorflow"
    PYTORCH = "pytorch"
    RAY = "ray"
