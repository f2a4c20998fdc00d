"""The objects of one kind in a namespace. One list and one watch keep them up to date for all callers.

client-go calls this an informer: https://pkg.go.dev/k8s.io/client-go/tools/cache#SharedInformer
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import urllib3
from kubernetes.client.exceptions import ApiException

from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from infra.objects.kinds import Kind
from infra.objects.retry import FORBIDDEN, STARTING_S, is_transient
from storage.manifests import Manifest

ANSWER_S = 30
"""How long an answer, or the next part of a watch, may take, in seconds: a half-open connection never answers."""
WATCH_S = 20
"""How long the server is asked to keep a watch open, in seconds. It sends nothing while nothing changes."""
PAUSE_S = 1
"""Seconds between two lists if a watch is refused or failed.

Kubernetes collects the changes of a Job's pods for a second before it lets the Job fail (SyncJobBatchPeriod in
pkg/controller/job/job_controller.go). JobSet then deletes the pods, and the reason of their failure is lost. A longer
pause could miss the reason.
"""


@dataclass(frozen=True)
class Selection:
    """The objects that an informer watches.

    Parameters:
        key: returns the key by which an object is looked up.
        labels, fields: selectors; empty for all objects of the namespace.
    """

    address: ApiAddress
    kind: Kind
    namespace: str
    key: Callable[[Manifest], str]
    labels: str = ""
    fields: str = ""


class Informer:
    """The objects of a selection, from the server's last answer.

    If a watch is refused or breaks off, the objects are listed again every PAUSE_S seconds. A refused watch is tried
    again after STARTING_S seconds: a server that has just started refuses every user.
    """

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self._objects: dict[str, dict[str, Manifest]] = {}
        self._gone: dict[str, Manifest] = {}
        self._lookers: defaultdict[str, list[threading.Event]] = defaultdict(list)
        self._error: Exception | None = None
        self._heard, self._ended = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._watch_from = 0.0

    def objects(self, key: str) -> list[Manifest]:
        """The objects with this key. If the last list or watch failed, raises its error until a list succeeds."""
        self._heard.wait()
        if error := self._error:
            raise error.with_traceback(None)
        with self._lock:
            return [*self._objects.get(key, {}).values()]

    def gone(self, key: str) -> Manifest | None:
        """The most recently deleted object with this key, in its last version; None if the watch saw no deletion."""
        with self._lock:
            return self._gone.get(key)

    @contextmanager
    def telling(self, key: str, changed: threading.Event) -> Iterator[None]:
        """Inside the block, `changed` is set when an object with this key is created, changed or deleted."""
        with self._lock:
            self._lookers[key].append(changed)
        try:
            yield
        finally:
            with self._lock:
                self._lookers[key].remove(changed)

    def start(self) -> None:
        """Start to watch, until `end` is called."""
        threading.Thread(target=self._listen, daemon=True).start()

    def end(self) -> None:
        """Stop watching. An open watch may last for another WATCH_S seconds."""
        self._ended.set()

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                self._list_and_watch()
            except Exception as error:
                self._fail(error)
            self._ended.wait(PAUSE_S)

    def _list_and_watch(self) -> None:
        """Raises the errors of the list, and unexpected errors of the watch.

        Expected errors of the watch only end it. If they last, the next list raises them.
        """
        chosen = self.selection
        # A new connection each time: the kubeconfig may have changed.
        cluster = ClusterApi.at(chosen.address, urllib3.Retry(0), ANSWER_S)
        selectors = {"labels": chosen.labels, "fields": chosen.fields}
        found, version = cluster.snapshot(chosen.kind, chosen.namespace, **selectors)
        self._replace(found)
        try:
            while (began := time.monotonic()) >= self._watch_from and not self._ended.is_set():
                events = cluster.watched(chosen.kind, chosen.namespace, version, WATCH_S, **selectors)
                version = self._follow(events, version)
                if time.monotonic() - began < PAUSE_S:  # the server ends each watch at once
                    self._ended.wait(PAUSE_S)
        except Exception as error:
            is_torn = isinstance(error, ValueError)  # only the beginning of an event arrived
            if isinstance(error, ApiException):
                if error.status == FORBIDDEN:
                    self._watch_from = time.monotonic() + STARTING_S
            elif not is_torn and not is_transient(error):
                raise

    def _follow(self, events: Iterator[Manifest], version: str) -> str:
        """Apply the events of a watch. Returns the version from which the next watch continues. Raises ApiException."""
        for event in events:
            if self._ended.is_set():
                break
            kind, found = event["type"], event["object"]
            if kind == "ERROR":  # usually the version is too old to watch from
                raise ApiException(found.get("code"), found.get("reason"))
            version = found["metadata"]["resourceVersion"]
            if kind != "BOOKMARK":
                self._take(found, is_gone=kind == "DELETED")
        return version

    def _replace(self, found: list[Manifest]) -> None:
        objects: defaultdict[str, dict[str, Manifest]] = defaultdict(dict)
        for each in found:
            objects[self.selection.key(each)][each["metadata"]["uid"]] = each
        with self._lock:
            before, self._objects = self._objects, dict(objects)
            self._error = None
            self._wake(key for key in {*before, *objects} if before.get(key) != objects.get(key))
        self._heard.set()

    def _take(self, found: Manifest, is_gone: bool) -> None:
        key, uid = self.selection.key(found), found["metadata"]["uid"]
        with self._lock:
            there = self._objects.setdefault(key, {})
            if is_gone:
                there.pop(uid, None)
                self._gone[key] = found
            else:
                there[uid] = found
            self._wake([key])

    def _fail(self, error: Exception) -> None:
        with self._lock:
            self._error = error
            self._wake([*self._lookers])
        self._heard.set()

    def _wake(self, keys: Iterable[str]) -> None:
        for key in keys:
            for changed in self._lookers.get(key, []):
                changed.set()


_SHARED: dict[Selection, tuple[Informer, int]] = {}
_LOCK = threading.Lock()


@contextmanager
def shared(selection: Selection) -> Iterator[Informer]:
    """The informer of a selection. All callers in this process share it."""
    with _LOCK:
        informer, users = _SHARED.get(selection) or (Informer(selection), 0)
        _SHARED[selection] = informer, users + 1
        if not users:
            informer.start()
    try:
        yield informer
    finally:
        with _LOCK:
            _, users = _SHARED.pop(selection)
            if users > 1:
                _SHARED[selection] = informer, users - 1
            else:
                informer.end()
