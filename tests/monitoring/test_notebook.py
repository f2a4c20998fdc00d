"""`make notebook`: the real Jupyter runs it on a model and images that are made up, so that the answer is known."""

from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import clean_environment
from tests.e2e.waiting import HANG_S
from tests.monitoring.clone import Clone
from toolchain.machine.engine import Engine

SHAPES = {
    "conv1.weight": (20, 1, 5, 5),
    "conv1.bias": (20,),
    "conv2.weight": (50, 20, 5, 5),
    "conv2.bias": (50,),
    "fc1.weight": (500, 800),
    "fc1.bias": (500,),
    "fc2.weight": (10, 500),
    "fc2.bias": (10,),
}
THREE = 3
MODEL = "models/dev/runs/mnist-1/mnist_cnn.pt"
LABELS = [0, 1, 2, THREE, THREE, 5, 6, 7, 8, 9]


class _Storage:
    def __init__(self, key: str, count: int) -> None:
        self.key, self.count = key, count


class _Pickler(pickle.Pickler):
    """Writes what torch.save writes, without torch."""

    def persistent_id(self, thing: Any) -> Any:
        if isinstance(thing, _Storage):
            return ("storage", sys.modules["torch"].FloatStorage, thing.key, "cpu", thing.count)
        return None


class _Tensor:
    def __init__(self, key: str, shape: tuple[int, ...]) -> None:
        self.key, self.shape = key, shape

    def __reduce__(self) -> Any:
        rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
        return rebuild, (_Storage(self.key, size(self.shape)), 0, self.shape, (), False, {})


def size(shape: tuple[int, ...]) -> int:
    count = 1
    for each in shape:
        count *= each
    return count


def write_model(target: Path, patch: pytest.MonkeyPatch, tensor: type = _Tensor) -> None:
    """A lenet of zeros but for one bias: it takes every image for a three."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})  # type: ignore[attr-defined]
    exec("def _rebuild_tensor_v2(*_): pass", utils.__dict__)
    utils._rebuild_tensor_v2.__module__ = "torch._utils"
    patch.setitem(sys.modules, "torch", torch)
    patch.setitem(sys.modules, "torch._utils", utils)
    with zipfile.ZipFile(target, "w") as archive:
        with archive.open("archive/data.pkl", "w") as file:
            weights = {name: tensor(str(place), shape) for place, (name, shape) in enumerate(SHAPES.items())}
            _Pickler(file, protocol=2).dump(weights)
        for place, (name, shape) in enumerate(SHAPES.items()):
            values = [0.0] * size(shape)
            if name == "fc2.bias":
                values[THREE] = 1.0
            archive.writestr(f"archive/data/{place}", struct.pack(f"<{len(values)}f", *values))


def write_data(folder: Path) -> None:
    folder.mkdir()
    for part in ("train", "t10k"):
        pixels = bytes(28 * 28 * len(LABELS))
        header = struct.pack(">BBBBIII", 0, 0, 8, 3, len(LABELS), 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(header + pixels)
        header = struct.pack(">BBBBI", 0, 0, 8, 1, len(LABELS))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(header + bytes(LABELS))


@pytest.fixture(scope="module")
def clone(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """With a finished run and the data that it was trained on."""
    clone = Clone(tmp_path_factory.mktemp("notebook") / "clone")
    write_data(clone.root / "data")
    run = clone.run_of("dev", "mnist-1")
    config = {"network": "lenet", "dataset": "mnist", "epochs": 1, "world_size": 2}
    (run / "config.json").write_text(json.dumps(config))
    lines: list[dict[str, float]] = [
        {"step": 0, "loss": 2.3},
        {
            "step": 1,
            "epoch": 1,
            "accuracy": LABELS.count(THREE) / len(LABELS),
            "test_loss": 2,
            "training_s": 1,
        },
    ]
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return clone


def make_notebook(clone: Clone) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "notebook", f"PYTHON={sys.executable}"],
        cwd=clone.root,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )


def test_it_computes_what_the_run_says(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(clone.root / MODEL, monkeypatch)
    done = make_notebook(clone)
    assert done.returncode == 0, done.stderr
    result = Path(done.stdout.strip().removeprefix("notebook: "))
    cells = json.loads(result.read_text())["cells"]
    printed = "".join(
        text for cell in cells for out in cell.get("outputs", []) for text in out.get("text", [])
    )
    assert "accuracy=0.2000, and the run says 0.2000" in printed
    assert "together       431080" in printed
    pictures = [
        out for cell in cells for out in cell.get("outputs", []) if "image/png" in out.get("data", {})
    ]
    assert len(pictures) == 4


class _Foreign(_Tensor):
    """Code that a file would bring."""

    def __reduce__(self) -> Any:
        return print, ("this was run",)


def test_a_file_that_brings_code_is_refused(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(clone.root / MODEL, monkeypatch, _Foreign)
    done = make_notebook(clone)
    assert done.returncode != 0
    assert "print is not part of a state_dict" in done.stderr
    assert "this was run" not in done.stdout + done.stderr
