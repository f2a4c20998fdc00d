"""Tells Kubeflow Trainer the progress of a run: `status.trainerStatus` of its TrainJob. Standard library only.

If its feature gate TrainJobStatus is on, the controller sets three variables. Without them nothing is reported.
Sources: pkg/statusserver, pkg/runtime/framework/plugins/trainjobstatus and UpdateTrainJobStatusRequest in
pkg/apis/trainer/v1alpha1/trainjob_types.go of Kubeflow Trainer 2.3.0.
"""

from __future__ import annotations

import json
import math
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

URL, CA, TOKEN = (f"KUBEFLOW_TRAINER_SERVER_{name}" for name in ("URL", "CA_CERT", "TOKEN"))
"""Variables: the address for reports, and the files with its CA's certificate and with the pod's token."""
EVERY_S = 5.0  # between two reports: the controller writes five a second, for all jobs together
TIMEOUT_S = 3.0  # for the connection, the handshake, and each wait for a part of the answer
END_S = 5.0
"""Seconds that the end of a run waits for its last report, at most."""
LONGEST_S = 2**31 - 1  # an int32
OK = 200


class RefusedError(Exception):
    """The controller has answered with another status than 200."""


def offered(environ: Mapping[str, str], say: Callable[[str], None]) -> Reporter | None:
    """A Reporter to the controller that `environ` names; None if it names none. `say`: see Reporter."""
    url, ca, token = (environ.get(name, "") for name in (URL, CA, TOKEN))
    return Reporter(url, ca, token, say) if url and ca and token else None


class Reporter:
    """Sends reports from its own thread, at most one in EVERY_S seconds. Of waiting reports it sends the latest.

    An unreachable, slow or refusing controller does not slow the training; the end waits END_S seconds at most. One
    line reports the trouble.

    Parameters:
        url, ca, token: what URL, CA and TOKEN name.
        say: prints a line. Only callers' threads call it, so that lines do not mix.
    """

    def __init__(self, url: str, ca: str, token: str, say: Callable[[str], None]) -> None:
        self.url, self.ca, self.token, self.say = url, ca, token, say
        self._began: tuple[float, float] | None = None  # time of the first report, and the part done by then
        self._changed = threading.Condition()
        self._latest: bytes | None = None
        self._is_last = self._is_said = False
        self._trouble = ""
        self._thread: threading.Thread | None = None

    def tell(self, done: float, metrics: Mapping[str, float]) -> None:
        """Report the progress of the run. Returns at once.

        The time left is estimated from the pace since the first report.

        Parameters:
            done: the part of the run that is done, 0 to 1. Only `end` reports the end.
            metrics: see `report`.
        """
        now = time.monotonic()
        began, first = self._began = self._began or (now, done)
        left_s = (now - began) * (1 - done) / (done - first) if done > first else None
        self._send(report(min(int(100 * done), 99), left_s, metrics))

    def end(self, metrics: Mapping[str, float]) -> None:
        """Report that the run is done. This is tried once, for END_S seconds at most."""
        self._send(report(100, 0, metrics), is_last=True)
        if self._thread:
            self._thread.join(END_S)
        self._say_trouble()

    def _send(self, latest: bytes, is_last: bool = False) -> None:
        with self._changed:
            self._latest, self._is_last = latest, is_last
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._say_trouble()

    def _say_trouble(self) -> None:
        if self._trouble and not self._is_said:
            self._is_said = True
            self.say(f"the TrainJob does not show how far the run is: {self._trouble}; the training goes on")

    def _run(self) -> None:
        due, is_last = time.monotonic(), False
        while not is_last:
            with self._changed:
                self._changed.wait_for(lambda: self._latest is not None)
                self._changed.wait_for(lambda: self._is_last, max(due - time.monotonic(), 0))
                latest, self._latest, is_last = self._latest, None, self._is_last
            due = time.monotonic() + EVERY_S
            try:
                post(self.url, self.ca, self.token, latest or b"")
            except Exception as error:  # the training continues after any error
                self._trouble = self._trouble or f"{type(error).__name__}: {error}"


def report(percentage: int, left_s: float | None, metrics: Mapping[str, float]) -> bytes:
    """An UpdateTrainJobStatusRequest with the present time, in whole seconds.

    Parameters:
        percentage: how much is done, 0 to 100.
        left_s: seconds until the end; None if unknown.
        metrics: name -> value; at most 256, with names of 1 to 64 characters.
    """
    status = {
        "progressPercentage": percentage,
        **({} if left_s is None else {"estimatedRemainingSeconds": min(math.ceil(left_s), LONGEST_S)}),
        "metrics": [{"name": name, "value": f"{value:.6g}"} for name, value in metrics.items()],
        "lastUpdatedTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    return json.dumps({"trainerStatus": status}).encode()


def post(url: str, ca: str, token: str, content: bytes) -> None:
    """Send a report, without a proxy or redirection: the token is for the controller alone.

    Both files are read each time: the kubelet renews them. Raises OSError, ValueError, http.client.HTTPException, and
    RefusedError for another status than 200.

    Parameters:
        url: the controller's address, https.
        ca, token: files with its CA's certificate and with the pod's token.
    """
    place = urlsplit(url)
    bearer = "".join(Path(token).read_text().split())  # an error about a line break would show the token
    connection = HTTPSConnection(
        place.hostname or "", place.port, timeout=TIMEOUT_S, context=ssl.create_default_context(cafile=ca)
    )
    try:
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": "application/json"}
        connection.request("POST", place.path, content, headers)
        answer = connection.getresponse()
        if answer.status != OK:
            raise RefusedError(f"{answer.status} {answer.reason}")
    finally:
        connection.close()
