"""The GPU image over the base that is made where the published one cannot be pulled: all of it that needs no GPU."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.trainer.test_image import BASE, NAME, ROOT
from toolchain.images import gpu_base
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(
    reason="downloads 4.1 GB of CUDA wheels, and takes 14 GB of disk meanwhile and 7 GB until its end"
)
ASK = """
import json, torch, torch.distributed as dist
print(json.dumps({
    "torch": torch.__version__.partition("+")[0],
    "cuda": torch.version.cuda,
    "cudnn": torch.backends.cudnn.version(),
    "nccl": list(torch.cuda.nccl.version()),
    "backends": [name for name in ("gloo", "nccl") if getattr(dist, f"is_{name}_available")()],
    "architectures": torch.cuda.get_arch_list() or torch._C._cuda_getArchFlags().split(),
    "gpus": torch.cuda.device_count(),
}))
"""


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python(image: str, program: str) -> str:
    command = ("run", "--rm", "--network", "none", "--read-only", "--entrypoint", "python3")
    return docker(*command, image, "-c", program)


@pytest.fixture(scope="module")
def image(engine: Engine) -> Iterator[str]:
    """The target `gpu` on wheels. What was not there before goes again: it is several GB."""
    assert platform.machine() == gpu_base.PROCESSOR, "PyPI has torch with CUDA for no other processor"
    was_there = engine.has_image(gpu_base.IMAGE)
    name = f"{NAME}:gpu-wheels"
    try:
        if not was_there:
            gpu_base.make(engine)
        bases = [f"--build-arg={word}" for word in (f"CPU_BASE={BASE}", f"GPU_BASE={gpu_base.IMAGE}")]
        options = ("--build-arg=PRESET=convnet", "--file", "Dockerfile_training", "--target", "gpu")
        docker("build", "--quiet", *options, *bases, "--tag", name, ".")
        yield name
    finally:
        made = [name, *([] if was_there else [gpu_base.IMAGE])]
        there = [each for each in made if engine.has_image(each)]
        if there:
            docker("rmi", *there)


def test_torch_has_cuda_and_nccl_as_the_published_base_says(image: str) -> None:
    found = json.loads(python(image, ASK).splitlines()[-1])
    version, cuda, cudnn = gpu_base.published().partition(":")[2].split("-")[:3]
    assert (found["torch"], f"cuda{found['cuda']}") == (version, cuda)
    assert f"cudnn{found['cudnn'] // 10000}" == cudnn
    assert found["nccl"][0] == 2
    assert found["backends"] == ["gloo", "nccl"]
    assert {"sm_80", "sm_90"} <= set(found["architectures"]), "A100 and H100"
    assert found["gpus"] == 0


def test_each_library_of_cuda_finds_those_that_it_needs(image: str) -> None:
    """Loaded lazily, a missing one would show on a GPU only. The driver's own come from the node."""
    program = """
import ctypes, pathlib, sys, torch
folder = pathlib.Path(torch.__file__).parents[1] / "nvidia"
names = ("libcublasLt.so", "libcudnn.so", "libcufft.so", "libcusolver.so", "libcusparse.so", "libcusparseLt.so",
         "libnccl.so", "libnvrtc.so")
for name in names:
    found = sorted(folder.glob(f"*/lib/{name}.*"))
    assert found, name
    ctypes.CDLL(str(found[0]))
    print(name)
"""
    assert len(python(image, program).split()) == 8


def test_it_trains_by_its_entry_point_on_the_cpu(image: str) -> None:
    said = docker("run", "--rm", "--network", "none", image, "--epochs", "1", "--no-cuda")
    assert re.search(r"^accuracy=0\.\d+$", said, re.MULTILINE), said


def test_nccl_without_a_gpu_says_what_to_change(image: str) -> None:
    command = ["docker", "run", "--rm", "--network", "none", image, "--epochs", "1", "--backend", "nccl"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "error: --backend nccl needs a GPU in every replica" in done.stderr


def test_its_bill_names_the_wheels(image: str) -> None:
    text = docker("run", "--rm", "--entrypoint", "cat", image, "/opt/trainstack/bill.cdx.json")
    bill = {each["purl"] for each in json.loads(text)["components"]}
    locked = re.findall(r"^(\S+)==(\S+)", gpu_base.LOCK.read_text(), re.MULTILINE)
    assert {f"pkg:pypi/{name}@{version}" for name, version in locked} <= bill


def test_it_is_the_target_gpu_and_runs_as_a_user_of_group_zero(image: str) -> None:
    labels = json.loads(docker("image", "inspect", "--format", "{{json .Config.Labels}}", image))
    assert (labels["trainstack.target"], labels["trainstack.preset"]) == ("gpu", "convnet")
    found = docker(
        "run", "--rm", "--entrypoint", "sh", image, "-c", "id -u; id -g; touch /opt/mnist/models/x"
    )
    assert found.split() == ["1000", "0"]
