"""`slipstick mcp` in a session of the protocol's own client: tools, answers, refusals, and code that is not run."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema import Draft202012Validator

from slipstick.experiments.cli.cli import build, run
from slipstick.experiments.cli.mcp import TOOLS, answer, tools_of

ROOT = Path(__file__).parents[2]
OWN = "from pathlib import Path\nPath('ran').touch()\ndef network():\n    raise SystemExit\n"


def session(ask: Callable[[Any], Awaitable[None]], *options: str) -> None:
    """A session over stdio with a server of its own process."""
    anyio, mcp = (pytest.importorskip(name, reason="the extra agents") for name in ("anyio", "mcp"))

    async def held() -> None:
        server = mcp.StdioServerParameters(
            command=sys.executable, args=["-m", "slipstick", "mcp", *options], env={"PYTHONPATH": str(ROOT)}
        )
        async with mcp.stdio_client(server, sys.__stderr__) as ends, mcp.ClientSession(*ends) as client:
            await client.initialize()
            await ask(client)

    anyio.run(held)


def test_a_session_asks_and_is_answered_as_the_command_line_is(capsys: pytest.CaptureFixture[str]) -> None:
    async def ask(client: Any) -> None:
        tools = {one.name: one for one in (await client.list_tools()).tools}
        assert sorted(tools) == sorted(verb.replace(" ", "_") for verb in TOOLS)
        for one in tools.values():
            Draft202012Validator.check_schema(one.input_schema)
            assert "report" not in one.input_schema["properties"] and one.description
        arguments = {"workload": "gemm", "on": "h100-sxm", "number": {"m": 4096}, "dtype": "bf16"}
        Draft202012Validator(tools["estimate"].input_schema).validate(arguments)
        first = await client.call_tool("estimate", arguments)
        assert run(["estimate", "gemm", "--on", "h100-sxm", "--m", "4096", "--dtype", "bf16", "--format", "json"]) == 0
        assert first.structured_content["rows"] == json.loads(capsys.readouterr().out)
        long = await client.call_tool("estimate", {"workload": "gpt2", "on": "h100-sxm"})
        (row,) = long.structured_content["rows"]
        assert len(row["parts"]) == 20 and "parts: the 20 slowest of" in long.structured_content["notes"]
        refused = await client.call_tool("estimate", {"workload": "gemm", "on": "h1000"})
        assert refused.is_error and "did you mean" in refused.content[0].text
        unknown = await client.call_tool("estimate", {"workload": "gemm", "on": "h100-sxm", "report": "x.html"})
        assert unknown.is_error and "report" in unknown.content[0].text

    session(ask)


def test_a_tool_writes_no_file_whatever_its_numbers_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of `number` were options: {"report": "x.html"} wrote a page, {"save": FILE} replaced one."""
    monkeypatch.chdir(tmp_path)
    command = typer.main.get_command(build())
    tools = tools_of(command)
    for verb, asked in (
        ("estimate", {"workload": "gemm", "on": "h100-sxm"}),
        ("whatif", {"workload": "gemm", "on": "h100-sxm", "vary": ["machine.clock=1GHz,2GHz"]}),
    ):
        writing = [one.name for one in tools[verb].command.params if one.name not in tools[verb].parameters]
        for name in {*writing, "report", "save", "timeline", "out", "traceback", "a b", "--report"}:
            rows, said = answer(tools[verb], {**asked, "number": {name: "there.html"}}, command)
            assert rows is None and said and list(tmp_path.iterdir()) == [], (verb, name)
    rows, said = answer(tools["estimate"], {"workload": "gemm", "on": "h100-sxm", "number": [1]}, command)
    assert rows is None and "number" in said


@pytest.mark.parametrize("options", [pytest.param((), marks=pytest.mark.slow), ("--allow-code", "other.py:network")])
def test_no_code_is_run_that_the_user_did_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)

    async def ask(client: Any) -> None:
        for arguments in (
            {"workload": "own.py:network", "on": "h100-sxm"},
            {"workload": "gemm", "on": "h100-sxm", "estimator": "own:network"},
        ):
            refused = await client.call_tool("estimate", arguments)
            assert refused.is_error and not Path("ran").exists(), arguments

    session(ask, *options)
