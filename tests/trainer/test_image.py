"""The trainer image as it is built and run: its tests inside it, its two targets, its presets, baked data."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from infra.image import project
from storage import directory
from storage.manifests import Claim
from trainer.launch import ExitStatus

ROOT = Path(__file__).parents[2]
MNIST = (ROOT / os.environ.get("TRAINSTACK_MNIST", "../shared/data/mnist")).resolve()
BASE = os.environ.get("TRAINSTACK_CPU_BASE", "debian:trixie-slim")
NAME = "trainstack/trainer-test"
NEEDS_MNIST = "needs the real MNIST"
LARGEST = 900e6  # bytes; a fresh cluster's nodes pull the image

HANG_S = 600


def docker(*arguments: str, text: str | None = None) -> str:
    done = subprocess.run(["docker", *arguments], cwd=ROOT, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(target: str, tag: str, *arguments: str) -> str:
    options = [f"--build-arg={argument}" for argument in (f"CPU_BASE={BASE}", *arguments)]
    tags = ["--tag", f"{NAME}:{tag}", "--target", target]
    docker("build", "--quiet", "--file", "Dockerfile_training", *tags, *options, ".")
    return f"{NAME}:{tag}"


def failing_build(argument: str) -> str:
    """What a build with this argument says, which has to fail; it leaves no container behind."""
    command = ["docker", "build", "--force-rm", "--file", "Dockerfile_training", "--target", "cpu"]
    command += [f"--build-arg=CPU_BASE={BASE}", f"--build-arg={argument}", "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def image() -> str:
    return build("cpu", "cpu")


@pytest.fixture(scope="module")
def baked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with MNIST in a folder, as DATA_IMAGE wants it."""
    if not MNIST.is_dir():
        pytest.skip(f"{NEEDS_MNIST}: set TRAINSTACK_MNIST")
    dockerfile = tmp_path_factory.mktemp("data") / "Dockerfile"
    dockerfile.write_text("FROM scratch\nCOPY *.gz /some-name/\n")
    name = f"{NAME}:data"
    docker("build", "--quiet", "--tag", name, "--file", str(dockerfile), str(MNIST))
    yield name
    docker("rmi", name)


def inside(image: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "tests/trainer/run_in_image.sh"), image, "-q", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_trainers_own_tests_pass_inside_the_image(image: str) -> None:
    passes(inside(image, "-rs", "--cases", "sample"))


def passes(done: subprocess.CompletedProcess[str]) -> None:
    """Nothing failed, and nothing but what needs the real MNIST where there is none was skipped."""
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert not [line for line in skipped if MNIST.is_dir() or NEEDS_MNIST not in line]


@pytest.mark.slow(
    reason="minutes: twenty kills, each step of a rendezvous, every network, recipe and number of ranks"
)
@pytest.mark.faults
def test_the_other_cases_of_its_long_tests_pass(image: str) -> None:
    passes(inside(image, "-rs", "--cases", "rest"))


@pytest.fixture
def volume() -> Iterator[str]:
    made = docker("volume", "create").strip()
    yield made
    docker("volume", "rm", made)


def on_volume(volume: str, user: int, *words: str) -> list[str]:
    """Arguments of docker: `words`, an image with its arguments, as a pod of `user` has the volume, in group 0."""
    mounted = ["--network=none", f"--volume={volume}:/models", "--env=TRAINER_MODEL_DIR=/models"]
    return ["run", "--rm", f"--user={user}:0", "--cap-drop=ALL", *mounted, *words]


def test_users_of_one_group_go_on_with_each_others_runs(image: str, volume: str) -> None:
    """The folder is prepared as the stack's Job does it, with its capabilities and no more."""
    allowed = [f"--cap-add={name}" for name in container_of_job()["securityContext"]["capabilities"]["add"]]
    shell, *script = directory.script("/models", 1000, 0, "2775")
    prepares = on_volume(volume, 0, *allowed, f"--entrypoint={shell}", image, *script)
    closes = ["chmod", "-R", "g-w", "/models/runs"]

    def trains(user: int, run: str) -> list[str]:
        return on_volume(volume, user, image, "--dataset=digits", "--epochs=1", f"--run={run}")

    docker(*prepares)
    docker(*trains(1000, "first"))
    docker(*trains(2000, "first"))
    docker(*trains(2000, "second"))
    docker(*on_volume(volume, 0, *allowed, "--entrypoint=env", image, *closes))  # as release 0.1 left runs
    refused = subprocess.run(["docker", *trains(3000, "third")], capture_output=True, text=True)
    assert "Permission denied" in refused.stdout + refused.stderr
    docker(*prepares)
    for run in ("first", "second", "third"):
        docker(*trains(3000, run))


def container_of_job() -> dict[str, Any]:
    made = directory.job(Claim(claim="c", namespace="n"), "image", 1000, 0, "2775", [1000], {})
    (container,) = made["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_sigterm_ends_a_rendezvous_even_as_process_one(image: str) -> None:
    """Nobody else comes; without a handler, the kernel would ignore the signal until the container is killed."""
    job = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    environ = [f"--env={name}={value}" for name, value in job.items()]
    container = docker("run", "--detach", *environ, image, "--dataset", "digits").strip()
    try:
        deadline = time.monotonic() + HANG_S
        # Port 29500 listens, on IPv4 or on IPv6; state 0A.
        listening = ("sh", "-c", "cat /proc/net/tcp*")
        while not re.search(r":733C 0+:0000 0A", docker("exec", container, *listening)):
            assert time.monotonic() < deadline, docker("logs", container)
            time.sleep(0.2)
        docker("kill", "--signal", "TERM", container)
        assert docker("wait", container).strip() == "143"
    finally:
        docker("rm", "--force", container)


def test_the_image_is_small(image: str) -> None:
    assert int(docker("image", "inspect", "--format", "{{.Size}}", image)) <= LARGEST


def test_it_runs_as_a_user_of_group_zero(image: str) -> None:
    found = docker(
        "run", "--rm", "--entrypoint", "sh", image, "-c", "id -u; id -g; touch /opt/mnist/models/x && echo ok"
    )
    assert found.split() == ["1000", "0", "ok"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("user", ["1000:0", "2000:0"])
def test_a_job_may_write_into_its_projects_folder(image: str, tmp_path: Path, user: str) -> None:
    """A relative output folder, with job.readOnlyRoot: false; with a read-only root it is refused before training."""
    (tmp_path / "mine" / "net").mkdir(parents=True)
    (tmp_path / "mine" / "net" / "__init__.py").touch()
    project.copy(tmp_path / "mine", tmp_path / "place" / "project")
    (tmp_path / "place" / "packages").mkdir()
    (tmp_path / "place" / "Dockerfile").write_text(project.DOCKERFILE)
    name = f"{NAME}:project-{user.partition(':')[0]}"
    docker("build", "--quiet", f"--build-arg=TRAINER_IMAGE={image}", "--tag", name, str(tmp_path / "place"))
    run = ("run", "--rm", "--network=none", f"--user={user}", "--cap-drop=ALL")
    options = ("--dataset=digits", "--epochs=1", "--model-dir=out", "--run=first")
    try:
        found = docker(*run, "--entrypoint", "sh", name, "-c", "mkdir a net/b && touch c && ls -d a net/b c")
        assert found.split() == ["a", "c", "net/b"]
        assert "accuracy=" in docker(*run, name, *options)
        command = ["docker", *run, "--read-only", "--tmpfs=/tmp", name, *options]
        refused = subprocess.run(command, capture_output=True, text=True)
        assert refused.returncode == ExitStatus.VOLUME
        assert refused.stderr.startswith("error: /opt/project/out: Read-only file system; ")
        assert "Train Epoch" not in refused.stdout
    finally:
        docker("rmi", name)


# Debian's hypothesis brings a plugin for a pytest that is not in the image.
NOT_IMPORTED = ("_hypothesis_pytestplugin",)
IMPORTS_ALL = f"""
import importlib, importlib.metadata, pathlib, sys
names = {{name for name in importlib.metadata.packages_distributions() if name.isidentifier()}}
names |= {{each.stem if each.suffix == ".py" else each.name for folder in sys.path if folder.endswith("dist-packages")
          and pathlib.Path(folder).is_dir() for each in pathlib.Path(folder).iterdir()
          if each.suffix == ".py" or (each / "__init__.py").is_file()}}
failed = []
for name in sorted(names - set({NOT_IMPORTED!r})):
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f"{{name}}: {{error}}")
import numpy.testing
assert len(names) > 10 and not failed, failed
"""
# The smallest example of each, as a user's project would run it.
SMALLEST = """
import os, pathlib, warnings
warnings.simplefilter("error", UserWarning)
import matplotlib.pyplot, pandas, scipy.optimize, sklearn.linear_model, sklearn.datasets
x, y = sklearn.datasets.load_iris(return_X_y=True)
assert sklearn.linear_model.LogisticRegression(max_iter=1000).fit(x, y).score(x, y) > 0.9
assert abs(scipy.optimize.brentq(lambda value: value**2 - 2, 0, 2) - 2**0.5) < 1e-9
assert pandas.DataFrame(x).groupby(y).mean().shape == (3, 4)
matplotlib.pyplot.plot([1, 2])
matplotlib.pyplot.savefig("/tmp/plot.png")
(pathlib.Path.home() / "cache").write_text("may be written")
import getpass
assert getpass.getuser() and os.getuid() == 1000
"""
LIKE_A_POD = ("--rm", "--read-only", "--tmpfs", "/tmp", "--user", "1000:0", "--network", "none")


def test_every_package_can_be_imported(image: str) -> None:
    docker("run", *LIKE_A_POD, "--entrypoint", "python3", image, "-W", "ignore", "-c", IMPORTS_ALL)


@pytest.mark.slow(reason="minutes: it installs 300 MB of Debian's packages")
def test_scikit_learn_scipy_pandas_and_matplotlib_run_on_it(image: str) -> None:
    dockerfile = f"""
        FROM {image}
        USER root
        RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends \\
              python3-matplotlib python3-pandas python3-scipy python3-sklearn > /dev/null
        USER 1000:0
    """
    name = f"{NAME}:science"
    docker("build", "--quiet", "--tag", name, "-", text=dockerfile)
    try:
        docker("run", *LIKE_A_POD, "--entrypoint", "python3", name, "-c", SMALLEST)
    finally:
        docker("rmi", name)


def test_it_carries_a_bill_of_all_that_is_in_it(image: str) -> None:
    run = ("run", "--rm", "--entrypoint")
    text = docker(*run, "cat", image, "/opt/trainstack/bill.cdx.json")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    listed = docker(*run, "dpkg-query", image, "--show", "--showformat=${Package} ${Version}\n").splitlines()
    bill = {(each["name"], each["version"]) for each in json.loads(text)["components"]}
    assert bill >= {tuple(line.split(" ")) for line in listed}
    assert '"pkg:deb/debian/libopenblas0-openmp@' in text
    assert {name for name, _ in bill} >= {"python3-torch", "python3-torchvision", "libopenblas0-openmp"}


def test_the_bill_has_what_pip_installed_too(image: str) -> None:
    """As in PyTorch's own image, whose torch is no Debian package."""
    script = """
        folder=/tmp/packages/Own_Thing-1.0+cpu.dist-info
        mkdir -p "$folder"
        printf 'Metadata-Version: 2.1\\nName: Own_Thing\\nVersion: 1.0+cpu\\n' > "$folder/METADATA"
        PYTHONPATH=/tmp/packages python3 /opt/trainstack/trainer/image/bill.py /tmp/bill.json
        cat /tmp/bill.json
    """
    components = json.loads(docker("run", "--rm", "--entrypoint", "sh", image, "-c", script))["components"]
    (own,) = (each for each in components if each["name"] == "Own_Thing")
    assert own["purl"] == "pkg:pypi/own-thing@1.0%2Bcpu"
    assert not [each for each in components if each["purl"].startswith("pkg:pypi/torch")], "dpkg's already"


def test_scikit_learn_stays_out(image: str) -> None:
    program = "import importlib.util as u; print(u.find_spec('sklearn'))"
    assert docker("run", "--rm", "--entrypoint", "python3", image, "-c", program).strip() == "None"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("preset", "network", "recipe"),
    [("traindb", "lenet", "published-sgd"), ("convnet", "convnet", "published-adadelta")],
)
def test_a_preset_sets_what_the_manifest_leaves_out(preset: str, network: str, recipe: str) -> None:
    name = build("cpu", preset, f"PRESET={preset}")
    script = "python3 -m trainer --epochs 1 > /dev/null && cat models/runs/*/config.json"
    config = json.loads(docker("run", "--rm", "--entrypoint", "sh", name, "-c", script))
    assert (config["network"], config["recipe"]) == (network, recipe)


def test_a_preset_that_there_is_not_fails_the_build() -> None:
    output = failing_build("PRESET=simple")
    assert "TRAINER_PRESET=simple is not allowed; use one of: pytorch-simple, " in output


def test_the_gpu_target_takes_the_same_steps_over_another_base() -> None:
    name = build("gpu", "gpu", f"GPU_BASE={build('debian-torch', 'base')}", "PRESET=convnet")
    labels = json.loads(docker("image", "inspect", "--format", "{{json .Config.Labels}}", name))
    assert (labels["trainstack.target"], labels["trainstack.preset"]) == ("gpu", "convnet")
    assert "digits" in docker("run", "--rm", name, "inspect", "--png", "/tmp/samples.png")


def test_baked_data_is_what_auto_finds(baked: str) -> None:
    name = build("cpu", "baked", f"DATA_IMAGE={baked}")
    described = docker("run", "--rm", name, "inspect", "--png", "/tmp/samples.png")
    assert "mnist from /datasets/mnist" in described
    assert "train: 60000x28x28" in described


def test_damaged_data_is_not_baked(tmp_path: Path) -> None:
    for stem in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / f"{stem}-ubyte.gz").write_bytes(
            gzip.compress(random.Random(1).randbytes(50_000))[:20_000]
        )
    name = f"{NAME}:damaged"
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY *.gz /\n")
    docker("build", "--quiet", "--tag", name, str(tmp_path))
    output = failing_build(f"DATA_IMAGE={name}")
    docker("rmi", name)
    assert "train-images-idx3-ubyte.gz is not a whole .gz file" in output
