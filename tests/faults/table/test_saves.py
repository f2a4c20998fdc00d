"""A reader that loads the model again and again, while a hundred writers are killed in the middle of saving it."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.faults.table.rows import ROWS
from tests.faults.table.trial import Trial
from tests.trainer.test_image import build

SCRIPT = """
import json, os, pathlib, random, signal, sys, time, torch
from trainer import checkpoint, volume

kills = int(sys.argv[1])
path = pathlib.Path("/tmp/volume/mnist_cnn.pt")
end = pathlib.Path("/tmp/end")
path.parent.mkdir()
torch.set_num_threads(1)
state = {name: torch.full((200, 1000), 0.0) for name in "abc"}

def save(number):
    for value in state.values():
        value.fill_(number)
    volume.write(path, checkpoint.dump(state))

def forked(work):
    if child := os.fork():
        return child
    work()
    os._exit(0)

def read():
    loads, seen = 0, set()
    while not end.exists():
        found = torch.load(path, weights_only=True)
        values = {float(value) for each in found.values() for value in (each.min(), each.max())}
        assert len(values) == 1, f"half of one model, half of another: {values}"
        loads, seen = loads + 1, seen | values
    print(json.dumps({"loads": loads, "models": len(seen)}), flush=True)

def write(first):
    number = first
    while True:
        save(number)
        number += 1

save(0)
reader = forked(read)
hits = []
for kill in range(kills):
    writer = forked(lambda: write(1000 * (kill + 1)))
    time.sleep(random.Random(kill).uniform(0.02, 0.2))
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    torn = [each for each in path.parent.iterdir() if each != path]
    hits.append("while a file was written" if torn else "between two files")
    for each in torn:
        each.unlink()
end.touch()
status = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
print(json.dumps({"status": status, "hits": hits}))
"""


@pytest.mark.row("model-loaded")
def test_a_reader_never_sees_half_a_model(trial: Trial) -> None:
    kills = ROWS["model-loaded"].tries
    options = ["--rm", "--interactive", "--network=none", "--entrypoint=python3", build("cpu", "cpu")]
    done = subprocess.run(
        ["docker", "run", *options, "-", str(kills)], input=SCRIPT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = {name: value for line in done.stdout.splitlines() for name, value in json.loads(line).items()}
    assert found["status"] == 0, done.stderr
    assert found["loads"] > kills
    assert found["models"] > 1
    for hit in found["hits"]:
        trial.strike(hit)
        trial.recovered()
