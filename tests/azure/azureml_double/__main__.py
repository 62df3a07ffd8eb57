"""The double's process: `python -m azureml_double FOLDER`, its options as a line of JSON on its input.

It writes one line of JSON when it answers requests, and ends with SIGTERM or with its input.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from azureml_double.address import domain, service_address, take_slot
from azureml_double.certificate import CA_FILE, make_context
from azureml_double.options import ACCOUNT, Options
from azureml_double.server import Server
from azureml_double.service import Service


def main(folder: str) -> None:
    slot, lock = take_slot()
    address = service_address(slot)
    service = Service(folder, slot, Options(**json.loads(sys.stdin.readline())))
    context = make_context(folder, address, domain(slot), "%s.blob.%s" % (ACCOUNT, domain(slot)))
    server = Server(address, context, service.answer)
    service.listens(address, server.server_port)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    ready = {"url": service.url, "suffix": service.suffix, "ca_file": os.path.join(folder, CA_FILE)}
    print(json.dumps(ready), flush=True)
    ended.wait()
    service.end()
    lock.close()
    os._exit(0)  # threads of connections may wait for requests


if __name__ == "__main__":
    main(sys.argv[1])
