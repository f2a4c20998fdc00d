"""A word planted as a secret is in one object of the cluster, the job's Secret, and nowhere else in plain text."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import agreed
from infra.config.load import from_file
from infra.review import folder
from tests.matrix.judging import identities
from tests.matrix.project import AppliedProject
from toolchain.operating import adoption

NAMESPACE = "kubeflow"
WORD, OTHER = "planted-first-57d1", "planted-second-9c2e"
NAME = "TOKEN"
SECRET = "mnist-env"
JOB = f"PyTorchJob/{NAMESPACE}/mnist"


@pytest.fixture(scope="module")
def shown(project: AppliedProject) -> str:
    """What an update with the word printed, its events included."""
    project.configured()
    project.plant(f"job.env.{NAME}", WORD)
    return project.apply()


def writings(word: str) -> list[str]:
    return [word, base64.b64encode(word.encode()).decode()]


def assert_absent(place: str, text: str, *words: str) -> None:
    for word in words or (WORD,):
        for written in writings(word):
            assert written not in text, f"{place} shows the planted word"


def secret(project: AppliedProject) -> dict[str, str]:
    found: Any = project.core.read_namespaced_secret(SECRET, NAMESPACE)
    return {name: base64.b64decode(value).decode() for name, value in found.data.items()}


def objects(project: AppliedProject) -> Iterator[tuple[str, str]]:
    """Each object of the namespaces that is no Secret, as JSON, events included."""
    listed: dict[str, Any] = project.objects()
    core: Any = project.core
    for answer in (core.list_event_for_all_namespaces(), core.list_config_map_for_all_namespaces()):
        items = [project.connection.sanitize_for_serialization(each) for each in answer.items]
        listed |= {each["metadata"]["name"]: each for each in items}
    yield from ((name, json.dumps(each)) for name, each in listed.items())


def test_the_pods_read_it_from_a_secret_of_the_jobs(project: AppliedProject, shown: str) -> None:
    assert secret(project) == {NAME: WORD}
    pods = [each for name, each in project.objects().items() if name.startswith("Pod/")]
    assert pods
    for pod in pods:
        (variable,) = [each for each in pod["spec"]["containers"][0]["env"] if each["name"] == NAME]
        assert variable["valueFrom"] == {"secretKeyRef": {"name": SECRET, "key": NAME}}


def test_it_is_nowhere_else(project: AppliedProject, shown: str) -> None:
    assert_absent("the log", shown)
    assert_absent("the exported state", project.pulumi("stack", "export", "--stack", project.stack).stdout)
    files = [each for each in project.folder.parent.rglob("*") if each.is_file() and not each.is_symlink()]
    assert any("backups" in str(each) for each in files), "the state has backups"
    for file in files:
        assert_absent(str(file), file.read_bytes().decode(errors="replace"))
    for name, text in objects(project):
        assert_absent(name, text)


def test_a_review_shows_the_reference_alone(project: AppliedProject, shown: str) -> None:
    rendered = "\n".join(folder.files(from_file(Path(project.stack_file))).values())
    assert f"name: {SECRET}" in rendered
    assert_absent("a rendering", rendered)


def test_another_word_reaches_new_pods(project: AppliedProject, shown: str) -> None:
    before = project.objects()
    project.plant(f"job.env.{NAME}", OTHER)
    told = project.apply()
    assert secret(project) == {NAME: OTHER}
    after = project.objects()
    assert before[JOB]["metadata"]["uid"] != after[JOB]["metadata"]["uid"]
    assert before[JOB]["metadata"]["labels"] == after[JOB]["metadata"]["labels"], "its run goes on"
    assert_absent("the log", told, WORD, OTHER)
    project.apply("--expect-no-changes")


def test_a_secret_that_the_state_has_lost_is_taken_up_encrypted(
    project: AppliedProject, shown: str, tmp_path: Path
) -> None:
    before = {each.metadata.uid for each in secrets(project)}
    project.edit_state(forget)
    asked = tmp_path / "asked"
    project.environment[agreed.LOST_OBJECTS] = str(asked)
    assert "Secret/kubeflow/mnist-env" in project.refused()
    project.environment[agreed.ADOPTING] = "yes"
    told = project.pulumi("preview", "--json", "--stack", project.stack).stdout
    steps = json.loads(told[told.index("{\n") :])["steps"]
    lost = json.loads(asked.read_text())["objects"]
    project.edit_state(lambda deployment: adoption.adopt_lost(deployment, steps, lost))
    del project.environment[agreed.LOST_OBJECTS], project.environment[agreed.ADOPTING]
    exported = project.pulumi("stack", "export", "--stack", project.stack).stdout
    assert "Secret::Secret/kubeflow/mnist-env" in exported
    assert_absent("the exported state", exported, WORD, OTHER)
    project.apply()
    assert {each.metadata.uid for each in secrets(project)} == before, "it was not made anew"
    assert_absent(
        "the state", project.pulumi("stack", "export", "--stack", project.stack).stdout, WORD, OTHER
    )


def secrets(project: AppliedProject) -> list[Any]:
    return list(project.core.list_namespaced_secret(NAMESPACE).items)


def forget(deployment: dict[str, Any]) -> None:
    """Drop the Secret, the job and its run from a state."""
    lost = ("kubernetes:core/v1:Secret", "kubernetes:kubeflow.org/v1:PyTorchJob", "trainstack:Run")
    kept = [each for each in deployment["resources"] if not any(name in each["type"] for name in lost)]
    deployment["resources"] = kept


@pytest.mark.sampled(2)
@pytest.mark.parametrize("key", ["job.args[0]", "job.name", "job.annotations.note", "storage.mountPath"])
def test_a_secret_elsewhere_is_refused(project: AppliedProject, shown: str, key: str) -> None:
    project.configured()
    project.plant(key, WORD)
    told = project.refused()
    assert f"trainstack:{key} = (secret)" in told
    assert "job.env" in told
    assert_absent("the refusal", told)


def test_other_contexts_of_the_kubeconfig_stay_out_of_the_state(
    project: AppliedProject, shown: str, tmp_path: Path
) -> None:
    """Also decrypted; and a stack whose state holds the whole file changes nothing in the cluster."""
    config = yaml.safe_load(Path(project.environment["KUBECONFIG"]).read_text())
    config["clusters"].append({"name": "other", "cluster": {"server": f"https://{WORD}"}})
    config["users"].append({"name": "other", "user": {"token": OTHER}})
    config["contexts"].append({"name": "other", "context": {"cluster": "other", "user": "other"}})
    whole = tmp_path / "kubeconfig"
    whole.write_text(yaml.safe_dump(config))
    project.environment["KUBECONFIG"] = str(whole)
    project.configured()
    project.apply()
    before = identities(project.settled())
    project.edit_state(lambda deployment: hold(deployment, whole.read_text()))
    project.apply()
    assert identities(project.objects()) == before
    exported = project.pulumi("stack", "export", "--show-secrets", "--stack", project.stack).stdout
    assert "127.0.0.1" in exported, "the one that is used is there"
    assert_absent("the state", exported, WORD, OTHER)


def hold(deployment: dict[str, Any], kubeconfig: str) -> None:
    """Put the whole kubeconfig into the provider's state, as releases before this one did."""
    (provider,) = [each for each in deployment["resources"] if each["type"] == "pulumi:providers:kubernetes"]
    for properties in (provider["inputs"], provider["outputs"]):
        properties["kubeconfig"] = {**adoption.SECRET, "plaintext": json.dumps(kubeconfig)}
