"""What the guide builds, in small: an NCCL archive, and a Horovod whose extension is compiled against it and MPI."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

from wheels import Links

NCCL = "nccl_2.3.7-1+cuda10.0_x86_64"

SETUP = """\
import os, subprocess, sys
from setuptools import Extension, setup

with open(os.environ["COUNT"], "a") as count:
    count.write(" ".join(sys.argv[1:]) + "\\n")
home = os.environ["HOROVOD_NCCL_HOME"]
flags = subprocess.run(["mpicc", "--showme:compile"], capture_output=True, text=True).stdout.split()
operations = os.environ.get("HOROVOD_GPU_OPERATIONS") or os.environ.get("HOROVOD_GPU_ALLREDUCE", "none")
setup(
    name="horovod",
    version="%s",
    install_requires=["cloudpickle>=1"],
    packages=["horovod"],
    ext_modules=[
        Extension(
            "horovod._native",
            ["native.c"],
            include_dirs=[os.path.join(home, "include")],
            extra_compile_args=[*flags, '-DOPERATIONS="%%s"' %% operations],
        )
    ],
)
"""
NATIVE = """\
#include <Python.h>
#include <mpi.h>
#include <nccl.h>
static PyObject *about(PyObject *self, PyObject *args) {
    return Py_BuildValue("(iiss)", NCCL_MAJOR, NCCL_MINOR, OPERATIONS, MPI_VERSION >= 3 ? "mpi" : "old");
}
static PyMethodDef methods[] = {{"about", about, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", "", -1, methods};
PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&module); }
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "setuptools.build_meta"\n'


def nccl(directory: Path, patch: int = 7) -> tuple[Path, str]:
    """NVIDIA's archive as to names and header; and its checksum."""
    header = "#define NCCL_MAJOR 2\n#define NCCL_MINOR 3\n#define NCCL_PATCH %d\n" % patch
    path = directory / (NCCL + ".txz")
    with tarfile.open(path, "w:xz") as archive:
        for name, text in (("include/nccl.h", header), ("lib/libnccl.so.2.3.7", "a library")):
            member = tarfile.TarInfo("%s/%s" % (NCCL, name))
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def horovod(links: Links, version: str = "0.28.1") -> Path:
    files = {
        "setup.py": SETUP % version,
        "native.c": NATIVE,
        "pyproject.toml": PROJECT,
        "horovod/__init__.py": "from horovod._native import about\n",
    }
    return links.source("horovod", version, files)
