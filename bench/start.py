"""How long `deskmate up` takes until the gateway is ready, and until the first worker is.

The folder is new, the storage embedded, the model the rehearsal; the clock on the wall counts, because a person waits.

    python -m bench.start [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import yaml

from bench._world import ROOT, Verdicts, quantile
from config.settings import environment
from gateway.running.machine import Machine, free_port

GOALS_S = {"gateway": 1.5, "worker": 4.0}
HOST = "127.0.0.1"


async def start(folder: Path) -> dict[str, float]:
    """Seconds until each is ready."""
    port = free_port(HOST, 0)
    settings = folder / "deskmate.yaml"
    settings.write_text(yaml.safe_dump({"data": "data", "gateway": {"port": port}, "log": {"level": "error"}}))
    variables = {name: value for name, value in environment().items() if name != "REDIS_URL"}
    command = [sys.executable, "-m", "gateway.cli", "--config", str(settings), "up"]
    machine = Machine(HOST, port, "")
    began = time.monotonic()
    running = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=variables, stdout=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(60):
            await machine.until_ready(workers=0)
            gateway_s = time.monotonic() - began
            await machine.until_ready()
            return {"gateway": gateway_s, "worker": time.monotonic() - began}
    finally:
        running.terminate()
        await running.wait()


async def measure(rounds: int) -> None:
    verdicts = Verdicts()
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="deskmate-bench-") as folder:
            found.append(await start(Path(folder)))
    for name, goal in GOALS_S.items():
        values = [one[name] for one in found]
        verdicts.tell(f"{name} ready after, median", statistics.median(values), goal, "s")
        print(f"  {min(values):.2f} to {quantile(values, 1.0):.2f} s; load of the machine {os.getloadavg()[0]:.1f}")
    verdicts.end()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    print(f"{given.rounds} starts, no seed: nothing is random")
    asyncio.run(measure(given.rounds))


if __name__ == "__main__":
    main()
