"""Make finished runs of 'ibol discover' skills that ship with ibol, with their cards.

    python tools/zoo.py add RUN --limits "what these skills are not good for"
    python tools/zoo.py page                      # writes docs/guides/zoo.md from the cards

An entry holds the skill policy, its normaliser and its linearizer, the run's settings and curves, a card (how it came
to be, what it scores in new episodes next to the initial and a random policy) and a picture.
"""

import argparse
import json
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

from PIL import Image

from ibol import zoo
from ibol.evaluation.plots import PlotOptions, plot_runs
from ibol.evaluation.skills import evaluate_skills
from ibol.linearizer.policy import BUNDLED, provenance_of
from ibol.metrics.catalogue import find_metric
from ibol.report.tables import command_line
from ibol.runs.directory import RunDirectory
from ibol.skills.policy import copy_skills
from ibol.tables import INITIAL
from ibol.training.launch import find, open_run

FRESH_SEED = 999  # of the episodes that a card is measured in
LIMIT = 1_500_000  # bytes of an entry
SCORES = (
    "neighbour_information", "neighbour_sepin@1", "neighbour_wsepin", "accuracy", "spread", "distance", "coverage",
    "smallest_sector", "lowest", "highest",
)  # fmt: skip
PAGE = Path(__file__).parents[1] / "docs" / "guides" / "zoo.md"


def add(path: Path, limits: str, trajectories: int = 2000) -> Path:
    """Copy what acts, measure it and write its card."""
    run = open_run(path)
    epochs, logged = run.config["settings"]["epochs"], list(run.metrics())
    if len(logged) < epochs:
        sys.exit(f"{path} has {len(logged)} of {epochs} epochs: finish it with 'ibol resume {path}'")
    entry = zoo.DIRECTORY / f"{run.config['env']}-{run.method}"
    card = describe(run, logged, limits)
    card["evaluation_trajectories"] = trajectories
    card["scores"] = measure(path, trajectories)
    shutil.rmtree(entry, ignore_errors=True)
    copy_skills(path, entry)
    shutil.copyfile(path / "metrics.jsonl", entry / "metrics.jsonl")
    draw(path, entry / zoo.PICTURE)
    (entry / zoo.CARD).write_text(json.dumps(card, indent=2) + "\n")
    size = sum(file.stat().st_size for file in entry.rglob("*") if file.is_file())
    if size > LIMIT:
        sys.exit(f"{entry} has {size} bytes, but at most {LIMIT} may be bundled")
    return entry


def describe(run: RunDirectory, logged: list[dict[str, Any]], limits: str) -> dict[str, Any]:
    """How it came to be."""
    return {
        "env": run.config["env"],
        "method": run.method,
        "title": find(run.method).title,
        "command": command_line(run),
        "linearizer": linearizer_command(run),
        "seed": run.config["seed"],
        "epochs": len(logged),
        "env_steps": int(logged[-1]["env_steps"]),
        "minutes": round(sum(row["time/epoch_seconds"] for row in logged) / 60, 1),
        "versions": run.config["versions"],
        "evaluation_seed": FRESH_SEED,
        "limits": limits,
    }


def linearizer_command(run: RunDirectory) -> str:
    """What its linearizer was trained by."""
    source, _, seed = run.config["settings"]["linearizer"].partition(":")
    if source == "none":
        return source
    if source != "bundled":
        sys.exit(f"{run.path} is on the linearizer {source}: bundle that first (tools/bundle.py)")
    return str(provenance_of(BUNDLED / f"{run.config['env']}-{seed or 0}.safetensors")["command"])


def measure(path: Path, trajectories: int) -> dict[str, dict[str, float]]:
    """Scores of the skills, sampled and by their mode, and of both references."""
    measured = {}
    for deterministic in (False, True):
        rows = evaluate_skills(
            [path],
            trajectories=trajectories,
            seed=FRESH_SEED,
            deterministic=deterministic,
            references=not deterministic,
        )
        for row in rows:
            measured[row["policy"]] = {name: round(float(row[name]), 3) for name in SCORES if name in row}
    order = ("skills", "skills, mode", "untrained", "random")
    return {name: measured[name] for name in order}


def draw(path: Path, picture: Path) -> None:
    """Where its skills go."""
    plot_runs([str(path)], picture, "trajectories", PlotOptions(trajectories=300, seed=FRESH_SEED))
    with Image.open(picture) as drawn:
        drawn.thumbnail((900, 900))
        plain = drawn.convert("RGB")
        plain.quantize(palette=plain.quantize(256), dither=Image.Dither.FLOYDSTEINBERG).save(picture, optimize=True)


def write_page() -> None:
    """docs/guides/zoo.md: all cards."""
    parts = [PAGE.read_text().partition("<!-- cards -->")[0] + "<!-- cards -->\n"]
    for name in zoo.names():
        card, picture = zoo.card(name), zoo.locate(name) / zoo.PICTURE
        policies = card["scores"]
        heads = [INITIAL if policy == "untrained" else policy for policy in policies]
        lines = [["score", *heads], ["---"] * (1 + len(heads))]
        for score in policies["skills"]:
            lines.append([find_metric(score).axis, *(f"{scores[score]:g}" for scores in policies.values())])
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        versions = ", ".join(f"{package} {number}" for package, number in card["versions"].items())
        parts.append(
            f"\n## {name}\n\n{card['title']} on `{card['env']}`. **Not good for:** {card['limits']}.\n\n"
            f"![Where the skills {name} go]({_relative(picture)})\n\n"
            f"{table}\n\n"
            f"Scores of {card['evaluation_trajectories']} random latents. Made by <code>{card['command']}</code> on "
            f"the linearizer of <code>{card['linearizer']}</code>: {card['env_steps']:,} "
            f"environment steps, {card['minutes']} minutes on one core. {versions}.\n"
        )
    PAGE.write_text("".join(parts))


def _relative(picture: Path) -> str:
    return "../../" + str(picture.relative_to(PAGE.parents[2]))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", help="bundle a run")
    adding.add_argument("run", type=Path)
    adding.add_argument("--limits", required=True, help="what these skills are not good for")
    adding.add_argument("--trajectories", type=int, default=2000)
    commands.add_parser("page", help="write docs/guides/zoo.md from the cards")
    given = parser.parse_args()
    if given.command == "add":
        print(f"written to {add(given.run, given.limits, given.trajectories)}")
    else:
        write_page()


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
