"""What scalars and keys of a manifest mean: what sigs.k8s.io/yaml 1.6.0 makes of them, run on this list."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from pulumi_standins.kubernetes import manifest_yaml, values
from pulumi_standins.kubernetes.yaml_manifests import decode

SAME = [
    *("=", "12:30", "1:30:45", "190:20:30.15", "12:30:45", "2026-01-01", "2026-01-01T00:00:00Z", "1-2"),
    *("0o8", "0o", "0b_", "0b2", "0x", "0xg", "_1", "1k", "1.2.3", "1.5.", "10.0.0.1", "--1"),
    *(".", "+", "..5", "e3", "1e", "1e5e5", "inf", "nan", ".infinity", "tRUE", "nULL"),
]
NUMBERS = {
    **{"0644": 420, "0o644": 420, "0O17": 15, "-0o17": -15, "-017": -15, "00": 0, "0777_": 511},
    **{"08": 8, "0_8": 8, "0b101": 5, "0B101": 5, "0x1F": 31, "0X1f": 31, "-0x1F": -31, "0x_1F": 31},
    **{"+12": 12, "0": 0, "-0": 0, "1_000": 1000, "1__0": 10, "1_": 1},
    **{
        "1e3": 1000,
        "1E3": 1000,
        "1e+3": 1000,
        "1.5e3": 1500,
        "1.5e-3": 0.0015,
        "12e03": 12000,
        "+1e5": 100000,
    },
    **{
        ".5": 0.5,
        ".5e1": 5,
        "-.5": -0.5,
        "+.5": 0.5,
        "1.": 1,
        "-1.": -1,
        "1.5": 1.5,
        "1_0.5": 10.5,
        "0e0": 0,
    },
    **{"18446744073709551615": 18446744073709551615, "9223372036854775808": 9223372036854775808},
    **{"!!int 0o17": 15, "!!float 1": 1},
}
TRUE = ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"]
FALSE = ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"]
OTHERS = {"~": None, "null": None, "Null": None, '"12"': "12", "'='": "=", "!!str 12": "12", "'y'": "y"}
SCALARS: dict[str, Any] = {
    **{text: text for text in SAME},
    **NUMBERS,
    **dict.fromkeys(TRUE, True),
    **dict.fromkeys(FALSE, False),
    **OTHERS,
}
KEYS = {
    **{"8080": "8080", "y": "true", "on": "true", "off": "false", "1.5": "1.5", ".5": "0.5", "=": "="},
    **{"12:30": "12:30", "2026-01-01": "2026-01-01", "0o10": "8", "1e3": "1000", "1e30": "1e+30"},
}


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """libyaml, and PyYAML's own parser where a machine has no libyaml."""
    monkeypatch.setattr(manifest_yaml, "_Loader", manifest_yaml.loader(getattr(yaml, request.param)))


@pytest.mark.parametrize("text", SCALARS)
def test_scalars_mean_what_they_mean_to_kubernetes(text: str) -> None:
    ((found,),) = (obj.values() for obj in decode(f"a: {text}\n"))
    assert (found, isinstance(found, bool), isinstance(found, str)) == (
        SCALARS[text],
        isinstance(SCALARS[text], bool),
        isinstance(SCALARS[text], str),
    )


@pytest.mark.parametrize("text", KEYS)
def test_keys_are_texts_at_every_depth(text: str) -> None:
    key = KEYS[text]
    (found,) = decode(f"a: [{{{text}: {{{text}: b}}}}]\n{text}: c\n")
    assert found == {"a": [{key: {key: "b"}}], key: "c"}
    assert values.decode(values.encode(found)) == found


def test_a_key_that_is_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="a key is a NoneType"):
        decode("a: {null: b}")


def test_merges_and_anchors_stay() -> None:
    (found,) = decode("a: &a {b: 1}\nc: {<<: *a, d: 2}\n")
    assert found["c"] == {"b": 1, "d": 2}
