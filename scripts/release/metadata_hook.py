"""A metadata hook of hatchling, for both packages of this repository: what their metadata takes from other files and
from the address of the repository, which WORLDSIZE_REPOSITORY names (`make dist` sets it).

Hatchling loads this file by its path, so the functions are found by theirs.
"""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

HERE = Path(__file__).resolve().parent
MAIN = "worldsize"


class PackageMetadata(MetadataHookInterface):
    """The dynamic fields of a package: addresses; of worldsize, the description; of others, what they depend on."""

    def update(self, metadata: dict[str, Any]) -> None:
        functions = runpy.run_path(str(HERE / "metadata.py"))
        address = functions["repository_address"](os.environ.get("WORLDSIZE_REPOSITORY", ""))
        version = metadata["version"]
        metadata["urls"] = functions["project_urls"](address, version)
        if metadata["name"] == MAIN:
            text = Path(self.root, "README.md").read_text(encoding="utf-8")
            description = functions["index_description"](text, address, version)
            metadata["readme"] = {"content-type": "text/markdown", "text": description}
        else:
            metadata["dependencies"] = ["%s[hpcpack,simulator]==%s" % (MAIN, version)]
