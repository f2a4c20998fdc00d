"""What Kubeflow Trainer is told of a run, and that no controller, however bad, slows or ends a training."""

import json
import queue
import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.inside.conftest import TINY, Job
from trainer import trainjob_status
from trainer.trainjob_status import CA, TOKEN, URL, Reporter

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/kubeflow/trainjobs/digits/status"
PATIENCE_S = 120
UNTOLD = "the TrainJob does not show how far the run is: "


@dataclass
class Controller:
    """A server of reports.

    Attributes:
        taken: the reports, and the header that each came with.
    """

    port: int
    ca: Path
    token: Path
    taken: "queue.Queue[tuple[dict[str, Any], str]]" = field(default_factory=queue.Queue)

    @property
    def environ(self) -> dict[str, str]:
        return {URL: f"https://127.0.0.1:{self.port}{PATH}", CA: str(self.ca), TOKEN: str(self.token)}

    def reporter(self, say: Callable[[str], None] = print) -> Reporter:
        made = trainjob_status.offered(self.environ, say)
        assert made
        return made

    def next(self) -> dict[str, Any]:
        return self.taken.get(timeout=PATIENCE_S)[0]

    def rest(self) -> list[dict[str, Any]]:
        return [self.taken.get_nowait()[0] for _ in range(self.taken.qsize())]


def certificate(folder: Path, name: str, host: str = "IP:127.0.0.1") -> Path:
    """A certificate of its own authority for `host`, with its key beside it."""
    made = folder / f"{name}.crt"
    how = ["-newkey", "rsa:2048", "-nodes", "-x509", "-days", "2", "-subj", f"/CN={name}"]
    where = ["-addext", f"subjectAltName={host}", "-keyout", str(made.with_suffix(".key")), "-out", str(made)]
    subprocess.run(["openssl", "req", *how, *where], check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("certificates")
    hosts = {"right": "IP:127.0.0.1", "other": "IP:127.0.0.1", "elsewhere": "DNS:example.org"}
    return {name: certificate(folder, name, host) for name, host in hosts.items()}


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


@contextmanager
def serving(
    own: Path,
    token: Path,
    ca: Path | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
    gate: threading.Event | None = None,
) -> Iterator[Controller]:
    """A server with the certificate `own`, whose authority the pod takes to be `ca`. It answers once `gate` is open."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.path == PATH
            made.taken.put((content, self.headers["Authorization"]))
            if gate:
                gate.wait(PATIENCE_S)
            self.send_response(status)
            for name, value in {**(headers or {}), "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client may go
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own, own.with_suffix(".key"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
        made = Controller(server.server_port, ca or own, token)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            if gate:
                gate.set()
            server.shutdown()
            thread.join()


@contextmanager
def listening(said: bytes) -> Iterator[int]:
    """The port of a server that says `said` to whoever connects, and then nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as open_:

        def accept() -> None:
            try:
                while True:
                    connection = open_.enter_context(server.accept()[0])
                    connection.sendall(said)
            except OSError:  # closed
                return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)  # a thread that waits in `accept` would keep it


@contextmanager
def dead() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else gets."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def told(percentage: int, left_s: int | None, **metrics: str) -> dict[str, Any]:
    """A report without its time."""
    return {
        "progressPercentage": percentage,
        **({} if left_s is None else {"estimatedRemainingSeconds": left_s}),
        "metrics": [{"name": name, "value": value} for name, value in metrics.items()],
    }


def test_a_report_is_as_the_api_wants_it() -> None:
    (status,) = json.loads(trainjob_status.report(45, 11.2, {"epoch": 3, "loss": 0.12345678})).values()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", status.pop("lastUpdatedTime"))
    assert status == told(45, 12, epoch="3", loss="0.123457")
    for left_s, expected in (
        (None, {}),
        (0, {"estimatedRemainingSeconds": 0}),
        (1e12, {"estimatedRemainingSeconds": 2**31 - 1}),
    ):
        (status,) = json.loads(trainjob_status.report(0, left_s, {"loss": float("nan")})).values()
        assert {key: value for key, value in status.items() if key == "estimatedRemainingSeconds"} == expected
        assert status["metrics"] == [{"name": "loss", "value": "nan"}]


def test_the_time_left_is_at_the_pace_since_the_first_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on has done a part before, which says nothing about its pace now."""
    made: list[tuple[int, float | None]] = []
    clock = iter([100.0, 110.0, 130.0])
    monkeypatch.setattr(trainjob_status, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(Reporter, "_send", lambda *_, **__: None)
    monkeypatch.setattr(trainjob_status, "report", lambda done, left_s, _: made.append((done, left_s)))
    reporter = Reporter("", "", "", print)
    for done in (0.5, 0.6, 1.0):
        reporter.tell(done, {})
    assert made == [(50, None), (60, pytest.approx(40)), (99, 0)], "only the end says that all is done"


@pytest.mark.parametrize("missing", [URL, CA, TOKEN])
def test_nothing_is_told_where_the_controller_offers_nothing(missing: str) -> None:
    environ = {name: "here" for name in (URL, CA, TOKEN) if name != missing}
    assert trainjob_status.offered(environ, print) is None
    assert trainjob_status.offered({**environ, missing: ""}, print) is None


def test_of_reports_that_wait_the_latest_is_sent(
    certificates: dict[str, Path], token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainjob_status, "EVERY_S", 0)
    monkeypatch.setattr(trainjob_status, "TIMEOUT_S", PATIENCE_S)
    gate = threading.Event()
    with serving(certificates["right"], token, gate=gate) as controller:
        reporter = controller.reporter()
        reporter.tell(0, {})
        found = [controller.next()]
        for part in range(1, 51):  # returns, though the controller has not answered yet
            reporter.tell(part / 100, {})
        gate.set()
        found.append(controller.next())
        reporter.end({})
        found += controller.rest()
    assert [each["trainerStatus"]["progressPercentage"] for each in found] == [0, 50, 100]


def test_the_controller_is_not_asked_more_often_than_it_can_bear(
    certificates: dict[str, Path], token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainjob_status, "EVERY_S", 3600)
    with serving(certificates["right"], token) as controller:
        reporter = controller.reporter()
        reporter.tell(0, {})
        found = [controller.next()]
        reporter.tell(0.5, {})
        reporter.end({"accuracy": 0.9})
        found += controller.rest()
    assert [each["trainerStatus"]["progressPercentage"] for each in found] == [0, 100], (
        "the end waits for nobody"
    )


def test_the_token_is_read_anew_and_sent_past_proxies(
    certificates: dict[str, Path], token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serving(certificates["right"], token) as controller:
        for text in ("first\n", "second", "in two\nlines\n"):
            token.write_text(text)
            url, ca, place = controller.environ.values()
            trainjob_status.post(url, ca, place, trainjob_status.report(1, None, {}))
            assert controller.taken.get_nowait()[1] == f"Bearer {''.join(text.split())}"


@dataclass
class Bad:
    """A controller, or what the pod knows of it.

    Parameters:
        says: a part of the line about it.
        answers: what `serving` takes; None where nothing speaks HTTPS.
        greeting: what it says then; None where nobody listens.
    """

    says: str
    answers: dict[str, Any] | None = None
    greeting: bytes | None = None
    lacks: str = ""


BAD = {
    "dead": Bad("Connection refused"),
    "silent": Bad("timed out", greeting=b""),
    "without TLS": Bad("SSLError", greeting=b"HTTP/1.1 200 OK\r\n\r\n"),
    "without an answer": Bad("timed out", {"gate": True}),
    "another authority": Bad("certificate verify failed", {"ca": "other"}),
    "another name": Bad("certificate is not valid for '127.0.0.1'", {"own": "elsewhere"}),
    "no token": Bad("No such file", {}, lacks=TOKEN),
    "no certificate": Bad("No such file", {}, lacks=CA),
    "redirects": Bad(
        "307 Temporary Redirect", {"status": 307, "headers": {"Location": "https://127.0.0.1:1/"}}
    ),
    **{
        f"answers {status}": Bad(f"RefusedError: {status} ", {"status": status})
        for status in (400, 403, 404, 413, 422, 500, 503)
    },
}


@contextmanager
def bad(how: str, certificates: dict[str, Path], token: Path) -> Iterator[Controller]:
    kind = BAD[how]
    with ExitStack() as stack:
        if kind.answers is None:
            answering = dead() if kind.greeting is None else listening(kind.greeting)
            made = Controller(stack.enter_context(answering), certificates["right"], token)
        else:
            given = {**kind.answers}
            own = certificates[given.pop("own", "right")]
            given |= {"ca": certificates[given["ca"]]} if "ca" in given else {}
            given |= {"gate": threading.Event()} if "gate" in given else {}
            made = stack.enter_context(serving(own, token, **given))
        made.token = Path("/nowhere") if kind.lacks == TOKEN else made.token
        made.ca = Path("/nowhere") if kind.lacks == CA else made.ca
        yield made


@pytest.mark.sampled(5)
@pytest.mark.parametrize("how", BAD)
def test_a_bad_controller_is_told_of_once(
    how: str, certificates: dict[str, Path], token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainjob_status, "EVERY_S", 0)
    monkeypatch.setattr(trainjob_status, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(trainjob_status, "END_S", PATIENCE_S)
    said: list[str] = []
    with bad(how, certificates, token) as controller:
        reporter = controller.reporter(said.append)
        for part in range(3):
            reporter.tell(part / 3, {})
        reporter.end({})
        assert reporter._thread
        assert not reporter._thread.is_alive()
    (line,) = said
    assert re.fullmatch(f"{UNTOLD}.+; the training goes on", line)
    assert BAD[how].says in line
    assert "first" not in line, "no line shows the token"


@pytest.mark.parametrize("how", ["silent", "without an answer"])
def test_the_end_does_not_wait_for_a_controller_that_hangs(
    how: str, certificates: dict[str, Path], token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainjob_status, "TIMEOUT_S", 3600)
    monkeypatch.setattr(trainjob_status, "END_S", 0.1)
    with bad(how, certificates, token) as controller:
        reporter = controller.reporter()
        reporter.tell(0.5, {})
        reporter.end({})
        assert reporter._thread
        assert reporter._thread.is_alive(), "it is left behind"


def test_rank_0_of_a_training_tells_and_a_run_that_goes_on_or_is_taken_does(
    job: Job, certificates: dict[str, Path], token: Path
) -> None:
    with serving(certificates["right"], token) as controller:
        job.train(*TINY, "--epochs", "2", world=2, **controller.environ)
        *earlier, last = (each["trainerStatus"] for each in controller.rest())
        assert 100 not in [each["progressPercentage"] for each in earlier], "rank 1 tells nothing"
        assert (last["progressPercentage"], last["estimatedRemainingSeconds"]) == (100, 0)
        metrics = {each["name"]: each["value"] for each in last["metrics"]}
        assert metrics.keys() == {
            *("step", "epoch", "loss", "images_per_s", "lr", "accuracy", "test_loss", "training_s")
        }
        assert metrics["epoch"] == "2"
        for options in (*TINY, "--epochs", "2"), ("--take-finished",):
            job.train(*options, **controller.environ)
            (again,) = (each["trainerStatus"] for each in controller.rest())
            assert again["progressPercentage"] == 100
            assert {each["name"] for each in again["metrics"]} >= {"epoch", "accuracy", "test_loss"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", BAD)
def test_a_training_beside_a_bad_controller_is_the_same(
    how: str, job: Job, certificates: dict[str, Path], token: Path
) -> None:
    job.train(*TINY, run="plain")
    with bad(how, certificates, token) as controller:
        output = job.train(*TINY, **controller.environ)
    assert output.count(UNTOLD) <= 1, output
    assert job.model() == job.model("plain")
