"""What `ibol export` writes: networks in one of several formats, `skills.json` beside them, and the robot's model.

A new format is one more entry of `FORMATS`. The metrics of any run are written as a table (`csv`).
"""

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ibol import zoo
from ibol.bounds import path
from ibol.errors import IbolError, unknown
from ibol.export import onnx_graphs
from ibol.export.robots import describe_env, model_files
from ibol.linearizer.policy import BUNDLED_PREFIX, Linearizer, bundled, bundled_file, load_named, provenance_of
from ibol.report.tables import command_line
from ibol.runs import files
from ibol.runs.directory import RunDirectory, versions
from ibol.skills import numpy_policy
from ibol.skills.latents import LATENT_RANGE
from ibol.skills.policy import LINEARIZER_FILE, Skills
from ibol.skills.portable import portable
from ibol.training.launch import open_run

DESCRIPTION_FILE = "skills.json"
METRICS, METRICS_FILE = "csv", "metrics.csv"
FORMAT = 1
"""Of `skills.json`; a change that readers have to know of is a new number."""
_MOST_JSON = 10_000_000

Content = dict[str, bytes]


@dataclass(frozen=True)
class Format:
    """A way to write networks."""

    summary: str
    write: Callable[[Mapping[str, Any]], tuple[Content, dict[str, Any]]]
    """Files by name, and further entries of `skills.json`, from what `portable` gives."""


def export_agent(
    source: str | Path, directory: str | Path, form: str = "onnx", *, overwrite: bool = False
) -> list[str]:
    """Write the skills or the linearizer of a run, or bundled ones by name, or the metrics of any run (`csv`); returns
    the names of the files.

    The directory is made if there is none. One that is not empty is refused without `overwrite`; with it, files of an
    earlier export are replaced and all others stay.
    """
    if form not in (*FORMATS, METRICS):
        raise unknown("format", str(form), [*FORMATS, METRICS])
    place = path("directory", directory)
    check_directory(place, overwrite=overwrite)
    if form == METRICS:
        table = metrics_table(RunDirectory.open(path("run", source)))
        files.replace_bytes(files.inside(files.folder(place), METRICS_FILE), table.encode())
        return [METRICS_FILE]
    agent = load_named(source)
    if not isinstance(agent, Skills | Linearizer):
        raise IbolError(f"{source} is a {agent.kind}: only skills and linearizers can be exported")
    content = content_of(agent, form, provenance(source))
    _write(place, content)
    return list(content)


def metrics_table(run: RunDirectory) -> str:
    """The metrics of a run as CSV: a row for each epoch, a column for all that any epoch has, in their order."""
    rows = run.metrics()
    if not rows:
        raise IbolError(f"{run.path} has no metrics yet: there is no epoch in its metrics.jsonl")
    columns = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def content_of(agent: Skills | Linearizer, form: str, made_by: Mapping[str, Any]) -> Content:
    """The files of an export by their names; `made_by` is what `skills.json` says of how the agent came to be."""
    made = portable(agent)
    networks, further = FORMATS[form].write(made)
    env = agent.make_env(1)
    content = {**networks, **model_files(env)}
    description = {**_describe(agent, made), **describe_env(env), **further, "provenance": made_by}
    env.close()
    description["files"] = [*content, DESCRIPTION_FILE]
    # Last, so that what it lists is there.
    return {**content, DESCRIPTION_FILE: (readable(description) + "\n").encode()}


def check_directory(place: Path, *, overwrite: bool) -> None:
    """Refuse a place where something would be lost or mixed up; before the work, not after it."""
    if place.exists() and not place.is_dir():
        raise IbolError(f"{place} is a file: choose another directory (--output)")
    if place.is_dir() and any(place.iterdir()) and not overwrite:
        raise IbolError(f"{place} is not empty: choose another directory (--output), or write there with --overwrite")


def provenance(source: str | Path) -> dict[str, Any]:
    """How skills or a linearizer came to be: command, seed and versions, and the version that exports them."""
    if str(source).startswith(BUNDLED_PREFIX):
        made = provenance_of(bundled_file(str(source)))
        known = {name: made.get(name) for name in ("command", "seed", "versions")}
    else:
        run = open_run(path("run", source))
        known = {"command": command_line(run), "seed": run.config["seed"], "versions": run.config.get("versions")}
        if (run.path / LINEARIZER_FILE).exists():
            known["linearizer"] = _linearizer(provenance_of(run.path / LINEARIZER_FILE))
        if zoo.is_bundled(run.path):
            known["bundled"] = zoo.label(run.path)
    return {**known, "exported_by": f"ibol {versions()['ibol']}"}


def _linearizer(made: Mapping[str, Any]) -> dict[str, Any]:
    """How the linearizer below skills came to be: the name of a bundled one, or preset and seed, without paths."""
    source = str(made.get("source", ""))
    if source.removeprefix(BUNDLED_PREFIX).partition(":")[0] in bundled():
        return {"bundled": source}
    return {name: made[name] for name in ("command", "preset", "seed") if name in made}


def _describe(agent: Skills | Linearizer, made: Mapping[str, Any]) -> dict[str, Any]:
    """What `skills.json` says of skills in any environment."""
    linearizer = made["linearizer"]
    latent = None
    if isinstance(agent, Skills):
        ranges = {"gaussian": [-LATENT_RANGE, LATENT_RANGE], "one_hot": [0.0, 1.0], "sphere": [-1.0, 1.0]}
        latent = {**made["latent"], "range": ranges[agent.prior.name]}
    return {
        "format": FORMAT,
        "kind": made["kind"],
        "env": made["env"],
        "macro_length": made["macro_length"],
        "latent": latent,
        "goal": None if linearizer is None else {"dim": linearizer["goal_dim"], "range": [-1.0, 1.0]},
        "action_range": [-1.0, 1.0],
        "location": made["location_dims"],
    }


def _onnx_files(made: Mapping[str, Any]) -> tuple[Content, dict[str, Any]]:
    content: Content = {}
    graphs: dict[str, Any] = {"skill_policy": None, "linearizer": None}
    observation = {"observation": ["batch", made["state_dim"]]}
    if made["skill_policy"] is not None:
        name, size = onnx_graphs.skill_policy_output(made)
        content["skill_policy.onnx"] = onnx_graphs.skill_policy_graph(made)
        inputs = {**observation, "latent": ["batch", made["latent"]["dim"]]}
        graphs["skill_policy"] = {"file": "skill_policy.onnx", "inputs": inputs, "output": {name: ["batch", size]}}
    if made["linearizer"] is not None:
        content["linearizer.onnx"] = onnx_graphs.linearizer_graph(made)
        inputs = {**observation, "goal": ["batch", made["linearizer"]["goal_dim"]]}
        output = {"action": ["batch", made["action_dim"]]}
        graphs["linearizer"] = {"file": "linearizer.onnx", "inputs": inputs, "output": output}
    return content, {"graphs": graphs}


def _npz_files(made: Mapping[str, Any]) -> tuple[Content, dict[str, Any]]:
    """Arrays in `skills.npz`, all else in `skills.json`, and the NumPy code that uses both."""
    arrays: dict[str, Any] = {}
    networks = {name: _without_arrays(made[name], name, arrays) for name in ("skill_policy", "linearizer")}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    code = Path(numpy_policy.__file__).read_bytes()
    return {"skills.npz": buffer.getvalue(), "numpy_policy.py": code}, {"networks": networks}


def _without_arrays(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """JSON values as they are; arrays go to `arrays`, named by their path, such as `linearizer/layers/0/weight`."""
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, entry in value.items():
        place = f"{name}/{key}"
        if isinstance(entry, np.ndarray):
            arrays[place] = entry
        elif isinstance(entry, list) and entry and isinstance(entry[0], dict):
            for number, one in enumerate(entry):
                _without_arrays(one, f"{place}/{number}", arrays)
        else:
            kept[key] = _without_arrays(entry, place, arrays)
    return kept


FORMATS = {
    "onnx": Format("graphs for ONNX runtimes", _onnx_files),
    "npz": Format("arrays and the few lines of NumPy that use them", _npz_files),
}


def readable(value: Any, indent: str = "") -> str:
    """JSON with a line for each entry of an object and for each object of a list, but lists of numbers in one line."""
    further = indent + "  "
    if isinstance(value, dict) and any(isinstance(entry, dict | list) for entry in value.values()):
        lines = [f"{further}{json.dumps(key)}: {readable(entry, further)}" for key, entry in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return "[\n" + ",\n".join(f"{further}{json.dumps(entry)}" for entry in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def _write(place: Path, content: Content) -> None:
    """Each file is there as a whole or not at all; of an earlier export go those that this one does not have."""
    place.mkdir(parents=True, exist_ok=True)
    for name in _earlier(place) - set(content):
        files.inside(place, name).unlink(missing_ok=True)
    for name, held in content.items():
        files.replace_bytes(files.inside(place, name), held)


def _earlier(place: Path) -> set[str]:
    """The files of an earlier export into this directory: only names that we give, whatever is written there."""
    try:
        listed = json.loads(files.read(place / DESCRIPTION_FILE, _MOST_JSON))["files"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, IbolError):
        return set()
    ours = {"skill_policy.onnx", "linearizer.onnx", "skills.npz", "numpy_policy.py", "robot.xml"}
    return ours & {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
