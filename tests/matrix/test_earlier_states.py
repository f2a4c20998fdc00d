"""Each state that an update writes on its way, put in the place of its last one: the next update puts it right.

That is what a killed update leaves, and what is left to go on with where a full disk has torn the state itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import NotFoundError

from infra.config.section import Outcome
from tests.matrix.judging import job_specs, uid, uids
from tests.matrix.project import AppliedProject
from toolchain.operating import adoption, state
from toolchain.operating.state_copies import PROJECT

pytestmark = pytest.mark.slow(reason="two updates for each state that an update writes")
CHANGES: dict[Outcome, dict[str, Any]] = {
    Outcome.JOB_REPLACED: {"job.training.epochs": 5},
    Outcome.VOLUME_REPLACED: {"storage.request": "5Gi"},
}
VOLUME = "PersistentVolume//trainstack-matrix-models"


@pytest.mark.parametrize("outcome", CHANGES)
def test_the_next_update_goes_on_from_each_state(project: AppliedProject, outcome: Outcome) -> None:
    project.stand()
    with states_written(project) as written:
        project.up(**CHANGES[outcome])
    wanted, volume = project.job_specs(**CHANGES[outcome]), uid(project.settled()[VOLUME])
    tried = distinct(written)
    assert any(map(state.has_pending, tried)), "or it was not seen at work"
    assert any(map(state.half_replaced, tried)), "or nothing was replaced"
    for number, deployment in enumerate(tried):
        put_back(project, deployment)
        take_up(project)
        project.up(**CHANGES[outcome])
        found = project.settled()
        assert job_specs(found) == wanted, f"state {number} of {len(tried)}"
        assert outcome is Outcome.VOLUME_REPLACED or uid(found[VOLUME]) == volume
        before = uids(found)
        project.up("--expect-no-changes", **CHANGES[outcome])
        assert uids(project.settled()) == before


@contextmanager
def states_written(project: AppliedProject) -> Iterator[list[dict[str, Any]]]:
    """Deployments that the state file has held inside the block, in order, as far as they were seen."""
    file, ended, seen = state_file(project), Event(), list[dict[str, Any]]()

    def watch() -> None:
        last = b""
        while not ended.is_set():
            content = file.read_bytes()
            if content != last:
                try:
                    seen.append(json.loads(content)["checkpoint"]["latest"])
                    last = content
                except ValueError:
                    continue  # half written
            time.sleep(0.002)

    watching = Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        ended.set()
        watching.join()


def state_file(project: AppliedProject) -> Any:
    return project.folder.parent / "state" / ".pulumi" / "stacks" / PROJECT / f"{project.stack}.json"


def distinct(written: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One of each by what is there, what is deleted and what is under way; times and outputs aside."""
    found: dict[str, dict[str, Any]] = {}
    for deployment in written:
        resources = [
            (each["urn"], each.get("id"), each.get("delete"), each.get(state.HALF_REPLACED))
            for each in deployment.get("resources") or []
        ]
        under_way = [
            (each["type"], each["resource"]["urn"]) for each in deployment.get("pending_operations") or []
        ]
        found.setdefault(json.dumps([resources, under_way]), deployment)
    return list(found.values())


def put_back(project: AppliedProject, deployment: Mapping[str, Any]) -> None:
    file = state_file(project)
    whole = json.loads(file.read_bytes())
    whole["checkpoint"]["latest"] = deployment
    file.write_text(json.dumps(whole))


def take_up(project: AppliedProject) -> None:
    """As `make up` does it before its update."""
    if not state.has_pending(project.deployment()):
        return
    project.edit_state(lambda held: adoption.adopt_pending(held, lambda manifest: live(project, manifest)))
    options = ("--yes", "--skip-preview", "--clear-pending-creates", "--stack", project.stack)
    done = project.pulumi("refresh", *options)
    assert done.returncode == 0, done.stdout


def live(project: AppliedProject, manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object of this kind and name in the cluster."""
    kinds = DynamicClient(project.connection).resources  # type: ignore[no-untyped-call]
    try:
        kind = kinds.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
        found = kind.get(name=manifest["metadata"]["name"], namespace=manifest["metadata"].get("namespace"))
    except (NotFoundError, ApiException):
        return None
    return dict(found.to_dict())
