import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ibol.nn import networks
from ibol.nn.networks import (
    MLP,
    BetaPolicy,
    Dense,
    TanhGaussianPolicy,
    TrajectoryEncoder,
    Trunk,
    TwinCritic,
)

KEY = jax.random.key(0)
# The same sizes in all tests, so that JAX compiles little.
INPUTS, OUTPUTS, HIDDEN = 6, 16, (64, 64)
LENGTHS = np.array([6, 1, 4, 3])


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(0).normal(size=(4, 6, INPUTS)).astype(np.float32)


@pytest.fixture(scope="module")
def encoder():
    return TrajectoryEncoder(INPUTS, OUTPUTS, HIDDEN, KEY, init_std=0.1, mean_scale=10.0)


def dense(layer, x):
    return x @ np.asarray(layer.weight) + np.asarray(layer.bias)


def assert_xavier_uniform(weight, scale=1.0):
    """U(-b, b) with b = scale sqrt(6 / (inputs + outputs)): bounds and variance."""
    bound = scale * np.sqrt(6 / sum(weight.shape))
    assert 0.95 * bound < np.abs(weight).max() <= bound * (1 + 1e-6)
    assert np.std(weight) == pytest.approx(bound / np.sqrt(3), rel=3 / np.sqrt(weight.size))


def assert_xavier_normal(weight, scale=1.0):
    """Standard deviation scale sqrt(2 / (inputs + outputs)), and beyond the bounds of a uniform distribution."""
    std = scale * np.sqrt(2 / sum(weight.shape))
    assert np.std(weight) == pytest.approx(std, rel=3 / np.sqrt(weight.size))
    assert np.abs(weight).max() > (2 if weight.size > 1000 else 1.75) * std


def assert_zero_biases(module):
    biases = [layer.bias for layer in jax.tree.leaves(module, is_leaf=lambda x: isinstance(x, Dense))]
    assert biases
    assert not any(np.any(bias) for bias in biases)


# Initialisations and shapes


def test_tanh_gaussian_policy_starts_near_the_standard_normal(inputs):
    policy = TanhGaussianPolicy(INPUTS, OUTPUTS, HIDDEN, KEY)
    for layer in policy.network.trunk.layers:
        assert_xavier_uniform(layer.weight)
    for head in policy.network.heads:
        assert head.weight.shape == (64, OUTPUTS)
        assert_xavier_normal(head.weight, 0.1)
    assert_zero_biases(policy)
    out = policy(inputs)
    assert out.mean.shape == out.log_std.shape == (4, 6, OUTPUTS)
    assert 0 < np.abs(out.mean).max() < 0.5
    assert 0 < np.abs(out.log_std).max() < 0.5
    # A tanh trunk, shared by both heads.
    hidden = inputs
    for layer in policy.network.trunk.layers:
        hidden = np.tanh(dense(layer, hidden))
    np.testing.assert_allclose(out.mean, dense(policy.network.heads[0], hidden), atol=1e-5)
    np.testing.assert_allclose(out.log_std, dense(policy.network.heads[1], hidden), atol=1e-5)


def test_beta_policy_starts_near_beta_1_74(inputs):
    policy = BetaPolicy(INPUTS, OUTPUTS, HIDDEN, KEY)
    for layer in (*policy.network.trunk.layers, *policy.network.heads):
        assert_xavier_uniform(layer.weight)
    assert_zero_biases(policy)
    out = policy(inputs)
    assert out.alpha.shape == out.beta.shape == (4, 6, OUTPUTS)
    assert np.median(out.alpha) == pytest.approx(1.74, abs=0.2)
    assert np.median(out.beta) == pytest.approx(1.74, abs=0.2)
    nothing = policy(np.zeros_like(inputs))
    np.testing.assert_allclose(nothing.alpha, 1.05 + np.log(2), rtol=1e-6)
    np.testing.assert_allclose(nothing.beta, 1.05 + np.log(2), rtol=1e-6)


def test_twin_critic(inputs):
    critic = TwinCritic(INPUTS, HIDDEN, KEY, features=3)
    states, actions = inputs[..., :4], inputs[..., 4:]
    values = critic(states, actions)
    for value, net in zip(values, (critic.first, critic.second), strict=True):
        for layer in (*net.trunk.layers, net.output):
            assert_xavier_normal(layer.weight)
        assert_zero_biases(net)
        hidden = inputs
        for layer in net.trunk.layers:
            hidden = np.maximum(dense(layer, hidden), 0.0)
        np.testing.assert_allclose(value, dense(net.output, hidden), atol=1e-5)
        assert value.shape == (*inputs.shape[:-1], 3)
    assert not np.allclose(*values)


def test_trajectory_encoder_initialisation(encoder, inputs):
    first, last = encoder.mean.trunk.layers
    assert first.weight.shape == (128, 64)
    assert_xavier_uniform(first.weight)
    assert_xavier_uniform(last.weight, 10.0)
    assert_xavier_uniform(encoder.mean.output.weight)
    for layer in (*encoder.log_std.trunk.layers, encoder.log_std.output):
        assert_xavier_uniform(layer.weight)
    np.testing.assert_allclose(encoder.log_std.output.bias, np.log(0.1), rtol=1e-6)
    assert_zero_biases((encoder.mean, encoder.log_std.trunk))
    mean, std = encoder(inputs, LENGTHS)
    assert mean.shape == std.shape == (4, OUTPUTS)
    np.testing.assert_allclose(std, 0.1, rtol=0.5)


def test_lstm_initialisation_has_no_forget_bias(encoder):
    for cell in (encoder.lstm.forward, encoder.lstm.backward):
        bound = 1 / np.sqrt(64)
        for weights in (cell.weight_ih, cell.weight_hh):
            assert 0.98 * bound < np.abs(weights).max() <= bound * (1 + 1e-6)
        # One vector in the place of PyTorch's two: at most the sum of both, and the same in all four gates.
        for gate in np.split(np.asarray(cell.bias), 4):
            assert 0.5 * bound < np.abs(gate).max() <= 2 * bound
            assert abs(gate.mean()) < 0.5 * bound
    assert not np.allclose(encoder.lstm.forward.weight_hh, encoder.lstm.backward.weight_hh)


@pytest.mark.parametrize(
    "make",
    [
        lambda key: MLP(INPUTS, OUTPUTS, HIDDEN, jax.nn.relu, "xavier_uniform", key),
        lambda key: BetaPolicy(INPUTS, OUTPUTS, HIDDEN, key),
        lambda key: TrajectoryEncoder(INPUTS, OUTPUTS, HIDDEN, key),
    ],
)
def test_networks_are_functions_of_their_key(make):
    def weights(key):
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(eqx.filter(make(key), eqx.is_array))])

    first, again, other = weights(KEY), weights(jax.random.key(0)), weights(jax.random.key(1))
    np.testing.assert_array_equal(first, again)
    # All weights differ; biases may start at the same value.
    assert np.mean(first == other) < 0.3
    assert first.dtype == np.float32


# Layer norm


def test_layer_norm_is_an_option(inputs):
    plain, normed = (Trunk(INPUTS, HIDDEN[:1], jnp.tanh, "xavier_uniform", KEY, layer_norm=n) for n in (False, True))
    before = dense(plain.layers[0], inputs)
    np.testing.assert_allclose(plain(inputs), np.tanh(before), atol=1e-5)
    standard = (before - before.mean(axis=-1, keepdims=True)) / np.sqrt(before.var(axis=-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(normed(inputs), np.tanh(standard), atol=1e-4)
    for make in (TanhGaussianPolicy, BetaPolicy):
        assert not make(INPUTS, OUTPUTS, HIDDEN, KEY).network.trunk.layer_norm
        assert make(INPUTS, OUTPUTS, HIDDEN, KEY, layer_norm=True).network.trunk.layer_norm
    critic = TwinCritic(INPUTS, HIDDEN, KEY, layer_norm=True)
    assert critic.first.trunk.layer_norm
    assert critic.second.trunk.layer_norm


# The bidirectional LSTM


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_reference(cell, sequence):
    """One LSTM over one sequence, step by step, in PyTorch's order of gates."""
    w_ih, w_hh, bias = (np.asarray(w, np.float64) for w in (cell.weight_ih, cell.weight_hh, cell.bias))
    h = c = np.zeros(w_hh.shape[1])
    outputs = []
    for x in sequence:
        i, f, g, o = np.split(w_ih @ x + w_hh @ h + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs)


def test_bidirectional_lstm_is_the_textbooks(encoder, inputs):
    lstm = encoder.lstm
    outputs = lstm(inputs, LENGTHS)
    assert outputs.shape == (4, 6, 128)
    for output, sequence, length in zip(outputs, inputs, LENGTHS, strict=True):
        onward = lstm_reference(lstm.forward, sequence[:length])
        # The backward direction begins at the last valid step.
        back = lstm_reference(lstm.backward, sequence[:length][::-1])[::-1]
        np.testing.assert_allclose(output[:length], np.concatenate([onward, back], axis=1), atol=1e-5)
        np.testing.assert_array_equal(output[length:], 0.0)


def relu_mlp(net, x):
    for layer in net.trunk.layers:
        x = np.maximum(dense(layer, x), 0.0)
    return dense(net.output, x)


def test_trajectory_encoder_averages_the_valid_steps(encoder, inputs):
    mean, std = encoder(inputs, LENGTHS)
    for i, length in enumerate(LENGTHS):
        onward = lstm_reference(encoder.lstm.forward, inputs[i, :length])
        back = lstm_reference(encoder.lstm.backward, inputs[i, :length][::-1])
        average = np.concatenate([onward.mean(axis=0), back.mean(axis=0)])
        np.testing.assert_allclose(mean[i], relu_mlp(encoder.mean, average), atol=1e-4)
        np.testing.assert_allclose(std[i], np.exp(relu_mlp(encoder.log_std, average)), rtol=1e-4)


def test_padding_changes_nothing(encoder, inputs):
    @jax.jit
    def evaluate(states):
        def total(states):
            mean, std = encoder(states, LENGTHS)
            return jnp.sum(mean) + jnp.sum(std), (mean, std)

        return jax.grad(total, has_aux=True)(states)

    padding = np.arange(6) >= LENGTHS[:, None]
    gradient, outputs = evaluate(inputs)
    np.testing.assert_array_equal(np.asarray(gradient)[padding], 0.0)
    assert np.all(np.abs(np.asarray(gradient)[~padding]).max(axis=-1) > 0)
    _, disturbed = evaluate(np.where(padding[..., None], 1e3, inputs))
    longer = np.concatenate([inputs, np.full((4, 3, INPUTS), -1e3, np.float32)], axis=1)
    _, extended = evaluate(longer)
    for got, also, want in zip(disturbed, extended, outputs, strict=True):
        np.testing.assert_array_equal(got, want)
        np.testing.assert_allclose(also, want, rtol=1e-4, atol=1e-5)


def test_standard_deviation_has_a_floor(encoder, inputs):
    tiny = eqx.tree_at(lambda e: e.log_std.output.bias, encoder, jnp.full(OUTPUTS, -30.0))
    np.testing.assert_allclose(tiny(inputs, LENGTHS)[1], 1e-6, rtol=1e-5)


def test_the_gradient_of_the_recurrent_weights_is_that_of_the_plain_recurrence():
    rng = np.random.default_rng(0)
    inputs, weight, towards = (jnp.asarray(rng.normal(size=s), jnp.float32) for s in ((7, 5, 12), (3, 12), (7, 5, 3)))

    def gradients(recur):
        return jax.grad(lambda x, w: jnp.sum(towards * recur(x, w)), argnums=(0, 1))(inputs, weight)

    for ours, plain in zip(gradients(networks._recur), gradients(networks._recur_plainly), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-5)
