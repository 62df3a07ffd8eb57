"""The words that an expression depends on. There are far too many rather than too few, because rules use them to report
nothing in doubtful cases."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.wings.checks.script.reading.flow import Flow
from worldsize.wings.checks.script.reading.index import Binding, Parameter, Unknown

_RANK = (
    r"(?i)rank|world_?size|world$|proc_?id|process_?(id|index)|is_?(main|master|primary|chief|root|leader|head|first|zero|writer)"
    r"|main_?proc|master|chief|primary|leader|hvd|horovod|hostname|getpid|uuid|node_?(id|name)|comm\b|local_?process"
)
_MOST_WORDS = 3000
_MOST_STEPS = 1000
_ENDS = ("parse_args", "parse_known_args", "ArgumentParser", "getLogger", "parse_args_and_config")


def plain_words(node: ast.AST) -> Iterator[str]:
    """Yield the names, attributes, keywords and string literals that occur in an expression of the script."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.keyword) and part.arg:
            yield part.arg
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def names_rank(word: str) -> bool:
    """Return whether a word of the script, such as `local_rank` or `is_main`, may identify this rank, process or
    node."""
    return re.search(_RANK, word) is not None


def mentions_rank(words: set[str]) -> bool:
    """Return whether one of these words of the script may identify this rank, process or node."""
    return any(names_rank(word) for word in words)


def words_behind(flow: Flow, node: ast.AST) -> set[str]:
    """Return the words that an expression in the script depends on: its own, and those of everything that its names are
    bound to anywhere: assignments in every scope, values that callers pass, and the bodies of the script's own
    functions that it calls."""
    index, found, waiting, steps = flow.index, set[str](), [node], 0
    while waiting and len(found) < _MOST_WORDS and steps < _MOST_STEPS:
        steps += 1
        for word in set(plain_words(waiting.pop())) - found:
            found.add(word)
            for function in index.functions.get(word, ()):
                found |= index.uses[function]
            for binding in index.named.get(word, ())[:50]:
                waiting += _behind(flow, binding)
    return found


def _behind(flow: Flow, binding: Binding) -> list[ast.AST]:
    if isinstance(binding, Parameter):
        places = [flow.index.parents.get(place) for place in flow.index.references[binding.function.name][:50]]
        classes = flow.index.classes_of.get(binding.function)
        if classes is not None and binding.function.name == "__init__":
            places += [flow.index.parents.get(place) for place in flow.index.references[classes.name][:50]]
        calls = [place for place in places if isinstance(place, ast.Call)]
        default = [each for each in (*binding.function.args.defaults, *binding.function.args.kw_defaults) if each]
        return [part for call in calls for part in (*call.args, *call.keywords)] + list(default)
    value = binding.of if isinstance(binding, Unknown) else binding
    if isinstance(value, ast.Call) and flow.index.last_name(value.func) in _ENDS:
        return []
    return [value]
