"""The only program that uses py-rattler. It solves, installs and queries channels, in a process of its own.

    python rattler_process.py < what-to-do.json

A separate process is needed since rattler leaves threads behind that a fork would copy, and that may outlive the
interpreter. The order is JSON on standard input, the result is JSON on standard output, and progress is written as
lines to standard error. The program imports nothing of worldsize. The exit code is 1 without py-rattler and for the
errors of `_ERRORS`; the result is {"error": KIND} then.
"""

from __future__ import annotations

import sys

from worldsize.common.named_tuple import Any

if __name__ == "__main__":
    del sys.path[0]  # the directory of this file, whose modules could shadow Python's

import asyncio
import datetime
import hashlib
import json
import os
import tempfile
from contextlib import suppress


def print_message(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def print_result(result: Any) -> None:
    sys.stdout.write(json.dumps(result))
    sys.stdout.flush()


try:
    import rattler
    from rattler import exceptions
except ImportError as missing:
    sys.stdin.read()  # otherwise its writer would get a broken pipe
    print_message(f"py-rattler cannot be imported: {missing}")
    print_result({"error": "no rattler"})
    sys.exit(1)

_ERRORS: dict[type[Exception], str] = {
    exceptions.InvalidMatchSpecError: "bad spec",
    exceptions.SolverError: "unsolvable",
    exceptions.GatewayError: "unreachable",
    exceptions.InstallerError: "not installed",
    exceptions.LinkError: "not installed",
    exceptions.TransactionError: "not installed",
    exceptions.FetchRepoDataError: "not installed",
    OSError: "not installed",
}
"""The kinds of errors: a spec is not valid, no packages fit together, a channel cannot be read, a package cannot be
fetched or linked."""

_RECORD_KEYS = (
    "name",
    "version",
    "build",
    "build_number",
    "subdir",
    "noarch",
    "depends",
    "constrains",
    "license",
    "timestamp",
)


async def execute_order(order: dict[str, Any]) -> Any:
    if order["do"] == "solve":
        return [_row(each) for each in await _solve(order)]
    if order["do"] == "known":
        return await _find_known(order)
    records = [_record(row) for row in order["rows"]] if order.get("rows") is not None else await _solve(order)
    await _install(order, records)
    return [_row(each) for each in records]


def _gateway(order: dict[str, Any]) -> Any:
    return rattler.Gateway(cache_dir=order["repodata"], client=_client())


def _client() -> Any:
    """Return rattler's HTTP client, which reads the credentials of rattler's own storage: RATTLER_AUTH_FILE, the
    keyring, netrc."""
    return rattler.Client.default_client()


def _channels(order: dict[str, Any]) -> list[Any]:
    config = rattler.ChannelConfig(order["alias"], "/") if order.get("alias") else rattler.ChannelConfig()
    return [rattler.Channel(name, config) for name in order["channels"]]


def _virtual_packages(order: dict[str, Any]) -> list[Any]:
    if order.get("virtual") is None:
        return list(rattler.VirtualPackage.detect())
    return [
        rattler.GenericVirtualPackage(rattler.PackageName(name), rattler.Version(version), rattler.BuildString(build))
        for name, version, build in order["virtual"]
    ]


def _spec(text: str) -> Any:
    try:
        return rattler.MatchSpec(text)
    except exceptions.InvalidMatchSpecError as error:
        raise exceptions.InvalidMatchSpecError(f"{text!r} is not a conda package: {error}") from None


async def _solve(order: dict[str, Any]) -> list[Any]:
    print_message(f"solving {len(order['specs'])} packages of {', '.join(order['shown'])}")
    return await rattler.solve(
        _channels(order),
        [_spec(text) for text in order["specs"]],
        gateway=_gateway(order),
        virtual_packages=_virtual_packages(order),
        timeout=datetime.timedelta(seconds=order["timeout"]),
    )


async def _find_known(order: dict[str, Any]) -> list[str]:
    """Return those conda specs of `order` for which a channel has a package."""
    specs = {text: _spec(text) for text in order["specs"]}
    platforms = [rattler.Subdir.current(), rattler.Subdir("noarch")]
    found = await _gateway(order).query(_channels(order), platforms, list(specs.values()), recursive=False)
    records = [record for of_channel in found for record in of_channel]
    return [text for text, spec in specs.items() if any(map(spec.matches, records))]


async def _install(order: dict[str, Any], records: list[Any]) -> None:
    await rattler.install(
        records,
        order["prefix"],
        cache_dir=order["packages"],
        execute_link_scripts=False,
        show_progress=False,
        client=_client(),
        reporter=_Reporter(len(records)),  # type: ignore[abstract]  # whose methods have bodies
    )
    _refuse_files_outside(order["prefix"])


def _refuse_files_outside(prefix: str) -> None:
    """Remove the files that conda packages have installed outside of the environment `prefix`, since rattler 0.28
    follows `..` in their names. Raise OSError if there was one."""
    directory = os.path.join(prefix, "conda-meta")
    for record in sorted(os.listdir(directory)):
        with open(os.path.join(directory, record), "rb") as file:
            data = file.read()
        if not record.endswith(".json") or b"../" not in data:
            continue
        rows = (json.loads(data).get("paths_data") or {}).get("paths") or ()
        outside = {row["_path"]: row.get("sha256") for row in rows if _is_outside(row["_path"], prefix)}
        for name, digest in outside.items():
            _remove_outside(os.path.join(prefix, name), digest)
        if outside:
            name = record[: -len(".json")]
            raise OSError(f"{name} has a file outside the environment: {next(iter(outside))}")


def _remove_outside(path: str, digest: str | None) -> None:
    """Remove the file `path` if its SHA-256 is `digest`, so that it is the package's and not one that existed before.
    If the removal fails, the file stays: the caller refuses the package in any case."""
    with suppress(OSError):
        with open(path, "rb") as file:
            own = hashlib.sha256(file.read()).hexdigest() == digest
        if own:
            os.unlink(path)
            os.removedirs(os.path.dirname(os.path.normpath(path)))


def _is_outside(name: str, prefix: str) -> bool:
    return not os.path.normpath(os.path.join(prefix, name)).startswith(os.path.normpath(prefix) + os.sep)


class _Reporter(rattler.InstallerReporter):
    """A reporter that prints downloads as they begin and links as they end. Downloads and links overlap."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = total
        self._linked = 0

    def on_populate_cache_start(self, operation: int, package_name: str) -> int:
        print_message(f"fetching {package_name}")
        return operation

    def on_link_complete(self, index: int) -> None:
        self._linked += 1
        print_message(f"linked {self._linked} of {self._total} packages")


def _row(record: Any) -> dict[str, Any]:
    """Return a mapping with the values of a conda package's record that are needed to install the package again."""
    found = {
        "name": record.name.normalized,
        "version": str(record.version),
        "build": str(record.build),
        "build_number": record.build_number,
        "subdir": str(record.subdir),
        "depends": list(record.depends),
        "constrains": list(record.constrains),
        "sha256": record.sha256.hex() if record.sha256 else None,
        "md5": record.md5.hex() if record.md5 else None,
        "size": record.size,
        "file_name": record.file_name,
        "url": record.url,
        "channel": record.channel,
    }
    noarch = record.noarch
    if noarch is not None and not noarch.none:
        found["noarch"] = "python" if noarch.python else "generic"
    return found


def _record(row: dict[str, Any]) -> Any:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({key: row[key] for key in _RECORD_KEYS if row.get(key) is not None}, file)
        file.flush()
        path: Any = file.name
        record = rattler.PackageRecord.from_index_json(path, row["size"], row["sha256"], row["md5"])
    return rattler.RepoDataRecord(record, row["file_name"], row["url"], row["channel"])


def main() -> int:
    try:
        print_result(asyncio.run(execute_order(json.load(sys.stdin))))
        return 0
    except tuple(_ERRORS) as error:
        print_message(str(error).strip())
        print_result({"error": next(kind for each, kind in _ERRORS.items() if isinstance(error, each))})
        return 1


if __name__ == "__main__":
    os._exit(main())  # rattler's threads may still hold objects of an interpreter that is being taken down
