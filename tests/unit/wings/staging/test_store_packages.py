"""What an input's address needs: the package of its scheme, and the extra or the package to install."""

from __future__ import annotations

import pytest

from worldsize.wings.staging.object_stores import find_missing_support

fsspec = pytest.importorskip("fsspec")

ACCOUNT = "://data@account.blob.core.windows.net/a"


@pytest.mark.parametrize(
    ("uri", "package", "hint"),
    [
        ("abfss://data@account.dfs.core.windows.net/a", "adlfs", "pip install 'worldsize[data]'"),
        ("abfs://data@account.dfs.core.windows.net/a", "adlfs", "pip install 'worldsize[data]'"),
        ("wasbs" + ACCOUNT, "adlfs", "pip install 'worldsize[data]'"),
        ("wasb" + ACCOUNT, "adlfs", "pip install 'worldsize[data]'"),
        ("s3://bucket/a", "s3fs", "pip install 'worldsize[s3]'"),
        ("s3a://bucket/a", "s3fs", "pip install 'worldsize[s3]'"),
        ("gs://bucket/a", "gcsfs", "pip install 'worldsize[gs]'"),
        ("gcs://bucket/a", "gcsfs", "pip install 'worldsize[gs]'"),
    ],
)
def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, uri: str, package: str, hint: str) -> None:
    def without(protocol: str) -> None:
        raise ImportError("Install something")

    monkeypatch.setattr(fsspec, "get_filesystem_class", without)
    lacks = find_missing_support(uri)
    assert lacks is not None and lacks.hint == hint
    assert lacks.what.startswith("reading %s:// needs %s, which is not installed" % (uri.partition(":")[0], package))


@pytest.mark.parametrize(
    ("uri", "what", "hint"),
    [
        ("wasbs://data/a", "wasbs:// needs a container and an account", "write abfss://CONTAINER@ACCOUNT.dfs"),
        ("abfsss://data@account/a", "fsspec does not know abfsss://", "did you mean abfss://?"),
        ("gopher://host/x", "fsspec does not know gopher://", "download it"),
    ],
)
def test_a_scheme_that_is_wrong(uri: str, what: str, hint: str) -> None:
    lacks = find_missing_support(uri)
    assert lacks is not None and lacks.what == what and str(lacks.hint).startswith(hint)


def test_each_spelling_of_azures_storage_is_read() -> None:
    pytest.importorskip("adlfs")
    for scheme in ("wasb", "wasbs"):
        assert find_missing_support(scheme + ACCOUNT) is None
    for scheme in ("abfs", "abfss"):
        assert find_missing_support(scheme + "://data@account.dfs.core.windows.net/a") is None
