"""Priors with variables in them are learned, shared and updated once."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd
from trainable_prior_models import X, Y, make_model, prior_variables

import tfvn

# Makers of priors of each family, from one variable.
FAMILIES = {
    "normal": lambda v: tfd.Normal(0.1, v),
    "normal_loc": lambda v: tfd.Normal(v, 0.7),
    "normal_of_columns": lambda v: tfd.Normal(tf.zeros(3), v),
    "laplace": lambda v: tfd.Laplace(0.1, v),
    "student_t": lambda v: tfd.StudentT(3.0, 0.0, v),
    "student_t_df": lambda v: tfd.StudentT(v, 0.0, 0.5),
    "horseshoe": lambda v: tfvn.distributions.ExactHorseshoe(v),
    "tfd_horseshoe": lambda v: tfd.Horseshoe(v),
    "spike_and_slab": lambda v: tfvn.distributions.SpikeAndSlab(v, 0.1),
    "spike": lambda v: tfvn.distributions.SpikeAndSlab(2.0, v),
    "slab_probability": lambda v: tfvn.distributions.SpikeAndSlab(1.0, 0.1, v),
    "generalized_hyperbolic": lambda v: tfvn.distributions.GeneralizedHyperbolic(v),
    "scale_mixture": lambda v: tfvn.distributions.ScaleMixture(tfd.HalfNormal(1.0), v),
    "mixture": lambda v: tfd.MixtureSameFamily(
        tfd.Categorical(probs=[0.3, 0.7]), tfd.Laplace([0.0, 1.0], v)
    ),
}


def second_moments(model):
    """The optimum of a Normal prior is the root of the mean of these."""
    layers = [tfvn.layers.base.stochastic_layers(layer)[0] for layer in model.layers]
    return np.concatenate(
        [
            np.ravel(p.mean().numpy() ** 2 + p.variance().numpy())
            for layer in layers
            for p in layer.posteriors.values()
        ]
    )


class TestGradients:
    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])
    @pytest.mark.parametrize("family", FAMILIES)
    def test_against_finite_differences(self, family, in_graph):
        variable = tf.Variable(0.6)
        self.check(FAMILIES[family](variable), variable, in_graph)

    @pytest.mark.parametrize(
        "prior", [tfd.Normal, tfd.Laplace], ids=lambda p: p.__name__
    )
    def test_monte_carlo_where_there_is_a_closed_form(self, prior):
        variable = tf.Variable(0.6)
        self.check(prior(0.1, variable), variable, kl_method="monte_carlo")

    @pytest.mark.parametrize(
        ("layer", "at"), [(tfvn.KTiedDense, 0.0), (tfvn.VarianceDense, 0.3)]
    )
    def test_of_a_mean_that_may_be_zero(self, layer, at):
        variable = tf.Variable(at)
        self.check(tfd.Normal(variable, 0.7), variable, layer=layer)

    def test_of_a_uniform_posterior(self):
        variable = tf.Variable(0.6)
        self.check(
            tfd.Normal(0.1, variable),
            variable,
            layer=tfvn.VarianceDense,
            noise="uniform",
        )

    @staticmethod
    def check(prior, variable, in_graph=False, layer=tfvn.MeanFieldDense, **kwargs):
        layer = layer(3, prior=prior, seed=1, **kwargs)
        layer.build((None, 4))
        state = layer.seed_generator.state.numpy()

        def kl():
            with tf.GradientTape() as tape:
                divergence = layer.kl_divergence()
            return divergence, tape.gradient(divergence, variable)

        function = tf.function(kl) if in_graph else kl

        def at(value):
            layer.seed_generator.state.assign(state)
            variable.assign(value)
            divergence, gradient = function()
            return float(divergence), float(gradient)

        value, step = float(variable), 3e-3
        slope = (at(value + step)[0] - at(value - step)[0]) / (2 * step)
        gradient = at(value)[1]
        assert abs(slope) > 1e-2
        assert gradient == pytest.approx(slope, rel=5e-3, abs=1e-2)


class TestLearning:
    @pytest.mark.parametrize(
        "mode",
        [
            "jit",
            pytest.param("graph", marks=pytest.mark.exhaustive),
            pytest.param("eager", marks=pytest.mark.exhaustive),
        ],
    )
    def test_scale_goes_to_the_empirical_bayes_optimum(self, mode):
        options = {"run_eagerly": mode == "eager", "jit_compile": mode == "jit"}
        scale = tf.Variable(1.0)
        rate = keras.optimizers.schedules.ExponentialDecay(0.1, 20, 0.7)
        model = make_model(
            tfd.Normal(0.0, scale), keras.optimizers.Adam(rate), **options
        )
        model.fit(X, Y, batch_size=1, epochs=20, verbose=0)
        optimum = np.sqrt(second_moments(model).mean())
        assert abs(optimum - 1.0) > 0.3
        # Whoever made the variable sees what was learned.
        assert float(scale) == pytest.approx(optimum, rel=2e-3)

    def test_transformed_variable(self):
        scale = tfp.util.TransformedVariable(1.0, tfb.Softplus())
        rate = keras.optimizers.schedules.ExponentialDecay(0.1, 20, 0.7)
        model = make_model(tfd.Normal(0.0, scale), keras.optimizers.Adam(rate))
        model.fit(X, Y, batch_size=1, epochs=20, verbose=0)
        optimum = np.sqrt(second_moments(model).mean())
        assert float(tf.convert_to_tensor(scale)) == pytest.approx(optimum, rel=2e-3)

    def test_keras_variable_is_the_model_s_own(self):
        scale = keras.Variable(1.0, name="my_scale")
        model = make_model(tfd.Normal(0.0, scale))
        assert prior_variables(model)[0] is scale
        model.fit(X, Y, epochs=3, verbose=0)
        assert float(scale.numpy()) < 0.99

    def test_without_an_optimizer_of_its_own(self):
        scale = tf.Variable(1.0)
        model = make_model(tfd.Normal(0.0, scale))
        still = {name: keras.optimizers.SGD(0.0) for name in ("mean", "scale")}
        model.compile({**still, "default": keras.optimizers.SGD(0.1)}, "mse")
        history = model.fit(X, Y, epochs=1, verbose=0).history
        assert float(scale) != 1.0
        assert "learning_rate_prior" not in history

    def test_in_a_keras_model(self):
        scale = tf.Variable(1.0)
        layer = tfvn.MeanFieldDense(1, prior=tfd.Normal(0.0, scale), kl_weight=0.1)
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile("sgd", "mse", jit_compile=False)
        model.fit(X, Y, verbose=0)
        assert float(scale) != 1.0

    def test_in_mixed_precision(self):
        keras.config.set_dtype_policy("mixed_float16")
        for scale in (tf.Variable(1.0), keras.Variable(1.0)):
            model = make_model(tfd.Normal(0.0, scale))
            (variable,) = prior_variables(model)
            assert variable.dtype == "float32"
            model.fit(X, Y, epochs=3, verbose=0)
            moved = 1.0 - float(scale.numpy())
            assert moved == pytest.approx(0.03, rel=0.2)

    @pytest.mark.exhaustive
    def test_with_replicas(self, two_replicas):
        with two_replicas.scope():
            scale = tf.Variable(1.0)
            model = make_model(tfd.Normal(0.0, scale), keras.optimizers.SGD(0.1))
        model.fit(X, Y, batch_size=16, verbose=0)
        alone_scale = tf.Variable(1.0)
        alone = make_model(tfd.Normal(0.0, alone_scale), keras.optimizers.SGD(0.1))
        alone.fit(X, Y, batch_size=16, verbose=0)
        assert float(alone_scale) != 1.0
        assert scale.numpy() == pytest.approx(float(alone_scale), rel=1e-6)

    def test_refuses_a_variable_from_outside_of_the_strategy(self, two_replicas):
        scale = tf.Variable(1.0, name="outside")
        with (
            two_replicas.scope(),
            pytest.raises(ValueError, match=r"scope of the strategy.*'outside'"),
        ):
            make_model(tfd.Normal(0.0, scale))

    @pytest.mark.parametrize(
        "make",
        [
            lambda v: tfvn.distributions.DiminishingStudentT(v),
            lambda v: tfvn.distributions.ScaleMixture(tfd.HalfNormal(v), 1.0),
            lambda v: tfvn.distributions.GeneralizedHyperbolic(1.0, v),
        ],
    )
    def test_refuses_what_has_no_gradient(self, make):
        with pytest.raises(ValueError, match="can't be trained"):
            make(tf.Variable(1.0))

    def test_refuses_a_distribution_that_ignores_its_variable(self, registries):
        class Stubborn(tfd.Normal):
            def __init__(self, scale, name="Stubborn"):
                parameters = dict(locals())
                super().__init__(0.0, tf.stop_gradient(scale), name=name)
                tfvn.distributions.serialization.remember(self, parameters)

        layer = tfvn.MeanFieldDense(1, prior=Stubborn(tf.Variable(1.0, name="deaf")))
        with pytest.raises(ValueError, match=r"never be trained.*\['deaf'\]"):
            layer.build((None, 4))


class TestGroups:
    def test_there_only_if_there_are_any(self):
        plain = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1)])
        assert set(tfvn.variable_groups(plain)) == {"mean", "scale", "default"}
        assert set(plain.layers[0].variable_groups) == {"mean", "scale", "default"}
        model = make_model(tfd.Normal(0.0, tf.Variable(1.0)))
        assert list(tfvn.variable_groups(model)) == [
            "mean",
            "scale",
            "prior",
            "default",
        ]
        assert "prior" in model.layers[0].variable_groups
        assert len(model.layers[0].variable_groups["default"]) == 1

    def test_shared_prior_is_counted_and_updated_once(self):
        scale = tf.Variable(1.0)
        model = make_model(tfd.Normal(0.0, scale), keras.optimizers.SGD(1e-3))
        assert len(prior_variables(model)) == 1
        assert sum(v.value is scale for v in model.trainable_variables) == 1
        model.fit(X, Y, batch_size=16, verbose=0)
        # d KL / d scale at 1 is the sum of 1 - second moments; N is 16.
        gradient = np.sum(1.0 - second_moments(model)) / 16
        assert 1.0 - float(scale) == pytest.approx(1e-3 * gradient, rel=1e-3)

    def test_one_variable_in_two_priors(self):
        scale = tf.Variable(1.0)
        model = tfvn.Sequential(
            [
                keras.Input((4,)),
                tfvn.MeanFieldDense(2, prior=tfd.Normal(0.0, scale)),
                tfvn.MeanFieldDense(1, prior=tfd.Laplace(0.0, scale)),
            ]
        )
        assert len(prior_variables(model)) == 1

    def test_prior_of_a_bias(self):
        own, unused = tf.Variable(1.0), tf.Variable(1.0)
        layer = tfvn.MeanFieldDense(
            2, bias_posterior="mean_field", bias_prior=tfd.Normal(0.0, own)
        )
        layer.build((None, 4))
        assert [v.value is own for v in layer.variable_groups["prior"]] == [True]
        plain = tfvn.MeanFieldDense(2, bias_prior=tfd.Normal(0.0, unused))
        plain.build((None, 4))
        assert "prior" not in plain.variable_groups

    @pytest.mark.parametrize("wrapped", [False, True], ids=["layer", "bidirectional"])
    def test_recurrent(self, wrapped):
        scale = tf.Variable(1.0)
        layer = tfvn.MeanFieldLSTM(2, prior=tfd.Normal(0.0, scale))
        layer = keras.layers.Bidirectional(layer) if wrapped else layer
        model = tfvn.Sequential([keras.Input((3, 4)), layer])
        model.compile("sgd", "mse", jit_compile=False)
        variables = prior_variables(model)
        # `Bidirectional` makes both directions from the config, with a prior each.
        assert len(variables) == (2 if wrapped else 1)
        before = [float(v.numpy()) for v in variables]
        model.fit(np.ones((4, 3, 4)), np.ones((4, 4 if wrapped else 2)), verbose=0)
        assert all(
            float(v.numpy()) != old for v, old in zip(variables, before, strict=True)
        )

    def test_frozen_layer(self):
        scale = tf.Variable(1.0)
        model = make_model(tfd.Normal(0.0, scale))
        for layer in model.layers:
            layer.trainable = False
        assert "prior" not in tfvn.variable_groups(model)

    @pytest.mark.parametrize("before", [True, False], ids=["before", "after build"])
    def test_frozen_layer_beside_one_that_is_trained(self, before):
        """A prior that two layers share is learned as long as one of them is."""
        scale = tf.Variable(1.0)
        prior = tfd.Normal(0.0, scale)
        first, second = (tfvn.MeanFieldDense(2, prior=prior) for _ in range(2))
        first.trainable = not before
        model = tfvn.Sequential([keras.Input((4,)), first, second])
        first.trainable = False
        assert [v.value is scale for v in prior_variables(model)] == [True]
        assert len(model.trainable_variables) == 4
        second.trainable = False
        assert model.trainable_variables == []
        first.trainable = True
        assert len(prior_variables(model)) == 1
        model.trainable = False
        assert model.trainable_variables == []
        model.trainable = True
        assert len(model.trainable_variables) == 7

    def test_variable_that_is_not_trainable(self, tmp_path):
        scale = tf.Variable(1.0, trainable=False)
        model = make_model(tfd.Normal(0.0, scale))
        assert "prior" not in tfvn.variable_groups(model)
        scale.assign(3.0)
        model.save_weights(tmp_path / "m.weights.h5")
        scale.assign(1.0)
        model.load_weights(tmp_path / "m.weights.h5")
        assert float(scale) == 3.0
        model.save(tmp_path / "m.keras")
        loaded = keras.models.load_model(tmp_path / "m.keras")
        assert "prior" not in tfvn.variable_groups(loaded)
