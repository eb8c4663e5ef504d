"""What each kind of run of `ibol paper all` costs on one core, and what the whole does.

Each kind (method, environment, variant) is trained for a few epochs by a process on one core, as an experiment's worker
does it, and then once more: what was compiled is kept, so that only the first run of a kind compiles. Processor time is
counted, not the clock; others on the machine still make it longer, through the memory that all share. A whole run is

    the start and the first epoch + (epochs - 1) times the median of the others
    + evaluations while training + the steps after the last epoch + the episodes by which it is measured

and the first of its kind has `compile_minutes` besides.

    python benchmarks/costs.py measure --json benchmarks/results/costs.json      # all kinds; about half an hour
    python benchmarks/costs.py measure --only dads:hopper --json benchmarks/results/costs.json
    python benchmarks/costs.py table --json benchmarks/results/costs.json        # the sum over all runs, as Markdown

`measure` adds to what the file has, and leaves out kinds whose runs are in `--dir`. What a run stands on is trained for
as few epochs, which changes no cost but Humanoid's: it falls at once then, so that its episodes are short.
Two calls with files and directories of their own may share two cores.
`ibol.experiments.costs` has the minutes of this file as its first estimates: `known` prints them as they stand there.
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ibol.evaluation.skills import accuracy_trajectories
from ibol.experiments.cells import SET, Cell, with_needs
from ibol.experiments.costs import name_of
from ibol.experiments.engines.work import one_core, peak_memory
from ibol.experiments.model import paper_experiment
from ibol.experiments.states import can_be_measured
from ibol.metrics.coverage import COVERING
from report import write_json

EPOCHS = 3
REFINED = 100  # of IBOL's steps after the last epoch
SIMULATED = 200  # episodes, of those that are kept of a run
PACKAGES = ("ibol", "jax", "jaxlib", "mujoco", "numpy")


def kinds(preset: str) -> dict[str, list[Cell]]:
    """The cells of the paper by kind, what they stand on first; of a kind, one that needs least is first."""
    found: dict[str, list[Cell]] = {}
    for cell in with_needs(paper_experiment(preset).needed):
        found.setdefault(name_of(cell), []).append(cell)
    return {name: sorted(cells, key=lambda cell: len(with_needs([cell]))) for name, cells in found.items()}


def example(cells: list[Cell], folder: Path) -> Cell:
    """One cell of a kind: the first that stands on what was measured already, else the first."""
    ready = (cell for cell in cells if all(place_of(other, folder).exists() for other in with_needs([cell])[:-1]))
    return next(ready, cells[0])


def place_of(cell: Cell, folder: Path) -> Path:
    return folder / name_of(cell).replace(":", "-").replace(" ", "-")


def measure_cell(cell: Cell, folder: Path, place: Path, *, compiled: bool) -> dict[str, Any]:
    """Train a few epochs of a cell in this process and, where everything is compiled, simulate some of its skills."""
    import jax

    from ibol.training import launch
    from ibol.training.loop import RunSettings
    from ibol.training.trainer import Trainer

    run_epoch: list[float] = []
    evaluate: list[float] = []
    refine: list[float] = []

    def train_epoch(self: Trainer, epoch: int) -> Any:
        began = time.process_time()
        done = self.run_epoch(epoch)
        run_epoch.append(time.process_time() - began)
        self.env_steps += done.env_steps
        metrics = {"env_steps": self.env_steps, **done.metrics}
        if config.evaluate_every and epoch + 2 >= self.epochs:  # twice: the first one compiles
            began = time.process_time()
            metrics |= {f"evaluation/{name}": value for name, value in self.evaluate(epoch).items()}
            evaluate.append(time.process_time() - began)
        if epoch + 1 == self.epochs and refined:
            began = time.process_time()
            self._refine(epoch)  # type: ignore[attr-defined]
            jax.block_until_ready(self.training)  # type: ignore[attr-defined]
            refine.append(time.process_time() - began)
        return done._replace(metrics=metrics)

    if cell.method == SET:
        return measure_set(cell, folder)
    Trainer.train_epoch = train_epoch  # type: ignore[method-assign]
    config = cell.config()
    sources = {name: str(place_of(other, folder)) for name, other in cell.sources.items()}
    length = launch.find(cell.method).length(config)
    refined = getattr(config, "final_steps", 0)
    steps = {"final_steps": REFINED} if refined else {}
    few = dataclasses.replace(config, **sources, **steps, **{length: EPOCHS})
    began = time.process_time()
    launch.start(
        cell.method, cell.env, few, preset=cell.preset, env_settings=cell.environment(),
        run_settings=RunSettings(seed=100, run_dir=place, quiet=True, checkpoint_minutes=1e9),
    )  # fmt: skip
    whole = time.process_time() - began
    epoch = statistics.median(run_epoch[1:-1] if refined else run_epoch[1:])
    every = config.evaluate_every
    evaluations = -(-cell.epochs // every) if every else 0
    measured = compiled and can_be_measured(cell)
    episodes = episodes_of(cell, paper_experiment(cell.preset).simulated.get(cell.name, 0)) if measured else 0
    simulated = episodes * simulate(place) if episodes else 0.0
    # All that is done once: to make it, the first epoch, to compile, also for the evaluation and the last steps.
    start = whole - sum(run_epoch[1:]) - sum(evaluate[1:]) - sum(refine)
    start += run_epoch[-1] - epoch if refined else 0.0
    parts = {
        "start": start, "epochs": epoch * (cell.epochs - 1), "after_the_last": sum(refine) * refined / REFINED,
        "evaluations": evaluations * evaluate[-1] if every else 0.0, "simulated": simulated,
    }  # fmt: skip
    return {
        "epochs": cell.epochs, "seconds_of_an_epoch": round(epoch, 3), "episodes": episodes,
        **{f"{name}_minutes": round(value / 60, 3) for name, value in parts.items()},
        "minutes": round(sum(parts.values()) / 60, 3), "peak_gigabytes": round(peak_memory() / 1e9, 2),
    }  # fmt: skip


def episodes_of(cell: Cell, count: int) -> int:
    """Episodes that are simulated where so many random skills, or goals of a linearizer, are asked for."""
    return count if cell.method == "linearize" or not count else count + accuracy_trajectories(count) + COVERING


def simulate(place: Path) -> float:
    """Processor seconds for each of the episodes that are kept of a run."""
    from ibol.evaluation.goals import goal_paths
    from ibol.evaluation.loading import load_run
    from ibol.evaluation.rollouts import skill_rollouts

    run = load_run(place)
    used = []
    for seed in (101, 102):  # the first one compiles
        began = time.process_time()
        if run.kind == "linearizer":
            goal_paths(run, trajectories=SIMULATED, seed=seed)
        else:
            skill_rollouts(run, trajectories=1 if seed == 101 else SIMULATED, seed=seed)
        used.append(time.process_time() - began)
    return used[-1] / SIMULATED


def measure_set(cell: Cell, folder: Path) -> dict[str, Any]:
    from ibol.downstream.imitation import make_imitation_set

    began = time.process_time()
    count = cell.settings["trajectories"]
    make_imitation_set(
        [place_of(cell.members[0], folder)], place_of(cell, folder), trajectories=count, seed=100, quiet=True
    )
    return {"epochs": 1, "minutes": round((time.process_time() - began) * len(cell.members) / 60, 3)}


def measure(args: argparse.Namespace) -> None:
    """All kinds that are asked for and those that they stand on, each in a process of its own."""
    found, folder = kinds(args.preset), Path(args.dir or tempfile.mkdtemp(prefix="costs-"))
    for wanted in args.only or found:
        for cell in with_needs([example(found[wanted], folder)]):
            name = name_of(cell)
            if place_of(cell, folder).exists():
                continue
            try:
                row = measured_apart(cell, folder)
            except subprocess.CalledProcessError:
                print(f"{name} failed", file=sys.stderr)
                continue
            print(name, row, flush=True)
            known = {**read(args.json), name: row}
            write_json(args.json, {"preset": args.preset, "epochs": EPOCHS, "simulated": SIMULATED}, PACKAGES, known)


def measured_apart(cell: Cell, folder: Path) -> dict[str, Any]:
    """What a cell costs, by processes of its own: one that compiles, and one that finds everything compiled."""
    command = [sys.executable, __file__, "one", "--only", name_of(cell), "--dir", str(folder), "--preset", cell.preset]

    def said(*more: str) -> dict[str, Any]:
        words = [*command, *more]
        done = subprocess.run(words, env=one_core(os.environ), stdout=subprocess.PIPE, text=True, check=True)
        return dict(json.loads(done.stdout.splitlines()[-1]))

    if cell.method == SET:
        return said()
    first, row = said("--compile"), said()
    return {**row, "compile_minutes": round(first["start_minutes"] - row["start_minutes"], 3)}


def read(file: str) -> dict[str, dict[str, Any]]:
    try:
        return dict(json.loads(Path(file).read_text())["results"])
    except FileNotFoundError:
        return {}


def table(args: argparse.Namespace) -> None:
    """The sum over all runs of the paper, the dearest kind first."""
    known, rows, missing = read(args.json), [], []
    simulated = paper_experiment(args.preset).simulated
    for name, cells in kinds(args.preset).items():
        if name in known:
            rows.append((sum_of(known[name], cells, simulated), len(cells), name))
        else:
            missing.append(name)
    print("| runs | method | environment | minutes of one | hours of all |\n|---|---|---|---|---|")
    for total, count, name in sorted(rows, reverse=True):
        method, env, *variant = name.split(":")
        shown = f"{env} {variant[0]}" if variant else env
        print(f"| {count} | {method} | {shown} | {known[name]['minutes']:.1f} | {total / 60:.2f} |")
    hours = sum(total for total, _, _ in rows) / 60
    print(f"\n{sum(count for _, count, _ in rows)} runs: {hours:.1f} core hours, {hours / 2:.1f} hours on two cores")
    if missing:
        print(f"not measured: {', '.join(missing)}")


def sum_of(row: dict[str, Any], cells: list[Cell], simulated: dict[str, int]) -> float:
    """Minutes of all cells of a kind, each with its own number of simulated episodes."""
    own = [episodes_of(cell, simulated.get(cell.name, 0)) for cell in cells]
    training = row["minutes"] - row.get("simulated_minutes", 0.0)
    each = row["simulated_minutes"] / row["episodes"] if row.get("episodes") else 0.0
    return float(len(cells) * training + sum(own) * each + row.get("compile_minutes", 0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "one", "table", "known"])
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--only", nargs="+", default=[], metavar="METHOD:ENV[:VARIANT]")
    parser.add_argument("--dir", help="where runs are kept (default: a new directory among the temporary ones)")
    parser.add_argument("--json", help="the file with the numbers")
    parser.add_argument("--compile", action="store_true", help="with 'one': measure the run that compiles alone")
    args = parser.parse_args()
    if args.what == "one":
        folder = Path(args.dir)
        cell = example(kinds(args.preset)[args.only[0]], folder)
        place = Path(tempfile.mkdtemp(prefix="compiled-")) / "run" if args.compile else place_of(cell, folder)
        print(json.dumps(measure_cell(cell, folder, place, compiled=not args.compile)))
    elif args.what == "measure":
        measure(args)
    elif args.what == "known":
        print("\n".join(f'    "{name}": {round(row["minutes"], 1)},' for name, row in sorted(read(args.json).items())))
    else:
        table(args)


if __name__ == "__main__":
    main()
