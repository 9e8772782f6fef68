"""A command whose extra is not installed says which one to install, before it has done anything."""

from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.cli.extras import EXTRAS, need_extra
from tolerant.cli.reporting import reported


@pytest.mark.parametrize(
    ("extra", "call"),
    [
        ("spark", ["run", "app.sql"]),
        ("spark", ["demo"]),
        ("spark", ["reproduce", "merging-fig9"]),
        ("http", ["poll", "quotes"]),
        ("pictures", ["explain", "inbound", "--picture", "inbound.png"]),
        ("pictures", ["plan", "inbound", "--picture", "inbound.png"]),
        ("pictures", ["demo"]),
        ("pictures", ["reproduce", "merging-fig9"]),
    ],
)
def test_the_extra_that_is_missing(
    extra: str, call: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tolerant.cli.extras._is_installed", lambda module: module not in EXTRAS[extra])
    (tmp_path / "app.sql").write_text("CREATE STREAM s (k STRING, v DOUBLE) KEY (k)")
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 1
    assert result.output.endswith(f"needs the extra {extra}: pip install 'tolerant[{extra}]'\n")
    assert [file.name for file in tmp_path.iterdir()] == ["app.sql"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_is_installed_is_needed_without_a_word(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tolerant.cli.extras._is_installed", lambda _: True)
    need_extra(extra, "a test")


def test_a_module_that_is_missing_somewhere_inside(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        import_module("scipy_that_is_not_there" if broken else "pyspark.nothing_like_it")

    broken = False
    with pytest.raises(BaseException) as ended:
        reported(command)()
    assert ended.value.exit_code == 1
    assert "needs the extra spark" in capsys.readouterr().err
    broken = True
    with pytest.raises(ModuleNotFoundError):  # a fault of ours, not an extra
        reported(command)()
