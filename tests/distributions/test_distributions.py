"""The distributions of the library, and how distributions are saved."""

import json

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd
from ztests import assert_follows, assert_moments

import tfvn
from tfvn.distributions import (
    ARD,
    DiminishingStudentT,
    LogUniform,
    ZeroMeanBernoulli,
    ZeroMeanNormal,
    ZeroMeanUniform,
    deserialize,
    serialization,
    serialize,
)

SCALES = np.float32([[0.1, 1.0, 2.5], [0.3, 0.7, 0.01]])
ZERO_MEAN = {
    "normal": (ZeroMeanNormal, lambda s: stats.norm(0, s), 1.0),
    "uniform": (ZeroMeanUniform, lambda s: stats.uniform(-s, 2 * s), 1.0 / 3.0),
    "bernoulli": (ZeroMeanBernoulli, None, 1.0),
}


@pytest.mark.parametrize("df", [0.5, 3.0])
def test_diminishing_student_t_is_a_student_t_up_to_a_constant(df):
    x = np.float32([1e-3, 0.4, -2.0, 30.0])
    difference = DiminishingStudentT(df).log_prob(x) - stats.t(df).logpdf(x)
    np.testing.assert_allclose(difference, difference[0], atol=1e-5)


@pytest.mark.parametrize("name", ZERO_MEAN)
class TestZeroMean:
    def test_shapes(self, name):
        cls, _, _ = ZERO_MEAN[name]
        distribution = cls(SCALES)
        assert distribution.batch_shape == (2, 3)
        assert distribution.event_shape == ()
        assert distribution.sample(5, seed=(1, 2)).shape == (5, 2, 3)
        assert distribution.sample(seed=(1, 2)).shape == (2, 3)
        assert tuple(distribution.batch_shape_tensor()) == (2, 3)
        assert cls(0.5).sample(seed=(1, 2)).shape == ()

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_dtype(self, name, dtype):
        cls, _, _ = ZERO_MEAN[name]
        distribution = cls(SCALES.astype(dtype))
        assert distribution.dtype == dtype
        assert distribution.sample(seed=(1, 2)).dtype == dtype
        assert distribution.log_prob(distribution.mean()).dtype == dtype

    def test_moments(self, name):
        cls, _, variance = ZERO_MEAN[name]
        distribution = cls(SCALES)
        np.testing.assert_array_equal(distribution.mean(), np.zeros((2, 3)))
        np.testing.assert_allclose(
            distribution.variance(), variance * SCALES**2, rtol=1e-5
        )
        np.testing.assert_allclose(
            distribution.stddev(), np.sqrt(variance) * SCALES, rtol=1e-5
        )

    def test_samples(self, name):
        cls, law, variance = ZERO_MEAN[name]
        samples = cls(SCALES).sample(20_000, seed=(1, 2)).numpy()
        assert_moments(samples, np.zeros((2, 3)), variance * SCALES**2)
        if law is None:
            np.testing.assert_array_equal(
                np.abs(samples), np.tile(SCALES, (20_000, 1, 1))
            )
        else:
            assert_follows(samples[:, 0, 2], law(2.5))

    def test_samples_are_reproducible(self, name):
        cls, _, _ = ZERO_MEAN[name]
        first, again = (cls(SCALES).sample(4, seed=(1, 2)) for _ in range(2))
        np.testing.assert_array_equal(first, again)

    def test_samples_are_differentiable(self, name):
        cls, _, _ = ZERO_MEAN[name]
        scale = tf.constant(SCALES)
        with tf.GradientTape() as tape:
            tape.watch(scale)
            sample = cls(scale).sample(seed=(1, 2))
        # A sample is the scale times noise, so the noise is the gradient.
        gradient = tape.gradient(sample, scale)
        np.testing.assert_allclose(gradient * scale, sample, rtol=1e-4, atol=1e-6)

    def test_density(self, name):
        cls, law, _ = ZERO_MEAN[name]
        if law is None:
            values = np.float32([[-0.1, 0.5, 2.5], [0.3, 0.0, -0.01]])
            expected = np.float32([[0.5, 0.0, 0.5], [0.5, 0.0, 0.5]])
        else:
            values = 0.9 * SCALES * np.float32([1, -1, 0])
            expected = law(SCALES).pdf(values)
        np.testing.assert_allclose(cls(SCALES).prob(values), expected, rtol=1e-5)
        with np.errstate(divide="ignore"):
            log_expected = np.log(expected)
        np.testing.assert_allclose(
            cls(SCALES).log_prob(values), log_expected, rtol=1e-5, atol=1e-6
        )

    def test_copy_and_slice(self, name):
        cls, _, variance = ZERO_MEAN[name]
        wider = cls(SCALES).copy(scale=2 * SCALES)
        assert type(wider) is cls
        np.testing.assert_allclose(
            wider.variance(), 4 * variance * SCALES**2, rtol=1e-5
        )
        assert cls(SCALES)[..., 0].batch_shape == (2,)


class TestLogUniform:
    def test_density(self):
        values = np.float32([-3.0, 0.25, 1e-6])
        prior = LogUniform()
        np.testing.assert_allclose(prior.prob(values), 1 / np.abs(values), rtol=1e-5)
        np.testing.assert_allclose(
            prior.log_prob(values), -np.log(np.abs(values)), rtol=1e-5
        )

    def test_shapes(self):
        prior = LogUniform(dtype=tf.float64)
        assert prior.batch_shape == ()
        assert prior.event_shape == ()
        assert prior.dtype == tf.float64
        assert prior.log_prob(np.ones((2, 3))).shape == (2, 3)

    def test_nothing_can_be_drawn(self):
        with pytest.raises(NotImplementedError):
            LogUniform().sample()

    def test_unknown_form(self):
        with pytest.raises(
            ValueError, match=r"one of \['exact', 'molchanov'\]. Received: kl='other'"
        ):
            LogUniform(kl="other")


class TestARD:
    def test_shapes(self):
        assert ARD().batch_shape == ()
        assert ARD().event_shape == ()
        assert ARD(dtype="float64").dtype == tf.float64

    def test_has_no_density(self):
        with pytest.raises(NotImplementedError):
            ARD().log_prob(0.5)

    @pytest.mark.parametrize("law", [ZeroMeanUniform, ZeroMeanBernoulli])
    def test_has_no_divergence_from_other_laws(self, law):
        with pytest.raises(NotImplementedError):
            tfd.kl_divergence(law(0.5), ARD())


DISTRIBUTIONS = {
    "normal": lambda: tfd.Normal(0.0, 0.5),
    "normal-arrays": lambda: tfd.Normal(
        np.zeros((1, 3), "float32"), tf.constant([[0.1, 0.2, 0.3]])
    ),
    "normal-float64": lambda: tfd.Normal(np.float64(0.1), np.float64(1 / 3)),
    "normal-variable": lambda: tfd.Normal(0.0, tf.Variable([0.5, 0.25])),
    "student_t": lambda: tfd.StudentT(df=3, loc=0.0, scale=0.5),
    "laplace": lambda: tfd.Laplace(loc=[0.0, 1.0], scale=2.0),
    "horseshoe": lambda: tfd.Horseshoe(scale=0.1),
    "uniform": lambda: tfd.Uniform(-1.0, 1.0),
    "mixture_same_family": lambda: tfd.MixtureSameFamily(
        tfd.Categorical(probs=[0.3, 0.7]), tfd.Normal([0.0, 0.0], [0.1, 1.0])
    ),
    "mixture": lambda: tfd.Mixture(
        tfd.Categorical(probs=[0.3, 0.7]),
        [tfd.Normal(0.0, 0.1), tfd.Laplace(0.0, 1.0)],
    ),
    "log_uniform": lambda: LogUniform(),
    "log_uniform-molchanov": lambda: LogUniform(kl="molchanov", dtype=tf.float64),
    "zero_mean_normal": lambda: ZeroMeanNormal(SCALES),
    "zero_mean_uniform": lambda: ZeroMeanUniform(0.5),
    "zero_mean_bernoulli": lambda: ZeroMeanBernoulli(0.5),
}


class TestSerialization:
    def round_trip(self, distribution):
        config = json.loads(json.dumps(serialize(distribution)))
        return deserialize(config)

    @pytest.mark.parametrize("name", DISTRIBUTIONS)
    def test_round_trip(self, name):
        distribution = DISTRIBUTIONS[name]()
        again = self.round_trip(distribution)
        assert type(again) is type(distribution)
        assert again.dtype == distribution.dtype
        assert again.batch_shape == distribution.batch_shape
        values = np.array([-0.5, 0.03, 0.5]).astype(distribution.dtype.as_numpy_dtype)
        values = values.reshape(3, *[1] * len(distribution.batch_shape))
        np.testing.assert_array_equal(
            again.log_prob(values), distribution.log_prob(values)
        )
        assert serialize(again) == serialize(distribution)

    def test_ard(self):
        assert isinstance(self.round_trip(ARD()), ARD)
        assert self.round_trip(ARD(dtype="float64")).dtype == tf.float64

    def test_own_arguments_survive(self):
        assert self.round_trip(LogUniform(kl="molchanov")).kl == "molchanov"

    def test_class_that_is_not_registered(self):
        class Mine(tfd.Normal):
            pass

        with pytest.raises(
            ValueError, match=r"`Mine` can't be saved as a prior; decorate the class"
        ):
            serialize(Mine(0.0, 1.0))

    def test_namesake_of_a_known_class(self):
        impostor = type("Laplace", (tfd.Laplace,), {})
        with pytest.raises(ValueError, match="`Laplace` can't be saved"):
            serialize(impostor(0.0, 1.0))

    def test_parameter_that_is_not_data(self):
        prior = tfd.TransformedDistribution(tfd.Normal(0.0, 1.0), tfb.Exp())
        with pytest.raises(
            ValueError,
            match="of `TransformedDistribution` is none of these; use",
        ):
            serialize(prior)

    def test_unknown_class(self):
        config = {"distribution": "Missing", "parameters": {}}
        with pytest.raises(ValueError, match="Unknown distribution 'Missing'; if it"):
            deserialize(config)

    def test_registered_class(self, monkeypatch):
        monkeypatch.setattr(
            serialization, "_CUSTOM", dict(serialization._CUSTOM), raising=True
        )

        @tfvn.distributions.register
        class Peaked(tfd.Laplace):
            def __init__(self, sharpness, name="Peaked"):
                parameters = dict(locals())
                super().__init__(0.0, 1.0 / sharpness, name=name)
                self._parameters = self._no_dependency(parameters)

        again = self.round_trip(Peaked(4.0))
        assert type(again) is Peaked
        assert float(again.scale) == 0.25
