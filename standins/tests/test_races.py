"""Controllers that write to an object while it is updated."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest
from pulumi_standins.kubernetes import races
from pulumi_standins.kubernetes.api_client import JSON_PATCH, ApiClient
from pulumi_standins.kubernetes.errors import ApiError
from pulumi_standins.kubernetes.objects import kind_of, name_of, namespace_of

from standins.tests.driver import CallError, Driver, Object
from standins.tests.meanwhile import merge
from standins.tests.samples import config_map, definition

pytestmark = pytest.mark.apiserver

# More than the API server itself tries: five times.
RACES = 6


class Controller:
    """Writes to an object before each of a provider's next writes to it.

    Parameters:
        driver: the provider.
        client: the controller's own way to the server.
        obj: the object.
        races: before how many writes.
    """

    def __init__(self, driver: Driver, client: ApiClient, obj: Object, races: int) -> None:
        self.left = races
        self._client, self._obj = client, obj
        assert driver.provider._client is not None
        connection = driver.provider._client.transport._connection
        self._pool = connection.pool
        connection.pool = self  # type: ignore[assignment]

    def request(self, method: str, url: str, **options: Any) -> Any:
        """In place of the pool's method of that name."""
        if self.left and self._is_versioned(method, options):
            self.left -= 1
            patch = {"metadata": {"annotations": {"written": str(self.left)}}}
            path = self._client.path(kind_of(self._obj), namespace_of(self._obj), name_of(self._obj))
            merge(self._client, path, patch, manager="controller")
        return self._pool.request(method, url, **options)

    @staticmethod
    def _is_versioned(method: str, options: dict[str, Any]) -> bool:
        return method == "PUT" or options["headers"].get("Content-Type") == JSON_PATCH


def test_fields_are_taken_over_from_an_object_that_a_controller_keeps_writing_to(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    made = driver.create(config_map(namespace, a="1"))
    controller = Controller(driver, client, config_map(namespace), RACES)
    changed = driver.update(made, config_map(namespace, b="2"))
    assert controller.left == 0
    assert changed.outputs["data"] == {"b": "2"}, "what the program drops goes"
    assert changed.outputs["metadata"]["annotations"] == {"written": "0"}


def test_a_definition_that_a_controller_keeps_writing_to_is_replaced(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    made = driver.create(definition(f"{namespace}.example.com"))
    controller = Controller(driver, client, made.outputs, RACES)
    wanted = json.loads(json.dumps(definition(f"{namespace}.example.com")))
    wanted["spec"]["names"]["shortNames"] = ["th"]
    changed = driver.update(made, wanted)
    assert controller.left == 0
    assert changed.outputs["spec"]["names"]["shortNames"] == ["th"]
    driver.delete(changed)


def test_a_race_that_the_server_lost_itself_is_no_conflict_of_fields(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    """After five races an apply is answered with 409, too, but without the names of fields."""
    made = driver.create(config_map(namespace, a="1"))
    made = driver.update(made, config_map(namespace, a="2"))
    assert driver.provider._client is not None
    connection = driver.provider._client.transport._connection
    pool = connection.pool
    lost = {"kind": "Status", "reason": "Conflict", "message": "the object has been modified"}
    answers = [Mock(status=409, headers={}, data=json.dumps(lost).encode())]

    def request(method: str, url: str, **options: Any) -> Any:
        if method == "PATCH" and answers:
            patch = {"metadata": {"annotations": {"written": "yes"}}}
            merge(client, f"/api/v1/namespaces/{namespace}/configmaps/it", patch, manager="controller")
            return answers.pop()
        return pool.request(method, url, **options)

    connection.pool = Mock(request=request)
    assert driver.update(made, config_map(namespace, a="3")).outputs["data"] == {"a": "3"}
    assert not answers


def test_a_refusal_that_is_no_race_comes_at_once_though_a_controller_writes(
    driver: Driver, client: ApiClient, namespace: str
) -> None:
    made = driver.create(config_map(namespace, a="1"))
    wanted = config_map(namespace, a="2")
    wanted["metadata"]["labels"] = {"a": "no label value!"}
    attempts: list[Object] = []

    def write(live: Object) -> Object:
        attempts.append(live)
        note = {"metadata": {"annotations": {"written": str(len(attempts))}}}
        merge(client, f"/api/v1/namespaces/{namespace}/configmaps/it", note, manager="controller")
        return client.apply(wanted, manager="ours", force=True)

    with pytest.raises(CallError, match="Invalid value"):
        driver.update(made, wanted)
    with pytest.raises(ApiError, match="Invalid value"):
        races.write_to_latest(client, client.get(kind_of(wanted), namespace, "it"), write)
    assert len(attempts) == 1
