"""Messages of the libraries through which ranks communicate: NCCL, gloo, torch's store, MPI, Horovod, TensorFlow,
JAX."""

from __future__ import annotations

from worldsize.diagnose.signatures.signature import Role, Signature
from worldsize.state.first_failure import COLLECTIVE_TIMEOUT, PEER_LOSS

_FABRIC = "report node and line to the cluster's administrators; "

_SAME_CALLS = (
    "all ranks must make the same collective calls in the same order, with tensors of equal size: look for an `if` on "
    "the rank, and for batches of different length"
)
_NEXT_TIME = "; the next time, `worldsize stacks RUN` shows where each rank is while the others wait"
_LAST_ERROR = r"\nLast error: ?\n(?P<detail>[^\n]+)"
"""Pattern for NCCL's last warning in torch's exception."""

COMMUNICATION = (
    Signature(
        "collective-mismatch",
        r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+) is running collective: .*?"
        r"OpType=(?P<call>\w+(?:, TensorShape=\[[^\]]*\])?).*? but Rank (?P<other>\d+) is running collective: .*?"
        r"OpType=(?P<call2>\w+(?:, TensorShape=\[[^\]]*\])?)",
        "ranks are in different collective calls: rank {rank} in {call}, rank {other} in {call2}",
        _SAME_CALLS,
        "PyTorch: c10d",
    ),
    Signature(
        "collective-mismatch",
        r"Detected mismatch between collectives on ranks|op\.preamble\.length <= op\.nbytes"
        r"|Mismatched? (?:ALLREDUCE|ALLGATHER|BROADCAST) |Message truncated; \d+ bytes|MPI_ERR_TRUNCATE",
        "ranks are in different collective calls, or in one with tensors of different sizes",
        _SAME_CALLS + "; TORCH_DISTRIBUTED_DEBUG=DETAIL makes PyTorch name them",
        "gloo: transport/tcp/pair.cc; Horovod; MPI",
    ),
    Signature(
        "barrier-missed",
        r"Ranks? (?P<whose>[\d, ]+) failed to pass monitoredBarrier",
        "did not reach the barrier",
        "look at what that rank did at the time: `worldsize logs --rank`" + _NEXT_TIME,
        "PyTorch: ProcessGroupGloo.cpp",
        Role.CASCADE,
    ),
    Signature(
        "world-size-mismatch",
        r"Timed out after \d+ seconds waiting for clients\. (?P<joined>\d+)/(?P<size>\d+) clients joined",
        "it waited for {size} ranks, and {joined} joined",
        "the world size in the script is not that of the run: take WORLD_SIZE and RANK from the environment "
        '(init_method="env://"), and let every rank call init_process_group',
        "PyTorch: TCPStore.cpp",
    ),
    Signature(
        "group-not-initialised",
        r"Default process group has not been initialized",
        "it used torch.distributed before init_process_group",
        'call torch.distributed.init_process_group() first, on every rank, with `if "RANK" in os.environ` where the '
        "script also runs alone",
        "PyTorch: distributed_c10d.py",
    ),
    Signature(
        "collective-timeout",
        COLLECTIVE_TIMEOUT,
        "it waited in a collective call for a rank that did not join",
        "the rank that is named did not reach that call: see what it did; other work on one rank alone (evaluation, a "
        "checkpoint) may take longer than the timeout, which init_process_group(timeout=…) sets" + _NEXT_TIME,
        "PyTorch: ProcessGroupNCCL.cpp, TCPStore; gloo: transport/tcp/unbound_buffer.cc; JAX",
        Role.CASCADE,
    ),
    Signature(
        "address-in-use",
        r"EADDRINUSE|Address already in use|\[Errno 98\]",
        "another process listens on that port",
        "take MASTER_PORT from the environment (worldsize finds a free one for each attempt) instead of a fixed number",
        "the kernel, by PyTorch's TCPStore, gloo, Python",
    ),
    Signature(
        "download-failed",
        r"HTTPS?ConnectionPool\(host='(?P<detail>[^']*)', port=\d+\): Max retries exceeded with url"
        r"|LocalEntryNotFoundError|OfflineModeIsEnabled|couldn't connect to '(?P<detail2>https?://[^']*)"
        r"|<urlopen error|ProxyError",
        "it could not reach a server by HTTP",
        "compute nodes often have no internet: fetch it before the start, with `stage:` or as an input; a server "
        "of your own, such as one for metrics, must be reachable from the nodes",
        "huggingface_hub, requests, urllib",
    ),
    Signature(
        "name-not-resolved",
        r"\(gai error: -?\d+ - (?:Name or service not known|Temporary failure|No address)",
        "a host's name has no address on this node",
        "take MASTER_ADDR from the environment; where it is a node's own name that is not known, give an address: "
        "WORLDSIZE_ADDRESS in setup",
        "PyTorch: socket.cpp, which tries IPv6 and IPv4 one after the other, and continues if one works",
        Role.CONFIRMATION,
    ),
    Signature(
        "name-not-resolved",
        r"Name or service not known|Temporary failure in name resolution|No address associated with hostname"
        r"|nodename nor servname provided|Could not resolve host|gethostbyname.*failed",
        "a host's name has no address on this node",
        "take MASTER_ADDR from the environment; where it is a node's own name that is not known, give an address: "
        "WORLDSIZE_ADDRESS in setup",
        "the C library's resolver",
    ),
    Signature(
        "name-not-resolved",
        r"network addresses of \([^)]*\) cannot be retrieved \(gai error",
        "a host's name has no address on this node",
        "take MASTER_ADDR from the environment; where it is a node's own name that is not known, give an address: "
        "WORLDSIZE_ADDRESS in setup",
        "the C library's resolver",
        Role.CONFIRMATION,
    ),
    Signature(
        "host-unreachable",
        r"The client socket has timed out after \d+ ?ms while trying to connect to \((?P<detail>[^)]*)\)"
        r"|No route to host|\[Errno 113\]|Network is unreachable|\[Errno 101\]|Connection timed out|\[Errno 110\]",
        "nothing answered at that address (no rank listens there, a firewall, or the wrong one of a node's addresses)",
        "see which address was tried, and whether rank 0 has come as far; `worldsize check` tries the ports between "
        "the nodes; NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME choose the interface, WORLDSIZE_ADDRESS the address",
        "the kernel, by PyTorch's TCPStore, gloo, NCCL",
    ),
    Signature(
        "no-interface",
        r"Bootstrap : no socket interface found|NET/\w+ : no socket interface found"
        r"|Unable to find (?:address|interface) for:? (?P<detail>\S+)",
        "NCCL or gloo found no network interface of the name that was set",
        "NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME leaves none: `ip -br addr` on the node shows their names",
        "NCCL: bootstrap.cc; gloo",
    ),
    Signature(
        "nccl-versions",
        r"Mismatched NCCL version detected",
        "nodes have different versions of NCCL",
        "one environment on all nodes: `worldsize report` shows each node's; look at LD_LIBRARY_PATH and modules",
        "NCCL: init.cc",
    ),
    Signature(
        "network-adapters-differ",
        r"Detected mixed local Net device counts|mismatch.{0,120}[Nn]et device counts",
        "a node has fewer network adapters than the others",
        "`worldsize check` compares them; leave that node out. NCCL_IGNORE_NET_MISMATCH is a stopgap",
        "NCCL",
    ),
    Signature(
        "shared-memory",
        r"failed to extend /dev/shm/nccl-|Error while creating shared memory segment /dev/shm/nccl-",
        "the node's shared memory is too small for NCCL",
        "a larger /dev/shm (shm_size of the job, --shm-size of a container), or `ulimit -l unlimited`",
        "NCCL: shm.cc",
    ),
    Signature(
        "shared-memory-removed",
        r"unlink shared memory /dev/shm/nccl-\S+ failed|/dev/shm/nccl-.{1,200}No such file",
        "the system removed shared memory that was in use",
        "RemoveIPC=no in the nodes' logind.conf: ask the cluster's administrators",
        "NCCL; systemd-logind",
    ),
    Signature(
        "fabric-acs",
        r"IBV_WC_LOC_PROT_ERR|Got completion from peer .* with (?:error |status=)4\b|vendor[_ ]err(?:or)?[ =]249",
        "GPUDirect over the fabric failed: PCIe's ACS is on, or firmware is wrong",
        _FABRIC + "NCCL_NET_GDR_LEVEL=0 shows whether it works without it",
        "NCCL: net_ib.cc",
    ),
    Signature(
        "fabric-peer-lost",
        r"IBV_WC_RETRY_EXC_ERR|Got completion from peer .* with (?:error |status=)12\b",
        "the fabric lost a peer: the peer is gone, or a link is down",
        "look at that peer first; for a slow fabric NCCL_IB_TIMEOUT=22",
        "NCCL: net_ib.cc",
    ),
    Signature(
        "fabric-flushed",
        r"IBV_WC_WR_FLUSH_ERR|Got completion from peer .* with (?:error |status=)5\b",
        "the fabric discarded the data that was sent: after an earlier error, or adapters of a node do not reach "
        "each other",
        "look for an earlier line; `worldsize check` tries pairs of nodes",
        "NCCL: net_ib.cc",
        Role.CASCADE,
    ),
    Signature(
        "fabric-unused",
        r"NET/IB : No device found",
        "NCCL saw no InfiniBand adapter",
        "where the node has one (/sys/class/infiniband): NCCL_IB_DISABLE is set, or the container lacks libibverbs",
        "NCCL: net_ib.cc",
        Role.CONFIRMATION,
    ),
    Signature(
        "peer-lost",
        r"ncclRemoteError[^\n]*" + _LAST_ERROR,
        "its peer was gone",
        "it ended because another rank did: look at that one",
        "NCCL, by PyTorch",
        Role.CASCADE,
    ),
    Signature(
        "peer-lost",
        PEER_LOSS,
        "its peer was gone",
        "it ended because another rank did: look at that one",
        "NCCL, gloo, torch's store and launcher",
        Role.CASCADE,
    ),
    Signature(
        "nccl-cuda",
        rf"(?:ncclUnhandledCudaError|unhandled cuda error)(?:[\s\S]*{_LAST_ERROR})?",
        "a CUDA call of NCCL failed",
        "NCCL_DEBUG=WARN shows the call; look at the GPUs of this node (`nvidia-smi -q`), and at memory that is full",
        "NCCL",
    ),
    Signature(
        "nccl-system",
        rf"(?:ncclSystemError|unhandled system error)(?:[\s\S]*{_LAST_ERROR})?",
        "NCCL could not use the network or the system",
        "NCCL_DEBUG=WARN shows the call; the interface (NCCL_SOCKET_IFNAME), shared memory, or a peer that has ended",
        "NCCL",
    ),
    Signature(
        "nccl-internal",
        rf"(?:ncclInternalError|NCCL error .*internal error)(?:[\s\S]*{_LAST_ERROR})?",
        "NCCL failed internally",
        "NCCL_DEBUG=WARN shows more: most often connectivity, a GPU fault, or ranks that share a GPU",
        "NCCL",
    ),
    Signature(
        "horovod-shutdown",
        r"Horovod has been shut down|HorovodInternalError: ",
        "Horovod ended, since another rank did, or called hvd.shutdown()",
        "look at the other ranks: which one ended first, and whether all made the same number of calls",
        "Horovod",
        Role.CASCADE,
    ),
    Signature(
        "mpi-abort",
        r"MPI_ABORT was invoked on rank (?P<whose>\d+)",
        "called MPI_Abort",
        "look at that rank's last lines: the program called it, or MPI itself did after an error in a call",
        "Open MPI",
        Role.CASCADE,
    ),
    Signature(
        "tensorflow-mirrored-input",
        r"ValueError: Attempt to convert a value \(PerReplica",
        "Keras 3 cannot train with model.fit on several TensorFlow workers",
        "install Keras 2 in addition (pip install --no-deps tf-keras, of TensorFlow's own version) "
        'and choose it in the job (environment_variables: {TF_USE_LEGACY_KERAS: "1"}); or write the training loop with '
        "strategy.run",
        "TensorFlow",
    ),
)
