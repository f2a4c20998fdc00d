"""What our engine leaves in the packet filter goes; what was there before stays."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from toolchain.machine.engine import network
from toolchain.machine.engine.network import rules_without

RULES = """\
*nat
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 172.18.0.0/16 ! -o br-0123456789ab -j MASQUERADE
-A POSTROUTING -s 10.8.0.0/24 -o eth0 -j MASQUERADE
-A POSTROUTING -s 172.18.0.2/32 -d 172.18.0.2/32 -p tcp -m tcp --dport 6443 -j MASQUERADE
-A DOCKER ! -i br-0123456789ab -p tcp -m tcp --dport 40000 -j DNAT --to-destination 172.18.0.2:6443
COMMIT
"""


def test_our_bridges_and_chains_go_and_the_users_rules_stay() -> None:
    kept = rules_without(RULES, ["docker0", "br-0123456789ab"], chains=True).splitlines()

    assert kept == [
        "*nat",
        ":POSTROUTING ACCEPT [0:0]",
        "-A POSTROUTING -s 10.8.0.0/24 -o eth0 -j MASQUERADE",
        "COMMIT",
    ]


def test_beside_another_engine_only_our_bridges_go() -> None:
    kept = rules_without(RULES, ["br-0123456789ab"], chains=False)

    assert ":DOCKER" in kept, "the chain belongs to the other engine as well"
    assert "br-0123456789ab" not in kept


def test_nothing_of_ours_means_nothing_goes() -> None:
    assert rules_without(RULES, [], chains=False) == RULES


def test_what_an_earlier_boot_noted_is_noted_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "network.json"
    network.save_settings(file)
    first = file.read_text()
    network.save_settings(file)
    assert file.read_text() == first
    monkeypatch.setattr(network, "boot_id", lambda: "another")
    network.save_settings(file)
    assert json.loads(file.read_text())["boot"] == "another"


def test_nothing_is_set_back_to_what_an_earlier_boot_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "network.json"
    network.save_settings(file)
    monkeypatch.setattr(network, "boot_id", lambda: "another")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("touched the network"))
    network.restore_settings(file)
    assert not file.exists()


def test_a_note_cut_short_by_a_crash_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "network.json"
    file.write_text('{"sysctls": {"net')
    network.save_settings(file)
    assert json.loads(file.read_text())["boot"] == network.boot_id()
