"""Good runs of every kind, trained once and kept; cases work on copies of them."""

import hashlib
import os
import shutil
from pathlib import Path

import ibol
from torture.worker import Job, Worker

RUN = "run"
"""What a case calls the copy that it is about."""
SMALL = (
    "--preset", "smoke", "--epochs", "3", "--checkpoint-minutes", "0", "--keep-checkpoints", "3", "--num-threads", "1",
    "--evaluate-every", "2", "--quiet",
)  # fmt: skip
RUNS: dict[str, tuple[str, ...]] = {
    "linearize": ("linearize", "point"),
    "ibol": ("discover", "point", "--linearizer", "../linearize", "--evaluation-trajectories", "8"),
    "diayn": ("discover", "point", "--method", "diayn", "--evaluation-trajectories", "8"),
    "valor": ("discover", "half_cheetah", "--method", "valor", "--horizon", "20", "--evaluation-trajectories", "8"),
    "sac": ("sac", "point"),
    "gym": ("sac", "Pendulum-v1", "--normalizer-trajectories", "4", "--horizon", "20"),
    "downstream": ("downstream", "point_goal", "--skills", "../ibol"),
    "own": ("sac", "torture_own:make", "--normalizer-trajectories", "4", "--horizon", "20"),
    "planner": ("downstream", "point_goal", "--skills", "../ibol", "--controller", "planner"),
}
"""Runs by the name of their kind; `../` is where the others are."""
FILES = {"linearizer": "linearizer.safetensors", "imitation": "imitation.safetensors", "experiment": "grid.toml"}
"""Lone files by the name of their kind."""
OWN = """
import gymnasium
def make():
    return gymnasium.make("Pendulum-v1")
"""
EXPERIMENT = """
title = "an experiment"
[grid]
figures = ["grid"]
shared = { env = "point", method = "valor", epochs = 1 }
rows = [{ latent_dim = 2 }]
columns = [{ latent_weight = 1.0 }, { latent_weight = 2.0 }]
"""


class Bases:
    """Where the good runs are; those that are missing are made when they are asked for."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / f"bases-{_version()}"
        self.path.mkdir(parents=True, exist_ok=True)

    def make(self, kinds: tuple[str, ...], worker: Worker) -> None:
        """Train what is missing."""
        for kind in kinds:
            if (self.path / kind).exists():
                continue
            needed = {"ibol": "linearize", "downstream": "ibol", "planner": "ibol"}
            needed |= {"linearizer": "ibol", "imitation": "valor"}
            self.make((needed[kind],) if kind in needed else (), worker)
            part = self.path / ".making"
            shutil.rmtree(part, ignore_errors=True)
            (part / "work").mkdir(parents=True)
            for other in RUNS:
                if (self.path / other).exists():
                    os.symlink(self.path / other / RUN, part / other)
            self._make(kind, part / "work", worker)
            os.rename(part / "work", self.path / kind)
            shutil.rmtree(part)

    def _make(self, kind: str, place: Path, worker: Worker) -> None:
        if kind in RUNS:
            (place / "torture_own.py").write_text(OWN)
            _succeed(worker, place, *RUNS[kind], *SMALL, *_length(kind), "--run-dir", RUN)
            trusted = ("--trust-env", RUNS[kind][1])
            _succeed(worker, place, "evaluate", RUN, "--trajectories", "16", "--episodes", "4", "--quiet", *trusted)
        elif kind == "experiment":
            (place / FILES[kind]).write_text(EXPERIMENT)
        elif kind == "linearizer":
            shutil.copyfile(place.parent / "ibol" / FILES[kind], place / FILES[kind])
        elif kind == "imitation":
            _succeed(
                worker, place, "imitation-set", "../valor", "--trajectories", "8", "--quiet", "--output", FILES[kind]
            )

    def newest(self) -> Path:
        """A good checkpoint."""
        return max(self.path.glob(f"*/{RUN}/checkpoints/*.safetensors"))

    def copy(self, kind: str, place: Path) -> Path:
        """A copy of what there is of a kind, in the new directory `place`; returns its run or file."""
        shutil.copytree(self.path / kind, place, symlinks=True)
        return place / (RUN if kind in RUNS else FILES[kind])


def _length(kind: str) -> tuple[str, ...]:
    return ("--iterations", "3") if kind == "planner" else ()


def _succeed(worker: Worker, place: Path, *argv: str) -> None:
    outcome = worker.run(Job(str(place), str(place.parent), argv))
    if outcome.code != 0:
        raise RuntimeError(f"'ibol {' '.join(argv)}' failed: {outcome.err}")


def _version() -> str:
    """The source that made them: another one may write other files."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for file in sorted(Path(ibol.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
