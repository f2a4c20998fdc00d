"""`make compare A=… B=…`: where two runs differ, in their configuration and in their results."""

from __future__ import annotations

from toolchain.runs import curves, listing, records
from toolchain.runs.records import Run
from toolchain.steps import SetupError

OUTCOME = ("commit", "image", "epochs done", "accuracy", "loss", "seconds")


def compare(one: str, other: str) -> None:
    """Print where the two runs differ, and the path of a page with their curves over each other.

    Raises SetupError for a name that is missing, or that no single run has.
    """
    if not (one and other):
        raise SetupError("two runs are needed", "make compare A=<run> B=<run>, as `make runs` lists them")
    first, second = records.find(one), records.find(other)
    print("\n".join(lines(first, second)))
    if page := curves.write(first, second):
        print(f"curves: {page}")


def lines(one: Run, other: Run) -> list[str]:
    """A table of configuration, then outcome; a sentence where there is no difference."""
    first, second = {**one.config, **_outcome(one)}, {**other.config, **_outcome(other)}
    differing = [key for key in {**first, **second} if first.get(key) != second.get(key)]
    if not differing:
        return [f"{one.stack}/{one.name} and {other.stack}/{other.name} do not differ"]
    cells = [(key, _text(first.get(key)), _text(second.get(key))) for key in differing]
    return listing.table([("", f"{one.stack}/{one.name}", f"{other.stack}/{other.name}"), *cells])


def _outcome(run: Run) -> dict[str, object]:
    return dict(
        zip(
            OUTCOME,
            (run.commit or None, run.origin.get("image"), run.epochs, run.accuracy, run.loss, run.seconds),
            strict=True,
        )
    )


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
