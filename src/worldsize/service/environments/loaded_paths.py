"""Paths that the ranks of a plan execute or load by a name of this machine, which other nodes must check."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from worldsize.environment.activation import Activation, paths_in_variables, with_interpreters
from worldsize.plan.plan import Plan
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.service.environments.lookup import Environment
from worldsize.trust.secrets import mask_text, mask_values


def paths_of_environment(
    plan: Plan, path: tuple[str, ...], environment: Environment | None, found: Activation | None
) -> tuple[str, ...]:
    """Return the absolute paths, on this machine, of directories and files that the ranks of `plan` load from their
    `environment` with the activation `found`, regardless of their command. `path` are the directories that decide what
    `python` means without an environment."""
    secrets = plan_secret_values(plan)
    first = path if found is None else found.path if found.prefix else (*found.path, *path)
    of_environment = (*with_interpreters(first), *(found.loaded_paths(secrets) if found is not None else ()))
    if environment is not None and environment.archive and environment.prefix and not plan.setup:
        own = environment.prefix + os.sep  # each node unpacks it; lines of setup would use its old path
        of_environment = tuple(each for each in of_environment if not each.startswith(own))
    return of_environment


def paths_named_in_plan(plan: Plan) -> tuple[str, ...]:
    """Return the paths of this machine that the plan's command and variables name: the command's first word, if it is
    an absolute path, and the paths in variables such as PATH and PYTHONPATH that the job sets. Variables with secrets
    are left out."""
    secrets = plan_secret_values(plan)
    told = {name: value for name, value in plan.environment.items() if name not in plan.secrets}
    variables = {name: value for name, value in told.items() if _is_plain(value, secrets)}
    return (*filter(os.path.isabs, plan.argv[:1]), *paths_in_variables(variables))


def without_secrets(names: Iterable[str], secrets: Collection[str]) -> tuple[str, ...]:
    """Return the absolute paths among `names`, each once, without those that contain one of `secrets` or look like they
    contain one. A scheduler keeps the paths, and plan.json contains them."""
    found = dict.fromkeys(filter(os.path.isabs, names))
    return tuple(each for each in found if _is_plain(each, secrets))


def _is_plain(text: str, secrets: Collection[str]) -> bool:
    return bool(mask_text(mask_values(text, secrets)) == text)
