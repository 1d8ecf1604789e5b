"""The gap between the average of logarithms and the logarithm of the average."""

import math

import keras
import numpy as np
import pytest
from scipy import integrate, stats
from tensorflow_probability import distributions as tfd

import tfvn

# E[xi^2], Var[xi] and Var[xi^-2] of laws with unusual parameters.
MOMENTS = {
    "bernoulli": (
        tfvn.distributions.noise_law("bernoulli", keep_probability=0.3),
        (0.3, 0.21, math.inf),
    ),
    "gaussian": (
        tfvn.distributions.noise_law("gaussian", mean=0.0, stddev=0.5),
        (0.25, 0.25, math.inf),
    ),
    "rayleigh": (
        tfvn.distributions.noise_law("rayleigh", scale=0.5),
        (0.5, stats.rayleigh(scale=0.5).var(), math.inf),
    ),
    "half_cauchy": (tfvn.distributions.noise_law("half_cauchy"), (math.inf,) * 3),
    "no noise": (
        tfvn.distributions.noise_law("bernoulli", keep_probability=1.0),
        (1.0, 0.0, 0.0),
    ),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments_of_laws(name):
    law, expected = MOMENTS[name]
    (row,) = tfvn.jensen_gap(law).rows
    measured = (row.mean_square, row.variance, row.inverse_square_variance)
    np.testing.assert_allclose(measured, expected, rtol=1e-5)


def test_moments_of_the_inverse_nakagami():
    law = tfvn.distributions.noise_law(
        "inverse_nakagami", concentration=3.0, spread=0.7
    )
    (row,) = tfvn.jensen_gap(law).rows
    square = stats.invgamma(3.0, scale=3.0 / 0.7)

    def moment(power):
        return integrate.quad(lambda v: v**power * square.pdf(v), 0, np.inf)[0]

    np.testing.assert_allclose(row.mean_square, moment(1), rtol=1e-5)
    np.testing.assert_allclose(row.variance, moment(1) - moment(0.5) ** 2, rtol=1e-4)
    np.testing.assert_allclose(
        row.inverse_square_variance, moment(-2) - moment(-1) ** 2, rtol=1e-5
    )


def test_every_alias_by_default():
    gap = tfvn.jensen_gap()
    assert [row.name for row in gap.rows] == tfvn.distributions.noise_aliases()
    assert gap.likelihood is None
    assert gap.prior is None


def test_unknown_law():
    (row,) = tfvn.jensen_gap(tfd.Gamma(2.0, 2.0)).rows
    assert math.isnan(row.inverse_square_variance)


def linear_model(noise, x, **kwargs):
    """Returns a linear model with noise on its inputs, and its weights."""
    layer = tfvn.NoisyDense(1, noise=noise, use_bias=False, **kwargs)
    model = keras.Sequential([keras.Input((x.shape[1],)), layer])
    return model, layer.kernel.numpy()


class TestModel:
    X = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    Y = np.float32([[2.0], [-3.0], [1.0], [4.0], [0.5]])
    LOSS = tfvn.losses.GaussianNLL(1.0)

    @pytest.mark.parametrize("normalize", [True, False])
    def test_likelihood_is_the_gap_to_leading_order(self, normalize):
        noise = tfvn.distributions.noise_law("gaussian", mean=2.0, stddev=0.04)
        model, kernel = linear_model(noise, self.X, normalize=normalize)
        gap = tfvn.jensen_gap(model, self.X, self.Y, self.LOSS)
        # Linear and Gaussian: with v the variance of an output and r its residual,
        # log E[p] is that of N(r; 0, 1 + v), and E[log p] loses v / 2.
        size = 1.0 if normalize else 2.0
        residual = self.Y - size * self.X @ kernel
        v = (0.02 * size) ** 2 * np.square(self.X) @ np.square(kernel)
        exact = np.sum(
            -0.5 * np.log1p(v) - residual**2 / (2 * (1 + v)) + (residual**2 + v) / 2
        )
        assert gap.likelihood == pytest.approx(exact, rel=0.02)
        assert gap.prior == math.inf
        assert gap.rows[0].variance == pytest.approx((0.02 * size) ** 2, rel=1e-4)

    @pytest.mark.parametrize("normalize", [True, False])
    @pytest.mark.parametrize("prior_scale", [None, 0.5])
    def test_prior(self, prior_scale, normalize):
        noise = tfvn.distributions.noise_law("inverse_nakagami", concentration=3.0)
        model, kernel = linear_model(
            noise, self.X, normalize=normalize, prior_scale=prior_scale, kl_weight=1.0
        )
        gap = tfvn.jensen_gap(model, self.X, self.Y, self.LOSS, prior_scale=2.0)
        # Noise that is divided by its mean is as other noise with a narrower prior.
        scale, spread = prior_scale or 2.0, 2.0
        scale /= float(noise.mean()) if normalize else 1.0
        slope = 0.5 / spread - np.square(kernel) / (2 * scale**2)
        expected = 0.5 * spread**2 / 3.0 * np.sum(np.square(slope))
        assert gap.prior == pytest.approx(expected, rel=1e-5)

    def test_prior_counts_each_weight_of_an_lstm_once(self):
        noise = tfvn.distributions.noise_law("inverse_nakagami", concentration=3.0)
        x = np.random.default_rng(0).normal(size=(4, 5, 3)).astype("float32")
        kernel = np.random.default_rng(1).normal(size=(3, 8))
        terms = []
        for gates in ("tied", "untied"):
            layer = tfvn.NoisyLSTM(2, noise=noise, gates=gates, normalize=False)
            model = keras.Sequential([keras.Input((5, 3)), layer])
            layer.cell.kernel.assign(kernel)
            gap = tfvn.jensen_gap(model, x, np.ones((4, 2), "float32"), "mse")
            terms.append(gap.prior)
        slope = 0.5 / 2.0 - np.square(kernel) / 2
        expected = 0.5 * 2.0**2 / 3.0 * np.sum(np.square(slope))
        np.testing.assert_allclose(terms, [expected] * 2, rtol=1e-5)

    def test_prior_of_a_joint_structure(self):
        first, second = (
            tfvn.distributions.noise_law("inverse_nakagami", spread=spread)
            for spread in (2.0, 3.0)
        )
        layer = tfvn.NoisyConv2D(
            2,
            3,
            structure="channels_and_filters",
            noise=first,
            filter_noise=second,
            normalize=False,
        )
        model = keras.Sequential([keras.Input((3, 3, 1)), layer])
        x = np.ones((4, 3, 3, 1), "float32")
        y = np.ones((4, 1, 1, 2), "float32")
        gap = tfvn.jensen_gap(model, x, y, "mse", prior_scale=0.5)
        squares = np.square(layer.kernel.numpy().astype("float64"))
        for row, mean, other in zip(gap.rows, (2.0, 3.0), (3.0, 2.0), strict=True):
            slope = 0.5 / mean - other * squares / (2 * 0.5**2)
            expected = 0.5 * mean**2 / 2.0 * np.sum(np.square(slope))
            assert row.prior == pytest.approx(expected, rel=1e-5)

    def test_every_structure_has_a_row(self):
        generator = np.random.default_rng(0)
        inputs = keras.Input((6, 6, 1))
        x = tfvn.NoisyConv2D(2, 3, structure="channels_and_filters")(inputs)
        x = keras.layers.Reshape((4, 8))(x)
        x = tfvn.NoisyLSTM(3, gates="untied")(x)
        x = tfvn.NoisyResidual(keras.layers.Dense(3), structure="depth_and_ard")(x)
        x = tfvn.MultiplicativeNoise("inverse_nakagami")(x)
        model = keras.Model(inputs, keras.layers.Dense(1)(x))
        model.compile(loss="mse")
        data = generator.normal(size=(4, 6, 6, 1)).astype("float32")
        gap = tfvn.jensen_gap(model, data, np.ones((4, 1), "float32"))
        assert len(gap.rows) == 2 + 4 + 2 + 1
        assert all(row.likelihood > 0 for row in gap.rows)
        # Whose weights the last layer's noise is on is not for it to know.
        assert math.isnan(gap.rows[-1].prior)
        text = repr(gap).splitlines()
        assert len(text) == 1 + 9 + 1
        assert "in likelihood" in text[0]
        assert text[-1].startswith("sum")

    def test_leaves_the_model_alone(self):
        model, _ = linear_model("gaussian", self.X)
        before = model(self.X).numpy()
        tfvn.jensen_gap(model, self.X, self.Y, "mse")
        np.testing.assert_array_equal(model(self.X), before)

    def test_needs_data_and_a_loss(self):
        model, _ = linear_model("gaussian", self.X)
        with pytest.raises(
            ValueError, match="needs data and a negative log-likelihood"
        ):
            tfvn.jensen_gap(model, self.X, self.Y)
        with pytest.raises(ValueError, match="needs data"):
            tfvn.jensen_gap(model, loss="mse")

    def test_needs_noise(self):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        with pytest.raises(ValueError, match="must have a layer with multiplicative"):
            tfvn.jensen_gap(model, self.X, self.Y, "mse")
