"""Check and Diff: check a program's inputs, and compare them with the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulumi_standins import protocol
from pulumi_standins.kubernetes import checking, diffing, state, values
from pulumi_standins.kubernetes.calls.configured import Configured
from pulumi_standins.kubernetes.objects import REPLACE_UNREADY, is_annotated
from pulumi_standins.kubernetes.rpc_errors import rpc_method
from pulumi_standins.kubernetes.values import Object

if TYPE_CHECKING:
    from pulumi.runtime.proto import provider_pb2


class PlanCalls(Configured):
    """Check and Diff."""

    @rpc_method
    def Check(self, request: provider_pb2.CheckRequest) -> provider_pb2.CheckResponse:  # noqa: N802
        """Normalise, name and place the inputs."""
        checked = checking.check(
            urn=request.urn,
            news=values.decode(request.news),
            olds=values.decode(request.olds),
            seed=request.randomSeed,
            autonaming=request.autonaming if request.HasField("autonaming") else None,
            namespace=self._namespace,
            scope=self._scopes,
            client=self._client,
            engine=self._engine,
        )
        return protocol.provider_pb2.CheckResponse(inputs=values.encode(checked))

    @rpc_method
    def Diff(self, request: provider_pb2.DiffRequest) -> provider_pb2.DiffResponse:  # noqa: N802
        """Compare with the last live object."""
        old = state.read(values.decode(request.olds))
        news = values.plain(values.decode(request.news))
        found = diffing.diff(
            request.urn,
            old,
            news,
            ignored=list(request.ignoreChanges),
            is_namespaced=self._scopes.is_namespaced(news, self._client),
        )
        if self._must_replace_unready(request.urn, old, news):
            found.replaces.append('.metadata.annotations["pulumi.com/replaceUnready"]')
            found.deletes_first = diffing.must_delete_first(old.live, news)
        response, property_diff = protocol.provider_pb2.DiffResponse, protocol.provider_pb2.PropertyDiff
        detailed = {}
        for path, change in found.changes.items():
            name = f"{change}_REPLACE" if path in found.replaces else str(change)
            detailed[path] = property_diff(kind=property_diff.Kind.Value(name), inputDiff=change == "DELETE")
        return response(
            changes=response.DIFF_SOME if detailed or found.replaces else response.DIFF_NONE,
            replaces=found.replaces,
            deleteBeforeReplace=found.deletes_first,
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    def _must_replace_unready(self, urn: str, old: state.State, news: Object) -> bool:
        if not is_annotated(news, REPLACE_UNREADY):
            return False
        if self._client is None:
            message = "Cluster is unreachable, skipping replaceUnready check"
            self._engine.log(urn, message, warning=True)
            return False
        return diffing.must_replace_unready(self._session(), urn, old, news)
