"""`make clean` and packages: what somebody needs or wants stays, and nothing else goes along."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.unit.conftest import Fake
from tests.unit.toolchain.machine.test_packages import folders
from toolchain.machine import packages
from toolchain.steps import SetupError

__all__ = ["folders"]

# A small apt: `depends` has lines "package needed", or "package needed other" where either is enough; `recommends` has
# lines "package wanted"; `auto` the packages that nobody has asked for by name.
APT = """
cd {folder}
echo "$*" >> calls
purge() {{  # the named ones with all that depend on them
    gone=" $* "
    for _ in 1 2 3; do
        while read -r package needed other; do
            case "$gone" in *" $needed "*) ;; *) continue ;; esac
            case "$gone" in *" ${{other:-$needed}} "*) ;; *) continue ;; esac
            case "$gone" in *" $package "*) ;; *) gone="$gone$package " ;; esac
        done < depends
    done
    for each in $gone; do grep -qx "ii $each" known && echo "$each"; done
}}
words=
for word; do case "$word" in -*|DPkg*) ;; *) words="$words $word" ;; esac; done
set -- $(echo "$words") "$1"
case "$1" in
purge) shift
    names=
    for word; do case "$word" in -*) ;; *) names="$names $word" ;; esac; done
    for each in $(purge $names); do
        echo "Purg $each [1.0]"
        case " $* " in *" --simulate "*) ;; *) grep -vx "ii $each" known > k; mv k known ;; esac
    done ;;
install) cat install 2>/dev/null ;;
esac
exit 0
"""

# Lines of `known`, or of each package its name, what it recommends and what it provides.
QUERY = """
cd {folder}
case "$3" in *Recommends*) ;; *) exec cat known ;; esac
while read -r state name; do
    printf '%s\\t%s\\t%s\\n' "$name" "$(sed -n "s/^$name //p" recommends | paste -sd,)" "virtual-$name"
done < known
"""


@dataclass
class Debian:
    """Packages, what they depend on, and which of them were asked for by nobody."""

    folder: Path
    depends: list[str] = field(default_factory=list)
    recommends: list[str] = field(default_factory=list)

    def install(
        self,
        *names: str,
        automatic: bool = False,
        depends: tuple[str, ...] = (),
        recommends: tuple[str, ...] = (),
    ) -> None:
        with (self.folder / "known").open("a") as known:
            known.writelines(f"ii {name}\n" for name in names)
        self.depends += depends
        self.recommends += recommends
        for name, lines in (("depends", self.depends), ("recommends", self.recommends)):
            (self.folder / name).write_text("".join(f"{line}\n" for line in lines))
        with (self.folder / "auto").open("a") as auto:
            auto.writelines(f"{name}\n" for name in names if automatic)

    def wants(self, name: str) -> None:
        """Somebody asks for a package by name."""
        kept = [line for line in (self.folder / "auto").read_text().split() if line != name]
        (self.folder / "auto").write_text("".join(f"{line}\n" for line in kept))

    @property
    def packages(self) -> set[str]:
        return {line[3:] for line in (self.folder / "known").read_text().splitlines()}


@pytest.fixture
def debian(folders: Path, fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Debian:
    """A machine on which we have installed docker.io with iptables and runc."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    made = Debian(tmp_path)
    fake("dpkg-query", QUERY.format(folder=tmp_path))
    fake("dpkg", f'echo "dpkg $*" >> {tmp_path}/calls')
    fake(
        "apt-mark",
        f'case $1 in showauto) cat {tmp_path}/auto ;; auto) shift; printf "%s\\n" "$@" >> {tmp_path}/auto ;; esac',
    )
    fake("apt-get", APT.format(folder=tmp_path))
    made.install("base")
    made.install(
        "docker.io", "iptables", "runc", automatic=True, depends=("docker.io iptables", "docker.io runc")
    )
    packages.RECORD.write_text("docker.io\niptables\nrunc\n")
    packages.MARKED.write_text("docker.io\niptables\nrunc\n")
    return made


def test_what_nobody_else_needs_goes(debian: Debian) -> None:
    packages.purge()
    assert debian.packages == {"base"}
    assert not packages.RECORD.exists()


def test_what_came_later_and_needs_one_of_ours_stays_with_it(
    debian: Debian, capsys: pytest.CaptureFixture[str]
) -> None:
    debian.install("ufw", depends=("ufw iptables",))
    packages.purge()
    assert debian.packages == {"base", "ufw", "iptables"}
    assert "kept, because other packages or a user need them: iptables" in capsys.readouterr().err


def test_what_was_there_before_has_done_without_what_it_recommends(debian: Debian) -> None:
    packages.THERE.write_text("base\n")
    debian.install(recommends=("base iptables", "base virtual-runc"))
    packages.purge()
    assert debian.packages == {"base"}
    assert not packages.THERE.exists()


@pytest.mark.parametrize(
    "name", ["iptables", "virtual-iptables", "iptables (>= 1.8)", "nftables | iptables:any"]
)
def test_what_came_later_keeps_what_it_recommends(debian: Debian, name: str) -> None:
    packages.THERE.write_text("base\n")
    debian.install("ufw", recommends=(f"ufw {name}",))
    packages.purge()
    assert debian.packages == {"base", "ufw", "iptables"}


def test_a_record_that_does_not_say_what_was_there_keeps_what_is_recommended(debian: Debian) -> None:
    debian.install(recommends=("base iptables",))
    packages.purge()
    assert debian.packages == {"base", "iptables"}


def test_what_was_there_is_written_down_before_the_first_installation_alone(debian: Debian) -> None:
    for record in (packages.RECORD, packages.MARKED):
        record.unlink()
    packages.install(["mmdebstrap"])
    debian.install("ufw")
    packages.install(["python3-venv"])
    assert "ufw" not in packages.THERE.read_text().split()


def test_one_of_two_stays_where_either_is_enough(debian: Debian) -> None:
    debian.install("ufw", depends=("ufw iptables runc",))
    packages.purge()
    assert debian.packages == {"base", "ufw", "runc"}


def test_both_go_where_a_third_is_enough(debian: Debian) -> None:
    debian.install(depends=("base base iptables",))
    packages.purge()
    assert debian.packages == {"base"}


def test_what_somebody_has_asked_for_since_stays(debian: Debian) -> None:
    debian.wants("docker.io")
    debian.install("tini", automatic=True, recommends=("docker.io tini",))
    packages.RECORD.write_text(f"{packages.RECORD.read_text()}tini\n")
    packages.MARKED.write_text(packages.RECORD.read_text())
    packages.purge()
    assert debian.packages == {"base", "docker.io", "iptables", "runc", "tini"}


def test_not_even_what_nobody_needs_any_more_goes_along_when_it_is_not_ours(debian: Debian) -> None:
    debian.install("old", automatic=True, depends=("old runc",))
    packages.purge()
    assert debian.packages == {"base", "old", "runc"}


def test_only_root_removes_them_and_the_record_stays(debian: Debian, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SetupError, match="only root"):
        packages.purge()
    assert packages.RECORD.exists()
    assert "docker.io" in debian.packages


def test_a_removal_that_was_killed_is_finished(debian: Debian, tmp_path: Path) -> None:
    packages.REMOVING.touch()
    packages.purge()
    assert debian.packages == {"base"}
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls.index("dpkg --configure -a") == 0, "before apt, which would refuse to work"
    assert not packages.REMOVING.exists()


def test_nothing_is_removed_to_make_room_for_ours(debian: Debian, tmp_path: Path) -> None:
    (tmp_path / "install").write_text(
        "Remv containerd.io [1.7]\nRemv docker-ce-cli [27]\nInst docker.io (20.10)\n"
    )
    before = debian.packages
    with pytest.raises(SetupError, match=r"would remove containerd\.io docker-ce-cli; nothing was changed"):
        packages.install(["podman"])
    assert debian.packages == before
    done = (tmp_path / "calls").read_text().splitlines()
    assert not [call for call in done if call.startswith("install")]


def test_apt_itself_is_told_to_remove_nothing(debian: Debian, tmp_path: Path) -> None:
    packages.install(["podman"])
    (install,) = [
        call for call in (tmp_path / "calls").read_text().splitlines() if call.startswith("install")
    ]
    assert "--no-remove" in install.split()
