"""What names of Azure's mean here: computes and data, as the configuration says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.errors import ConfigError, NotFound
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.job import Input, Job, Output
from worldsize.service.computes import choose_compute
from worldsize.wings.azure.mappings import data_location, reference_problem, with_mapped_data

DATA = {
    "cifar": "/data/cifar",
    "azureml:cifar:3": "https://host/cifar-3.zip",
    "best@prod": "/models/prod",
    "registries/shared/best": "/models/shared",
    "datastores/blob": "/mnt/blob/",
    "azureml://datastores/blob/paths/public": "https://account/container?sig=abc",
    "jobs/train-7/outputs/model": "/runs/7/model",
}
WORKSPACE = "subscriptions/s/resourcegroups/g/workspaces/w"
ASSET = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"


def load(root: Path, text: str) -> Config:
    (root / "project").mkdir()
    path = root / ".config" / "worldsize" / "worldsize.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    environ = {"HOME": str(root), "WORLDSIZE_SITE_CONFIG": str(root / "none")}
    return load_config(str(root / "project"), environ)


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("azureml:cifar:1", "/data/cifar"),
        ("azureml:cifar@latest", "/data/cifar"),
        ("azureml:cifar", "/data/cifar"),
        ("azureml:cifar:3", "https://host/cifar-3.zip"),
        ("azureml:best@prod", "/models/prod"),
        ("azureml:best:1", None),
        ("azureml:%s/data/cifar/versions/3" % ASSET, "https://host/cifar-3.zip"),
        ("azureml://locations/westeurope/workspaces/w/data/cifar/versions/9", "/data/cifar"),
        ("azureml://registries/shared/models/best/labels/prod", "/models/shared"),
        ("azureml://registries/other/models/best/labels/prod", "/models/prod"),
        ("azureml://registries/shared/data/none/versions/1", None),
        ("azureml://datastores/blob/paths/a/b.csv", "/mnt/blob/a/b.csv"),
        ("azureml://datastores/blob/paths//etc/passwd", "/mnt/blob/etc/passwd"),
        ("azureml://datastores/blob", "/mnt/blob/"),
        ("azureml://datastores/blob/paths/public/x", "https://account/container/x?sig=abc"),
        ("azureml://datastores/blob/paths/publications", "/mnt/blob/publications"),
        ("azureml://%s/datastores/blob/paths/a" % WORKSPACE, "/mnt/blob/a"),
        ("azureml://datastores/blob2/paths/a", None),
        ("azureml://datastores/blob/paths/../../etc", None),
        ("azureml://datastores/blob/paths/%2e%2E/etc", None),
        ("azureml://datastores/blob/paths/a\\..\\b", None),
        ("azureml://jobs/train-7/outputs/model", "/runs/7/model"),
        ("azureml:", None),
        ("https://host/cifar", None),
        ("/data/cifar:1", None),
    ],
)
def test_references(reference: str, found: str | None) -> None:
    assert data_location(reference, DATA) == found


@pytest.mark.parametrize(
    ("reference", "line"),
    [
        ("azureml:cifar:1", '"cifar:1" = "/a/path"'),
        ("azureml:cifar@latest", '"cifar@latest" = "/a/path"'),
        ("azureml://datastores/blob/paths/a/b", '"datastores/blob" = "/a/directory"'),
        ("azureml://%s/datastores/blob/paths/a" % WORKSPACE, '"datastores/blob" = "/a/directory"'),
        ("azureml://registries/r/data/d/versions/1", '"registries/r/d:1" = "/a/path"'),
        ("azureml://jobs/j/outputs/o", '"jobs/j/outputs/o" = "/a/path"'),
        ("azureml:", '"NAME" = "/a/path"'),
    ],
)
def test_what_is_not_mapped_names_the_line_to_add(reference: str, line: str) -> None:
    what, hint = reference_problem(reference)
    assert reference in what and line in hint
    key = line.split('"')[1]
    assert key == "NAME" or data_location(reference, {key: "/x"}) is not None


def test_what_leads_out_of_a_datastore_says_so() -> None:
    what, hint = reference_problem("azureml://datastores/blob/paths/a/../../b")
    assert "leads out" in what and "[azure.data]" not in hint


@settings(max_examples=cases(200))
@given(st.text("azureml:/.@%25e\\datsorpjbq -é\0", max_size=60))
def test_any_reference_stays_below_what_is_mapped(text: str) -> None:
    reference = "azureml:" + text
    found = data_location(reference, {"datastores/a": "/mnt/a", "a": "/mnt/a", "d": "/mnt/a"})
    assert found is None or ((found + "/").startswith("/mnt/a/") and ".." not in found.split("/"))
    assert all(reference_problem(reference))


def test_inputs_and_outputs_of_a_job() -> None:
    job = Job(
        "true",
        inputs={"a": Input(path="azureml:cifar:3"), "b": Input(path="azureml:none:1"), "c": "azureml:cifar:1", "d": 1},
        outputs={
            "a": Output(path="azureml://datastores/blob/paths/m"),
            "b": Output(path="azureml://datastores/blob/paths/public/m"),
            "c": Output(),
        },
    )
    mapped = with_mapped_data(job, DATA)
    assert mapped.inputs == {**job.inputs, "a": Input(path="https://host/cifar-3.zip")}
    assert mapped.outputs == {**job.outputs, "a": Output(path="/mnt/blob/m")}, "nothing is written to a URI"


def test_the_configurations_paths_start_at_its_directory(tmp_path: Path) -> None:
    config = load(tmp_path, '[azure.data]\n"a:1" = "blob/a"\n"b" = "https://h/b"\n[azure.computes]\ngpu = "local"\n')
    here = str(tmp_path / ".config" / "worldsize")
    assert config.azure == {"data": {"a:1": here + "/blob/a", "b": "https://h/b"}, "computes": {"gpu": "local"}}
    assert config.origins["azure.data.b"] == here + "/worldsize.toml"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[azure.date]\na = "b"\n', "azure.date: is not a key of azure; did you mean 'data'?"),
        ('azure = "b"\n', "azure: expected a mapping"),
        ('[azure]\ndata = "b"\n', "azure.data: expected a mapping"),
        ("[azure.data]\na = 1\n", "azure.data.a: expected text"),
        ('[azure.data]\na = ""\n', "azure.data.a: is empty"),
        ('[azure.data]\na = "azureml:b:1"\n', "azure.data.a: is another name of Azure"),
        ('[azure.computes]\na = "azureml:b"\n', "azure.computes.a: is another name of Azure"),
        ('[azure.data]\na = "http://[x"\n', "azure.data.a: is not a readable address"),
    ],
)
def test_mistakes_in_the_configuration(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert says.replace("; did", ": did") in str(caught.value).replace("\n  → ", ": ")


COMPUTES = {name: ComputeSettings(name) for name in ("local", "a100", "lab")}
TABLE = {"gpu-cluster": "a100", "azureml:cpu-cluster": "lab", "*": "lab"}
ADDRESS = "azureml:%s/computes/gpu-cluster" % ASSET


@pytest.mark.parametrize(
    ("said", "table", "chosen"),
    [
        ("azureml:gpu-cluster", {}, "local"),
        ("azureml:lab", {}, "lab"),
        ("azureml:local", {"*": "lab"}, "local"),
        ("azureml:gpu-cluster", TABLE, "a100"),
        ("gpu-cluster", TABLE, "a100"),
        ("cpu-cluster", TABLE, "lab"),
        ("azureml:other", TABLE, "lab"),
        ("azureml:*", TABLE, "lab"),
        (ADDRESS, TABLE, "a100"),
        (ADDRESS, {}, "local"),
        ("local", {"local": "a100"}, "a100"),
        (None, TABLE, "local"),
    ],
)
def test_computes(said: str | None, table: dict[str, str], chosen: str) -> None:
    config = Config(computes=COMPUTES, azure={"computes": table})
    assert choose_compute(config, None, said) == chosen
    assert choose_compute(config, "azureml:lab", said) == "lab", "the command line wins"


def test_a_bare_name_that_nobody_knows_is_a_slip_of_the_keyboard() -> None:
    config = Config(computes=COMPUTES, azure={"computes": TABLE})
    with pytest.raises(NotFound, match="there is no compute 'gpu'"):
        choose_compute(config, None, "gpu")
    with pytest.raises(NotFound, match="'a1'") as caught:
        choose_compute(config._replace(azure={"computes": {"gpu": "a1"}}), None, "azureml:gpu")
    assert caught.value.where == "azure.computes.gpu" and "a100" in (caught.value.hint or "")
    with pytest.raises(NotFound):
        choose_compute(config, "nope", "azureml:gpu-cluster")
