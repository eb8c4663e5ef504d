"""Which runs are averaged as one, and what groups are called."""

import json
from pathlib import Path
from typing import Any

from ibol.evaluation.groups import Group, group_runs
from ibol.linearizer.policy import load_linearizer, provenance_of
from ibol.training.launch import open_run

SETTINGS = {"linearizer": "none", "encoder_sees": "all", "policy_sees": "all", "evaluate_every": 100}


def write(path: Path, command: str, settings: dict[str, Any], **config: Any) -> Path:
    """A run directory with nothing but its configuration."""
    made = {"command": command, "method": command, "env": "ant", "preset": "fast", "seed": 0, "env_settings": {}}
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({**made, "settings": settings, **config}))
    return path


def discover(path: Path, *, linearizer: str = "none", method: str = "ibol", **changes: Any) -> Path:
    """A run of 'ibol discover', with its copy of the linearizer."""
    config = {name: changes.pop(name) for name in ("preset", "seed", "env_settings", "env") if name in changes}
    run = write(path, "discover", {**SETTINGS, "linearizer": linearizer, **changes}, method=method, **config)
    if linearizer != "none":
        load_linearizer("ant").save(run / "linearizer.safetensors", provenance_of(linearizer))
    return run


def downstream(path: Path, *, seed: int = 0, controller: str = "sac", **skills: Any) -> Path:
    """A run of 'ibol downstream', with its copy of the skills."""
    discover(path / "skills", seed=seed, **skills)
    settings = {"skills": f"somewhere/{seed}", "controller": controller, "imitation_set": None, "l_m": 20}
    (path / "new").mkdir()
    write(path / "new" / "run", "downstream", settings, env="ant_goal", seed=seed)
    (path / "new" / "run" / "config.json").replace(path / "config.json")
    return path


def labels(*runs: Path) -> list[tuple[str, int]]:
    groups = group_runs(runs)
    names = [(group.env, group.label) for group in groups]
    assert len(set(names)) == len(names), "two groups never share a label"
    return [(group.label, len(group.runs)) for group in groups]


def test_who_does_not_see_the_location_makes_another_experiment(tmp_path: Path) -> None:
    sees = ("all", "location", "no_location")
    runs = [
        discover(tmp_path / f"{encoder}-{policy}", linearizer="bundled", encoder_sees=encoder, policy_sees=policy)
        for encoder in sees
        for policy in sees
    ]
    assert labels(*runs) == [
        ("IBOL", 1),
        ("IBOL (policy sees only the location)", 1),
        ("IBOL (policy sees no location)", 1),
        ("IBOL-XY", 1),
        ("IBOL (encoder and policy see only the location)", 1),
        ("IBOL-XYO", 1),
        ("IBOL (encoder sees no location)", 1),
        ("IBOL (encoder sees no location, policy sees only the location)", 1),
        ("IBOL (encoder and policy see no location)", 1),
    ]


def test_seeds_and_how_a_run_is_watched_make_no_other_experiment(tmp_path: Path) -> None:
    runs = [
        discover(tmp_path / "0", linearizer="bundled", method="diayn"),
        discover(tmp_path / "1", linearizer="bundled:1", method="diayn", seed=1),
        discover(tmp_path / "2", linearizer="ant:1", method="diayn", evaluate_every=5),
        discover(tmp_path / "3", linearizer="bundled", method="diayn", env_settings={"num_threads": 1}),
    ]
    assert labels(*runs) == [("DIAYN-L", 4)]


def test_what_was_set_makes_another_experiment(tmp_path: Path) -> None:
    runs = [
        discover(tmp_path / "plain"),
        discover(tmp_path / "short", env_settings={"horizon": 50}),
        discover(tmp_path / "beta", beta=1.0),
        discover(tmp_path / "paper", preset="paper", beta=0.5),
        discover(tmp_path / "again", seed=3),
    ]
    name = "IBOL without linearizer"
    assert labels(*runs) == [
        (f"{name} fast beta=0.01 horizon=None", 2),
        (f"{name} fast beta=0.01 horizon=50", 1),
        (f"{name} fast beta=1.0 horizon=None", 1),
        (f"{name} paper", 1),
    ]


def linearize(path: Path, *, seed: int = 0, **settings: Any) -> Path:
    return write(path, "linearize", {"macro_length": 10, "epochs": 400, **settings}, seed=seed)


def test_linearizers_that_differ_by_more_than_their_seed(tmp_path: Path) -> None:
    made = [
        linearize(tmp_path / "lin0"),
        linearize(tmp_path / "lin1", seed=1),
        linearize(tmp_path / "lin2", reward="euclidean"),
    ]
    assert labels(*made) == [("linearizer reward=inner_product", 2), ("linearizer reward=euclidean", 1)]
    runs = [discover(tmp_path / f"run{i}", linearizer=str(source)) for i, source in enumerate(made)]
    bundled = discover(tmp_path / "bundled", linearizer="bundled")
    assert labels(*runs, bundled) == [
        ("IBOL linearizer=trained linearizer reward=inner_product", 2),
        ("IBOL linearizer=trained linearizer reward=euclidean", 1),
        ("IBOL linearizer=bundled", 1),
    ]


def test_a_run_keeps_how_its_linearizer_was_made(tmp_path: Path) -> None:
    source = linearize(tmp_path / "lin", seed=7)
    kept = discover(tmp_path / "run", linearizer=str(source)) / "linearizer.safetensors"
    found = provenance_of(kept)
    assert (found["source"], found["preset"], found["seed"]) == (str(source), "fast", 7)
    assert found["settings"] == open_run(source).config["settings"]


def test_another_macro_length_of_a_linearizer_is_another_experiment(tmp_path: Path) -> None:
    runs = [discover(tmp_path / name, linearizer="bundled", seed=seed) for seed, name in enumerate("ab")]
    linearizer = load_linearizer("ant")
    object.__setattr__(linearizer.description, "macro_length", 5)
    linearizer.save(runs[1] / "linearizer.safetensors", {"source": "bundled"})
    assert labels(*runs) == [("IBOL linearizer macro_length=10", 1), ("IBOL linearizer macro_length=5", 1)]


def test_controllers_over_other_skills_are_other_experiments(tmp_path: Path) -> None:
    runs = [
        downstream(tmp_path / "a", linearizer="bundled"),
        downstream(tmp_path / "b", linearizer="bundled:1", seed=1),
        downstream(tmp_path / "c", linearizer="bundled", preset="paper"),
        downstream(tmp_path / "d", linearizer="bundled", beta=1.0),
        downstream(tmp_path / "e", linearizer="bundled", method="valor"),
        downstream(tmp_path / "f", linearizer="bundled", controller="planner"),
    ]
    assert labels(*runs) == [
        ("IBOL skills preset=fast skills beta=0.01", 2),
        ("IBOL skills preset=paper", 1),
        ("IBOL skills preset=fast skills beta=1.0", 1),
        ("VALOR-L", 1),
        ("IBOL planner", 1),
    ]


def test_groups_are_in_the_order_of_the_runs_and_know_their_seeds(tmp_path: Path) -> None:
    runs = [discover(tmp_path / str(seed), seed=seed, env=env) for seed, env in ((4, "point"), (2, "ant"), (1, "ant"))]
    (first, second) = group_runs(runs)
    assert isinstance(first, Group)
    assert (first.env, first.label, first.preset, first.seeds) == ("point", "IBOL", "fast", [4])
    assert (second.env, second.label, second.seeds) == ("ant", "IBOL without linearizer", [1, 2])
