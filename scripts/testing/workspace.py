"""In a workspace what the tests do on Azure's double: `python -m scripts.testing.workspace FILE COMPUTE [options of
pytest]`. The self-test of the compute that FILE, a worldsize.toml, configures, then those of tests/azure that a
workspace can pass. It fails where one of them does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

VARIABLE = "WORLDSIZE_TEST_AZURE"
"""The variable that names the file to the tests."""

NEEDS = (
    "which workspace? make test-azure COMPUTE=cloud WORLDSIZE_TEST_AZURE=path/to/worldsize.toml, a file with a table "
    "[compute.cloud] of type azureml that names an environment (docs/how-to/clusters/azure-workspace.md); you are "
    "whoever `az login` says, or the service principal in AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
)


def main(arguments: Sequence[str]) -> int:
    file, compute, *further = [*arguments, "", ""][: max(2, len(arguments))]
    if not (compute and os.path.isfile(file)):
        print(NEEDS, file=sys.stderr)
        return 2
    folder = os.path.dirname(os.path.abspath(file))
    environ = {**os.environ, "WORLDSIZE_TRUST_PROJECT": "1", "WORLDSIZE_COMPUTE": compute}
    suite = ["worldsize", "selftest", "--compute", compute, "--to", os.getcwd()]
    print("==> worldsize selftest", flush=True)
    first = subprocess.run([sys.executable, "-m", *suite], cwd=folder, env=environ).returncode
    if first not in (0, 1):  # it could not begin, or was interrupted
        return first
    print("==> tests/azure", flush=True)
    words = ["pytest", "-q", "--tier", "all", "--timeout", "3600", "tests/azure", *further]
    second = subprocess.run([sys.executable, "-m", *words], env={**environ, VARIABLE: os.path.abspath(file)}).returncode
    return first or second


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
