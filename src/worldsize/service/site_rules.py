"""The site's defaults and rules (`[defaults]` and `[[forbidden]]` of its file) for a job that is about to be planned.

They guide users and are no security boundary: a user can always call sbatch without worldsize.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.compute.base import CheckResult
from worldsize.jobspec.config.config import SITE, ComputeSettings, Config, ForbiddenRule
from worldsize.jobspec.config.site import normal_key, plain_text
from worldsize.jobspec.dump import job_tree
from worldsize.jobspec.job import Job
from worldsize.jobspec.keys.hpcpack import HPCPACK
from worldsize.jobspec.keys.slurm import SETUP, SLURM
from worldsize.jobspec.reading.set_option import with_values
from worldsize.jobspec.reading.tree import YamlNode, plain_value
from worldsize.service.computes import choose_compute, requested_compute
from worldsize.service.request import SubmissionRequest

_SAME = {"limits.timeout": "slurm.time", "slurm.time": "limits.timeout"}
"""Keys with the same meaning: a default of one has no effect if the other is set."""
_OF_EVERY_COMPUTE = {"grace": "grace", "preload": "preload", "gpus_per_node": "slurm.gpus_per_node"}
"""Keys of every compute's table that a job may also set, and the job's names for them."""
_OF_SCHEDULERS = {"slurm": SLURM, "hpcpack": HPCPACK}
_NO_OPTIONS: Mapping[str, str | None] = {"no-requeue": "false", "requeue": "true", "exclusive": "true"}
"""Options of sbatch without a value, and the value of the key of `slurm:` that has the same meaning."""


class _SetValue(NamedTuple):
    """The value of a job's key, a YAML path, that is set, and its place for messages. `by_site` is whether the site's
    file sets it."""

    key: str
    value: Any
    place: str
    by_site: bool = False


def with_site_rules(request: SubmissionRequest) -> tuple[SubmissionRequest, list[CheckResult]]:
    """Return `request` with the site's defaults in its job and its origins; and, in a dry run, a notice for each of
    them. Raise PreflightError if the site forbids a value of the job, with all such values; JobError if the job cannot
    have one of the defaults."""
    config = request.config
    settings = config.computes[choose_compute(config, request.compute, request.job.compute)]
    given = list(_set_values(request, settings))
    errors = [
        CheckResult("error", f"forbidden by {rule.where}: {rule.why}", each.place)
        for rule in config.forbidden
        for each in given
        if not each.by_site and _is_forbidden(rule, each, settings.name, config)
    ]
    if errors:
        from worldsize.service.submission.findings import problems_error

        raise problems_error(list(dict.fromkeys(errors)))
    values = _missing_defaults(request, settings, {each.key for each in given})
    if not values:
        return request, []
    places = {key: f"{node.where}: {key}" for key, node in values.items()}
    origins = request.origins._replace(options={**request.origins.options, **places})
    base = os.path.dirname(next(iter(values.values())).origin)
    notices = [
        CheckResult("notice", f"{plain_value(node)}, the site's default", places[key], id="configuration")
        for key, node in values.items()
        if request.dry
    ]
    return request._replace(job=with_values(request.job, values, base), origins=origins), notices


def _missing_defaults(request: SubmissionRequest, settings: ComputeSettings, given: set[str]) -> dict[str, YamlNode]:
    """Return those of the site's defaults, by YAML path, that apply to the job on this compute: neither the job nor the
    configuration sets them (`given`), and the compute has such keys."""
    others = [name for name in _OF_SCHEDULERS if name != settings.type]
    return {
        key: node
        for key, node in request.config.defaults.items()
        if key.partition(".")[0] not in others
        and not (request.job.batch_script is not None and key in SETUP)
        and not any(_overlap(each, normal_key(key)) or each == _SAME.get(key) for each in given)
    }


def _overlap(first: str, second: str) -> bool:
    return first == second or first.startswith(second + ".") or second.startswith(first + ".")


def _is_forbidden(rule: ForbiddenRule, given: _SetValue, name: str, config: Config) -> bool:
    if rule.computes and name not in rule.computes:
        return False
    if given.key != rule.key and not given.key.startswith(rule.key + "."):
        return False
    default = config.defaults.get(given.key)
    if default is not None and plain_value(default) == given.value:
        return False  # the job of a former run contains the site's defaults
    values = given.value if isinstance(given.value, (list, tuple)) else str(given.value).split(",")
    return not rule.values or any(plain_text(each) in rule.values for each in (given.value, *values))


def _set_values(request: SubmissionRequest, settings: ComputeSettings) -> Iterator[_SetValue]:
    """Yield each value of a job's key that the job, the command line, a batch script or the configuration sets; and the
    compute that was chosen."""
    job, origins, config = request.job, request.origins, request.config
    place = requested_compute(config, request.compute, job.compute)[1]
    by_default = place == config.default_origin
    by_site = by_default and config.files.get(config.origins["default_compute"]) == SITE
    place = "default_compute" if place == "default" else origins.of(place)
    yield _SetValue("compute", settings.name, place, by_site)
    given = dict(_leaves(job_tree(job), ""))
    for key in (*origins.options, *origins.lines):  # values that are the same as the job's own defaults, too
        value = _value_at(job, key)
        if key not in given and not (isinstance(value, Mapping) or hasattr(value, "_fields")):
            given[key] = value
    for key, value in given.items():
        if key != "compute":
            yield _SetValue(normal_key(key), value, origins.of(key))
    if job.batch_script is not None:
        yield from _script_values(job)
    yield from _configured_values(config, settings)


def _leaves(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _value_at(job: Job, key: str) -> Any:
    value: Any = job
    for step in key.split("."):
        value = value.get(step) if isinstance(value, Mapping) else getattr(value, step, None)
    return value


def _script_values(job: Job) -> Iterator[_SetValue]:
    """Yield the options of the job's batch script as the keys of `slurm:` with the same meaning."""
    from worldsize.jobspec.batch_script import script_reader
    from worldsize.service.submission.batch_script import script_check

    for name, value in script_reader().sbatch_options(job):
        place = script_check().option_origin(job, f"slurm.{name}")
        if place is not None:
            key = normal_key(f"slurm.sbatch_options.{name.removeprefix('no-') if name in _NO_OPTIONS else name}")
            yield _SetValue(key, value or _NO_OPTIONS.get(name), f"{place}: --{name}")


def _configured_values(config: Config, settings: ComputeSettings) -> Iterator[_SetValue]:
    """Yield the values of job keys that the configuration sets, for all jobs or for those of this compute."""
    table = f"compute.{settings.name}."
    own = _OF_SCHEDULERS.get(settings.type, {})
    keys = {table + key: name for key, name in _OF_EVERY_COMPUTE.items()}
    keys.update({table + key: f"{settings.type}.{key}" for key in own})
    keys.update({key: key for key in ("notify", "preload")} | {table + key: key for key in SETUP})
    fields = {**settings._asdict(), **settings.options}
    values = {**config._asdict(), **{table + key: value for key, value in fields.items()}}
    for key, name in keys.items():
        origin = config.origins.get(key)
        if origin is None:
            continue
        place = f"{config.places[key]}: {key}" if key in config.places else origin
        for path, value in _leaves({name: values[key]}, ""):
            yield _SetValue(normal_key(path), value, place, config.files.get(origin) == SITE)
