"""The OCI runtime asks for no more than the host can give, and for nothing less."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.conftest import Fake
from toolchain.machine.engine import oci_runtime

ALL = {f"CAP_{name}" for name in oci_runtime.CAPABILITIES}


def test_the_bounding_set_is_read_bit_by_bit() -> None:
    everything = "CapPrm:\t0\nCapBnd:\t000001ffffffffff\n"
    without_bit_24 = "CapBnd:\t000001fffeffffff\n"

    assert oci_runtime.bounding_set(everything) == ALL
    assert ALL - oci_runtime.bounding_set(without_bit_24) == {"CAP_SYS_RESOURCE"}


def test_a_process_keeps_only_the_capabilities_that_the_host_holds() -> None:
    process = {"capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE"], "ambient": None}}

    oci_runtime.limit_to_host(process, ALL - {"CAP_SYS_RESOURCE"})

    assert process["capabilities"] == {"bounding": ["CAP_CHOWN"], "ambient": []}


def test_rlimits_stay_below_the_hosts_hard_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (512, 1024))
    process = {"rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1048576, "hard": 1048576}]}

    oci_runtime.limit_to_host(process, ALL)

    assert process["rlimits"] == [{"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 1024}]


@pytest.mark.parametrize(("asked", "given"), [(-999, 0), (0, 0), (1000, 1000)])
def test_only_negative_oom_scores_are_raised(asked: int, given: int) -> None:
    process = {"oomScoreAdj": asked}
    oci_runtime.limit_to_host(process, ALL)
    assert process["oomScoreAdj"] == given


def test_options_are_found_in_both_spellings() -> None:
    assert oci_runtime.option(["create", "--bundle", "/b", "id"], "--bundle", "-b") == "/b"
    assert oci_runtime.option(["create", "--bundle=/b", "id"], "--bundle", "-b") == "/b"
    assert oci_runtime.option(["create", "id"], "--bundle", "-b") is None


def test_runc_reads_the_rewritten_bundle(fake: Fake, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "config.json").write_text(json.dumps({"hostname": "kept", "process": {"oomScoreAdj": -1}}))
    runc = fake("runc", f'echo "$@" > {tmp_path}/called')

    words = ["--root", "/r", "create", "--bundle", str(bundle), "id"]
    command = [sys.executable, "-IS", oci_runtime.__file__, *words]
    subprocess.run(command, env={"PATH": str(runc.parent)}, check=True)

    assert json.loads((bundle / "config.json").read_text()) == {
        "hostname": "kept",
        "process": {"oomScoreAdj": 0},
    }
    assert (tmp_path / "called").read_text().split() == words
