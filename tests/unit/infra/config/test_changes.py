"""Each key of the stack file has a rule about its change, and the documentation shows it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from infra.config.changes import NOTES, ON_KIND, OUTCOMES
from infra.config.errors import model_in
from infra.config.load import Sections
from infra.config.section import Outcome, Section, every_key, keys, said, setting
from tests.e2e.project import ROOT
from tests.matrix import entries


def is_another_empty(model: type[BaseModel], field: FieldInfo) -> bool:
    """Whether `[]` or `{}` is a value of a section, and means something else than its absence."""
    if field.default is not None:
        return False
    one = model.__pydantic_validator__
    (name,) = [name for name, each in model.model_fields.items() if each is field]
    empties: tuple[Any, ...] = ([], {})
    for empty in empties:
        with suppress(ValidationError):
            given = getattr(one.validate_assignment(model.model_construct(), name, empty), name)
            return not (given and given.model_dump(exclude_none=True))
    return False


KEYS = {
    key
    for key, section, field in keys(Sections)
    if model_in(field.annotation) is None or field.alias == "jobs" or is_another_empty(section, field)
}


def test_every_key_has_a_rule_and_every_rule_a_key() -> None:
    assert OUTCOMES.keys() == KEYS, "`changing` of its `setting` says what changing a key does"


class Inner(Section):
    model_config = every_key(changing=Outcome.NOTHING)

    one: int = setting(about="One.")


class Outer(Section):
    model_config = every_key(changing=Outcome.JOB_REPLACED, note="All.")

    usual: int = setting(about="As every key of the section.")
    own: int = setting(about="It says otherwise.", changing=Outcome.REFUSED)
    inner: Inner = setting(about="A section: its keys say it.")


def test_a_key_says_what_its_section_says_of_every_key_unless_it_says_otherwise() -> None:
    assert said(Outer, "changing") == {
        "usual": Outcome.JOB_REPLACED,
        "own": Outcome.REFUSED,
        "inner.one": Outcome.NOTHING,
    }
    assert said(Outer, "note") == {"usual": "All.", "own": "All."}


def test_sections_that_may_be_empty_are_found() -> None:
    assert {"job.data", "job.egress", "job.runPolicy.schedulingPolicy"} == {
        key for key in KEYS if any(each.startswith(f"{key}.") for each in KEYS)
    }


def test_exceptions_and_notes_are_about_keys() -> None:
    assert ON_KIND.keys() <= NOTES.keys() <= KEYS


def test_the_matrix_has_each_key_once() -> None:
    listed = [*entries.OBJECTS, *entries.ON_KIND, *entries.ELSEWHERE]
    assert sorted(listed) == sorted(KEYS), "tests/matrix/entries.py has a second value of each key"


def test_what_the_matrix_leaves_to_others_is_there() -> None:
    named = [word for why in entries.ELSEWHERE.values() for word in why.split() if word.endswith(".py")]
    assert len(named) == len(entries.ELSEWHERE) - 1, "all but the image for GPUs"
    assert [name for name in named if not (ROOT / name).exists()] == []
