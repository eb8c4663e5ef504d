"""All tasks with the skills of all given runs, plain SAC, and planners: the table of final returns.

Every run of 'ibol discover' is used in the tasks of its robot; runs of one method become one row. What is finished is
kept and what was interrupted is resumed, so the command can be called again.

    python benchmarks/downstream_table.py runs/ibol-ant-* runs/diayn-ant-* runs/ibol-half_cheetah-* ... \
        --goals reachable paper --l-m 20 3 --folder runs/downstream --json benchmarks/results/downstream.json

`reachable` goals are the preset's, `paper` those of the paper (±50, ±15 and ±60 m), of which the linearizers cannot
reach all. `--l-m 20` is one decision in an episode, as in the paper, 3 is seven; `ant_multi_goals` with its four goals
keeps its own 5 in the place of 20.
"""

import argparse
import itertools
from functools import partial
from pathlib import Path

from ibol.cli import main as ibol
from ibol.downstream.imitation import make_imitation_set
from ibol.envs import TASKS
from ibol.evaluation.runs import evaluate_runs
from ibol.runs.directory import RunDirectory
from ibol.tables import evaluation_tables, show
from report import write_json

ONE_DECISION = 20  # macro steps in an episode


def train(folder: Path, task: str, skills: str, imitation_set: Path, options: list[str], label: str) -> Path:
    """One run, or what is left of it."""
    path = folder / "-".join([task, Path(skills).name, label])
    if (path / "config.json").exists():
        ibol(["resume", str(path)])
        return path
    imitated = ["--imitation-set", str(imitation_set)] if TASKS[task].goal_range is None else []
    ibol(["downstream", task, "--skills", skills, "--run-dir", str(path), *imitated, *options])
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="runs of 'ibol discover'")
    parser.add_argument("--tasks", nargs="+", default=[name for name in TASKS if name != "point_goal"])
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--epochs", type=int, help="instead of the preset's")
    parser.add_argument("--goals", nargs="+", choices=["reachable", "paper"], default=["reachable"])
    parser.add_argument("--l-m", type=int, nargs="+", default=[ONE_DECISION], help="macro steps of a decision")
    parser.add_argument("--planner", action="store_true", help="plan with each run's skills, too")
    parser.add_argument("--folder", type=Path, default=Path("runs/downstream"))
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    robots = {run: RunDirectory.open(run).config["env"] for run in args.runs}
    imitation_set = args.folder / "imitation.safetensors"
    if not imitation_set.exists() and any(TASKS[task].goal_range is None for task in args.tasks):
        make_imitation_set([run for run, robot in robots.items() if robot == "half_cheetah"], imitation_set)
    options = ["--preset", args.preset, *(["--epochs", str(args.epochs)] if args.epochs else [])]
    made = []
    for task, goals, l_m in itertools.product(args.tasks, args.goals, args.l_m):
        if goals == "paper" and TASKS[task].goal_range is None:
            continue  # paths to imitate have no range
        fitting = [str(run) for run, robot in robots.items() if robot == TASKS[task].robot]
        asked = ["--goal-range", "None"] if goals == "paper" else []
        held = [] if l_m == ONE_DECISION else ["--l-m", str(l_m)]
        label, start = f"{goals}-lm{l_m}", partial(train, args.folder, task, imitation_set=imitation_set)
        made += [start(skills, options=[*options, *asked, *held], label=label) for skills in fitting]
        if l_m == args.l_m[0]:  # pure SAC decides at every step
            made.append(start("none", options=[*options, *asked], label=goals))
        if args.planner:
            planning = ["--preset", args.preset, "--controller", "planner", *asked, *held]
            made += [start(skills, options=planning, label=f"{label}-planner") for skills in fitting]
    rows = evaluate_runs(made)
    for table in evaluation_tables(rows):
        show(table)
    if args.json:
        settings = {"skills": [run.name for run in args.runs], "preset": args.preset, "epochs": args.epochs}
        settings |= {"goals": args.goals, "l_m": args.l_m}
        named = [{**row, "run": Path(row["run"]).name} for row in rows]
        write_json(args.json, settings, ("ibol", "mujoco", "jax", "numpy"), named)


if __name__ == "__main__":
    main()
