"""A stack has one configuration: what a review reads in the stack file is what Pulumi hands to the program.

Each spelling of a value goes through our reader and through the real Pulumi, and so does each place from which Pulumi
takes values beside the stack file.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra.config import ConfigError
from infra.config.load import ensure_one_place, read
from tests.preview.project import ABSENT, Project
from tests.unit.infra.samples import JOB

FAILED = (1, 255)
ALIKE = (
    *("1", "-1", "+1", "0", "-0", "9007199254740993", "9223372036854775807", "-9223372036854775808"),
    *("0.1", "1.0", "5.", ".5", "-.5", "+.5", "-0.0", "1e3", "1E3", "1.5e3", "1e+3", "1e-3", "1e20", "1e22"),
    *("1e-400", "5e-324", "0.30000000000000004", "1.7976931348623157e308", "1e3.5", "0o18", "inf", "nan"),
    *("true", "True", "TRUE", "false", "yes", "Yes", "no", "on", "off", "y", "n", "null", "Null", "~", ""),
    *("1:30", "1:30:00", "190:20:30.15", "=", "'1'", '"1"', "!!str 1", "!!int '3'", "!!float 1"),
    *("[1, 2.0, a]", "{a: 1, b: 2.50}", "|\n      abc\n      d", ">-\n      abc\n      d", "&x 1", "1 # c"),
    *("'it''s'", '"\\u006f"', '"a\\tb"', "a-b", "10Gi", "1_a", "0a", "2001-1", "v1.0", "größe"),
)
"""Values that both read alike."""

REFUSED = (
    *(
        "007",
        "010",
        "08",
        "09.5",
        "-010",
        "0_1",
        "1_000",
        "1.5_0",
        "0o17",
        "+0o17",
        "0x1F",
        "-0x1f",
        "0x_1F",
        "0b11",
    ),
    *(".inf", "-.inf", "+.inf", ".nan", ".NaN", "1e400", "12345678901234567890", "18446744073709551616"),
    *(
        "2001-01-01",
        "2001-12-14t21:59:43.10-05:00",
        "2001-12-14 21:59:43",
        "!!binary aGk=",
        "!!timestamp 2001-01-01",
    ),
    *("<<", "*x", "a: b", "@a", "`a", "%a", "{a: 1, a: 2}", "{1: a}", "{true: a}", "{~: a}"),
)
"""Values that one of the two changes or does not take: our reader refuses them."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("one"))


def test_each_spelling_is_read_as_pulumi_reads_it(project: Project) -> None:
    lines = "".join(f"    k{place}: {spelling}\n" for place, spelling in enumerate(ALIKE))
    project.stack_file.write_text(f"config:\n  trainstack:job:\n{lines}")
    shown = json.loads(project.pulumi("config", "--json", "--stack", "dev").stdout)
    theirs = json.loads(shown["trainstack:job"]["value"])
    ours = read(project.stack_file)["job"]
    told = {
        spelling: (ours[key], theirs[key])
        for key, spelling in ((f"k{place}", spelling) for place, spelling in enumerate(ALIKE))
        if json.dumps(ours[key]) != json.dumps(theirs[key])
    }
    assert told == {}
    assert len(ALIKE) + len(REFUSED) >= 60


@pytest.mark.parametrize("spelling", REFUSED)
def test_each_other_spelling_is_refused(project: Project, spelling: str) -> None:
    project.stack_file.write_text(f"config:\n  trainstack:job:\n    k: {spelling}\n")
    with pytest.raises(ConfigError, match="Pulumi would read it differently"):
        read(project.stack_file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("config:\n  job: {name: mnist}\n", "write `trainstack:job`"),
        ("config:\n  trainstack:job: {name: mnist}\n  protected: true\n", "write `trainstack:protected`"),
        ("config:\n  trainstack:job: {name: mnist}\n  trainstack:job: {name: other}\n", "each key once"),
        ("environment: [dev]\nconfig:\n  trainstack:job: {name: mnist}\n", "environment"),
        ("config:\n  trainstack:job: {name: mnist}\n---\nconfig: {}\n", "document"),
    ],
)
def test_what_pulumi_would_add_or_choose_by_chance_is_refused(project: Project, text: str, said: str) -> None:
    project.stack_file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read(project.stack_file)


OTHER_PLACES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "Pulumi.yaml": ((), "Pulumi.yaml", "config:\n  image:\n    value: {target: gpu}\n"),
    "Pulumi.yaml, with the project": (
        (),
        "Pulumi.yaml",
        "config:\n  trainstack:protected:\n    value: true\n",
    ),
    "--config-file": (("--config-file", "other.yaml"), "other.yaml", ""),
}
"""Where Pulumi takes values beside the stack file: options, and the file that gets more lines.

`--config` is none of these: Pulumi writes its values into the stack file first.
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("place", OTHER_PLACES)
def test_a_value_from_another_place_is_refused(project: Project, place: str) -> None:
    options, name, lines = OTHER_PLACES[place]
    project.configure({"job": JOB, "cluster": {"name": ABSENT}})
    file = project.folder / (name or "unused")
    before = (
        file.read_text()
        if file.exists()
        else project.stack_file.read_text().replace("pytorch-simple", "other")
    )
    file.write_text(f"{before}{lines}")
    try:
        done = project.pulumi("preview", "--stack", "dev", *options)
    finally:
        if name == "Pulumi.yaml":
            file.write_text(before)
    assert done.returncode in FAILED, done.stdout
    assert "from Pulumi" in done.stdout, done.stdout
    assert "as the stack file says" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Pulumi.json", '{"name": "trainstack", "runtime": "python"}'),
        ("Pulumi.yml", "name: trainstack\nruntime: python\n"),
        ("Pulumi.yaml", "name: trainstack\nruntime: python\nstackConfigDir: elsewhere\n"),
        ("Pulumi.yaml", "name: trainstack\nstackConfigDir: stacks\nconfig: {trainstack:protected: false}\n"),
    ],
)
def test_a_review_refuses_another_place_of_configuration(tmp_path: Any, name: str, text: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: trainstack\nruntime: python\nstackConfigDir: stacks\n")
    ensure_one_place(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=name):
        ensure_one_place(tmp_path)
