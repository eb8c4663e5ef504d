"""The campaign of wrong calls: whatever the Python interface is given, it raises an `IbolError` and nothing else."""

import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from torture.bases import RUN, Bases
from torture.tally import Failure, Tally, common_failures, run_cases, unclear
from torture.worker import Job, Worker

SETUP = """
import gymnasium, ibol, numpy as np
from pathlib import Path
from ibol.evaluation.rollouts import skill_rollouts
from ibol.evaluation.runs import evaluate_runs
from ibol.evaluation.skills import evaluate_skills
from ibol.films.episodes import load_episodes
from ibol.linearizer.env import LinearizedEnv, squeeze_y
from ibol.metrics.coverage import state_coverage, unit_coverage
from ibol.metrics.information import *
from ibol.metrics.information import neighbour_information, corrected_information, mutual_information, quantize
from ibol.metrics.locations import location_spread, mean_distance, nearest_centroid_accuracy, smallest_sector
from ibol.metrics.separability import corrected_separability, neighbour_separability, separability
from ibol.metrics.spread import bootstrap_interval, return_diversity
from ibol.skills.env import SkillEnv
nan, inf = float("nan"), float("inf")
rows, ends, paths = (np.random.default_rng(0).normal(size=s) for s in ((50, 2), (50, 2), (8, 5, 2)))
"""
PARTS = {
    "env": "env = ibol.make('point', 3); env.reset(seed=0)",
    "robot": "robot = ibol.make('half_cheetah', 2); robot.reset(seed=0)",
    "single": "single = gymnasium.make('ibol/Point-v0').unwrapped; single.reset(seed=0)",
    "skills": "skills = ibol.load_skills('run')",
    "linearizer": "linearizer = ibol.load_linearizer('run/linearizer.safetensors')",
    "skill_env": "skill_env = SkillEnv(skills); skill_env.reset(seed=0)",
    "linearized": "linearized = LinearizedEnv(linearizer.make_env(2), linearizer); linearized.reset(seed=0)",
}
"""What a call may use, in this order; made only for the calls that do."""

SIZES = ("0", "-1", "1.5", "2.0", "'3'", "nan", "inf", "True", "10**30", "[2]", "np.array([2])", "{}", "b'2'")
SEEDS = ("-1", "1.5", "'x'", "nan", "True", "[]", "[0]", "object()", "np.array([0.5, 1, 2])")
PATHS = (
    "'nowhere'", "''", "None", "3", "'a' * 5000", "'a/' * 3000", "'a\\0b'", "Path('nowhere')", "b'run'", "[]", "'.'",
    "'/dev/null'", "'run/metrics.jsonl'", "'a[/b]'", "'\\udcff'", "object()",
)  # fmt: skip
BAD_ROWS = (
    "np.zeros((0, 2))", "np.zeros((5, 0))", "np.zeros(5)", "np.full((50, 2), nan)", "np.full((50, 2), inf)", "None",
    "[['a', 'b']]", "[[1, 2], [3]]", "np.zeros((50, 2), complex)", "'rows'", "{}", "np.array(1.0)", "np.float64(1)",
    "np.array([[None, 1]], object)", "np.zeros((50, 2), 'M8[s]')",
)  # fmt: skip
BAD_ACTIONS = (
    "np.zeros((3, 3))", "np.zeros(2)", "np.full((3, 2), nan)", "np.full((3, 2), inf)", "None", "'x'",
    "[[1], [1, 2], [1]]", "np.zeros((3, 2), complex)", "np.zeros((3, 2, 1))", "{}", "[['1', '2']] * 3", "object()",
    "np.zeros((0, 2))",
)  # fmt: skip
BAD_LATENTS = (
    "np.zeros((2, 3))", "np.zeros((2, 1))", "np.zeros(2)", "np.full((2, 2), nan)", "np.full((2, 2), inf)", "None",
    "np.zeros((0, 2))", "[[1, 2], [3]]", "'x'", "{}", "np.zeros((2, 2, 2))", "np.zeros((2, 2), complex)",
)  # fmt: skip
BINS = ("0", "-3", "1.5", "nan", "'8'", "None", "[8]", "10**30")
DRAWS = ("-1", "1.5", "'x'", "nan", "object()")  # seeds of measures that draw
COUNTS = ("0", "-1", "1.5", "10**30", "nan", "'1'", "None", "99")
LIMITS = (
    "(np.zeros(3), None)", "(np.full((2, 2), nan), None)", "(None, np.zeros((3, 2)))", "'x'", "(None,)", "(3, 4)",
    "(np.array([[1, 1], [0, 0]]), None)",
)  # fmt: skip

# A call, where @ is each of these values in turn.
CALLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ibol.make(@)", ("'nonsense'", "''", "None", "3", "'os:nothing'", "'nonsense:make'", "'Nonsense-v0'", "[]",
     "b'point'", "object()", "lambda: None", "'os:'", "':x'", "'a:b:c'", "'\\0'", "'../x:y'",
     "lambda: gymnasium.make('CartPole-v1')", "'CartPole-v1'")),
    ("ibol.make('point', @)", SIZES),
    ("ibol.make('half_cheetah', @)", SIZES),
    ("ibol.make('half_cheetah', 2, @)", tuple(size for size in SIZES)),
    ("ibol.make('Pendulum-v1', @)", SIZES),
    ("ibol.make('point', 3, seed=@)", SEEDS),
    ("ibol.make('ant', 1, horizon=@)", SIZES),
    ("ibol.make('Pendulum-v1', 1, horizon=@)", SIZES),
    ("ibol.make('point', 1, autoreset=@)", ("'x'", "3", "''", "True", "object()")),
    ("ibol.make('point', 1, location_dims=@)", ("(0,)", "0", "'x'")),
    ("ibol.make('Pendulum-v1', 1, location_dims=@)", ("(9,)", "(-1,)", "3", "'x'", "(0.5,)", "(None,)")),
    ("ibol.make('point', **@)", ("{'nonsense': 1}", "{'terminate': True}", "{'goal_range': 1}", "{'processes': True}")),
    ("ibol.make('ant', **@)", ("{'terminate': 3}", "{'end_when_fallen': 'x'}", "{'randomize': True}", "{'x': 1}")),
    ("ibol.make('dkitty', 1, randomize=@)", ("3", "'x'", "[]")),
    ("ibol.make('point_goal', 1, goal_range=@)", ("0", "-1", "nan", "inf", "'x'", "True", "[1]", "1j")),
    ("ibol.make('half_cheetah_imitation', 1, imitation_set=@)", PATHS),
    ("ibol.make('half_cheetah_imitation', 1)@", ("",)),
    ("env.step(@)", BAD_ACTIONS),
    ("env.reset(seed=@)", SEEDS),
    ("env.reset(options=@)", ("{'reset_mask': 3}", "{'reset_mask': np.ones(2, bool)}", "{'reset_mask': np.ones(3)}",
     "3", "'x'", "{'reset_mask': 'x'}", "[1]")),
    ("robot.step(@)", ("np.zeros((2, 5))", "np.zeros(6)", "np.full((2, 6), nan)", "None", "'x'", "np.zeros((3, 6))")),
    ("robot.reset(seed=@)", SEEDS),
    ("ibol.make('point', 1).step(@)", ("np.zeros((1, 2))", "None")),
    ("single.step(@)", ("np.zeros(3)", "np.full(2, nan)", "None", "'x'", "np.zeros((1, 2))", "3.0", "{}")),
    ("single.reset(seed=@)", ("-1", "1.5", "'x'", "nan", "[0]")),
    ("gymnasium.make('ibol/Point-v0', **@)", ("{'horizon': 0}", "{'horizon': 1.5}", "{'nonsense': 1}",
     "{'render_mode': 'x'}", "{'render_mode': 'rgb_array', 'width': -1}", "{'terminate': True}")),
    ("ibol.load_skills(@)", PATHS),
    ("ibol.load_linearizer(@)", (*PATHS, "'ant:99'", "'nonsense'", "'run'", "'half_cheetah:x'")),
    ("ibol.load_agent(@)", PATHS),
    ("ibol.load_skills('run', trust_env=@)", ("3", "None", "[3]", "object()", "b'x'")),
    ("ibol.load_agent('run', trust_env=@)", ("3", "{1: 2}", "[None]")),
    ("ibol.load_agent('run', trust_method=@)", ("3", "{1: 2}", "[None]")),
    ("ibol.load_linearizer('half_cheetah', trust_env=@)", ("3", "[3]")),
    ("skills.sample_latents(@)", SIZES),
    ("skills.sample_latents(2, seed=@)", SEEDS),
    ("skills.rollout(@)", BAD_LATENTS),
    ("skills.rollout(np.zeros((2, 2)), seed=@)", SEEDS),
    ("skills.controller(@)(np.zeros((2, 2)), 0)", BAD_LATENTS),
    ("skills.controller(np.zeros((2, 2)))(@, 0)", BAD_LATENTS),
    ("skills.act(@, np.zeros((2, 2)))", BAD_LATENTS),
    ("skills.act(np.zeros((2, 2)), @)", BAD_LATENTS),
    ("skills.act(np.zeros((2, 2)), np.zeros((2, 2)), seed=@)", SEEDS),
    ("skills.act(np.zeros((2, 2)), np.zeros((2, 2)), step=@)", ("-1", "1.5", "'x'", "nan", "None", "[1]")),
    ("skills.make_env(@)", SIZES),
    ("linearizer.act(@, np.zeros((2, 2)))", BAD_LATENTS),
    ("linearizer.act(np.zeros((2, 2)), @)", BAD_LATENTS),
    ("linearizer.rollout(@)", BAD_LATENTS),
    ("linearizer.rollout(np.zeros((2, 2)), seed=@)", SEEDS),
    ("linearizer.make_env(@)", SIZES),
    ("SkillEnv(@)", (*PATHS, "linearizer")),
    ("SkillEnv(skills, hold=@)", SIZES),
    ("SkillEnv(skills, render_mode=@)", ("'x'", "'human'", "3", "''")),
    ("SkillEnv(skills).step(@)", ("np.zeros(2)",)),
    ("skill_env.step(@)", ("np.zeros(3)", "np.zeros((1, 2))", "np.full(2, nan)", "None", "'x'", "3.0", "{}")),
    ("skill_env.reset(seed=@)", ("-1", "1.5", "'x'", "nan", "[0]", "True")),
    ("LinearizedEnv(linearizer.make_env(2), linearizer, goal_dims=@)", ("[]", "[9]", "[-1]", "3", "'x'", "[0.5]",
     "[None]", "[nan]")),
    ("LinearizedEnv(ibol.make('ant', 1), linearizer)@", ("",)),
    ("LinearizedEnv(ibol.make('point', 1), linearizer)@", ("",)),
    ("linearized.step(@)", BAD_LATENTS),
    ("LinearizedEnv(linearizer.make_env(2), linearizer).step(@)", ("np.zeros((2, 2))",)),
    ("squeeze_y(@)", ("np.zeros((2, 1))", "np.zeros(2)", "None", "'x'", "np.full((2, 2), nan)")),
    ("mutual_information(@, ends)", BAD_ROWS),
    ("mutual_information(rows, @)", (*BAD_ROWS, "ends[:9]")),
    ("mutual_information(rows, ends, bins=@)", BINS),
    ("mutual_information(rows, ends, limits=@)", LIMITS),
    ("corrected_information(@, ends)", BAD_ROWS),
    ("corrected_information(rows, ends, shuffles=@)", COUNTS[:-1]),
    ("corrected_information(rows, ends, seed=@)", DRAWS),
    ("neighbour_information(@, ends)", BAD_ROWS),
    ("neighbour_information(rows, ends, neighbours=@)", COUNTS),
    ("quantize(@, 8)", BAD_ROWS),
    ("quantize(rows, @)", BINS),
    ("pooled_limits(@)", ("[]", "[np.zeros((0, 2))]", "None", "[rows, np.zeros((5, 3))]", "[np.full((5, 2), nan)]",
     "'x'", "[['a']]", "3")),
    ("separability(@, ends)", BAD_ROWS),
    ("separability(rows, ends, k=@)", COUNTS),
    ("separability(rows, ends, bins=@)", BINS),
    ("separability(rows, ends, limits=@)", LIMITS),
    ("corrected_separability(rows, @)", BAD_ROWS),
    ("corrected_separability(rows, ends, shuffles=@)", COUNTS[:-1]),
    ("neighbour_separability(rows, @)", BAD_ROWS),
    ("neighbour_separability(rows, ends, neighbours=@)", COUNTS),
    ("state_coverage(@)", ("np.zeros((0, 5, 2))", "np.full((8, 5, 2), nan)", "None", "'x'", "np.zeros((8, 5, 0))", "[]",
     "np.array(1.0)", "[[['a']]]", "{}")),
    ("unit_coverage(@)", ("np.zeros((0, 5, 2))", "np.full((8, 5, 2), nan)", "None", "'x'", "[]")),
    ("state_coverage(paths, @)", ("np.zeros(3)", "np.full((2, 2), nan)", "'x'", "np.zeros((2, 3))", "3", "[]")),
    ("nearest_centroid_accuracy(@)", ("np.zeros((3, 1, 2))", "np.zeros((0, 3, 2))", "rows", "np.full((3, 4, 2), nan)",
     "None", "'x'", "np.zeros((3, 0, 2))", "np.zeros((3, 4, 0))")),
    ("smallest_sector(@)", (*BAD_ROWS, "np.zeros((5, 1))")),
    ("smallest_sector(rows, sectors=@)", COUNTS[:-1]),
    ("mean_distance(@, ends)", (*BAD_ROWS, "rows[:9]", "np.zeros((50, 3))")),
    ("location_spread(@)", BAD_ROWS),
    ("return_diversity(@)", ("np.zeros(0)", "np.full(5, nan)", "None", "'x'", "np.zeros((2, 2, 0))", "['a']", "{}")),
    ("bootstrap_interval(@)", ("[]", "[nan]", "[inf, 1]", "None", "'x'", "[[1, 2]]", "['a']", "3", "{}", "[None]")),
    ("bootstrap_interval([1.0, 2.0], level=@)", ("2", "-1", "nan", "'x'", "None")),
    ("bootstrap_interval([1.0, 2.0], resamples=@)", ("0", "-1", "1.5", "10**30", "'x'", "nan")),
    ("bootstrap_interval([1.0, 2.0], seed=@)", DRAWS),
    ("evaluate_runs(@)", ("[]", "[Path('nowhere')]", "[Path('.')]", "[Path('a' * 5000)]")),
    ("evaluate_runs([Path('run')], quiet=True, trajectories=@)", ("0", "7", "-1", "1.5", "10**30", "'16'", "nan")),
    ("evaluate_runs([Path('run')], quiet=True, trajectories=16, bins=@)", ("(0,)", "()", "(1.5,)", "8", "'x'")),
    ("evaluate_runs([Path('run')], quiet=True, trajectories=16, k=@)", COUNTS),
    ("evaluate_runs([Path('run')], quiet=True, trajectories=16, seed=@)", SEEDS),
    ("evaluate_skills([Path('run')], quiet=True, trajectories=@)", ("0", "7", "-1", "1.5", "10**30")),
    ("skill_rollouts(Path('run'), trajectories=@)", SIZES),
    ("skill_rollouts(Path('run'), trajectories=16, which=@)", ("'x'", "''", "None", "3")),
    ("skill_rollouts(Path('run'), trajectories=16, policy=@)", ("'x'", "''", "None", "3", "'../x'")),
    ("skill_rollouts(Path('run'), trajectories=16, state_dims=@)", ("(9,)", "(-1,)", "()", "(0.5,)", "3", "'x'")),
    ("skill_rollouts(Path('run'), trajectories=16, seed=@)", SEEDS),
    ("load_episodes('run', @, seed=0)", ("''", "'x'", "'1'", "'nan,0'", "'1,2,3'", "';'", "'1e400,0'")),
    ("load_episodes('run', steps=@)", ("0", "-1", "1.5", "'x'")),
)  # fmt: skip


class Calls:
    """A campaign."""

    def __init__(self, bases: Bases, scratch: Path, seed: int = 0) -> None:
        self.bases, self.scratch, self.seed = bases, scratch, seed
        self.tally = Tally("calls")
        self.told: dict[int, str] = {}
        calls = [call.replace("@", value) for call, values in CALLS for value in values]
        self.calls = random.Random(f"calls {seed}").sample(calls, len(calls))

    def run(self, numbers: range, workers: Sequence[Worker]) -> Tally:
        """All cases."""
        self.bases.make(("ibol",), workers[0])
        run_cases(self.tally, numbers, workers, self.case)
        return self.tally

    def case(self, number: int, worker: Worker) -> Iterator[Failure]:
        """Call it."""
        call = self.calls[number % len(self.calls)]
        place = Path(tempfile.mkdtemp(prefix=f"call{number}-", dir=self.scratch))
        try:
            (place / "work").mkdir()
            shutil.copytree(self.bases.path / "ibol" / RUN, place / "work" / RUN, symlinks=True)
            outcome = worker.run(Job(str(place / "work"), str(place), code=program(call)))
            self.tally.note(outcome)
            self.told[number] = f"{call}\nexit code {outcome.code}\n{outcome.err[-3000:]}"
            found = list(common_failures(outcome))
            if not found and outcome.code == 0:
                found.append(("unclear", "it was accepted"))
            elif not found and (wrong := unclear(outcome)):
                found.append(("unclear", wrong))
            for failure, why in found:
                yield Failure(failure, "calls", number, f"{call}: {why}", outcome.err[-3000:])
        finally:
            shutil.rmtree(place, ignore_errors=True)


def program(call: str) -> str:
    """The call with all that it uses."""
    parts = {name for name in PARTS if name in call.replace("skill_env", "skill_env skills")}
    if "linearized" in parts:
        parts.add("linearizer")
    return SETUP + "\n".join(text for name, text in PARTS.items() if name in parts) + f"\n{call}\n"
