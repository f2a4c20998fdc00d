"""The live view as rows of text, each narrower than the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from infra.screen.view import Job, Running, View

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAMES_S = 8
BAR = 24
MOST_OBJECTS = 4
MOST_PODS = 8
GOOD, BAD = ("Running", "Succeeded"), ("Failed", "Unknown", "Backoff", "BackOff", "Err")


def rows(view: View, now: float, width: int) -> list[Text]:
    """The rows at `now`, in seconds since 1970, for a terminal of `width` columns."""
    found = [*_phases(view, now), *_objects(view, now)]
    for name, job in view.jobs.items():
        found += _job(name, job)
    for row in found:
        row.no_wrap = True
        row.truncate(max(width - 1, 1), overflow="ellipsis")
    return found


def clock(seconds: float) -> str:
    """A time of `seconds` as `0:07` or `1:02:03`."""
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _phases(view: View, now: float) -> Iterator[Text]:
    mark = SPINNER[int(now * FRAMES_S) % len(SPINNER)]
    for phase in view.phases.values():
        row = Text(f" {mark} ", style="cyan").append(phase.name, style="bold")
        row.append(f"  {clock(now - phase.since)}", style="default")
        if phase.usual:
            row.append(f" of about {clock(phase.usual)}", style="dim")
        yield row.append(f"  {phase.text}", style="default") if phase.text else row


def _objects(view: View, now: float) -> Iterator[Text]:
    lasting = sorted(view.objects.values(), key=lambda each: each.since)
    if lasting or view.made:
        yield Text(f"     objects: {view.made} done, {len(lasting)} under way", style="dim")
    for each in lasting[:MOST_OBJECTS]:
        yield _object(each, now)


def _object(each: Running, now: float) -> Text:
    row = Text(f"     {each.name}  {clock(now - each.since)}")
    return row.append(f"  {each.text}", style="dim") if each.text else row


def _job(name: str, job: Job) -> Iterator[Text]:
    yield Text("   ").append(name, style="bold").append(f"  {job.condition}", style=_colour(job.condition))
    for pod, state in job.pods[:MOST_PODS]:
        yield Text(f"     {pod}  ").append(state, style=_colour(state))
    if len(job.pods) > MOST_PODS:
        yield Text(f"     and {len(job.pods) - MOST_PODS} more pods", style="dim")
    if job.is_training:
        yield _bar(job)
    if job.accuracy:
        yield Text(f"     accuracy {job.accuracy}  loss {job.loss}", style="green")


def _bar(job: Job) -> Text:
    part = min(job.done / job.total, 1.0)
    full = round(part * BAR)
    of = f"/{job.epochs}" if job.epochs else ""
    row = Text(f"     epoch {job.epoch}{of} ").append("━" * full, style="green")
    row.append("─" * (BAR - full), style="dim").append(f" {part:4.0%}", style="default")
    if job.pace:
        row.append(f"  {job.pace:,.0f} images/s", style="default")
    left = job.left_s()
    what = "" if job.epochs else " in this epoch"
    return row if left is None else row.append(f"  {clock(left)} left{what}", style="default")


def _colour(state: str) -> str:
    if any(word in state for word in BAD):
        return "red"
    return "green" if state.startswith(GOOD) else "yellow"
