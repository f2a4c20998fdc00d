"""A connection to an API server, authenticated and proxied by the official client library."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pulumi_standins import border, emulated
from pulumi_standins.kubernetes import kubeconfig
from pulumi_standins.kubernetes.kubeconfig import KubeconfigError
from pulumi_standins.kubernetes.settings import Settings
from pulumi_standins.startup import bare_package

if TYPE_CHECKING:
    import urllib3

# The part before the slash becomes the field manager of plain creates, as in the real plugin.
USER_AGENT = f"pulumi-kubernetes/{emulated.KUBERNETES_PLUGIN}"
# Logins that run a program or expire: the client library's loader supports them all.
_DYNAMIC = ("exec", "auth-provider", "tokenFile")
_IN_CLUSTER = "/var/run/secrets/kubernetes.io/serviceaccount/token"


class Connection:
    """The pool of connections and their authentication headers.

    Parameters:
        settings: which kubeconfig, context and cluster.

    Raises:
        KubeconfigError: no usable configuration.
    """

    def __init__(self, settings: Settings) -> None:
        config, folder = (
            kubeconfig.parse(settings.kubeconfig) if settings.kubeconfig else kubeconfig.default_kubeconfig()
        )
        self._lock = threading.Lock()
        if not config.get("contexts") and os.path.exists(_IN_CLUSTER):
            raise KubeconfigError(
                border.refusal("the login with a pod's service account, without a kubeconfig,")
            )
        context = kubeconfig.current_context(config, settings)
        self._configuration = _configuration(config, context, settings, folder)
        self.namespace = settings.namespace or context.get("namespace") or "default"
        self.server: str = self._configuration.host.rstrip("/")
        self.pool = _pool(self._configuration)

    def headers(self) -> dict[str, str]:
        """The headers of one request; expired tokens of exec plugins and token files are read again."""
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        with self._lock:
            found: Mapping[str, Any] = self._configuration.auth_settings()
        for setting in found.values():
            if setting.get("value") and setting.get("in") == "header":
                headers[setting["key"]] = setting["value"]
        return headers


def _configuration(config: dict[str, Any], context: dict[str, Any], settings: Settings, folder: str) -> Any:
    bare_package("kubernetes")
    user = kubeconfig.user(config, context)
    if any(user.get(key) for key in _DYNAMIC):
        return _loaded(config, context, settings, folder)
    from kubernetes.client.configuration import Configuration

    configuration = Configuration()
    cluster = kubeconfig.cluster(config, context)
    configuration.host = cluster.get("server", "")
    configuration.verify_ssl = not cluster.get("insecure-skip-tls-verify")
    configuration.ssl_ca_cert = _file(cluster, "certificate-authority", folder)
    configuration.tls_server_name = cluster.get("tls-server-name")
    configuration.cert_file = _file(user, "client-certificate", folder)
    configuration.key_file = _file(user, "client-key", folder)
    configuration.proxy = cluster.get("proxy-url") or configuration.proxy
    if user.get("token"):
        configuration.api_key["authorization"] = f"Bearer {user['token']}"
    elif user.get("username"):
        pair = base64.b64encode(f"{user['username']}:{user.get('password', '')}".encode()).decode()
        configuration.api_key["authorization"] = f"Basic {pair}"
    return configuration


def _file(entry: dict[str, Any], name: str, folder: str) -> str | None:
    """The path of a certificate or key; for contents in the kubeconfig, the path of a file in memory."""
    if data := entry.get(f"{name}-data"):
        memory = os.memfd_create(name)
        os.write(memory, base64.b64decode(data))
        return f"/proc/self/fd/{memory}"
    return os.path.join(folder, entry[name]) if entry.get(name) else None


def _loaded(config: dict[str, Any], context: dict[str, Any], settings: Settings, folder: str) -> Any:
    """The configuration from the client library's own loader, which takes a third of a second."""
    from kubernetes.client.configuration import Configuration
    from kubernetes.config import kube_config
    from kubernetes.config.config_exception import ConfigException

    name = settings.context or config["current-context"]
    if settings.cluster:
        contexts = [{"name": name, "context": context}]
        config = {**config, "contexts": contexts, "current-context": name}
    configuration = Configuration()
    untyped: Any = kube_config
    try:
        untyped.KubeConfigLoader(
            config_dict=config, active_context=name, config_base_path=folder
        ).load_and_set(configuration)
    except ConfigException as error:
        raise KubeconfigError(str(error)) from error
    return configuration


def _pool(configuration: Any) -> urllib3.PoolManager:
    from kubernetes.client.rest import RESTClientObject

    # Each waiting resource holds a connection for its watch, and each running operation holds another.
    configuration.connection_pool_maxsize = 64
    pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
    return pool
