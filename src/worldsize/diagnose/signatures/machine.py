"""Messages of a node's kernel, memory, disks and file servers. Numbers of errors are Linux's (errno.h)."""

from __future__ import annotations

from worldsize.diagnose.signatures.signature import Role, Signature

MACHINE = (
    Signature(
        "host-memory",
        r"[Dd]etected \d+ oom[-_]kill event|Memory cgroup out of memory: Killed process|Out of memory: Killed process"
        r"|oom-kill:constraint=|step tasks have been OOM Killed|[Ee]xceeded (?:job |step |virtual )?memory limit"
        r"|srun: error: \S+: tasks? [\d,-]+: Out Of Memory",
        "the kernel killed a process because memory was full",
        "fewer ranks or loader workers per node, a smaller batch, or more memory per node (slurm: mem)",
        "Linux: mm/oom_kill.c; Slurm: slurmstepd",
        Role.CONFIRMATION,
    ),
    Signature(
        "host-memory",
        r"(?:^|\s)MemoryError\b|DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|Cannot allocate memory"
        r"|std::bad_alloc|\[Errno 12\]|_ArrayMemoryError: Unable to allocate",
        "the node gave it no more memory",
        "fewer ranks or loader workers per node, a smaller batch, or more memory per node (slurm: mem)",
        "Python, PyTorch, numpy, C++",
    ),
    Signature(
        "loader-shared-memory",
        r"unable to (?:open|write to|allocate) (?:shared memory|file ).{0,120}torch_\d+",
        "a worker of a DataLoader found no room in shared memory (/dev/shm)",
        "fewer workers, or a larger /dev/shm (shm_size of the job, --shm-size of a container); torch.multiprocessing."
        'set_sharing_strategy("file_system") does without',
        "PyTorch: libshm",
    ),
    Signature(
        "loader-shared-memory",
        r"DataLoader worker .*killed by signal: Bus error",
        "a bus error ended a worker of a DataLoader: usually there is no room in shared memory (/dev/shm)",
        "fewer workers, or a larger /dev/shm (shm_size of the job, --shm-size of a container); torch.multiprocessing."
        'set_sharing_strategy("file_system") does without; else a file that was cut short while a worker read it',
        "PyTorch: torch/utils/data/_utils/signal_handling.py",
    ),
    Signature(
        "loader-worker-killed",
        r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (?:is killed by signal: (?P<detail>[^.]*)"
        r"|exited unexpectedly(?: with (?P<detail2>exit code \d+))?)",
        "a worker of a DataLoader ended early",
        "Killed: usually the node's memory was full (fewer workers, more memory); a segmentation fault: a library "
        "of the Dataset; num_workers=0 shows an exception of the Dataset",
        "PyTorch: torch/utils/data/dataloader.py",
    ),
    Signature(
        "disk-full",
        r"\[Errno 28\]|No space left on device|\[Errno 122\]|Disk quota exceeded",
        "a disk, or a quota of it, is full",
        "`df -h` and `quota` for where it writes: free space, or write elsewhere",
        "Linux",
    ),
    Signature(
        "file-too-large",
        r"\[Errno 27\]|: File too large(?:$|\n)|File size limit exceeded",
        "a file would have exceeded the size limit",
        "`ulimit -f` in setup shows the limit of the user; else the file system has one: write in several files",
        "Linux",
    ),
    Signature(
        "share-stale",
        r"\[Errno 116\]|Stale (?:NFS )?file handle",
        "a file of the network file system was replaced or removed while it was in use",
        "do not replace files that a run reads: write a new name, then rename; where the server restarted, run again",
        "Linux: NFS",
    ),
    Signature(
        "io-error",
        r"\[Errno 5\]|Input/output error|\[Errno 121\]|Remote I/O error"
        r"|Transport endpoint is (?:not connected|shut down)|\[Errno 107\]",
        "a file system failed to read or write",
        "look at that file system on that node; report it to the cluster's administrators",
        "Linux",
    ),
    Signature(
        "files-open",
        r"\[Errno 24\]|Too many open files|received 0 items of ancdata",
        "it reached its limit of open files",
        '`ulimit -n 65536` in setup; torch.multiprocessing.set_sharing_strategy("file_system") where loader '
        "workers hand over many tensors",
        "Linux; Python's multiprocessing",
    ),
    Signature(
        "processes-full",
        r"fork: .{0,80}Resource temporarily unavailable|BlockingIOError: \[Errno 11\] Resource temporarily unavailable$"
        r"|can't start new thread|pthread_create.{0,120}failed"
        r"|libgomp: Thread creation failed",
        "it could start no more processes or threads",
        "`ulimit -u`, the control group's pids.max; fewer loader workers; OMP_NUM_THREADS",
        "Linux",
    ),
    Signature(
        "segmentation-fault",
        r"[Ss]egmentation fault(?! handler|s?: ?\d)|\(SIGSEGV\)|(?:signal|Signals\.|: )SIGSEGV\b",
        "native code read or wrote where it must not (segmentation fault)",
        "PYTHONFAULTHANDLER=1 shows the Python line; libraries built for another ABI cause this",
        "Linux, Python's faulthandler",
    ),
    Signature(
        "illegal-instruction",
        r"Illegal instruction(?: \(|\s{2,}|\s*$)|\(SIGILL\)|(?:signal |Signals\.|: )SIGILL\b",
        "its code has an instruction that this CPU does not have (illegal instruction)",
        "usually a library that was built for another CPU: build it on a node of the kind that runs it, or without "
        "-march=native",
        "Linux",
    ),
    Signature(
        "native-abort",
        r"terminate called (?:after throwing|without an active)|double free or corruption|corrupted size vs\. prev_size"
        r"|corrupted double-linked list|(?:free|malloc|realloc|munmap_chunk)\(\): (?:invalid|double free|unaligned"
        r"|corrupt|memory corruption|mismatching)|malloc_consolidate\(\): |Fatal Python error: |stack smashing detected"
        r"|buffer overflow detected|pure virtual method called",
        "native code ended the process (abort)",
        "the lines before it give the reason; PYTHONFAULTHANDLER=1 shows the Python line",
        "C library, C++, Python",
    ),
    Signature(
        "disk-waits",
        r"task \S+ blocked for more than \d+ seconds",
        "the kernel saw a process wait for a disk or a file server",
        "look at the file systems of that node",
        "Linux: kernel/hung_task.c",
        Role.CONFIRMATION,
    ),
)
