"""The presets of skill discovery are what the protocol (docs/background/protocol.md) chooses from the kept tries."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest

from ibol import presets
from ibol.training.launch import find

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
FREE = ("linearizer", "evaluate_every", "evaluation_trajectories")  # change nothing of what is learned


@pytest.fixture(scope="module")
def tune() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import tune
    finally:
        sys.path.remove(str(BENCHMARKS))
    return tune


ROBOTS = sorted(file.stem for file in (BENCHMARKS / "tuning").glob("*.json"))


@pytest.mark.parametrize("env", ROBOTS)
def test_tries_keep_to_the_protocol(tune: Any, env: str) -> None:
    rows = tune.rows_of(env)
    assert all(row["seed"] >= 100 and row["linearizer"] in (0, None) for row in rows)
    assert len({row["env_steps"] for row in rows}) == 1
    tries = {len(tune.candidates()[env][method]) for method in tune.methods_of(env)}
    assert len(tries) == 1
    assert 1 < tries.pop() <= 6
    assert len({(row["method"], row["try"]) for row in rows}) == len(rows)
    assert len({row["command"].split("--policy-sees ")[1].split()[0] for row in rows}) == 1


@pytest.mark.parametrize("env", ROBOTS)
def test_rows_are_the_candidates_of_today(tune: Any, env: str) -> None:
    for row in tune.rows_of(env):
        one = tune.Try(env, row["method"], row["try"])
        assert row["settings"] == one.changed
        assert flags_of(row["command"]) <= flags_of(" ".join(one.command())), "settings that came later are not in it"


def flags_of(command: str) -> set[str]:
    return set(command.split(" --"))


@pytest.mark.parametrize("env", ROBOTS)
def test_presets_are_what_is_chosen(tune: Any, env: str) -> None:
    if not tune.complete(env):
        pytest.skip("some candidates have not been tried yet")
    chosen = {row["method"]: row for row, best in tune.choose(env) if best}
    assert set(chosen) == set(tune.methods_of(env)) - set(tune.replaced(env))
    for method, row in chosen.items():
        one = tune.Try(env, method, row["try"])
        part = presets.part_of(one.settings)
        preset = dataclasses.asdict(presets.build(find(method).config, method, "fast", one.env, part))
        free = (*FREE, "epochs") if part else FREE  # without a linearizer skills need more steps than were tried
        assert {n: v for n, v in preset.items() if n not in free} == {
            n: v for n, v in one.settings.items() if n not in free
        }


def test_the_criterion_takes_the_most_information_among_those_that_spread(tune: Any, monkeypatch: Any) -> None:
    def row(number: int, information: float, accuracy: float, spread: float) -> dict[str, Any]:
        scores = {"neighbour_information": information, "accuracy": accuracy, "spread": spread}
        return {"method": "ibol", "try": number, "linearizer": 0, "scores": scores}

    rows = [row(0, 3.0, 0.9, 4.9), row(1, 2.0, 0.8, 6.0), row(2, 2.001, 0.7, 6.0), row(3, 1.0, 1.0, 9.0)]
    monkeypatch.setattr(tune, "rows_of", lambda env: rows)
    monkeypatch.setattr(tune, "smallest_spread", lambda env: 5.0)
    assert [one["try"] for one, best in tune.choose("ant") if best] == [1]  # 0 does not spread; 1 and 2 tie
    rows[3]["scores"]["smallest_sector"] = 0.04
    assert [one["try"] for one, best in tune.choose("ant_second") if best] == [3]  # nothing is known of the others
