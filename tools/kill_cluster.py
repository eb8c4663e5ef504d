"""Kills workers, nodes and drivers of a real Ray cluster at random moments; the bytes must be the local engine's.

    python tools/kill_cluster.py --kills 20 --json kills.json

A cluster of this machine (a head without work, two nodes of one core) trains small runs by `ibol experiment`. A kill is
SIGKILL for the process that trains a run, the loss of a whole node, or SIGKILL for the driver, whose command is then
called again. When all runs of a round are done, their logs (but for times) and last checkpoints must be the bytes of
those that the local engine trains undisturbed. Rounds follow each other until there were as many kills as asked for.
"""

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ibol.experiments import leases, states
from ibol.experiments.cells import Cell
from ibol.experiments.engines.local import LocalEngine
from ibol.experiments.model import parse
from ibol.experiments.schedule import Options, Schedule

RUNS, EPOCHS = 4, 250
KINDS = ("worker", "node", "driver")
FILE = """
title = "runs that are killed"
[a]
shared = {{ method = "sac", env = "point", epochs = {epochs}, evaluate_every = 0 }}
runs = [{{ seed = {seeds} }}]
"""


class Round:
    """One experiment that is killed again and again."""

    def __init__(self, number: int, folder: Path, cluster: Any) -> None:
        seeds = list(range(100 + RUNS * number, 100 + RUNS * (number + 1)))
        self.file, self.place = folder / f"round{number}.toml", folder / f"round{number}"
        self.file.write_text(FILE.format(epochs=EPOCHS, seeds=seeds))
        self.cells: list[Cell] = parse(self.file.read_text(), "own.toml", "smoke", RUNS).needed
        self.cluster = cluster
        self.driver = self.begin()

    def begin(self) -> "subprocess.Popen[str]":
        """Call the command, again or for the first time."""
        where = ["--dir", str(self.place), "--engine", "ray", "--address", self.cluster.address]
        options = ["--preset", "smoke", "--seeds", str(RUNS), "--checkpoint-minutes", "0"]
        command = [sys.executable, "-m", "ibol", "experiment", str(self.file), *options, *where]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def logged(self) -> int:
        """Epochs of all runs together."""
        return sum(states.logged_epochs(self.place / cell.place) for cell in self.cells)

    def holders(self) -> list[int]:
        """The processes that train a run now."""
        found = []
        for cell in self.cells:
            if pid := re.search(r"process (\d+)", leases.holder(self.place, cell.name)):
                found.append(int(pid[1]))
        return found

    def kill(self, kind: str, rng: random.Random) -> bool:
        """Kill what there is; false if it was gone already."""
        if kind == "driver":
            self.driver.kill()
            self.driver.communicate()
            self.driver = self.begin()
        elif kind == "node":
            self.cluster.remove_node(rng.choice(list(self.cluster.worker_nodes)), allow_graceful=False)
            self.cluster.add_node(num_cpus=1)
        else:
            holders = self.holders()
            if not holders:
                return False
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(holders), signal.SIGKILL)
        return True

    def wait(self, epochs: int, seconds: float = 600.0) -> bool:
        """Whether there are so many new epochs before the end."""
        before, deadline = self.logged(), time.monotonic() + seconds
        while self.driver.poll() is None and self.logged() < before + epochs:
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing has happened for {seconds:.0f} s in {self.place}")
            time.sleep(0.05)
        return self.driver.poll() is None

    def finish(self) -> None:
        """Let the driver end, calling it again where it reports runs that were killed too often in a row."""
        for _ in range(5):
            _, said = self.driver.communicate(timeout=1200)
            if self.driver.returncode == 0:
                return
            print(said.strip().splitlines()[-1:], file=sys.stderr)
            self.driver = self.begin()
        raise RuntimeError(f"{self.place} does not come to its end")

    def differences(self, folder: Path) -> int:
        """Runs that are not what the local engine makes of them."""
        whole = folder / f"{self.place.name}-local"
        options = Options(whole, checkpoint_minutes=0.0)
        Schedule(self.cells, {}, options, lambda board: None).run(LocalEngine(1))
        return sum(learned(self.place / cell.place) != learned(whole / cell.place) for cell in self.cells)


def learned(place: Path) -> dict[str, Any]:
    """All that must not depend on who trained it, and when."""
    rows = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
    last = sorted((place / "checkpoints").glob("*.safetensors"))[-1]
    return {
        "config": json.loads((place / "config.json").read_text()),
        "rows": [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows],
        "last": (last.name, last.read_bytes()),
    }


def campaign(kills: int, seed: int, folder: Path, cluster: Any) -> dict[str, Any]:
    """Rounds until there were so many kills; what came of them."""
    rng, counts, runs, different, number = random.Random(seed), Counter[str](), 0, 0, 0
    while counts.total() < kills:
        one = Round(number, folder, cluster)
        while one.wait(rng.randrange(1, 60)) and counts.total() < kills:
            kind = rng.choice(KINDS)
            at = one.logged()
            if one.kill(kind, rng):
                counts[kind] += 1
                print(f"kill {counts.total()}: {kind} after {at} epochs of round {number}", flush=True)
        one.finish()
        runs, different, number = runs + len(one.cells), different + one.differences(folder), number + 1
        print(f"round {number}: all {len(one.cells)} runs ended, {different} differ", flush=True)
    return {"kills": dict(counts), "rounds": number, "runs": runs, "runs_that_differ": different, "seed": seed}


def main() -> None:
    """Run the campaign; exits with 1 if a run differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    os.environ |= {"RAY_worker_niceness": "0", "RAY_raylet_start_wait_time_s": "300"}  # others may use this machine
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            found = campaign(given.kills, given.seed, Path(folder), cluster)
    finally:
        cluster.shutdown()
    print(found)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(found["runs_that_differ"] > 0)


if __name__ == "__main__":
    main()
