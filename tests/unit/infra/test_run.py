"""How a run is judged from what the API and the log say."""

from __future__ import annotations

from typing import Any

import pytest

from infra.objects.api import ApiAddress
from infra.run import status, waiting
from infra.run.job_api import Run
from infra.run.metrics import is_progress, metrics


def job(*conditions: str, message: str = "") -> dict[str, Any]:
    held = [{"type": each, "status": "True", "message": message} for each in conditions]
    return {"metadata": {"uid": "u", "resourceVersion": "1"}, "status": {"conditions": held}}


def pod(name: str = "j-master-0", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name}, "status": status}


def waiting_pod(reason: str) -> dict[str, Any]:
    return pod(
        containerStatuses=[{"name": "pytorch", "state": {"waiting": {"reason": reason, "message": "why"}}}]
    )


def ended(name: str, code: int, at: str, key: str = "state") -> dict[str, Any]:
    end = {"terminated": {"exitCode": code, "finishedAt": at}}
    return pod(name, containerStatuses=[{"name": "pytorch", key: end, "restartCount": 1}])


@pytest.mark.parametrize(
    ("conditions", "now"),
    [
        ((), "Pending"),
        (("Created",), "Created"),
        (("Created", "Running"), "Running"),
        (("Created", "Running", "Succeeded"), "Succeeded"),
        (("Failed", "Running"), "Failed"),
    ],
)
def test_the_condition_that_holds(conditions: tuple[str, ...], now: str) -> None:
    assert status.condition(job(*conditions))[0] == now


def test_a_pod_that_cannot_be_scheduled_says_why() -> None:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "Insufficient cpu",
    }
    (trouble,) = status.troubles([pod(conditions=[condition])])
    assert str(trouble) == "pod j-master-0: Unschedulable: Insufficient cpu"
    assert not trouble.hopeless, "a node may come"


@pytest.mark.parametrize(("reason", "hopeless"), [("InvalidImageName", True), ("ImagePullBackOff", False)])
def test_what_keeps_a_container_from_starting(reason: str, hopeless: bool) -> None:
    (trouble,) = status.troubles([waiting_pod(reason)])
    assert trouble.hopeless is hopeless


def test_the_first_to_fail_is_to_blame() -> None:
    pods = [
        ended("j-master-0", 1, "2026-01-01T00:00:09Z"),
        ended("j-worker-0", 3, "2026-01-01T00:00:01Z", "lastState"),
    ]
    assert status.failed_container(pods) == ("j-worker-0", "pytorch", True)
    assert status.failed_container([ended("j-master-0", 0, "x")]) is None


def test_the_last_metrics_count() -> None:
    lines = ["accuracy=0.5", "Train Epoch: 1 [640/60000 (1%)]\tloss=2.2975", "accuracy=0.9912", "loss=3.1e-2"]
    assert metrics(lines) == {"accuracy": 0.9912, "loss": 0.031}


def test_a_step_is_progress_and_an_epoch_is_not() -> None:
    assert is_progress("Train Epoch: 1 [640/60000 (1%)]\tloss=2.2975")
    assert not is_progress("accuracy=0.9912")


class FakeRun(Run):
    """A run whose observations are given."""

    def __init__(self, jobs: list[dict[str, Any]], pods: list[dict[str, Any]], log: list[str]) -> None:
        self.address, self.namespace, self.name, self.uid = ApiAddress(None), "kubeflow", "j", "u"
        self.shown: list[str] = []
        self.show = self.shown.append
        self.trouble_since = {}
        self._jobs, self._pods, self._log = jobs, pods, log

    def observations(self) -> Any:
        yield from self._jobs

    def pods(self) -> list[dict[str, Any]]:
        return self._pods

    def last_lines(self, pod: str, container: str, previous: bool = False, lines: int = 20) -> list[str]:
        return self._log


def test_success_tells_the_metrics() -> None:
    run = FakeRun([job("Created"), job("Created", "Succeeded")], [], ["accuracy=0.97", "loss=0.1"])
    assert waiting.wait(run, "j-master-0") == {"jobStatus": "Succeeded", "accuracy": 0.97, "loss": 0.1}
    assert run.shown == ["j: Created", "j: Succeeded"]


def test_a_failure_tells_the_last_lines_and_how_to_go_on() -> None:
    run = FakeRun([job("Failed", message="backoff")], [ended("j-worker-0", 1, "1")], ["Traceback", "boom"])
    with pytest.raises(waiting.RunFailedError, match=r"(?s)backoff.*pod j-worker-0.*boom.*fix: "):
        waiting.wait(run, "j-master-0")


def test_a_hopeless_image_ends_the_wait_at_once() -> None:
    run = FakeRun([job("Created")], [waiting_pod("InvalidImageName")], [])
    with pytest.raises(waiting.RunFailedError, match="cannot run: pod j-master-0: InvalidImageName: why"):
        waiting.wait(run, "j-master-0")


def test_a_pull_that_fails_for_long_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(waiting.time, "monotonic", lambda: next(clock))
    run = FakeRun([job("Created")] * 5, [waiting_pod("ImagePullBackOff")], [])
    with pytest.raises(waiting.RunFailedError, match="ImagePullBackOff"):
        waiting.wait(run, "j-master-0")


def test_a_suspended_job_is_not_waited_for() -> None:
    assert waiting.wait(FakeRun([job("Suspended")], [], []), "j-master-0")["jobStatus"] == "Suspended"
