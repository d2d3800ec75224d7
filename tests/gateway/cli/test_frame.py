from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest

import gateway.cli
from config.loading import Loaded
from gateway.cli import COMMANDS, Stop, deskmate, pass_loaded, run


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a command named `probe` among the others, in a module of its own."""
    module = type(sys)("probe_module")

    @click.command()
    @click.option("--fail", type=click.Choice(["stop", "interrupt", "bug", "pipe"]))
    @pass_loaded
    def probe(loaded: Loaded, fail: str | None) -> None:
        """Probe."""
        if fail == "stop":
            raise Stop("The port is taken.", 7)
        if fail == "interrupt":
            raise KeyboardInterrupt
        if fail == "bug":
            raise RuntimeError("a bug")
        click.echo(f"{loaded.path.name} {loaded.settings.gateway.port}")

    module.probe = probe  # type: ignore[attr-defined] # a module made here has no stub
    monkeypatch.setitem(sys.modules, "probe_module", module)
    monkeypatch.setitem(COMMANDS["Run it"], "probe", gateway.cli._Command("probe_module:probe", "Probe."))
    monkeypatch.setitem(COMMANDS["Run it"], "absent", gateway.cli._Command("gateway.cli.absent:absent", "Not there."))


def test_help_teaches_all_commands_in_groups_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    told = capsys.readouterr().out
    for title, group in COMMANDS.items():
        assert f"{title}:" in told
        for name, one in group.items():
            assert f"  {name} " in told
            assert one.summary in told
    assert "deskmate say " in told


def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"deskmate {metadata.version('deskmate')}\n"


def test_neither_the_frame_nor_its_help_imports_workers_or_the_sdk() -> None:
    script = (
        "import sys\n"
        "from gateway.cli import run\n"
        "for arguments in (['--help'], ['config', 'path'], ['config', '--help']):\n"
        "    assert run(arguments) == 0\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'workers', 'anthropic', 'rq', 'redis'}))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.usefixtures("command")
def test_a_command_gets_the_settings_named_before_or_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("gateway: {port: 4321}\n")
    assert run(["--config", str(file), "probe"]) == 0
    assert run(["probe", "--config", str(file)]) == 0
    assert capsys.readouterr().out == "mine.yaml 4321\nmine.yaml 4321\n"


@pytest.mark.usefixtures("command")
def test_expected_ends_are_messages_with_their_code_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "--fail", "stop"]) == 7
    assert capsys.readouterr().err == "Error: The port is taken.\n"
    assert run(["probe", "--fail", "interrupt"]) == 130
    assert run(["nonsense"]) == 2
    assert "No such command 'nonsense'" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="a bug"):
        run(["probe", "--fail", "bug"])


@pytest.mark.usefixtures("command")
def test_broken_settings_end_a_command_with_all_problems_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("gatewy: {}\nlog: {level: loud}\nconnections: {a: {platform: nowhere}}\n")
    assert run(["probe", "--config", str(file)]) == 2
    told = capsys.readouterr().err
    assert "mine.yaml:1: gatewy: unknown key; did you mean gateway?" in told
    assert "mine.yaml:2: log.level: 'loud' is not allowed" in told
    assert "mine.yaml:3: connections.a.platform: there is no platform 'nowhere'" in told
    assert "Traceback" not in told


@pytest.mark.usefixtures("command")
def test_a_command_whose_part_is_not_installed_says_so_and_breaks_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["absent"]) == 1
    assert "`deskmate absent` is not part of this installation" in capsys.readouterr().err
    assert run(["--help"]) == 0


def test_each_named_command_is_there() -> None:
    context = click.Context(deskmate)
    for group in COMMANDS.values():
        for name, one in group.items():
            module, _, attribute = one.where.partition(":")
            assert attribute == name
            if (Path(gateway.cli.__file__).parents[2] / f"{module.replace('.', '/')}.py").exists():
                assert isinstance(deskmate.get_command(context, name), click.Command)


def test_a_reader_who_leaves_early_is_no_error() -> None:
    script = "import sys; from gateway.cli import run; sys.exit(run(['config', 'show']))"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as shown:
        assert shown.stdout is not None
        assert shown.stderr is not None
        shown.stdout.close()
        assert shown.stderr.read() == b""
        assert shown.wait(30) == 1


def test_it_runs_as_a_module_too() -> None:
    command = [sys.executable, "-m", "gateway.cli", "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == f"deskmate {metadata.version('deskmate')}\n"


@pytest.mark.parametrize(
    "words",
    [
        (b"explain", b"web/chat", b"--person", b"bridge/\xff"),
        (b"explain", b"\xff"),
        (b"roles", b"grant", b"web/\xff", b"--channel", b"web/chat"),
        (b"admin", b"link", b"--as", b"web/\xff"),
        (b"audit", b"verify", b"--against", b"\xff"),
        (b"\xff",),
        (b"skills", b"add", b"\xff.zip", b"--everywhere"),
    ],
    ids=str,
)
def test_an_argument_that_is_no_text_is_told(words: tuple[bytes, ...]) -> None:
    command = [sys.executable.encode(), b"-m", b"gateway.cli", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "is not UTF-8: nothing here is called so." in ended.stderr
    assert "Traceback" not in ended.stderr
