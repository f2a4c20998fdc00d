"""Follow an object and its related objects until a rule says that it is ready."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass

from pulumi_standins.kubernetes.awaiting.snapshot import EVENT, Rule, Snapshot, Verdict
from pulumi_standins.kubernetes.errors import ApiError, CancelledError, NotReadyError
from pulumi_standins.kubernetes.follow import follow
from pulumi_standins.kubernetes.objects import Kind, kind_of, name_of, namespace_of, nested
from pulumi_standins.kubernetes.session import Session
from pulumi_standins.kubernetes.streams import Stream
from pulumi_standins.kubernetes.values import Object


@dataclass
class _Change:
    kind: Kind | None
    """None for the object itself."""
    event: str
    obj: Object


class _Watcher:
    """A thread that puts the events of some objects into a queue."""

    def __init__(self, changes: queue.Queue[_Change | BaseException]) -> None:
        self._changes = changes
        self._stopped = threading.Event()
        self._stream: Stream | None = None

    def start(
        self,
        session: Session,
        kind: Kind,
        namespace: str,
        until: float,
        *,
        name: str = "",
        since: str = "",
        fields: str = "",
    ) -> None:
        """Watch one object by name, or all objects of a kind in the namespace with these fields."""
        label = None if name else kind

        def run() -> None:
            try:
                for event, obj in follow(
                    session.client,
                    kind,
                    namespace,
                    until=until,
                    cancelled=self._stopped,
                    name=name,
                    since=since,
                    fields=fields,
                    on_stream=self._remember,
                ):
                    self._changes.put(_Change(label, event, obj))
                    if self._stopped.is_set():
                        return
            except CancelledError:
                return
            except Exception as error:
                # A user without the right to read events waits without them, as in the real plugin.
                is_needed = kind != EVENT or not isinstance(error, ApiError)
                if is_needed and not self._stopped.is_set():
                    self._changes.put(error)

        threading.Thread(target=run, daemon=True).start()

    def _remember(self, stream: Stream) -> None:
        self._stream = stream
        if self._stopped.is_set():
            stream.close()

    def stop(self) -> None:
        self._stopped.set()
        if self._stream is not None:
            self._stream.close()


class _Reporter:
    """Reports each change once."""

    def __init__(self, session: Session, urn: str) -> None:
        self._session = session
        self._urn = urn
        self._status = ""
        self._warned: set[str] = set()

    def report(self, verdict: Verdict, snapshot: Snapshot) -> None:
        """Report the verdict, and the controllers' warnings about the object."""
        events = [
            f"{event.get('reason')}: {event.get('message')}"
            for event in snapshot.all(EVENT)
            if event.get("type") == "Warning"
        ]
        for warning in [*events, *verdict.warnings]:
            if warning not in self._warned:
                self._warned.add(warning)
                self._session.engine.status(self._urn, warning, warning=True)
                self._status = ""
        if verdict.status and verdict.status != self._status:
            self._status = verdict.status
            self._session.engine.status(self._urn, verdict.status)


def wait(session: Session, urn: str, rule: Rule, live: Object, seconds: float) -> Object:
    """Wait until the rule is satisfied; returns the object as last seen.

    Parameters:
        live: the object as the server answered the request.
        seconds: how long to wait.

    Raises:
        NotReadyError: time is up, the object cannot become ready, or the user asked to stop.
    """
    began = time.monotonic()
    until = began + seconds
    snapshot = Snapshot(obj=live, client=session.client)
    reporter = _Reporter(session, urn)
    # Often the answer to our own request already shows a ready object.
    verdict = rule.judge(snapshot)
    if not rule.related or verdict.is_ready:
        reporter.report(verdict, snapshot)
    if verdict.is_ready:
        return live
    changes: queue.Queue[_Change | BaseException] = queue.Queue()
    watchers = _watch(session, rule, live, until, changes)
    look_at = None if verdict.look_again is None else began + verdict.look_again
    try:
        while True:
            now = time.monotonic()
            if session.cancelled.is_set() or now >= until:
                return _last_look(rule, snapshot, is_cancelled=session.cancelled.is_set())
            pause = min(until - now, max(0.0, look_at - now) if look_at else 1.0, 1.0)
            if not _take(snapshot, changes, pause, began) and (look_at is None or time.monotonic() < look_at):
                # Without events, the last verdict still holds. The first verdict is reported only here.
                reporter.report(verdict, snapshot)
                continue
            if snapshot.is_gone and not rule.until_gone:
                why = f"'{snapshot.name}' was deleted while waiting for it"
                raise NotReadyError(why, ["Somebody deleted it"], snapshot.obj)
            verdict = rule.judge(snapshot)
            reporter.report(verdict, snapshot)
            if verdict.is_ready:
                return snapshot.obj
            if verdict.is_hopeless:
                raise NotReadyError(_failed(snapshot.name), verdict.findings, snapshot.obj)
            look_at = None if verdict.look_again is None else time.monotonic() + verdict.look_again
    finally:
        for watcher in watchers:
            watcher.stop()


def _last_look(rule: Rule, snapshot: Snapshot, *, is_cancelled: bool) -> Object:
    """The object if it is ready at the end of the wait: no stable time is required any more. Raises NotReadyError."""
    snapshot.is_last_look = True
    verdict = rule.judge(snapshot)
    if verdict.is_ready:
        return snapshot.obj
    why = (
        f'Resource operation was cancelled for "{snapshot.name}"'
        if is_cancelled
        else f"'{snapshot.name}' timed out waiting to be Ready"
    )
    raise NotReadyError(why, verdict.findings, snapshot.obj)


def _failed(name: str) -> str:
    return f"Resource '{name}' was created but failed to initialize"


def _watch(
    session: Session,
    rule: Rule,
    live: Object,
    until: float,
    changes: queue.Queue[_Change | BaseException],
) -> list[_Watcher]:
    namespace = namespace_of(live)
    version = nested(live, "metadata", "resourceVersion", default="")
    watchers = [_Watcher(changes)]
    watchers[0].start(session, kind_of(live), namespace, until, name=name_of(live), since=version)
    about = f"involvedObject.uid={nested(live, 'metadata', 'uid')}"
    for kind in (*rule.related, EVENT):
        watchers.append(_Watcher(changes))
        watchers[-1].start(session, kind, namespace, until, fields=about if kind == EVENT else "")
    return watchers


def _take(
    snapshot: Snapshot, changes: queue.Queue[_Change | BaseException], pause: float, began: float
) -> bool:
    """Read all present changes, waiting for the first; returns whether there were any."""
    try:
        change = changes.get(timeout=pause)
    except queue.Empty:
        snapshot.now = time.monotonic() - began
        return False
    while True:
        if isinstance(change, BaseException):
            raise NotReadyError(f"cannot watch '{snapshot.name}': {change}", [], snapshot.obj) from change
        snapshot.now = time.monotonic() - began
        _apply(snapshot, change)
        try:
            change = changes.get_nowait()
        except queue.Empty:
            return True


def _apply(snapshot: Snapshot, change: _Change) -> None:
    if change.kind is None:
        snapshot.is_gone = change.event == "DELETED"
        snapshot.obj = change.obj or snapshot.obj
        return
    known = snapshot.related.setdefault(change.kind, {})
    uid = nested(change.obj, "metadata", "uid", default="")
    if change.event == "DELETED":
        known.pop(uid, None)
    else:
        known[uid] = change.obj
    snapshot.changed_at[change.kind, name_of(change.obj)] = snapshot.now


def look(session: Session, urn: str, rule: Rule, live: Object) -> Object:
    """Judge once from new lists; raises NotReadyError if the rule is not satisfied."""
    snapshot = Snapshot(obj=live, client=session.client, is_single_look=True)
    for kind in rule.related:
        listing = session.client.list(kind, namespace_of(live))
        snapshot.related[kind] = {
            nested(item, "metadata", "uid", default=""): item for item in listing.get("items") or []
        }
    verdict = rule.judge(snapshot)
    _Reporter(session, urn).report(verdict, snapshot)
    if not verdict.is_ready:
        raise NotReadyError(_failed(snapshot.name), verdict.findings, live)
    return live
