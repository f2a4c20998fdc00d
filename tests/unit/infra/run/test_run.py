"""How a run is judged from what the API, the pods and the log say."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, count
from pathlib import Path
from typing import Any

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra import agreed
from infra.objects import retry
from infra.objects.api import ApiAddress
from infra.objects.retry import PAUSE_S, STARTING_S, Patience, UnreachableError
from infra.run import job_status, provider, result, waiting
from infra.run.job_api import JobApi
from infra.run.log_follower import failure_lines
from infra.run.metrics import journal_metrics
from infra.run.waiting import NoProgressError, RunFailedError, Waiting
from tests.unit.infra.objects.played_api import play
from tests.unit.infra.samples import stopped_clock

Ticks = Callable[[int], Iterator[int]]
SPEC = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}}}


def job(*conditions: str, message: str = "") -> dict[str, Any]:
    held = [{"type": each, "status": "True", "message": message} for each in conditions]
    spec = {**SPEC, "runPolicy": {"suspend": conditions[-1:] == ("Suspended",)}}
    return {"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": spec, "status": {"conditions": held}}


def pod(name: str = "j-master-0", **state: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name}, "status": state}


def waiting_pod(reason: str, message: str = "why") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(containerStatuses=[{"name": "pytorch", "state": state}])


def ended(name: str, code: int, at: str, key: str = "state") -> dict[str, Any]:
    end = {"terminated": {"exitCode": code, "finishedAt": at}}
    return pod(name, containerStatuses=[{"name": "pytorch", key: end, "restartCount": 1}])


class FakeApi(JobApi):
    """A job whose observations, pods, log and events are given.

    Parameters:
        jobs: an exception among them is raised.
        log: of every pod, or of each by its name.
    """

    def __init__(
        self,
        jobs: Sequence[dict[str, Any] | Exception],
        pods: list[dict[str, Any]] | None = None,
        log: list[str] | Mapping[str, list[str]] | None = None,
        events: list[dict[str, Any]] | None = None,
    ) -> None:
        self.shown: list[str] = []
        super().__init__(ApiAddress(None), "kubeflow", "j", "u", self.shown.append, type(self).kind)
        self._jobs, self._pods, self._log, self._events = jobs, pods or [], log or [], events or []

    def observations(self) -> Any:
        for each in self._jobs:
            if isinstance(each, Exception):
                raise each
            yield each

    def pods(self, *, latest: bool = False) -> list[dict[str, Any]]:
        return self._pods

    def warnings(self) -> list[dict[str, Any]]:
        return self._events

    def warnings_about(self, uid: str) -> list[dict[str, Any]]:
        return self._events

    def last_lines(self, pod: str, container: str, previous: bool = False, lines: int = 20) -> list[str]:
        assert container == self.kind.container
        return self._log.get(pod, []) if isinstance(self._log, Mapping) else self._log


def end(api: FakeApi, **held: Any) -> str:
    return Waiting(api, **held).until_end()


@pytest.mark.parametrize(
    ("conditions", "now"),
    [
        ("", "Pending"),
        ("Created", "Created"),
        ("Created Running", "Running"),
        ("Created Running Succeeded", "Succeeded"),
        ("Failed Running", "Failed"),
    ],
)
def test_the_condition_that_holds(conditions: str, now: str) -> None:
    assert job_status.condition(job(*conditions.split()))[0] == now


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no cpu"}


def test_the_first_to_fail_is_to_blame() -> None:
    pods = [ended("j-master-0", 1, "00:09"), ended("j-worker-0", 3, "00:01", "lastState")]
    blamed = [("j-worker-0", "pytorch", True), ("j-master-0", "pytorch", False)]
    assert job_status.failed_containers(pods) == blamed
    assert job_status.failed_containers([ended("j-master-0", 0, "x")]) == []


def test_a_failure_shows_the_last_lines_and_how_to_go_on() -> None:
    api = FakeApi([job("Failed", message="backoff")], [ended("j-worker-0", 1, "1")], ["Traceback", "boom"])
    with pytest.raises(RunFailedError, match=r"(?s)backoff.*pod j-worker-0.*boom.*fix: "):
        end(api)


RENDEZVOUS = (
    "Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected"
)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        *((f"KeyError: '{name}'", name) for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE", "MASTER_ADDR")),
        (f"ValueError: {RENDEZVOUS}, but not set", "RANK"),
    ],
)
def test_a_script_for_torchrun_that_was_started_without_it_is_told_of_it(said: str, name: str) -> None:
    api = FakeApi([job("Failed")], [ended("j-worker-0", 1, "1")], ["Traceback", said])
    told = rf"\n  {name} is a variable that torchrun sets.*own-project.md#"
    with pytest.raises(RunFailedError, match=told):
        end(api)


@pytest.mark.parametrize("said", ["KeyError: 'label'", "KeyError: 'rank'", "LOCAL_RANK"])
def test_another_missing_key_is_no_matter_of_torchrun(said: str) -> None:
    with pytest.raises(RunFailedError) as failed:
        end(FakeApi([job("Failed")], [ended("j-worker-0", 1, "1")], ["Traceback", said]))
    assert "torchrun" not in str(failed.value)


def raised(prefix: str, text: str) -> list[str]:
    lines = [
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "    step()",
        text,
    ]
    return [f"{prefix}{line}" for line in lines]


def report(rank: int, local: int) -> list[str]:
    """What torchrun 2.6 prints when this rank has failed first, and another one with it."""
    cause = [
        "  time      : 2026-01-01_00:00:00",
        "  host      : j-worker-0",
        f"  rank      : {rank} (local_rank: {local})",
        "  exitcode  : 1 (pid: 12)",
        "  error_file: <N/A>",
        "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    ]
    failed = f"E0101 00:00:00.0 1 torch/.../api.py:869] failed (exitcode: 1) local_rank: {local}"
    own = ["Traceback (most recent call last):", '  File "torchrun", line 33', "ChildFailedError: ", "=" * 60]
    others = ["x.py FAILED", "-" * 60, "Failures:", "[1]:", *cause, "-" * 60]
    return [failed, *own, *others, "Root Cause (first observed failure):", "[0]:", *cause, "=" * 60]


NOISE = [f"step {number}" for number in range(300)]
CAUSE, CONSEQUENCE = "ValueError: the cause", "DistBackendError: lost a peer"


@pytest.mark.parametrize(
    "before",
    [
        [*raised("[rank5]: ", CAUSE), *raised("[rank4]: ", CONSEQUENCE)],
        [*raised("[rank4]: ", CONSEQUENCE), *raised("[rank5]: ", CAUSE)],
        [*chain(*zip(raised("[rank5]: ", CAUSE), raised("[rank4]: ", CONSEQUENCE), strict=True))],
        [*raised("[default1]:", CAUSE), *raised("[default0]:", CONSEQUENCE)],
        [*raised("", CAUSE), *raised("", CONSEQUENCE)],
        [*raised("", "KeyError: of an earlier try"), *report(4, 0)[:1], *raised("", CAUSE), "closing signal"],
        [CAUSE, "a process that prints no traceback"],
    ],
    ids=["in order", "after it", "between each other", "teed", "without ranks", "tried again", "printed"],
)
def test_below_torchrun_the_exception_of_the_rank_that_failed_first_is_shown(before: list[str]) -> None:
    shown = failure_lines([*NOISE, *before, *report(5, 1)])
    text = "\n".join(shown)
    assert CAUSE in text
    assert "rank      : 5 (local_rank: 1)" in text
    assert CONSEQUENCE not in text
    assert "earlier try" not in text
    assert len(shown) <= 20


def test_a_failure_below_torchrun_is_told_with_its_exception() -> None:
    log = [*raised("[rank1]: ", CAUSE), *report(1, 1)]
    with pytest.raises(RunFailedError, match=CAUSE):
        end(FakeApi([job("Failed")], [ended("j-worker-0", 1, "1")], log))


def test_other_logs_end_with_their_last_lines() -> None:
    assert failure_lines(NOISE) == NOISE[-20:]
    assert failure_lines(["one", "Root Cause (first observed failure):"])[-1].startswith("Root Cause")


CRASHED = [ended("j-worker-0", 1, "1"), ended("j-worker-1", 1, "2")]


@pytest.mark.parametrize(
    ("pods", "logs", "followed", "shown"),
    [
        (CRASHED, {"j-worker-1": ["boom"]}, ["step"], "last lines of pod j-worker-1,.*boom"),
        (CRASHED, {"j-master-0": ["lost a peer"]}, [], "last lines of pod j-master-0,.*lost a peer"),
        ([], {}, ["step"], "last lines of pod j-master-0,.*step"),
    ],
    ids=["of another that failed", "of rank 0", "as they were followed"],
)
def test_where_the_log_to_blame_is_gone_the_next_one_is_shown(
    pods: list[dict[str, Any]], logs: dict[str, list[str]], followed: list[str], shown: str
) -> None:
    wait = Waiting(FakeApi([job("Failed")], pods, logs))
    wait.follower.latest.extend(followed)
    with pytest.raises(RunFailedError, match=f"(?s){shown}"):
        wait.until_end()


def test_a_job_that_nobody_followed_and_whose_pods_are_gone_has_no_title_without_lines() -> None:
    with pytest.raises(RunFailedError) as failed:
        end(FakeApi([job("Failed")]))
    assert "last lines" not in str(failed.value)
    assert "no log can be read now, and none was read while the pods ran" in str(failed.value)


@pytest.mark.parametrize(("seen", "told"), [([job("Failed")], 1), ([job("Running"), job("Failed")], 0)])
def test_make_up_is_told_which_job_had_failed_before(
    seen: list[dict[str, Any]], told: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "jobs"
    monkeypatch.setattr(provider, "_job", lambda _: FakeApi(seen))
    with pytest.raises(RunFailedError):
        provider.RunProvider().create(PROPS)  # plain `pulumi up`: nobody is told, and nothing breaks
    monkeypatch.setenv(agreed.FAILED_JOBS, str(file))
    for _ in range(2):
        with pytest.raises(RunFailedError):
            provider.RunProvider().create(PROPS)
    lines = file.read_text().splitlines() if file.exists() else []
    assert [json.loads(line) for line in lines] == 2 * told * [
        {"namespace": "kubeflow", "name": "j", "uid": "u", "kind": "pytorchjobs.v1.kubeflow.org"}
    ]


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    """Lets so many seconds pass between two looks at the clock, which it returns."""

    def of(seconds: int) -> Iterator[int]:
        clock = count(0, seconds)
        monkeypatch.setattr(time, "monotonic", lambda: next(clock))
        return clock

    return of


KUBELET = 'MountVolume.SetUp failed for volume "models" : mount failed: exit status 32\nMounting command: x\n'
UNMOUNTED = {
    "no helper": ("mount: /x: bad option; you might need a /sbin/mount.<type> helper program.", True),
    "no kernel": ("mount.nfs: No such device", True),
    "unknown": ("mount: /x: unknown filesystem type 'nfs'.", True),
    "no server": ("mount.nfs: Failed to resolve server nfs.example: Name or service not known", False),
    "away": ("mount.nfs: Connection refused", False),
}


def without_volume(*messages: str) -> FakeApi:
    """A job whose pod waits for its volume, of which the kubelet says this, one after the other."""
    waits = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    there = pod(phase="Pending", containerStatuses=[{"name": "pytorch", **waits}])
    there["spec"] = {"nodeName": "worker"}
    mounts = enumerate(messages)
    events = [{"reason": "FailedMount", "message": text, "lastTimestamp": str(at)} for at, text in mounts]
    return FakeApi([job("Created")] * 60, [there], events=[{"reason": "BackOff", "message": "x"}, *events])


@pytest.mark.parametrize("case", UNMOUNTED)
def test_a_volume_that_cannot_be_mounted_ends_the_wait(case: str, ticks: Ticks) -> None:
    (printed, hopeless), clock = UNMOUNTED[case], ticks(10)
    api = without_volume(f"{KUBELET}Output: {printed}\n", f"{job_status.UNSAID}: timed out")
    with pytest.raises(RunFailedError) as failed:
        end(api)
    beginning = f"cannot run: pod j-master-0: FailedMount: on node worker: {printed.rstrip('.')}"
    assert beginning in str(failed.value)
    assert (job_status.CLIENT in str(failed.value)) == hopeless
    assert (next(clock) < 100) == hopeless, "what may pass is waited for"
    assert len(api.shown) == 2, "and said at once"


def test_a_volume_that_comes_late_fails_nothing() -> None:
    api = without_volume(f"{KUBELET}Output: mount.nfs: Connection refused")
    api._jobs = [job("Created"), job("Succeeded")]
    assert end(api) == "Succeeded"


@pytest.mark.parametrize("state", [{"running": {}}, {"waiting": {"reason": "CrashLoopBackOff"}}])
def test_a_pod_that_had_its_volume_is_not_asked_about(state: dict[str, Any]) -> None:
    api = without_volume(f"{KUBELET}Output: mount.nfs: No such device")
    api._pods[0]["status"]["containerStatuses"][0]["state"] = state
    api._jobs = [job("Succeeded")]
    assert end(api) == "Succeeded"
    assert "FailedMount" not in "".join(api.shown)


FULL = 'Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". '
"""As pkg/kubelet/eviction/helpers.go of Kubernetes 1.34 words it."""
ROOM = "Give /tmp more room: `job: {pod: {spec: {volumes: [{name: tmp, emptyDir: {sizeLimit: 5Gi}}]}}}`"


def evicted(uid: str = "p", message: str = FULL, reason: str = "Evicted") -> dict[str, Any]:
    killed = {"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": "2026-01-01T00:00:09Z"}}
    containers = [{"name": "pytorch", "state": killed}]
    found = pod(phase="Failed", reason=reason, message=message, containerStatuses=containers)
    return {**found, "metadata": {"name": "j-master-0", "uid": uid}}


def running(uid: str) -> dict[str, Any]:
    return {**pod(phase="Running"), "metadata": {"name": "j-master-0", "uid": uid}}


def with_limit(limit: int, *conditions: str) -> dict[str, Any]:
    return {**job(*conditions), "spec": {**SPEC, "runPolicy": {"backoffLimit": limit}}}


class Replaced(FakeApi):
    """A job whose pods change from look to look; the events are about the pod with that uid."""

    def __init__(self, looks: list[tuple[dict[str, Any], list[dict[str, Any]]]], gone: set[str]) -> None:
        super().__init__([now for now, _ in looks])
        self.looks, self.gone = iter([pods for _, pods in looks]), gone

    def pods(self, *, latest: bool = False) -> list[dict[str, Any]]:
        return next(self.looks)

    def warnings_about(self, uid: str) -> list[dict[str, Any]]:
        others = {"reason": "BackOff", "message": "x"}
        return [others, {"reason": "Evicted", "message": FULL}] if uid in self.gone else [others]


def test_an_evicted_pod_is_told_in_its_own_words_with_what_to_change() -> None:
    api = FakeApi([job("Restarting"), job("Failed", message="1 replica failed")], [evicted()], ["boom"])
    with pytest.raises(RunFailedError) as failed:
        end(api)
    said = f"pod j-master-0: Evicted: {FULL}{ROOM}"
    assert api.shown[:2] == ["j: pods: j-master-0 Failed (Evicted)", f"j: Restarting; {said}"]
    assert said in str(failed.value)


SCRATCH = "`job: {pod: {spec: {volumes: [{name: scratch, emptyDir: {sizeLimit: 1500Mi}}]}}}`"
MORE = "Give a replica more storage: `job: {{resources: {{ephemeral-storage: {}}}}}`"


@pytest.mark.parametrize(
    ("message", "fix"),
    [
        (FULL, ROOM),
        (
            'Usage of EmptyDir volume "scratch" exceeds the limit "300Mi". ',
            f"Give the volume scratch more room: {SCRATCH}",
        ),
        ('Container pytorch exceeded its local ephemeral storage limit "8Gi". ', MORE.format("40Gi")),
        (
            "Pod ephemeral local storage usage exceeds the total limit of containers 200Mi. ",
            MORE.format("1000Mi"),
        ),
        ('Container beside exceeded its local ephemeral storage limit "8Gi". ', ""),
        ("The node was low on resource: memory. ", ""),
    ],
)
def test_an_eviction_names_the_key_that_prevents_it(message: str, fix: str) -> None:
    (trouble,) = job_status.troubles([evicted(message=message)])
    assert str(trouble) == f"pod j-master-0: Evicted: {message}{fix}".strip()


def test_a_pod_that_was_evicted_between_two_looks_is_told_by_its_event() -> None:
    api = Replaced([(job("Running"), [running("p")]), (job("Running"), [running("q")])], gone={"p"})
    with pytest.raises(AssertionError, match="do not end"):
        end(api)
    assert api.shown[-1] == f"j: Running; pod j-master-0: Evicted: {FULL}{ROOM}"


@pytest.mark.parametrize(("limit", "looks"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_evictions_count_as_restarts(limit: int, looks: int) -> None:
    """The operator replaces evicted pods until the deadline: it counts the restarts of containers alone."""
    pods = [(with_limit(limit, "Restarting"), [evicted(str(number))]) for number in range(9)]
    api = Replaced(pods, gone=set())
    with pytest.raises(RunFailedError, match="cannot run: pod j-master-0: Evicted: Usage of"):
        end(api)
    assert len(list(api.looks)) == 9 - looks


def test_evictions_of_a_job_without_a_limit_are_counted_by_its_controller() -> None:
    pods = [(job("Restarting"), [evicted(str(number))]) for number in range(9)]
    api = Replaced([*pods, (job("Succeeded"), [])], gone=set())
    assert end(api) == "Succeeded"
    assert "(evictions so far: 9)" in api.shown[-1]


WORKER_SPEC = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}
ELASTIC_SPEC = {**WORKER_SPEC, "elasticPolicy": {"minReplicas": 1}}
PAIR_SPEC = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 1}}}


def done(name: str, second: int, code: int = 0) -> dict[str, Any]:
    end = {"terminated": {"exitCode": code, "finishedAt": f"2026-01-01T00:00:{second:02}Z"}}
    return pod(name, phase="Succeeded", containerStatuses=[{"name": "pytorch", "state": end}])


def started(name: str, second: int, restarts: int = 1) -> dict[str, Any]:
    """A replica that runs, since this second, after it has ended with status 1 a second before."""
    before = {"exitCode": 1, "finishedAt": f"2026-01-01T00:00:{second - 1:02}Z"}
    container = {
        "name": "pytorch",
        "restartCount": restarts,
        "state": {"running": {"startedAt": f"2026-01-01T00:00:{second:02}Z"}},
        **({"lastState": {"terminated": before}} if restarts else {}),
    }
    return pod(name, phase="Running", containerStatuses=[container])


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        (PAIR_SPEC, [started("j-master-0", 9), done("j-worker-0", 7)]),
        (PAIR_SPEC, [started("j-master-0", 9), done("j-worker-0", 9)]),
        (PAIR_SPEC, [started("j-master-0", 9), done("j-worker-1", 20), done("j-worker-0", 7)]),
        (WORKER_SPEC, [started("j-worker-1", 9), done("j-worker-0", 7)]),
    ],
)
def test_a_replica_that_waits_for_one_that_has_ended_is_given_up_at_once(
    spec: dict[str, Any], pods: list[dict[str, Any]]
) -> None:
    api = FakeApi([{**job("Running"), "spec": spec}], pods, ["OSError: No space left on device"])
    told = "cannot run: .*after j-worker-0 had ended; this run cannot finish"
    with pytest.raises(RunFailedError, match=f"(?s){told}.*No space left on device"):
        end(api)
    assert "j-worker-0 had ended; this run cannot finish" in "".join(api.shown)


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        (SPEC, [started("j-master-0", 9)]),
        (PAIR_SPEC, [started("j-master-0", 5), done("j-worker-0", 7)]),
        (PAIR_SPEC, [started("j-master-0", 9, restarts=0), done("j-worker-0", 7)]),
        (PAIR_SPEC, [started("j-master-0", 5), started("j-worker-1", 9), done("j-worker-0", 7)]),
        (ELASTIC_SPEC, [started("j-worker-1", 9), done("j-worker-0", 7)]),
        ({"trainer": {"numNodes": 2}}, [started("j-node-0-0-a", 9), done("j-node-0-1-a", 7)]),
    ],
    ids=["one replica", "trained with it since", "first start", "another decides", "elastic", "all again"],
)
def test_a_replica_that_can_end_is_waited_for(spec: dict[str, Any], pods: list[dict[str, Any]]) -> None:
    api = FakeApi([{**job("Running"), "spec": spec}, {**job("Succeeded"), "spec": spec}], pods)
    assert end(api) == "Succeeded"
    assert "cannot finish" not in "".join(api.shown)


def test_a_job_suspended_as_asked_is_not_waited_for() -> None:
    assert end(FakeApi([job("Suspended")]), suspended=True) == "Suspended"


def test_a_job_suspended_by_others_is_no_success() -> None:
    api = FakeApi([job("Suspended"), job("Running"), job("Succeeded")])
    assert end(api) == "Succeeded"
    assert api.shown[0] == "j: Suspended, though the stack file does not ask for it"


QUEUED = "j: Suspended, queued in team-a until Kueue admits it"
NO_QUEUE = "queue team-a: NoSuchQueue: namespace kubeflow has no LocalQueue of this name, so the job is never admitted"
GROUP = "/apis/kueue.x-k8s.io"
LOCAL_QUEUE = f"{GROUP}/v1beta2/namespaces/kubeflow/localqueues/team-a"


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Path -> what the server answers: Kueue with this queue, and no other."""
    found = {GROUP: {"preferredVersion": {"version": "v1beta2"}}, LOCAL_QUEUE: {}}
    play(monkeypatch, lambda request: found.get(request.path, 404))
    return found


def test_a_queued_job_is_waited_for_and_so_is_one_that_is_preempted(queues: dict[str, Any]) -> None:
    states = ["Created", "Suspended", "Running", "Suspended", "Running", "Succeeded"]
    api = FakeApi([job(each) for each in states])
    assert end(api, queue="team-a") == "Succeeded"
    assert api.shown == ["j: Created", QUEUED, "j: Running", QUEUED, "j: Running", "j: Succeeded"]


@pytest.fixture
def slow(ticks: Ticks) -> None:
    ticks(waiting.NO_PROGRESS_S // 2)


@pytest.mark.usefixtures("queues", "slow")
def test_a_queue_may_be_long() -> None:
    assert end(FakeApi([*[job("Suspended")] * 50, job("Succeeded")]), queue="team-a") == "Succeeded"


@pytest.mark.usefixtures("queues", "slow")
def test_an_admitted_job_has_to_make_progress() -> None:
    with pytest.raises(NoProgressError, match="condition Running"):
        end(FakeApi([*[job("Suspended")] * 9, *[job("Running")] * 9]), queue="team-a")


def reported(percentage: int, left_s: int) -> dict[str, Any]:
    """A TrainJob whose program has reported."""
    told = {"progressPercentage": percentage, "estimatedRemainingSeconds": left_s}
    spec = {"trainer": {"numNodes": 1}}
    return {**job(), "spec": spec, "status": {"jobsStatus": [{"active": 1}], "trainerStatus": told}}


def test_what_a_job_reports_is_shown_as_seldom_as_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [
        reported(0, 9),
        reported(50, 5),
        reported(50, 5),
        {**reported(100, 0), "status": job("Complete")["status"]},
    ]
    api = FakeApi(jobs)
    monkeypatch.setattr(waiting, "SHOW_EVERY_S", 0)
    end(api)
    assert api.shown == [
        "j: Running",
        "j: 0 % done, 0:00:09 left",
        "j: 50 % done, 0:00:05 left",
        "j: Succeeded",
    ]
    monkeypatch.setattr(waiting, "SHOW_EVERY_S", 3600)
    api.shown.clear()
    end(api)
    assert api.shown == ["j: Running", "j: 0 % done, 0:00:09 left", "j: Succeeded"]


@pytest.mark.usefixtures("slow")
def test_a_report_is_progress() -> None:
    assert end(FakeApi([*(reported(part, 9) for part in range(50)), job("Succeeded")])) == "Succeeded"


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("missing", [GROUP, LOCAL_QUEUE], ids=["no Kueue", "no such queue"])
def test_a_queue_that_is_not_there_is_told_and_given_up(queues: dict[str, Any], missing: str) -> None:
    del queues[missing]
    api = FakeApi([job("Suspended")] * 50)
    with pytest.raises(NoProgressError, match="NoSuchQueue"):
        end(api, queue="team-a")
    assert api.shown == [f"{QUEUED}; {NO_QUEUE}"]


@pytest.mark.parametrize("answer", [403, 500])
@pytest.mark.parametrize("asked", [GROUP, LOCAL_QUEUE])
def test_a_queue_that_cannot_be_asked_for_is_taken_to_be_there(
    queues: dict[str, Any], asked: str, answer: int
) -> None:
    queues[asked] = answer
    api = FakeApi([job("Suspended"), job("Succeeded")])
    assert end(api, queue="team-a") == "Succeeded"
    assert api.shown[0] == QUEUED


ADMITTED = {**job("Created", "Suspended"), "spec": {**SPEC, "runPolicy": {"suspend": False}}}
"""The training-operator leaves the condition Suspended until it has created a pod."""


@pytest.mark.usefixtures("queues")
@pytest.mark.parametrize(
    ("first", "queue"),
    [(job("Created"), {}), (ADMITTED, {"queue": "team-a"})],
    ids=["without a queue", "admitted by Kueue"],
)
def test_a_quota_is_reported_at_once(first: dict[str, Any], queue: dict[str, str]) -> None:
    event = {"reason": "FailedCreatePod", "message": "exceeded quota: team", "lastTimestamp": "1"}
    api = FakeApi([first, job("Succeeded")], events=[event])
    assert end(api, **queue) == "Succeeded"
    assert api.shown[0] == "j: Created; job j: FailedCreatePod: exceeded quota: team"


@pytest.mark.parametrize("reason", ["FailedCreatePod", "FailedCreate"], ids=["PyTorchJob", "Job"])
def test_a_pod_that_the_server_finds_invalid_ends_the_wait(reason: str) -> None:
    told = 'Error creating: Pod "j-master-0" is invalid: spec.tolerations[0].effect: Unsupported value: "No"'
    event = {"reason": reason, "message": told, "lastTimestamp": "1"}
    with pytest.raises(RunFailedError, match=r"spec\.tolerations\[0\]\.effect: Unsupported value"):
        end(FakeApi([job("Created")], events=[event]))


EXEC_FORMAT = {"terminated": {"exitCode": 128, "message": "exec format error"}}


@pytest.mark.parametrize(
    ("pods", "log"),
    [
        ([waiting_pod("ErrImagePull", "no match for platform in manifest")], []),
        ([ended("j-master-0", 1, "1", "lastState")], ["exec /usr/bin/python3: exec format error"]),
        ([pod(containerStatuses=[{"name": "pytorch", "state": EXEC_FORMAT}])], []),
    ],
    ids=["refused by containerd", "said by the log", "said by the runtime"],
)
def test_another_processors_image_ends_the_wait(pods: list[dict[str, Any]], log: list[str]) -> None:
    with pytest.raises(RunFailedError, match="for another processor than the node's"):
        end(FakeApi([job("Running")], pods, log))


def test_a_log_that_comes_late_is_read_again_and_one_that_is_there_is_read_once() -> None:
    logs = [[], [], ["exec /usr/bin/python3: exec format error"]]

    class LateLog(FakeApi):
        def last_lines(self, *_: object, **__: object) -> list[str]:
            return logs.pop(0)

    crashed = [ended("j-master-0", 1, "1", "lastState")]
    with pytest.raises(RunFailedError, match="for another processor than the node's"):
        end(LateLog([job("Running")] * 3, crashed))
    logs[:] = [["Traceback"]]
    assert end(LateLog([job("Running"), job("Running"), job("Succeeded")], crashed)) == "Succeeded"


def test_a_wait_without_progress_ends_with_reason_and_runbook(ticks: Ticks) -> None:
    ticks(600)
    api = FakeApi([job("Created")] * 9, [pod(conditions=[UNSCHEDULABLE])])
    with pytest.raises(
        NoProgressError, match=r"no progress for 30 minutes: .*Unschedulable: no cpu"
    ) as error:
        end(api)
    assert (Path(__file__).resolve().parents[4] / waiting.RUNBOOK).exists()
    assert waiting.RUNBOOK in str(error.value)


def test_any_change_is_progress(ticks: Ticks) -> None:
    ticks(1000)
    states = [job("Created"), job("Created", "Running"), job("Running"), job("Running", message="x")]
    assert end(FakeApi([*states, job("Succeeded")])) == "Succeeded"


TRANSIENT = [
    ConnectionRefusedError("refused"),
    ConnectionResetError("reset"),
    http.client.IncompleteRead(b""),
    http.client.RemoteDisconnected("closed without response"),
    urllib3.exceptions.ProtocolError("connection broken"),
    urllib3.exceptions.MaxRetryError(urllib3.HTTPConnectionPool("x"), "/", None),
    urllib3.exceptions.ReadTimeoutError(urllib3.HTTPConnectionPool("x"), "/", "timed out"),
    TimeoutError("timed out"),
    ssl.SSLError("handshake"),
    ConfigException("no kubeconfig"),
    *(ApiException(status=code, reason="r") for code in (0, 408, 429, 500, 502, 503, 504)),
]


def name_of(error: Exception) -> str:
    return f"{type(error).__name__}{getattr(error, 'status', '')}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that patience sees; its pauses are as long as a command's."""
    monkeypatch.setattr(retry, "PAUSE_S", PAUSE_S)
    return stopped_clock(monkeypatch)


def failing(*errors: Exception) -> Callable[[], str]:
    """A call that meets these errors, one after the other, before its answer."""
    left = iter(errors)

    def call() -> str:
        for error in left:
            raise error
        return "there"

    return call


@pytest.mark.parametrize("error", TRANSIENT, ids=name_of)
def test_a_server_that_is_away_is_waited_for_and_said_once(error: Exception, clock: list[float]) -> None:
    shown: list[str] = []
    assert Patience(shown.append).ask(failing(*[error] * 45)) == "there"
    assert clock[0] >= 90, "a minute and a half without a break is survived"
    assert [line.partition(";")[0] for line in shown] == [
        "the API server does not answer",
        "the API server is back after 90 s",
    ]


@pytest.mark.parametrize("error", TRANSIENT, ids=name_of)
def test_a_server_that_stays_away_is_an_error_that_changes_nothing(
    error: Exception, clock: list[float]
) -> None:
    with pytest.raises(UnreachableError, match="continues from here"):
        Patience(lambda _: None).ask(failing(*[error] * 999))
    assert clock[0] >= 90


def test_a_server_that_has_not_read_its_roles_yet_is_waited_for(clock: list[float]) -> None:
    """It says 403 to everybody for some seconds after its start."""
    assert Patience(lambda _: None).ask(failing(*[ApiException(status=403)] * 5)) == "there"


@pytest.mark.parametrize(
    ("code", "asked_for_s"), [(403, STARTING_S), *((code, 0) for code in (400, 401, 404, 409, 410, 422))]
)
def test_a_servers_verdict_is_believed(code: int, asked_for_s: float, clock: list[float]) -> None:
    """A refusal, once it lasts."""
    with pytest.raises(ApiException):
        Patience(lambda _: None).ask(failing(*[ApiException(status=code)] * 999))
    assert clock[0] == asked_for_s


PROPS = {"namespace": "kubeflow", "job": "j", "uid": "u", "run": "j-1"}


@pytest.mark.parametrize("error", TRANSIENT, ids=name_of)
def test_a_refresh_during_a_blip_keeps_the_run(
    error: Exception, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = failing(error, error)
    known = {**PROPS, "jobStatus": "Succeeded", "accuracy": 0.97, "loss": 0.1}
    play(monkeypatch, lambda _: answer() and job("Succeeded"))
    assert provider.RunProvider().read("j-1", known).outs == known


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (job("Succeeded"), True),
        (job("Running"), False),
        (None, False),
        (UnreachableError("away"), UnreachableError),
    ],
)
def test_only_a_missing_job_is_gone(
    answer: Any, kept: bool | type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def job_now(self: JobApi) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(JobApi, "job", job_now)
    play(monkeypatch, lambda _: None)
    known = {**PROPS, "jobStatus": "Succeeded"}
    if isinstance(kept, type):
        with pytest.raises(kept):
            provider.RunProvider().read("j-1", known)
        monkeypatch.setenv(agreed.DELETE_UNREACHABLE, "true")
        assert provider.RunProvider().read("j-1", known).id == "", "its owner says that the cluster is gone"
    else:
        assert bool(provider.RunProvider().read("j-1", known).id) is kept


@pytest.mark.parametrize("is_there", [True, False])
def test_a_job_is_found_by_its_name(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    running = job("Running")
    running["metadata"]["name"] = "j"
    monkeypatch.setattr(JobApi, "_named", lambda self: running if is_there else None)
    monkeypatch.setattr(JobApi, "_ask", lambda self, call: [])
    api = JobApi(ApiAddress(None), "kubeflow", "j", "", print)
    assert api.find() == (running if is_there else None)
    assert api.uid == ("u" if is_there else "")


LINES = (
    '{"step": 5, "epoch": 1, "loss": 0.5}\n'
    '{"step": 9, "epoch": 1, "accuracy": 0.95211267, "test_loss": 0.13323328}\n'
    '{"step": 12, "epo'
)


def test_the_file_beside_the_model_has_the_same_digits_as_the_log() -> None:
    assert journal_metrics(LINES) == {"accuracy": 0.9521, "loss": 0.1332}
    assert journal_metrics("") == {}


@pytest.mark.parametrize(
    ("log", "expected"),
    [(["accuracy=0.5", "loss=0.25"], (0.5, 0.25)), ([], (0.9521, 0.1332))],
    ids=["the log is there", "the log went with its pod"],
)
def test_metrics_outlive_the_pods(log: list[str], expected: tuple[float, float], tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "j-1"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(LINES)
    follower = Waiting(FakeApi([], log=log)).follower
    found = result.metrics_of(follower, {**PROPS, "models": str(tmp_path)}, lambda _: None)
    assert (found["accuracy"], found["loss"]) == expected


def test_elsewhere_a_pod_reads_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(inside: list[str], files: list[str], target: Any, patience: Any) -> None:
        run = "/opt/mnist/models/runs/j-1"
        assert (inside, files) == (["exec"], [f"{run}/metrics.jsonl", f"{run}/printed.jsonl"])
        target.write(LINES.encode())

    monkeypatch.setattr(result, "running", lambda volume, patience: nullcontext(["exec"]))
    monkeypatch.setattr(result, "read_first", read)
    volume = {"image": "i", "claim": "c", "mountPath": "/opt/mnist/models"}
    follower = Waiting(FakeApi([])).follower
    found = result.metrics_of(follower, {**PROPS, **volume}, lambda _: None)
    assert found == {"accuracy": 0.9521, "loss": 0.1332}


def test_a_log_that_the_node_has_removed_is_that_of_the_current_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container that crashes at once starts twice within a second, and its first log is gone."""
    logs = {True: "unable to retrieve container logs for containerd://f5be9c", False: "first\nlast\n"}
    play(monkeypatch, lambda request: logs[request.query["previous"] == "true"])
    api = JobApi(ApiAddress(None), "kubeflow", "j", "u", lambda _: None)
    assert api.last_lines("j-master-0", "pytorch", previous=True) == ["first", "last"]
    logs[False] = logs[True]
    assert api.last_lines("j-master-0", "pytorch", previous=True) == []


@pytest.mark.parametrize(
    ("answer", "previous", "longest_s"),
    [(403, True, 0), (502, False, 19)],
    ids=["this user may not read it", "the kubelet is away"],
)
def test_a_log_that_cannot_be_read_holds_up_the_log_alone(
    answer: int, previous: bool, longest_s: float, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at a failing job waited 20 s for a log that this user may not read."""
    play(monkeypatch, lambda _: answer)
    api = JobApi(ApiAddress(None), "kubeflow", "j", "u", lambda _: None)
    assert api.last_lines("j-master-0", "pytorch", previous=previous) == []
    assert clock[0] <= longest_s
