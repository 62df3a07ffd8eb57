"""The variables that a conda environment sets without a script.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.common.atomic_files import read_object


def conda_variables(prefix: str) -> dict[str, str]:
    """Return the environment variables that the conda environment in the directory `prefix` sets: those of its
    packages, overridden by those of `conda env config vars`. Files that cannot be read are ignored."""
    directory = os.path.join(prefix, "etc", "conda", "env_vars.d")
    try:
        names = [name for name in sorted(os.listdir(directory)) if name.endswith(".json")]
    except OSError:
        names = []
    found = [read_object(os.path.join(directory, name)) for name in names]
    own = read_object(os.path.join(prefix, "conda-meta", "state")).get("env_vars")
    found += [own] if isinstance(own, dict) else []
    return {name: text for each in found for name, text in each.items() if isinstance(text, str)}
