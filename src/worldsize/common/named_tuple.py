"""Definitions of `NamedTuple`, `Protocol`, `cast`, `overload` and names for annotations, as in typing, without an
import of typing.

typing takes 3 ms to import, and 0.1 ms for each class, since it compiles a method for each. An agent has two dozen such
classes, and every rank waits for its start. Type checkers see typing's own definitions.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import NamedTuple as NamedTuple
    from typing import NoReturn as NoReturn
    from typing import Protocol as Protocol
    from typing import TextIO as TextIO
    from typing import TypeAlias as TypeAlias
    from typing import cast as cast
    from typing import overload as overload
else:
    from collections import _tuplegetter  # the descriptor with which namedtuple reads its fields

    Any = NoReturn = Protocol = TextIO = TypeAlias = object

    def cast(kind, value):
        return value

    def overload(function):
        return function

    class _Signature:
        """The signature of a named tuple's class that `inspect.signature` returns. It is made when it is read."""

        def __get__(self, value, kind):
            from inspect import Parameter, Signature

            kinds, defaults = getattr(kind, "__annotations__", {}), kind._field_defaults
            return Signature(
                [
                    Parameter(
                        name,
                        Parameter.POSITIONAL_OR_KEYWORD,
                        default=defaults.get(name, Parameter.empty),
                        annotation=kinds.get(name, Parameter.empty),
                    )
                    for name in kind._fields
                ]
            )

    class _Value(tuple):
        """The base of all named tuples. It constructs, compares, prints, pickles and changes a copy, as typing's
        does."""

        __slots__ = ()
        __signature__ = _Signature()

        def __new__(cls, *given, **named):
            if named or len(given) != len(cls._fields):
                given = _ordered_values(cls, given, named)
            return tuple.__new__(cls, given)

        def _replace(self, **changes):
            values = tuple(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"Got unexpected field names: {list(changes)!r}")
            return tuple.__new__(type(self), values)

        def _asdict(self):
            return dict(zip(self._fields, self))

        def __repr__(self):
            pairs = ("{}={!r}".format(*pair) for pair in zip(self._fields, self))
            return f"{type(self).__name__}({', '.join(pairs)})"

        def __getnewargs__(self):
            return tuple(self)

    def _ordered_values(cls, given, named):
        """Return the values of all fields of the named tuple class `cls` in the order of the fields, from the
        positional (`given`) and keyword (`named`) arguments and the defaults. Raise TypeError if there are too many, if
        a name is unknown, or if a value is missing."""
        fields, defaults = cls._fields, cls._field_defaults
        if len(given) > len(fields):
            raise TypeError(f"{cls.__name__} takes {len(fields)} values, not {len(given)}")
        values = list(given)
        for name in fields[len(given) :]:
            if name in named:
                values.append(named.pop(name))
            elif name in defaults:
                values.append(defaults[name])
            else:
                raise TypeError(f"{cls.__name__} lacks a value for {name!r}")
        if named:
            raise TypeError(f"{cls.__name__} does not take {', '.join(map(repr, named))}")
        return values

    def _names(namespace):
        """Return the annotated names in the `namespace` of a class body, in their order, which are the fields of a
        named tuple.

        From Python 3.14 on, a body without `from __future__ import annotations` has a function for them (PEP 749).
        annotationlib, which is slow to import, calls it without failing for names that are not defined yet.
        """
        if "__annotations__" in namespace or sys.version_info < (3, 14):
            return tuple(namespace.get("__annotations__", ()))
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        if annotate is None:
            return ()
        return tuple(annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF))

    class _Fields(type):
        def __new__(kind, name, bases, namespace):
            if not bases:
                return type.__new__(kind, name, bases, namespace)
            fields = _names(namespace)
            namespace["_field_defaults"] = {field: namespace.pop(field) for field in fields if field in namespace}
            namespace["_fields"] = namespace["__match_args__"] = fields
            namespace["__slots__"] = ()
            for index, field in enumerate(fields):
                namespace[field] = _tuplegetter(index, None)
            return type.__new__(type, name, (_Value,), namespace)

    class NamedTuple(metaclass=_Fields):
        pass
