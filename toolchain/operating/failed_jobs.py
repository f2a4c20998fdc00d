"""A job that had failed before is tried again by `make up`: whoever asks once more has mended the cause.

Pulumi sees nothing to change, and waits for what has failed already. Plain `pulumi up` leaves such a job as it is, and
so do engines that reconcile: they come by unasked.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from infra import agreed
from toolchain.operating import live_objects, state
from toolchain.steps import SetupError, say, step

GONE_S = 120
"""How long the pods of a deleted job may take to end."""
PAUSE_S = 0.5


@contextmanager
def reporting(
    variables: Mapping[str, str], before: state.Deployment
) -> Iterator[tuple[dict[str, str], Callable[[], bool]]]:
    """The variable for `pulumi up`, and a function to call when that has failed.

    Parameters:
        before: the state before the update. A job that is not in it was made by this update: its failure is news.

    The function deletes the jobs that had failed before, and returns whether there were any. It raises SetupError
    where one stays.
    """
    access = state.access(before)
    with tempfile.TemporaryDirectory(prefix="trainstack-failed-") as folder:
        file = Path(folder) / "jobs"

        def remove() -> bool:
            lines = file.read_text().splitlines() if file.exists() else []
            file.unlink(missing_ok=True)
            found = [job for job in map(json.loads, lines) if job["uid"] in state.job_uids(before)]
            for job in found:
                assert access
                _delete(variables, access, job)
            return bool(found)

        yield {agreed.FAILED_JOBS: str(file)}, remove


def _delete(variables: Mapping[str, str], access: state.Access, job: Mapping[str, str]) -> None:
    """Delete a job with its pods: those of the next one have the same names."""
    title = f"{job['namespace']}/{job['name']}"
    say(f"job {title} had failed before this `make up`: it is tried again")
    place = (job["name"], "--namespace", job["namespace"], "--ignore-not-found")

    def kubectl(*words: str) -> str:
        done = live_objects.kubectl(variables, access, *words)
        if done.returncode:
            raise SetupError(f"the failed job {title} cannot be deleted: {done.stderr.strip()}")
        return done.stdout.strip()

    with step(f"taking the failed job {title} away"):
        kubectl("delete", job["kind"], *place, "--cascade=foreground", "--wait=false")
        deadline = time.monotonic() + GONE_S
        while kubectl("get", job["kind"], *place, "--output", "jsonpath={.metadata.uid}") == job["uid"]:
            if time.monotonic() > deadline:
                raise SetupError(
                    f"the failed job {title} was deleted, and is not gone after {GONE_S} s",
                    "look at its pods: docs/runbooks/stuck-job.md",
                )
            time.sleep(PAUSE_S)
