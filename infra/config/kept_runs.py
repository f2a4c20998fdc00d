"""Section `storage.keepRuns`: which finished runs stay on the volume."""

from __future__ import annotations

from pydantic import model_validator

from infra.config.section import Count, Natural, Outcome, Section, every_key, refusal, setting


class KeepRuns(Section):
    """A run of our trainer that succeeds removes finished runs of its job that exceed a limit; a run in use stays."""

    model_config = every_key(changing=Outcome.JOB_REPLACED, note="Its run goes on under its id.")

    number: Count | None = setting(
        about="How many finished runs of a job stay, the last one among them; without it any number.",
        default=None,
        allowed="a whole number of at least 1",
        examples=[10],
    )
    days: Natural | None = setting(
        about="How many days older than the last one a finished run may be; without it any age.",
        default=None,
        allowed="a whole number of at least 0",
        examples=[30],
    )

    @model_validator(mode="after")
    def _has_a_limit(self) -> KeepRuns:
        if self.number is None and self.days is None:
            raise refusal(
                "number, days or both", "write `number: 10`, or remove keepRuns", "number", "(absent)"
            )
        return self

    def environment(self) -> dict[str, str]:
        """The trainer's variables."""
        limits = {"TRAINER_KEEP_RUNS": self.number, "TRAINER_KEEP_DAYS": self.days}
        return {name: str(limit) for name, limit in limits.items() if limit is not None}
