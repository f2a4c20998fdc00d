"""The kind node image, built like kind's own: Debian with systemd and containerd, kind's files, Kubernetes on top.

kind's files come from its Go module, at the version that toolchain/tools/go/kind pins. Differences from the published
image: containerd, runc and CNI plugins are Debian's; the pod network is one bridge per node, and containerd sets its
address range from the node's podCIDR (kindnet is not available as a module); there is no local-path provisioner.
"""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from toolchain.images import base, control_plane, scratch
from toolchain.machine.engine import Engine
from toolchain.progress import Step
from toolchain.steps import pipe, run

DOCKERFILE = Path(__file__).with_name("node.Dockerfile")
DEBIAN = base.RootFileSystem(
    "base-node",
    "bookworm",
    include=[
        *("systemd", "systemd-sysv", "containerd", "runc", "containernetworking-plugins"),
        *("iptables", "nftables", "conntrack", "iproute2", "ethtool", "kmod", "socat"),
        *("pigz", "ca-certificates", "curl", "jq", "procps", "e2fsprogs"),
    ],
)
NODE_PROGRAMS = ("kubernetes", "kubeadm", "kubelet", "kubectl")
PAUSE = "registry.k8s.io/pause:3.10"

# containerd replaces {{.PodCIDR}}: it writes the file when the kubelet tells it the node's range.
CNI_TEMPLATE = {
    "cniVersion": "0.4.0",
    "name": "trainstack",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipMasq": True,
            "hairpinMode": True,
            "promiscMode": False,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "{{.PodCIDR}}"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}

CONTAINERD_ADDITION = """
[plugins."io.containerd.grpc.v1.cri".cni]
  conf_template = "/etc/containerd/cni.template.json"
"""


def image_name(version: str, programs: Mapping[str, Path], kind_files: Path, restricted: bool) -> str:
    """The image's name. Its tag has Kubernetes' version, and a hash of recipe, programs and kind's files."""
    code = [inspect.getsource(each) for each in (_lay_out, control_plane.ensure, scratch.build)]
    data = [DEBIAN.image, control_plane.PROXY.image, PAUSE, IMPORT, *NODE_PROGRAMS]
    tables = [json.dumps(each) for each in (CNI_TEMPLATE, control_plane.LINES)]
    recipe = [DOCKERFILE.read_text(), *tables, CONTAINERD_ADDITION, *data, *code]
    kind = sorted(path for path in kind_files.rglob("*") if path.is_file())
    # For programs, paths and sizes are enough: the folder's name is a hash of the source.
    built = [f"{name} {path.resolve()} {path.stat().st_size}" for name, path in sorted(programs.items())]
    return f"trainstack/node:{version}-{scratch.digest(*recipe, *built, *kind, str(restricted))}"


def ensure(
    engine: Engine,
    programs: Mapping[str, Path],
    kind_files: Path,
    restricted: bool,
    log: Path,
    progress: Step,
) -> str:
    """Build the node image if the engine lacks it; returns its name.

    `programs` maps kubernetes with its names, kubectl, etcd, coredns and pause to executables; `kind_files` is
    `images/base/files` of kind's module; `restricted` says whether the host's root lacks CAP_SYS_RESOURCE.
    Raises SetupError.
    """
    version = _output([programs["kubeadm"], "version", "-o", "short"])
    image = image_name(version, programs, kind_files, restricted)

    def lay_out(root: Path) -> None:
        _lay_out(root, programs, kind_files, version, restricted)

    def make() -> None:
        progress.note("Debian base")
        debian = base.ensure(engine, DEBIAN, log)
        progress.note("control-plane images")
        names = control_plane.ensure(engine, _kubeadm_images(programs["kubeadm"], version), programs, log)
        progress.note("assembling the node")
        _assemble(engine, f"{image}-empty", debian, lay_out, log)
        progress.note("importing the control-plane images")
        _import(engine, f"{image}-empty", image, names, log)
        engine.output("rmi", f"{image}-empty")

    progress.note("waiting for another command that builds the image")
    return base.made_once(engine, image, make)


def _assemble(engine: Engine, image: str, debian: str, lay_out: Callable[[Path], None], log: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="trainstack-node-") as folder:
        context = Path(folder)
        lay_out(context / "root")
        shutil.copyfile(DOCKERFILE, context / "Dockerfile")
        build = [engine.docker, "build", "--quiet", "--build-arg", f"BASE={debian}", "--tag", image]
        run([*build, context], log=log, env=dict(engine.env))


def _output(command: list[str | Path]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _kubeadm_images(kubeadm: Path, version: str) -> list[str]:
    listed = _output([kubeadm, "config", "images", "list", "--kubernetes-version", version]).split()
    return [name for name in listed if "/pause:" not in name] + [PAUSE]


def _lay_out(
    root: Path, programs: Mapping[str, Path], kind_files: Path, version: str, restricted: bool
) -> None:
    shutil.copytree(kind_files, root)
    for path in root.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    scratch.copy_executables({f"usr/bin/{name}": programs[name] for name in NODE_PROGRAMS}, root)
    (root / "kind" / "version").write_text(version)
    containerd = root / "etc" / "containerd"
    (containerd / "cni.template.json").write_text(json.dumps(CNI_TEMPLATE, indent=2))
    config = (containerd / "config.toml").read_text() + CONTAINERD_ADDITION
    if restricted:
        config = config.replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true")
    (containerd / "config.toml").write_text(config)


IMPORT = """
containerd >/dev/null 2>&1 & pid=$!
for _ in $(seq 100); do ctr version >/dev/null 2>&1 && break; sleep 0.1; done
ctr --namespace k8s.io images import --no-unpack -
status=$?
kill $pid
wait $pid
rm -rf /run/containerd
exit $status
"""


def _import(engine: Engine, source: str, target: str, names: list[str], log: Path) -> None:
    """Start containerd in a container of `source`, load the images `names`, and commit the container as `target`."""
    container = engine.output(
        *("create", "--interactive", "--privileged", "--security-opt", "seccomp=unconfined"),
        *("--entrypoint", "/bin/sh", source, "-c", IMPORT),
    )
    try:
        load = [engine.docker, "start", "--attach", "--interactive", container]
        pipe([engine.docker, "save", *names], load, log=log, env=engine.env)
        entry = 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]'
        engine.output("commit", "--change", entry, "--change", "CMD []", container, target)
    finally:
        engine.output("rm", "--force", "--volumes", container)
