"""The LanguageRuntime service."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import empty_pb2, json_format

from pulumi_standins import border, emulated, protocol
from pulumi_standins.language import python_environments
from pulumi_standins.language.python_environments import BrokenEnvironmentError, Environment
from pulumi_standins.language.running_programs import RunningPrograms

if TYPE_CHECKING:
    from pulumi.runtime.proto import language_pb2, plugin_pb2


def _environment(info: language_pb2.ProgramInfo, context: grpc.ServicerContext) -> Environment:
    options = json_format.MessageToDict(info.options)
    root = Path(info.root_directory or ".")
    try:
        return python_environments.find(options, root=root, program=Path(info.program_directory or root))
    except BrokenEnvironmentError as problem:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem))
        raise


def _plugin_packages(environment: Environment) -> list[dict[str, Any]]:
    """The environment's packages that name a plugin."""
    found = (
        file for folder in environment.import_path() for file in sorted(folder.glob("*/pulumi-plugin.json"))
    )
    return [
        {"name": file.parent.name.replace("_", "-"), "plugin": json.loads(file.read_bytes())}
        for file in found
    ]


def _dependency(package: dict[str, Any]) -> plugin_pb2.PackageDependency | None:
    """The plugin that a Python package needs, as its pulumi-plugin.json says."""
    plugin = package["plugin"]
    if not plugin.get("resource"):
        return None
    version = plugin.get("version") or ""
    found = protocol.plugin_pb2.PackageDependency(
        name=plugin.get("name") or package["name"].removeprefix("pulumi-"),
        kind="resource",
        version=f"v{version.removeprefix('v')}" if version else "",
        server=plugin.get("server") or "",
    )
    if parameterization := plugin.get("parameterization"):
        import base64

        found.parameterization.name = parameterization["name"]
        found.parameterization.version = parameterization["version"]
        found.parameterization.value = base64.b64decode(parameterization.get("value") or "")
    return found


class LanguageHost:
    """Answers the calls of `pulumi up`, `preview`, `install` and `about` to a language host.

    Code generation and packing (`pulumi package ...`, `pulumi convert`) are not offered: these calls are UNIMPLEMENTED.
    """

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._programs = RunningPrograms()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def unimplemented(_request: object, context: grpc.ServicerContext) -> None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, border.refusal(f"the call {name}", border.HOST))

        return unimplemented

    def stop(self) -> None:
        """End the programs that still run."""
        self._programs.stop()

    def Handshake(  # noqa: N802
        self, request: language_pb2.LanguageHandshakeRequest, _context: grpc.ServicerContext
    ) -> language_pb2.LanguageHandshakeResponse:
        """Sets the engine's address, for a host that was started without one."""
        self._engine = request.engine_address or self._engine
        return protocol.language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, _request: Any, _context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:  # noqa: N802
        """The version that we imitate."""
        return protocol.plugin_pb2.PluginInfo(version=emulated.LANGUAGE_HOST)

    def GetRequiredPlugins(  # noqa: N802
        self, _request: Any, _context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPluginsResponse:
        """Replaced by GetRequiredPackages, which every supported engine calls first."""
        return protocol.language_pb2.GetRequiredPluginsResponse()

    def GetRequiredPackages(  # noqa: N802
        self, request: language_pb2.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPackagesResponse:
        """The plugins that the environment's Pulumi packages need."""
        packages = _plugin_packages(_environment(request.info, context))
        found = [dependency for package in packages if (dependency := _dependency(package))]
        return protocol.language_pb2.GetRequiredPackagesResponse(packages=found)

    def Run(  # noqa: N802
        self, request: language_pb2.RunRequest, context: grpc.ServicerContext
    ) -> language_pb2.RunResponse:
        """Run the program; if the request ends earlier, the program is ended, too."""
        environment = _environment(request.info, context)
        if request.attach_debugger:
            refusal = border.refusal("--attach-debugger", border.HOST)
            return protocol.language_pb2.RunResponse(error=refusal)
        try:
            return self._programs.run(request, environment, self._engine, context.add_callback)
        except BrokenEnvironmentError as problem:
            return protocol.language_pb2.RunResponse(error=str(problem))

    def Cancel(self, _request: Any, _context: grpc.ServicerContext) -> empty_pb2.Empty:  # noqa: N802
        """End the programs that run."""
        self._programs.stop()
        return empty_pb2.Empty()

    def InstallDependencies(  # noqa: N802
        self, request: language_pb2.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        """`pulumi install`: streams the tool's output."""
        response = protocol.language_pb2.InstallDependenciesResponse
        environment = _environment(request.info, context)
        for line, command in environment.installation():
            yield response(stdout=f"{line}\n".encode())
            with subprocess.Popen(
                command,
                cwd=environment.program,
                env=environment.variables(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            ) as process:
                assert process.stdout is not None
                for output in process.stdout:
                    yield response(stdout=output)
            if process.returncode:
                context.abort(
                    grpc.StatusCode.UNKNOWN, f"`{' '.join(command)}` exited with {process.returncode}"
                )

    def About(  # noqa: N802
        self, request: language_pb2.AboutRequest, context: grpc.ServicerContext
    ) -> language_pb2.AboutResponse:
        """The program's interpreter."""
        environment = _environment(request.info, context)
        try:
            python = str(environment.python)
        except BrokenEnvironmentError as problem:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem))
        version = subprocess.run([python, "-V"], capture_output=True, text=True, check=False)
        return protocol.language_pb2.AboutResponse(
            executable=python,
            version=version.stdout.strip().removeprefix("Python "),
            metadata={"toolchain": environment.tool.value},
        )

    def RuntimeOptionsPrompts(  # noqa: N802
        self, _request: Any, _context: grpc.ServicerContext
    ) -> language_pb2.RuntimeOptionsResponse:
        """`pulumi new` asks nothing: without options the lock file decides the tool."""
        return protocol.language_pb2.RuntimeOptionsResponse()

    def Template(self, _request: Any, _context: grpc.ServicerContext) -> language_pb2.TemplateResponse:  # noqa: N802
        """Templates need no change."""
        return protocol.language_pb2.TemplateResponse()
