"""A run goes on exactly after any damage to its checkpoints, or it is refused and they stay as they are."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.inside.conftest import TINY, Job, trainer
from trainer import checkpoint, evaluation
from trainer.launch import ExitStatus

NEWEST, BEFORE = checkpoint.NAME, checkpoint.PREVIOUS


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Run `run` with the checkpoints of its first two epochs, and run `whole` of three."""
    job = Job(tmp_path_factory.mktemp("trained") / "volume")
    job.volume.mkdir()
    job.train(*TINY, "--epochs", "3", run="whole", world=2)
    job.train(*TINY, "--epochs", "2", world=2)
    return job


@pytest.fixture
def copied(trained: Job, job: Job) -> Job:
    """The same on a volume that the test may damage."""
    shutil.rmtree(job.volume)
    shutil.copytree(trained.volume, job.volume)
    return job


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """In the last parameter, far from what tells an archive."""
    raw = bytearray(path.read_bytes())
    values = torch.load(path, weights_only=True)["model"]
    values = [*values.values()][-1].flatten()[-8:].numpy().tobytes()
    raw[raw.index(values) + 5] ^= 4
    path.write_bytes(raw)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zero(path: Path) -> None:
    """As a file system leaves a file whose size it knew, and whose blocks it did not."""
    path.write_bytes(bytes(path.stat().st_size))


def replace_by_the_model(path: Path) -> None:
    shutil.copyfile(path.with_name("mnist_cnn.pt"), path)


DAMAGES: list[Callable[[Path], None]] = [cut, flip, empty, zero, replace_by_the_model]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_checkpoint_costs_what_came_after_the_one_before(
    copied: Job, damage: Callable[[Path], None]
) -> None:
    damage(copied.folder() / NEWEST)
    output = copied.train(*TINY, "--epochs", "3", world=2)
    assert f"{NEWEST} is damaged; set aside as {NEWEST}.damaged" in output
    assert "resumed at epoch 2, image 0" in output
    assert copied.model() == copied.model("whole")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_two_damaged_checkpoints_cost_the_run_and_are_kept(
    copied: Job, damage: Callable[[Path], None]
) -> None:
    for name in (NEWEST, BEFORE):
        damage(copied.folder() / name)
    output = copied.train(*TINY, "--epochs", "3", world=2)
    for name in (NEWEST, BEFORE):
        assert f"{name} is damaged; set aside as {name}.damaged" in output
        assert (copied.folder() / f"{name}.damaged").exists()
    assert "resumed" not in output
    assert copied.model() == copied.model("whole")


def missing(path: Path) -> None:
    path.unlink()


def unreadable(path: Path) -> None:
    path.chmod(0)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def newer(path: Path) -> None:
    state = torch.load(path, weights_only=True)
    del state["sha256"]
    state["version"] = checkpoint.VERSION + 1
    path.write_bytes(checkpoint.dump({**state, "sha256": checkpoint.digest(state)}))


def nothing(path: Path) -> None:
    """The options are others."""


REFUSED: dict[str, tuple[Callable[[Path], None], tuple[str, ...], int, str]] = {
    "unreadable": (unreadable, (), ExitStatus.VOLUME, f"{NEWEST}: Permission denied"),
    "a folder": (folder, (), ExitStatus.VOLUME, f"{NEWEST}: Is a directory"),
    "newer": (newer, (), ExitStatus.REFUSED, "was written by a newer trainer"),
    "another seed": (nothing, ("--seed", "2"), ExitStatus.REFUSED, "seed: checkpoint 1, now 2"),
    "another network": (nothing, ("--network", "lenet"), ExitStatus.REFUSED, "checkpoint fast, now lenet"),
    "fewer epochs": (nothing, ("--epochs", "1"), ExitStatus.REFUSED, "the run has 2 epochs already"),
}


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_damage_is_refused_by_all_and_stays(copied: Job, case: str, world: int) -> None:
    change, options, status, message = REFUSED[case]
    change(copied.folder() / NEWEST)
    before = files(copied)
    ranks = copied.start(*TINY, "--epochs", "3", *options, world=world)
    assert ranks.wait() == [status] * world, ranks.output
    assert all(message in output for output in ranks.output)
    assert files(copied) == before, "nothing on the volume was changed"


def test_without_the_newest_checkpoint_the_one_before_counts(copied: Job) -> None:
    missing(copied.folder() / NEWEST)
    assert "resumed at epoch 2, image 0" in copied.train(*TINY, "--epochs", "3", world=2)
    assert copied.model() == copied.model("whole")


@pytest.mark.filterwarnings("ignore")  # torch.load says what it makes of half an archive
@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_model_is_refused_and_never_another_one(damage: str, first: int, tmp_path: Path) -> None:
    """Cut after every fifth byte, and a bit flipped in it; some of them mean nothing in an archive."""
    path, state = tmp_path / "model.pt", {"weight": torch.arange(40.0), "bias": torch.ones(3)}
    raw, refused = checkpoint.dump(state, {"dataset": "digits"}), 0
    places = range(first, len(raw), 5)
    for place in places:
        flipped = raw[:place] + bytes([raw[place] ^ 1 << place % 8]) + raw[place + 1 :]
        path.write_bytes(raw[:place] if damage == "cut" else flipped)
        try:
            found = evaluation.read_state(path)
        except evaluation.ModelError:
            refused += 1
        else:
            assert {name: value.tolist() for name, value in found.items()} == {
                name: value.tolist() for name, value in state.items()
            }, f"byte {place}"
    assert refused > len(places) / 3, "most bytes mean something"


@pytest.mark.parametrize("damage", DAMAGES[:-1], ids=lambda damage: damage.__name__)
def test_nobody_uses_a_damaged_model(copied: Job, damage: Callable[[Path], None]) -> None:
    model = copied.volume / "mnist_cnn.pt"
    state = torch.load(model, weights_only=True)
    raw = bytearray(checkpoint.dump(state))  # without a description, which keeps predict from it
    model.write_bytes(raw)
    if damage is flip:
        values = state["fc.weight"][-1, -8:].numpy().tobytes()
        raw[raw.index(values) + 5] ^= 4
        model.write_bytes(raw)
    else:
        damage(model)
    said = f"{model} is not a whole state_dict"
    for verb in (("evaluate", str(model), *TINY[:4]), ("predict", str(model), "picture.png")):
        done = trainer(*verb)
        assert (done.returncode, said in done.stderr) == (ExitStatus.REFUSED, True), done.stderr
    ranks = copied.start(*TINY, "--from", str(model), run="from", world=2)
    assert ranks.wait() == [ExitStatus.REFUSED] * 2
    assert all(said in output for output in ranks.output)


def test_whatever_makes_other_bits_is_warned_about(copied: Job) -> None:
    path = copied.folder() / NEWEST
    state = torch.load(path, weights_only=True)
    del state["sha256"]
    machine = dict(state["machine"])
    state["machine"] = dict.fromkeys(machine, "another")
    path.write_bytes(checkpoint.dump({**state, "sha256": checkpoint.digest(state)}))
    output = copied.train(*TINY, "--epochs", "3", world=2)
    for key, value in machine.items():
        assert f"warning: {key}: another before, {value} now; the model will not be the same file" in output
    assert {"replicas", "threads", "precision", "device", "instructions", "torch"} <= machine.keys()


def files(job: Job) -> dict[str, tuple[int, int]]:
    """Modification time and size of all that is on the volume."""
    found = sorted(path for path in job.volume.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}
