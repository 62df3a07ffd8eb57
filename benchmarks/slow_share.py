"""A directory as over a slow network: python slow_share.py DIRECTORY [--delay-ms 1] [--readers 16]. Linux, as root.

It mounts a read-only FUSE file system over DIRECTORY, in this process's mount namespace, and serves what lies below it
by itself, through /dev/fuse: each request of the kernel is answered after a delay, so many at the same time. Names and
attributes are cached by the kernel as an NFS client would (30 s and 3 s), contents until they change. Prints a line
once it is there; ends, and unmounts, when its standard input does.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import stat
import struct
import sys
import threading
import time

LOOKUP, FORGET, GETATTR, READLINK, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 5, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = 25, 26, 27, 28, 29, 34, 36, 38, 42
_SILENT = (FORGET, BATCH_FORGET, INTERRUPT)
_IN = struct.Struct("<IIQQIIIHH")
_OUT = struct.Struct("<IiQ")
_ATTR = struct.Struct("<6Q10I")
_ENTRY = struct.Struct("<4Q2I")
_ATTR_HEAD = struct.Struct("<QII")
_READ = struct.Struct("<QQIIQII")
_DIRENT = struct.Struct("<QQII")
_STATFS = struct.Struct("<5Q4I6I")
_INIT = struct.Struct("<IIIIHHIIHHI7I")
_KEEP_CACHE = 2
_ASYNC_READ, _PARALLEL_DIROPS, _MAX_PAGES = 1, 1 << 18, 1 << 22
_PAGES = 256
_NAMES, _ATTRIBUTES = 30, 3
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _DETACH = 1, 2, 4, 2


class Share:
    """What lies below one directory, by the kernel's numbers."""

    def __init__(self, root: int, delay: float) -> None:
        self.requests = 0
        self._delay = delay
        self._paths = {1: "/proc/self/fd/%d" % root}
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()

    def answer(self, opcode: int, node: int, body: bytes) -> bytes:
        """What the kernel gets. Raises OSError."""
        if opcode == INIT:
            return self._init(body)
        if opcode == DESTROY:
            return b""
        self.requests += 1
        time.sleep(self._delay)
        path = self._paths[node]
        if opcode == LOOKUP:
            return self._lookup(path, os.fsdecode(body.rstrip(b"\0")))
        if opcode == GETATTR:
            return _ATTR_HEAD.pack(_ATTRIBUTES, 0, 0) + _attributes(os.lstat(path) if node != 1 else os.stat(path))
        if opcode == READLINK:
            return os.fsencode(os.readlink(path))
        if opcode in (OPEN, OPENDIR):
            flags = os.O_RDONLY if opcode == OPEN else os.O_RDONLY | os.O_DIRECTORY
            return struct.pack("<QII", os.open(path, flags), _KEEP_CACHE, 0)
        if opcode == READ:
            file, offset, size, *_ = _READ.unpack_from(body)
            return os.pread(file, size, offset)
        if opcode == READDIR:
            file, offset, size, *_ = _READ.unpack_from(body)
            return _entries(path, offset, size)
        if opcode in (RELEASE, RELEASEDIR):
            os.close(struct.unpack_from("<Q", body)[0])
            return b""
        if opcode == STATFS:
            return _STATFS.pack(*[0] * 5, 4096, 255, 4096, 0, *[0] * 6)
        if opcode in (FLUSH, ACCESS):
            return b""
        raise OSError(errno.ENOSYS, "")

    def _init(self, body: bytes) -> bytes:
        _, minor, ahead, flags = struct.unpack_from("<4I", body)
        flags &= _ASYNC_READ | _PARALLEL_DIROPS | _MAX_PAGES
        return _INIT.pack(7, min(minor, 31), ahead, flags, 64, 48, 1 << 20, 1, _PAGES, 0, 0, *[0] * 7)

    def _lookup(self, parent: str, name: str) -> bytes:
        path = os.path.join(parent, name)
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return _ENTRY.pack(0, 0, _NAMES, 0, 0, 0) + bytes(_ATTR.size)
        with self._lock:
            number = self._numbers.setdefault(path, len(self._numbers) + 2)
            self._paths[number] = path
        return _ENTRY.pack(number, 0, _NAMES, _ATTRIBUTES, 0, 0) + _attributes(status)


def _attributes(status: os.stat_result) -> bytes:
    times = [int(value) for value in (status.st_atime, status.st_mtime, status.st_ctime)]
    fractions = [value % 10**9 for value in (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)]
    return _ATTR.pack(
        status.st_ino, status.st_size, status.st_blocks, *times, *fractions, status.st_mode, status.st_nlink,
        status.st_uid, status.st_gid, 0, 4096, 0,
    )  # fmt: skip


def _entries(path: str, offset: int, size: int) -> bytes:
    found = b""
    for number, name in enumerate(sorted(os.listdir(path))[offset:], offset + 1):
        data = os.fsencode(name)
        kind = stat.S_IFMT(os.lstat(os.path.join(path, name)).st_mode) >> 12
        entry = _DIRENT.pack(number + 1, number, len(data), kind) + data
        entry += bytes(-len(entry) % 8)
        if len(found) + len(entry) > size:
            break
        found += entry
    return found


def serve(share: Share, device: int) -> None:
    """One of several threads: each takes a request at a time."""
    while True:
        try:
            data = os.read(device, (1 << 20) + 4096)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                continue
            return  # unmounted
        _, opcode, unique, node, *_ = _IN.unpack_from(data)
        code, answer = 0, b""
        try:
            answer = share.answer(opcode, node, data[_IN.size :])
        except OSError as error:
            code = -(error.errno or errno.EIO)
        if opcode not in _SILENT:
            try:
                os.write(device, _OUT.pack(_OUT.size + len(answer), code, unique) + answer)
            except OSError:
                pass  # it was interrupted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--delay-ms", type=float, default=1.0)
    parser.add_argument("--readers", type=int, default=16)
    options = parser.parse_args()
    target = os.fsencode(os.path.realpath(options.directory))
    share = Share(os.open(target, os.O_RDONLY | os.O_DIRECTORY), options.delay_ms / 1e3)
    device = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    settings = b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=1048576" % device
    if libc.mount(b"slow", target, b"fuse.slow", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, settings):
        sys.exit("mount: %s" % os.strerror(ctypes.get_errno()))
    for _ in range(options.readers):
        threading.Thread(target=serve, args=(share, device), daemon=True).start()
    print("mounted", flush=True)
    sys.stdin.read()
    libc.umount2(target, _DETACH)
    print("requests %d" % share.requests, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
