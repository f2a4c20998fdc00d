"""docs/configuration.md, and what it is made of."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import yaml
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from infra.config import reference
from infra.config.errors import example
from infra.config.load import Sections
from infra.config.section import keys

KEYS: dict[str, FieldInfo] = {key: field for key, _, field in keys(Sections)}


def test_the_page_is_fresh() -> None:
    stale = "run `python -m infra.config.reference` and commit docs/configuration.md"
    assert reference.PAGE.read_text() == reference.page(), stale


@pytest.mark.parametrize("key", KEYS)
def test_says_in_at_most_three_sentences_what_it_is_for(key: str) -> None:
    about = KEYS[key].description or ""
    assert about[:1].isupper()
    assert about.endswith(".")
    assert about.count(". ") <= 2


def test_brackets_are_shown_in_code_and_in_text() -> None:
    assert reference._escaped("`<a|b>` and <c>") == "`<a\\|b>` and &lt;c&gt;"


@pytest.mark.parametrize("key", [key for key, field in KEYS.items() if field.examples])
def test_its_example_is_allowed(key: str) -> None:
    field = KEYS[key]
    given: Any = yaml.safe_load(example(field).replace("…", "0" * 64))
    rules: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    TypeAdapter(rules).validate_python(given)
