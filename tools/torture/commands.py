"""The campaign of wrong command lines: each is refused in one sentence that names what was wrong."""

import random
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from torture.bases import RUN, Bases
from torture.files import snapshot
from torture.tally import Failure, Tally, common_failures, run_cases, unclear
from torture.worker import Job, Worker

SMOKE = ("--preset", "smoke", "--epochs", "1", "--quiet")
RIGHT: dict[str, tuple[str, ...]] = {
    "linearize": ("linearize", "point", *SMOKE),
    "ibol": ("discover", "point", *SMOKE),
    "diayn": ("discover", "point", "--method", "diayn", *SMOKE),
    "dads": ("discover", "point", "--method", "dads", *SMOKE),
    "valor": ("discover", "point", "--method", "valor", *SMOKE),
    "downstream": ("downstream", "point_goal", "--skills", RUN, *SMOKE),
    "sac": ("sac", "point", *SMOKE),
    "resume": ("resume", RUN, "--quiet"),
    "experiment": ("experiment", "grid.toml", "--preset", "smoke"),
    "paper": ("paper", "--preset", "smoke"),
    "evaluate": ("evaluate", RUN, "--trajectories", "16", "--quiet"),
    "plot": ("plot", RUN, "--trajectories", "16", "--quiet"),
    "video": ("video", RUN, "--steps", "2", "--quiet"),
    "report": ("report", RUN, "--no-films", "--trajectories", "16", "--quiet"),
    "imitation-set": ("imitation-set", RUN, "--trajectories", "8", "--quiet"),
    "normalize": ("normalize", "point", "--trajectories", "2", "--quiet"),
    "envs": ("envs",),
    "presets": ("presets",),
}
"""Command lines that nothing is wrong with, which a wrong flag is added to."""
LONG = "a" * 5000
DEEP = "x/" * 3000 + "x"
TRAIN = ("linearize", "ibol", "diayn", "dads", "valor", "downstream", "sac")

# What goes wrong only with the rest of the line, or where a flag stands: (commands, what is added).
TABLE: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("ibol",), ("--beta", "-1")),
    (("ibol",), ("--alpha", "-0.1")),
    (("ibol",), ("--lambda", "-2")),
    (("ibol", "diayn"), ("--latent-weight", "-1")),
    (("ibol", "valor"), ("--clip", "-1")),
    (("ibol",), ("--concentration", "-1")),
    (TRAIN, ("--epochs", "0")),
    (TRAIN, ("--num-threads", "0")),
    (TRAIN, ("--num-threads", "1000000")),
    (TRAIN, ("--gradient-steps", "0")),
    (TRAIN, ("--hidden",)),
    (TRAIN, ("--hidden", "0")),
    (TRAIN, ("--hidden", "16", "-16")),
    (TRAIN, ("--hidden", "3000000", "3000000")),
    (TRAIN, ("--checkpoint-minutes", "inf")),
    (TRAIN, ("--checkpoint-minutes", "nan")),
    (TRAIN, ("--checkpoint-minutes", "-1")),
    (TRAIN, ("--keep-checkpoints", "0")),
    (TRAIN, ("--learning-rate", "0")),
    (TRAIN, ("--learning-rate", "nan")),
    (TRAIN, ("--final-learning-rate", "2")),
    (TRAIN, ("--horizon", "0")),
    (TRAIN, ("--horizon", "1000000000000")),
    (TRAIN, ("--horizon", "10.5")),
    (TRAIN, ("--seed", "-1")),
    (TRAIN, ("--episodes-per-epoch", "0")),
    (TRAIN, ("--episodes-per-epoch", "1000000000000")),
    (TRAIN, ("--location-dims", "0", "1")),
    (TRAIN, ("--run-dir", "grid.toml")),
    (TRAIN, ("--run-dir", RUN)),
    (TRAIN, ("--run-dir", LONG)),
    (TRAIN, ("--run-dir", DEEP)),
    (TRAIN, ("--run-dir", "grid.toml/x")),
    (TRAIN, ("--run-dir", "/proc/nowhere/x")),
    (TRAIN, ("--preset", "nonsense")),
    (TRAIN, ("--preset", "")),
    (TRAIN, ("--preset", "smo[/]ke")),
    (TRAIN, ("surplus",)),
    (TRAIN, ("--epochs",)),
    (TRAIN, ("--epochs", "1", "2")),
    (TRAIN, ("--nonsense", "1")),
    (TRAIN, ("--nonsense",)),
    (TRAIN, ("--epoch", "3")),
    (TRAIN, ("-x",)),
    (("linearize", "sac", "diayn", "downstream"), ("--replay-size", "100000000000000")),
    (("linearize", "sac", "diayn", "downstream"), ("--batch-size", "1000000000000")),
    (("linearize", "sac", "downstream"), ("--discount", "1.5")),
    (("linearize", "sac", "downstream"), ("--tau", "2")),
    (("linearize", "sac", "downstream"), ("--temperature", "-1")),
    (("linearize",), ("--macro-length", "51")),
    (("linearize",), ("--macro-length", "0")),
    (("linearize",), ("--n-step", "51")),
    (("linearize",), ("--n-step", "0")),
    (("linearize",), ("--relabel", "1.5")),
    (("linearize",), ("--goal-beta", "0")),
    (("linearize",), ("--reward", "euclidean")),
    (("linearize",), ("--frame", "goal")),
    (("linearize",), ("--variant", "nonsense")),
    (("linearize",), ("--normalizer-trajectories", "0")),
    (("ibol",), ("--marginal-steps", "51")),
    (("ibol",), ("--latent-samples", "0")),
    (("ibol",), ("--latent-samples", "1000000000000")),
    (("ibol",), ("--marginal-samples", "1000000000000")),
    (("ibol",), ("--recent-epochs", "0")),
    (("ibol", "diayn"), ("--latent-dim", "0")),
    (("ibol", "diayn"), ("--latent-dim", "1000000000000")),
    (("ibol", "diayn"), ("--evaluation-trajectories", "0")),
    (("ibol", "diayn"), ("--evaluation-trajectories", "1000000000000", "--evaluate-every", "1")),
    (("ibol", "diayn"), ("--linearizer", "nonsense")),
    (("ibol", "diayn"), ("--linearizer", "bundled:99")),
    (("ibol", "diayn"), ("--linearizer", RUN)),
    (("ibol", "diayn"), ("--linearizer", "half_cheetah")),
    (("ibol", "diayn"), ("--linearizer", LONG)),
    (("ibol", "diayn"), ("--linearizer", "a[/b]")),
    (("ibol", "diayn"), ("--distortion", "squeeze_y", "--linearizer", "none")),
    (("ibol",), ("--method", "nonsense")),
    (("ibol",), ("--method", "sac")),
    (("ibol",), ("--method", "../sac")),
    (("ibol",), ("--variant", "nonsense")),
    (("downstream",), ("--l-m", "1000")),
    (("downstream",), ("--l-m", "0")),
    (("downstream",), ("--elites", "7", "--candidates", "6", "--controller", "planner")),
    (("downstream",), ("--elites", "1", "--candidates", "6", "--controller", "planner")),
    (("downstream",), ("--candidates", "1000000000000", "--controller", "planner")),
    (("downstream",), ("--iterations", "0", "--controller", "planner")),
    (("downstream",), ("--skills", "nowhere")),
    (("downstream",), ("--skills", "grid.toml")),
    (("downstream",), ("--skills", "none", "--controller", "planner")),
    (("downstream",), ("--skills", LONG)),
    (("downstream",), ("--skills", "a[/b]")),
    (("downstream",), ("--goal-range", "0")),
    (("downstream",), ("--goal-range", "-3")),
    (("downstream",), ("--goal-range", "nan")),
    (("downstream",), ("--latent-range", "inf")),
    (("downstream",), ("--reward-scale", "0")),
    (("downstream",), ("--imitation-set", "nowhere.safetensors")),
    (("downstream",), ("--evaluation-episodes", "1000000000000")),
    (("resume",), ("--epochs", "0")),
    (("resume",), ("--epochs", "1")),
    (("resume",), ("--checkpoint-minutes", "inf")),
    (("resume",), ("--keep-checkpoints", "0")),
    (("experiment", "paper"), ("--seeds", "0")),
    (("experiment", "paper"), ("--jobs", "0")),
    (("experiment", "paper"), ("--dir", "grid.toml")),
    (("experiment",), ("--dir", LONG)),
    (("experiment", "paper"), ("--preset", "nonsense")),
    (("paper",), ("nonsense",)),
    (("evaluate",), ("--bins", "1")),
    (("evaluate",), ("--bins",)),
    (("evaluate",), ("--bins", "100000000")),
    (("evaluate",), ("--bins", "8", "0")),
    (("evaluate",), ("--trajectories", "0")),
    (("evaluate",), ("--trajectories", "7")),
    (("evaluate",), ("--trajectories", "1000000000000")),
    (("evaluate",), ("--episodes", "0")),
    (("evaluate",), ("--sepin-k", "0")),
    (("evaluate",), ("--sepin-k", "99")),
    (("evaluate",), ("--json", "grid.toml")),
    (("evaluate",), ("--json", RUN)),
    (("evaluate",), ("--json", "nowhere/x.json")),
    (("evaluate",), ("--json", LONG)),
    (("evaluate", "plot", "report", "imitation-set"), ("a[/b]",)),
    (("evaluate", "plot", "report", "imitation-set"), ("",)),
    (("evaluate", "plot", "report", "imitation-set"), (LONG,)),
    (("evaluate", "plot", "report", "imitation-set"), ("\udcff",)),
    (("plot",), ("--figure", "boxes", "--bins", "1")),
    (("plot",), ("--figure", "bins", "--bins")),
    (("plot",), ("--figure", "bins", "--bins", "100000000")),
    (("plot",), ("--figure", "curves", "--metric", "nonsense")),
    (("plot",), ("--figure", "curves", "--metric", "")),
    (("plot",), ("--figure", "nonsense")),
    (("plot",), ("--trajectories", "-3")),
    (("plot",), ("--trajectories", "1000000000000")),
    (("plot",), ("--output", "figure.nonsense")),
    (("plot",), ("--output", "figure")),
    (("plot", "report", "video", "imitation-set"), ("--output", RUN)),
    (("plot", "report", "video", "imitation-set"), ("--output", "nowhere/x.png")),
    (("plot", "report", "video", "imitation-set"), ("--output", LONG)),
    (("plot", "report", "video", "imitation-set"), ("--output", "grid.toml")),
    (("video",), ("--latents", "")),
    (("video",), ("--latents", ";")),
    (("video",), ("--latents", "x,y")),
    (("video",), ("--latents", "1")),
    (("video",), ("--latents", "1,2,3")),
    (("video",), ("--latents", "nan,0")),
    (("video",), ("--latents", "inf,0")),
    (("video",), ("--size", "0")),
    (("video",), ("--size", "-5")),
    (("video",), ("--size", "1000000000")),
    (("video",), ("--frames-per-second", "0")),
    (("video",), ("--frames-per-second", "nan")),
    (("video",), ("--frames-per-second", "-1")),
    (("video",), ("--frames-per-second", "inf")),
    (("video",), ("--steps", "0")),
    (("video",), ("--output", "film.nonsense")),
    (("imitation-set",), ("--trajectories", "0")),
    (("imitation-set",), ("--trajectories", "1000000000000")),
    (("report",), ("--trajectories", "0")),
    (("normalize",), ("--trajectories", "0")),
    (("normalize",), ("--steps", "0")),
    (("normalize",), ("--trajectories", "1.5")),
    (("envs",), ("surplus",)),
    (("presets",), ("nonsense",)),
)

# Whole lines that are wrong from the start.
LINES: tuple[tuple[str, ...], ...] = (
    ("nonsense",), ("",), ("--nonsense",), ("Linearize", "point"), ("linearize point",), ("\udcff",), ("a[/b]",),
    ("linearize",), ("discover",), ("downstream",), ("sac",), ("resume",), ("experiment",), ("evaluate",), ("plot",),
    ("video",), ("report",), ("imitation-set",), ("normalize",),
    *(("sac", env, *SMOKE) for env in ("nonsense", "", "Nonsense-v0", "nonsense:make", "os:nothing", "os:getcwd",
      "os:", ":make", "a[/b]", "point ", LONG, "\udcff", "../point", "CartPole-v1", "-", "ALE/Pong-v5")),
    *(("downstream", task, *SMOKE) for task in ("point", "nonsense", "", "ant", "half_cheetah_imitation", "a[/b]")),
    *(("resume", run) for run in ("nowhere", "", "grid.toml", ".", "/", "/dev/null", LONG, DEEP, "a[/b]", "\udcff")),
    *(("evaluate", run) for run in ("nowhere", "grid.toml", ".", "/", LONG, "[bold]x[/bold]", "half_cheetah")),
    *(("experiment", name) for name in ("nonsense", "", "nowhere.toml", ".", "run", f"{LONG}.toml", "a[/b].toml")),
    *(("video", run) for run in ("nowhere", "", "grid.toml", "half_cheetah:99", "nonsense", "a[/b]", LONG)),
    *(("plot", run) for run in ("nowhere", "grid.toml", "half_cheetah:99", "a[/b]", LONG)),
    *(("report", run) for run in ("nowhere", "grid.toml", "a[/b]", LONG)),
    ("normalize", "nonsense"), ("normalize", "point_goal_nonsense"), ("normalize", "os:getcwd"),
    ("resume", RUN, RUN), ("resume", "--quiet"), ("plot", RUN, "half_cheetah"), ("video", RUN, RUN),
)  # fmt: skip

INTEGERS = ("-1", "1.5", "nan", "inf", "x", "", "9" * 30, "0x10", "1e3", "--", "½")
NUMBERS = ("nan", "inf", "-inf", "x", "", "1e400", "1,5", "--")
NEGATIVE_ALLOWED = ("--target-entropy", "--alive-bonus")
WORDS = ("nonsense", "", LONG, "a[/b]", "\udcff")
ANY_TEXT = ("--trust-env", "--trust-method", "--metric", "--env", "--imitation-set")
"""Flags whose text is judged only where it is used; the table has cases for them."""


class Commands:
    """A campaign."""

    def __init__(self, bases: Bases, scratch: Path, seed: int = 0) -> None:
        self.bases, self.scratch, self.seed = bases, scratch, seed
        self.tally = Tally("commands")
        self.told: dict[int, str] = {}
        self.flags: dict[str, list[tuple[str, str]]] = {}

    def run(self, numbers: range, workers: Sequence[Worker]) -> Tally:
        """All cases."""
        self.bases.make(("ibol", "experiment"), workers[0])
        for name, argv in RIGHT.items():
            self.flags[name] = _flags(workers[0].run(Job("/", str(self.scratch), (*argv, "--help-all"))).out)
        run_cases(self.tally, numbers, workers, self.case)
        return self.tally

    def line(self, number: int) -> tuple[tuple[str, ...], str]:
        """A wrong line, and the flag that is wrong, if it is one: from the tables in turn, and made of all flags."""
        rng = random.Random(f"commands {self.seed} {number}")
        tables = [*((name, (), added) for names, added in TABLE for name in [rng.choice(names)])]
        position = number // 3
        if number % 3 == 0 and position < len(LINES):
            return LINES[position], ""
        if number % 3 == 1 and position < len(tables):
            shuffled = random.Random(f"table {self.seed}").sample(range(len(tables)), len(tables))
            name, _, added = tables[shuffled[position]]
            flag = added[0] if added[0].startswith("--") else ""
            return (*RIGHT[name], *added), flag
        name = rng.choice([name for name, flags in self.flags.items() if flags])
        flag, kind = rng.choice(self.flags[name])
        return (*RIGHT[name], flag, *_nonsense(flag, kind, rng)), flag

    def case(self, number: int, worker: Worker) -> Iterator[Failure]:
        """Say it, and see what it answers and leaves."""
        argv, flag = self.line(number)
        place = Path(tempfile.mkdtemp(prefix=f"command{number}-", dir=self.scratch))
        try:
            work = place / "work"
            self.bases.copy("experiment", work)
            shutil.copytree(self.bases.path / "ibol" / RUN, work / RUN, symlinks=True)
            before = snapshot(work)
            outcome = worker.run(Job(str(work), str(place), argv))
            self.tally.note(outcome)
            what = "ibol " + " ".join(word if len(word) < 80 else f"{word[:10]}..." for word in argv)
            said = outcome.out[-300:] + outcome.err[-3000:]
            self.told[number] = f"{what}\nexit code {outcome.code}\n{said}"
            found = list(common_failures(outcome))
            if not found and outcome.code == 0:
                found.append(("unclear", "it was accepted"))
            elif not found and (wrong := unclear(outcome)):
                found.append(("unclear", wrong))
            elif not found and flag and "╭" not in outcome.err and not _names(argv, flag, outcome.err):
                found.append(("unclear", "the answer names neither the flag nor its value"))
            new = set(snapshot(work)) - set(before) - {f"{RUN}/.lock"}
            if new and outcome.code != 0:
                found.append(("writes outside", f"left behind: {', '.join(sorted(new)[:4])}"))
            for failure, why in found:
                yield Failure(failure, "commands", number, f"{what}: {why}", said)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _flags(help_text: str) -> list[tuple[str, str]]:
    """All flags of a help text, with what it calls their values."""
    found = re.findall(r"^  --(?:\[no-\])?([a-z0-9-]+)(?: ([A-Z]+(?:\.{3})?))?(?:  |$)", help_text, re.M)
    return [(f"--{flag}", kind) for flag, kind in found if f"--{flag}" not in ANY_TEXT]


def _nonsense(flag: str, kind: str, rng: random.Random) -> tuple[str, ...]:
    """Values that this flag cannot have."""
    if kind.startswith("N") and kind != "NAME":
        return (rng.choice(INTEGERS),)
    if kind.startswith("X"):
        return (rng.choice([*NUMBERS, *(() if flag in NEGATIVE_ALLOWED else ("-1",))]),)
    if "PATH" in kind:
        return (rng.choice([LONG, DEEP, "/proc/nowhere/x", "grid.toml/x", "nowhere\udcff/x"]),)
    if not kind:
        return ("maybe",)
    if flag == "--latents":
        return (rng.choice(["", "x", "1", "nan,0", "1e400,0", "0,0;0", LONG]),)
    return (rng.choice([word for word in WORDS if word or flag != "--skills"]),)


def _names(argv: tuple[str, ...], flag: str, said: str) -> bool:
    """Whether an answer says what was wrong: the flag, or a name or path that was given for it."""
    given = [word[:40] for word in argv[argv.index(flag) + 1 :] if len(word) > 2 or not word.isascii()]
    named = [one for one in argv[argv.index(flag) :] if one.startswith("--")]
    written = said.replace("_", "-").replace(" ", "-")
    return any(one.strip("-") in written for one in named) or any(repr(word)[1:-1] in said for word in given)
