"""Which runs belong together: those in which everything that was set is the same but for seeds.

Seeds are the run's own, that of the linearizer below its skills, and that of the skills below a controller.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibol.downstream.hierarchy import SET_COPY, SKILLS_COPY
from ibol.envs import ENVS
from ibol.errors import IbolError
from ibol.linearizer.policy import describe, provenance_of
from ibol.runs import checkpoint
from ibol.runs.directory import RunDirectory
from ibol.skills.policy import LINEARIZER_FILE
from ibol.training.launch import find, open_run

Identity = dict[str, Any]
_WATCHED = ("evaluate_every", "evaluation_trajectories", "evaluation_episodes", "num_threads")
"""Settings that change what is measured of a run and how fast, but not what it learns."""
_SEES = {"no_location": "no location", "location": "only the location"}


@dataclass(frozen=True)
class Group:
    """Runs of one setting in one environment."""

    env: str
    label: str
    """The method, and what differs from other groups of the same method: for display only."""
    runs: tuple[RunDirectory, ...]

    @property
    def preset(self) -> str:
        """The preset of all of them."""
        return str(self.runs[0].config["preset"])

    @property
    def seeds(self) -> list[int]:
        """Their seeds, each once."""
        return sorted({run.config["seed"] for run in self.runs})


def group_runs(paths: Sequence[Path]) -> list[Group]:
    """The runs in groups, in the order in which they were given; no two groups of an environment share a label."""
    members: dict[str, list[RunDirectory]] = {}
    identities: dict[str, Identity] = {}
    names: dict[str, tuple[str, str]] = {}
    for path in paths:
        run = open_run(path)
        identity = identity_of(run)
        key = json.dumps([run.config["env"], identity], sort_keys=True)
        members.setdefault(key, []).append(run)
        identities[key], names[key] = identity, (run.config["env"], method_name(run))
    groups = []
    for key, runs in members.items():
        rivals = [identities[other] for other in members if names[other] == names[key]]
        env, name = names[key]
        groups.append(Group(env, " ".join([name, *_differences(identities[key], rivals)]), tuple(runs)))
    return groups


def identity_of(run: RunDirectory) -> Identity:
    """Everything that was set and changes what a run learns, by name; `skills X` and `linearizer X` are those below."""
    config = run.config
    identity = {"method": run.method, "preset": config["preset"]}
    identity |= _counted(config["settings"]) | _counted(config["env_settings"])
    if run.command == "discover":
        identity |= _below("linearizer", *_linearizer(run))
    if run.command == "downstream":
        identity["imitation_set"] = _imitation_set(run)
        if identity["skills"] != "none":
            skills = identity_of(open_run(run.path / SKILLS_COPY))
            identity |= _below("skills", skills["method"], skills)
    return identity


def method_name(run: RunDirectory) -> str:
    """The method as the paper writes it: -L on a linearizer (IBOL always is), -XY if encoders see locations only.

    A downstream run is called after the method whose skills it uses.
    """
    settings = run.config["settings"]
    if run.command == "downstream":
        if settings["skills"] == "none":
            return "SAC"
        chosen = method_name(open_run(run.path / SKILLS_COPY))
        return chosen if settings["controller"] == "sac" else f"{chosen} planner"
    if run.command != "discover":
        return find(run.method).title
    name, linearized = find(run.method).title, settings["linearizer"] != "none"
    if run.method != "ibol":
        name += "-L" if linearized else ""
    elif not linearized and not _moves_by_itself(run.config["env"]):
        name += " without linearizer"
    if run.config.get("skills", {}).get("location_dims") == []:
        return name  # there is nothing that some do not see
    return name + _views(settings["encoder_sees"], settings["policy_sees"])


def _moves_by_itself(env: str) -> bool:
    """Whether it is no robot of ours, so that IBOL without a linearizer is the paper's there: the point."""
    return env in ENVS and ENVS[env].robot is None


def only_env(groups: Sequence[Group]) -> str:
    """The environment of all groups, which must be one."""
    envs = envs_of(groups)
    if len(envs) != 1:
        raise IbolError(f"these runs are from {', '.join(envs)}, but this figure compares runs of one environment")
    return envs[0]


def envs_of(groups: Sequence[Group]) -> list[str]:
    """The environments of the groups, each once."""
    return list(dict.fromkeys(group.env for group in groups))


def _views(encoder: str, policy: str) -> str:
    """Who sees what of the state, if not everybody all of it."""
    if (encoder, policy) == ("location", "all"):
        return "-XY"
    if (encoder, policy) == ("location", "no_location"):
        return "-XYO"
    if encoder == policy != "all":
        return f" (encoder and policy see {_SEES[encoder]})"
    views = [f"{who} sees {_SEES[sees]}" for who, sees in (("encoder", encoder), ("policy", policy)) if sees != "all"]
    return f" ({', '.join(views)})" if views else ""


def _differences(own: Identity, rivals: Sequence[Identity]) -> list[str]:
    """What differs from the rivals: the presets, then what varies among those with the same presets.

    What belongs to a linearizer or to skills is compared only with rivals that have the same kind of them.
    """
    presets = [name for name in own if name.split(" ")[-1] == "preset" and _varies(name, own, rivals)]
    shown = [own[name] if name == "preset" else _said(name, own) for name in presets]
    rivals = [rival for rival in rivals if all(rival.get(name) == own[name] for name in presets)]
    names = dict.fromkeys(name for rival in (own, *rivals) for name in rival)
    return shown + [_said(name, own) for name in names if _parent(name, own) and _varies(name, own, rivals)]


def _varies(name: str, own: Identity, rivals: Sequence[Identity]) -> bool:
    alike = [rival for rival in rivals if _parent(name, rival) == _parent(name, own)]
    return any(rival.get(name) != own.get(name) for rival in alike)


def _parent(name: str, identity: Identity) -> Any:
    """What a name such as `skills linearizer frame` belongs to: the kind of the linearizer; else the method."""
    return identity.get(name.rpartition(" ")[0] or "method")


def _said(name: str, own: Identity) -> str:
    value = own.get(name, "unset")
    return f"{name.rstrip('_')}={'x'.join(map(str, value)) if isinstance(value, list) else value}"


def _counted(settings: Mapping[str, Any]) -> Identity:
    return {name: value for name, value in settings.items() if name not in _WATCHED}


def _below(name: str, kind: str, identity: Identity) -> Identity:
    return {name: kind} | {f"{name} {key}": value for key, value in identity.items()}


def _linearizer(run: RunDirectory) -> tuple[str, Identity]:
    """Where the run's linearizer is from (none, bundled, trained), and how it was made, but for its seed."""
    source = run.config["settings"]["linearizer"]
    if source == "none":
        return "none", {}
    _, header = checkpoint.load(run.path / LINEARIZER_FILE, lambda name: False)
    made = provenance_of(run.path / LINEARIZER_FILE)
    source = str(made.get("source", source)).partition(":")[0]
    description = dataclasses.asdict(describe(header, run.path / LINEARIZER_FILE))
    settings = made.get("settings")
    identity = {"preset": made["preset"]} if "preset" in made else {}
    identity |= _counted(settings if isinstance(settings, dict) else {})
    identity |= _counted(description.pop("env_settings")) | description
    identity = json.loads(json.dumps(identity))  # lists for tuples, as in config.json
    return "bundled" if source in ("bundled", run.config["env"]) else "trained", identity


def _imitation_set(run: RunDirectory) -> str | None:
    """A short name for what the run imitates, which depends on nothing but how that was made."""
    file, named = run.path / SET_COPY, run.config["settings"]["imitation_set"]
    if not file.exists():
        return None if named is None else str(named)
    made = checkpoint.load(file, lambda name: False)[1]["imitation_set"]
    made = {name: value for name, value in made.items() if name != "versions"}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:8]
