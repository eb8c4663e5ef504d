"""Physics throughput, side by side in one run: our vector env, raw `mujoco.batch`, EnvPool and Gymnasium.

Random actions, observations, rewards and resets included (except for raw stepping, which is physics alone). Raw
D'Kitties all have the same dynamics, ours draw them anew for every episode; it has no contestants from elsewhere.
They step in turn (`turns.py`); rates are medians over the rounds, ratios medians of the rounds' ratios.

    pip install 'ibol[benchmarks]'
    python benchmarks/physics.py --json benchmarks/results/physics.json
"""

import argparse
import warnings

import gymnasium
import mujoco
import numpy as np
from mujoco.batch import Batch

import ibol
from ibol.envs import ROBOTS
from ibol.envs.dkitty import draw_dynamics, working_range
from ibol.envs.robots import load_model
from report import write_json
from turns import Step, compared, rates_in_turn

GYM_IDS = {"ant": "Ant-v5", "half_cheetah": "HalfCheetah-v5", "hopper": "Hopper-v5", "humanoid": "Humanoid-v5"}
ENVPOOL_IDS = {name: gym_id.replace("v5", "v4") for name, gym_id in GYM_IDS.items()}
# The paper's Ant and Hopper never terminate; the others' must not either, to be in comparable states.
UNENDING = {robot: {"terminate_when_unhealthy": False} for robot in ("ant", "hopper")}


def ours(robot: str, num_envs: int, workers: int, actions: np.ndarray) -> Step:
    env = ibol.make(robot, num_envs, workers)
    env.reset(seed=0)
    return lambda t: env.step(actions[t])


def raw(robot: str, num_envs: int, workers: int, actions: np.ndarray) -> Step:
    model = load_model(ROBOTS[robot])
    batch = Batch(model, num_envs, workers)
    ctrl, scale = batch.bind("ctrl"), model.actuator_ctrlrange[:, 1]
    steps = 0

    def step(t: int) -> None:
        nonlocal steps
        # Episodes as long as ours, so that the robots are in comparable states.
        if steps % ROBOTS[robot].horizon == 0:
            batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        ctrl[:] = actions[t] * scale
        batch.step(nstep=ROBOTS[robot].frame_skip)
        steps += 1

    return step


def raw_dkitty(robot: str, num_envs: int, workers: int, actions: np.ndarray) -> Step:
    model = load_model(ROBOTS[robot])
    draw_dynamics(model, load_model(ROBOTS[robot]), np.random.default_rng(0), mujoco.MjData(model))
    batch = Batch(model, num_envs, workers)
    ctrl, qpos, (low, high) = batch.bind("ctrl"), batch.bind("qpos"), working_range()
    targets, ahead = low + (actions + 1) / 2 * (high - low), 0.1 * np.pi

    def step(t: int) -> None:
        ctrl[:] = np.clip(targets[t], qpos[:, 6:] - ahead, qpos[:, 6:] + ahead)
        batch.step(nstep=ROBOTS[robot].frame_skip)
        # Robots that have tipped over cost more, and ours end there.
        tipped = np.flatnonzero(np.cos(qpos[:, 3]) * np.cos(qpos[:, 4]) < 0.95)
        batch.reset(tipped, stage=mujoco.mjtStage.mjSTAGE_NONE.value)

    return step


def envpool(robot: str, num_envs: int, workers: int, actions: np.ndarray) -> Step:
    import envpool

    limits = {"max_episode_steps": ROBOTS[robot].horizon, **UNENDING.get(robot, {})}
    env = envpool.make_gymnasium(ENVPOOL_IDS[robot], num_envs=num_envs, num_threads=workers, **limits)
    env.reset()
    scale = env.action_space.high
    return lambda t: env.step(actions[t].astype(env.action_space.dtype) * scale)


def gymnasium_async(robot: str, num_envs: int, workers: int, actions: np.ndarray) -> Step:
    # One environment for each worker process: more processes than cores only add switching.
    limits = {"max_episode_steps": ROBOTS[robot].horizon, **UNENDING.get(robot, {})}
    env = gymnasium.vector.AsyncVectorEnv([lambda: gymnasium.make(GYM_IDS[robot], **limits)] * workers)
    env.reset()
    scale = env.single_action_space.high
    return lambda t: env.step(actions[t, :workers].astype(np.float32) * scale)


def measure(robot: str, num_envs: int, workers: int, rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    action_dim = load_model(ROBOTS[robot]).nu
    actions = np.random.default_rng(0).uniform(-1, 1, (1000, num_envs, action_dim))
    contestants = {"ours": ours, "raw": raw, "envpool": envpool, "gymnasium": gymnasium_async}
    if robot not in GYM_IDS:
        contestants = {"ours": ours, "raw": raw_dkitty}
    steppers = {
        name: (workers if name == "gymnasium" else num_envs, make(robot, num_envs, workers, actions))
        for name, make in contestants.items()
    }
    return compared(rates_in_turn(steppers, rounds, seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=["ant", "half_cheetah", "dkitty"], choices=list(ROBOTS))
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2, help="threads, or processes for Gymnasium")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each contestant in each round")
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    results = {}
    for robot in args.robots:
        results[robot] = measure(robot, args.num_envs, args.workers, args.rounds, args.seconds)
        print(f"{robot}, {args.num_envs} environments, {args.workers} workers")
        for name, row in results[robot].items():
            print(f"  {name:10s} {row['steps_per_second']:9.0f} steps/s   ours is {row['ours_over_it']:.2f} times it")
    if args.json:
        settings = {name: value for name, value in vars(args).items() if name != "json"}
        write_json(args.json, settings, ("ibol", "mujoco", "gymnasium", "envpool", "numpy"), results)


if __name__ == "__main__":
    main()
