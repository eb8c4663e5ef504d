"""Stable-Baselines3 learns on SkillEnv. As that needs torch, it gets an environment of its own, kept between tests."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import ibol

ROOT = Path(__file__).parents[1]
PACKAGES = ("torch==2.13.0", "stable-baselines3>=2.6")
CUDA = ("nvidia", "triton", "cuda")  # packages of gigabytes, which torch brings along where it is not the CPU's build
SECONDS = 600  # of an installation

LEARN = """
import json, runpy, sys, warnings
import numpy as np
from stable_baselines3.common.env_checker import check_env
from ibol.skills.env import SkillEnv

example, run, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
warnings.filterwarnings("error", module="stable_baselines3.common.env_checker")
warnings.filterwarnings("ignore", "We recommend you to use a symmetric and normalized Box")  # SAC scales actions itself
env = SkillEnv(run, hold=5)
check_env(env)
model = runpy.run_path(example)["train"](run, steps)

def returned(choose):
    total, ended = 0.0, False
    observation, _ = env.reset(seed=1)
    while not ended:
        action = choose(observation)
        assert env.action_space.contains(action), action
        observation, reward, terminated, truncated, _ = env.step(action)
        total, ended = total + reward, terminated or truncated
    return total

env.action_space.seed(0)
print(json.dumps({
    "steps": model.num_timesteps,
    "learned": returned(lambda observation: model.predict(observation, deterministic=True)[0]),
    "random": np.mean([returned(lambda observation: env.action_space.sample()) for _ in range(20)]),
}))
"""


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with torch and Stable-Baselines3 that has all of our packages, too."""
    place = ROOT / ".pytest_cache" / f"stable-baselines3-{sys.version_info.major}.{sys.version_info.minor}"
    place.parent.mkdir(exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            install(place, tmp_path_factory.mktemp("pip"))
            (place / "complete").touch()
    return place / "bin" / "python"


def install(place: Path, scratch: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (site,) = place.glob("lib/python*/site-packages")
    ours = sysconfig.get_paths()["purelib"]
    (site / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    report = json.loads(pip(place, scratch, "--dry-run", "--report", "-"))
    found = [entry["metadata"]["name"].lower() for entry in report["install"]]
    large = [name for name in found if name.startswith(CUDA)]
    if large:
        pytest.skip(f"torch would bring {len(large)} packages of CUDA along ({large[0]}, ...)")
    pip(place, scratch, "--no-compile")


def pip(place: Path, scratch: Path, *flags: str) -> str:
    command = [sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "--quiet", *flags]
    try:
        done = subprocess.run(
            [*command, "--disable-pip-version-check", *PACKAGES],
            capture_output=True, text=True, timeout=SECONDS, env={**os.environ, "TMPDIR": str(scratch)},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip(f"{' '.join(PACKAGES)} were not installed within {SECONDS} seconds")
    if done.returncode != 0:
        reason = (done.stderr.strip() or "pip said nothing").splitlines()[-1]
        pytest.skip(f"{' '.join(PACKAGES)} cannot be installed here: {reason}")
    return done.stdout


@pytest.mark.slow
def test_it_learns_which_skills_pay(python: Path) -> None:
    example = ROOT / "examples" / "skills_with_stable_baselines3.py"
    # One thread: more of them wait for each other where tests run side by side.
    env = {**os.environ, "PYTHONPATH": str(Path(ibol.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [python, "-c", LEARN, str(example), "point", "300"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["steps"] == 300
    assert result["learned"] > result["random"] + 0.5  # metres along x; random skills go anywhere
