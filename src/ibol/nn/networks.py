"""Networks with the authors' initialisations: MLPs, two-headed policies, twin critic, trajectory encoder.

Every module takes whole batches, (..., features), and holds arrays only (all else is static), so that it can be an
argument of `jax.jit` and an entry of a checkpoint as it is.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ibol import memory
from ibol.nn.distributions import ScaledBeta, TanhNormal

Activation = Callable[[Array], Array]
Initializer = Literal["xavier_uniform", "xavier_normal"]
STD_FLOOR = 1e-6


class Dense(eqx.Module):
    """x W + b with Xavier weights times `scale` and zero bias."""

    weight: Array
    bias: Array

    def __init__(self, inputs: int, outputs: int, init: Initializer, key: Array, scale: float = 1.0) -> None:
        memory.check_layer(inputs, outputs)
        rng, shape = _generator(key), (inputs, outputs)
        std = scale * np.sqrt(2 / (inputs + outputs))
        normal = init == "xavier_normal"
        drawn = std * rng.standard_normal(shape) if normal else rng.uniform(-np.sqrt(3) * std, np.sqrt(3) * std, shape)
        self.weight = jnp.asarray(drawn, jnp.float32)
        self.bias = jnp.asarray(np.zeros(outputs, np.float32))

    def __call__(self, x: Array) -> Array:
        """(..., inputs) to (..., outputs)."""
        return x @ self.weight + self.bias


def _generator(key: Array) -> np.random.Generator:
    """What first weights are drawn by: NumPy has nothing to compile, where JAX compiles for every shape."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())


class Trunk(eqx.Module):
    """The hidden layers of a network, optionally with layer norm before each activation."""

    layers: tuple[Dense, ...]
    activation: Activation = eqx.field(static=True)
    layer_norm: bool = eqx.field(static=True)

    def __init__(
        self, inputs: int, hidden: Sequence[int], activation: Activation, init: Initializer, key: Array,
        layer_norm: bool = False,
    ) -> None:  # fmt: skip
        sizes, keys = (inputs, *hidden), jax.random.split(key, len(hidden))
        self.layers = tuple(Dense(i, o, init, k) for i, o, k in zip(sizes, hidden, keys, strict=False))
        self.activation = activation
        self.layer_norm = layer_norm

    def __call__(self, x: Array) -> Array:
        """(..., inputs) to (..., width of the last hidden layer)."""
        for layer in self.layers:
            x = layer(x)
            if self.layer_norm:
                x = jax.nn.standardize(x, axis=-1)
            x = self.activation(x)
        return x


class MLP(eqx.Module):
    """A trunk with one linear output layer."""

    trunk: Trunk
    output: Dense

    def __init__(
        self, inputs: int, outputs: int, hidden: Sequence[int], activation: Activation, init: Initializer, key: Array,
        layer_norm: bool = False,
    ) -> None:  # fmt: skip
        """Fresh weights from `key`: layers of `hidden` units, with `activation` after each but the last."""
        trunk_key, output_key = jax.random.split(key)
        self.trunk = Trunk(inputs, hidden, activation, init, trunk_key, layer_norm)
        self.output = Dense(hidden[-1], outputs, init, output_key)

    def __call__(self, x: Array) -> Array:
        """(..., inputs) to (..., outputs)."""
        return self.output(self.trunk(x))


class LipschitzMLP(eqx.Module):
    """A ReLU network with |f(x) - f(y)| <= |x - y|: every weight matrix is divided by its largest singular value.

    That of W is |v W| for its first left singular vector v, which power iteration follows (`follow`) as weights change.
    """

    network: MLP
    vectors: tuple[Array, ...]  # the v of each layer, (inputs,)

    def __init__(self, inputs: int, outputs: int, hidden: Sequence[int], key: Array) -> None:
        self.network = MLP(inputs, outputs, hidden, jax.nn.relu, "xavier_uniform", key)
        weights = [np.asarray(layer.weight) for layer in _layers(self.network)]
        self.vectors = tuple(jnp.asarray(np.linalg.svd(weight, full_matrices=False)[0][:, 0]) for weight in weights)

    def __call__(self, x: Array) -> Array:
        """(..., inputs) to (..., outputs)."""
        return self.plain()(x)

    def plain(self) -> MLP:
        """The same function as an ordinary network."""
        vectors = jax.lax.stop_gradient(self.vectors)
        pairs = zip(_layers(self.network), vectors, strict=True)
        divided = [layer.weight / jnp.linalg.norm(vector @ layer.weight) for layer, vector in pairs]
        return eqx.tree_at(lambda network: [layer.weight for layer in _layers(network)], self.network, divided)

    def follow(self, iterations: int = 4) -> "LipschitzMLP":
        """With the vectors of the present weights, after some steps of power iteration from those before."""
        vectors = list(self.vectors)
        for _ in range(iterations):
            pairs = zip(_layers(self.network), vectors, strict=True)
            onward = [(vector @ layer.weight) @ layer.weight.T for layer, vector in pairs]
            vectors = [vector / jnp.linalg.norm(vector) for vector in onward]
        return eqx.tree_at(lambda phi: phi.vectors, self, tuple(vectors))


def _layers(network: MLP) -> tuple[Dense, ...]:
    return (*network.trunk.layers, network.output)


class _TwoHeads(eqx.Module):
    """A tanh trunk shared by two linear heads."""

    trunk: Trunk
    heads: tuple[Dense, Dense]

    def __init__(
        self, inputs: int, outputs: int, hidden: Sequence[int], head_init: Initializer, head_scale: float, key: Array,
        layer_norm: bool,
    ) -> None:  # fmt: skip
        trunk_key, first, second = jax.random.split(key, 3)
        self.trunk = Trunk(inputs, hidden, jnp.tanh, "xavier_uniform", trunk_key, layer_norm)
        self.heads = (
            Dense(hidden[-1], outputs, head_init, first, head_scale),
            Dense(hidden[-1], outputs, head_init, second, head_scale),
        )

    def __call__(self, x: Array) -> tuple[Array, Array]:
        features = self.trunk(x)
        # One matrix product for both heads: faster than two narrow ones, above all in the backward pass.
        weights = jnp.concatenate([head.weight for head in self.heads], axis=-1)
        first, second = jnp.split(features @ weights, 2, axis=-1)
        return first + self.heads[0].bias, second + self.heads[1].bias


class TanhGaussianPolicy(eqx.Module):
    """pi(a | x) as a tanh-Gaussian; starts near mean 0 and standard deviation 1."""

    network: _TwoHeads

    def __init__(self, inputs: int, actions: int, hidden: Sequence[int], key: Array, layer_norm: bool = False) -> None:
        """Fresh weights from `key`, for `actions` numbers."""
        self.network = _TwoHeads(inputs, actions, hidden, "xavier_normal", 0.1, key, layer_norm)

    def __call__(self, x: Array) -> TanhNormal:
        """The action distribution for inputs (..., n)."""
        return TanhNormal(*self.network(x))


class BetaPolicy(eqx.Module):
    """pi(a | x) as a Beta distribution scaled to [-1, 1]; starts near Beta(1.74, 1.74)."""

    network: _TwoHeads

    def __init__(self, inputs: int, actions: int, hidden: Sequence[int], key: Array, layer_norm: bool = False) -> None:
        """Fresh weights from `key`, for `actions` numbers."""
        self.network = _TwoHeads(inputs, actions, hidden, "xavier_uniform", 1.0, key, layer_norm)

    def __call__(self, x: Array) -> ScaledBeta:
        """The action distribution for inputs (..., n)."""
        return ScaledBeta(*self.network(x))


class TwinCritic(eqx.Module):
    """Two independent networks psi(s, a) with `features` outputs; Q(s, a) = <psi(s, a), w> for given weights w."""

    first: MLP
    second: MLP

    def __init__(
        self, inputs: int, hidden: Sequence[int], key: Array, layer_norm: bool = False, features: int = 1
    ) -> None:
        a, b = jax.random.split(key)
        self.first = MLP(inputs, features, hidden, jax.nn.relu, "xavier_normal", a, layer_norm)
        self.second = MLP(inputs, features, hidden, jax.nn.relu, "xavier_normal", b, layer_norm)

    def __call__(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Both networks' features (..., K) of (..., n) states and (..., m) actions."""
        x = jnp.concatenate([states, actions], axis=-1)
        return self.first(x), self.second(x)


def lstm_cell(inputs: int, width: int, key: Array) -> eqx.nn.LSTMCell:
    """A cell with PyTorch's default initialisation: all weights and biases from U(-1, 1) / sqrt(width)."""
    memory.check_layer(inputs + width, 4 * width)
    rng, limit = _generator(key), 1 / np.sqrt(width)
    shapes = eqx.filter_eval_shape(eqx.nn.LSTMCell, inputs, width, key=key)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.uniform(-limit, limit, leaf.shape), jnp.float32), shapes)


class BidirectionalLSTM(eqx.Module):
    """One LSTM layer in each direction over padded sequences; PyTorch's default initialisation."""

    forward: eqx.nn.LSTMCell
    backward: eqx.nn.LSTMCell

    def __init__(self, inputs: int, width: int, key: Array) -> None:
        a, b = jax.random.split(key)
        self.forward, self.backward = lstm_cell(inputs, width, a), lstm_cell(inputs, width, b)

    def __call__(self, sequences: Array, lengths: Array) -> Array:
        """(B, T, inputs) with valid lengths (B,) to (B, T, 2 width); padded steps are zero."""
        steps = jnp.arange(sequences.shape[1])
        valid = steps < lengths[:, None]  # (B, T)
        # The backward direction starts at each sequence's own last valid step.
        flip = jnp.where(valid, lengths[:, None] - 1 - steps, steps)[..., None]  # (B, T, 1)
        flipped = jnp.take_along_axis(sequences, flip, axis=1)
        onward = _run_lstm(self.forward, sequences)
        back = jnp.take_along_axis(_run_lstm(self.backward, flipped), flip, axis=1)
        return jnp.where(valid[..., None], jnp.concatenate([onward, back], axis=-1), 0.0)


def _run_lstm(cell: eqx.nn.LSTMCell, sequences: Array) -> Array:
    """(B, T, inputs) to (B, T, width), from a zero state; the input part is one matrix product for all steps."""
    assert cell.bias is not None
    from_inputs = sequences @ cell.weight_ih.T + cell.bias  # (B, T, 4 width)
    return _recur(from_inputs.swapaxes(0, 1), cell.weight_hh.T).swapaxes(0, 1)


def _recur_plainly(from_inputs: Array, weight: Array) -> Array:
    """An LSTM's outputs (T, B, width) from what its gates get of the inputs (T, B, 4 width)."""

    def step(carry: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
        h, c = carry
        i, f, g, o = jnp.split(x + h @ weight, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((from_inputs.shape[1], weight.shape[0]), from_inputs.dtype)
    return jax.lax.scan(step, (zero, zero), from_inputs)[1]


@jax.custom_vjp
def _recur(from_inputs: Array, weight: Array) -> Array:
    """`_recur_plainly` whose gradient for the weight is one matrix product for all steps: twice as fast on a CPU."""
    return _recur_plainly(from_inputs, weight)


def _recur_forward(from_inputs: Array, weight: Array) -> tuple[Array, tuple[Array, Any]]:
    outputs, backward = jax.vjp(lambda x: _recur_plainly(x, weight), from_inputs)
    return outputs, (outputs, backward)


def _recur_backward(kept: tuple[Array, Any], gradient: Array) -> tuple[Array, Array]:
    outputs, backward = kept
    (gates,) = backward(gradient)  # that of the gates, which add up inputs and what was remembered
    remembered = jnp.concatenate([jnp.zeros_like(outputs[:1]), outputs[:-1]])
    return gates, jnp.tensordot(remembered, gates, axes=((0, 1), (0, 1)))


_recur.defvjp(_recur_forward, _recur_backward)


class RecurrentBetaPolicy(eqx.Module):
    """pi(a_t | x_0 ... x_t): an LSTM whose outputs go through a two-headed Beta policy."""

    cell: eqx.nn.LSTMCell
    heads: BetaPolicy

    def __init__(self, inputs: int, actions: int, hidden: Sequence[int], key: Array) -> None:
        cell_key, heads_key = jax.random.split(key)
        self.cell = lstm_cell(inputs, hidden[0], cell_key)
        self.heads = BetaPolicy(hidden[0], actions, hidden, heads_key)

    def __call__(self, sequences: Array) -> ScaledBeta:
        """The action distributions along sequences (B, T, n)."""
        return self.heads(_run_lstm(self.cell, sequences))

    def start(self, batch: int) -> tuple[Array, Array]:
        """What is remembered before the first step: nothing."""
        zero = jnp.zeros((batch, self.cell.hidden_size))
        return zero, zero

    def step(self, memory: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], ScaledBeta]:
        """The distribution for the next inputs (B, n)."""
        memory = jax.vmap(self.cell)(x, memory)
        return memory, self.heads(memory[0])


class TrajectoryEncoder(eqx.Module):
    """p(z | s_0 ... s_T-1): a bidirectional LSTM averaged over the valid steps, then an MLP each for mean and log std.

    As in the authors' code, the last hidden layer of the mean's MLP starts `mean_scale` times larger, and the standard
    deviation starts near `init_std`.
    """

    lstm: BidirectionalLSTM
    mean: MLP
    log_std: MLP

    def __init__(
        self, inputs: int, latents: int, hidden: Sequence[int], key: Array, init_std: float = 0.1,
        mean_scale: float = 10.0,
    ) -> None:  # fmt: skip
        lstm_key, mean_key, std_key = jax.random.split(key, 3)
        width = hidden[0]
        self.lstm = BidirectionalLSTM(inputs, width, lstm_key)
        mean = MLP(2 * width, latents, hidden, jax.nn.relu, "xavier_uniform", mean_key)
        log_std = MLP(2 * width, latents, hidden, jax.nn.relu, "xavier_uniform", std_key)
        last_hidden = mean.trunk.layers[-1].weight
        self.mean = eqx.tree_at(lambda m: m.trunk.layers[-1].weight, mean, mean_scale * last_hidden)
        start = jnp.full(latents, jnp.log(init_std), jnp.float32)
        self.log_std = eqx.tree_at(lambda m: m.output.bias, log_std, start)

    def __call__(self, states: Array, lengths: Array) -> tuple[Array, Array]:
        """Mean and standard deviation, each (B, d), for trajectories (B, T, n) with valid lengths (B,)."""
        outputs = self.lstm(states, lengths)
        average = outputs.sum(axis=1) / lengths[:, None]
        return self.mean(average), jnp.maximum(jnp.exp(self.log_std(average)), STD_FLOOR)
