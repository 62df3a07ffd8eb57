"""Download MNIST (11 MB) where there is internet, such as a cluster's front end; compute nodes usually have none.

    python examples/mnist/download.py [FOLDER]          default: data, beside this file, where job.yml expects it

Files that are there already and whole are left alone. Every file is checked against its known SHA-256.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
CHECKSUMS = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
SECONDS = 30


def whole(path: str, checksum: str) -> bool:
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest() == checksum


def fetch(name: str, path: str, mirrors: tuple[str, ...] = MIRRORS) -> None:
    """`path` is complete and right, or does not exist. Raises SystemExit where no mirror could give the file."""
    problems = []
    for mirror in mirrors:
        try:
            with urllib.request.urlopen(mirror + name, timeout=SECONDS) as answer:
                content = answer.read()
        except (OSError, urllib.error.URLError, http.client.HTTPException) as error:
            problems.append("%s: %s" % (mirror, error))
            continue
        if hashlib.sha256(content).hexdigest() != CHECKSUMS[name]:
            problems.append("%s: the file's checksum is wrong" % mirror)
            continue
        with open(path + ".part", "wb") as file:
            file.write(content)
        os.replace(path + ".part", path)
        return
    advice = (
        "If this machine has no internet (compute nodes usually have none), run this script on the front end or on\n"
        "your own machine, and copy the folder; or make a small stand-in with make_digits.py."
    )
    sys.exit("%s could not be downloaded:\n  %s\n%s" % (name, "\n  ".join(problems), advice))


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "data")
    os.makedirs(folder, exist_ok=True)
    for name, checksum in CHECKSUMS.items():
        path = os.path.join(folder, name)
        if whole(path, checksum):
            print("%s is there" % name)
        else:
            fetch(name, path)
            print("%s downloaded" % name)
    print("MNIST is in %s" % folder)


if __name__ == "__main__":
    main()
