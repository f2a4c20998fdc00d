"""docs/data.md as a stranger follows it on kind: the page's own files, entries and commands, one way after the other.

`make up DATA_DIR=…` is tests/e2e/test_main_job.py's, and a download needs a network. No export can be mounted here:
tests/e2e/test_nfs.py says what comes of that. The bucket is moto's, in the cluster.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.clusters.kind.config import MODELS
from tests.e2e import clones, pages
from tests.e2e.images import pulled
from tests.e2e.project import Project
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(reason="a cluster of its own, an image, five trainings")
STACK = "points"
MOTO = "moto[s3]==5.2.5\nflask==3.1.3\nflask-cors==6.0.5\n"
IN_MODELS = "claimed"
"""The folder below the models' that the test's claim is of: kind's nodes mount it."""


def of(heading: str, language: str) -> list[str]:
    return pages.of("data.md", heading, language)


def entries(heading: str) -> list[dict[str, Any]]:
    """The keys of a job that each YAML block below a heading has."""
    return [yaml.safe_load(each) for each in of(heading, "yaml")]


@pytest.fixture(scope="module")
def points(engine: Engine) -> Iterator[Project]:
    """The page's stack, with its two folders beside the clone. The image has the server of the bucket, too."""
    with clones.temporary("data") as clone:
        beside = clone.root.parent
        make, module = of("A folder", "python")
        (folder := beside / "points").mkdir()
        (beside / "make_points.py").write_text(make)
        subprocess.run([sys.executable, "../make_points.py"], cwd=folder, check=True)
        (project := beside / "my-project").mkdir()
        (project / "points.py").write_text(module)
        (bucket,) = of("S3", "python")
        (requirements,) = of("S3", "text")
        (project / "bucket.py").write_text(bucket)
        (project / "requirements.txt").write_text(f"{requirements}{MOTO}")
        made = Project(clone.root, clone.cluster, STACK)
        made.stack_file.write_text(of("A folder", "yaml")[0])
        made.configure({"trainstack:cluster": {"name": made.cluster}})
        with clones.standing(made):
            yield made


def trained(points: Project, **job: Any) -> str:
    """The id of the run that `make up` trains with these keys of the job: it has learnt the points."""
    if job:  # this takes the salt out of the stack file, by which encrypted values are read
        points.configure({"trainstack:job": job})
    lines = points.up()
    assert float(lines["accuracy"]) >= 0.9, "either half by chance"
    return str(points.get("pytorchjob", STACK)["metadata"]["labels"]["trainstack/run"])


def linked(points: Project) -> list[Path]:
    return sorted((points.root / "data").glob(f".folders/{STACK}/*"))


def mounted(points: Project) -> Any:
    """What the pods mount at /data."""
    (spec,) = {
        json.dumps(each["template"]["spec"])
        for each in points.get("pytorchjob", STACK)["spec"]["pytorchReplicaSpecs"].values()
    }
    volumes = {each["name"]: each for each in json.loads(spec)["volumes"]}
    (container,) = json.loads(spec)["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == "/data"]
    assert mount["readOnly"]
    return {key: value for key, value in volumes[mount["name"]].items() if key != "name"}


def test_the_files_are_called_as_they_say() -> None:
    named = [text.splitlines()[0] for heading in ("A folder", "S3") for text in of(heading, "python")]
    assert named == ["# make_points.py", "# points.py", "# bucket.py"]


def test_an_export_is_rendered(points: Project) -> None:
    (job,) = entries("An NFS export")
    before = points.stack_file.read_text()
    try:
        points.configure({"trainstack:job": job})
        done = points.make("review")
        assert done.returncode == 0, done.stdout
        rendered = (points.root / "stacks" / "rendered" / STACK).rglob("*.yaml")
        assert any(f"server: {job['data'][0]['nfs']['server']}" in each.read_text() for each in rendered)
    finally:
        points.stack_file.write_text(before)
        shutil.rmtree(points.root / "stacks" / "rendered" / STACK, ignore_errors=True)


def test_a_folder_of_this_machine_is_linked(points: Project) -> None:
    folder = points.root.parent / "points"
    first = trained(points)
    (target,) = linked(points)
    assert sorted(each.name for each in target.iterdir()) == ["test.csv", "train.csv"]
    assert (target / "train.csv").samefile(folder / "train.csv")
    assert mounted(points) == {"persistentVolumeClaim": {"claimName": target.name, "readOnly": True}}
    assert trained(points) == first, "nothing has changed"


def test_another_folder_and_another_file_replace_no_cluster(points: Project) -> None:
    nodes = points.get("nodes")["items"]
    (before,) = linked(points)
    other = points.root.parent / "other"
    shutil.copytree(points.root.parent / "points", other)
    data = [{"path": "/data", "folder": "../other"}]
    run = trained(points, data=data)
    (target,) = linked(points)
    assert target != before, "the links to the other folder have gone"
    assert (points.root.parent / "points" / "train.csv").exists()
    (other / "README").write_text("more")
    assert trained(points, data=data) == run
    assert (target / "README").samefile(other / "README")
    now = points.get("nodes")["items"]
    assert [each["metadata"]["uid"] for each in now] == [each["metadata"]["uid"] for each in nodes]


def test_a_folder_that_is_not_there_is_refused(points: Project) -> None:
    before = points.stack_file.read_text()
    points.configure({"trainstack:job": {"data": [{"path": "/data", "folder": "../nowhere"}]}})
    try:
        done = points.make("up")
        assert done.returncode != 0
        assert "trainstack:job.data[0].folder = '../nowhere'" in done.stdout
        assert "fix: there is no folder" in done.stdout
        assert "Traceback" not in done.stdout
    finally:
        points.stack_file.write_text(before)


def test_a_claim_of_others_is_mounted(points: Project) -> None:
    claim, _ = entries("A claim or a ConfigMap")
    shutil.copytree(points.root.parent / "points", points.models / IN_MODELS)
    name = claim["data"][0]["claim"]
    apply(points, *volume_and_claim(points, name))
    trained(points, **claim)
    assert mounted(points) == {"persistentVolumeClaim": {"claimName": name, "readOnly": True}}
    assert linked(points) == []
    assert points.get("pvc", name)["metadata"].get("labels") is None, "it is others'"


def test_a_config_map_is_mounted(points: Project) -> None:
    _, config_map = entries("A claim or a ConfigMap")
    (command,) = of("A claim or a ConfigMap", "console")
    points.run("bash", "-c", command)
    trained(points, **config_map)
    assert mounted(points)["configMap"]["name"] == config_map["data"][0]["configMap"]


def test_a_bucket_is_read(points: Project) -> None:
    (job,) = entries("S3")
    address = re.fullmatch(r"http://(\w+)\.(\w+)\.svc\.cluster\.local:(\d+)", job["env"]["AWS_ENDPOINT_URL"])
    assert address is not None
    service, namespace, port = address.groups()
    assert job["egress"] == [{"port": int(port), "namespace": namespace}]
    (command,) = of("A claim or a ConfigMap", "console")
    points.run("kubectl", "create", "namespace", namespace)
    points.run("bash", "-c", command.replace("--namespace kubeflow", f"--namespace {namespace}"))
    apply(points, *bucket(pulled(points, STACK), service, namespace, int(port)))
    ready = ("kubectl", "wait", "--for=condition=Ready", f"pod/{service}", "--timeout=300s")
    points.run(*ready, "--namespace", namespace)
    fill = (
        "import fsspec; s3 = fsspec.filesystem('s3'); s3.mkdir('points'); "
        "[s3.put(f'/points/{name}', f'points/{name}') for name in ('train.csv', 'test.csv')]"
    )
    points.run("kubectl", "exec", service, "--namespace", namespace, "--", "python3", "-c", fill)
    points.configure({"trainstack:job": job})
    (keys,) = of("S3", "console")
    points.run("bash", "-c", f"set -e\n{keys}")
    trained(points)
    pods = points.get("pods")["items"]
    (env,) = [
        each["spec"]["containers"][0]["env"]
        for each in pods
        if each["metadata"]["name"] == f"{STACK}-master-0"
    ]
    held = {each["name"]: each.get("valueFrom", {}) for each in env if each["name"].startswith("AWS_")}
    del held["AWS_ENDPOINT_URL"]
    assert len(held) == 2
    assert all("secretKeyRef" in each for each in held.values())


def apply(points: Project, *objects: dict[str, Any]) -> None:
    file = points.root.parent / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    points.run("kubectl", "apply", "--filename", str(file))


def volume_and_claim(points: Project, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A claim that somebody else has made, on a folder of the node."""
    common = {"storageClassName": "others", "accessModes": ["ReadOnlyMany"]}
    size = {"storage": "1Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {**common, "capacity": size, "hostPath": {"path": f"{MODELS}/{IN_MODELS}"}},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "kubeflow"},
        "spec": {**common, "resources": {"requests": size}, "volumeName": name},
    }
    return volume, claim


def bucket(image: str, name: str, namespace: str, port: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """moto's server and its Service. The points are at /points, for whoever fills it."""
    variables = {
        "HOME": "/tmp",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    container = {
        "name": "moto",
        "image": image,
        "command": ["python3", "-m", "moto.server", "--host", "0.0.0.0", "--port", str(port)],
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "readinessProbe": {"httpGet": {"path": "/moto-api/", "port": port}, "timeoutSeconds": 10},
        "volumeMounts": [{"name": "points", "mountPath": "/points"}],
    }
    labels = {"app": name}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "points", "configMap": {"name": "points"}}],
            "securityContext": {"runAsUser": 1000},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": labels, "ports": [{"port": port}]},
    }
    return pod, service
