import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from ibol.nn.distributions import ScaledBeta, TanhNormal, beta_noise

# Gauss-Legendre nodes and weights on [-1, 1]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)
COUNT = 10_000
RAW_BETAS = [(-4.0, -4.0), (0.0, 0.0), (2.0, -1.0), (3.0, 5.0)]
EXTREME_BETAS = [(60.0, -60.0), (-60.0, 60.0), (-60.0, -60.0)]
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
    by_p = function(p + step, q) - function(p - step, q)
    by_q = function(p, q + step) - function(p, q - step)
    return np.array([by_p, by_q]) / (2 * step)


def draw(kind, params):
    """COUNT samples for each pair of parameters, with each sample's gradients, in one jitted call.

    Returns {"sample", "log_prob"} of (pairs, COUNT) and the gradients {"f", "entropy"} of (pairs, COUNT, 2).
    """

    @jax.jit
    def evaluate(first, second, key):
        def values(a, b):
            sample, log_prob = kind(a, b).sample_and_log_prob(key)
            return f(sample[..., 0]), -log_prob, sample[..., 0]

        (_, entropy, sample), pull_back = jax.vjp(values, first, second)
        one, zero = jnp.ones_like(sample), jnp.zeros_like(sample)
        return {
            "sample": sample,
            "log_prob": -entropy,
            "f": jnp.concatenate(pull_back((one, zero, zero)), axis=-1),
            "entropy": jnp.concatenate(pull_back((zero, one, zero)), axis=-1),
        }

    rows = jnp.broadcast_to(jnp.array(params)[:, None, :], (len(params), COUNT, 2))
    drawn = evaluate(rows[..., :1], rows[..., 1:], jax.random.key(1))
    return {name: np.asarray(values, np.float64) for name, values in drawn.items()}


def assert_gradient(single, exact):
    """The mean of the single samples' gradients (COUNT, 2) is the exact one, within 5 standard errors."""
    error = single.std(axis=0) / np.sqrt(COUNT)
    assert np.all(error < 0.02)
    assert np.all(np.abs(single.mean(axis=0) - exact) < 5 * error + 1e-4)


# Beta


@jax.jit
def describe_beta(raw, actions):
    """Log-densities of actions (N, m), entropy and mode."""
    beta = ScaledBeta(*raw)
    return beta.log_prob(actions), beta.entropy(), beta.mode


@pytest.mark.parametrize("raw", RAW_BETAS)
def test_beta_density(raw):
    log_density, entropy, mode = describe_beta(np.array(raw)[:, None], NODES[:, None])
    log_density, reference = np.asarray(log_density, np.float64), reference_beta(*raw)
    assert WEIGHTS @ np.exp(log_density) == pytest.approx(1.0, abs=1e-4)
    # In single precision 1 - x is known to 1 % only at the outermost nodes.
    np.testing.assert_allclose(log_density, reference.logpdf(NODES), rtol=2e-3, atol=1e-4)
    assert float(entropy) == pytest.approx(-WEIGHTS @ (np.exp(log_density) * log_density), abs=1e-3)
    assert float(entropy) == pytest.approx(float(reference.entropy()), abs=1e-4)
    assert float(mode[0]) == pytest.approx(NODES[log_density.argmax()], abs=0.01)


def test_beta_by_hand():
    # Raw values whose softplus is 0.95 and 1.95: Beta(2, 3) has the density 12 x (1 - x)^2 and its mode at 1/3.
    raw = np.log(np.expm1([0.95, 1.95]))
    log_density, _, mode = describe_beta(np.tile(raw[:, None], 2), np.array([[0.0, 0.5]]))
    np.testing.assert_allclose(mode, -1 / 3, rtol=1e-5)
    # Actions 0 and 0.5 are x = 0.5 and 0.75, of densities 1.5 and 0.5625, halved by the wider interval.
    expected = np.log(1.5 / 2) + np.log(0.5625 / 2)
    assert float(log_density[0]) == pytest.approx(expected, rel=1e-5)


def test_beta_parameters_have_a_minimum():
    ours = ScaledBeta(jnp.array([-50.0, 0.0]), jnp.array([-50.0, 0.0]))
    np.testing.assert_allclose(ours.alpha, [1.05, 1.05 + np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(ours.beta, [1.05, 1.05 + np.log(2)], rtol=1e-6)


@pytest.fixture(scope="module")
def drawn_betas():
    return draw(ScaledBeta, RAW_BETAS + EXTREME_BETAS)


def test_beta_samples(drawn_betas):
    for i, raw in enumerate(RAW_BETAS):
        sample, log_prob = drawn_betas["sample"][i], drawn_betas["log_prob"][i]
        # Kolmogorov and Smirnov: a distance beyond 1.95 / sqrt(N) has a chance of 1e-3.
        assert stats.kstest(sample, reference_beta(*raw).cdf, method="asymp").statistic < 1.95 / np.sqrt(COUNT)
        inside = np.abs(sample) < 0.999
        np.testing.assert_allclose(log_prob[inside], reference_beta(*raw).logpdf(sample[inside]), atol=2e-3)


def test_beta_samples_from_noise_that_numpy_draws():
    noise = beta_noise(np.random.default_rng(0), (3, 2), (1000, 4))
    assert noise.shape == (3, 2, 8, 1000, 4)
    for raw in RAW_BETAS:
        distribution = ScaledBeta(*(jnp.full((1000, 4), value) for value in raw))
        samples = np.concatenate(
            [distribution.sample_and_log_prob(one)[0].ravel() for one in noise.reshape(6, 8, 1000, 4)]
        )
        statistic = stats.kstest(samples, reference_beta(*raw).cdf, method="asymp").statistic
        assert statistic < 1.95 / np.sqrt(samples.size)


def test_beta_samples_stay_inside(drawn_betas):
    assert np.abs(drawn_betas["sample"]).max() <= np.float32(1 - 1e-6)
    for name, values in drawn_betas.items():
        assert np.isfinite(values).all(), name


entropy_gradient = jax.jit(jax.grad(lambda raw: ScaledBeta(raw[:1], raw[1:]).entropy()))


@pytest.mark.parametrize("i", range(len(RAW_BETAS)))
def test_beta_gradients(i, drawn_betas):
    raw = RAW_BETAS[i]
    exact = numerical_gradient(lambda a, b: WEIGHTS @ (reference_beta(a, b).pdf(NODES) * f(NODES)), raw)
    assert_gradient(drawn_betas["f"][i], exact)
    exact = numerical_gradient(lambda a, b: reference_beta(a, b).entropy(), raw)
    assert_gradient(drawn_betas["entropy"][i], exact)
    np.testing.assert_allclose(entropy_gradient(np.array(raw)), exact, atol=1e-3)


# tanh-Gaussian


def tanh_normal_logpdf(a, mean, log_std):
    return stats.norm.logpdf(np.arctanh(a), mean, np.exp(log_std)) - np.log1p(-(a**2))


@jax.jit
def describe_gaussian(params, actions):
    """Log-densities of actions (N, m) and mode."""
    gaussian = TanhNormal(*params)
    return gaussian.log_prob(actions), gaussian.mode


@pytest.mark.parametrize("params", GAUSSIANS)
def test_tanh_normal_density(params):
    log_density, mode = describe_gaussian(np.array(params)[:, None], NODES[:, None])
    log_density = np.asarray(log_density, np.float64)
    assert WEIGHTS @ np.exp(log_density) == pytest.approx(1.0, abs=1e-3)
    inside = np.abs(NODES) < 0.99
    np.testing.assert_allclose(log_density[inside], tanh_normal_logpdf(NODES[inside], *params), atol=1e-3)
    assert float(mode[0]) == pytest.approx(np.tanh(params[0]), abs=1e-6)


def test_tanh_normal_by_hand():
    a = np.array([0.6, -0.3])
    log_density, _ = describe_gaussian((np.array([0.2, -0.4]), np.log([0.5, 2.0])), a[None])
    x = np.arctanh(a)
    density = -0.5 * ((x - [0.2, -0.4]) / [0.5, 2.0]) ** 2 - np.log([0.5, 2.0]) - 0.5 * np.log(2 * np.pi)
    expected = np.sum(density - np.log(1 - a**2 + 1e-6))
    assert float(log_density[0]) == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def drawn_gaussians():
    return draw(TanhNormal, GAUSSIANS)


def test_tanh_normal_samples(drawn_gaussians):
    for i, (mean, log_std) in enumerate(GAUSSIANS):
        sample, log_prob = drawn_gaussians["sample"][i], drawn_gaussians["log_prob"][i]
        cdf = stats.norm(mean, np.exp(log_std)).cdf
        assert stats.kstest(np.arctanh(sample), cdf, method="asymp").statistic < 1.95 / np.sqrt(COUNT)
        inside = np.abs(sample) < 0.99
        np.testing.assert_allclose(log_prob[inside], tanh_normal_logpdf(sample[inside], mean, log_std), atol=2e-3)


@pytest.mark.parametrize("mean", [30.0, -30.0])
def test_tanh_normal_log_prob_is_finite_where_the_tanh_is_flat(mean):
    def log_prob(params):
        action, log_prob = TanhNormal(params[:1], params[1:]).sample_and_log_prob(jax.random.key(0))
        return log_prob, action

    (value, action), gradient = jax.jit(jax.value_and_grad(log_prob, has_aux=True))(jnp.array([mean, 0.0]))
    assert abs(float(action[0])) == pytest.approx(1.0, abs=1e-6)
    noise = float(jax.random.normal(jax.random.key(0), (1,))[0])
    # The slope is 0 there up to rounding (1.2e-7), so that its guard 1e-6 takes its place.
    assert float(value) == pytest.approx(stats.norm.logpdf(noise) - np.log(1e-6), abs=0.2)
    assert np.isfinite(gradient).all()


def test_tanh_normal_standard_deviation_is_clamped():
    log_std = jnp.array([-20.0, 0.5, 3.0])
    ours = TanhNormal(jnp.zeros(3), log_std)
    np.testing.assert_allclose(np.exp(ours.log_std), [1e-6, np.exp(0.5), np.exp(2.0)], rtol=1e-5)
    slope = jax.grad(lambda x: jnp.sum(TanhNormal(jnp.zeros(3), x).log_std))(log_std)
    np.testing.assert_array_equal(slope, [0.0, 1.0, 0.0])


@pytest.mark.parametrize("i", range(len(GAUSSIANS)))
def test_tanh_normal_gradients(i, drawn_gaussians):
    # Expectations over the Gaussian, by Gauss-Hermite quadrature.
    points, weights = np.polynomial.hermite_e.hermegauss(100)
    weights = weights / weights.sum()

    def expected_f(mean, log_std):
        return weights @ f(np.tanh(mean + np.exp(log_std) * points))

    def entropy(mean, log_std):
        x = mean + np.exp(log_std) * points
        return stats.norm(mean, np.exp(log_std)).entropy() + weights @ np.log(1 / np.cosh(x) ** 2 + 1e-6)

    params = GAUSSIANS[i]
    assert_gradient(drawn_gaussians["f"][i], numerical_gradient(expected_f, params))
    assert_gradient(drawn_gaussians["entropy"][i], numerical_gradient(entropy, params))


@pytest.mark.parametrize("kind", [TanhNormal, ScaledBeta])
def test_dimensions_are_independent_and_summed(kind):
    @jax.jit
    def log_probs(first, second, action):
        parts = [kind(first[:, [j]], second[:, [j]]).log_prob(action[:, [j]]) for j in range(3)]
        return kind(first, second).log_prob(action), sum(parts)

    first, second = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    together, parts = log_probs(first, second, np.tanh(first) / 2)
    assert together.shape == (4,)
    np.testing.assert_allclose(together, parts, rtol=1e-5)
    sample, log_prob = jax.eval_shape(lambda: kind(first, second).sample_and_log_prob(jax.random.key(0)))
    assert sample.shape == (4, 3)
    assert log_prob.shape == (4,)


def test_a_transported_action_keeps_its_place_and_follows_the_moments() -> None:
    origin, here = ScaledBeta(jnp.array(1.0), jnp.array(0.5)), ScaledBeta(jnp.array(4.0), jnp.array(9.0))
    actions = jax.vmap(origin.sample)(jax.random.split(jax.random.key(0), 20_000))
    np.testing.assert_allclose(origin.transport(actions, origin), actions, atol=1e-5)
    moved = 2 * np.arctanh(here.transport(actions, origin))
    wanted = 2 * np.arctanh(jax.vmap(here.sample)(jax.random.split(jax.random.key(1), 20_000)))
    np.testing.assert_allclose(moved.mean(), special.digamma(here.alpha) - special.digamma(here.beta), atol=0.02)
    np.testing.assert_allclose([moved.mean(), moved.std()], [wanted.mean(), wanted.std()], atol=0.02)


def test_gradients_through_transported_actions_are_nearly_exact() -> None:
    """E[log of a Beta density] has a closed form; its gradient through transported samples comes close to it."""
    a, b = 3.0, 1.8

    def exact(raw: jax.Array) -> jax.Array:
        policy, digamma = ScaledBeta(raw[0], raw[1]), jax.scipy.special.digamma
        both = digamma(policy.alpha + policy.beta)
        return (a - 1) * (digamma(policy.alpha) - both) + (b - 1) * (digamma(policy.beta) - both)

    for raw in (jnp.array([0.0, 0.0]), jnp.array([10.0, 3.0])):
        old = ScaledBeta(*jnp.broadcast_to(raw[:, None], (2, 100_000)))
        actions = old.sample(jax.random.key(0))

        def estimate(raw: jax.Array, old: ScaledBeta = old, actions: jax.Array = actions) -> jax.Array:
            x = (ScaledBeta(*jnp.broadcast_to(raw[:, None], (2, 100_000))).transport(actions, old) + 1) / 2
            return jnp.mean((a - 1) * jnp.log(x) + (b - 1) * jnp.log1p(-x))

        np.testing.assert_allclose(jax.grad(estimate)(raw), jax.grad(exact)(raw), rtol=0.1, atol=1e-3)


def test_a_transported_action_stays_inside() -> None:
    """Far out in a wide distribution, the hyperbolic tangent rounds to 1."""
    narrow, wide = ScaledBeta(jnp.array(3000.0), jnp.array(3000.0)), ScaledBeta(jnp.array(-60.0), jnp.array(-60.0))
    moved = wide.transport(jnp.array([-0.5, 0.5]), narrow)
    assert (jnp.abs(moved) < 1).all()
    assert jnp.isfinite(wide.log_probs(moved)).all()
