"""The sample of `make test` and the rest of `make test-full` are every case, each once."""

from pathlib import Path

import pytest

from tests.inside import cases

pytest_plugins = ["pytester"]
FILE = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_short(number): pass

@pytest.mark.sampled(2)
@pytest.mark.parametrize("letter", "ab")
@pytest.mark.parametrize("number", range(5))
def test_long(number, letter): pass

@pytest.mark.sampled(0)
def test_longest(): pass
"""


@pytest.mark.parametrize(
    ("count", "wanted", "numbers"),
    [(10, 2, {0, 5}), (9, 3, {0, 3, 6}), (4, 1, {0}), (2, 3, {0}), (1, 0, set()), (0, 2, set())],
)
def test_a_sample_is_spread_over_all(count: int, wanted: int, numbers: set[int]) -> None:
    assert cases.spread(count, wanted) <= set(range(count))
    assert cases.spread(count, wanted) == numbers or count < wanted


def test_each_case_is_in_the_sample_or_in_the_rest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FILE)
    conftest = Path(__file__).parent / "conftest.py"
    hooks = "from tests.inside.conftest import pytest_addoption, pytest_collection_modifyitems, pytest_configure\n"
    assert "def pytest_addoption" in conftest.read_text()
    pytester.makeconftest(hooks)
    names = {}
    for wanted in cases.CHOICES:
        result = pytester.runpytest_inprocess("--collect-only", "-q", "--cases", wanted)
        names[wanted] = [line for line in result.outlines if "::" in line]
    assert sorted(names["sample"] + names["rest"]) == sorted(names["all"])
    assert len(names["sample"]) == 5 + 2
    assert len(names["rest"]) == 8 + 1
