"""The state of the live view, from events of the toolchain and the Pulumi program. Callers pass the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Event = Mapping[str, Any]
ENDED = ("Succeeded", "Failed")
NOT_TRAINING = (*ENDED, "Suspended")


@dataclass
class Running:
    """A running phase or resource. `usual`: how many seconds it took the last time."""

    name: str
    since: float
    text: str = ""
    usual: float | None = None


@dataclass
class Job:
    """A job in the live view.

    Parameters:
        percentage, report: progress from the job's own report, as a number and in words.
        seen: when the last event about a step came, and how many images the run had trained on; `pace` needs both.
        step_loss: the loss on the training images of the last step.
        tested: the epoch after which `accuracy` and `loss` were measured on the test images.
    """

    condition: str = ""
    pods: list[tuple[str, str]] = field(default_factory=list)
    percentage: int = 0
    report: str = ""
    epoch: int = 0
    epochs: int | None = None
    done: int = 0
    total: int = 0
    pace: float | None = None
    seen: tuple[float, int] | None = None
    step_loss: str = ""
    tested: int = 0
    accuracy: str = ""
    loss: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended."""
        return self.condition.startswith(ENDED)

    @property
    def is_training(self) -> bool:
        """Whether the progress is known, and the job has not ended and is not suspended.

        The last lines of the log may come after the job's end.
        """
        return bool(self.total) and not self.condition.startswith(NOT_TRAINING)

    @property
    def shows_report(self) -> bool:
        """Whether the progress is known only from the job's own report."""
        return bool(self.report) and not self.total and not self.condition.startswith(NOT_TRAINING)

    def left_s(self) -> float | None:
        """Seconds until the end of the run. If the number of epochs is unknown: until the end of this epoch.

        None if the pace or the epoch's size is unknown.
        """
        if not self.pace or not self.total:
            return None
        whole_epochs = max((self.epochs or self.epoch) - self.epoch, 0)
        return (self.total - self.done + whole_epochs * self.total) / self.pace


@dataclass
class View:
    """The drawn state. An event of an unknown kind, from a later release, changes nothing."""

    phases: dict[str, Running] = field(default_factory=dict)
    objects: dict[str, Running] = field(default_factory=dict)
    made: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)

    def apply(self, event: Event, now: float) -> None:
        """Apply an event at the time `now`, in seconds since 1970."""
        match event.get("is"):
            case "began":
                since, usual = float(event.get("since") or now), event.get("usual")
                self.phases[event["phase"]] = Running(event["phase"], since, event.get("text") or "", usual)
            case "noted" if event["phase"] in self.phases:
                self.phases[event["phase"]].text = event["text"]
            case "ended":
                self.phases.pop(event["phase"], None)
            case "object":
                self._object(event, now)
            case "quiet":
                self.objects.clear()
                self.jobs.clear()
                self.made = 0
            case "condition" | "pods" | "progress" | "epochs" | "step" | "result":
                self._of_job(self.jobs.setdefault(event["job"], Job()), event, now)

    def _object(self, event: Event, now: float) -> None:
        urn = event["urn"]
        if "text" in event:
            if urn in self.objects:
                self.objects[urn].text = event["text"]
        elif event["now"] == "runs":
            self.objects[urn] = Running(event["name"], now)
        else:
            self.objects.pop(urn, None)
            self.made += event["now"] == "done"

    def _of_job(self, job: Job, event: Event, now: float) -> None:
        match event["is"]:
            case "condition":
                job.condition = event["text"]
            case "pods":
                job.pods = [(name, state) for name, state in event["pods"]]
            case "progress":
                job.percentage, job.report = event["percentage"], event["text"]
            case "epochs":
                job.epochs = event["epochs"]
            case "step":
                self._step(job, event, now)
            case "result":
                job.tested, job.accuracy, job.loss = event["epoch"], event["accuracy"], event["loss"]
                # The trainer reports only some steps, seldom the last step of an epoch.
                job.done = job.total

    def _step(self, job: Job, event: Event, now: float) -> None:
        job.epoch, job.done, job.total = event["epoch"], event["done"], event["total"]
        job.step_loss = event["loss"]
        images = (job.epoch - 1) * job.total + job.done
        if job.seen and images > job.seen[1] and now > job.seen[0]:
            latest = (images - job.seen[1]) / (now - job.seen[0])
            job.pace = latest if job.pace is None else 0.7 * job.pace + 0.3 * latest
        job.seen = (now, images)
