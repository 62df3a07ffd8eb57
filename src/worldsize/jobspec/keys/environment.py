"""The keys of `environment:` in a job, and of an [environment.NAME] table in the configuration."""

from __future__ import annotations

from worldsize.jobspec.keys.key import Key, Keys

BUILD: Keys = {
    "path": Key("path", "The directory with the Dockerfile.", blank=False),
    "dockerfile_path": Key("text", "The Dockerfile, relative to path."),
}
STEP: Keys = {
    "name": Key("text", "The step's name in messages.", blank=False),
    "run": Key("text", "A line of bash, executed in the environment.", blank=False),
    "pip": Key("requirements", "Requirements to compile, kept as wheels.", blank=False),
    "when": Key("text", "Only where this exists: cuda, mpi>=4; or does not: no cuda.", blank=False),
    "options": Key("texts", "Further options of `uv pip install`, for pip.", blank=False),
    "variables": Key("text_map", "Variables of this step; $NAME in them is replaced."),
}
FETCH: Keys = {
    "url": Key("path", "What to download: a URL, or a local path.", blank=False),
    "sha256": Key("as_text", "Its checksum: 64 hexadecimal digits.", blank=False),
    "max_size": Key("as_text", "The most to download and to unpack: 500 MB, 20 GiB, or bytes.", blank=False),
    "when": Key("text", "Only where this exists: cuda; or does not: no cuda.", blank=False),
    "to": Key("path", "The directory that a tar or zip file is unpacked into, or that any other file is put in.",
              blank=False),
}  # fmt: skip
AZURE: Keys = {
    "name": Key("text", "The environment's name."),
    "version": Key("as_text", "The environment's version."),
    "description": Key("text", "A description of this environment."),
    "tags": Key("labels", "Labels."),
    "properties": Key("labels", "Properties for the service."),
    "image": Key("text", "A container image."),
    "conda_file": Key("conda", "A conda environment file, or its content."),
    "build": Key("build", "A list of build steps; or, as in Azure, a container build.", keys=BUILD),
    "os_type": Key("text", "linux or windows.", choices=("linux", "windows")),
    "inference_config": Key("any", "For the service."),
    "datastore": Key("text", "Where the service uploads to."),
}
OURS: Keys = {
    "python": Key("python", "A Python version, or what exists: a virtual or conda environment, an interpreter; by "
                  "path or by name.", blank=False),
    "channels": Key("texts", "Where conda packages come from, highest priority first.", blank=False),
    "conda": Key("texts", "Conda packages: numpy, pytorch=2.4, cudnn>=9.", blank=False),
    "pip": Key("requirements", "Requirements as pip takes them, or a file of them; installed after conda's.",
               blank=False),
    "file": Key("path", "A file that lists the environment's content: requirements.txt, environment.yml, "
                "pyproject.toml, uv.lock, or a lock file of `worldsize env lock`.", blank=False),
    "virtual_packages": Key("texts", "What conda may assume about the nodes: __cuda=12.4, __glibc=2.28.", blank=False),
    "modules": Key("texts", "Modules to load, when it is built and when it is used.", blank=False),
    "path": Key("places", "Directories to put first on PATH.", blank=False),
    "ld_library_path": Key("places", "Directories to put first on LD_LIBRARY_PATH.", blank=False),
    "variables": Key("text_map", "Variables of the environment; $NAME in them is replaced."),
    "fetch": Key("records", "What to download before the build steps.", keys=FETCH),
    "build_on": Key("text", "Where build steps are executed: here (login), or on a node of the compute.",
                    choices=("login", "compute")),
    "prerequisites": Key("texts", "What a build needs of its machine: gcc>=7.2, mpi, cuda.", blank=False),
    "distribute": Key("text", "How nodes get it: from the shared directory (shared), unpacked on their own disks "
                      "(local), or local for a built one on eight and more nodes (auto).",
                      choices=("auto", "shared", "local")),
    "clobber": Key("text", "What happens where pip changes a file of conda's: fail (the default) or warn.",
                   choices=("fail", "warn")),
}  # fmt: skip
ENVIRONMENT: Keys = {**AZURE, **OURS}
