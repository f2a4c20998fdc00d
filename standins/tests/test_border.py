"""The border: the page is made of it, nothing beyond it is ignored in silence, and what it needs is on it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pulumi_kubernetes
import pytest
from pulumi_kubernetes._inputs import KubeClientSettingsArgs
from pulumi_kubernetes.provider import ProviderArgs
from pulumi_standins import border, protocol
from pulumi_standins.border import Side
from pulumi_standins.kubernetes import values
from pulumi_standins.kubernetes.awaiting.rules import RULES
from pulumi_standins.language.host import LanguageHost
from pulumi_standins.language.running_programs import RunningPrograms

from standins.tests.driver import CallError, Driver
from standins.tests.samples import annotated, config_map

HEAD = "| what | which | here |"
PAGE = Path(__file__).parents[1] / "docs" / "behaviour.md"
PROVIDER = "urn:pulumi:s::p::pulumi:providers:kubernetes::cluster"
REFUSED_OPTIONS = [name for name, side in border.OPTIONS.items() if side is Side.REFUSED]
GIVEN = {"enableServerSideApply=false": ("enableServerSideApply", "false")}
HELPERS = [
    "yaml:decode",
    "yaml/v2:ConfigFile",
    "yaml/v2:ConfigGroup",
    "kustomize:directory",
    "kustomize/v2:Directory",
]
HELPERS += ["helm:template", "helm.sh/v4:Chart"]


def table() -> str:
    """The rows of the page."""
    lines = [HEAD, "| --- | --- | --- |"]

    def add(what: str, sides: dict[str, Side], *, quoted: bool = True) -> None:
        for side in Side:
            names = [f"`{name}`" if quoted else name for name, found in sides.items() if found is side]
            if names:
                lines.append(f"| {what} | {('; ', ', ')[quoted].join(names)} | {side} |")

    add("types", border.TYPES, quoted=False)
    waited = dict.fromkeys(RULES, Side.CARRIED) | dict.fromkeys(sorted(border.NOT_AWAITED), Side.WARNED)
    add("waiting for kinds", waited)
    add("annotations", border.ANNOTATIONS)
    add("provider options", border.OPTIONS)
    add("variables", {f"{name}={value}": Side.REFUSED for name, value in border.ENVIRONMENT.items()})
    add("language host", border.LANGUAGE_HOST, quoted=False)
    return "\n".join(lines)


def test_the_page_has_the_border() -> None:
    assert table() in PAGE.read_text(), "run `python -m standins.tests.test_border`"


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def test_every_option_of_the_sdk_has_a_side() -> None:
    names = {camel(name) for name in inspect.signature(ProviderArgs.__init__).parameters} - {
        camel("__self__")
    }
    parts = {camel(name) for name in inspect.signature(KubeClientSettingsArgs.__init__).parameters}
    known = {name.partition("=")[0].partition(".")[0] for name in border.OPTIONS}
    assert names == known - {"strictMode"}, "strictMode is configuration of the stack alone"
    settings = {name.partition(".")[2] for name in border.OPTIONS if name.startswith("kubeClientSettings.")}
    assert settings == parts - {camel("__self__")}
    assert pulumi_kubernetes.Provider is not None


def check_config(**given: Any) -> list[str]:
    with Driver() as driver:
        request = protocol.provider_pb2.CheckRequest(urn=PROVIDER, news=values.encode(given))
        return [failure.reason for failure in driver.call("CheckConfig", request).failures]


def option(name: str) -> tuple[str, str]:
    if name in GIVEN:
        return GIVEN[name]
    whole, _, part = name.partition(".")
    return whole, f'{{"{part}": 5}}' if part else "true"


@pytest.mark.parametrize("name", [*REFUSED_OPTIONS, "inventedLater"])
def test_an_option_beyond_the_border_is_refused_by_name(name: str) -> None:
    given, value = option(name)
    (reason,) = check_config(**{given: value})
    assert name.partition("=")[0] in reason
    assert "needs Pulumi's own kubernetes plugin" in reason
    with pytest.raises(CallError, match="needs Pulumi's own kubernetes plugin"):
        Driver(**{given: value})


@pytest.mark.parametrize("name", border.OPTIONS)
def test_an_option_that_changes_nothing_is_taken(name: str) -> None:
    whole = name.partition("=")[0].partition(".")[0]
    same = {"kubeClientSettings": '{"timeout": 30}', "enableServerSideApply": "true"}
    assert check_config(**{whole: same.get(whole, "false")}, version="4.30.0") == []


@pytest.mark.parametrize("name", border.ENVIRONMENT)
def test_a_variable_beyond_the_border_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, border.ENVIRONMENT[name])
    with pytest.raises(CallError, match=f"{name}.* needs Pulumi's own kubernetes plugin"):
        Driver()


@pytest.mark.parametrize("token", HELPERS)
def test_helpers_of_the_sdk_are_refused_by_name(token: str) -> None:
    token = f"kubernetes:{token}"
    invoke = protocol.provider_pb2.InvokeRequest(tok=token)
    construct = protocol.provider_pb2.ConstructRequest(type=token)
    with Driver() as driver:
        for method, request in (("Invoke", invoke), ("Construct", construct)):
            with pytest.raises(CallError, match=f"{re.escape(token)} needs Pulumi's own kubernetes plugin"):
                driver.call(method, request)


def test_a_release_of_helm_is_refused_by_name() -> None:
    release = {"apiVersion": "helm.sh/v3", "kind": "Release", "metadata": {}}
    with Driver() as driver, pytest.raises(CallError, match="Release needs Pulumi's own kubernetes plugin"):
        driver.check(release, token="kubernetes:helm.sh/v3:Release")


@pytest.mark.parametrize("name", [name for name, side in border.ANNOTATIONS.items() if side is Side.REFUSED])
def test_an_annotation_beyond_the_border_is_refused_by_name(name: str) -> None:
    given = config_map("default")
    given["metadata"]["annotations"] = {name: "x"}
    with (
        Driver() as driver,
        pytest.raises(CallError, match=f"annotation {re.escape(name)} needs Pulumi's own"),
    ):
        driver.check(given)


def test_other_annotations_are_taken() -> None:
    with Driver() as driver:
        driver.check(annotated(config_map("default"), skipAwait="true", patchForce="true"))


class Context:
    def abort(self, _code: object, message: str) -> None:
        raise CallError(message)


@pytest.mark.parametrize("call", ["GenerateProgram", "GeneratePackage", "Pack", "Link", "RunPlugin"])
def test_calls_beyond_the_border_are_refused_by_name(call: str) -> None:
    with pytest.raises(CallError, match=f"{call} needs Pulumi's own language host"):
        getattr(LanguageHost(""), call)(None, Context())


def test_a_debugger_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunningPrograms, "run", None)
    request = protocol.language_pb2.RunRequest(attach_debugger=True)
    answer = LanguageHost("").Run(request, Context())
    assert "needs Pulumi's own language host" in answer.error


if __name__ == "__main__":
    page = PAGE.read_text()
    begin, end = page.index(HEAD), page.index("\n\n", page.index(HEAD))
    PAGE.write_text(page[:begin] + table() + page[end:])
