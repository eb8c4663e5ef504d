import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ibol.nn.distributions import ScaledBeta, TanhNormal

# Gauss-Legendre nodes and weights on [-1, 1]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(1000)
RAW_BETAS = [(-4.0, -4.0), (0.0, 0.0), (2.0, -1.0), (3.0, 5.0)]
GAUSSIANS = [(0.0, 0.0), (0.5, -1.0), (-1.0, 0.3)]


def softplus(x):
    return np.log1p(np.exp(x))


def reference_beta(raw_alpha, raw_beta):
    """SciPy's Beta on [-1, 1]."""
    return stats.beta(softplus(raw_alpha) + 1.05, softplus(raw_beta) + 1.05, loc=-1, scale=2)


def f(a):
    """A function without symmetry, to take expectations of."""
    return a**3 + a**2 - a / 2


def numerical_gradient(function, params, step=1e-4):
    """Central differences of a function of two parameters."""
    p, q = params
    return np.array([function(p + step, q) - function(p - step, q), function(p, q + step) - function(p, q - step)]) / (
        2 * step
    )


def sampled_gradient(make, value, params, count=200_000):
    """Mean and standard error of the single samples' gradients of `value(distribution, key)`, (2,) each."""

    @jax.jit
    def gradients(first, second, key):
        return jax.grad(lambda a, b: jnp.sum(value(make(a, b), key)), argnums=(0, 1))(first, second)

    rows = [jnp.full((count, 1), p) for p in params]
    single = np.concatenate(gradients(*rows, jax.random.key(1)), axis=1, dtype=np.float64)
    return single.mean(axis=0), single.std(axis=0) / np.sqrt(count)


# Beta


@pytest.mark.parametrize("raw", RAW_BETAS)
def test_beta_density(raw):
    ours, reference = ScaledBeta(*(jnp.array([r]) for r in raw)), reference_beta(*raw)
    log_density = np.asarray(ours.log_prob(jnp.asarray(NODES)[:, None]), np.float64)
    assert WEIGHTS @ np.exp(log_density) == pytest.approx(1.0, abs=1e-4)
    np.testing.assert_allclose(log_density, reference.logpdf(NODES), rtol=1e-4, atol=1e-4)
    entropy = -WEIGHTS @ (np.exp(log_density) * log_density)
    assert float(ours.entropy()) == pytest.approx(entropy, abs=1e-3)
    assert float(ours.entropy()) == pytest.approx(float(reference.entropy()), abs=1e-4)
    assert float(ours.mode[0]) == pytest.approx(NODES[log_density.argmax()], abs=0.004)


def test_beta_by_hand():
    # Raw values whose softplus is 0.95 and 1.95: Beta(2, 3) has the density 12 x (1 - x)^2 and its mode at 1/3.
    raw = np.log(np.expm1([0.95, 1.95]))
    ours = ScaledBeta(jnp.full((2,), raw[0]), jnp.full((2,), raw[1]))
    np.testing.assert_allclose(ours.alpha, 2.0, rtol=1e-6)
    np.testing.assert_allclose(ours.beta, 3.0, rtol=1e-6)
    np.testing.assert_allclose(ours.mode, -1 / 3, rtol=1e-5)
    # Actions 0 and 0.5 are x = 0.5 and 0.75, of densities 1.5 and 0.5625, halved by the wider interval.
    expected = np.log(1.5 / 2) + np.log(0.5625 / 2)
    assert float(ours.log_prob(jnp.array([0.0, 0.5]))) == pytest.approx(expected, rel=1e-5)


def test_beta_parameters_have_a_minimum():
    ours = ScaledBeta(jnp.array([-50.0, 0.0]), jnp.array([-50.0, 0.0]))
    np.testing.assert_allclose(ours.alpha, [1.05, 1.05 + np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(ours.beta, [1.05, 1.05 + np.log(2)], rtol=1e-6)


@pytest.mark.parametrize("raw", RAW_BETAS)
def test_beta_samples(raw):
    ours = ScaledBeta(*(jnp.full((20_000, 1), r) for r in raw))
    samples, log_probs = ours.sample_and_log_prob(jax.random.key(0))
    np.testing.assert_array_equal(samples, ours.sample(jax.random.key(0)))
    np.testing.assert_array_equal(log_probs, ours.log_prob(samples))
    # Kolmogorov and Smirnov: a distance beyond 1.95 / sqrt(N) has a chance of 1e-3.
    assert stats.kstest(np.asarray(samples)[:, 0], reference_beta(*raw).cdf).statistic < 1.95 / np.sqrt(20_000)


@pytest.mark.parametrize("raw", [(60.0, -60.0), (-60.0, 60.0), (-60.0, -60.0)])
def test_beta_samples_stay_inside(raw):
    def total(a, b):
        samples, log_probs = ScaledBeta(a, b).sample_and_log_prob(jax.random.key(0))
        return jnp.sum(samples) + jnp.sum(log_probs), (samples, log_probs)

    rows = [jnp.full((20_000, 1), r) for r in raw]
    gradients, (samples, log_probs) = jax.grad(total, argnums=(0, 1), has_aux=True)(*rows)
    assert np.abs(samples).max() <= np.float32(1 - 1e-6)
    for values in (log_probs, *gradients):
        assert np.isfinite(values).all()


@pytest.mark.parametrize("raw", RAW_BETAS)
def test_beta_gradients_of_an_expectation(raw):
    mean, error = sampled_gradient(ScaledBeta, lambda d, key: f(d.sample_and_log_prob(key)[0]), raw)
    exact = numerical_gradient(lambda a, b: WEIGHTS @ (reference_beta(a, b).pdf(NODES) * f(NODES)), raw)
    assert np.all(np.abs(mean - exact) < 5 * error + 1e-4)
    assert np.all(error < 0.01)


@pytest.mark.parametrize("raw", RAW_BETAS)
def test_beta_gradients_of_the_entropy(raw):
    mean, error = sampled_gradient(ScaledBeta, lambda d, key: -d.sample_and_log_prob(key)[1], raw)
    exact = numerical_gradient(lambda a, b: reference_beta(a, b).entropy(), raw)
    assert np.all(np.abs(mean - exact) < 5 * error + 1e-4)
    assert np.all(error < 0.02)
    closed = jax.grad(lambda a, b: ScaledBeta(a[None], b[None]).entropy(), argnums=(0, 1))(*map(jnp.float32, raw))
    np.testing.assert_allclose(closed, exact, atol=1e-3)


# tanh-Gaussian


def tanh_normal_logpdf(a, mean, log_std):
    return stats.norm.logpdf(np.arctanh(a), mean, np.exp(log_std)) - np.log1p(-(a**2))


@pytest.mark.parametrize("params", GAUSSIANS)
def test_tanh_normal_density(params):
    ours = TanhNormal(*(jnp.array([p]) for p in params))
    log_density = np.asarray(ours.log_prob(jnp.asarray(NODES)[:, None]), np.float64)
    assert WEIGHTS @ np.exp(log_density) == pytest.approx(1.0, abs=1e-3)
    inside = np.abs(NODES) < 0.99
    np.testing.assert_allclose(log_density[inside], tanh_normal_logpdf(NODES[inside], *params), atol=1e-3)
    assert float(ours.mode[0]) == pytest.approx(np.tanh(params[0]), abs=1e-6)


def test_tanh_normal_by_hand():
    ours = TanhNormal(jnp.array([0.2, -0.4]), jnp.log(jnp.array([0.5, 2.0])))
    a = np.array([0.6, -0.3])
    x = np.arctanh(a)
    density = -0.5 * ((x - [0.2, -0.4]) / [0.5, 2.0]) ** 2 - np.log([0.5, 2.0]) - 0.5 * np.log(2 * np.pi)
    expected = np.sum(density - np.log(1 - a**2 + 1e-6))
    assert float(ours.log_prob(jnp.asarray(a))) == pytest.approx(expected, rel=1e-5)


def test_tanh_normal_samples():
    ours = TanhNormal(jnp.full((20_000, 1), 0.5), jnp.full((20_000, 1), -0.5))
    samples, log_probs = ours.sample_and_log_prob(jax.random.key(0))
    np.testing.assert_array_equal(samples, ours.sample(jax.random.key(0)))
    before = np.arctanh(np.asarray(samples, np.float64)[:, 0])
    assert stats.kstest(before, stats.norm(0.5, np.exp(-0.5)).cdf).statistic < 1.95 / np.sqrt(20_000)
    np.testing.assert_allclose(log_probs, tanh_normal_logpdf(np.tanh(before), 0.5, -0.5), atol=2e-3)


@pytest.mark.parametrize("mean", [30.0, -30.0])
def test_tanh_normal_log_prob_is_finite_where_the_tanh_is_flat(mean):
    def log_prob(mean, log_std):
        action, log_prob = TanhNormal(mean, log_std).sample_and_log_prob(jax.random.key(0))
        return log_prob, action

    (log_probs, action), gradients = jax.value_and_grad(log_prob, argnums=(0, 1), has_aux=True)(
        jnp.array([mean]), jnp.array([0.0])
    )
    assert abs(float(action[0])) == 1.0
    draw = float(jax.random.normal(jax.random.key(0), (1,))[0])
    # The slope is 0 there, so that its guard 1e-6 takes its place.
    assert float(log_probs) == pytest.approx(stats.norm.logpdf(draw) - np.log(1e-6), rel=1e-4)
    np.testing.assert_allclose(gradients, [[0.0], [-1.0]], atol=1e-4)


def test_tanh_normal_standard_deviation_is_clamped():
    log_std = jnp.array([-20.0, 0.5, 3.0])
    ours = TanhNormal(jnp.zeros(3), log_std)
    np.testing.assert_allclose(np.exp(ours.log_std), [1e-6, np.exp(0.5), np.exp(2.0)], rtol=1e-5)
    slope = jax.grad(lambda x: jnp.sum(TanhNormal(jnp.zeros(3), x).log_std))(log_std)
    np.testing.assert_array_equal(slope, [0.0, 1.0, 0.0])


@pytest.mark.parametrize("params", GAUSSIANS)
def test_tanh_normal_gradients(params):
    # Expectations over the Gaussian, by Gauss-Hermite quadrature.
    points, weights = np.polynomial.hermite_e.hermegauss(100)
    weights = weights / weights.sum()

    def expected_f(mean, log_std):
        return weights @ f(np.tanh(mean + np.exp(log_std) * points))

    def entropy(mean, log_std):
        x = mean + np.exp(log_std) * points
        return stats.norm(mean, np.exp(log_std)).entropy() + weights @ np.log(1 / np.cosh(x) ** 2 + 1e-6)

    for value, exact in (
        (lambda d, key: f(d.sample(key)), expected_f),
        (lambda d, key: -d.sample_and_log_prob(key)[1], entropy),
    ):
        mean, error = sampled_gradient(TanhNormal, value, params)
        assert np.all(np.abs(mean - numerical_gradient(exact, params)) < 5 * error + 1e-4)
        assert np.all(error < 0.01)


@pytest.mark.parametrize("kind", [TanhNormal, ScaledBeta])
def test_dimensions_are_independent_and_summed(kind):
    key = jax.random.key(2)
    first, second = jax.random.normal(key, (2, 4, 3))
    joint, action = kind(first, second), 0.5 * jnp.tanh(first)
    assert joint.sample(key).shape == joint.mode.shape == (4, 3)
    assert joint.log_prob(action).shape == joint.sample_and_log_prob(key)[1].shape == (4,)
    parts = [kind(first[:, [j]], second[:, [j]]).log_prob(action[:, [j]]) for j in range(3)]
    np.testing.assert_allclose(joint.log_prob(action), sum(parts), rtol=1e-5)
