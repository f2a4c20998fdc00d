"""Pulumi's own folder, where it is one of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.tools import plugins


@pytest.mark.parametrize("before", ["nothing", "a folder of logs", "prepared"])
def test_in_a_folder_of_ours_pulumi_can_keep_no_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    monkeypatch.setattr(plugins, "cache", lambda: tmp_path)
    if before == "a folder of logs":
        (tmp_path / "pulumi" / "logs").mkdir(parents=True)
        (tmp_path / "pulumi" / "logs" / "dev.log").write_text("each call with its properties")
    if before == "prepared":
        plugins.prepare_home(None)
    assert plugins.prepare_home(None) == {"PULUMI_HOME": str(tmp_path / "pulumi")}
    assert (tmp_path / "pulumi" / "logs").is_file()


def test_a_folder_of_the_users_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "cache", lambda: tmp_path)
    assert plugins.prepare_home(tmp_path / "bin" / "pulumi") == {}
    assert not list(tmp_path.iterdir())
