"""Which cluster a stack makes, as `toolchain/` asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import paths
from infra.config import from_file
from infra.config.cluster_access import ClusterAccess, access
from infra.config.errors import ConfigError
from infra.config.operator import OperatorApi

STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))


def stack_file(folder: Path, text: str) -> Path:
    file = folder / "Pulumi.dev.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.stem)
def test_says_of_each_stack_what_the_program_says(file: Path) -> None:
    stack = from_file(file)
    own = stack.cluster.kind != "existing"
    assert access(file) == ClusterAccess(
        cluster=stack.cluster_name if own else None,
        kubeconfig=str(paths.kubeconfig(stack.cluster_name)) if own else stack.cluster.kubeconfig,
        kind=stack.cluster.kind,
        context=stack.cluster.context,
        namespace=stack.cluster.namespace,
        operator_api=stack.operator.api,
        queue=stack.operator.queue,
        protected=False,
        is_named=False,
        models_are_here=stack.cluster.kind == "kind" and stack.storage.kind == "hostPath",
        claim=stack.claim,
        claim_may_wait=stack.claim_may_wait,
        uses_gpu_base=file.stem == "Pulumi.gpu",
        jobs_leave=False,
    )


JOB = "  trainstack:job:\n    name: mnist\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"config:\n{JOB}", "trainstack-dev"),
        ("config:\n  trainstack:cluster:\n    workers: 1\n    name: mine\n", "mine"),
        (f"config:\n  trainstack:cluster:\n    name: 'mine'\n{JOB}", "mine"),
        (f"config:\n  trainstack:cluster:\n    workers: 1\n{JOB}", "trainstack-dev"),
        ("config:\n  trainstack:cluster:\n    kind: existing\n", None),
        ("config:\n  trainstack:cluster: {kind: existing}\n", None),
        ("config:\n  trainstack:cluster: # of the company\n    kind: existing\n", None),
        ("config: {trainstack:cluster: {name: mine}}\n", "mine"),
        ("config:\n    trainstack:cluster:\n        name: mine\n", "mine"),
        ('config:\n  "trainstack:cluster":\n    name: mine # the name\n', "mine"),
        ('config:\n  trainstack:cluster: \'{"kind": "existing"}\'\n', None),
    ],
)
def test_the_name_however_it_is_written(tmp_path: Path, text: str, name: str | None) -> None:
    assert access(stack_file(tmp_path, text)).cluster == name


@pytest.mark.parametrize(("text", "said"), [("true", True), ("false", False), ("'true'", True)])
def test_tells_whether_a_stack_is_protected(tmp_path: Path, text: str, said: bool) -> None:
    assert access(stack_file(tmp_path, f"config:\n  trainstack:protected: {text}\n")).protected is said


@pytest.mark.parametrize(
    ("image", "dockerfile", "said"),
    [
        ("{}", "", False),
        ("{target: cpu}", "", False),
        ("{target: gpu}", "", True),
        ("{reference: 'x@sha256:%s'}" % ("0" * 64), "", False),
        ("{target: gpu, context: PROJECT}", "", True),
        ("{dockerfile: PROJECT/Dockerfile}", "ARG GPU_BASE\nFROM ${GPU_BASE}", True),
        ("{dockerfile: PROJECT/Dockerfile}", "ARG CPU_BASE\nFROM ${CPU_BASE}", False),
        ("{dockerfile: PROJECT/Dockerfile}", "ARG TRAINER_IMAGE\nFROM ${TRAINER_IMAGE}", False),
        ("{dockerfile: PROJECT/Dockerfile, target: gpu}", "ARG TRAINER_IMAGE\nFROM ${TRAINER_IMAGE}", True),
    ],
)
def test_tells_whether_the_image_begins_with_the_gpu_base(
    tmp_path: Path, image: str, dockerfile: str, said: bool
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "Dockerfile").write_text(dockerfile)
    text = f"config: {{trainstack:image: {image.replace('PROJECT', str(project))}, trainstack:job: {{name: x}}}}\n"
    assert access(stack_file(tmp_path, text)).uses_gpu_base is said


def test_a_wrong_job_does_not_matter(tmp_path: Path) -> None:
    file = stack_file(tmp_path, "config:\n  trainstack:job: {nmae: 1}\n  trainstack:cluster: {name: mine}\n")
    found = access(file)
    assert (found.cluster, found.claim, found.claim_may_wait) == ("mine", None, False)


@pytest.mark.parametrize("held", ["queue: team-a", "runPolicy: {suspend: true}", ""])
@pytest.mark.parametrize("prepare", [True, False])
@pytest.mark.parametrize(
    ("storage", "name"),
    [
        ("kind: class, storageClass: fast", "trainstack-dev-models-fast"),
        ("kind: claim, claim: theirs", "theirs"),
        ("kind: hostPath", "trainstack-dev-models"),
    ],
)
def test_tells_the_claim_and_whether_it_waits_for_a_pod(
    tmp_path: Path, storage: str, name: str, prepare: bool, held: str
) -> None:
    job = f"{{name: x, {held}}}"
    section = f"{{{storage}, prepare: {str(prepare).lower()}}}"
    found = access(stack_file(tmp_path, f"config: {{trainstack:storage: {section}, trainstack:job: {job}}}"))
    assert found.claim == name
    assert found.claim_may_wait is ("class" in storage and bool(held) and not prepare)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("config:\n  trainstack:cluster: {kind: knid}\n", "trainstack:cluster.kind = 'knid'"),
        ("config:\n  trainstack:cluster: {kind: existing, name: mine}\n", "trainstack:cluster.name = 'mine'"),
        ("config:\n  trainstack:cluster: kind\n", "trainstack:cluster = 'kind'"),
        ("config:\n  trainstack:cluster: {kind: existing\n", "not valid YAML"),
        ("- config\n", "not a stack file"),
        ("config: [trainstack:cluster]\n", "not a stack file"),
    ],
)
def test_what_cannot_be_understood_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"Pulumi\.dev\.yaml") as refused:
        access(stack_file(tmp_path, text))
    assert said in str(refused.value)


@pytest.mark.parametrize("api", OperatorApi)
def test_tells_which_api_wrong_jobs_are_for(tmp_path: Path, api: OperatorApi) -> None:
    file = stack_file(tmp_path, f"config:\n  trainstack:operator: {{api: {api}}}\n  trainstack:job: {{}}\n")
    assert access(file).operator_api is api


@pytest.mark.parametrize(
    ("cluster", "named"),
    [
        ("{kind: existing}", False),
        ("{kind: existing, context: there}", False),
        ("{kind: existing, server: 'https://there:6443'}", True),
        ("{kind: existing, id: 0a1b2c3d-0000-4000-8000-000000000000}", True),
    ],
)
def test_a_cluster_is_named_by_its_server_or_its_id(tmp_path: Path, cluster: str, named: bool) -> None:
    """A context alone is a name of this machine's, and is looked up by each call."""
    text = f"config:\n  trainstack:cluster: {cluster}\n  trainstack:job: {{name: mnist}}\n"
    assert access(stack_file(tmp_path, text)).is_named is named
