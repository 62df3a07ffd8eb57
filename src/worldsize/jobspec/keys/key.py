"""The description of one key of a job or of the configuration."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import NamedTuple


class Key(NamedTuple):
    """A key of a job or of the configuration.

    kind      "text"       text
              "as_text"    text, or a number or boolean used as the text in which it is written
              "path"       a local path, made absolute, or a URI
              "paths"      a list of local paths, made absolute
              "int" "number" "flag"
              "texts"      a list of texts
              "preload"    a list of modules' names, or a word
              "words"      text, or a list of texts
              "text_map"   a mapping of names to as_text
              "labels"     the same, and an empty value counts as empty text
              "any"        a mapping, kept unchanged
              "object"     a mapping with the keys of `keys`
              "objects"    a mapping of names to such mappings
              "records"    a list of such mappings
              "inputs" "outputs" "environment" "conda" "python" "requirements" "places" "build"
              "distribution" "matrix" "search": those values
              "wing"       a mapping that a wing reads
    choices   the only allowed texts, regardless of case
    minimum, maximum   inclusive; `above` exclusive
    blank     whether text may be empty
    quoted    whether text of digits counts as a whole number, and so does 2.0, as for Azure's client
    warned    for "as_text" and "labels": whether a number is kept as it is written, with a warning, since Azure's
              client refuses it
    harmless  for the configuration: whether a project's file may set it without being trusted, since it decides
              neither what is executed, nor what is read or written, nor where a secret is sent
    home      the module below `worldsize` of a "wing": its KEYS, and `read(node, path, key, report)`, as ValueReader
    """

    kind: str
    doc: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    blank: bool = True
    keys: Mapping[str, Key] = {}
    harmless: bool = False
    home: str = ""
    quoted: bool = False
    warned: bool = False


Keys = Mapping[str, Key]
