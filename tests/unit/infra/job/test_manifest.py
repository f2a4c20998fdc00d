"""The PyTorchJob as a function of the configuration."""

from __future__ import annotations

import re
from typing import Any

import pytest

from infra import paths
from infra.config import from_file
from infra.config.job import JobConfig
from infra.config.training import Dataset
from infra.config.variables import STACKS_OWN
from infra.job import trainjob
from infra.job.context import context
from infra.job.manifest import manifest, run_of
from infra.job.pod import command_line
from infra.objects.labels import RUN
from tests.unit.infra.samples import IMAGE, JOB, job_context, stack
from trainer import options


def built(given: dict[str, Any] | None = None, **place: Any) -> dict[str, Any]:
    return manifest(stack(job=given or JOB).jobs[0], job_context(**place))


def pod(job: dict[str, Any], replica: str = "Master") -> dict[str, Any]:
    template: dict[str, Any] = job["spec"]["pytorchReplicaSpecs"][replica]["template"]
    return template


def container(job: dict[str, Any], replica: str = "Master") -> dict[str, Any]:
    found: dict[str, Any] = pod(job, replica)["spec"]["containers"][0]
    return found


def environment(job: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container(job)["env"]}


def test_without_a_command_the_options_are_args_of_two_words() -> None:
    job = built({"name": "x", "training": {"epochs": 15, "seed": 7, "logInterval": 256}})
    assert "command" not in container(job), "the image's entry point does the rest"
    assert container(job)["args"] == ["--epochs", "15", "--seed", "7", "--log-interval", "256"]


@pytest.mark.parametrize(
    ("dataset", "epochs"), [(Dataset.DIGITS, "--epochs=12"), (Dataset.MNIST, "--epochs=1")]
)
def test_only_digits_take_their_own_number_of_epochs(dataset: Dataset, epochs: str) -> None:
    command, _ = command_line(stack().jobs[0], dataset)
    assert command[-1] == epochs


@pytest.mark.parametrize(
    ("limits", "given"),
    [
        ({"number": 3}, {"TRAINER_KEEP_RUNS": "3"}),
        ({"days": 0}, {"TRAINER_KEEP_DAYS": "0"}),
        ({"number": 3, "days": 30}, {"TRAINER_KEEP_RUNS": "3", "TRAINER_KEEP_DAYS": "30"}),
    ],
)
def test_the_trainer_is_told_which_runs_stay(limits: dict[str, int], given: dict[str, str]) -> None:
    known = stack(job=JOB, storage={"keepRuns": limits})
    job = manifest(known.jobs[0], context(known, IMAGE, None))
    assert {name: value for name, value in environment(job).items() if "KEEP" in name} == given
    taken = options.parse([], given)
    assert (taken.keep_runs, taken.keep_days) == (limits.get("number"), limits.get("days"))
    assert not [name for name in environment(built()) if "KEEP" in name], "without a limit nothing changes"


def test_each_variable_of_ours_is_the_stacks_own_or_may_be_set_by_hand() -> None:
    by_hand = {"TRAINER_DATA_DIR", "TRAINER_DATASET", "TRAINER_KEEP_RUNS", "TRAINER_KEEP_DAYS"}
    storage = {"keepRuns": {"number": 3, "days": 30}}

    def set_for(job: dict[str, Any]) -> dict[str, str]:
        known = stack(job=job, storage=storage)
        return environment(manifest(known.jobs[0], context(known, IMAGE, Dataset.DIGITS)))

    assert set_for({**JOB, "runId": "pytorch-simple-00000000"}).keys() == STACKS_OWN.keys() | by_hand
    chosen = dict.fromkeys(by_hand, "x")
    assert set_for({**JOB, "env": chosen}).items() >= chosen.items()


DISK = "ephemeral-storage"


@pytest.mark.parametrize(
    ("given", "limits", "requests"),
    [
        ({"gpu": 1}, {"nvidia.com/gpu": "1"}, {}),
        ({"gpu": 2, "gpuResource": "amd.com/gpu"}, {"amd.com/gpu": "2"}, {}),
        ({"gpuResource": "amd.com/gpu"}, {}, {}),
        ({"nvidia.com/mig-1g.5gb": 1, "gpu": 1}, {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "1"}, {}),
        ({DISK: "8Gi", "requests": {DISK: "4Gi"}}, {DISK: "8Gi"}, {DISK: "4Gi"}),
        ({"requests": {DISK: "4Gi"}}, {}, {DISK: "4Gi"}),
        ({"hugepages-2Mi": "64Mi"}, {"hugepages-2Mi": "64Mi"}, {}),
    ],
)
def test_resources_of_every_name(given: Any, limits: Any, requests: Any) -> None:
    job, context = JobConfig.model_validate({"name": "x", "resources": given}), job_context()
    pods = [each["template"] for each in manifest(job, context)["spec"]["pytorchReplicaSpecs"].values()]
    (replicated,) = trainjob.runtime(job, context)["spec"]["template"]["spec"]["replicatedJobs"]
    pods.append(replicated["template"]["spec"]["template"])
    for pod in pods:
        assert pod["spec"]["containers"][0]["resources"] == {
            "limits": {"cpu": "1", "memory": "2Gi", **limits},
            "requests": {"cpu": "250m", "memory": "512Mi", **requests},
        }


def test_nccl_takes_gpus_of_another_name() -> None:
    resources = {"gpu": 1, "gpuResource": "amd.com/gpu"}
    assert built({"name": "x", "training": {"backend": "nccl"}, "resources": resources})


@pytest.mark.parametrize("replica", ["Master", "Worker"])
def test_a_pod_template_is_merged_over_ours(replica: str) -> None:
    """Its containers, volumes, mounts and variables are found by name; what it leaves out stays."""
    sidecar = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
    own: dict[str, Any] = {"name": "pytorch", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}
    own |= {"resources": {"limits": {"amd.com/gpu": "1"}}}
    own |= {"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
    spec: dict[str, Any] = {"containers": [own], "initContainers": [sidecar], "serviceAccountName": "reader"}
    sizes = {"shm": {"medium": "Memory", "sizeLimit": "1Gi"}, "tmp": {"sizeLimit": "5Gi"}}
    spec |= {"volumes": [{"name": name, "emptyDir": size} for name, size in sizes.items()]}
    metadata = {"annotations": {"a": "b"}, "labels": {"team": "vision"}}
    plain, job = built(), built({**JOB, "pod": {"metadata": metadata, "spec": spec}})
    before, after = pod(plain, replica), pod(job, replica)
    labels = {**before["metadata"]["labels"], "team": "vision"}
    assert after["metadata"]["labels"].items() >= labels.items() - {(RUN, run_of(plain))}
    assert after["metadata"]["annotations"] == {"a": "b"}
    assert (after["spec"]["initContainers"], after["spec"]["serviceAccountName"]) == ([sidecar], "reader")
    changed = {name for name in before["spec"] if before["spec"][name] != after["spec"][name]}
    assert changed == {"containers", "volumes"}
    volumes = {each["name"]: each for each in after["spec"]["volumes"]}
    assert volumes.keys() == {"models", "data", "tmp", "shm"}
    assert volumes["tmp"]["emptyDir"] == {"sizeLimit": "5Gi"}
    (ours,), (now,) = before["spec"]["containers"], after["spec"]["containers"]
    assert {name for name in ours if ours[name] != now[name]} == {"env", "resources", "volumeMounts"}
    assert {"name": "NCCL_DEBUG", "value": "INFO"} in now["env"]
    assert now["resources"]["limits"] == {**ours["resources"]["limits"], "amd.com/gpu": "1"}
    assert now["volumeMounts"] == [*ours["volumeMounts"], *own["volumeMounts"]]


@pytest.mark.parametrize("replica", ["Master", "Worker"])
def test_pods_end_after_the_jobs_deadline_so_that_the_operator_looks_at_it(replica: str) -> None:
    job = built({"name": "x", "runPolicy": {"activeDeadlineSeconds": 60}})
    assert 60 < pod(job, replica)["spec"]["activeDeadlineSeconds"] <= 62


@pytest.mark.parametrize(
    ("replicas", "policy"),
    [
        ({"master": None, "worker": 2}, {}),
        ({"master": None, "worker": 2}, {"minReplicas": 2}),
        ({"master": None, "worker": 2}, {"maxReplicas": 2}),
        ({"master": None, "worker": 2}, {"minReplicas": 1, "maxReplicas": 3}),
        ({"master": 1, "worker": 1}, {"maxReplicas": 2}),
        ({"master": None, "worker": 2}, {"minReplicas": 3, "maxReplicas": 4, "metrics": []}),
        ({"master": None, "worker": 2}, {"maxReplicas": 1, "metrics": []}),
    ],
)
def test_elastic_workers_that_can_meet_are_taken(
    replicas: dict[str, int | None], policy: dict[str, Any]
) -> None:
    job = built({"name": "x", "replicas": replicas, "elasticPolicy": policy})
    assert job["spec"]["elasticPolicy"].items() >= policy.items()


def test_an_elastic_job_has_workers_alone() -> None:
    policy = {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 5, "rdzvPort": 29400}
    replicas = {"master": None, "worker": 3}
    job = built({"name": "x", "replicas": replicas, "elasticPolicy": policy, "nprocPerNode": 2})
    assert list(job["spec"]["pytorchReplicaSpecs"]) == ["Worker"]
    assert job["spec"]["elasticPolicy"] == {**policy, "rdzvBackend": "c10d"}
    assert job["spec"]["nprocPerNode"] == "2"


def test_an_image_of_the_users_may_need_another_user_and_a_root_to_write_to() -> None:
    job = built({"name": "x", "user": 65534, "readOnlyRoot": False})
    assert pod(job)["spec"]["securityContext"]["runAsUser"] == 65534
    context = container(job)["securityContext"]
    assert not context["readOnlyRootFilesystem"]
    assert context["runAsNonRoot"], "all else of restricted stays"


@pytest.mark.parametrize("group", [0, 5000])
def test_the_pods_are_in_the_group_of_the_folder_and_in_that_of_the_image(group: int) -> None:
    known = stack(storage={"group": group})
    (job,) = known.jobs
    ours = pod(manifest(job, context(known, IMAGE, None)))["spec"]["securityContext"]
    assert ours["runAsGroup"] == 0
    assert ours.get("supplementalGroups", []) == [group] * bool(group)


def test_the_nccl_stack_as_committed_lets_the_users_image_write_and_asks_for_no_model() -> None:
    """The published program downloads its data beside itself, and leaves no model."""
    (job,) = from_file(paths.ROOT / "stacks" / "Pulumi.nccl.yaml").jobs
    assert not container(manifest(job, job_context()))["securityContext"]["readOnlyRootFilesystem"]
    assert job.model is None


def test_the_page_on_own_projects_tells_what_is_in_the_pod() -> None:
    """With both APIs: tests/unit/infra/job/test_trainjob.py holds their pods equal."""
    (found,) = stack(job={"name": "own", "data": [{"path": "/data", "claim": "images"}]}).jobs
    job = manifest(found, job_context())
    page = (paths.ROOT / "docs" / "own-project.md").read_text()
    _, _, table = page.partition("## In the pod")
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", table.partition("\n## ")[0], re.MULTILINE))
    assert [name for name in environment(job) if f"`{name}`" not in rows] == []
    spec, limits = pod(job)["spec"], container(job)["resources"]["limits"]
    sizes = {each["name"]: each["emptyDir"]["sizeLimit"] for each in spec["volumes"] if "emptyDir" in each}
    security = spec["securityContext"]
    told = {
        "`TRAINER_MODEL_DIR`": f"`{environment(job)['TRAINER_MODEL_DIR']}`",
        "user and groups": f"default {security['runAsUser']}, never 0; group {security['runAsGroup']};",
        "`/tmp`, `/dev/shm`": f"{sizes['tmp'].removesuffix('Gi')} GiB, 64 MiB;",
        "CPU and memory": f"{limits['cpu']} CPU and {limits['memory'].removesuffix('Gi')} GiB by default",
        "time": {3600: "an hour;"}[job["spec"]["runPolicy"]["activeDeadlineSeconds"]],
    }
    assert [row for row, text in told.items() if text not in rows[row]] == []
    assert {3: "After three restarts the job fails"}[job["spec"]["runPolicy"]["backoffLimit"]] in page
