"""What is told of a command of Pulumi's that fails: with --json its errors stand in what it prints."""

from __future__ import annotations

import json
import os

import pytest

from tests.unit.conftest import Fake
from toolchain.operating import pulumi_cli
from toolchain.steps import SetupError

PLUGIN = "using pulumi-resource-kubernetes from $PATH at /elsewhere/bin/pulumi-resource-kubernetes"
WARNING = {"severity": "warning", "message": f"warning: {PLUGIN}\n"}
ERROR = {"severity": "error", "message": "error: the API server does not answer\n"}
CLAIM = "urn:pulumi:dev::trainstack::a$kubernetes:core/v1:PersistentVolumeClaim::PersistentVolumeClaim/a/b"
OF_CLAIM = {"severity": "error", "urn": CLAIM, "message": "error: the server answered 403: {}\n"}


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (json.dumps({"steps": [], "diagnostics": [WARNING, ERROR]}), "the API server does not answer"),
        (json.dumps({"diagnostics": [OF_CLAIM]}), "PersistentVolumeClaim a/b: the server answered 403: {}"),
        (json.dumps({"diagnostics": [WARNING]}), "on stderr"),
        ("[]", "on stderr"),
        ("", "on stderr"),
    ],
    ids=["with --json", "of an object", "no error in it", "another document", "nothing"],
)
def test_the_error_is_told_and_not_the_warnings(fake: Fake, printed: str, said: str) -> None:
    fake("pulumi", f"cat <<'END'\n{printed}\nEND\necho on stderr >&2\nexit 255")
    with pytest.raises(SetupError, match=said) as told:
        pulumi_cli.preview({"PATH": os.environ["PATH"]}, "dev")
    assert "$PATH" not in str(told.value)
    assert "fix: " in str(told.value)


def test_the_programs_warnings_are_told_without_those_of_plugins(fake: Fake) -> None:
    told = {"severity": "warning", "message": "warning: these objects are being deleted: Job/a\n"}
    printed = json.dumps({"steps": [{"op": "same"}], "diagnostics": [WARNING, told, OF_CLAIM]})
    fake("pulumi", f"cat <<'END'\n{printed}\nEND")
    found = pulumi_cli.preview({"PATH": os.environ["PATH"]}, "dev")
    assert found == ([{"op": "same"}], ["these objects are being deleted: Job/a"])
