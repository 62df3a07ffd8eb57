"""Causes in what starts the ranks, or ends them in order.

Those of a scheduler are made on a real one, see `slurm_cases`; here is what shells, mpirun and the dynamic linker do,
and words of Slurm that the tests' cluster cannot be brought to say."""

from __future__ import annotations

from causes.case import Case, said

LOADS = """import ctypes
import os
import subprocess
import time

if os.environ["RANK"] == "1":
    with open("outputs/layer.c", "w") as file:
        file.write("extern int missing_layer(int); int layer(int x) { return missing_layer(x); }")
    subprocess.check_call(["cc", "-shared", "-fPIC", "-o", "outputs/layer.so", "outputs/layer.c"])
    ctypes.CDLL("./outputs/layer.so", os.RTLD_NOW)
time.sleep(60)
"""
LACKS_LIBRARY = """import ctypes
import os
import time

if os.environ["RANK"] == "1":
    ctypes.CDLL("libcudart.so.12")
time.sleep(60)
"""
NEEDS_LIBRARY = """import os
import subprocess
import sys
import time

if os.environ["RANK"] == "1":
    os.chdir("outputs")
    files = {"part.c": "int part(void) { return 0; }", "main.c": "int part(void); int main(void) { return part(); }"}
    for name, text in files.items():
        with open(name, "w") as file:
            file.write(text)
    subprocess.check_call(["cc", "-shared", "-fPIC", "-o", "libpart.so.3", "part.c"])
    subprocess.check_call(["cc", "-o", "main", "main.c", "./libpart.so.3", "-Wl,-rpath,/nowhere"])
    os.rename("libpart.so.3", "elsewhere.so")
    sys.exit(subprocess.call(["./main"]))
time.sleep(60)
"""
OLDER_LIBRARY = """import os
import subprocess
import sys
import time

if os.environ["RANK"] == "1":
    os.chdir("outputs")
    files = {
        "part.c": "int part(void) { return 0; }",
        "main.c": "int part(void); int main(void) { return part(); }",
        "old.map": "PART_1.0 { global: *; };",
        "new.map": "PART_1.0 { }; PART_2.0 { global: part; } PART_1.0;",
    }
    for name, text in files.items():
        with open(name, "w") as file:
            file.write(text)
    for version in ("new", "old"):
        options = ["-shared", "-fPIC", "-Wl,-soname,libpart.so.3", "-Wl,--version-script=%s.map" % version]
        subprocess.check_call(["cc", *options, "-o", "libpart.so.3", "part.c"])
        if version == "new":
            subprocess.check_call(["cc", "-o", "main", "main.c", "./libpart.so.3"])
    sys.exit(subprocess.call(["./main"], env={**os.environ, "LD_LIBRARY_PATH": "."}))
time.sleep(60)
"""
ON_RANK_1 = 'if [ "$RANK" = 1 ]; then %s; exit; fi; sleep 60'

MPIRUN = "mpirun --allow-run-as-root "
ALONE = {"distribution": {"type": "none"}}

LAUNCH_CASES: tuple[Case, ...] = (
    Case(
        "unknown",
        said("slurmstepd-n1: error: *** JOB 17 ON n1 CANCELLED AT 2026-11-29T01:00:00 DUE TO JOB REQUEUE ***"),
        "unknown",
        simulated="Slurm",
        section="requeued",
    ),
    Case(
        "unknown",
        said(
            "slurmstepd-n1: error: *** JOB 17 STEPD TERMINATED ON n1 AT 2026-11-29T01:00:00 DUE TO JOB NOT ENDING WITH "
            "SIGNALS ***"
        ),
        "unknown",
        simulated="Slurm",
        section="processes-stay",
    ),
    Case(
        "unknown",
        said("srun: error: n1: task 3: Segmentation fault (core dumped)"),
        "unknown",
        simulated="Slurm",
        section="step-ended",
    ),
    Case(
        "scheduler-unreachable",
        said("srun: error: Unable to contact slurm controller (connect failure)"),
        "supported",
        simulated="Slurm",
    ),
    Case(
        "slots-missing", "", "supported", world="1x1", command=MPIRUN + "-np 99 true", keys=ALONE, needs=("Open MPI 4",)
    ),
    Case(
        "mpi-daemons",
        "",
        "supported",
        world="1x1",
        command=MPIRUN + "--host nosuchhost.invalid:2 -np 2 true",
        keys=ALONE,
        needs=("Open MPI 4", "ssh"),
    ),
    Case("program-missing", "", "supported", (1,), command=ON_RANK_1 % "nosuchprogram", quick=True),
    Case(
        "program-missing", "", "supported", (1,), command=ON_RANK_1 % "sh -c nosuchprogram", variant="a shell's words"
    ),
    Case("program-missing", "", "supported", (1,), command=ON_RANK_1 % "exec env nosuchprogram", variant="env's words"),
    Case(
        "program-missing", "", "supported", (1,), command=ON_RANK_1 % "exec python tran.py", variant="Python's script"
    ),
    Case(
        "program-missing",
        "",
        "supported",
        world="1x1",
        command=MPIRUN + "-np 1 nosuchprogram",
        keys=ALONE,
        needs=("Open MPI 4",),
        variant="mpirun's words",
    ),
    Case("library-missing", LACKS_LIBRARY, ranks=(1,)),
    Case("library-missing", NEEDS_LIBRARY, "supported", (1,), needs=("cc",), variant="a program's"),
    Case("library-version", LOADS, ranks=(1,), needs=("cc",), variant="a symbol"),
    Case("library-version", OLDER_LIBRARY, "supported", (1,), needs=("cc",), variant="an older library"),
)
