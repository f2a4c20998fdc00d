"""Runs steps at the same time: one compiles while others wait for the network.

A job that depends on another job asks for that job's result.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import TypeVar

from toolchain.interruption import POLL_S
from toolchain.steps import StoppedError, allow_children, stop_children

T = TypeVar("T")
MOST = 32


class Jobs:
    """`with Jobs() as jobs: a = jobs.start(f); jobs.start(lambda: g(a.result()))`.

    The end of the block waits for all jobs. The first failure, or Ctrl-C, ends the running commands of all other jobs,
    and is raised.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MOST, thread_name_prefix="step")
        self._all: list[Future[object]] = []

    def start(self, work: Callable[[], T]) -> Future[T]:
        future = self._pool.submit(work)
        self._all.append(future)  # type: ignore[arg-type]  # Future is invariant, and only waited for here
        return future

    def __enter__(self) -> Jobs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while error is None and not self._over():
                wait(self._all, POLL_S, return_when=FIRST_EXCEPTION)
        finally:
            finished = error is None and self._over() and not self._errors()
            if not finished:
                stop_children()
            self._pool.shutdown(wait=True, cancel_futures=not finished)
            allow_children()  # later code, such as a clean-up, may run commands again
        if error is None:
            self._raise_cause()

    def _over(self) -> bool:
        return bool(self._errors()) or all(future.done() for future in self._all)

    def _errors(self) -> list[BaseException]:
        return [e for f in self._all if f.done() and not f.cancelled() and (e := f.exception())]

    def _raise_cause(self) -> None:
        """Raise the first failure, not the error of a job that it stopped."""
        for error in sorted(self._errors(), key=lambda e: isinstance(e, StoppedError)):
            raise error
