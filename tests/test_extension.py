"""A posterior, a prior, an estimator and a linear op from outside the library."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from tensorflow_probability import distributions as tfd
from ztests import assert_follows, assert_mean, assert_moments

import tfvn
from tfvn import estimators, posteriors, priors, support
from tfvn.estimators import Estimate
from tfvn.extending import (
    ANY,
    CLOSED_FORM,
    EXACT,
    MONTE_CARLO,
    KernelSpec,
    refused,
)

pytestmark = pytest.mark.usefixtures("registries")


def reload(layer, x, path):
    """Saves a layer in a model, loads it, and compares what they draw next."""
    model = keras.Sequential([keras.Input(x.shape[1:]), layer])
    model(x)
    model.save(path / "model.keras")
    again = keras.saving.load_model(path / "model.keras")
    # Keras does not save where a layer is in its sequence of seeds.
    again.layers[-1].seed_generator.state.assign(layer.seed_generator.state)
    np.testing.assert_array_equal(again(x), model(x))
    return again.layers[-1]


def draw(layer, x, count=10_000):
    """Returns many outputs of a layer, one call for each."""

    @tf.function(jit_compile=True)
    def call_often():
        return tf.map_fn(
            lambda _: layer(x), tf.range(count), fn_output_signature=tf.float32
        )

    return call_often().numpy()


X = np.random.default_rng(1).normal(size=(2, 5)).astype("float32")


@pytest.fixture
def laplace():
    @tfvn.posteriors.register(
        "laplace",
        package="elsewhere",
        support={"flipout": refused("its test does not want it")},
        recurrent={"weights": refused("its test does not want this either")},
    )
    class Laplace(tfvn.posteriors.Posterior):
        """Independent Laplace weights around zero."""

        law = "laplace"

        def build(self, add_weight, spec, name="kernel", **options):
            self.spec = spec
            self.scale = add_weight(name=f"{name}_scale", shape=spec.shape, **options)
            self.variable_groups = {"scale": [self.scale]}

        def mean(self):
            return tf.zeros_like(self.scale.value)

        def variance(self):
            return 2.0 * tf.square(self.scale.value)

        def sample(self, seed):
            return self.distribution().sample(seed=seed)

        def distribution(self):
            return tfd.Laplace(self.mean(), tf.abs(self.scale.value))

    return Laplace


class TestPosterior:
    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_works_in_a_layer(self, laplace, estimator):
        layer = tfvn.layers.Dense(
            3, posterior="laplace", estimator=estimator, prior=None, use_bias=False
        )
        layer.build((None, 5))
        outputs = draw(layer, X)
        variance = 2 * X**2 @ layer.posterior.scale.numpy() ** 2
        assert_moments(outputs, np.zeros((2, 3)), variance)

    def test_tables_answer_for_its_law(self, laplace):
        layer = tfvn.layers.Dense(200, posterior="laplace", kl_weight=1.0)
        assert layer.estimator.alias == "weights"
        layer.build((None, 50))
        layer.posterior.scale.assign(np.full((50, 200), 0.3))
        # KL(Laplace(0, b) || Normal(0, s)), estimated.
        s, b = np.sqrt(2 / 50), 0.3
        expected = np.log(s * np.sqrt(2 * np.pi) / (2 * b)) - 1 + b**2 / s**2
        estimates = [layer.kl_divergence().numpy() for _ in range(50)]
        assert_mean(np.array(estimates) / 10_000, expected)
        with pytest.raises(ValueError, match="with a laplace posterior, because"):
            tfvn.layers.Dense(3, posterior="laplace", prior="ard")

    def test_its_support_decides(self, laplace):
        with pytest.raises(ValueError, match="because its test does not want it;"):
            tfvn.layers.Dense(3, posterior="laplace", estimator="flipout")
        with pytest.raises(ValueError, match="because its test does not want this"):
            tfvn.layers.LSTM(3, posterior="laplace", estimator="weights")
        # Other laws are what they were.
        assert tfvn.layers.LSTM(3, estimator="weights").estimator.alias == "weights"

    @pytest.mark.parametrize(
        ("base", "column"),
        [
            ("laplace", {"unknown": EXACT}),
            (tfvn.posteriors.MeanField, {"local": EXACT}),
        ],
    )
    def test_support_that_is_refused(self, laplace, base, column):
        base = laplace if base == "laplace" else base
        with pytest.raises(ValueError, match=r"must be aliases among .*Received: law="):
            tfvn.posteriors.register("other", support=column)(base)

    def test_may_be_a_preset(self, laplace, tmp_path):
        @keras.saving.register_keras_serializable("elsewhere")
        class LaplaceDense(tfvn.layers.Preset, tfvn.layers.Dense, posterior=laplace):
            """A Dense with Laplace weights."""

        layer = reload(LaplaceDense(3, kl_weight=0.1), X, tmp_path)
        assert type(layer) is LaplaceDense
        assert type(layer.posterior) is laplace

    def test_is_listed(self, laplace):
        with pytest.raises(
            ValueError,
            match=r"'gaussian_dropout', 'k_tied', 'laplace', 'matrix_normal'",
        ):
            tfvn.layers.Dense(3, posterior="unknown")

    def test_is_saved(self, laplace, tmp_path):
        layer = tfvn.layers.Dense(3, posterior="laplace", kl_weight=0.1)
        assert type(reload(layer, X, tmp_path).posterior) is laplace


class TestPrior:
    @pytest.fixture
    def flat(self):
        @tfvn.priors.register(
            "flat",
            support={
                "gaussian": CLOSED_FORM,
                "bernoulli": refused("a discrete posterior has no entropy"),
                ANY: MONTE_CARLO,
            },
        )
        class Flat(tfd.Distribution):
            """The improper prior of constant density."""

            def __init__(self, dtype=tf.float32, name="Flat"):
                super().__init__(
                    dtype=tf.as_dtype(dtype),
                    reparameterization_type=tfd.NOT_REPARAMETERIZED,
                    validate_args=False,
                    allow_nan_stats=True,
                    parameters={"dtype": dtype, "name": name},
                    name=name,
                )

            @classmethod
            def _parameter_properties(cls, dtype, num_classes=None):
                return {}

            def _event_shape(self):
                return tf.TensorShape([])

            def _log_prob(self, value):
                return tf.zeros_like(value)

        @tfd.RegisterKL(tfd.Normal, Flat)
        def _normal_flat(q, p, name=None):
            return -q.entropy()

        return Flat

    @pytest.mark.parametrize("as_object", [False, True])
    def test_works_in_a_layer(self, flat, as_object):
        prior = flat() if as_object else "flat"
        layer = tfvn.MeanFieldDense(3, prior=prior, kl_method="analytic")
        layer.build((None, 5))
        scale = layer.posterior_distribution().scale.numpy()
        expected = -np.sum(np.log(scale * np.sqrt(2 * np.pi * np.e)))
        assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)

    def test_table_decides(self, flat):
        # Estimated, where there is no closed form: minus the entropy.
        layer = tfvn.VarianceDense(3, noise="uniform", prior="flat")
        layer.build((None, 5))
        scale = np.abs(layer.posterior.scale.numpy())
        expected = -np.sum(np.log(2 * scale))
        assert float(layer.kl_divergence()) == pytest.approx(expected, rel=1e-5)
        with pytest.raises(ValueError, match="a discrete posterior has no entropy"):
            tfvn.VarianceDense(3, noise="bernoulli", prior=flat())

    def test_is_listed(self, flat):
        with pytest.raises(ValueError, match=r"'ard', 'flat', 'horseshoe'"):
            tfvn.MeanFieldDense(3, prior="unknown")

    @pytest.mark.parametrize("as_object", [False, True])
    def test_is_saved(self, flat, as_object, tmp_path):
        prior = flat() if as_object else "flat"
        layer = tfvn.MeanFieldDense(3, prior=prior, kl_weight=0.1)
        again = reload(layer, X, tmp_path)
        assert type(again.prior) is type(prior)
        assert float(again.kl_divergence()) == float(layer.kl_divergence())

    def test_alias_for_a_distribution_that_has_one(self):
        @tfvn.priors.register("unit_normal", tfd.Normal)
        def _unit_normal(spec):
            return tfd.Normal(0.0, 1.0)

        named, given = (
            tfvn.MeanFieldDense(
                3, prior=prior, kernel_initializer="ones", scale_initializer=0.1
            )
            for prior in ("unit_normal", tfd.Normal(0.0, 1.0))
        )
        named.build((None, 5))
        given.build((None, 5))
        assert float(named.kl_divergence()) == float(given.kl_divergence())
        assert priors.row(tfd.Normal(0.0, 1.0)) == "normal"


class TestEstimator:
    @pytest.fixture
    def two_draws(self):
        @tfvn.estimators.register(
            "two_draws",
            package="elsewhere",
            support={
                "bernoulli": refused("the mean of two signs may be zero"),
                ANY: EXACT,
            },
        )
        class TwoDraws(tfvn.estimators.Estimator):
            """Averages the outputs of two kernels, which halves their variance."""

            def __call__(self, terms, seed_generator):
                outputs = 0.0
                for linear_op, posterior, inputs in terms:
                    for _ in range(2):
                        kernel = posterior.sample(seed_generator.next())
                        kernel = tf.cast(kernel, inputs.dtype)
                        outputs += 0.5 * linear_op(inputs, kernel)
                return Estimate(outputs, (None,) * len(terms))

        return TwoDraws

    def test_works_in_a_layer(self, two_draws):
        layer = tfvn.VarianceDense(3, estimator="two_draws", use_bias=False)
        layer.build((None, 5))
        outputs = draw(layer, X)
        variance = X**2 @ layer.posterior.scale.numpy() ** 2 / 2
        assert_moments(outputs, np.zeros((2, 3)), variance)
        assert_follows(
            outputs[:, 0, 0] / np.sqrt(variance[0, 0]),
            stats.norm(),
        )

    def test_table_decides(self, two_draws):
        with pytest.raises(
            ValueError, match="because the mean of two signs may be zero"
        ):
            tfvn.VarianceDense(3, noise="bernoulli", estimator="two_draws")

    def test_is_listed(self, two_draws):
        with pytest.raises(
            ValueError, match=r"\['flipout', 'local', 'mean', 'two_draws', 'weights'\]"
        ):
            tfvn.VarianceDense(3, estimator="unknown")

    def test_without_support(self):
        with pytest.raises(
            ValueError, match=r"`register\('mine', support={law: cell}\)`. Received"
        ):
            tfvn.estimators.register("mine")(tfvn.estimators.WeightSampling)
        assert "mine" not in estimators.base.registry.aliases

    def test_law_that_it_does_not_name(self, laplace):
        tfvn.estimators.register("mine", support={"gaussian": EXACT})(
            type("Mine", (tfvn.estimators.WeightSampling,), {})
        )
        assert tfvn.MeanFieldDense(3, estimator="mine").estimator.alias == "mine"
        with pytest.raises(ValueError, match="names neither that law nor `ANY`"):
            tfvn.layers.Dense(3, posterior="laplace", estimator="mine")

    def test_in_a_recurrent_layer(self, two_draws):
        with pytest.raises(ValueError, match="registered without `recurrent`"):
            tfvn.VarianceLSTM(3, estimator="two_draws")
        support = {"support": {ANY: EXACT}, "recurrent": {"gaussian": EXACT}}
        tfvn.estimators.register("held", **support)(
            type("Held", (tfvn.estimators.WeightSampling,), {})
        )
        outputs = tfvn.VarianceLSTM(3, estimator="held")(np.ones((2, 4, 5)))
        assert outputs.shape == (2, 3)

    @pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
    def test_is_saved(self, two_draws, dtype, tmp_path):
        layer = tfvn.VarianceDense(
            3,
            estimator="two_draws",
            bias_posterior="mean_field",
            prior=None,
            dtype=dtype,
        )
        assert type(reload(layer, X, tmp_path).estimator) is two_draws


class TestLinearOp:
    X = np.random.default_rng(2).normal(size=(2, 6, 4)).astype("float32")

    @pytest.fixture
    def conv1d(self):
        @keras.saving.register_keras_serializable("elsewhere")
        class Conv1D(tfvn.layers.StochasticLayer, keras.layers.Conv1D):
            """A 1D convolution whose kernel is a distribution."""

            def kernel_spec(self, input_shape):
                channels = input_shape[-1] // self.groups
                shape = (*self.kernel_size, channels, self.filters)
                return KernelSpec(shape, output_axes=(2,))

            def linear_op(self, inputs, kernel):
                return self.convolution_op(inputs, kernel)

        return Conv1D

    @pytest.mark.parametrize("posterior", ["variance", "mean_field"])
    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_works_with_every_other_part(self, conv1d, posterior, estimator):
        layer = conv1d(
            3,
            2,
            padding="same",
            posterior=posterior,
            estimator=estimator,
            bias_posterior="mean_field",
            prior=None,
        )
        twin = keras.layers.Conv1D(3, 2, padding="same", use_bias=False)
        layer.build(self.X.shape)
        twin.build(self.X.shape)
        outputs = draw(layer, self.X)
        # The twin pushes means and variances through the same op.
        q, bias = layer.posterior_distribution(), layer.bias_posterior
        twin.kernel.assign(q.mean())
        mean = twin(self.X).numpy() + bias.mean().numpy()
        twin.kernel.assign(q.variance())
        variance = twin(self.X**2).numpy() + bias.variance().numpy()
        assert_moments(outputs, mean, variance)

    def test_has_a_divergence_and_groups(self, conv1d):
        layer = conv1d(3, 2, kl_weight=0.1)
        layer.build(self.X.shape)
        assert float(layer.kl_divergence()) > 0
        assert layer.posterior.spec.rows == 8
        assert [len(group) for group in layer.variable_groups.values()] == [1, 1, 1]

    def test_trains(self, conv1d):
        model = keras.Sequential([conv1d(3, 6, kl_weight=0.1), keras.layers.Flatten()])
        model.compile("adam", "mse")
        history = model.fit(self.X, np.ones((2, 3), "float32"), epochs=2, verbose=0)
        assert np.all(np.isfinite(history.history["loss"]))

    def test_is_saved(self, conv1d, tmp_path):
        again = reload(conv1d(3, 2, kl_weight=0.1, strides=2), self.X, tmp_path)
        assert type(again) is conv1d
        assert again.strides == (2,)
        assert again.kl_weight.numpy() == np.float32(0.1)


def test_nothing_is_left_behind():
    assert "laplace" not in posteriors.base.registry.aliases
    assert "two_draws" not in estimators.base.registry.aliases
    assert not {"flat", "unit_normal"} & {*priors.aliases(), *support.PRIORS}
    assert not any("elsewhere" in name for name in keras.saving.get_custom_objects())
