"""Names of environments of Azure's service, and of the images in them. Pure."""

from __future__ import annotations

_LABEL = "/labels/"
_VERSION = "/versions/"


def name_spellings(name: str) -> list[str]:
    """Return the names under which the table [environment_map] of the configuration may contain Azure's environment
    `name`: as it is written, and with and without azureml: and its version. A registry's address counts as NAME:VERSION
    or NAME@LABEL."""
    short = name
    if name.startswith("azureml://"):
        short = name.rstrip("/").rpartition("/environments/")[2].replace(_LABEL, "@").replace(_VERSION, ":")
    short = short.removeprefix("azureml:")
    bare = short.partition("@")[0].partition(":")[0]
    return list(dict.fromkeys((name, "azureml:" + short, short, "azureml:" + bare, bare)))


def image_spellings(image: str) -> list[str]:
    """Return the names under which the table [environment_map] of the configuration may contain the container image
    `image`: as it is written, without docker:// and digest, and also without its tag."""
    plain = image.removeprefix("docker://").partition("@")[0]
    directory, slash, last = plain.rpartition("/")
    return list(dict.fromkeys((image, plain, directory + slash + last.partition(":")[0])))
