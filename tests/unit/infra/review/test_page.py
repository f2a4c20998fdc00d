"""The page for a pull request: each key's change, what it replaces, costs and loses, and what was checked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import agreed, operators, stack_plan
from infra.cluster_kinds import ClusterKind
from infra.config import ConfigError
from infra.config.changes import OUTCOMES, outcome
from infra.config.load import Sections, from_raw
from infra.config.operator import OperatorApi
from infra.config.section import Outcome
from infra.guard.policy_rules import RULES
from infra.objects.job_kinds import OF_API, RUNTIME
from infra.objects.kinds import title
from infra.review import __main__ as command
from infra.review import consequences, folder, kubeconform, page
from infra.review.consequences import REPLACED
from infra.review.key_changes import key_changes, rule_of
from infra.review.object_changes import object_changes
from infra.upstream import vendored
from tests.matrix import entries
from tests.matrix.project import with_changes
from tests.unit.infra.samples import operators_of_both

NAME = "shown"
NOT_CHECKED = "Schemas were not checked"
KINDS = ("Namespace", "PersistentVolume", "PersistentVolumeClaim", "Job", "Secret", "PyTorchJob")
ON_KIND: dict[str, Any] = {"cluster": {}, "operator": {}, "image": {}, "job": {"name": "mnist"}}
ENTRIES = {**entries.OBJECTS, **entries.ON_KIND}
NO_TRAINING = "No training starts from the beginning: no job has a new run to train."
ELASTIC = {"minReplicas": 1, "maxReplicas": 7}
REGISTERED = operators.manifests
SECRET = {"secure": "v1:first:cipher"}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the operator's manifests, kubeconform and schemas."""
    monkeypatch.setattr(operators, "manifests", lambda stack, planned: [])
    monkeypatch.delenv(agreed.OPENAPI, raising=False)


class Repository:
    """`before` is what the base has of the stack; `shown` is the page of what stands now."""

    def __init__(self, root: Path) -> None:
        self.base, self.now = root / "base", root / "now"

    def write(self, place: Path, sections: Mapping[str, Any]) -> dict[str, str]:
        place.mkdir(parents=True, exist_ok=True)
        config = {f"trainstack:{name}": section for name, section in sections.items()}
        (place / f"Pulumi.{NAME}.yaml").write_text(yaml.safe_dump({"config": config}))
        return folder.files(from_raw(NAME, sections, f"stacks/Pulumi.{NAME}.yaml"))

    def before(self, **changes: Any) -> None:
        sections = with_changes(changes)
        folder.write(self.base, NAME, self.write(self.base, sections))
        for name, text in folder.definitions(from_raw(NAME, sections, "")).items():
            file = self.base.parent / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def shown(self, **changes: Any) -> str:
        sections = with_changes(changes)
        contents = self.write(self.now, sections)
        stack = from_raw(NAME, sections, "")
        file, base = self.now / f"Pulumi.{NAME}.yaml", page.Base(self.base, "`main`")
        found = page.page(stack, file, contents, base)
        self.passed = found.passed
        return found.text


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def part(text: str, heading: str) -> list[str]:
    """The lines of one part of a page."""
    return [line for line in text.partition(f"### {heading}\n")[2].partition("###")[0].splitlines() if line]


def rows(text: str, heading: str) -> dict[str, list[str]]:
    """First cell -> the others, of the part's tables."""
    lines = [line.strip("| ").split(" | ") for line in part(text, heading) if line.startswith("| `")]
    return {first.strip("`"): [cell.strip("`") for cell in others] for first, *others in lines}


def replaced(text: str) -> set[str]:
    """Kinds of the objects that are made anew."""
    return {line.strip("-` ").partition("/")[0] for line in part(text, "Replaced") if line.startswith("- ")}


def test_another_number_of_epochs_is_a_short_page(repository: Repository) -> None:
    repository.before(**{"job.training.epochs": 1})
    text = repository.shown(**{"job.training.epochs": 2})
    assert rows(text, "Keys") == {"job.training.epochs": ["1", "2", "job replaced."]}
    fields = rows(text, "Objects")
    assert list(fields) == [
        "metadata.labels.trainstack/run",
        "spec.pytorchReplicaSpecs.Master.template.spec.containers[pytorch].args",
    ]
    assert fields.popitem()[1] == ["1", "2"]
    assert replaced(text) == {"PyTorchJob"}
    assert len(text.splitlines()) < 47


def test_what_a_change_does_comes_before_what_changes(repository: Repository) -> None:
    repository.before(**{"job.training.epochs": 1})
    text = repository.shown(**{"job.training.epochs": 2})
    headings = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert headings == ["Replaced", "Lost", "Cost", "Checks", "Keys", "Objects"]
    assert part(text, "Objects")[:2] == ["<details>", "<summary>1 changed</summary>"]
    assert text.count("<details>") == text.count("</details>") == 1


def test_of_many_jobs_the_head_stays_short(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_LISTED", 2)
    given = {"matrix.options": {"training.seed": [1, 2, 3, 4, 5]}, "job.resources.gpu": 1}
    repository.before(**given)
    text = repository.shown(**given, **{"job.training.epochs": 2})
    assert part(text, "Replaced") == [
        "- `PyTorchJob/kubeflow/mnist-seed-1`",
        "- `PyTorchJob/kubeflow/mnist-seed-2`",
        "- and 3 more: see the objects below",
    ]
    *_, last = part(text, "Cost")
    gpu_hours, pod_hours = last.strip("| ").split(" | ")[4:]
    assert last.startswith("| 3 more | 6 | - | - | ")
    assert float(gpu_hours) == float(pod_hours) == 3 * float(rows(text, "Cost").popitem()[1][3])


VALUES = (
    *("a`b", "`@everybody`", "``", "x ``` y", "@everybody"),
    *("<img src=x>", "[a](b)", "a|b", "**b**", " spaced "),
)


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_code_whatever_it_is(repository: Repository, value: str) -> None:
    repository.before(**{"job.env": {"A": "before"}})
    text = repository.shown(**{"job.env": {"A": value}})
    shown = [line for line in text.splitlines() if page.code(value.strip()).replace("|", "\\|") in line]
    assert shown, text
    outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert value.strip() not in outside


@pytest.mark.parametrize("value", VALUES)
def test_what_refuses_a_stack_is_a_block_of_code(value: str, tmp_path: Path) -> None:
    lines = page.refused(NAME, page.Base(tmp_path, "main"), f"{value}\n```\n{value}").splitlines()
    begin = lines.index("The stack is refused.") + 2
    fence = lines[begin].removesuffix("text")
    assert len(fence) > 3
    assert fence in lines[begin + 1 :]
    assert not any(fence in line for line in (value, "```"))


@pytest.mark.parametrize(
    ("before", "told", "lost"),
    [
        ("1.9.4", "down from 1.9.4 to", True),
        ("1.10.0", "down from 1.10.0 to", True),
        ("1.8.10", "up from 1.8.10 to", False),
    ],
)
def test_another_version_of_the_operator_says_who_gets_it(
    repository: Repository, before: str, told: str, lost: bool
) -> None:
    repository.before(**ON_KIND)
    upstream = repository.base.parent / folder.UPSTREAM
    (now,) = upstream.glob("training-operator-*")
    now.rename(upstream / f"training-operator-{before}")
    for name, cluster in (("beside", f"trainstack-{NAME}"), ("elsewhere", "another")):
        repository.now.mkdir(exist_ok=True)
        config = {"trainstack:cluster": {"name": cluster}, "trainstack:job": {"name": "mnist"}}
        (repository.now / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump({"config": config}))
    text = repository.shown(**ON_KIND)
    first, beside = part(text, "Versions")
    version = vendored.version("training-operator").removeprefix("v")
    assert first == f"- `training-operator` goes {told} {version}."
    others = "Other stacks of this repository on the same cluster: `beside`."
    assert beside == f"{others} All jobs there use the new version, too."
    assert any("the API server drops them" in line for line in part(text, "Lost")) is lost
    assert "Nothing that the stack applies has changed." not in text


def test_nothing_changed_is_said_in_one_line(repository: Repository) -> None:
    repository.before()
    text = repository.shown()
    assert "Nothing that the stack applies has changed." in text
    assert "###" not in text.partition("### Checks")[0]


@pytest.mark.parametrize("key", ENTRIES)
def test_each_key_has_its_row_and_what_it_replaces(key: str) -> None:
    entry, own = ENTRIES[key], ON_KIND if key in entries.ON_KIND else {}
    before = Sections.model_validate(with_changes({**own, **entry.given}))
    after = Sections.model_validate(with_changes({**own, **entry.applied(key)}))
    found = key_changes(before, after)
    (change,) = [each for each in found if rule_of(each.key) == key]
    kind = ClusterKind.KIND if own else ClusterKind.EXISTING
    assert change.outcome is outcome(key, kind)
    assert change.before != change.after
    outcomes = {each.outcome for each in found}
    kinds = {each for one in outcomes for each in REPLACED.get(one, ())}
    kinds = set(KINDS) if Outcome.CLUSTER_REPLACED in outcomes else kinds
    there = [{"kind": each, "metadata": {"name": "mnist"}} for each in KINDS]
    assert consequences.replaced(found, [], there) == [f"{each}/mnist" for each in KINDS if each in kinds]


def test_a_resource_without_a_field_has_its_row() -> None:
    before, after = (
        Sections.model_validate({"job": {"name": "x", "resources": each}})
        for each in ({"amd.com/gpu": 1}, {"requests": {"ephemeral-storage": "4Gi"}})
    )
    found = [(each.key, each.before, each.after, each.outcome) for each in key_changes(before, after)]
    assert found == [
        ("job.resources.amd.com/gpu", "1", None, Outcome.JOB_REPLACED),
        ("job.resources.requests.ephemeral-storage", None, "4Gi", Outcome.JOB_REPLACED),
    ]


@pytest.mark.parametrize("key", OUTCOMES)
def test_each_key_of_the_stack_file_has_a_rule_wherever_it_stands(key: str) -> None:
    assert rule_of(key) == key
    if key.startswith("job."):
        assert rule_of(f"jobs[first].{key.removeprefix('job.')}") == key


def test_that_a_job_may_reach_nothing_any_more_is_a_change(repository: Repository) -> None:
    one: dict[str, Any] = {"job.egress": [{"port": 443}]}
    none: dict[str, Any] = {"job.egress": []}
    repository.before()
    assert rows(repository.shown(**none), "Keys") == {"job.egress": ["-", "[]", "in place."]}
    repository.before(**one)
    changed = rows(repository.shown(**none), "Keys")
    assert changed["job.egress"][:2] == ["-", "[]"]
    assert changed["job.egress[0].port"][:2] == ["443", "-"]
    repository.before(**none)
    assert "Nothing that the stack applies has changed." in repository.shown(**none)


def test_of_several_jobs_only_the_changed_one_is_replaced(repository: Repository) -> None:
    first, second = {"name": "first", "model": None}, {"name": "second", "model": None}
    repository.before(job=None, jobs=[first, second])
    text = repository.shown(job=None, jobs=[first, {**second, "training": {"epochs": 2}}])
    assert list(rows(text, "Keys")) == ["jobs[second].training.epochs"]
    assert [each for each in part(text, "Replaced") if "Job" in each] == ["- `PyTorchJob/kubeflow/second`"]
    text = repository.shown(job=None, jobs=[first])
    assert list(rows(text, "Keys")) == ["jobs[second]"]
    assert "- The removed objects: `PyTorchJob/kubeflow/second`." in part(text, "Lost")


def test_a_matrix_is_one_row_for_each_of_its_keys(repository: Repository) -> None:
    two, three = ({"matrix.options": {"training.seed": [1, 2, *more]}} for more in ((), (3,)))
    repository.before(**two)
    text = repository.shown(**three, **{"matrix.maxParallel": 1})
    assert list(rows(text, "Keys")) == ["matrix.options", "matrix.maxParallel"]
    assert not replaced(text)
    text = repository.shown(**two, **{"job.training": {"epochs": 2}})
    assert list(rows(text, "Keys")) == ["job.training.epochs"]
    assert [line for line in part(text, "Replaced") if "PyTorchJob" in line] == [
        f"- `PyTorchJob/kubeflow/mnist-seed-{seed}`" for seed in (1, 2)
    ]


def test_a_job_that_becomes_a_template_goes(repository: Repository) -> None:
    repository.before()
    text = repository.shown(**{"matrix.options": {"training.seed": [1, 2]}})
    jobs = [f"jobs[mnist{end}]" for end in ("", "-seed-1", "-seed-2")]
    assert list(rows(text, "Keys")) == [*jobs, "matrix.options"]
    assert "- The removed objects: `PyTorchJob/kubeflow/mnist`." in part(text, "Lost")


def test_what_an_encrypted_value_is_stays_out_of_the_page(repository: Repository) -> None:
    repository.before(**{"job.env": {"TOKEN": SECRET}})
    text = repository.shown(**{"job.env": {"TOKEN": {"secure": "v1:second:cipher"}}})
    before, after, _ = rows(text, "Keys")["job.env"]
    assert before != after
    assert "cipher" not in text


@pytest.mark.parametrize(
    ("changes", "pods", "gpus", "gpu_hours"),
    [
        ({"training.epochs": 2}, "2", "0", "0"),
        ({"replicas.worker": 3, "resources.gpu": 2, "runPolicy.activeDeadlineSeconds": 5400}, "4", "2", "12"),
        ({"elasticPolicy": ELASTIC, "resources.gpu": 1, "rerun": 1}, "8", "1", "8"),
    ],
)
def test_a_new_run_costs_gpus_until_its_deadline(
    repository: Repository, changes: dict[str, Any], pods: str, gpus: str, gpu_hours: str
) -> None:
    repository.before()
    (cost,) = rows(repository.shown(**{f"job.{key}": each for key, each in changes.items()}), "Cost").values()
    assert (cost[0], cost[1], cost[3]) == (pods, gpus, gpu_hours)


AUTO = {"dataset": "auto", "epochs": 1, "digitsEpochs": 12}


@pytest.mark.parametrize(
    ("training", "starts"),
    [({**AUTO, "digitsEpochs": 24}, True), ({"dataset": "mnist", "epochs": 1}, True), (AUTO, False)],
)
def test_a_run_that_is_another_on_the_digits_alone_starts_there(
    repository: Repository, training: dict[str, Any], starts: bool
) -> None:
    """A review renders `dataset: auto` as MNIST, and a clone without it trains on the digits."""
    repository.before(**{"job.training": AUTO})
    text = repository.shown(**{"job.training": training, "job.labels": {"a": "b"}})
    shown = rows(text, "Cost")
    assert [run.endswith("`, on a machine without MNIST") for run in shown] == [True] * starts
    assert (NO_TRAINING in text) is not starts


def test_another_image_alone_replaces_what_runs_it(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trainer has changed, the stack file has not."""
    repository.before(**{"storage.prepare": True})
    monkeypatch.setattr(stack_plan, "ensure_allowed", lambda stack, manifests: None)
    monkeypatch.setattr(folder, "rendered_reference", lambda stack: "localhost:5000/trainer:2")
    text = repository.shown(**{"storage.prepare": True})
    assert page.NO_KEY in text
    assert replaced(text) == {"Job", "PyTorchJob"}
    repository.before()
    assert page.NO_KEY not in repository.shown(**{"job.training.epochs": 2})


def test_labels_alone_replace_no_job(repository: Repository) -> None:
    before = {"kind": "Job", "metadata": {"name": "prepare", "labels": {}}}
    after = {"kind": "Job", "metadata": {"name": "prepare", "labels": {"team": "a"}}}
    changes = object_changes({"job": yaml.safe_dump(before)}, {"job": yaml.safe_dump(after)})
    assert [path for path, _, _ in changes[0].fields] == ["metadata.labels.team"]
    assert consequences.replaced([], changes, [before]) == []


@pytest.mark.parametrize(
    "changes",
    [{"job.resources.memory": "3Gi"}, {"job.runId": "mnist-0a1b2c3d"}],
    ids=["the same", "taken again"],
)
def test_a_run_that_is_there_costs_nothing_new(repository: Repository, changes: dict[str, Any]) -> None:
    usual = {"job.model": "mnist_cnn.pt"}
    repository.before(**usual)
    text = repository.shown(**usual, **changes)
    assert replaced(text) == {"PyTorchJob"}
    assert part(text, "Cost") == [NO_TRAINING]


def test_a_new_stack_is_counted_not_listed(repository: Repository) -> None:
    text = repository.shown()
    assert re.search(r"The stack is new: \d objects\.", text)
    assert rows(text, "Cost")
    assert part(text, "Replaced") == part(text, "Lost") == ["Nothing."]


def test_a_replaced_cluster_names_what_is_lost_with_it(repository: Repository) -> None:
    repository.before(**ON_KIND)
    text = repository.shown(**ON_KIND, **{"cluster.workers": 2})
    assert f"- `Cluster/trainstack-{NAME}`" in part(text, "Replaced")
    (first, *_) = part(text, "Lost")
    assert f"cluster trainstack-{NAME}" in first
    assert "REPLACE_CLUSTER=yes" in first


def test_a_replaced_cluster_of_kind_may_have_the_files_of_a_claim_of_a_class(repository: Repository) -> None:
    given = {**ON_KIND, "storage.kind": "class", "storage.storageClass": "standard"}
    repository.before(**given)
    text = repository.shown(**given, **{"cluster.workers": 2})
    assert f"- The files of claim trainstack-{NAME}-models-standard, if" in "\n".join(part(text, "Lost"))
    assert "No file: " not in text


def test_a_cluster_of_others_is_left_not_replaced(repository: Repository) -> None:
    repository.before()
    text = repository.shown(**{"cluster.context": "other"})
    assert not any("Cluster/" in line for line in part(text, "Replaced"))
    assert part(text, "Lost")[0] == "- The stack's objects in the old cluster; its nodes keep the files."


ID = "3f8a1c52-7d4e-4b09-9c61-2f5e8d7a0b13"
PROD = {"context": "prod", "server": "https://prod", "kubeconfig": "/etc/prod.yaml"}
EXISTING_PLACES: dict[str, dict[str, Any]] = {
    "existing, not named: the cluster of the current context": {},
    "existing, kubeconfig `/etc/prod.yaml`, not named: the cluster of the current context": {
        "kubeconfig": "/etc/prod.yaml"
    },
    "existing, context `prod`": {"context": "prod"},
    "existing, kubeconfig `/etc/prod.yaml`, context `prod`, server `https://prod`": PROD,
    f"existing, server `https://prod`, id `{ID}`": {"server": "https://prod", "id": ID},
}
STAY = "the old cluster keeps all files"


def where(text: str) -> str:
    (line,) = [each for each in text.splitlines() if each.startswith("Cluster: ")]
    return line


@pytest.mark.parametrize("place", EXISTING_PLACES)
def test_a_page_names_the_cluster_and_what_stays_where_it_changes(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Whatever this shell reaches."""
    monkeypatch.setenv("KUBECONFIG", "/nowhere/else")
    given = {f"cluster.{key}": each for key, each in EXISTING_PLACES[place].items()}
    assert where(repository.shown(**given)) == f"Cluster: {place}.", "a new stack"
    repository.before(**given)
    assert where(repository.shown(**given)) == f"Cluster: {place}."
    moved = where(repository.shown(**{"cluster.context": "other"}))
    assert moved.startswith(f"Cluster: existing, context `other`; before: {place}.")
    assert STAY in moved


def test_a_page_names_a_cluster_of_the_stacks_own(repository: Repository) -> None:
    assert where(repository.shown(**ON_KIND)) == f"Cluster: kind, name `trainstack-{NAME}`."
    microk8s = {**ON_KIND, "cluster": {"kind": "microk8s"}}
    assert where(repository.shown(**microk8s)) == "Cluster: microk8s."


def test_naming_the_cluster_replaces_nothing_and_another_server_all(repository: Repository) -> None:
    repository.before()
    assert replaced(repository.shown(**{"cluster.server": "https://a"})) == set()
    repository.before(**{"cluster.server": "https://a"})
    assert "PyTorchJob" in replaced(repository.shown(**{"cluster.server": "https://b"}))


# What the present program refuses in the stack file of a base, and a word of the reason.
REFUSED_BASES: dict[str, tuple[Any, str]] = {
    "a key of another release": ({"job": {"nome": "mnist"}}, "trainstack:job.nome"),
    "a folder that the branch has renamed": ({"image": {"context": "examples/gone"}}, "image.context"),
    "a renamed Dockerfile": ({"image": {"dockerfile": "gone/Dockerfile"}}, "image.dockerfile"),
    "a rule between two sections": ({"jobs": [{"name": "mnist"}]}, "trainstack:job"),
    "no mapping": ("config: 7\n", "not a stack file"),
    "no YAML": ("config: [\n", "not valid YAML"),
}


@pytest.mark.parametrize(
    "changes", [{"cluster.apiServerPort": 7000}, {"job.training.epochs": 2}, {}], ids=str
)
@pytest.mark.parametrize("refused", REFUSED_BASES)
def test_a_base_that_is_refused_leaves_open_what_is_replaced_and_lost(
    repository: Repository, refused: str, changes: dict[str, Any]
) -> None:
    repository.before(**ON_KIND)
    given, reason = REFUSED_BASES[refused]
    if isinstance(given, dict):
        sections = {**with_changes(ON_KIND), **given}
        given = yaml.safe_dump({"config": {f"trainstack:{key}": each for key, each in sections.items()}})
    (repository.base / f"Pulumi.{NAME}.yaml").write_text(given)
    text = repository.shown(**{**ON_KIND, **changes})
    for heading in ("Keys", "Replaced", "Lost"):
        assert part(text, heading)[-1].startswith("Not known: "), heading
        assert "Nothing." not in part(text, heading)
    assert "Nothing that the stack applies has changed." not in text
    assert page.NO_KEY not in text
    assert reason in text
    assert str(repository.base) not in text
    assert bool(rows(text, "Objects")) is ("job.training.epochs" in changes)
    assert replaced(text) == ({"PyTorchJob"} if "job.training.epochs" in changes else set())


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operators of both APIs."""
    monkeypatch.setattr(vendored, "objects", operators_of_both)
    monkeypatch.setattr(operators, "manifests", REGISTERED)


@pytest.mark.usefixtures("both")
def test_of_a_base_that_is_refused_no_shared_object_is_called_new(repository: Repository) -> None:
    repository.before(**ON_KIND)
    (repository.base / f"Pulumi.{NAME}.yaml").write_text("config: 7\n")
    assert part(repository.shown(**ON_KIND), "Objects") == ["No object changes."]


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("api", OperatorApi)
def test_a_stack_that_takes_the_other_api_shows_both_operators_and_no_new_run(
    repository: Repository, api: OperatorApi
) -> None:
    """As docs/trainer-v2.md promises, there and back."""
    (other,) = set(OperatorApi) - {api}
    repository.before(**ON_KIND, **{"operator.api": other.value})
    text = repository.shown(**ON_KIND, **{"operator.api": api.value})
    told = rows(text, "Keys")["operator.api"]
    assert told[:2] == [other.value, api.value]
    assert "The run continues with the same id." in told[2]
    lines = part(text, "Objects")
    for word, told_of in ((" is new.", api), (" is removed.", other)):
        assert {line.split("`")[1] for line in lines if line.endswith(word)} == shown_of(told_of)
    assert replaced(text) == {OF_API[other].kind, *([RUNTIME] if other is OperatorApi.V2 else [])}
    (told_lost,) = [line for line in part(text, "Lost") if line.startswith("- The removed objects: ")]
    assert all(each in told_lost for each in shown_of(other))
    assert part(text, "Cost") == [NO_TRAINING]

    same = {**ON_KIND, "operator.api": api.value}
    repository.before(**same)
    assert "Nothing that the stack applies has changed." in repository.shown(**same)


def shown_of(api: OperatorApi) -> set[str]:
    """Titles of what a stack has with this API alone: job, operator, definitions."""
    given = with_changes({**ON_KIND, "operator.api": api.value})
    stack = from_raw(NAME, given, "")
    planned = stack_plan.reviewed(stack)
    objects = [each.manifest for each in stack_plan.of(stack, planned)]
    kinds = {OF_API[api].kind, RUNTIME}
    operator = operators.manifests(stack, planned)
    return {title(each) for each in objects if each["kind"] in kinds or each in operator}


def test_policies_are_counted_and_missing_schemas_said(repository: Repository) -> None:
    text = repository.shown()
    assert f" objects keep {len(RULES)} policies." in text
    assert NOT_CHECKED in text
    assert repository.passed


VERSION = {"name": "v1", "schema": {"openAPIV3Schema": {}}}
CRD = {
    "kind": "CustomResourceDefinition",
    "spec": {"group": "kubeflow.org", "names": {"kind": "PyTorchJob"}, "versions": [VERSION]},
}


@pytest.fixture
def played_kubeconform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Plays kubeconform, which says this of an object; a stack brings PyTorchJobs. A test runs the real one:
    tests/matrix/test_schemas.py."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(vendored, "objects", lambda project: [CRD])  # it is short
    (tmp_path / "swagger.json").write_text('{"definitions": {}}')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv(agreed.OPENAPI, str(tmp_path / "swagger.json"))

    def play(status: str) -> None:
        found = {"filename": "$7/jobs.yaml", "kind": "Job", "name": "x", "msg": "no such key"}
        told = json.dumps({"resources": [found | {"status": status}]})
        program = tmp_path / "bin" / "kubeconform"
        program.write_text(f"#!/bin/sh\ncat <<END\n{told}\nEND\n")
        program.chmod(0o755)

    return play


@pytest.mark.parametrize(("status", "passes"), [("statusValid", True), ("statusInvalid", False)])
def test_what_has_another_shape_is_named(
    repository: Repository, played_kubeconform: Callable[[str], None], status: str, passes: bool
) -> None:
    played_kubeconform(status)
    text = repository.shown()
    assert repository.passed is passes
    assert ("jobs.yaml: Job x: no such key" in text) is not passes


def test_a_stack_that_is_refused_says_so_on_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise ConfigError("stacks/Pulumi.dev.yaml: policy: one is broken")

    monkeypatch.setattr(folder, "files", refuse)
    target = tmp_path / "pages" / "dev.md"
    assert command.main(["dev", "--page", str(target), "--revision", "`main`"]) == 1
    assert "policy: one is broken" in target.read_text()
    assert str(target.name) in capsys.readouterr().out


@pytest.mark.parametrize(("wrong", "status"), [([], 0), (["job.yaml: no such key"], 1)])
def test_the_command_writes_the_page_beside_the_rendering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[str], status: int
) -> None:
    monkeypatch.setattr(kubeconform, "mismatches", lambda files: wrong)
    target = tmp_path / "pages" / "nccl.md"
    asked = ["nccl", "--into", str(tmp_path), "--page", str(target), "--base", str(tmp_path / "none")]
    assert command.main(asked) == status
    assert (tmp_path / "rendered/nccl/jobs/jobs.yaml").exists()
    text = target.read_text()
    assert text.startswith(page.MARK.format(stack="nccl"))
    assert all(each in text for each in wrong)
