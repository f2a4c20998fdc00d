"""What our engine leaves in the packet filter goes; what was there before stays."""

from toolchain.machine.engine.network import without

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
    kept = without(RULES, ["docker0", "br-0123456789ab"], chains=True).splitlines()

    assert kept == [
        "*nat",
        ":POSTROUTING ACCEPT [0:0]",
        "-A POSTROUTING -s 10.8.0.0/24 -o eth0 -j MASQUERADE",
        "COMMIT",
    ]


def test_beside_another_engine_only_our_bridges_go() -> None:
    kept = without(RULES, ["br-0123456789ab"], chains=False)

    assert ":DOCKER" in kept, "the chain belongs to the other engine as well"
    assert "br-0123456789ab" not in kept


def test_nothing_of_ours_means_nothing_goes() -> None:
    assert without(RULES, [], chains=False) == RULES
