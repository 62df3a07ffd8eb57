"""`make demo` or `make test` as on a machine that nobody has set up: `python -m scripts.environments.bare_root`.

The machine is a root directory of a Debian or Ubuntu with make, Python and git only, made by debootstrap and kept in
the cache beside the environments. Each run copies it, clones the committed state of this checkout into the home of root
or of an ordinary user there, and runs make with nothing of this machine's environment but how packages are reached:
pip's configuration, the folders that it names, proxies and certificates. This needs root, and the network.

Exit code: that of make; 2 if this machine cannot make such a root, or the arguments are wrong.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from scripts.environments.cache import cache_directory, obtain
from scripts.environments.recipes import ROOT
from scripts.environments.roots import CERTIFICATES, NotPossible

SYSTEMS = {
    "debian-12": ("Debian", "bookworm"),
    "debian-13": ("Debian", "trixie"),
    "ubuntu-24.04": ("Ubuntu", "noble"),
}
"""The distribution and the release of each bare root."""

SCRIPT = "scripts/environments/make-bare-root.sh"
ENTER = "scripts/environments/enter-bare-root.sh"
INPUTS = (SCRIPT, "scripts/environments/bootstrap.sh")
"""What decides what is in a root."""

USER = "stranger"
"""The ordinary user of a bare root."""

PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH in a bare root."""

NOT_OPTIONS = ("config-file", "target", "prefix", "root", "user", "cache-dir", "log", "python", "require-virtualenv")
"""What pip may be configured to do on this machine that says nothing about where packages come from."""


class Account(NamedTuple):
    """Who runs make in a bare root, and in which folder the checkout is."""

    name: str
    home: str

    @property
    def checkout(self) -> str:
        return self.home + "/worldsize"


ACCOUNTS = {"root": Account("root", "/root"), "user": Account(USER, "/home/" + USER)}


def obtain_root(system: str) -> str:
    """The root directory of this system, made unless it is in the cache. NotPossible: what this machine lacks."""
    digest = hashlib.sha256()
    for name in INPUTS:
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    path = os.path.join(cache_directory(), "roots", "%s-%s" % (system, digest.hexdigest()[:16]))
    obtain(path, lambda target: _build(system, target), _starts)
    return path


def _starts(root: str) -> bool:
    command = ["chroot", root, "python3", "-c", "import ensurepip, venv"]
    return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


def _build(system: str, target: str) -> None:
    say("a bare root of %s: 400 MB and a minute, once; its output in %s.log" % (system, target))
    os.makedirs(target)
    with open(target + ".log", "w+", encoding="utf-8", errors="replace") as log:
        code = subprocess.call(
            ["sh", SCRIPT, target, *SYSTEMS[system], USER],
            cwd=ROOT,
            env={**os.environ, "SEEN": ":".join(certificates(os.environ))},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        log.seek(0)
        last = log.read().strip().splitlines()[-1:]
    if code:
        raise NotPossible(last[0] if last else "%s failed with code %d" % (SCRIPT, code))


def pip_options(listing: str) -> dict[str, str]:
    """The variables that give pip the options which `pip config list` has printed."""
    found = {}
    for line in listing.splitlines():
        key, _, text = line.partition("=")
        scope, _, option = key.rpartition(".")
        if scope in ("global", "install", "download") and option not in NOT_OPTIONS:
            found["PIP_" + option.upper().replace("-", "_")] = " ".join(str(ast.literal_eval(text)).split())
    return found


def carried(environ: Mapping[str, str], listing: str, further: Sequence[str] = ()) -> dict[str, str]:
    """The variables of this machine that make sees in a bare root.

    They say how packages are reached; `further` names others.
    """
    left_out = {"PIP_" + option.upper().replace("-", "_") for option in NOT_OPTIONS}
    names = {*PROXIES, *(name.upper() for name in PROXIES), *CERTIFICATES, *further}
    names |= {name for name in environ if name.startswith("PIP_") and name not in left_out}
    return {**pip_options(listing), **{name: environ[name] for name in sorted(names) if environ.get(name)}}


def named_paths(variables: Mapping[str, str]) -> list[str]:
    """The files and folders of this machine that these variables name, as paths or as file:// addresses.

    A folder that is a package index counts with what lies beside it, since its pages name files by relative addresses.
    """
    found = []
    for text in variables.values():
        for word in text.split():
            path = os.path.dirname(unquote(urlsplit(word).path).rstrip("/")) if word.startswith("file://") else word
            if path.startswith("/") and path != "/" and os.path.exists(path) and path not in found:
                found.append(path)
    return found


def certificates(environ: Mapping[str, str]) -> list[str]:
    return named_paths({name: environ[name] for name in CERTIFICATES if environ.get(name)})


def make_command(account: Account, variables: Mapping[str, str], goal: Sequence[str]) -> list[str]:
    """What runs make as this account, with these variables and no others of this machine."""
    own = {"HOME": account.home, "USER": account.name, "LOGNAME": account.name, "SHELL": "/bin/bash", "PATH": PROGRAMS}
    words = ["%s=%s" % item for item in {**variables, **own}.items()]
    become = ["setpriv", "--reuid", account.name, "--regid", account.name, "--init-groups"]
    return ["env", "-i", *words, *become, "make", "-C", account.checkout, *goal]


def clone(root: str, account: Account) -> None:
    """Give the account a clone of this checkout's commit, in place of what it had. Root may clone what is a user's."""
    target = root + account.checkout
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as config:
        config.write("[safe]\n\tdirectory = *\n")
        config.flush()
        environ = {**os.environ, "GIT_CONFIG_GLOBAL": config.name}
        command = ["git", "clone", "--quiet", "--no-local", ROOT, target]
        subprocess.check_call(command, env=environ, stdin=subprocess.DEVNULL)
    subprocess.check_call(["chroot", root, "chown", "-R", "%s:" % account.name, account.checkout])


def run(root: str, account: Account, variables: Mapping[str, str], goal: Sequence[str]) -> int:
    """Run make in the root; its exit code. Prints the seconds that it took."""
    environ = {**os.environ, "SEEN": ":".join(named_paths(variables))}
    began = time.monotonic()
    code = subprocess.call(
        ["sh", ENTER, root, *make_command(account, variables, goal)], cwd=ROOT, env=environ, stdin=subprocess.DEVNULL
    )
    say("make %s as %s: exit code %d after %.0f s" % (" ".join(goal), account.name, code, time.monotonic() - began))
    return code


def say(text: str) -> None:
    print("==> %s" % text, flush=True)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.environments.bare_root", allow_abbrev=False)
    parser.add_argument("--system", choices=SYSTEMS, default="debian-12")
    parser.add_argument("--account", choices=ACCOUNTS, default="user")
    parser.add_argument("--folder", help="where the root is, and stays after the run; the default is removed")
    parser.add_argument("--variable", action="append", default=[], help="a variable of this machine that make sees too")
    parser.add_argument("goal", nargs="*", default=["demo"], help="what make is asked for")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    account = ACCOUNTS[options.account]
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], stdout=subprocess.PIPE, text=True, check=False
    ).stdout
    variables = carried(os.environ, listing, options.variable)
    try:
        source = obtain_root(options.system)
    except NotPossible as error:
        print("!!  no bare root of %s: %s" % (options.system, error), file=sys.stderr)
        return 2
    folder = os.path.abspath(options.folder or "%s.%d.run" % (source, os.getpid()))
    try:
        if not os.path.exists(folder):
            subprocess.check_call(["cp", "-a", "--reflink=auto", source, folder])
        clone(folder, account)
        return run(folder, account, variables, options.goal)
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
