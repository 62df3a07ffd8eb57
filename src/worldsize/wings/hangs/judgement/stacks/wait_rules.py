"""The rules that derive what a thread waits for from the frames of its stack and from lines of source code.

A call of a C function has no frame of its own: Python's stack ends with the line that made the call. So library
functions that call C are recognised by their frames, and C calls in a user's own line are recognised by the text of
that line.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re

from worldsize.common.named_tuple import NamedTuple

COLLECTIVE, START, MAY, DEVICE, LOADER, CHILD, LOCK, SLEEP, IO = (
    "collective", "start", "may", "device", "loader", "child", "lock", "sleep", "io",
)  # fmt: skip
"""The kinds of waits. MAY is a wait that is perhaps for other ranks. DEVICE is a wait for the rank's own GPU or similar
device, which works or waits for other ranks."""


LOCK_FILE = "a lock file"
"""The call's name for waits that end when another process removes or unlocks a file."""


class FrameRule(NamedTuple):
    """A rule that recognises a wait by a frame of the stack.

    kind      the kind of the wait
    file      the expression that is searched for in the path of the frame's file
    function  the expression that must match the whole name of the function
    call      the name that is given to the call; "" for the function's own name
    """

    kind: str
    file: re.Pattern[str]
    function: re.Pattern[str]
    call: str = ""


class LineRule(NamedTuple):
    """A rule that recognises a wait by a call of a C function in a line of source code. `kind` is the kind of the wait;
    the first group of the expression `line` is the call's name."""

    kind: str
    line: re.Pattern[str]


def _frames(kind: str, file: str, function: str, call: str = "") -> FrameRule:
    return FrameRule(kind, re.compile(file), re.compile(function), call)


_OF_ALL = (
    r"_?(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|monitored_barrier|barrier|gather|scatter|reduce)"
    r"v?(?:_(?:tensor|into_tensor|single|coalesced|multigpu|object|object_list|inplace|pickle|fn|base|async|v)){0,2}"
    r"(?:_autograd)?_?"
)
"""An expression for the names that libraries give to collectives, with the suffixes for a kind of value."""

_POINT_TO_POINT = (
    r"(?:i?send|i?recv)(?:_object_list)?|batch_isend_irecv|recv_(?:forward|backward)|send_(?:forward|backward)"
)

_FILE_FORMATS = r"/(?:h5py|zarr|lmdb|pyarrow|safetensors)/|numpy/lib/_?npyio\w*\.py$|/PIL/\w+\.py$"
_FILES = r"/(?:shutil|tarfile|zipfile|zipfile/__init__|gzip|bz2|lzma|_compression|fileinput|glob|pathlib|tempfile)\.py$"
_MESSAGES = r"multiprocessing/(?:queues|connection|synchronize|managers)\.py$"
_CLIENTS = r"/(?:http/client|urllib/request|urllib3/\w+|requests/\w+|httpx/\w+|aiohttp/\w+)\.py$"

FRAME_RULES: tuple[FrameRule, ...] = (
    # Waits for the other ranks before the first collective.
    _frames(START, r"torch/distributed/distributed_c10d\.py$", r"init_process_group"),
    _frames(START, r"torch/distributed/rendezvous\.py$", r"rendezvous|_?\w*_rendezvous_handler|_create_c10d_store"),
    _frames(START, r"torch/distributed/elastic/rendezvous/", r"\w*rendezvous\w*", "rendezvous"),
    _frames(START, r"torch/distributed/elastic/utils/store\.py$", r"\w+", "store"),
    _frames(START, r"deepspeed/comm/comm\.py$", r"init_distributed"),
    _frames(START, r"horovod/common/basics\.py$", r"init", "horovod.init"),
    _frames(START, r"jax/_src/distributed\.py$", r"initialize", "jax.distributed.initialize"),
    _frames(START, r"jax/_src/xla_bridge\.py$", r"\w*(?:backend|client)\w*", "JAX's start of its devices"),
    _frames(START, r"tensorflow/python/eager/context\.py$", r"ensure_initialized|\w*collective_ops"),
    _frames(START, r"tensorflow/python/distribute/collective_all_reduce_strategy\.py$", r"_initialize_multi_worker"),
    _frames(START, r"ray/(?:_private/)?worker\.py$", r"init|connect", "ray.init"),
    # PyTorch.
    # torch.distributed.checkpoint is excluded: its wrappers have such names, too, but write files.
    _frames(COLLECTIVE, r"torch/distributed/(?!checkpoint/)", _OF_ALL),
    _frames(COLLECTIVE, r"torch/distributed/", _POINT_TO_POINT),
    _frames(COLLECTIVE, r"torch/distributed/distributed_c10d\.py$", r"new_(?:sub)?groups?\w*|split_group"),
    _frames(COLLECTIVE, r"torch/distributed/distributed_c10d\.py$", r"_?store_based_barrier|destroy_process_group"),
    _frames(COLLECTIVE, r"torch/distributed/distributed_c10d\.py$", r"_?coalescing_manager"),
    _frames(COLLECTIVE, r"torch/distributed/_?tree_\w+\.py$|torch/distributed/", r"_tree_\w+"),
    _frames(COLLECTIVE, r"torch/distributed/device_mesh\.py$", r"init_device_mesh|_init_process_groups"),
    _frames(
        COLLECTIVE, r"torch/distributed/_functional_collectives\.py$", r"wait_tensor|_maybe_wrap_tensor|\w+_tensor"
    ),
    _frames(COLLECTIVE, r"torch/distributed/algorithms/join\.py$", r"\w+", "Join"),
    _frames(
        COLLECTIVE, r"torch/distributed/(?:_composable/)?fsdp/", r"foreach_(?:all_gather|reduce)\w*|wait_for_unshard"
    ),
    _frames(COLLECTIVE, r"torch/distributed/fsdp/", r"_all_gather_flat_param|_reduce_grad|_unshard|_sync_module\w+"),
    _frames(COLLECTIVE, r"torch/distributed/pipelining/", r"_batch_p2p|_wait_batch_p2p|\w*shape_inference\w*"),
    _frames(COLLECTIVE, r"torch/distributed/utils\.py$", r"_verify_param_shape\w*|_sync_(?:module_states|params)\w*"),
    _frames(COLLECTIVE, r"torch/distributed/nn/functional\.py$", r"forward|backward", "a collective of autograd"),
    _frames(COLLECTIVE, r"torch/nn/modules/_functions\.py$", r"forward|backward", "SyncBatchNorm"),
    _frames(COLLECTIVE, r"torch/nn/parallel/distributed\.py$", r"__init__", "DistributedDataParallel"),
    _frames(COLLECTIVE, r"torch/nn/parallel/distributed\.py$", r"_?sync_\w+|_pre_forward", "DDP's forward"),
    # Libraries that are based on PyTorch, and libraries that are not.
    _frames(COLLECTIVE, r"deepspeed/comm/(?:comm|torch|ccl)\.py$", _OF_ALL),
    _frames(COLLECTIVE, r"deepspeed/(?:comm|runtime)/", _POINT_TO_POINT + r"|monitored_barrier|_?fetch_sub_module"),
    _frames(COLLECTIVE, r"horovod/\w+/(?:mpi_ops|functions|__init__|elastic)\.py$", _OF_ALL + r"|synchronize|join"),
    _frames(COLLECTIVE, r"horovod/", r"broadcast_(?:parameters|object|variables|optimizer_state|global_variables)"),
    _frames(COLLECTIVE, r"mpi4py/", _OF_ALL),
    _frames(COLLECTIVE, r"accelerate/", r"wait_for_everyone|gather_for_metrics|" + _OF_ALL),
    _frames(COLLECTIVE, r"lightning(?:_fabric)?/|pytorch_lightning/", _OF_ALL),
    _frames(COLLECTIVE, r"(?:megatron|colossalai|composer|fairscale|apex)/", _OF_ALL + "|" + _POINT_TO_POINT),
    _frames(COLLECTIVE, r"jax/experimental/multihost_utils\.py$", r"sync_global_devices|broadcast_one_to_all"),
    _frames(COLLECTIVE, r"jax/experimental/multihost_utils\.py$", r"process_allgather|assert_equal"),
    _frames(COLLECTIVE, r"orbax/checkpoint/(?:\w+/)*multihost/", r"sync_global_\w+|broadcast_one_to_\w+"),
    _frames(COLLECTIVE, r"jax/_src/distributed\.py$", r"shutdown", "jax.distributed.shutdown"),
    _frames(COLLECTIVE, r"tensorflow/python/(?:ops|distribute)/", _OF_ALL),
    _frames(COLLECTIVE, r"tensorflow/dtensor/python/", r"barrier|initialize_accelerator_system"),
    _frames(COLLECTIVE, r"ray/util/collective/", _OF_ALL),
    # Frames of native code, if the source of the stack contains them.
    _frames(COLLECTIVE, r"", r"P?MPI_\w+"),
    _frames(COLLECTIVE, r"", r"nccl(?:All|Broadcast|Reduce|Send|Recv|Group|CommInit)\w*"),
    # Waits for a device, which may wait for other ranks.
    _frames(
        DEVICE, r"torch/(?:cuda|xpu|npu)/(?:__init__|streams|graphs)\.py$", r"synchronize", "torch.cuda.synchronize"
    ),
    _frames(DEVICE, r"torch/accelerator/__init__\.py$", r"synchronize", "torch.accelerator.synchronize"),
    _frames(DEVICE, r"jax/_src/(?:array|api)\.py$", r"block_until_ready|_value|__array__"),
    _frames(DEVICE, r"tensorflow/python/eager/execute\.py$", r"quick_execute", "a TensorFlow function"),
    _frames(DEVICE, r"tensorflow/python/framework/ops\.py$", r"_?numpy\w*"),
    # Data loaders: their workers are child processes.
    _frames(LOADER, r"torch/utils/data/dataloader\.py$", r"_try_get_data|_get_data|_shutdown_workers", "DataLoader"),
    # Other processes of the same rank.
    _frames(CHILD, r"/subprocess\.py$", r"_?wait|_try_wait|_?communicate|_execute_child|call|run|check_\w+"),
    _frames(CHILD, r"multiprocessing/(?:process|popen_\w+)\.py$", r"join|wait|poll", "Process.join"),
    _frames(CHILD, r"multiprocessing/pool\.py$", r"get|wait|join|next", "multiprocessing.Pool"),
    _frames(CHILD, r"concurrent/futures/process\.py$", r"result|shutdown|join\w*", "ProcessPoolExecutor"),
    _frames(CHILD, r"torch/multiprocessing/spawn\.py$", r"join", "torch.multiprocessing"),
    # Locks, and other waits of one thread for another.
    _frames(LOCK, r"/threading\.py$", r"acquire|wait|wait_for|join|_wait_for_tstate_lock|_acquire_restore|__enter__"),
    _frames(LOCK, r"/threading\.py$", r"_shutdown", "the end of its other threads"),
    _frames(LOCK, r"/queue\.py$", r"get|put|join"),
    _frames(LOCK, _MESSAGES, r"get|put|recv\w*|_?poll|wait|acquire|__enter__"),
    _frames(LOCK, r"concurrent/futures/_base\.py$", r"result|wait|as_completed|exception", "a future"),
    _frames(LOCK, r"/(?:filelock|portalocker|fasteners)/|torch/utils/file_baton\.py$", r"\w+", LOCK_FILE),
    _frames(LOCK, r"importlib(?:\._bootstrap|/_bootstrap\.py)", r"acquire|_lock_unlock_module", "an import"),
    # Files and networks.
    _frames(IO, r"torch/serialization\.py$", r"_?save|_?load|_legacy_\w+|persistent_load|load_tensor|__exit__"),
    _frames(IO, _FILES, r"\w+"),
    _frames(IO, r"/(?:socket|ssl|socketserver|asyncio/\w+|selectors)\.py$", r"\w+", "a socket"),
    _frames(IO, _CLIENTS, r"\w+", "a download"),
    _frames(IO, r"/(?:huggingface_hub|fsspec|s3fs|gcsfs|adlfs|boto3|botocore)/", r"\w+", "a download"),
    _frames(IO, _FILE_FORMATS, r"\w+", "a file"),
    _frames(IO, r"torch/utils/tensorboard/|/(?:tensorboard|wandb|mlflow)/", r"\w+", "a logger"),
)
"""The rules for frames. The first rule that matches a frame applies."""

_COMM = r"\b(?:\w*(?:[cC]omm|COMM)\w*|[wW]orld)(?:\([^()]*\))?\s*\.\s*"
_MPI = (
    r"I?(?:[bB]arrier|[bB]cast|[aA]llreduce|[rR]educe|[rR]educe_scatter(?:_block)?|[aA]llgatherv?|[gG]atherv?"
    r"|[sS]catterv?|[aA]lltoall[vw]?|[sS]can|[eE]xscan|[sS]?[sS]end|[rR]ecv|[sS]endrecv|[pP]robe|Split\w*|Dup|Create\w*|Free)"
)

LINE_RULES: tuple[LineRule, ...] = tuple(
    LineRule(kind, re.compile(line))
    for kind, line in (
        (START, r"\b(MPI)\.Init(?:_thread)?\s*\(|^\s*from mpi4py import (MPI)\b"),
        (START, r"\b\w*[sS]tore\w*(?:\([^()]*\))?\s*\.\s*(get|wait|multi_get|barrier)\s*\("),
        (START, r"\b(TCPStore|FileStore|PrefixStore)\s*\("),
        (COLLECTIVE, _COMM + "(" + _MPI + r")\s*\("),
        (COLLECTIVE, r"\bMPI\s*\.\s*(Finalize)\s*\("),
        (COLLECTIVE, r"\b(?:dist|torch\.distributed|hvd|c10d)\s*\.\s*(" + _OF_ALL + "|" + _POINT_TO_POINT + r")\s*\("),
        (COLLECTIVE, r"\.\s*(Barrier|Bcast|Allreduce|Allgatherv?|Alltoall[vw]?|Gatherv|Scatterv|Waitall)\s*\("),
        (COLLECTIVE, r"\b(?:work|handle|req|request|pending)\w*(?:\[[^\]]*\])?\s*\.\s*([wW]ait)\s*\("),
        (COLLECTIVE, r"\b(wait_tensor|wait_for_everyone)\s*\("),
        (DEVICE, r"\.\s*(item|tolist|cpu|numpy|block_until_ready|synchronize)\s*\("),
        (MAY, r"\.\s*(wait)\s*\(\s*\)"),
        (SLEEP, r"\b(sleep|usleep|pause|sigwait\w*)\s*\("),
        (CHILD, r"\bos\s*\.\s*(wait|waitpid|wait3|wait4|waitid|system)\s*\("),
        (LOCK, r"\.\s*(acquire|join|flock|lockf)\s*\(|^\s*with\s+[\w.]*(?:_|\b)([lL]ock|mutex)\b"),
        (LOCK, r"\b(?:q|queue|\w+_queue)\s*\.\s*(get|put)\s*\("),
        (IO, r"\b(open|input|fsync|read_csv|loadtxt|memmap)\s*\("),
        (IO, r"\.\s*(read|readline|readlines|readinto|write|writelines|flush)\s*\("),
        (IO, r"\.\s*(accept|connect|recv|sendall|select|poll)\s*\("),
    )
)
"""The rules for lines of source code. The first rule that matches applies: the rules for calls of several ranks come
before those for calls of one process."""
