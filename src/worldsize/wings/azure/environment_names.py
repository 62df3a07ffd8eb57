"""How Azure's service calls environments, and the images in them. Pure."""

from __future__ import annotations

_LABEL = "/labels/"
_VERSION = "/versions/"


def name_spellings(name: str) -> list[str]:
    """How an environment of Azure's may be called in the configuration: as it is said; with and without azureml: and
    its version. A registry's address counts as NAME:VERSION or NAME@LABEL."""
    short = name
    if name.startswith("azureml://"):
        short = name.rstrip("/").rpartition("/environments/")[2].replace(_LABEL, "@").replace(_VERSION, ":")
    short = short.removeprefix("azureml:")
    bare = short.partition("@")[0].partition(":")[0]
    return list(dict.fromkeys((name, "azureml:" + short, short, "azureml:" + bare, bare)))


def image_spellings(image: str) -> list[str]:
    """How a container image may be called in the configuration: as it is said; without docker://, digest and tag."""
    plain = image.removeprefix("docker://").partition("@")[0]
    directory, slash, last = plain.rpartition("/")
    return list(dict.fromkeys((image, plain, directory + slash + last.partition(":")[0])))
