"""The main job: what stands there after `make up`, and that a second one changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import testinfra
from prometheus_client.parser import text_string_to_metric_families
from testinfra.host import Host

from tests.e2e.project import Project
from tests.pictures import finished_run

ACCURACY_FLOOR = 0.95
PAGE = 55
"""Lines."""
LENET_PARAMETERS = 431_080


@pytest.fixture(scope="module")
def machine(project: Project, up: dict[str, str]) -> Iterator[Host]:
    """This machine, in the shell that `make env` gives."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in project.environment().items():
            patch.setenv(name, value)
        yield testinfra.get_host("local://")


@pytest.fixture(scope="module")
def node(machine: Host, project: Project) -> Host:
    return testinfra.get_host(f"docker://{project.cluster}-control-plane")


def resource(machine: Host, kind: str, name: str) -> dict[str, Any]:
    found = machine.check_output(f"kubectl get {kind} {name} --namespace kubeflow --output json")
    return dict(json.loads(found))


def condition(thing: dict[str, Any], name: str) -> str:
    states = {one["type"]: one["status"] for one in thing["status"]["conditions"]}
    return str(states.get(name, "absent"))


def test_the_node_runs_containerd_and_kubelet(node: Host) -> None:
    assert node.service("containerd").is_running
    assert node.service("kubelet").is_running


def test_the_node_is_ready(machine: Host, project: Project) -> None:
    assert condition(resource(machine, "node", f"{project.cluster}-control-plane"), "Ready") == "True"


def test_the_control_plane_starts_without_waiting(node: Host) -> None:
    """Without the patch of kubeadm's configuration, the node would be ready 5 s later."""
    options = {process.comm: process.args.split() for process in node.process.filter(user="root")}
    assert {"--leader-elect=false", "--kube-api-qps=200"} <= {*options["kube-controller"]}
    assert "--leader-elect=false" in options["kube-scheduler"]


def test_the_custom_resource_is_established(machine: Host) -> None:
    crd = resource(machine, "crd", "pytorchjobs.kubeflow.org")
    assert condition(crd, "Established") == "True"


def test_the_status_tells_prometheus_of_the_stack(machine: Host) -> None:
    told = machine.check_output("trainstack status --metrics")
    found = {family.name: family.samples for family in text_string_to_metric_families(told)}
    assert {each.labels["part"]: each.value for each in found["trainstack_part_up"]} == dict.fromkeys(
        ("engine", "cluster", "api_server", "operator", "volume", "space", "claim", "job", "drift", "owner"),
        1,
    )
    (state,) = [each.labels for each in found["trainstack_job_state"] if each.value]
    assert (state["job"], state["state"]) == ("pytorch-simple", "succeeded")
    (accuracy,) = found["trainstack_last_run_accuracy_ratio"]
    assert accuracy.value >= ACCURACY_FLOOR
    (size,), (free,) = found["trainstack_volume_size_bytes"], found["trainstack_volume_free_bytes"]
    assert 0 < free.value < size.value


def test_the_operator_is_available(machine: Host) -> None:
    operator = resource(machine, "deployment", "training-operator")
    assert condition(operator, "Available") == "True"
    assert operator["status"]["readyReplicas"] == 1


def test_the_operator_tells_prometheus_of_its_own_work(machine: Host) -> None:
    """At the port and path that docs/monitoring.md names."""
    (pod,) = machine.check_output(
        "kubectl get pods --namespace kubeflow --selector control-plane=kubeflow-training-operator "
        "--field-selector status.phase=Running --output name"
    ).split()
    place = f"/api/v1/namespaces/kubeflow/pods/{pod.removeprefix('pod/')}:8080/proxy/metrics"
    families = text_string_to_metric_families(machine.check_output(f"kubectl get --raw {place}"))
    (reconciled,) = [each.samples for each in families if each.name == "controller_runtime_reconcile"]
    jobs = [each.value for each in reconciled if each.labels["controller"] == "pytorchjob-controller"]
    assert sum(jobs) > 0


def test_the_operator_was_started_with_its_rights(project: Project, up: dict[str, str]) -> None:
    """Else it asks for them after ever longer pauses, minutes after an interrupted `up` was taken up."""
    exported = json.loads(project.run("pulumi", "stack", "export", "--stack", project.stack).stdout)
    resources = exported["deployment"]["resources"]
    (deployment,) = (each for each in resources if each["type"] == "kubernetes:apps/v1:Deployment")
    rights = {each["urn"] for each in resources if ":rbac.authorization.k8s.io/" in each["type"]}
    assert rights
    assert rights <= set(deployment["dependencies"])


def test_the_volume_is_bound_with_the_published_fields(machine: Host) -> None:
    volume = resource(machine, "pv", "trainstack-dev-models")
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["capacity"]["storage"] == "10Gi"
    assert volume["spec"]["accessModes"] == ["ReadWriteMany"]
    assert volume["spec"]["storageClassName"] == "manual"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_the_claim_selects_the_volume_and_is_bound_to_it(machine: Host) -> None:
    volume = resource(machine, "pv", "trainstack-dev-models")
    claim = resource(machine, "pvc", "trainstack-dev-models")
    assert claim["status"]["phase"] == "Bound"
    assert claim["spec"]["volumeName"] == "trainstack-dev-models"
    assert claim["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert claim["spec"]["selector"]["matchLabels"].items() <= volume["metadata"]["labels"].items()
    assert {"type", "name"} <= claim["spec"]["selector"]["matchLabels"].keys()


def test_the_models_folder_is_writable_for_group_zero(node: Host) -> None:
    folder = node.file("/var/lib/trainstack/models")
    assert folder.is_directory
    assert folder.gid == 0
    assert folder.mode & 0o020


def test_the_job_has_succeeded(machine: Host, up: dict[str, str]) -> None:
    job = resource(machine, "pytorchjob", up["job"].split()[0].rpartition("/")[2])
    assert condition(job, "Succeeded") == "True"
    assert job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] == 1
    assert job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 1


def test_both_replicas_ran(machine: Host, up: dict[str, str]) -> None:
    listed = machine.check_output(
        "kubectl get pods --namespace kubeflow --selector training.kubeflow.org/job-name --output json"
    )
    pods = {
        pod["metadata"]["labels"]["training.kubeflow.org/replica-type"]: pod["status"]["phase"]
        for pod in json.loads(listed)["items"]
    }
    assert pods == {"master": "Succeeded", "worker": "Succeeded"}


def test_the_model_is_a_plain_file_on_the_host(project: Project, up: dict[str, str]) -> None:
    model = project.root / up["model"]
    assert model.is_file()
    assert model.resolve() == (project.models / "mnist_cnn.pt").resolve()


def test_the_model_evaluated_anew_is_as_good_as_the_job_said(
    machine: Host, project: Project, up: dict[str, str], mnist: Path | None
) -> None:
    image = machine.check_output("docker images --quiet --filter label=trainstack.target=cpu").split()[0]
    data = ["--volume", f"{project.root}/data:/data:ro"] if mnist else []
    done = project.run(
        *("docker", "run", "--rm", "--network", "none", "--entrypoint", "python3"),
        *("--volume", f"{project.models}:/models:ro", *data),
        *("--volume", f"{Path(__file__).parent}/evaluate_model.py:/evaluate_model.py:ro"),
        *(image, "/evaluate_model.py", "/models/mnist_cnn.pt", "/data" if mnist else "/datasets/digits"),
    )
    found = dict(pair.split("=") for pair in done.stdout.split())
    assert int(found["parameters"]) == LENET_PARAMETERS
    assert float(found["accuracy"]) == pytest.approx(float(up["accuracy"]), abs=5e-5)
    assert float(found["accuracy"]) >= ACCURACY_FLOOR


def test_the_run_has_a_report_a_card_and_an_origin(project: Project, up: dict[str, str]) -> None:
    (report,) = re.findall(r"^report: (.*)$", up["output"], re.MULTILINE)
    folder, accuracy = Path(report).parent, f"{float(up['accuracy']):.4f}"
    assert folder.parent == project.models / "runs"
    page = Path(report).read_text()
    assert f"<dd>{accuracy}</dd>" in page
    assert 1 <= page.count("<img ") <= 25
    assert page.count('<h2 id="timeline">') == 1
    assert f">{accuracy}</text>" in finished_run.drawn(finished_run.read(page)), "README shows such a picture"
    for pod in ("pytorch-simple-master-0", "pytorch-simple-worker-0"):
        told = re.findall(rf"<td>pod {pod}(?:, container pytorch)?</td><td>([^<]*)</td>", page)
        # The jobs that found the run finished, after tests that interrupt `make up`, are on it, too.
        assert [each for each in told if each != "deleted"][-4:] == [
            *("created", "scheduled", "started"),
            "ended: Completed, exit code 0",
        ]
    origin = json.loads((folder / "origin.json").read_text())
    assert origin["image"] == project.outputs()["imageDigest"]
    project.run("git", "cat-file", "-e", origin["commit"])
    assert page.count('<h2 id="origin">') == 1
    assert f"<td>{origin['commit']}</td>" in page
    assert f"<td>{origin['image']}</td>" in page
    assert f"value: {accuracy}" in (folder / "README.md").read_text()
    listed = project.make("models").stdout
    assert re.search(rf"models/{project.stack}/mnist_cnn.pt +{folder.name} .*{origin['commit'][:8]}", listed)


def test_stack_outputs_name_everything(project: Project, up: dict[str, str]) -> None:
    outputs = project.outputs()
    assert outputs["namespace"] == "kubeflow"
    assert outputs["jobStatus"] == "Succeeded"
    assert outputs["accuracy"] == pytest.approx(float(up["accuracy"]))
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", outputs["imageDigest"])
    assert "current-context" in outputs["kubeconfig"]


def test_the_kubeconfig_is_secret(project: Project, up: dict[str, str]) -> None:
    shown = project.run("pulumi", "stack", "output", "--json", "--stack", project.stack).stdout
    assert json.loads(shown)["kubeconfig"] == "[secret]"


def test_git_sees_no_change(project: Project, up: dict[str, str]) -> None:
    assert project.changed_files() == ""


@pytest.fixture
def others_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that leads Python to others' modules and to others' virtual environments."""
    for name in ("infra/__init__", "pulumi/__init__", "json", "yaml"):
        file = tmp_path / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text("raise SystemExit(__file__)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name in ("PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))


@pytest.mark.usefixtures("others_python")
def test_preview_finds_nothing_to_do(
    project: Project, up: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupted runs of tests/faults/test_interrupted.py have left nothing, either."""
    monkeypatch.setattr(project, "_environment", {})  # `make env` is asked in that shell
    project.run("pulumi", "preview", "--expect-no-changes", "--stack", project.stack)


def test_refresh_finds_no_drift(project: Project, up: dict[str, str]) -> None:
    done = project.run("pulumi", "refresh", "--yes", "--expect-no-changes", "--stack", project.stack)
    assert "unchanged" in done.stdout


@pytest.mark.usefixtures("others_python")
def test_up_again_changes_nothing_and_says_the_same(project: Project, up: dict[str, str]) -> None:
    again = project.up()
    changes = re.search(r"(\d+) unchanged", again["output"])
    assert changes, again["output"]
    for each in (up, again):
        assert len(each["output"].splitlines()) <= PAGE, each["output"]
    assert not re.search(r"\d+ (created|updated|replaced|deleted)\b", again["output"])
    assert {name: again[name] for name in ("job", "model", "accuracy", "loss")} == {
        name: up[name] for name in ("job", "model", "accuracy", "loss")
    }
