"""Image folders: a directory for each class, with JPEG or PNG files. A folder can be generated for a measurement."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import time

from .arguments import stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ENDINGS = (".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG")
GENERATED_CLASSES = 8
GENERATED_PER_CLASS = 32
GENERATED_SIZE = (500, 375)
"""Width and height of most photographs of ImageNet. A generated file has about as many bytes as one of those."""
_WAIT = 600.0
_COMPLETE = "complete"


def list_images(directory: str) -> list[tuple[str, int]]:
    """Return the paths of the images in `directory`, each with the number of its class, in the same order on all nodes.
    Stop this rank if there is no image, or if there are more classes than the network has outputs."""
    try:
        classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
        found = [
            (os.path.join(directory, name, file), number)
            for number, name in enumerate(classes)
            for file in sorted(_files(os.path.join(directory, name)))
            if file.endswith(ENDINGS)
        ]
    except OSError as error:
        found = []
        stop(f"--data {directory}: {error.strerror} on {os.uname().nodename}")
    if not found:
        stop(f"--data {directory}: no image in it; it must have a directory per class: DIR/CLASS/NAME.jpg")
    if len(classes) > 1000:
        stop(f"--data {directory}: {len(classes)} classes, and the network has 1,000 outputs")
    return found


def _files(directory: str) -> list[str]:
    """Return the names of the regular files in a directory, including links to files. Other kinds are left out, because
    opening a pipe blocks forever."""
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries if entry.is_file()]


def generated_directory() -> str:
    """Return the path of the directory for this node's generated images, on its own disk. No other run, attempt or node
    uses it."""
    environ = os.environ
    places = (environ.get(name) for name in ("WORLDSIZE_LOCAL_DIR", "SLURM_TMPDIR", "TMPDIR"))
    base = next((place for place in places if place and os.path.isdir(place)), "/tmp")  # nosec B108  # mkdir is atomic
    words = [environ.get(name, "0") for name in ("WORLDSIZE_RUN_ID", "WORLDSIZE_ATTEMPT", "WORLDSIZE_NODE_RANK")]
    return os.path.join(base, "-".join(["worldsize-bench", *words]))


def make_images(encode: Callable[[int, int, bytes], bytes], local_rank: int) -> str:
    """Write real JPEG files for the benchmark once per node, in local rank 0, or wait for them in the other ranks.
    Return their directory. `encode` returns the bytes of a file for a width, a height and 48 random bytes."""
    directory = generated_directory()
    if local_rank == 0:
        os.mkdir(directory, 0o700)  # fails if it exists, so that no other user's file is read
        _remove_at_the_end(directory)
        _write_images(directory, encode)
    return _wait_for(directory)


def _remove_at_the_end(directory: str) -> None:
    """Register the removal of `directory`, with the generated images, for the end of this rank, also if the rank ends
    with an error or by TERM, as with `worldsize cancel`."""
    owner = os.getpid()

    def end(number: int, frame: object) -> None:
        if os.getpid() == owner:  # not in the loader processes that this one has forked
            shutil.rmtree(directory, ignore_errors=True)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)


def _write_images(directory: str, encode: Callable[[int, int, bytes], bytes]) -> None:
    for number in range(GENERATED_CLASSES):
        folder = os.path.join(directory, f"class-{number}")
        os.mkdir(folder)
        for place in range(GENERATED_PER_CLASS):
            with open(os.path.join(folder, f"{place:04d}.jpg"), "wb") as file:
                file.write(encode(*GENERATED_SIZE, os.urandom(48)))
    os.mkdir(os.path.join(directory, _COMPLETE))


def _wait_for(directory: str) -> str:
    deadline = time.monotonic() + _WAIT
    while not os.path.isdir(os.path.join(directory, _COMPLETE)):
        if time.monotonic() > deadline:
            stop(f"{directory}: no images after {_WAIT:.0f} s: local rank 0 of this node makes them")
        time.sleep(0.05)
    if os.stat(directory).st_uid != os.getuid():
        stop(f"{directory}: it is another user's")
    return directory


def remove_images(local_rank: int) -> None:
    """Remove the generated images of this node, in local rank 0 alone. Call this only after all ranks of the node have
    finished with them."""
    if local_rank == 0:
        shutil.rmtree(generated_directory(), ignore_errors=True)
