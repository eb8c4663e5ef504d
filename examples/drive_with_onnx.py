"""Drive a robot by exported skills, with onnxruntime and mujoco alone: neither ibol nor JAX is needed.

pip install mujoco onnxruntime
ibol export ant --format onnx --output exported
python examples/drive_with_onnx.py exported 1.5 0     # the skill's latent, or a linearizer's goal (its other values: 0)
"""

import json
import sys
from pathlib import Path

import mujoco
import numpy as np
import onnxruntime


def drive(folder: str, *asked: float) -> np.ndarray:
    """Where the robot is after each step of an episode, (steps + 1, location)."""
    about = json.loads(Path(folder, "skills.json").read_text())
    exists = [name for name, graph in about["graphs"].items() if graph is not None]
    graphs = {name: onnxruntime.InferenceSession(Path(folder, f"{name}.onnx")) for name in exists}
    model = mujoco.MjModel.from_xml_path(f"{folder}/robot.xml")
    if about["model"]["total_mass"] is not None:
        mujoco.mj_setTotalmass(model, about["model"]["total_mass"])
        mujoco.mj_setConst(model, mujoco.MjData(model))
    data, action, path = mujoco.MjData(model), np.zeros(model.nu), []
    low, high = np.array([entry["control"] for entry in about["action"]]).T
    joints, lead = ([entry[name] for entry in about["action"]] for name in ("qpos", "max_lead"))
    given = np.zeros((1, (about["latent"] or about["goal"])["dim"]), np.float32)
    given[0, : len(asked)] = asked
    answer = given
    for step in range(about["episode"]["steps"] + 1):
        upright = [np.cos(data.qpos[3]) * np.cos(data.qpos[4])]  # D'Kitty's; only it has angles there
        source = {"qpos": data.qpos, "qvel": data.qvel, "action": action, "upright": upright}
        values = [source[entry["from"]][entry["index"]] for entry in about["observation"]]
        limits = [entry.get("clip", np.inf) for entry in about["observation"]]
        observation = np.clip(values, np.negative(limits), limits).astype(np.float32)[None]
        path.append(observation[0, about["location"]])
        if any(not least <= observation[0, entry] <= most for entry, least, most in about["episode"]["ends_outside"]):
            break
        if "skill_policy" in graphs and step % about["macro_length"] == 0:
            (answer,) = graphs["skill_policy"].run(None, {"observation": observation, "latent": given})
        action = answer[0]  # a goal, held for a macro step, if there is a linearizer
        if "linearizer" in graphs:
            action = graphs["linearizer"].run(None, {"observation": observation, "goal": answer})[0][0]
        data.ctrl = low + (high - low) * (action + 1) / 2
        if None not in lead:  # D'Kitty's servos: a target runs ahead of its joint by no more than this
            data.ctrl = np.clip(data.ctrl, data.qpos[joints] - lead, data.qpos[joints] + lead)
        mujoco.mj_step(model, data, about["clock"]["frame_skip"])
    return np.array(path)


if __name__ == "__main__":
    path = drive(sys.argv[1], *map(float, sys.argv[2:]))
    print(f"after {len(path) - 1} steps at {', '.join(f'{value:.2f}' for value in path[-1])} m")
