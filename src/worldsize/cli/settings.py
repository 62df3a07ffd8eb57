"""The verbs config and completion, which concern worldsize itself rather than a run."""

from __future__ import annotations

import argparse

from worldsize.cli.console import add_output_option, load_current_config
from worldsize.cli.output import show, show_document, show_json
from worldsize.cli.table import table
from worldsize.errors import UsageError
from worldsize.jobspec.config.config import Config, ForbiddenRule
from worldsize.jobspec.reading.tree import plain_value

_EXAMPLES = {
    "config": """examples:
  worldsize config show --origin                every value with the file or variable that set it
  worldsize config trust worldsize.toml         this project's file may decide what is executed, as it is now
  worldsize config trust /shared/envs           so may every user who can write to that directory
  worldsize config trust                        list the decisions; --remove PATH withdraws one""",
    "completion": """examples:
  eval "$(worldsize completion bash)"           in ~/.bashrc; zsh alike
  worldsize completion fish > ~/.config/fish/completions/worldsize.fish""",
}


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES[verb]
    if verb == "config":
        what = (
            "show: print the configuration in force; trust: files and directories that other users could have written"
        )
        parser.add_argument("what", choices=("show", "trust"), help=what)
        parser.add_argument(
            "path",
            nargs="*",
            metavar="PATH",
            help="with trust: the paths to trust; without paths, list what is trusted",
        )
        parser.add_argument("--origin", action="store_true", help="show: print where each value comes from")
        parser.add_argument("--remove", action="append", metavar="PATH", help="trust: withdraw a decision")
        add_output_option(parser)
        parser.set_defaults(act=run_config_action)
    else:
        parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="whose script to print")
        parser.set_defaults(act=show_completion)


def run_config_action(options: argparse.Namespace) -> int:
    if options.what == "trust":
        from worldsize.cli.trust import trust

        return trust(options)
    if options.path or options.remove:
        raise UsageError("show takes no paths", "worldsize config", "worldsize config trust PATH")
    settings = _settings(load_current_config())
    if options.output == "json":
        show_json({key: {"value": value, "origin": origin} for key, (value, origin) in settings.items()})
    elif options.origin:
        rows = [[key, str(value), origin] for key, (value, origin) in settings.items()]
        show(*table(rows, ["KEY", "VALUE", "ORIGIN"]))
    else:
        show(*(f"{key} = {value}" for key, (value, _) in settings.items()))
    return 0


def _settings(config: Config) -> dict[str, tuple[object, str]]:
    """Return the configuration as `config show` prints it: a mapping from each dotted key to its value and its origin
    (file, variable or "default"). Secrets are masked."""
    values: dict[str, object] = {"home": config.home, "default_compute": config.default_compute}
    for name, compute in config.computes.items():
        fields = {**compute._asdict(), **compute.options}
        for key in ("name", "options"):
            fields.pop(key)
        said = {f"compute.{name}.{key}": value for key, value in fields.items() if value not in (None, ())}
        values.update({key: value for key, value in said.items() if value is not False or key in config.origins})
    if config.envs_dir:
        values["envs_dir"] = config.envs_dir
    if config.notify:
        values["notify"] = config.notify
    tables = {"conda": config.conda, "environment": config.environments, "environment_map": config.environment_map}
    tables.update({f"azure.{table}": entries for table, entries in config.azure.items()})
    tables["defaults"] = {key: plain_value(node) for key, node in config.defaults.items()}
    tables["forbidden"] = {str(number): _rule_text(rule) for number, rule in enumerate(config.forbidden, 1)}
    for prefix, entries in tables.items():
        values.update({f"{prefix}.{key}": value for key, value in entries.items()})
    from worldsize.trust.secrets import mask_tree

    values = {key: mask_tree(value, key.rpartition(".")[2]) for key, value in values.items()}
    origins = {f"forbidden.{number}": rule.where for number, rule in enumerate(config.forbidden, 1)}
    origins.update(config.origins)
    return {key: (value, origins.get(key, "default")) for key, value in values.items()}


def _rule_text(rule: ForbiddenRule) -> str:
    values = " = " + ", ".join(rule.values) if rule.values else ""
    computes = " on " + ", ".join(rule.computes) if rule.computes else ""
    return f"{rule.key}{values}{computes}: {rule.why}"


def show_completion(options: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    show_document(shellcode(["worldsize"], shell=options.shell) + "\n")  # nosec B604  # the name of a shell
    return 0
