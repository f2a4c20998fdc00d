"""What is kept of a run while its job is followed: both APIs, every way to end."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from infra.job.pod import TAKES
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import OF_API, PYTORCHJOB, JobKind
from infra.objects.retry import UnreachableError
from infra.process import CommandError
from infra.run import provider, record, replica_logs
from infra.run.copy import CopyError
from infra.run.job_api import JobApi, JobGoneError, api_of
from infra.run.log_follower import LogLine
from infra.run.metrics import named
from infra.run.reader_pod import MountedClaim
from infra.run.record import DELETED, Record
from infra.run.waiting import RunFailedError, Waiting
from tests.unit.infra.objects.played_api import Request, play

SECRET = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "login", "key": "token"}}}
PLAIN = [{"name": "LR", "value": "0.1"}, {"name": "TRAINER_RUN", "value": "j-1"}, SECRET]
IMAGE = "registry/own@sha256:1"
Follow = Callable[..., list[str]]


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def names(kind: JobKind, start: int = 0) -> tuple[str, str]:
    """The pods of rank 0 and rank 1 at a start."""
    if kind is PYTORCHJOB:
        return "j-master-0", "j-worker-0"
    return f"j-node-0-0-aaaa{start}", f"j-node-0-1-bbbb{start}"


def replica(kind: JobKind, pod: str) -> str:
    return pod if kind is PYTORCHJOB else pod.rpartition("-")[0]


def job(
    kind: JobKind, *conditions: str, message: str = "", uid: str = "u", env: Any = PLAIN
) -> dict[str, Any]:
    container = {"name": kind.container, "image": IMAGE, "args": ["train.py"], "env": env}
    template = {"template": {"spec": {"containers": [container]}}, "replicas": 1}
    v1 = {"pytorchReplicaSpecs": {"Master": template, "Worker": template}}
    v2 = {"trainer": {"numNodes": 2, "numProcPerNode": 1, "args": ["train.py"], "env": env[1:2]}}
    words = {"Succeeded": "Complete"} if kind is not PYTORCHJOB else {}
    held = [
        {"type": words.get(each, each), "status": "True", "message": message, "lastTransitionTime": at(30)}
        for each in conditions
    ]
    return {
        "metadata": {"name": "j", "uid": uid, "creationTimestamp": at(0)},
        "spec": v1 if kind is PYTORCHJOB else v2,
        "status": {"conditions": held},
    }


def pod(kind: JobKind, name: str, restarts: int = 0, env: Any = PLAIN, **states: Any) -> dict[str, Any]:
    status = {"name": kind.container, "restartCount": restarts, **states}
    names = ("PET_NNODES", "KUBEFLOW_TRAINER_SERVER_URL") if kind is not PYTORCHJOB else ()
    injected = [{"name": each, "value": "2"} for each in names]
    container = {"name": kind.container, "image": IMAGE, "args": ["train.py"], "env": [*env, *injected]}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": at(1)},
        "spec": {"nodeName": f"node-of-{name}", "containers": [container]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


def running(begun: int = 2) -> dict[str, Any]:
    return {"running": {"startedAt": at(begun)}}


def ended(code: int, begun: int = 2, end: int = 20) -> dict[str, Any]:
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": at(begun), "finishedAt": at(end)}}


@dataclass
class Moment:
    """The job and its pods at one look; an error in the place of the job is raised."""

    job: dict[str, Any] | Exception
    pods: list[dict[str, Any]]


@dataclass
class Cluster:
    """A cluster's moments, one after the other, and the logs that its nodes have meanwhile.

    Parameters:
        logs: pod, or (pod, True) for its start before -> its log; a status in its place is the server's answer.
    """

    kind: JobKind
    moments: list[Moment]
    logs: dict[Any, Any] = field(default_factory=dict)
    asked: list[Request] = field(init=False)

    def __call__(self, request: Request) -> object:
        name = request.path.split("/")[-2]
        key = (name, True) if request.query.get("previous") == "True" else name
        return self.logs.get(key, 404)

    def api(self, monkeypatch: pytest.MonkeyPatch, shown: list[str] | None = None) -> JobApi:
        self.asked = play(monkeypatch, self)
        cluster = self

        class Played(api_of(self.kind)):  # type: ignore[misc]
            now: Moment

            def observations(self) -> Iterator[dict[str, Any]]:
                for self.now in cluster.moments:
                    if isinstance(self.now.job, Exception):
                        raise self.now.job
                    yield self.now.job

            def pods(self, *, latest: bool = False) -> list[dict[str, Any]]:
                return self.now.pods

            def warnings(self) -> list[dict[str, Any]]:
                return []

            def warnings_about(self, uid: str) -> list[dict[str, Any]]:
                return []

            def last_lines(
                self, pod: str, container: str, previous: bool = False, lines: int = 20
            ) -> list[str]:
                return []

            def log_stream(self, pod: str, container: str, since: str = "") -> Iterator[bytes]:
                yield str(cluster.logs.get(pod, "")).encode()

        show = shown.append if shown is not None else lambda _: None
        return Played(ApiAddress(None), "kubeflow", "j", "u", show, self.kind)


def ending(kind: JobKind, outcome: str, pods: Any = (), logs: Any = None, **given: Any) -> Cluster:
    """A cluster whose job has ended at the first look."""
    return Cluster(kind, [Moment(job(kind, outcome, **given), [*pods])], logs or {})


@pytest.fixture(params=OF_API.values(), ids=lambda kind: kind.kind)
def kind(request: pytest.FixtureRequest) -> JobKind:
    found: JobKind = request.param
    return found


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "models" / "dev" / "runs" / "j-1"


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch, run: Path) -> Follow:
    """Waits for a cluster's job; returns what was shown, which ends with its error's text where there is one."""
    monkeypatch.setattr(replica_logs, "LOG_PATIENCE_S", 0)

    def followed(cluster: Cluster, model: str | None = None) -> list[str]:
        shown: list[str] = []
        api = cluster.api(monkeypatch, shown)
        try:
            Waiting(api, record=Record(api, run, model)).until_end()
        except (RunFailedError, JobGoneError) as error:
            shown.append(str(error))
        return shown

    return followed


def told(run: Path) -> dict[str, Any]:
    return dict(json.loads((run / agreed.RECORD).read_text()))


def printed(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / agreed.PRINTED).read_text().splitlines()]


def log_of(run: Path, kind: JobKind, pod: str) -> str:
    return (run / f"{replica(kind, pod)}.log").read_text()


def line(second: int, text: str) -> str:
    return f"{at(second)} {text}\n"


def test_a_run_that_succeeds_is_told_whole(follow: Follow, run: Path, kind: JobKind) -> None:
    first, second = names(kind)
    done = [pod(kind, each, state=ended(0)) for each in (first, second)]
    text = line(3, "epoch 1: loss=0.5, lr=1e-3") + line(9, "accuracy=0.9")
    logs = {first: text, second: line(3, "loss=7")}
    follow(ending(kind, "Succeeded", done, logs))
    found = told(run)
    assert [found[key] for key in ("outcome", "begin", "started", "end")] == [
        "Succeeded",
        at(0),
        at(2),
        at(30),
    ]
    assert found["configuration"] == {
        "image": IMAGE,
        "command": ["train.py"],
        "environment": {"LR": "0.1", "TOKEN": "(secret login, key token)"},
        "processes": 2,
    }
    assert printed(run) == [
        {"at": at(3), "epoch": 1, "loss": 0.5, "lr": 0.001},
        {"at": at(9), "accuracy": 0.9},
    ]
    assert "loss=7" in log_of(run, kind, second)
    assert "== Completed, exit code 0 ==" in log_of(run, kind, first)


def test_a_failure_at_the_limit_keeps_the_log_of_each_start_of_each_replica(
    follow: Follow, run: Path, kind: JobKind
) -> None:
    """The operators take the pods away: each log is read when its container has ended."""
    one, two = ([pod(kind, each, state=ended(1)) for each in names(kind, start)] for start in (0, 1))
    if kind is PYTORCHJOB:
        two = [pod(kind, each, 1, state=ended(1, 21, 22), lastState=ended(1)) for each in names(kind)]
    logs = {each: line(3, "first boom") for each in names(kind)}
    cluster = Cluster(kind, [Moment(job(kind), one)], logs)

    def moments() -> Iterator[Moment]:
        yield Moment(job(kind), one)
        cluster.logs = {each: line(22, "second boom") for each in names(kind, 1)}
        yield Moment(job(kind), two)
        cluster.logs = {}
        yield Moment(job(kind, "Failed", message="limit"), [])

    cluster.moments = moments()  # type: ignore[assignment]
    assert "limit" in follow(cluster)[-1]
    assert (told(run)["outcome"], told(run)["message"]) == ("Failed", "limit")
    for each in names(kind):
        text = log_of(run, kind, each)
        assert text.index("first boom") < text.index("second boom"), text
        assert text.count("== Error, exit code 1 ==") == 2


def test_an_evicted_replica_says_so_where_its_log_would_be(follow: Follow, run: Path, kind: JobKind) -> None:
    first, second = names(kind)
    evicted = pod(kind, second)
    evicted["status"] = {"phase": "Failed", "reason": "Evicted", "message": "The node was low."}
    there = pod(kind, first, state=running())
    follow(ending(kind, "Failed", [there, evicted], {first: line(3, "step")}))
    assert "Evicted: The node was low." in log_of(run, kind, second)
    assert "it was running when this log was read" in log_of(run, kind, first)
    assert "Evicted" in told(run)["message"]


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_job_that_goes_under_our_feet_ends_as_deleted(
    follow: Follow, run: Path, kind: JobKind, how: str
) -> None:
    first, _ = names(kind)
    going = pod(kind, first, state=running())
    going["metadata"]["deletionTimestamp"] = at(5)
    moments = [Moment(job(kind), [going]), Moment(JobGoneError(how), [])]
    follow(Cluster(kind, moments, {first: line(3, "loss=0.5")}))
    assert told(run)["outcome"] == DELETED
    assert told(run)["end"]
    assert "loss=0.5" in log_of(run, kind, first)


def test_a_follower_that_is_started_again_goes_on(
    follow: Follow, monkeypatch: pytest.MonkeyPatch, run: Path, kind: JobKind
) -> None:
    """What the first one has kept stays, also of a log whose beginning the kubelet has rotated away."""
    first, _ = names(kind)
    early, late = line(3, "loss=0.9"), line(8, "loss=0.5")
    api = Cluster(kind, [], {first: early}).api(monkeypatch)
    killed = Record(api, run)
    killed.see(job(kind), [pod(kind, first, state=ended(1))])
    assert (told(run)["outcome"], told(run)["end"]) == (None, None)
    follow(ending(kind, "Succeeded", [pod(kind, first, 1, state=ended(0))], {first: late}))
    assert [each["loss"] for each in printed(run)] == [0.9, 0.5]
    assert told(run)["outcome"] == "Succeeded"
    text = log_of(run, kind, first)
    assert text.index("loss=0.9") < text.index("loss=0.5")


@pytest.mark.parametrize("left", [line(8, "late"), ""], ids=["rotated", "deleted"])
def test_what_was_followed_is_kept_of_a_log_that_the_node_has_no_longer(
    follow: Follow, monkeypatch: pytest.MonkeyPatch, run: Path, kind: JobKind, left: str
) -> None:
    """Not what another start of the container has printed: that stands above."""
    first, second = names(kind)
    pods = [pod(kind, each, state=ended(1)) for each in (first, second)]
    cluster = ending(kind, "Failed", pods, {first: left} if left else {})
    kept = Record(cluster.api(monkeypatch), run)
    for at_second, text in ((1, "of the start before"), (3, "early"), (8, "late")):
        kept.follow(LogLine(at(at_second), text))
    kept.see(job(kind, "Failed"), pods)
    lines = [each.partition(" ")[2] for each in log_of(run, kind, first).splitlines()[1:-1]]
    assert lines == ["early", "late"]
    assert "early" not in log_of(run, kind, second)


def test_a_record_with_its_end_is_not_written_again(follow: Follow, run: Path, kind: JobKind) -> None:
    first, _ = names(kind)
    follow(ending(kind, "Succeeded", [pod(kind, first, state=ended(0))], {first: line(3, "a")}))
    before = {each.name: each.read_bytes() for each in run.iterdir()}
    again = ending(kind, "Succeeded")
    follow(again)
    assert again.asked == []
    assert {each.name: each.read_bytes() for each in run.iterdir()} == before


def test_an_end_stands_there_when_everything_is_done(
    follow: Follow, monkeypatch: pytest.MonkeyPatch, run: Path, kind: JobKind
) -> None:
    """Whoever is killed before that leaves the rest to the next one."""
    run.mkdir(parents=True)
    (run / "own.pt").write_text("new")
    killed = Record(Cluster(kind, []).api(monkeypatch), run, "own.pt")
    killed.see(job(kind, "Succeeded"), [])
    assert (told(run)["outcome"], told(run)["end"]) == (None, None)
    follow(ending(kind, "Succeeded"), "own.pt")
    assert told(run)["outcome"] == "Succeeded"
    assert (run.parents[1] / "own.pt").read_text() == "new"


@pytest.mark.parametrize("left", [[], [["2026-01-01T00:00:01Z", "job j", "Created"]]])
def test_a_job_that_is_gone_at_the_first_look_takes_nothing_away(
    follow: Follow, run: Path, kind: JobKind, left: list[Any]
) -> None:
    run.mkdir(parents=True)
    (run / agreed.TIMELINE).write_text(json.dumps(left))
    follow(Cluster(kind, [Moment(JobGoneError("gone"), [])]))
    assert json.loads((run / agreed.TIMELINE).read_text()) == left


def test_a_job_that_is_tried_again_has_no_end_until_it_ends(
    follow: Follow, monkeypatch: pytest.MonkeyPatch, run: Path, kind: JobKind
) -> None:
    follow(ending(kind, "Failed"))
    assert told(run)["outcome"] == "Failed"
    api = Cluster(kind, []).api(monkeypatch)
    api.uid = "another"
    Record(api, run).see(job(kind, uid="another"), [])
    assert (told(run)["uid"], told(run)["outcome"], told(run)["end"]) == ("another", None, None)


def test_a_job_that_takes_a_run_adds_nothing_but_its_timeline(
    follow: Follow, run: Path, kind: JobKind
) -> None:
    run.mkdir(parents=True)
    (run / "own.pt").write_text("weights")
    env = [*PLAIN, {"name": TAKES, "value": "true"}]
    taking = job(kind, "Succeeded", env=env)
    if kind is not PYTORCHJOB:
        taking["spec"]["trainer"]["env"] = env[1:]
    follow(Cluster(kind, [Moment(taking, [])]), "own.pt")
    assert {each.name for each in run.iterdir()} == {"own.pt", agreed.TIMELINE}
    assert not (run.parents[1] / "own.pt").exists(), "the job itself has put it there"


@pytest.mark.parametrize(
    ("outcome", "newer", "placed"),
    [("Succeeded", True, True), ("Succeeded", False, False), ("Failed", True, False)],
)
def test_the_model_goes_on_top_of_the_volume_when_the_run_has_succeeded(
    follow: Follow, run: Path, outcome: str, newer: bool, placed: bool
) -> None:
    run.mkdir(parents=True)
    own, top = run / "own.pt", run.parents[1] / "own.pt"
    own.write_text("new")
    top.write_text("old")
    os.utime(own, (1000, 1000))
    os.utime(top, (900, 900) if newer else (1000, 1000))
    follow(ending(PYTORCHJOB, outcome), "own.pt")
    assert top.read_text() == ("new" if placed else "old")
    assert max(each.stat().st_mtime for each in run.iterdir()) == 1000, (
        "its own files tell when the run has ended"
    )


@pytest.mark.parametrize("outcome", ["Succeeded", "Failed"])
@pytest.mark.parametrize(
    "error", [None, CopyError("no tar"), CommandError("failed:\nforbidden"), UnreachableError("away")]
)
def test_the_record_of_a_run_elsewhere_goes_to_its_volume_too(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    run: Path,
    outcome: str,
    error: Exception | None,
) -> None:
    sent: list[Any] = []

    def send(volume: MountedClaim, *words: Any, on_top: bool) -> None:
        sent.append((volume.claim, *words[:2], sorted(words[2]), on_top))
        if error:
            raise error

    pods = [pod(PYTORCHJOB, "j-master-0", state=ended(0))]
    cluster = ending(PYTORCHJOB, outcome, pods, {"j-master-0": line(3, "accuracy=0.9")})
    monkeypatch.setattr(provider, "_job", lambda _: cluster.api(monkeypatch))
    monkeypatch.setattr(provider, "send", send)
    place = {"image": "i", "claim": "c", "mountPath": "/m", "copies": str(run.parents[1]), "model": "own.pt"}
    props = {"namespace": "kubeflow", "job": "j", "uid": "u", "run": "j-1", **place}
    for _ in range(2):
        with nullcontext() if outcome == "Succeeded" else pytest.raises(RunFailedError):
            provider.RunProvider().create(props)
    files = ["j-master-0.log", agreed.PRINTED, agreed.RECORD, agreed.TIMELINE]
    assert sent == [("c", "j-1", "own.pt", files, outcome == "Succeeded")], "once: its end was known then"
    assert told(run)["outcome"] == outcome
    assert ("not on the volume" in capsys.readouterr().out) is (error is not None)


def test_a_record_that_somebody_else_has_ended_goes_to_the_volume_once(
    follow: Follow, monkeypatch: pytest.MonkeyPatch, run: Path, kind: JobKind
) -> None:
    """`make watch`, or the look before an update, makes no pod; nor may the pods be there any more."""
    first, _ = names(kind)
    follow(ending(kind, "Succeeded", [pod(kind, first, state=ended(0))], {first: line(3, "accuracy=0.9")}))
    before = {**told(run), "sent": True}
    sent: list[Any] = []
    cluster = ending(kind, "Succeeded")
    monkeypatch.setattr(provider, "_job", lambda _: cluster.api(monkeypatch))
    monkeypatch.setattr(provider, "send", lambda *words, on_top: sent.append((words[3], on_top)))
    place = {"image": "i", "claim": "c", "mountPath": "/m", "copies": str(run.parents[1])}
    props = {"namespace": "kubeflow", "job": "j", "uid": "u", "run": "j-1", **place}
    monkeypatch.setattr(provider, "metrics_of", lambda *_: {})
    for _ in range(2):
        provider.RunProvider().create(props)
    ((files, on_top),) = sent
    assert on_top
    assert files.keys() == {f"{replica(kind, first)}.log", agreed.PRINTED, agreed.RECORD, agreed.TIMELINE}
    assert (json.loads(files[agreed.RECORD]), told(run)) == (before, before), "nothing of it is lost"


@pytest.mark.parametrize("nodes", [1, 3, 20])
def test_nodes_that_are_away_are_tried_a_few_times_in_all(follow: Follow, run: Path, nodes: int) -> None:
    pods = [pod(PYTORCHJOB, f"j-worker-{number}", state=ended(1)) for number in range(nodes)]
    cluster = ending(PYTORCHJOB, "Failed", pods, {each["metadata"]["name"]: 500 for each in pods})
    follow(cluster)
    looks, tries = 2, 2
    assert len(cluster.asked) == looks * tries * min(nodes, replica_logs.MOST_SILENT)
    assert told(run)["outcome"] == "Failed"


def test_a_server_that_was_given_up_is_asked_for_no_log(monkeypatch: pytest.MonkeyPatch, run: Path) -> None:
    cluster = Cluster(PYTORCHJOB, [])
    api = cluster.api(monkeypatch)
    found, pods = Record(api, run), [pod(PYTORCHJOB, "j-master-0", state=running())]
    found.see(job(PYTORCHJOB), pods)
    api.patience.away_since = 0
    found.close(pods)
    assert cluster.asked == []


@pytest.mark.parametrize(("status", "said"), [(403, 1), (404, 0), (500, 0)])
def test_a_log_that_cannot_be_read_costs_at_most_a_sentence(
    follow: Follow, run: Path, kind: JobKind, status: int, said: int
) -> None:
    logs = dict.fromkeys(names(kind), status)
    pods = [pod(kind, each, state=ended(1)) for each in names(kind)]
    shown = follow(ending(kind, "Failed", pods, logs))
    assert len([each for each in shown if "the logs of its pods cannot be read: 403" in each]) == said
    assert told(run)["outcome"] == "Failed"


def test_a_folder_that_cannot_be_written_is_said_once(
    follow: Follow, monkeypatch: pytest.MonkeyPatch, run: Path
) -> None:
    run.parent.mkdir(parents=True)
    run.write_text("a file in its place")
    moments = [Moment(job(PYTORCHJOB, *how), []) for how in ((), ("Succeeded",))]
    monkeypatch.setattr(record, "KEEP_EVERY_S", 0)
    shown = follow(Cluster(PYTORCHJOB, moments))
    assert len([each for each in shown if "its record cannot be written" in each]) == 1


def test_a_file_of_the_programs_own_stays(follow: Follow, run: Path) -> None:
    run.mkdir(parents=True)
    (run / agreed.RECORD).write_text('{"lr": 1}')
    shown = follow(ending(PYTORCHJOB, "Succeeded"))
    assert (run / agreed.RECORD).read_text() == '{"lr": 1}'
    assert "belongs to your program" in "\n".join(shown)


def test_of_a_long_log_the_end_is_kept(follow: Follow, monkeypatch: pytest.MonkeyPatch, run: Path) -> None:
    monkeypatch.setattr(replica_logs, "LOG_BYTES", 1000)
    monkeypatch.setattr(record, "MOST_PRINTED", 10)
    long = "".join(line(number, f"loss={number}") for number in range(50))
    pods = [pod(PYTORCHJOB, "j-master-0", state=ended(0))]
    follow(ending(PYTORCHJOB, "Succeeded", pods, {"j-master-0": long}))
    text = log_of(run, PYTORCHJOB, "j-master-0")
    assert len(text) <= 1000
    assert text.startswith(replica_logs.CUT)
    assert "loss=49" in text
    assert "loss=5\n" not in text
    assert len(printed(run)) <= 10
    assert printed(run)[-1]["loss"] == 49


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("accuracy=0.9912", {"accuracy": 0.9912}),
        ("Train Epoch: 3 [640/60000 (1%)]\tloss=2.2975", {"epoch": 3, "loss": 2.2975}),
        ("epoch 3/10 step 40: loss=1e-3, acc=.5", {"epoch": 3, "step": 40, "loss": 0.001}),
        ("epoch=2 val_loss=0.25|lr=-1", {"epoch": 2, "val_loss": 0.25, "lr": -1}),
        ("epoch=2", {}),
        ("path=/tmp/1 version=2.6.0 name=net", {}),
        ("--lr=0.1", {}),
        ("no value", {}),
    ],
)
def test_what_a_line_names(text: str, found: dict[str, float]) -> None:
    assert named(text) == found
