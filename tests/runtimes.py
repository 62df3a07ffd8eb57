"""Stand-ins for container runtimes, which cannot be had here: they understand what we say, and execute it."""

from __future__ import annotations

import os

APPTAINER = """\
#!/usr/bin/env python3
import os, sys

words = sys.argv[1:]
with open(os.environ.get("SAID", os.devnull), "a") as file:
    file.write(repr(words) + "\\n")
if words[:1] == ["pull"]:
    target, name = words[1:]
    if "no-such" in name:
        sys.exit("FATAL: no such image: " + name)
    open(target, "w").write(name)
    sys.exit(0)
assert words.pop(0) == "exec", words
binds = []
while words[0].startswith("--"):
    option = words.pop(0)
    if option == "--bind":
        binds.append(words.pop(0))
        assert os.path.exists(binds[-1]), "FATAL: mount source %s doesn't exist" % binds[-1]
    else:
        assert option in ("--nv", "--writable-tmpfs"), "unknown flag: " + option
image = words.pop(0)
if "://" not in image:
    assert os.path.exists(image), "FATAL: could not open image %s" % image
assert any(os.getcwd() == bind or os.getcwd().startswith(bind + "/") for bind in binds), "cwd is not bound"
environ = {name: value for name, value in os.environ.items() if name != "PATH"}
environ.update(APPTAINER_CONTAINER=image, PATH=os.path.dirname(sys.executable) + ":/usr/bin:/bin")
os.execvpe(words[0], words, environ)
"""

PYXIS = """\
#!/bin/bash
# srun with what Pyxis adds to it: options that are taken out again, and a variable that shows that they were heard.
real=$(PATH=${PATH#*:} command -v srun)
[ "$1" != --help ] || { "$real" --help; echo "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH"; exit 0; }
words=()
for word; do
    case $word in
        --container-image=*) export PYXIS_IMAGE=${word#*=} ;;
        --container-mounts=*) for each in $(echo "${word#*=}" | tr , ' '); do [ -e "${each%%:*}" ] || exit 9; done ;;
        --no-container-mount-home) ;;
        --container-*) echo "unknown option $word" >&2; exit 8 ;;
        *) words+=("$word") ;;
    esac
done
exec "$real" "${words[@]}"
"""


def install(folder: str, name: str, text: str) -> str:
    """The directory to put first on PATH."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return folder
