"""Every committed rendering has the shape that the API server and the operator's CRD ask for."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import agreed
from infra.config import from_raw
from infra.config.operator import OperatorApi
from infra.review import folder, kubeconform
from infra.review.text import objects_in
from infra.upstream import vendored
from standins.tests.apiserver import ApiServer
from tests.e2e.waiting import wait_until
from tests.matrix.entries import QUEUE

JOBS = "rendered/dev/jobs/jobs.yaml"
JOB, CLAIM = (JOBS, "PyTorchJob"), ("rendered/dev/kept/kept.yaml", "PersistentVolumeClaim")
PATIENCE_S = 300


@pytest.fixture(scope="session")
def location(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where kubeconform finds the schemas of this API server and of the operator's CRD."""
    own = [
        kubeconform.schemas_of_crd(each)
        for each in vendored.objects("training-operator")
        if each["kind"] == "CustomResourceDefinition"
    ]
    found = kubeconform.schemas_of_server(document(api_server)) | {
        name: each for crd in own for name, each in crd.items()
    }
    return kubeconform.write_schemas(tmp_path_factory.mktemp("schemas"), found)


def document(server: ApiServer) -> dict[str, Any]:
    """The server's OpenAPI document, whole: the part that describes CRDs joins it some seconds after the start."""
    asked = ["kubectl", "--kubeconfig", str(server.kubeconfig), "get", "--raw", "/openapi/v2"]
    found: dict[str, Any] = {}

    def is_whole() -> bool:
        found.update(json.loads(subprocess.run(asked, check=True, capture_output=True).stdout))
        return any(name.endswith(".CustomResourceDefinition") for name in found["definitions"])

    wait_until("the document describes CRDs", is_whole, PATIENCE_S, pause=1)
    return found


def run_kubeconform(location: str, *files: Path) -> list[dict[str, Any]]:
    """What kubeconform says of each object; it is given these schemas alone, and so asks no network."""
    if shutil.which("kubeconform") is None:
        pytest.fail("not on PATH: kubeconform", pytrace=False)
    command = ["kubeconform", "-strict", "-verbose", "-output", "json", "-schema-location", location]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True)
    assert done.stdout, done.stderr
    return list(json.loads(done.stdout)["resources"])


def test_every_rendering_has_the_servers_shape(location: str) -> None:
    files = (folder.STACKS / folder.RENDERED).rglob("*.yaml")
    rendered = [path for path in files if folder.has_objects(path.name)]
    objects = [each for path in rendered for each in objects_in(path.read_text())]
    told = run_kubeconform(location, *rendered)
    assert len(told) == len(objects) > len(rendered) > 0
    assert [each["msg"] for each in told if each["status"] != "statusValid"] == []


def test_the_page_of_a_review_names_another_shape(
    api_server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the committed CRD, where the stack brings none."""
    (tmp_path / "openapi.json").write_text(json.dumps(document(api_server)))
    monkeypatch.setenv(agreed.OPENAPI, str(tmp_path / "openapi.json"))
    text = (folder.STACKS / JOBS).read_text()
    assert kubeconform.mismatches({JOBS: text}) == []
    (told,) = kubeconform.mismatches({JOBS: text.replace("imagePullPolicy", "imagePullPolice")})
    assert told.startswith(f"{JOBS}: PyTorchJob pytorch-simple: ")
    assert "imagePullPolice" in told


@pytest.mark.parametrize("api", OperatorApi)
def test_the_queues_of_a_stack_have_a_schema_too(
    api: OperatorApi, api_server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(document(api_server)))
    monkeypatch.setenv(agreed.OPENAPI, str(tmp_path / "openapi.json"))
    sections = {
        "operator": {"api": api, "queue": "kueue"},
        "cluster": {"queue": QUEUE},
        "job": {"name": "mnist"},
    }
    files = folder.files(from_raw("queued", sections, "stacks/Pulumi.queued.yaml"))
    rendered = {path: text for path, text in files.items() if folder.has_objects(path)}
    assert {"ResourceFlavor", "ClusterQueue", "LocalQueue", "WorkloadPriorityClass"} <= {
        each["kind"] for text in rendered.values() for each in objects_in(text)
    }
    assert kubeconform.mismatches(rendered) == []


def misspell(manifest: dict[str, Any]) -> None:
    manifest["spec"]["pytorchReplicaSpec"] = manifest["spec"].pop("pytorchReplicaSpecs")


def misspell_in_a_pod(manifest: dict[str, Any]) -> None:
    pod = manifest["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    pod["containers"][0]["imagePullPolice"] = "Always"


def give_text_for_a_number(manifest: dict[str, Any]) -> None:
    manifest["spec"]["runPolicy"]["backoffLimit"] = "three"


def give_a_list_for_a_mapping(manifest: dict[str, Any]) -> None:
    manifest["spec"]["resources"] = []


def ask_for_an_unknown_kind(manifest: dict[str, Any]) -> None:
    manifest["kind"] = "PersistentVolumeClam"


@pytest.mark.parametrize(
    ("rendered", "edit", "status"),
    [
        (JOB, misspell, "statusInvalid"),
        (JOB, misspell_in_a_pod, "statusInvalid"),
        (JOB, give_text_for_a_number, "statusInvalid"),
        (CLAIM, give_a_list_for_a_mapping, "statusInvalid"),
        (CLAIM, ask_for_an_unknown_kind, "statusError"),
    ],
)
def test_another_shape_is_refused(
    location: str,
    tmp_path: Path,
    rendered: tuple[str, str],
    edit: Callable[[dict[str, Any]], None],
    status: str,
) -> None:
    file, kind = rendered
    manifest = next(each for each in objects_in((folder.STACKS / file).read_text()) if each["kind"] == kind)
    edit(manifest)
    (tmp_path / "object.yaml").write_text(yaml.safe_dump(manifest))
    (told,) = run_kubeconform(location, tmp_path / "object.yaml")
    assert told["status"] == status, told
