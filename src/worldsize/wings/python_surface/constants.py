"""What `azure.ai.ml.constants` has for a command job, beside `AssetTypes`."""

from __future__ import annotations


class InputOutputModes:
    """How inputs reach the nodes, and outputs leave them, as Azure ML names it: values of `mode`."""

    MOUNT = "mount"
    DOWNLOAD = "download"
    UPLOAD = "upload"
    RO_MOUNT = "ro_mount"
    RW_MOUNT = "rw_mount"
    EVAL_MOUNT = "eval_mount"
    EVAL_DOWNLOAD = "eval_download"
    DIRECT = "direct"


class DistributionType:
    """The kinds of distribution that Azure ML has: values of `type`."""

    MPI = "mpi"
    TENSORFLOW = "tensorflow"
    PYTORCH = "pytorch"
    RAY = "ray"
