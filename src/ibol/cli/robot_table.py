"""What `ibol envs FILE` says of a robot."""

import numpy as np

from ibol.envs import RobotEnv, find_entry, load_robot, make, sizes
from ibol.envs.own import is_description
from ibol.envs.symmetry import symmetries
from ibol.errors import IbolError
from ibol.export.robots import describe_env
from ibol.learners.rollout import collect
from ibol.linearizer.frame import has_goal_frame
from ibol.robots.own import actuator_name
from ibol.seeding import generator
from ibol.tables.layout import Column, Sheet


def robot_table(source: str) -> Sheet:
    """What was understood of an own robot, or is known of one of ours or Gymnasium's."""
    name = load_robot(source).name if is_description(source) else source
    entry = find_entry(name)
    if entry is None or entry.robot is None:
        raise IbolError(f"{source} is not a robot: give the TOML file of your own, or a name that 'ibol envs' lists")
    robot, env = entry.robot, make(name)
    assert isinstance(env, RobotEnv)
    values = [_value_name(env, number) for number in range(sizes(env)[0])]
    low, high = env.control_range()
    controls = [f"{actuator_name(env.model, i)} {low[i]:g} to {high[i]:g}" for i in range(env.model.nu)]
    turns = len(symmetries(robot, env.model)) if robot.symmetry_generators else 1
    table = Sheet([Column("of the robot", number=False), Column(name, number=False)])
    table.entries.append(("state", {str(number): value for number, value in enumerate(values)}))
    table.entries.append(("actions", {str(number): text for number, text in enumerate(controls)}))
    table.add("sizes", f"{len(values)} values of the state, {len(controls)} actions")
    table.add("step", f"{env.dt:g} s ({robot.frame_skip} of {env.model.opt.timestep:g} s)")
    table.add("episode", f"{env.horizon} steps, {env.horizon * env.dt:g} s")
    table.add("location", ", ".join(values[dim] for dim in robot.location_dims) or _NOWHERE)
    table.add("turns", _ROTATIONS[robot.rotation])
    table.add("seen from the goal", "yes" if has_goal_frame(robot) else "no")
    table.add("symmetries", f"{turns}, with the identity" if turns > 1 else "none but the identity")
    table.add("has fallen", _FALLEN[robot.fallen] + (", which ends episodes" if robot.terminates_when_fallen else ""))
    if robot.healthy:
        kept = [f"{value} from {least:g} to {most:g}" for value, least, most in robot.healthy]
        table.add("episodes end outside of", f"qpos and qvel number {', '.join(kept)}")
    table.add("random actions", _random_actions(name))
    table.add("mass", f"{env.model.body_mass.sum():.3g} kg")
    return table


_EPISODES = 16
_NOWHERE = "nowhere; 'location' names the values of the state that say where it is"
_ROTATIONS = {
    "pitch": "in a vertical plane",
    "quaternion": "in space",
    "angles": "in space, by angles",
    "yaw": "about the vertical",
    "none": "not, as far as is known",
}
_FALLEN = {
    "upside_down": "when it is upside down",
    "lying": "when it has pitched by more than a radian",
    "tipped": "when it has tipped over",
    "never": "never",
}


def _random_actions(name: str) -> str:
    """How far uniform random actions lead: whether the robot can move at all."""
    env = make(name, _EPISODES, autoreset="Disabled")
    if not env.location_dims:
        return "not measured: the robot has no location"
    rng = generator(0, "random actions")
    shape = (_EPISODES, sizes(env)[1])
    episodes = collect(env, lambda states, step: rng.uniform(-1, 1, shape), seed=0)
    places = episodes.states[:, :, list(env.location_dims)]
    ends = places[range(_EPISODES), episodes.lengths]
    away = np.linalg.norm(ends - places[:, 0], axis=1).mean()
    return f"move its location by {away:.2g} in an episode, on average of {_EPISODES}"


def _value_name(env: RobotEnv, number: int) -> str:
    """The name of a value of a robot's state, as exports have it."""
    return str(describe_env(env)["observation"][number]["name"])
