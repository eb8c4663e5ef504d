"""Methods compared: a table of what runs reached, the panel of their trajectories, and their own objectives.

The runs are any of 'ibol discover', of several methods, environments, linearizers and seeds. Bins and cells are common
to all runs of an environment, so all that is to be compared belongs into one call.

    for seed in 0 1; do for method in ibol diayn valor dads; do
        ibol discover half_cheetah --method $method --linearizer bundled:$seed --seed $seed
    done; done
    python benchmarks/comparison.py RUN... --json benchmarks/results/comparison.json --figures docs/background

leaves `comparison.json`, and as pictures `comparison.png` (rows of environments, columns of methods, one run each) and
`objectives.png` (each baseline's own objective over its training, next to what a random policy has).
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ibol.evaluation.groups import Group, group_runs
from ibol.evaluation.plots.skills import random_skills
from ibol.evaluation.skills import evaluate_skills
from ibol.figures.common import method_colours, save
from ibol.figures.skills import plot_skill_rows
from ibol.runs.directory import RunDirectory
from report import write_json

METHODS = ("ibol", "diayn", "valor", "dads")
SETTINGS = ("epochs", "episodes_per_epoch", "linearizer", "hidden")
# A random policy ignores z. The best guess of it is then its prior, and no latent predicts a step better.
OBJECTIVES = {
    "diayn": ("intrinsic_reward", "log q(z | s') - log p(z)", lambda latents: 0.0),
    "valor": ("decoder", "log p(z | s₀ … s_T-1)", lambda latents: -0.5 * latents * math.log(2 * math.pi * math.e)),
    "dads": ("intrinsic_reward", "log q(d | s, z) - log q(d | s)", lambda latents: 0.0),
}


def about(run: RunDirectory) -> dict[str, Any]:
    """What a run is, and how long it trained."""
    settings, logged = run.config["settings"], list(run.metrics())
    return {
        "preset": run.config["preset"],
        "seed": run.config["seed"],
        **{name: settings[name] for name in SETTINGS},
        "epochs_done": logged[-1]["epoch"],
        "env_steps": logged[-1]["env_steps"],
        "minutes": sum(row["time/epoch_seconds"] for row in logged) / 60,
    }


def table(paths: Sequence[Path], trajectories: int) -> list[dict[str, Any]]:
    """The measures of all runs, of untrained and random policies, and the means over runs of one setting."""
    runs = {str(path): RunDirectory.open(path) for path in paths}
    rows = []
    for row in evaluate_skills(paths, trajectories=trajectories, quiet=True):
        run = runs.get(row["run"])
        known = about(run) if run is not None and row["policy"] == "skills" else {}
        name = Path(row["run"]).name if run is not None else row["run"]
        rows.append({**row, "run": name, **known})
    return rows


def by_env(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Groups of runs by environment, in the order of the methods."""
    ordered = sorted(groups, key=lambda group: METHODS.index(group.runs[0].method))
    return {env: [g for g in ordered if g.env == env] for env in dict.fromkeys(group.env for group in groups)}


def panel(groups: Sequence[Group], output: Path, trajectories: int) -> None:
    """Random skills of the first run of each group: a row for each environment, a column for each method."""
    rows = [
        [
            random_skills(
                group.runs[0].path,
                f"{group.label} on {env}, seed {group.runs[0].config['seed']}",
                trajectories=trajectories,
            )
            for group in members
        ]
        for env, members in by_env(groups).items()
    ]
    title = f"{trajectories} random latents of each run; axes are common to a row"
    plot_skill_rows(rows, output, title=title, same_scale=False)


def objectives(groups: Sequence[Group], output: Path) -> None:
    """Each baseline's own objective: a row for each environment, a column for each method, a line for each run."""
    envs = by_env([group for group in groups if group.runs[0].method in OBJECTIVES])
    methods = [name for name in METHODS if any(_of(members, name) for members in envs.values())]
    if not methods:
        return
    figure = Figure(figsize=(4.2 * len(methods), 3.2 * len(envs)), layout="constrained")
    for line, (env, members) in zip(figure.subplots(len(envs), len(methods), squeeze=False), envs.items(), strict=True):
        for axes, method in zip(line, methods, strict=True):
            drawn = _of(members, method)
            if not drawn:
                axes.set_axis_off()
                continue
            metric, formula, random = OBJECTIVES[method]
            colours = method_colours([group.label for group in drawn])
            for group in drawn:
                for number, run in enumerate(group.runs):
                    logged = [(row["env_steps"], row[metric]) for row in run.metrics()]
                    steps, values = np.array(logged).T
                    label = group.label if number == 0 else None
                    axes.plot(steps / 1e6, values, color=colours[group.label], label=label, linewidth=0.9)
            chance = random(drawn[0].runs[0].config["skills"]["latent_dim"])
            axes.axhline(chance, color="#777777", linestyle="--", linewidth=1, label="random policy")
            axes.set_title(f"{method.upper()} on {env}", fontsize=10)
            axes.set(xlabel="million environment steps", ylabel=f"{formula} (nats)")
            axes.set_ylim(bottom=max(axes.get_ylim()[0], chance - 3))  # a fresh decoder may be far below
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
    save(figure, output)


def _of(groups: Sequence[Group], method: str) -> list[Group]:
    return [group for group in groups if group.runs[0].method == method]


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The few numbers that are looked at first."""
    names = (
        "information", "neighbour_information", "wsepin", "sepin@1", "corrected_sepin@1", "accuracy", "coverage",
        "distance", "spread", "minutes",
    )  # fmt: skip
    print("| run | policy | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 2) + "|")
    for row in rows:
        cells = [f"{row[name]:.3g}" if name in row else "" for name in names]
        print(f"| {row['env']} {row['method']} {row['run']} | {row['policy']} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--trajectories", type=int, default=2000, help="random latents that are measured")
    parser.add_argument("--drawn", type=int, default=500, help="random latents that are drawn")
    parser.add_argument("--figures", type=Path, help="also draw the pictures, into this directory")
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    paths = list(dict.fromkeys(args.runs))
    rows = table(paths, args.trajectories)
    show(rows)
    if args.json:
        packages = ("ibol", "mujoco", "jax", "equinox", "optax", "numpy")
        write_json(args.json, {"trajectories": args.trajectories}, packages, rows)
    if args.figures:
        args.figures.mkdir(parents=True, exist_ok=True)
        groups = group_runs(paths)
        panel(groups, args.figures / "comparison.png", args.drawn)
        objectives(groups, args.figures / "objectives.png")


if __name__ == "__main__":
    main()
