"""The one program that uses py-rattler: it solves, installs and asks channels, as a process of its own.

    python rattler_process.py < what-to-do.json

A process, since rattler leaves threads behind that a fork would copy, and that may outlive the interpreter. What to do
is JSON on standard input, the result JSON on standard output, news are lines on standard error. It imports nothing of
worldsize. The exit code is one of the constants below.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    del sys.path[0]  # the directory of this file, whose modules could be taken for Python's

import json
import os
from contextlib import suppress
from typing import Any

UNSOLVABLE, UNREACHABLE, NOT_INSTALLED, BAD_SPEC, NO_RATTLER = 11, 12, 13, 14, 15
"""No packages fit together; a channel cannot be read; a package cannot be fetched or linked; a spec is none;
py-rattler is not here."""

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


class RattlerError(Exception):
    def __init__(self, code: int, what: str) -> None:
        super().__init__(what)
        self.code = code


def print_message(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


async def execute_order(order: dict[str, Any]) -> Any:
    if order["do"] == "solve":
        return [_row(each) for each in await _solve(order)]
    if order["do"] == "versions":
        return await _query_versions(order)
    records = [_record(row) for row in order["rows"]] if order.get("rows") is not None else await _solve(order)
    await _install(order, records)
    return [_row(each) for each in records]


def _gateway(order: dict[str, Any]) -> Any:
    from rattler import Gateway

    return Gateway(cache_dir=order["repodata"], client=_client())


def _client() -> Any:
    """One that knows the credentials of rattler's own storage: RATTLER_AUTH_FILE, the keyring, netrc."""
    from rattler import Client

    return Client.default_client()


def _channels(order: dict[str, Any]) -> list[Any]:
    from rattler import Channel, ChannelConfig

    config = ChannelConfig(order["alias"], "/") if order.get("alias") else ChannelConfig()
    return [Channel(name, config) for name in order["channels"]]


def _virtual_packages(order: dict[str, Any]) -> list[Any]:
    from rattler import BuildString, GenericVirtualPackage, PackageName, Version, VirtualPackage

    if order.get("virtual") is None:
        return list(VirtualPackage.detect())
    return [
        GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))
        for name, version, build in order["virtual"]
    ]


def _specs(order: dict[str, Any]) -> list[Any]:
    from rattler import MatchSpec
    from rattler.exceptions import InvalidMatchSpecError

    found = []
    for text in order["specs"]:
        try:
            found.append(MatchSpec(text))
        except InvalidMatchSpecError as error:
            raise RattlerError(BAD_SPEC, f"{text!r} is no conda package: {error}") from None
    return found


async def _solve(order: dict[str, Any]) -> list[Any]:
    import datetime

    from rattler import solve
    from rattler.exceptions import GatewayError, SolverError

    specs = _specs(order)
    print_message(f"solving {len(specs)} packages of {', '.join(order['shown'])}")
    try:
        return await solve(
            _channels(order),
            specs,
            gateway=_gateway(order),
            virtual_packages=_virtual_packages(order),
            timeout=datetime.timedelta(seconds=order["timeout"]),
        )
    except SolverError as error:
        raise RattlerError(UNSOLVABLE, str(error).strip()) from None
    except GatewayError as error:
        raise RattlerError(UNREACHABLE, str(error).strip()) from None


async def _query_versions(order: dict[str, Any]) -> dict[str, list[str]]:
    """The names of `specs` that a channel has anything for that fits, with the versions found."""
    from rattler import Subdir
    from rattler.exceptions import GatewayError

    specs = _specs(order)
    try:
        found = await _gateway(order).query(
            _channels(order), [Subdir.current(), Subdir("noarch")], specs, recursive=False
        )
    except GatewayError as error:
        raise RattlerError(UNREACHABLE, str(error).strip()) from None
    versions: dict[str, list[str]] = {}
    for records in found:
        for record in records:
            for text, spec in zip(order["specs"], specs, strict=True):
                if spec.matches(record):
                    versions.setdefault(text, []).append(str(record.version))
    return versions


async def _install(order: dict[str, Any], records: list[Any]) -> None:
    from rattler import install
    from rattler.exceptions import FetchRepoDataError, InstallerError, LinkError, TransactionError

    try:
        await install(
            records,
            order["prefix"],
            cache_dir=order["packages"],
            execute_link_scripts=False,
            show_progress=False,
            client=_client(),
            reporter=_reporter(len(records)),
        )
    except (InstallerError, LinkError, TransactionError, FetchRepoDataError, OSError) as error:
        raise RattlerError(NOT_INSTALLED, str(error).strip()) from None
    _refuse_files_outside(order["prefix"])


def _refuse_files_outside(prefix: str) -> None:
    """Rattler 0.28 follows `..` in the names of a package's files: what was laid outside goes again. Failed."""
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
            raise RattlerError(
                NOT_INSTALLED, f"{name} has a file that leads out of the environment: {next(iter(outside))}"
            )


def _remove_outside(path: str, digest: str | None) -> None:
    """Where it is the package's, and no file that was there before."""
    import hashlib

    with suppress(OSError):
        with open(path, "rb") as file:
            own = hashlib.sha256(file.read()).hexdigest() == digest
        if own:
            os.unlink(path)
            os.removedirs(os.path.dirname(os.path.normpath(path)))


def _is_outside(name: str, prefix: str) -> bool:
    return not os.path.normpath(os.path.join(prefix, name)).startswith(os.path.normpath(prefix) + os.sep)


def _reporter(total: int) -> Any:
    from rattler import InstallerReporter

    class Reporter(InstallerReporter):
        """Downloads and links are told as they begin and end; they overlap."""

        linked = 0

        def on_populate_cache_start(self, operation: int, package_name: str) -> int:
            print_message(f"fetching {package_name}")
            return operation

        def on_link_complete(self, index: int) -> None:
            self.linked += 1
            print_message(f"linked {self.linked} of {total} packages")

    return Reporter()  # type: ignore[abstract]  # whose methods have bodies


def _row(record: Any) -> dict[str, Any]:
    """What of a record is needed to install it again."""
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
    import tempfile

    from rattler import PackageRecord, RepoDataRecord

    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({key: row[key] for key in _RECORD_KEYS if row.get(key) is not None}, file)
        file.flush()
        record = PackageRecord.from_index_json(file.name, row["size"], row["sha256"], row["md5"])  # type: ignore[arg-type]
    return RepoDataRecord(record, row["file_name"], row["url"], row["channel"])


def main() -> int:
    import asyncio

    order = json.load(sys.stdin)
    try:
        import rattler  # noqa: F401
    except ImportError as error:
        print_message(f"py-rattler cannot be imported: {error}")
        return NO_RATTLER
    try:
        result = asyncio.run(execute_order(order))
    except RattlerError as error:
        print_message(str(error))
        return error.code
    sys.stdout.write(json.dumps(result))
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    os._exit(main())  # rattler's threads may still hold objects of an interpreter that is being taken down
