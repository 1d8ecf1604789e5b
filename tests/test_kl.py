"""Divergences against quadrature, mpmath and sampling."""

import keras
import mpmath
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from tensorflow_probability import distributions as tfd
from ztests import assert_mean

import tfvn
from tfvn import support
from tfvn.distributions import (
    ARD,
    DiminishingStudentT,
    KTiedNormal,
    LogUniform,
    LogVarianceNormal,
    MultiplicativeNormal,
    SpikeAndSlab,
    ZeroMeanNormal,
    ZeroMeanUniform,
)
from tfvn.kl import log_uniform_exact, log_uniform_molchanov

# What KL(q || LogUniform) leaves out, from E[log|w|] in closed form.
GAUSSIAN_CONSTANT = 0.5 * (special.digamma(0.5) - np.log(np.pi * np.e))
UNIFORM_CONSTANT = -(1.0 + np.log(2.0))


def two_normals(slab, spike):
    """A spike and slab of equal weights, in double precision."""
    scales = np.array([slab, spike])
    halves = tfd.Categorical(probs=np.array([0.5, 0.5]))
    return tfd.MixtureSameFamily(halves, tfd.Normal(np.zeros(2), scales))


# Priors without a closed form, for any floating-point type.
ANY = {
    "student_t": lambda t: tfd.StudentT(t(3.0), t(0.1), t(0.5)),
    "laplace": lambda t: tfd.Laplace(t(0.0), t(0.4)),
    "horseshoe": lambda t: tfd.Horseshoe(t(0.5)),
    "spike_and_slab": lambda t: (
        SpikeAndSlab(0.7, 0.05) if t is np.float32 else two_normals(0.7, 0.05)
    ),
    "cauchy": lambda t: tfd.Cauchy(t(0.0), t(0.3)),
    "mixture": lambda t: tfd.MixtureSameFamily(
        tfd.Categorical(probs=t([0.3, 0.7])), tfd.Normal(t([0.0, 0.5]), t([0.1, 2.0]))
    ),
}


def quadrature(q, p, bounds):
    """KL(q || p) of scalar distributions, by Gauss-Legendre in double precision."""
    # Panels shrink towards zero, where densities may have a kink or a pole.
    shrinking = np.max(np.abs(bounds)) * 2.0 ** -np.arange(60)
    edges = np.concatenate([np.linspace(*bounds, 50), shrinking, -shrinking, [0.0]])
    edges = np.unique(np.clip(edges, *bounds))
    nodes, factors = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, np.newaxis] / 2
    w = edges[:-1, np.newaxis] + half * (1 + nodes)
    log_q, log_p = q.log_prob(w).numpy(), p.log_prob(w).numpy()
    return np.sum(half * factors * np.exp(log_q) * (log_q - log_p))


def gaussian(mean, scale):
    q = tfd.Normal(np.float64(mean), np.float64(scale))
    return q, (mean - 12 * scale, mean + 12 * scale)


def uniform(scale):
    return ZeroMeanUniform(np.float64(scale)), (-scale, scale)


def exact_reference(u):
    """u 2F2(1, 1; 3/2, 2; -u) in many digits."""
    if u > 100:
        # 0.5 log(4 u) + gamma / 2 - sum_k (2k - 1)!! / (2^(k+1) k u^k).
        terms = [
            float(special.factorial2(2 * k - 1)) / (2 ** (k + 1) * k * u**k)
            for k in range(1, 12)
        ]
        return 0.5 * (np.log(4 * u) + np.euler_gamma) - sum(terms)
    with mpmath.workdps(80):
        return float(u * mpmath.hyper([1, 1], [1.5, 2], -mpmath.mpf(u)))


def slope_reference(u):
    """The derivative of the above: D(sqrt(u)) / sqrt(u)."""
    root = np.sqrt(np.maximum(u, 1e-300))
    return special.dawsn(root) / root


def value_and_gradients(function, *arguments, jit_compile=None):
    def compute(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            value = function(*tensors)
        return value, tape.gradient(value, tensors)

    if jit_compile is not None:
        compute = tf.function(compute, jit_compile=jit_compile)
    value, gradients = compute(*(tf.constant(a, tf.float32) for a in arguments))
    return value.numpy(), [gradient.numpy() for gradient in gradients]


class TestLogUniformExact:
    # Both ends, the places where formulas switch, and everything in between.
    RATIOS = np.sqrt(
        2.0
        * np.concatenate(
            [
                [0.0, 1e-30, 1e-12],
                np.logspace(-8, 6, 150),
                *(c * (1 + np.linspace(-1e-3, 1e-3, 7)) for c in (1e-4, 5.0, 50.0)),
                # Where tfp.math.dawsn changes its formula, |x| = 3.25, 6.25, 1e9.
                *(c**2 * (1 + np.linspace(-1e-3, 1e-3, 7)) for c in (3.25, 6.25)),
            ]
        )
    ).astype("float32")

    @pytest.mark.parametrize("jit_compile", [None, False, True])
    @pytest.mark.parametrize("scale", [1.0, 0.013])
    def test_value_and_gradient(self, scale, jit_compile):
        scale = np.float32(scale)
        mean = self.RATIOS * scale
        u = 0.5 * np.square(mean.astype("float64") / np.float64(scale))
        value, (by_mean, by_scale) = value_and_gradients(
            log_uniform_exact, mean, np.full_like(mean, scale), jit_compile=jit_compile
        )
        slope = slope_reference(u) * mean.astype("float64") / np.float64(scale) ** 2
        reference = [exact_reference(x) for x in u]
        np.testing.assert_allclose(value, reference, rtol=1e-5, atol=1e-35)
        np.testing.assert_allclose(by_mean, slope, rtol=1e-5, atol=1e-35)
        np.testing.assert_allclose(by_scale, -slope * mean / scale, rtol=1e-5)

    @pytest.mark.parametrize("jit_compile", [None, True])
    def test_derivative_by_u_is_one_at_zero(self, jit_compile):
        # u is mean^2 / 2 here, so the second derivative by the mean is du KL = 1.
        def slope(mean):
            with tf.GradientTape() as tape:
                tape.watch(mean)
                value = log_uniform_exact(mean, tf.ones_like(mean))
            return tape.gradient(value, mean)

        _, (second,) = value_and_gradients(slope, [0.0, 1e-6], jit_compile=jit_compile)
        np.testing.assert_allclose(second, 1.0, rtol=1e-5)

    def test_constant_is_the_documented_one(self):
        q, bounds = gaussian(0.7, 0.4)
        prior = LogUniform(dtype=tf.float64)
        expected = quadrature(q, prior, bounds) + 2.0541200
        assert float(log_uniform_exact(0.7, 0.4)) == pytest.approx(expected, abs=1e-6)
        assert pytest.approx(-2.0541200, abs=1e-7) == GAUSSIAN_CONSTANT

    def test_double_precision(self):
        value = log_uniform_exact(np.float64(1.2), np.float64(0.3))
        assert value.dtype == tf.float64
        assert float(value) == pytest.approx(exact_reference(8.0), rel=1e-6)


class TestLogUniformMolchanov:
    LOG_ALPHA = np.linspace(-12, 12, 481)

    def test_error_against_exact(self):
        exact = [exact_reference(u) for u in 0.5 * np.exp(-self.LOG_ALPHA)]
        error = np.abs(log_uniform_molchanov(self.LOG_ALPHA) - exact)
        assert error.max() == pytest.approx(0.0094, abs=1e-4)
        assert self.LOG_ALPHA[error.argmax()] == pytest.approx(-3.5, abs=0.1)

    def test_falls_from_large_to_zero(self):
        # edward2 ships this with the sign flipped: rising, and never positive.
        divergence = log_uniform_molchanov(self.LOG_ALPHA).numpy()
        assert np.all(divergence >= 0)
        assert np.all(np.diff(divergence) < 0)
        assert divergence[0] > 6
        assert float(log_uniform_molchanov(80.0)) == pytest.approx(0.0, abs=1e-30)

    def test_is_an_option_of_the_prior(self):
        mean, scale = np.float32([0.0, -0.3, 2.0]), np.float32([0.5, 0.2, 0.1])
        q = tfd.Normal(mean, scale)
        divergence = tfd.kl_divergence(q, LogUniform(kl="molchanov")).numpy()
        with np.errstate(divide="ignore"):
            log_alpha = np.minimum(2 * np.log(scale / np.abs(mean)), 80)
        np.testing.assert_allclose(
            divergence, log_uniform_molchanov(log_alpha), rtol=1e-5, atol=1e-30
        )
        exact = tfd.kl_divergence(q, LogUniform()).numpy()
        assert 1e-4 < np.abs(divergence - exact).max() < 0.0095


class TestClosedForms:
    """Every pair of the table that is not estimated."""

    @pytest.mark.parametrize(
        ("mean", "scale"), [(0.0, 1.0), (0.3, 0.05), (-1.5, 2.0), (2.0, 0.1)]
    )
    def test_gaussian_to_normal(self, mean, scale):
        q, bounds = gaussian(mean, scale)
        p = tfd.Normal(np.float64(0.2), np.float64(0.7))
        expected = quadrature(q, p, bounds)
        assert float(tfd.kl_divergence(q, p)) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize(
        ("mean", "scale"), [(0.0, 1.0), (0.3, 0.05), (-1.5, 2.0), (2.0, 0.7)]
    )
    def test_gaussian_to_log_uniform(self, mean, scale):
        q, bounds = gaussian(mean, scale)
        p = LogUniform(dtype=tf.float64)
        expected = quadrature(q, p, bounds) - GAUSSIAN_CONSTANT
        divergence = float(tfd.kl_divergence(q, p))
        assert divergence == pytest.approx(expected, rel=1e-5, abs=1e-7)

    @pytest.mark.parametrize(
        ("mean", "scale"), [(0.0, 1.0), (0.3, 0.05), (-1.5, 2.0), (2.0, 0.1)]
    )
    def test_gaussian_to_ard(self, mean, scale):
        q, bounds = gaussian(mean, scale)
        best = tfd.Normal(np.float64(0.0), np.hypot(mean, scale))
        divergence = float(tfd.kl_divergence(q, ARD(dtype=tf.float64)))
        assert divergence == pytest.approx(0.5 * np.log1p((mean / scale) ** 2))
        assert divergence == pytest.approx(quadrature(q, best, bounds), abs=1e-6)

    @pytest.mark.parametrize("scale", [0.02, 0.5, 3.0])
    def test_uniform_to_normal(self, scale):
        q, bounds = uniform(scale)
        p = tfd.Normal(np.float64(0.2), np.float64(0.7))
        expected = quadrature(q, p, bounds)
        assert float(tfd.kl_divergence(q, p)) == pytest.approx(expected, rel=1e-6)

    def test_uniform_that_is_not_centred_to_normal(self):
        q = tfd.Uniform(np.float64(-0.3), np.float64(1.1))
        p = tfd.Normal(np.float64(0.2), np.float64(0.7))
        expected = quadrature(q, p, (-0.3, 1.1))
        assert float(tfd.kl_divergence(q, p)) == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("scale", [0.02, 0.5, 3.0])
    def test_uniform_to_log_uniform(self, scale):
        q, bounds = uniform(scale)
        p = LogUniform(dtype=tf.float64)
        true_divergence = quadrature(q, p, bounds)
        assert true_divergence == pytest.approx(UNIFORM_CONSTANT, abs=1e-6)
        assert float(tfd.kl_divergence(q, p)) == 0.0

    @pytest.mark.parametrize("prior", [LogUniform(), LogUniform("molchanov"), ARD()])
    def test_zero_mean_is_constant(self, prior):
        scale = tf.constant([[1e-12, 0.1, 1e10]])
        value, (gradient,) = value_and_gradients(
            lambda s: tfd.kl_divergence(ZeroMeanNormal(s), prior) + 0.0 * s, scale
        )
        np.testing.assert_array_equal(value, np.zeros((1, 3)))
        np.testing.assert_array_equal(gradient, np.zeros((1, 3)))

    @pytest.mark.parametrize("jit_compile", [None, True])
    @pytest.mark.parametrize(
        "prior", [LogUniform(), LogUniform("molchanov"), ARD(), tfd.Normal(0.0, 1.0)]
    )
    def test_extreme_values_stay_finite(self, prior, jit_compile):
        mean, scale = np.meshgrid(
            np.float32([0.0, 1e-30, -1.0, 1e10]), np.float32([1e-12, 1.0, 1e10])
        )
        value, gradients = value_and_gradients(
            lambda m, s: tfd.kl_divergence(tfd.Normal(m, s), prior),
            mean,
            scale,
            jit_compile=jit_compile,
        )
        assert np.all(np.isfinite(value))
        assert all(np.all(np.isfinite(gradient)) for gradient in gradients)

    @settings(deadline=None, max_examples=200, derandomize=True)
    @given(
        mean=st.floats(-1e10, 1e10, width=32),
        scale=st.floats(1e-12, 1e10),
        prior=st.sampled_from(
            [LogUniform(), LogUniform("molchanov"), ARD(), tfd.Normal(0.5, 0.3)]
        ),
    )
    def test_is_never_negative(self, mean, scale, prior):
        q = tfd.Normal(np.float32(mean), np.float32(scale))
        divergence = float(tfd.kl_divergence(q, prior))
        # A difference of terms of size 1 can round below zero.
        assert divergence >= -1e-6
        assert np.isfinite(divergence)


class TestLaplace:
    @pytest.mark.parametrize("loc", [0.0, 0.3])
    @pytest.mark.parametrize(
        ("mean", "scale"), [(0.0, 1.0), (0.3, 0.05), (-1.5, 2.0), (2.0, 0.1)]
    )
    def test_closed_form_against_quadrature(self, mean, scale, loc):
        q, _ = gaussian(mean, scale)
        p = tfd.Laplace(np.float64(loc), np.float64(0.4))
        # Moved to where the kink is, around which panels shrink.
        moved, bounds = gaussian(mean - loc, scale)
        expected = quadrature(moved, tfd.Laplace(np.float64(0.0), p.scale), bounds)
        assert float(tfd.kl_divergence(q, p)) == pytest.approx(expected, rel=1e-6)

    def test_extreme_values_stay_finite(self):
        mean, scale = np.meshgrid(
            np.float32([0.0, 1e-30, -1.0, 1e10]), np.float32([1e-12, 1.0, 1e10])
        )
        value, gradients = value_and_gradients(
            lambda m, s: tfd.kl_divergence(tfd.Normal(m, s), tfd.Laplace(0.0, 1.0)),
            mean,
            scale,
        )
        assert np.all(np.isfinite(value))
        assert all(np.all(np.isfinite(gradient)) for gradient in gradients)


ALPHA_SHAPES = {"layer": (), "neuron": (1, 3), "weight": (4, 3)}


class TestMultiplicativeNormal:
    """Weights that share an alpha, against the sum over the weights."""

    LOG_ALPHA = np.linspace(np.log(1e-8), np.log(1e8), 12)

    def alphas(self, granularity):
        shape = ALPHA_SHAPES[granularity]
        return np.resize(self.LOG_ALPHA[2:], shape).astype("float32")

    @pytest.mark.parametrize("granularity", ALPHA_SHAPES)
    @pytest.mark.parametrize("prior", ["exact", "molchanov", "ard"])
    def test_sum_over_the_weights(self, prior, granularity):
        log_alpha = self.alphas(granularity)
        # Not of the means, even where they are zero.
        mean = np.linspace(-1.0, 2.0, 12).reshape(4, 3).astype("float32")
        mean[0, 1] = 0.0
        each = np.broadcast_to(log_alpha, (4, 3)).ravel().astype("float64")
        p = ARD() if prior == "ard" else LogUniform(prior)
        if prior == "ard":
            expected = 0.5 * np.sum(np.log1p(np.exp(-each)))
        elif prior == "exact":
            expected = sum(exact_reference(0.5 * np.exp(-x)) for x in each)
        else:
            expected = float(tf.reduce_sum(log_uniform_molchanov(each)))
        q = MultiplicativeNormal(mean, log_alpha)
        assert float(tfvn.kl.total(q, p)) == pytest.approx(expected, rel=1e-5)
        assert tfd.kl_divergence(q, p).shape == (4, 3)

    @pytest.mark.parametrize("prior", [LogUniform(), LogUniform("molchanov"), ARD()])
    def test_stays_finite_from_1e_minus_8_to_1e8(self, prior):
        value, (gradient,) = value_and_gradients(
            lambda a: tfd.kl_divergence(
                MultiplicativeNormal(tf.ones_like(a), a), prior
            ),
            self.LOG_ALPHA,
        )
        assert np.all(np.isfinite(value))
        assert np.all(value >= 0)
        assert np.all(np.diff(value) < 0)
        assert np.all(np.isfinite(gradient))
        assert np.all(gradient <= 0)
        # At 1e-8, 0.5 (log 2 + gamma - log alpha) and half a nat per unit of log alpha.
        np.testing.assert_allclose(gradient[0], -0.5, rtol=1e-3)

    @pytest.mark.parametrize("alpha", ["layer", "neuron", "weight"])
    @pytest.mark.parametrize("log_alpha", [-1e4, np.log(1e-8), np.log(1e8), 1e4])
    def test_layers_stay_finite(self, alpha, log_alpha):
        layer = tfvn.GaussianDropoutDense(3, alpha=alpha, kl_weight=1.0)
        layer.build((None, 4))
        (variable,) = layer.variable_groups["scale"]
        variable.assign(np.full(variable.shape, log_alpha))
        with tf.GradientTape() as tape:
            outputs = layer(np.ones((2, 4), "float32"))
            loss = tf.reduce_sum(outputs) + sum(layer.losses)
        variables = [v.value for v in layer.trainable_variables]
        assert np.all(np.isfinite(outputs))
        assert np.isfinite(loss)
        for gradient in tape.gradient(loss, variables):
            assert np.all(np.isfinite(gradient))

    def test_updates_keep_alpha_in_its_range(self):
        layer = tfvn.GaussianDropoutDense(3, initial_log_alpha=18.0, kl_weight=1.0)
        layer.build((None, 4))
        (variable,) = layer.variable_groups["scale"]
        keras.optimizers.SGD(1.0).apply([tf.constant(-50.0)], [variable])
        assert float(variable.numpy()) == pytest.approx(np.log(1e8), rel=1e-6)


def scattered(*shape, low=0.05, high=1.5):
    return np.random.default_rng(4).uniform(low, high, shape).astype("float32")


GAUSSIANS = {
    "normal": lambda: tfd.Normal(scattered(4, 3, low=-1.0), scattered(4, 3)),
    "zero_mean": lambda: ZeroMeanNormal(scattered(4, 3)),
    "log_variance": lambda: LogVarianceNormal(
        scattered(4, 3, low=-1.0), scattered(4, 3, low=-3.0)
    ),
    "multiplicative": lambda: MultiplicativeNormal(
        scattered(4, 3), scattered(1, 3, low=-3.0)
    ),
    "k_tied": lambda: KTiedNormal(
        scattered(4, 3, low=-1.0), scattered(4, 2), scattered(3, 2)
    ),
    "uniform": lambda: ZeroMeanUniform(scattered(4, 3)),
}
CLOSED = {
    "normal": tfd.Normal(0.2, 0.7),
    "normal-per-weight": tfd.Normal(0.2, scattered(4, 3)),
    "laplace": tfd.Laplace(0.1, 0.7),
    "log_uniform": LogUniform(),
    "molchanov": LogUniform("molchanov"),
    "ard": ARD(),
}


@pytest.mark.parametrize("prior", CLOSED)
@pytest.mark.parametrize("law", GAUSSIANS)
def test_total_is_the_sum_over_the_weights(law, prior):
    if law == "uniform" and prior in ("ard", "laplace"):
        pytest.skip("There is no closed form.")
    q, p = GAUSSIANS[law](), CLOSED[prior]
    each = tfd.kl_divergence(q, p)
    assert each.shape == (4, 3)
    expected = float(tf.reduce_sum(tf.cast(each, tf.float64)))
    assert float(tfvn.kl.total(q, p)) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_diminishing_student_t_is_log_uniform_up_to_a_constant():
    w = np.float32([1e-3, -0.02, 0.5, 30.0])
    student_t, log_uniform = DiminishingStudentT(), LogUniform()
    difference = student_t.log_prob(w) - log_uniform.log_prob(w)
    np.testing.assert_allclose(difference, difference[0], atol=1e-5)
    # What is left out is TFP's normaliser.
    complete = tfd.StudentT(np.float64(1e-16), np.float64(0.0), np.float64(1.0))
    left_out = student_t.log_prob(w) - complete.log_prob(w.astype("float64")).numpy()
    np.testing.assert_allclose(left_out, left_out[0], atol=1e-4)
    # The gradients of the estimate are those of the log-uniform prior.
    q, bounds = gaussian(0.7, 0.4)
    p = LogUniform(dtype=tf.float64)
    sample = np.random.default_rng(1).normal(0.7, 0.4, 50_000).astype("float32")
    q32 = tfd.Normal(np.float32(0.7), np.float32(0.4))
    estimates = tfvn.kl.monte_carlo(q32, student_t, sample).numpy()
    assert_mean(estimates, quadrature(q, p, bounds))


class TestMonteCarlo:
    """Every pair of the table that is estimated is estimated without bias."""

    MEAN, SCALE = 0.3, 0.6

    def make_layer(self, posterior, **kwargs):
        """A layer of equal weights: each is one more draw of the same estimate."""
        layer = tfvn.layers.Dense(
            50, posterior=posterior, use_bias=False, kl_weight=1.0, seed=3, **kwargs
        )
        layer.build((None, 40))
        parameters = layer.posterior
        if posterior == "mean_field":
            parameters.mean_variable.assign(np.full((40, 50), self.MEAN))
            parameters.log_variance_variable.assign(
                np.full((40, 50), 2 * np.log(self.SCALE))
            )
        else:
            parameters.scale.assign(np.full((40, 50), self.SCALE))
        return layer

    def estimate(self, layer):
        """Returns many estimates of the KL of one weight."""
        return np.array([layer.kl_divergence().numpy() for _ in range(60)]) / 2_000

    def expected(self, posterior, prior):
        if posterior == "mean_field":
            q, bounds = gaussian(self.MEAN, self.SCALE)
        elif posterior.law == "gaussian":
            q, bounds = gaussian(0.0, self.SCALE)
        else:
            q, bounds = uniform(self.SCALE)
        return quadrature(q, prior, bounds)

    @pytest.mark.parametrize("prior", ANY)
    @pytest.mark.parametrize(
        "posterior",
        [
            "mean_field",
            tfvn.posteriors.Variance("gaussian"),
            tfvn.posteriors.Variance("uniform"),
        ],
        ids=["mean_field", "variance-gaussian", "variance-uniform"],
    )
    def test_any_distribution(self, posterior, prior):
        layer = self.make_layer(posterior, prior=ANY[prior](np.float32))
        estimates = self.estimate(layer)
        expected = self.expected(posterior, ANY[prior](np.float64))
        assert_mean(estimates, expected)

    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_loss_is_the_estimate(self, estimator):
        prior = "student_t"
        layer = self.make_layer(
            "mean_field", prior=ANY[prior](np.float32), estimator=estimator
        )
        losses = []
        for _ in range(60):
            layer(np.ones((1, 40), "float32"))
            (loss,) = layer.losses
            losses.append(loss.numpy())
        expected = self.expected("mean_field", ANY[prior](np.float64))
        assert_mean(np.array(losses) / 2_000, expected)

    @pytest.mark.parametrize("kl", ["exact", "molchanov"])
    def test_log_uniform_agrees_with_the_closed_form(self, kl):
        analytic = self.make_layer("mean_field", prior=LogUniform(kl))
        estimated = self.make_layer(
            "mean_field", prior=LogUniform(kl), kl_method="monte_carlo"
        )
        expected = exact_reference(0.5 * (self.MEAN / self.SCALE) ** 2)
        tolerance = {"exact": 1e-5, "molchanov": 0.1}[kl]
        assert analytic.kl_divergence().numpy() == pytest.approx(
            2_000 * expected, rel=tolerance
        )
        estimates = self.estimate(estimated)
        assert_mean(estimates, expected)

    def test_uniform_to_log_uniform_leaves_out_the_same_constant(self):
        q = ZeroMeanUniform(tf.fill([50_000], 0.3))
        weights = q.sample(seed=(1, 2))
        assert_mean(tfvn.kl.monte_carlo(q, LogUniform(), weights).numpy(), 0.0)

    def test_normal_agrees_with_the_closed_form(self):
        layer = self.make_layer(
            "mean_field", prior=tfd.Normal(0.2, 0.7), kl_method="monte_carlo"
        )
        estimates = self.estimate(layer)
        p = tfd.Normal(np.float64(0.2), np.float64(0.7))
        assert_mean(estimates, self.expected("mean_field", p))

    def test_gradient_is_unbiased(self):
        layer = self.make_layer(
            "mean_field", prior=ANY["laplace"](np.float32), kl_method="monte_carlo"
        )
        means = layer.posterior.mean_variable
        gradients = []
        for _ in range(30):
            with tf.GradientTape() as tape:
                divergence = layer.kl_divergence()
            gradients.append(tape.gradient(divergence, means.value).numpy())
        step = 1e-4
        above, below = (
            quadrature(q, ANY["laplace"](np.float64), bounds)
            for q, bounds in (
                gaussian(self.MEAN + sign * step, self.SCALE) for sign in (1, -1)
            )
        )
        assert_mean(np.ravel(gradients), (above - below) / (2 * step), rounding=1e-3)

    def test_a_wrong_sign_fails(self):
        layer = self.make_layer(
            "mean_field", prior=ANY["laplace"](np.float32), kl_method="monte_carlo"
        )
        estimates = -self.estimate(layer)
        with pytest.raises(AssertionError, match="The mean of element"):
            assert_mean(
                estimates, self.expected("mean_field", ANY["laplace"](np.float64))
            )


def numpy_normal_kl(mean, scale, prior_scale):
    """Sum over weights, without a mean and without stray constants."""
    ratio = scale / prior_scale
    return np.sum(-np.log(ratio) + 0.5 * (ratio**2 + (mean / prior_scale) ** 2) - 0.5)


class TestLayers:
    def scatter(self, layer):
        rng = np.random.default_rng(2)
        for variable in layer.trainable_variables:
            variable.assign(rng.uniform(-1.5, 1.5, variable.shape))

    @pytest.mark.parametrize("kind", ["dense", "conv2d"])
    @pytest.mark.parametrize("bias_posterior", [None, "mean_field"])
    def test_normal_prior_is_a_sum_over_the_weights(self, kind, bias_posterior):
        layer, shape, fan_in = {
            "dense": (tfvn.MeanFieldDense, (None, 6), 6),
            "conv2d": (tfvn.MeanFieldConv2D, (None, 5, 5, 4), 3 * 3 * 2),
        }[kind]
        arguments = {"conv2d": {"kernel_size": 3, "groups": 2}, "dense": {}}[kind]
        layer = layer(8, bias_posterior=bias_posterior, **arguments)
        layer.build(shape)
        self.scatter(layer)
        parts = [layer.posterior]
        if bias_posterior:
            parts.append(layer.bias_posterior)
        expected = sum(
            numpy_normal_kl(
                part.mean_variable.numpy(),
                np.exp(0.5 * part.log_variance_variable.numpy()),
                np.sqrt(2 / fan_in),
            )
            for part in parts
        )
        assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize("prior", ["normal", "log_uniform", "ard"])
    def test_twice_as_wide_is_twice_as_much(self, prior):
        # bayesian-torch takes the mean, so that width does not matter.
        narrow, wide = (
            tfvn.MeanFieldDense(units, prior=prior, kernel_initializer="random_normal")
            for units in (200, 400)
        )
        narrow.build((None, 30))
        wide.build((None, 30))
        ratio = float(wide.kl_divergence() / narrow.kl_divergence())
        assert ratio == pytest.approx(2.0, rel=0.05)

    def test_posterior_that_is_the_prior_has_no_divergence(self):
        # torch-uncertainty adds 0.5 a weight here.
        layer = tfvn.MeanFieldDense(
            30,
            kernel_initializer="zeros",
            scale_initializer=0.2,
            use_bias=False,
            prior=tfd.Normal(0.0, 0.2),
        )
        layer.build((None, 30))
        assert float(layer.kl_divergence()) == pytest.approx(0.0, abs=1e-3)

    def test_prior_may_have_a_scale_per_weight(self):
        scales = np.linspace(0.1, 2.0, 12).reshape(4, 3).astype("float32")
        layer = tfvn.MeanFieldDense(3, prior=tfd.Normal(0.0, scales))
        layer.build((None, 4))
        self.scatter(layer)
        expected = numpy_normal_kl(
            layer.posterior.mean_variable.numpy(),
            np.exp(0.5 * layer.posterior.log_variance_variable.numpy()),
            scales,
        )
        assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize(
        ("noise", "prior"),
        [
            ("gaussian", "log_uniform"),
            ("gaussian", "ard"),
            ("uniform", "log_uniform"),
            ("gaussian", None),
            ("uniform", None),
            ("bernoulli", None),
        ],
    )
    def test_zero_mean_layers_add_nothing(self, noise, prior):
        layer = tfvn.VarianceDense(3, noise=noise, prior=prior)
        layer(np.ones((2, 4), "float32"))
        assert layer.losses == []
        assert float(layer.kl_divergence()) == 0.0

    @pytest.mark.parametrize("noise", ["gaussian", "uniform"])
    def test_zero_mean_layers_against_a_normal(self, noise):
        layer = tfvn.VarianceDense(3, noise=noise, prior=tfd.Normal(0.0, 0.5))
        layer.build((None, 4))
        q = layer.posterior_distribution()
        assert isinstance(q, ZeroMeanNormal if noise == "gaussian" else ZeroMeanUniform)
        scales = np.abs(layer.posterior.scale.numpy()).ravel()
        p = tfd.Normal(np.float64(0.0), np.float64(0.5))
        make = {"gaussian": lambda s: gaussian(0.0, s), "uniform": uniform}[noise]
        expected = 0.0
        for scale in scales:
            q, bounds = make(float(scale))
            expected += quadrature(q, p, bounds)
        assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize(
        "dtype", ["float64", "mixed_float16", "mixed_bfloat16", "float16", "bfloat16"]
    )
    @pytest.mark.parametrize(
        "prior",
        ["normal", "log_uniform", "ard", tfd.StudentT(3.0, 0.0, 0.5)],
        ids=lambda p: p if isinstance(p, str) else p.name,
    )
    def test_is_computed_in_single_precision_whatever_the_layers(self, prior, dtype):
        layer, reference = (
            tfvn.MeanFieldDense(5, prior=prior, kl_weight=1.0, dtype=d, seed=1)
            for d in (dtype, "float32")
        )
        for each in (layer, reference):
            each.build((None, 6))
            self.scatter(each)
        x = np.ones((2, 6), "float32")
        for each in (layer, reference):
            each(x)
        (loss,) = layer.losses
        assert loss.dtype == tf.float32
        # Half precision loses digits of the variables, not of the sum; an estimate
        # from other random numbers is another one.
        tolerance = 0.05 if dtype in ("float16", "bfloat16") else 1e-5
        if not isinstance(prior, str):
            tolerance = 0.5
        expected = float(reference.losses[0])
        assert float(loss) == pytest.approx(expected, rel=tolerance)

    @pytest.mark.parametrize("noise", ["gaussian", "uniform"])
    def test_is_computed_in_single_precision_for_zero_means(self, noise):
        layer, reference = (
            tfvn.VarianceDense(5, noise=noise, prior="normal", dtype=dtype)
            for dtype in ("float64", "float32")
        )
        for each in (layer, reference):
            each.build((None, 6))
            self.scatter(each)
        assert float(layer.kl_divergence()) == pytest.approx(
            float(reference.kl_divergence()), rel=1e-5
        )

    @pytest.mark.parametrize("jit_compile", [False, True])
    @pytest.mark.parametrize("prior", ["normal", "log_uniform", "ard"])
    def test_same_in_graphs(self, prior, jit_compile):
        layer = tfvn.MeanFieldDense(5, prior=prior)
        layer.build((None, 6))
        self.scatter(layer)
        graph = tf.function(layer.kl_divergence, jit_compile=jit_compile)
        assert float(graph()) == pytest.approx(float(layer.kl_divergence()), rel=1e-5)


class TestMethod:
    @pytest.mark.parametrize("part", ["prior", "bias_prior"])
    @pytest.mark.parametrize(
        ("prior", "kl_method", "message"),
        [
            (tfd.Cauchy(0.0, 1.0), "analytic", "has no closed form; expected"),
            ("ard", "monte_carlo", "has no density to compare samples with; expected"),
        ],
        ids=["analytic", "monte_carlo"],
    )
    def test_that_does_not_fit_the_prior(self, part, prior, kl_method, message):
        with pytest.raises(ValueError, match=message):
            tfvn.MeanFieldDense(
                3,
                kl_method=kl_method,
                bias_posterior="mean_field",
                **{"prior": "normal", part: prior},
            )

    def test_unknown(self):
        with pytest.raises(ValueError, match="Received: kl_method='exact'"):
            tfvn.MeanFieldDense(3, kl_method="exact")

    def test_monte_carlo_uses_the_weights_of_the_forward_pass(self):
        layer = tfvn.MeanFieldDense(
            3,
            estimator="weights",
            kl_method="monte_carlo",
            prior=tfd.Normal(0.0, 0.5),
            kl_weight=1.0,
            use_bias=False,
            scale_initializer=0.4,
        )
        # The identity shows the kernel.
        kernel = layer(np.eye(4, dtype="float32"))
        q = layer.posterior_distribution()
        expected = q.log_prob(kernel) - tfd.Normal(0.0, 0.5).log_prob(kernel)
        (loss,) = layer.losses
        assert float(loss) == pytest.approx(float(tf.reduce_sum(expected)), rel=1e-4)

    @pytest.mark.parametrize(
        "posterior", ["mean_field", "k_tied", "gaussian_dropout", "variance"]
    )
    @pytest.mark.parametrize(("estimator", "seeds"), [("weights", 1), ("local", 2)])
    def test_monte_carlo_draws_no_second_sample(self, posterior, estimator, seeds):
        layer = tfvn.layers.Dense(
            3,
            posterior=posterior,
            estimator=estimator,
            kl_method="monte_carlo",
            prior="laplace",
            kl_weight=1.0,
        )
        layer.build((None, 4))
        before = layer.seed_generator.state.numpy()
        layer(np.ones((2, 4), "float32"))
        after = layer.seed_generator.state.numpy()
        assert np.sum(after - before) == seeds
        assert len(layer.losses) == 1


class TestCountedOnce:
    @pytest.fixture
    def layer(self):
        return tfvn.MeanFieldDense(4, kl_weight=0.5)

    def check(self, model, layer):
        model(np.ones((2, 4), "float32"))
        total = [float(sum(model.losses)) for _ in range(3)]
        assert total == pytest.approx([0.5 * float(layer.kl_divergence())] * 3)

    def test_however_often_losses_are_read(self, layer):
        self.check(keras.Sequential([layer]), layer)

    def test_in_nested_models(self, layer):
        inner = keras.Sequential([keras.Input((4,)), layer])
        self.check(keras.Sequential([keras.Sequential([inner])]), layer)

    def test_in_a_shared_layer(self, layer):
        inputs = keras.Input((4,))
        model = keras.Model(inputs, layer(layer(inputs)))
        self.check(model, layer)
        self.check(model, layer)


def test_every_supported_pair_is_tested_above():
    # A new row or law should not come without its own comparison.
    assert set(support.PRIORS) == {
        *("normal", "log_uniform", "ard", "laplace", "student_t", "horseshoe"),
        *("spike_and_slab", "any", "none"),
    }
