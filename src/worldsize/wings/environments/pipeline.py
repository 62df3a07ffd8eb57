"""The construction of an environment in its prefix: conda first, then pip, then compiled packages, then a check of the
result."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from worldsize.common.atomic_files import write_json, write_text
from worldsize.common.named_tuple import Any
from worldsize.environment.activation import expand_variables
from worldsize.environment.existing import inspect_prefix
from worldsize.errors import BuildError
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.service.environments.lookup import Recipe
from worldsize.trust.directories import make_private_directory
from worldsize.trust.secrets import MASK, mask_text, mask_tree, mask_values, secret_values
from worldsize.version import VERSION
from worldsize.wings.environments.conda import packages
from worldsize.wings.environments.inspect.installed import (
    InstalledDistribution,
    find_clobbered,
    installed_distributions,
    mask_addresses,
    package_set_digest,
    read_file_stamps,
    refuse_clobbered,
    site_packages,
)
from worldsize.wings.environments.inspect.machine import platform, tools_from_conda
from worldsize.wings.environments.native.steps import StepRunner, check_prerequisites
from worldsize.wings.environments.pip import install
from worldsize.wings.environments.pip.requirements import referenced_variables
from worldsize.wings.environments.pip.uv import Uv, make_layer, make_venv
from worldsize.wings.environments.sources import LOCK_FORMAT, masked_lock_variables, non_default_fields
from worldsize.wings.environments.workspace.builder import Build
from worldsize.wings.environments.workspace.programs import environ_after_modules, execute, without_active_environment

_MIN_LINE_LENGTH = 8
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def make_environment(work: Build, recipe: Recipe, steps: StepRunner) -> dict[str, Any]:
    """Make the environment of `recipe` in `work.prefix`, and return its description. `steps` executes the build steps.
    Raise BuildError; StorageError for a cache that other users can write to, since its compiled and downloaded files
    are installed."""
    _refuse_masked(recipe)
    work.secrets = secrets_of_build(recipe.spec, recipe.environ, recipe.secrets, recipe.lock)
    make_private_directory(recipe.cache)
    environ = environ_after_modules(work, recipe.spec.modules, without_active_environment(recipe.environ))
    if recipe.spec.build_on == "login":
        check_prerequisites(recipe.spec, environ, tools_from_conda(recipe.spec.conda))
    project = recipe.spec.file
    uv = Uv(work, environ, os.path.dirname(project) if project else None)
    rows = _install_interpreter(work, uv, recipe)
    before, stamps = installed_distributions(work.prefix), read_file_stamps(work.prefix)
    pip_rows = _install_pip_packages(work, uv, recipe, before)
    done = _run_native_steps(work, recipe, environ, steps)
    found = find_clobbered(work.prefix, stamps, install.added_distributions(work.prefix, before))
    refuse_clobbered(found, recipe.spec.clobber)
    if rows and not pip_rows:
        _compile_bytecode(work, environ)
    mask_addresses(work.prefix, "lib/python*/site-packages/*.dist-info/direct_url.json", work.mask)
    mark_externally_managed(work.prefix)
    install.remove_inputs(work)
    more = {"clobbered": [each._asdict() for each in found], "steps": done}
    return {**_description(work, recipe, rows, _with_compiled(work, pip_rows, before)), **more}


def _refuse_masked(recipe: Recipe) -> None:
    """Raise BuildError if the recipe comes from a lock whose build steps or downloads held a secret, since `***` would
    be used in its place."""
    if recipe.lock is None:
        return
    hidden = [step.title for step in recipe.spec.steps if MASK in json.dumps(step._asdict())]
    hidden += [mask_text(fetch.url) for fetch in recipe.spec.fetch if MASK in json.dumps(fetch._asdict())]
    if hidden:
        what = f"the lock does not contain the secret that was part of: {hidden[0]}"
        raise BuildError(what, None, "let the step read a variable that is set where it is built, and lock again")


def _run_native_steps(
    work: Build, recipe: Recipe, environ: Mapping[str, str], steps: StepRunner
) -> list[dict[str, Any]]:
    spec = recipe.spec
    if spec.fetch:
        from worldsize.wings.environments.native.sources import fetch_downloads

        fetch_downloads(work, spec.fetch, recipe.cache, environ)
    return steps(work, spec, environ, recipe.cache) if spec.steps else []


def _with_compiled(
    work: Build, rows: list[dict[str, Any]], before: Sequence[InstalledDistribution]
) -> list[dict[str, Any]]:
    """Return `rows`, which describe the packages that pip installed, and also rows of the packages that build steps
    installed. The latter are marked as built here, since no index has them."""
    known = {row["name"] for row in rows}
    return rows + [
        {
            "name": each.name,
            "version": each.version,
            "digest": each.digest,
            "url": each.url,
            "hashes": [],
            "built": True,
        }
        for each in install.added_distributions(work.prefix, before)
        if each.name not in known
    ]


def _install_interpreter(work: Build, uv: Uv, recipe: Recipe) -> list[dict[str, Any]]:
    """Install the base of the environment that is being built: conda's packages, or a virtual environment. Return the
    rows that describe conda's packages; empty for a virtual environment."""
    spec, lock = recipe.spec, recipe.lock
    if recipe.is_conda:
        cache = packages.ensure_cache_directory(recipe.cache, recipe.environ, recipe.channels, recipe.alias)
        source = packages.PackageSource(recipe.channels, recipe.alias, recipe.virtual, cache)
        specs = packages.with_python(spec.conda, spec.version)
        found = packages.install(
            work, source, specs, recipe.environ, _require_usable_rows(lock["conda"]) if lock else None
        )
        return packages.with_masked_addresses(found)
    if recipe.existing:
        make_layer(uv, work.prefix, recipe.existing)
    else:
        assert recipe.base is not None
        make_venv(uv, work.prefix, recipe.base, asked=spec.version is not None or spec.file is None)
    return []


def _require_usable_rows(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the rows of conda packages in a lock unchanged. Raise BuildError for a lock of another platform, and for
    one whose addresses held a password, since the lock does not contain it."""
    foreign = sorted({str(row["subdir"]) for row in rows if row.get("subdir")} - {"noarch", platform()})
    if foreign:
        what = f"the lock has conda packages for {', '.join(foreign)}, and this machine is {platform()}"
        raise BuildError(what, None, "lock its source again on such a machine: worldsize env lock")
    hidden = [row["name"] for row in rows if MASK in row["url"]]
    if hidden:
        what = f"the lock does not contain the password of the channel of {hidden[0]}"
        raise BuildError(what, None, "keep it in rattler's own credentials, not in the channel's address; lock again")
    return rows


def _install_pip_packages(
    work: Build, uv: Uv, recipe: Recipe, before: Sequence[InstalledDistribution]
) -> list[dict[str, Any]]:
    if recipe.lock is not None:
        work.report_step(f"pip: {len(recipe.lock['pip'])} packages of the lock")
        install.install_locked(work, uv, recipe.lock)
        return install.with_installed_digests(recipe.lock, install.added_distributions(work.prefix, before))
    lines = install.requirements_of(recipe.spec, work, uv)
    if not lines:
        return []
    work.report_step("pip")
    if recipe.existing:
        install.install_layer(work, uv, lines, recipe.existing.python, installed_distributions(recipe.existing.prefix))
    else:
        install.install_lines(work, uv, lines, before)
    return install.make_lock_rows(
        work, uv, install.added_distributions(work.prefix, before), install.index_options(lines)
    )


def _compile_bytecode(work: Build, environ: Mapping[str, str]) -> None:
    """Compile the bytecode of the packages that conda installed. Otherwise each of many ranks would write it. A failure
    is ignored, since files for other Pythons do not compile, which does no harm."""
    work.report_step("compiling bytecode")
    words = ("-m", "compileall", "-q", "-j", "0", site_packages(work.prefix) or "")
    execute(work, [os.path.join(work.prefix, "bin", "python"), *words], environ, "compileall")


def mark_externally_managed(prefix: str) -> None:
    """Write the mark files into the conda environment `prefix` that prevent conda and pip from changes to it, so that
    it continues to match its description. A virtual environment gets no such mark."""
    if not os.path.isdir(os.path.join(prefix, "conda-meta")):
        return
    what = "built by worldsize: list all of its packages, and rebuild it"
    write_json(os.path.join(prefix, "conda-meta", "frozen"), {"message": what})
    library = os.path.dirname(site_packages(prefix) or "")
    if library:
        write_text(os.path.join(library, "EXTERNALLY-MANAGED"), f"[externally-managed]\nError={what}\n")


def _description(
    work: Build, recipe: Recipe, conda: list[dict[str, Any]], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    found = inspect_prefix(work.prefix)
    if found is None:
        raise BuildError("it has no bin/python after the build", work.prefix)
    spec, secrets = recipe.spec, work.secrets
    return {
        "format": LOCK_FORMAT,
        "worldsize": VERSION,
        "name": spec.name,
        "kind": found.kind,
        "prefix": work.prefix,
        "fingerprint": recipe.fingerprint,
        "digest": package_set_digest(conda, rows),
        "platform": platform(),
        "python": "{}.{}".format(*found.version) if found.version else None,
        "base": os.path.realpath(found.python) if found.kind == "venv" else None,
        "upon": recipe.existing.prefix if recipe.existing else None,
        "spec": mask_tree(mask_values(non_default_fields(spec), secrets), sparing=True),
        "options": [mask_text(each) for each in mask_values(install.index_options(spec.pip), secrets)],
        "conda": conda,
        "pip": [{**row, "url": mask_values(row.get("url"), secrets)} for row in rows],
    }


def secrets_of_build(
    spec: EnvironmentSpec, environ: Mapping[str, str], named: Collection[str], lock: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the secret values that no output or record of an environment's build may contain, and each line of values
    with several lines. They are the values of variables in `named`, and those of variables with a secret's name that
    requirements, their files, variables or steps set or read from `environ`. Values that are too short to be recognised
    are left out."""
    asked = referenced_variables([*spec.pip, *([spec.file] if spec.file else [])])
    texts = [*spec.variables.values()]
    for step in spec.steps:
        texts += [*step.pip, *step.options, *step.variables.values(), *([step.run] if step.run else [])]
    asked.update(match[1] or match[2] for text in texts for match in _VARIABLE.finditer(text))
    asked.update(named, masked_lock_variables(lock) if lock else ())
    known = {**environ, **spec.variables}
    tables: list[Mapping[str, str]] = [{name: environ[name] for name in asked if name in environ}]
    for table in (spec.variables, *(step.variables for step in spec.steps)):
        tables += [table, {name: expand_variables(value, known) for name, value in table.items()}]
    return _with_lines(value for table in tables for value in secret_values(table, named))


def _with_lines(values: Iterable[str]) -> list[str]:
    """Return the secret values, and each line of those with several lines, since a program's output is masked line by
    line. Short lines are left out."""
    found = list(dict.fromkeys(values))
    lines = [line.strip() for value in found if "\n" in value for line in value.split("\n")]
    return list(dict.fromkeys([*found, *(line for line in lines if len(line) >= _MIN_LINE_LENGTH)]))
