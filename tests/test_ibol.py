"""IBOL: its objective against hand-computed numbers, masking, training to skills that can be told apart, their use."""

import dataclasses
import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import ibol
from ibol.cli import main
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.methods import ibol as method
from ibol.methods.chosen_steps import one_of_each_part
from ibol.methods.ibol import Batch, IBOLConfig, IBOLTrainer
from ibol.methods.pathwise import LinearDynamics, fit_dynamics
from ibol.presets import build
from ibol.skills.env import SkillEnv
from ibol.skills.policy import LINEARIZER_FILE, load_skills


def config(env: str = "point", preset: str = "smoke", **overrides: object) -> IBOLConfig:
    return dataclasses.replace(build(IBOLConfig, "ibol", preset, env), **overrides)


def trainer(env: str = "point", preset: str = "smoke", seed: int = 0, **overrides: object) -> IBOLTrainer:
    return IBOLTrainer(env, EnvSettings(), config(env, preset, **overrides), seed)


def batch_of(learning: IBOLTrainer, epoch: int = 0) -> Batch:
    shape = (learning.config.episodes_per_epoch, learning.config.latent_dim)
    u = np.random.default_rng(epoch).standard_normal(shape).astype(np.float32)
    return learning.batch(method.columns_of(learning.explore(u, epoch), u), np.random.default_rng(epoch))


def dynamics_of(batch: Batch) -> LinearDynamics:
    return fit_dynamics(batch.encoded, batch.goals, batch.lengths)


def loss_gradient(
    networks: method.Networks, batch: Batch, marginal: jax.Array, settings: IBOLConfig
) -> method.Networks:
    old, key = method.sampling_distribution(networks.sampling, batch), jax.random.key(0)

    def loss(networks: method.Networks) -> jax.Array:
        return method.losses(networks, batch, None, marginal, old, dynamics_of(batch), key, settings)[0]

    return jax.grad(loss)(networks)


def norms(tree: object) -> list[float]:
    return [float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(tree)]


def test_the_terms_are_those_of_the_paper() -> None:
    learning = trainer(latent_samples=3)
    networks, batch, key = learning.training.networks, batch_of(learning), jax.random.key(5)
    terms, _ = method.objective(networks, batch, key, learning.config)
    mean, std = networks.encoder(batch.encoded, batch.lengths)
    noise = jax.random.normal(key, (3, *mean.shape))
    i = 2
    by_hand = []
    for k in range(3):
        z = mean[i] + std[i] * noise[k, i]
        inputs = jnp.concatenate([batch.states[i], jnp.tile(z, (50, 1))], axis=1)
        by_hand.append(networks.skill(inputs).log_prob(batch.goals[i]).mean())
    np.testing.assert_allclose(terms.imitation[i], np.mean(by_hand), rtol=1e-4)
    kl = sum(0.5 * (m**2 + s**2 - 1 - 2 * np.log(s)) for m, s in zip(mean[i], std[i], strict=True))
    np.testing.assert_allclose(terms.compression[i], kl, rtol=1e-4)
    density = np.exp(-0.5 * ((batch.u[i] - mean[i]) / std[i]) ** 2) / (std[i] * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(terms.auxiliary[i], np.log(density).sum(), rtol=1e-3)


def test_neither_loss_reaches_the_others_networks() -> None:
    learning = trainer()
    networks, batch, settings = learning.training.networks, batch_of(learning), learning.config
    nothing = jnp.zeros(len(batch.u))

    def skill_part(networks: method.Networks) -> jax.Array:
        terms, _ = method.objective(networks, batch, jax.random.split(jax.random.key(0), 3)[0], settings)
        return method.skill_objective(terms, settings).mean()

    grads = loss_gradient(networks, batch, nothing, settings)
    skill = jax.grad(skill_part)(networks)
    assert max(norms(skill.sampling)) == 0
    assert min(norms(grads.sampling)[:2]) > 0
    for a, b in zip(jax.tree.leaves(grads.encoder), jax.tree.leaves(skill.encoder), strict=True):
        np.testing.assert_allclose(a, -b, rtol=1e-3, atol=1e-5)


def test_the_marginal_of_a_policy_that_ignores_u_is_its_own_density() -> None:
    learning = trainer()
    batch, policy = batch_of(learning), learning.training.networks.sampling
    first = policy.network.trunk.layers[0]
    deaf = first.weight.at[2:].set(0.0)
    policy = eqx.tree_at(lambda p: p.network.trunk.layers[0].weight, policy, deaf)
    exact = method.time_mean(method.sampling_distribution(policy, batch).log_prob(batch.goals), batch.lengths)
    np.testing.assert_allclose(method.marginal(policy, batch, jax.random.key(0), learning.config), exact, rtol=1e-4)


def test_a_random_subset_of_steps_estimates_the_marginal_without_bias() -> None:
    learning = trainer()
    batch, policy = batch_of(learning), learning.training.networks.sampling
    many = dataclasses.replace(learning.config, marginal_samples=400)
    few = dataclasses.replace(many, marginal_steps=5)
    keys = jax.random.split(jax.random.key(1), 100)
    whole = np.asarray(method.marginal(policy, batch, keys[0], many))
    part = np.asarray(jax.jit(jax.vmap(lambda key: method.marginal(policy, batch, key, few)))(keys))
    error = part.std(axis=0) / np.sqrt(len(keys))
    assert (np.abs(part.mean(axis=0) - whole) < 5 * error + 0.02).all()


def test_steps_after_the_end_change_nothing() -> None:
    learning = trainer()
    batch = batch_of(learning)
    lengths = jnp.array([50, 20, 7, 1])
    short = batch._replace(lengths=lengths, encoded_lengths=lengths)
    garbage = jnp.arange(50)[None, :, None] >= short.lengths[:, None, None]
    changed = short._replace(
        states=jnp.where(garbage, 9.0, short.states),
        encoded=jnp.where(garbage, -9.0, short.encoded),
        goals=jnp.where(garbage, 0.99, short.goals),
    )
    networks, settings, key = learning.training.networks, learning.config, jax.random.key(0)
    results = []
    for data in (short, changed):
        term = method.marginal(networks.sampling, data, key, settings)
        gradient = loss_gradient(networks, data, term, settings)
        results.append((term, gradient))
    for a, b in zip(jax.tree.leaves(results[0]), jax.tree.leaves(results[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_steps_are_one_of_each_part_of_a_trajectory() -> None:
    lengths = np.array([1000, 64, 5, 1])
    steps = one_of_each_part(np.repeat(lengths, 500), 32, np.random.default_rng(0)).reshape(4, 500, 32)
    assert (steps >= 0).all()
    assert (steps < lengths[:, None, None]).all()
    assert (np.diff(steps, axis=-1) >= 0).all()
    np.testing.assert_allclose(steps.mean(axis=(1, 2)), (lengths - 1) / 2, atol=0.6)
    assert (np.abs((steps[0] + 0.5) / (1000 / 32) - np.arange(32) - 0.5) < 0.55).all(), "each within its part"


def test_some_steps_stand_for_all_of_them() -> None:
    overrides = {"latent_samples": 1, "pathwise": "goals"}
    whole, some = trainer(**overrides), trainer(**overrides, encoded_states=10, policy_steps=20)
    full, batch = batch_of(whole), batch_of(some)
    assert (batch.states.shape, batch.goals.shape, batch.encoded.shape) == ((4, 20, 2), (4, 20, 2), (4, 10, 2))
    np.testing.assert_array_equal(batch.encoded, full.encoded[:, np.round(np.linspace(0, 49, 10)).astype(int)])
    assert (batch.encoded_lengths.tolist(), batch.lengths.tolist(), batch.weights.tolist()) == (
        [10] * 4, [20] * 4, [2.5] * 4,
    )  # fmt: skip
    # The policy gradient of random subsets is that of all steps on average.
    policy, advantage = whole.training.networks.sampling, jnp.array([1.0, -2.0, 0.5, 3.0])

    def gain(data: Batch) -> float:
        now = method.sampling_distribution(policy, data)
        return float(method.surrogate(now, now, data.goals, advantage * data.weights, data.lengths, 0.0))

    u = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    columns = method.columns_of(some.explore(u, 0), u)
    found = [gain(some.batch(columns, np.random.default_rng(seed))) for seed in range(60)]
    assert abs(np.mean(found) - gain(full)) < 4 * np.std(found) / np.sqrt(len(found)) + 1e-3


def test_steps_are_left_out_only_without_a_linearizer_and_not_in_the_papers_preset() -> None:
    for preset, part, expected in (("fast", "raw", (20, 32)), ("fast", "", (0, 0)), ("paper", "raw", (0, 0))):
        made = build(IBOLConfig, "ibol", preset, "Pendulum-v1", part)
        assert (made.encoded_states, made.policy_steps) == expected
    with pytest.raises(IbolError, match="the gradient through states follows every step"):
        trainer(pathwise="states", encoded_states=5)
    with pytest.raises(IbolError, match="without u the policy remembers all"):
        trainer(use_u=False, policy_steps=5)
    with pytest.raises(IbolError, match="some of the 3 policy_steps"):
        trainer(policy_steps=3, marginal_steps=4)


def test_without_clipping_the_sampling_policy_follows_reinforce() -> None:
    learning = trainer()
    networks, batch, settings = learning.training.networks, batch_of(learning), learning.config
    term = method.marginal(networks.sampling, batch, jax.random.key(1), settings)
    terms, _ = method.objective(networks, batch, jax.random.split(jax.random.key(0), 3)[0], settings)
    returns = method.returns_of(terms, term, settings)
    found = loss_gradient(networks, batch, term, settings).sampling

    def reinforce(policy: method.BetaPolicy) -> jax.Array:
        log_prob = method.sampling_distribution(policy, batch).log_prob(batch.goals)
        return -(returns * log_prob.sum(axis=1)).mean()

    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(jax.grad(reinforce)(networks.sampling)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("pathwise", ["goals", "states"])
def test_the_pathwise_gain_is_the_objective_and_moves_the_sampling_policy_alone(pathwise: str) -> None:
    learning = trainer(pathwise=pathwise)
    networks, batch, settings = learning.training.networks, batch_of(learning), learning.config
    old, key, dynamics = method.sampling_distribution(networks.sampling, batch), jax.random.key(0), dynamics_of(batch)
    terms, latents = method.objective(networks, batch, key, settings)
    gain = sum(method.pathwise_gains(networks, batch, old, latents, dynamics, key, settings))
    marginal = method.marginal(networks.sampling, batch, key, settings)
    whole = method.returns_of(terms, marginal, settings)
    expected = whole if pathwise == "states" else terms.imitation - settings.alpha * marginal
    np.testing.assert_allclose(gain, expected, rtol=1e-3, atol=1e-3)
    grads = jax.grad(lambda n: sum(method.pathwise_gains(n, batch, old, latents, dynamics, key, settings)).mean())(
        networks
    )
    assert min(norms(grads.sampling)[:2]) > 0
    assert max(norms(grads.skill) + norms(grads.encoder)) == 0


def test_the_pathwise_gain_sharpens_goals_that_the_skill_policy_knows() -> None:
    """Against a fixed skill policy and without the marginal, goals move to where the skill policy has its mode."""
    learning = trainer(pathwise="goals", alpha=0.0)
    networks, batch, settings = learning.training.networks, batch_of(learning), learning.config
    old, key, dynamics = method.sampling_distribution(networks.sampling, batch), jax.random.key(0), dynamics_of(batch)
    latents = jnp.zeros((1, *batch.u.shape))
    target = method.latent_policy(networks.skill, batch.states, latents[0]).mode
    grads = jax.grad(lambda n: sum(method.pathwise_gains(n, batch, old, latents, dynamics, key, settings)).mean())(
        networks
    )
    moved = jax.tree.map(lambda value, grad: value + 0.5 * grad, networks.sampling, grads.sampling)
    before, after = (jnp.abs(d.mode - target).mean() for d in (old, method.sampling_distribution(moved, batch)))
    assert after < 0.9 * before


def test_it_finds_skills_that_can_be_told_apart() -> None:
    learning = trainer(preset="fast", epochs=40, evaluate_every=40)
    untrained = ends_of(learning)
    for epoch in range(40):
        metrics = learning.train_epoch(epoch).metrics
    trained = ends_of(learning)
    assert accuracy(untrained) < 0.4
    assert accuracy(trained) > 0.8
    assert metrics["evaluation/information"] > 0.5


def ends_of(learning: IBOLTrainer) -> np.ndarray:
    """Final locations (8, 20, 2) of 8 latents."""
    angle = np.repeat(np.arange(8) * np.pi / 4, 20)
    latents = 1.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return learning.agent().rollout(latents, seed=1).states[:, -1].reshape(8, 20, 2)


def accuracy(ends: np.ndarray) -> float:
    """How often the nearest centroid of the first half of the episodes names the latent of the second half."""
    centroids = ends[:, :10].mean(axis=1)
    nearest = np.linalg.norm(ends[:, 10:, None] - centroids, axis=-1).argmin(axis=-1)
    return float((nearest == np.arange(8)[:, None]).mean())


def test_the_same_seed_continues_exactly() -> None:
    settings = {"recent_epochs": 2, "epochs": 2, "final_steps": 5, "final_epochs": 2}
    straight, broken, resumed = (trainer(**settings) for _ in range(3))
    for epoch in range(2):
        straight.train_epoch(epoch)
    broken.train_epoch(0)
    resumed.restore({name: np.array(value) for name, value in broken.state().items()})
    resumed.train_epoch(1)
    for name, value in straight.state().items():
        np.testing.assert_array_equal(value, resumed.state()[name], err_msg=name)


def test_the_final_steps_train_encoder_and_skill_policy_alone_on_the_last_epochs() -> None:
    settings = {"epochs": 2, "evaluate_every": 0, "learning_rate": 1e-3, "final_epochs": 2}
    plain, refined = trainer(**settings), trainer(final_steps=60, **settings)
    plain.train_epoch(0), refined.train_epoch(0)
    for a, b in zip(jax.tree.leaves(plain.training), jax.tree.leaves(refined.training), strict=True):
        np.testing.assert_array_equal(a, b)  # it is not the last epoch yet
    plain.train_epoch(1), refined.train_epoch(1)
    before, after = plain.training.networks, refined.training.networks
    for a, b in zip(jax.tree.leaves(before.sampling), jax.tree.leaves(after.sampling), strict=True):
        np.testing.assert_array_equal(a, b)
    batch, key = batch_of(refined, epoch=1), jax.random.key(0)
    gains = [
        float(method.skill_objective(method.objective(n, batch, key, refined.config)[0], refined.config).mean())
        for n in (before, after)
    ]
    assert gains[1] > gains[0] + 1


@pytest.mark.parametrize(
    "variant",
    [
        {"latent_dim": 1},
        {"latent_dim": 3},
        {"encoder_sees": "location"},
        {"encoder_sees": "location", "policy_sees": "no_location"},
        {"encoder_sees": "no_location", "policy_sees": "no_location", "latent_dim": 1},
        {"policy_sees": "location", "encoder_sees": "location"},
        {"linearizer": "none"},
    ],
)
def test_the_variants_of_the_paper_train(variant: dict[str, object]) -> None:
    learning = trainer("half_cheetah", epochs=1, episodes_per_epoch=2, evaluation_trajectories=4, **variant)
    metrics = learning.train_epoch(0).metrics
    assert np.isfinite(list(metrics.values())).all()
    assert learning.agent().sample_latents(3).shape == (3, learning.config.latent_dim)


def test_without_u_the_sampling_policy_remembers() -> None:
    learning = trainer(use_u=False)
    batch = batch_of(learning)
    whole = method.sampling_distribution(learning.training.networks.sampling, batch).log_prob(batch.goals)
    policy, memory = learning.training.networks.sampling, None
    memory = policy.start(len(batch.u))
    for step in range(50):
        memory, distribution = policy.step(memory, batch.states[:, step])
        np.testing.assert_allclose(distribution.log_prob(batch.goals[:, step]), whole[:, step], rtol=1e-3, atol=1e-4)
    before = learning.state()
    assert np.isfinite(list(learning.train_epoch(0).metrics.values())).all()
    assert any(
        (before[name] != value).any() for name, value in learning.state().items() if name.startswith("training/")
    )


def test_what_the_policies_must_not_see_does_not_matter() -> None:
    learning = trainer("half_cheetah", policy_sees="no_location", encoder_sees="location", episodes_per_epoch=2)
    skills = learning.agent()
    assert learning.world.encoder_dims == (0,)
    states = np.random.default_rng(0).normal(size=(4, 18))
    moved = states + 7 * np.eye(18)[0]
    z = skills.sample_latents(4)
    np.testing.assert_array_equal(skills.act(states, z), skills.act(moved, z))


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"linearizer": "bundled:7"}, "seed"),
        ({"linearizer": "nowhere"}, "nowhere"),
        ({"linearizer": "none", "distortion": "squeeze_y"}, "needs a linearizer"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, object], match: str) -> None:
    with pytest.raises(IbolError, match=match):
        trainer("half_cheetah", **wrong)


def test_environments_without_a_bundled_linearizer_are_told_what_to_do() -> None:
    with pytest.raises(IbolError, match="ibol linearize point"):
        trainer("point", linearizer="bundled")
    with pytest.raises(IbolError, match="trained in half_cheetah"):
        trainer("point", linearizer=str(next(Path(ibol.linearizer.policy.BUNDLED).glob("half_cheetah*.safetensors"))))


def test_a_run_from_the_command_line_to_its_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    short = ["--preset", "smoke", "--epochs", "2", "--horizon", "60", "--quiet"]
    main(["discover", "half_cheetah", *short, "--run-dir", str(run)])
    assert "done" in capsys.readouterr().out
    assert (run / LINEARIZER_FILE).is_file()
    assert len(list((run / "pictures").glob("*.png"))) == 1
    moved = run.rename(tmp_path / "moved")
    skills = load_skills(moved)
    latents = skills.sample_latents(5, seed=3)
    np.testing.assert_array_equal(latents, skills.sample_latents(5, seed=3))
    found = skills.rollout(latents, seed=0)
    assert found.states.shape == (5, 61, 18)
    np.testing.assert_array_equal(found.lengths, 60)
    np.testing.assert_array_equal(found.states, load_skills(moved).rollout(latents, seed=0).states)
    assert (found.states != skills.rollout(latents, seed=0, deterministic=True).states).any()
    main(["resume", str(moved), "--epochs", "3", "--quiet"])
    main(["evaluate", str(moved), "--trajectories", "30", "--json", str(tmp_path / "scores.json")])
    rows = json.loads((tmp_path / "scores.json").read_text())
    assert [row["policy"] for row in rows] == ["skills", "untrained", "random"]
    assert all(0 <= row["accuracy"] <= 1 and row["lowest"] < row["highest"] for row in rows)
    main(["plot", str(moved), str(moved), "--trajectories", "10", "--output", str(tmp_path / "skills.png")])
    assert (tmp_path / "skills.png").stat().st_size > 10_000
    with pytest.raises(SystemExit):
        main(["plot", str(moved), "linearizer:half_cheetah", "--output", str(tmp_path / "mixed.png")])
    assert "in separate figures" in capsys.readouterr().err
    with pytest.raises(IbolError, match=r"\(N, 2\)"):
        skills.rollout(np.zeros((2, 3)))
    with pytest.raises(IbolError, match="at least 1"):
        skills.sample_latents(0)


def test_a_replaced_run_keeps_nothing_of_the_old_one(tmp_path: Path) -> None:
    for linearizer in ("bundled", "bundled:1"):
        command = ["discover", "half_cheetah", "--preset", "smoke", "--run-dir", str(tmp_path / "run"), "--overwrite"]
        main([*command, "--linearizer", linearizer, "--epochs", "1", "--evaluate-every", "0", "--quiet"])
    kept = load_skills(tmp_path / "run").linearizer
    second, obs = ibol.load_linearizer("half_cheetah:1"), np.zeros((1, 18))
    goal = np.ones((1, 18))
    np.testing.assert_array_equal(kept.act(obs, goal), second.act(obs, goal))


def test_goals_are_held_for_the_linearizers_macro_step() -> None:
    skills = trainer("half_cheetah", episodes_per_epoch=2).agent()
    z = skills.sample_latents(2)
    act = skills.controller(z)
    obs = skills.make_env(2).reset(seed=0)[0].astype(np.float32)
    goals = skills.act(obs, z)
    other = obs + np.float32(0.1)
    np.testing.assert_array_equal(act(obs, 0), skills.linearizer.act(obs, goals))
    np.testing.assert_array_equal(act(other, 9), skills.linearizer.act(other, goals))
    np.testing.assert_array_equal(act(other, 10), skills.linearizer.act(other, skills.act(other, z, step=10)))


@pytest.mark.filterwarnings("ignore:.*symmetric and normalized space")  # latents are the action
@pytest.mark.parametrize("env", ["half_cheetah", "point"])
def test_skills_make_an_environment(env: str) -> None:
    skills = trainer(env, episodes_per_epoch=2).agent()
    made = SkillEnv(skills, hold=4)
    check_env(made, skip_render_check=True)
    made.reset(seed=1)
    steps, over = 0, False
    while not over:
        _, _, terminated, truncated, _ = made.step(np.array([0.5, -0.5]))
        steps, over = steps + 1, terminated or truncated
    assert steps == -(-skills.make_env(1).horizon // (4 * skills.macro_length))
    with pytest.raises(IbolError, match="hold is 0"):
        SkillEnv(skills, hold=0)
