"""Make the environments that the tests and the examples use: `python -m scripts.environments [NAME …]`.

Each lies in a cache outside of the checkout (WORLDSIZE_TEST_CACHE, else ~/.cache/worldsize-test), named by what it is
made from; the checkout's `.venv-NAME` is a link to it. `.venv` itself is a copy whose files are shared with the cache,
with this checkout's worldsize installed in it. What is missing is built, all at the same time.

Exit code: 1 if an environment could not be made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from scripts.environments.cache import cache_directory, clone, entry_path, obtain, remove_unused
from scripts.environments.pythons import choose
from scripts.environments.recipes import ON_REQUEST, RECIPES, ROOT, UNIT_TESTS, Recipe, client_requirements

PROGRESS_SECONDS = 20.0
NOT_POSSIBLE_HERE = 3
"""Exit code of a recipe's script that has said what this machine lacks."""

STAMPS = ("base", "torch", "extras", "test")
"""What a `.venv` from the cache holds, as the Makefile's targets know it."""


class Failed(Exception):
    """An environment could not be made; the message says which, and where its output is."""


def make(name: str, recipe: Recipe, cache: str) -> str | None:
    """Have the environment in the cache and in the checkout; what is lacking if this machine cannot make it."""
    python = choose(recipe.pythons)
    if python is None:
        return "needs Python %s to %s with its venv module" % (recipe.pythons[0], recipe.pythons[-1])
    path = entry_path(cache, name, recipe, python)
    began = time.monotonic()
    try:
        if obtain(path, lambda target: build(name, recipe, python, target, cache)):
            say("%s: made in %.0f s (%s)" % (name, time.monotonic() - began, recipe.size))
    except NotPossible as error:
        return str(error)
    if name == "main":
        install_client(path)
    else:
        link(path, os.path.join(ROOT, ".venv-" + name))
    return None


class NotPossible(Exception):
    """What this machine lacks for an environment."""


def build(name: str, recipe: Recipe, python: str, target: str, cache: str) -> None:
    """Make the environment at its final place, with all output in a log beside it."""
    say("%s: %s, its output in %s.log" % (name, recipe.size, target))
    with open(target + ".log", "w", encoding="utf-8") as log:
        for command in commands(recipe, python, target, cache):
            environ = {**os.environ, "PYTHON": python, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            code = subprocess.call(
                command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
            if code == NOT_POSSIBLE_HERE:
                raise NotPossible(last_lines(log.name, 1))
            if code:
                raise Failed("%s: `%s` failed with code %d:\n%s" % (name, command[0], code, last_lines(log.name, 40)))


def commands(recipe: Recipe, python: str, target: str, cache: str) -> list[list[str]]:
    if recipe.script:
        return [["sh", os.path.join("scripts", "environments", recipe.script), target, cache]]
    pip = [os.path.join(target, "bin", "python"), "-m", "pip", "install"]
    files = [word for name in recipe.requirements for word in ("--requirement", os.path.join("requirements", name))]
    found = [[python, "-m", "venv", target], [*pip, *files, *client_requirements(recipe)]]
    for name in recipe.without_dependencies:
        found.append([*pip, "--no-deps", "--requirement", os.path.join("requirements", name)])
    return found


def install_client(source: str) -> None:
    """Make `.venv` a copy of the cached environment with this checkout's worldsize in it, unless it is one already."""
    target = os.path.join(ROOT, ".venv")
    mark = os.path.join(target, ".environment")
    if os.path.exists(mark) and open(mark, encoding="utf-8").read() == source:
        return
    clone(source, target)
    python = os.path.join(target, "bin", "python")
    subprocess.check_call(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--editable", ROOT],
        stdin=subprocess.DEVNULL,
    )
    subprocess.check_call([python, "-m", "compileall", "-q", os.path.join(ROOT, "src", "worldsize")])
    for stamp in STAMPS:
        open(os.path.join(target, ".stamp-" + stamp), "w").close()
    with open(mark, "w", encoding="utf-8") as file:
        file.write(source)


def link(path: str, name: str) -> None:
    """Make `name` a link to an environment of the cache, whatever was there."""
    if os.path.islink(name) and os.readlink(name) == path:
        return
    if os.path.isdir(name) and not os.path.islink(name):
        shutil.rmtree(name)
    new = "%s.%d.new" % (name, os.getpid())
    os.symlink(path, new)
    os.replace(new, name)


def last_lines(path: str, count: int) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join(file.readlines()[-count:]).rstrip("\n")


def say(text: str) -> None:
    print("==> %s" % text, flush=True)


def go_without(name: str, lack: str) -> bool:
    """Say which tests will not run; whether that is acceptable: not under CI, and not for what was asked for."""
    print("!!  no .venv-%s: %s" % (name, lack), file=sys.stderr)
    if name in ON_REQUEST:
        return False
    print("!!      THE TESTS OF %s WILL BE SKIPPED" % name.upper(), file=sys.stderr, flush=True)
    return os.environ.get("CI", "").lower() not in ("1", "true", "yes")


def main(arguments: Sequence[str]) -> int:
    recipes = {**RECIPES, **UNIT_TESTS, **ON_REQUEST}
    unknown = [name for name in arguments if name not in recipes]
    if unknown:
        print("no such environment: %s; there are %s" % (unknown[0], ", ".join(recipes)), file=sys.stderr)
        return 2
    chosen = {name: recipes[name] for name in arguments or RECIPES}
    cache = cache_directory()
    began = time.monotonic()
    good = True
    with ThreadPoolExecutor(len(chosen)) as pool:
        names = {pool.submit(make, name, recipe, cache): name for name, recipe in chosen.items()}
        pending = set(names)
        while pending:
            done, pending = wait(pending, PROGRESS_SECONDS)
            if pending:
                waiting = ", ".join(sorted(names[each] for each in pending))
                say("%.0f s: waiting for %s" % (time.monotonic() - began, waiting))
            for each in done:
                good &= finished(names[each], each.exception(), None if each.exception() else each.result())
    for name in remove_unused(cache):
        say("removed from the cache, as nobody has used it for a month: %s" % name)
    return 0 if good else 1


def finished(name: str, error: BaseException | None, lack: str | None) -> bool:
    if error is not None:
        print("!!  %s" % error, file=sys.stderr, flush=True)
        return False
    return lack is None or go_without(name, lack)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
