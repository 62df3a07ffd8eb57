"""Names below 127-A-B-C.azureml-double.test are 127.A.B.C, in a Python whose PYTHONPATH begins with this folder.

Clients build the names of storage accounts themselves (ACCOUNT.blob.SUFFIX), and no name server knows a double's.
"""

import re
import socket

_NAME = re.compile(r"(?:[^.]+\.)*(127-\d+-\d+-\d+)\.azureml-double\.test\.?")
_getaddrinfo = socket.getaddrinfo


def _resolve(host, *arguments, **options):
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    return _getaddrinfo(found.group(1).replace("-", ".") if found else host, *arguments, **options)


socket.getaddrinfo = _resolve
