"""Azure's own client, unmodified, against a double: `python sdk_client.py SCRIPT`, in an environment with azure-ai-ml.

SCRIPT is Python with `client` (an MLClient), `command`, `Input`, `Output`, `Data`, `folder` (one to write into) and
`tell(name, value)`; the values told are the process's last line of output, as JSON.
"""

import json
import os
import sys
import time

import azure.ai.ml
from azure.ai.ml import Input, MLClient, Output, command
from azure.ai.ml.entities import Data
from azure.core.credentials import AccessToken


class Credential:
    """Gives the token of the variable DOUBLE_TOKEN."""

    def get_token(self, *scopes, **options):
        return AccessToken(os.environ["DOUBLE_TOKEN"], int(time.time()) + 3600)


def main(script: str) -> None:
    told = {}
    client = MLClient(Credential(), *os.environ["DOUBLE_WORKSPACE"].split("/"))
    names = {
        "client": client,
        "command": command,
        "Input": Input,
        "Output": Output,
        "Data": Data,
        "azure": azure,
        "folder": os.environ["DOUBLE_RESULTS"],
        "tell": told.__setitem__,
    }
    exec(compile(script, "<script>", "exec"), names)
    print("\n" + json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
