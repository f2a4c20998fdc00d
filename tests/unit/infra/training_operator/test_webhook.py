"""The wait for the operator's webhook outlives an API server that restarts."""

from __future__ import annotations

import time

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from infra.config.operator import OperatorApi
from infra.guard import policy_rules
from infra.guard.conditions import Allowed
from infra.objects.api import ApiAddress
from infra.training_operator import webhook
from infra.training_operator.webhook import PAUSE_S, WebhookError
from tests.unit.infra.objects.played_api import Request, play
from tests.unit.infra.samples import stopped_clock

PASSING = [
    ApiException(status=404, reason="no CRD yet"),
    ApiException(status=500, reason="no service yet"),
    ApiException(status=403, reason="no roles yet"),
    ApiException(status=503, reason="away"),
    urllib3.exceptions.MaxRetryError(urllib3.HTTPConnectionPool("x"), "/", None),
    urllib3.exceptions.ProtocolError("reset"),
    TimeoutError("timed out"),
]


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "PAUSE_S", PAUSE_S)
    stopped_clock(monkeypatch)


def wait(
    monkeypatch: pytest.MonkeyPatch, *errors: Exception, api: OperatorApi = OperatorApi.V1
) -> list[Request]:
    """What a server is asked that fails with each of `errors`, then answers."""
    left = [*errors]
    asked = play(monkeypatch, lambda _: left.pop(0) if left else {})
    webhook.wait(ApiAddress(None), "kubeflow", api)
    return asked


@pytest.mark.parametrize(
    "error", PASSING, ids=lambda error: f"{type(error).__name__}{getattr(error, 'status', '')}"
)
def test_what_passes_is_waited_out(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    assert len(wait(monkeypatch, error, error)) == 3


def test_a_webhook_that_never_comes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WebhookError, match="does not answer"):
        wait(monkeypatch, *[ApiException(status=500)] * 10_000)


def test_a_refused_job_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ApiException(status=422)
    refused.body = "no such field"
    with pytest.raises(WebhookError, match="no such field"):
        wait(monkeypatch, refused)
    assert time.monotonic() == 0


@pytest.mark.parametrize(
    ("api", "paths"),
    [
        (OperatorApi.V1, ["kubeflow.org/v1/namespaces/kubeflow/pytorchjobs"]),
        (
            OperatorApi.V2,
            [
                "jobset.x-k8s.io/v1alpha2/namespaces/kubeflow/jobsets",
                "trainer.kubeflow.org/v1alpha1/namespaces/kubeflow/trainingruntimes",
            ],
        ),
    ],
)
def test_the_server_is_only_asked_what_it_would_do(
    api: OperatorApi, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = wait(monkeypatch, api=api)
    assert [each.path for each in asked] == [f"/apis/{path}" for path in paths]
    assert {(each.method, each.query["dryRun"]) for each in asked} == {("POST", "All")}


@pytest.mark.parametrize("api", OperatorApi)
def test_the_question_keeps_to_the_policies(api: OperatorApi) -> None:
    """A namespace that refuses what breaks them has to let it through to the webhook."""
    assert policy_rules.violations(webhook.probes(api, "team"), Allowed(())) == []
