"""What a state tells without Pulumi."""

from __future__ import annotations

from toolchain.operating import state

ENCRYPTED = {state.SIGNATURE: "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:…"}


def test_outputs_are_those_of_the_stack_and_secrets_stay_hidden() -> None:
    given = {
        "jobStatus": "Succeeded",
        "jobs": {"mnist": {"loss": None, "token": ENCRYPTED}},
        "all": [ENCRYPTED, 1],
    }
    resources = [
        {"type": "kubernetes:core/v1:Pod", "outputs": {"other": 1}},
        {"type": state.STACK, "outputs": given},
    ]
    assert state.outputs({"resources": resources}) == {
        "jobStatus": "Succeeded",
        "jobs": {"mnist": {"loss": None, "token": "[secret]"}},
        "all": ["[secret]", 1],
    }


def test_a_stack_that_was_never_up_has_none() -> None:
    assert state.outputs({}) == {}
    assert state.outputs({"resources": [{"type": state.STACK}]}) == {}
