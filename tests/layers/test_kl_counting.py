"""The KL is in the loss once per forward pass, as a sum, and of the drawn sample."""

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf
from known_kl import INPUTS, PRIOR, TARGETS, assert_losses, closed_form, make_layer
from tensorflow_probability import distributions as tfd

import tfvn


class TestValue:
    @pytest.mark.parametrize("bias_posterior", [None, "mean_field"])
    def test_is_the_sum_over_weights(self, bias_posterior):
        layer = make_layer(bias_posterior=bias_posterior)
        layer(INPUTS)
        assert len(harness.random_parts(layer)) == (2 if bias_posterior else 1)
        np.testing.assert_allclose(layer.kl_divergence(), closed_form(layer), rtol=1e-5)

    @pytest.mark.parametrize(
        "layer_class", [tfvn.MeanFieldDense, tfvn.layers.Dense, tfvn.VarianceDense]
    )
    def test_doubles_with_the_width(self, layer_class):
        narrow, wide = (
            layer_class(units, prior=PRIOR, kl_weight=1.0) for units in (50, 100)
        )
        for layer in (narrow, wide):
            layer.build((None, 30))
        ratio = wide.kl_divergence() / narrow.kl_divergence()
        assert 1.95 < float(ratio) < 2.05

    def test_doubles_with_the_filters(self):
        narrow, wide = (
            tfvn.MeanFieldConv2D(filters, 3, prior=PRIOR) for filters in (20, 40)
        )
        for layer in (narrow, wide):
            layer.build((None, 8, 8, 4))
        ratio = wide.kl_divergence() / narrow.kl_divergence()
        assert 1.95 < float(ratio) < 2.05

    def test_does_not_depend_on_the_batch(self):
        layer = make_layer()
        layer(INPUTS)
        few = float(layer.losses[0])
        layer(np.tile(INPUTS, (10, 1)))
        assert float(layer.losses[0]) == few

    def test_is_the_same_in_eager_graph_and_jit(self):
        layer = make_layer(bias_posterior="mean_field", estimator="local")

        def loss(inputs):
            layer(inputs)
            return tf.add_n(layer.losses)

        eager = loss(INPUTS)
        graph = tf.function(loss)(INPUTS)
        jit = tf.function(loss, jit_compile=True)(INPUTS)
        np.testing.assert_allclose(eager, closed_form(layer), rtol=1e-5)
        np.testing.assert_allclose(graph, eager, rtol=1e-6)
        np.testing.assert_allclose(jit, eager, rtol=1e-5)

    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
    def test_is_float32_under_mixed_precision(self, policy):
        layer = make_layer(dtype=policy)
        assert layer(INPUTS).dtype == policy.removeprefix("mixed_")
        assert layer.losses[0].dtype == "float32"
        assert layer.kl_divergence().dtype == "float32"
        # A KL that went through half precision would be off by 1e-3.
        np.testing.assert_allclose(layer.losses[0], closed_form(layer), rtol=1e-5)

    def test_is_float32_in_a_float64_layer(self):
        layer = make_layer(dtype="float64", prior="normal")
        layer(INPUTS.astype("float64"))
        assert layer.losses[0].dtype == "float32"


class TestOnce:
    def test_per_forward_pass(self):
        layer = make_layer()
        for _ in range(3):
            layer(INPUTS)
            assert_losses(layer, [closed_form(layer)])

    def test_beside_a_regularizer(self):
        layer = make_layer(kernel_regularizer=keras.regularizers.L2(0.5))
        layer(INPUTS)
        square = 0.5 * float(np.sum(np.square(layer.posterior.mean())))
        assert_losses(layer, [closed_form(layer), square])

    @pytest.mark.parametrize("estimator", ["mean", "local", "weights"])
    def test_in_a_functional_model_that_shares_a_layer(self, estimator):
        layer = make_layer(estimator=estimator)
        inputs = keras.Input((4,))
        model = keras.Model(inputs, layer(layer(inputs)))
        model(INPUTS)
        assert_losses(model, [closed_form(layer)])
        # The second forward pass counts it anew.
        layer.posterior.mean_variable.assign_add(np.ones((4, 4)))
        model(INPUTS)
        assert_losses(model, [closed_form(layer)])

    def test_in_a_shared_layer_that_is_trained(self):
        layer = make_layer(kl_weight=0.3)
        inputs = keras.Input((4,))
        model = keras.Model(inputs, layer(layer(inputs)))
        model.compile(loss=harness.no_likelihood)
        for jit in (False, True):
            model.jit_compile = jit
            kl = 0.3 * closed_form(layer)
            history = model.fit(INPUTS, TARGETS, verbose=0).history
            np.testing.assert_allclose(history["loss"], [kl], rtol=1e-5)

    def test_in_a_shared_layer_on_two_replicas(self):
        inputs = keras.Input((4,))
        with harness.two_replicas().scope():
            layer = make_layer(kl_weight=0.3, estimator="weights")
            model = keras.Model(inputs, layer(layer(inputs)))
            model.compile(keras.optimizers.SGD(0.1), harness.no_likelihood)
        mean = layer.posterior.mean().numpy()
        kl = 0.3 * closed_form(layer)
        history = model.fit(INPUTS, TARGETS, batch_size=6, verbose=0).history
        np.testing.assert_allclose(history["loss"], [kl], rtol=1e-5)
        np.testing.assert_allclose(
            layer.posterior.mean(), mean * (1 - 0.1 * 0.3), rtol=1e-4
        )

    def test_in_nested_models(self):
        inner_layer, outer_layer = make_layer(), make_layer(kl_weight=2.0)
        inner = keras.Sequential([keras.Input((4,)), inner_layer])
        middle = keras.Sequential([keras.Input((4,)), inner, outer_layer])
        start = keras.Input((4,))
        # The inner model is used in two places.
        outer = keras.Model(start, keras.layers.Add()([middle(start), inner(start)]))
        expected = [closed_form(inner_layer), 2.0 * closed_form(outer_layer)]
        outer(INPUTS)
        assert_losses(outer, expected)
        outer.compile(loss=harness.no_likelihood)
        loss = outer.evaluate(INPUTS, TARGETS, verbose=0)
        np.testing.assert_allclose(loss, sum(expected), rtol=1e-5)

    def test_for_two_layers_of_one_posterior(self):
        posterior = tfvn.posteriors.MeanField(0.5)
        layers = [
            tfvn.layers.Dense(4, posterior=posterior, prior=PRIOR, kl_weight=1.0)
            for _ in range(2)
        ]
        model = keras.Sequential([keras.Input((4,)), *layers])
        model(INPUTS)
        assert_losses(model, [closed_form(layer) for layer in layers])

    def test_with_stateless_call(self):
        layer = make_layer()
        model = keras.Sequential([keras.Input((4,)), layer, layer])
        _, _, losses = model.stateless_call(
            model.trainable_variables,
            model.non_trainable_variables,
            INPUTS,
            return_losses=True,
        )
        assert len(losses) == 1
        np.testing.assert_allclose(losses[0], closed_form(layer), rtol=1e-5)

    @pytest.mark.parametrize("compiled", ["eager", "graph", "jit"])
    def test_in_a_loop_of_ones_own(self, compiled):
        class Model(keras.Model):
            def __init__(self):
                super().__init__()
                self.first = make_layer(kl_weight=0.5, bias_posterior="mean_field")
                self.second = keras.layers.Dense(4)

            def call(self, inputs):
                # The layer is shared by two steps of one forward pass.
                return self.second(self.first(self.first(inputs)))

        model = Model()
        model(INPUTS)
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)

        def step(inputs):
            with tf.GradientTape() as tape:
                outputs = model(inputs, training=True)
                kl = tf.add_n(model.losses)
                loss = kl + 0.0 * tf.reduce_sum(outputs)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(
                zip(gradients, model.trainable_variables, strict=True)
            )
            return kl

        if compiled != "eager":
            step = tf.function(step, jit_compile=compiled == "jit")
        for _ in range(3):
            mean = model.first.posterior.mean().numpy()
            expected = 0.5 * closed_form(model.first)
            np.testing.assert_allclose(step(INPUTS), expected, rtol=1e-5)
            # d KL / d mean = mean, so that a KL counted twice would show.
            np.testing.assert_allclose(
                model.first.posterior.mean(), mean * (1 - 0.1 * 0.5), rtol=1e-4
            )


class TestNothingToAdd:
    @pytest.mark.parametrize(
        "layer",
        [
            lambda: tfvn.VarianceDense(3),
            lambda: tfvn.VarianceDense(3, noise="bernoulli"),
            lambda: tfvn.VarianceDense(3, noise="uniform"),
            lambda: tfvn.VarianceDense(3, prior="ard"),
            lambda: tfvn.MeanFieldDense(3, prior=None),
            lambda: tfvn.MeanFieldDense(3, prior=None, bias_posterior="mean_field"),
        ],
    )
    def test_no_loss(self, layer):
        layer = layer()
        layer(INPUTS, training=True)
        assert layer.losses == []
        assert layer.kl_divergence().numpy() == 0.0
        assert layer.kl_divergence().dtype == "float32"

    def test_only_the_bias(self):
        layer = tfvn.VarianceDense(
            4, bias_posterior=tfvn.posteriors.MeanField(0.5), bias_prior=PRIOR
        )
        layer(INPUTS)
        mean, scale = np.zeros(4), np.full(4, 0.5)
        expected = np.sum(0.5 * (scale**2 + mean**2 - 1) - np.log(scale))
        assert_losses(layer, [expected])


class TestMonteCarlo:
    def draws(self, layer):
        return int(layer.seed_generator.state.numpy()[1])

    @pytest.mark.parametrize("prior", [PRIOR, tfd.Laplace(0.0, 1.0), "log_uniform"])
    def test_weights_are_the_sample(self, prior):
        layer = make_layer(
            prior=prior,
            estimator="weights",
            kl_method="monte_carlo",
            use_bias=False,
            seed=5,
        )
        layer.build((None, 4))
        # The identity as inputs shows the kernel that was drawn.
        kernel = layer(np.eye(4, dtype="float32"))
        assert self.draws(layer) == 1
        q = layer.posterior_distribution()
        p = tfvn.distributions.LogUniform() if isinstance(prior, str) else prior
        expected = tf.reduce_sum(q.log_prob(kernel) - p.log_prob(kernel)).numpy()
        if isinstance(prior, str):
            # The constant that no gradient sees is left out, as in the closed form.
            expected += 2.0541199559 * 16
        np.testing.assert_allclose(layer.losses[0], expected, rtol=1e-4)

    def test_bias_too(self):
        layer = make_layer(
            estimator="weights",
            kl_method="monte_carlo",
            bias_posterior=tfvn.posteriors.MeanField(0.5),
        )
        layer.build((None, 4))
        inputs = np.concatenate([np.zeros((1, 4)), np.eye(4)]).astype("float32")
        outputs = layer(inputs).numpy()
        assert self.draws(layer) == 2
        bias, kernel = outputs[0], outputs[1:] - outputs[0]
        expected = 0.0
        for part, drawn in ((layer.posterior, kernel), (layer.bias_posterior, bias)):
            log_ratio = part.distribution().log_prob(drawn) - PRIOR.log_prob(drawn)
            expected += np.sum(log_ratio)
        np.testing.assert_allclose(layer.losses[0], expected, rtol=1e-4)

    @pytest.mark.parametrize("estimator", ["local", "mean"])
    def test_other_estimators_draw_for_it(self, estimator):
        layer = make_layer(estimator=estimator, kl_method="monte_carlo")
        layer(INPUTS)
        assert self.draws(layer) == (2 if estimator == "local" else 1)

    @pytest.mark.parametrize("estimator", ["local", "mean", "weights"])
    def test_closed_form_draws_nothing(self, estimator):
        layer = make_layer(estimator=estimator)
        layer(INPUTS)
        assert self.draws(layer) == (0 if estimator == "mean" else 1)

    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_estimates_the_closed_form(self, estimator):
        layer = make_layer(estimator=estimator, kl_method="monte_carlo")
        layer.build((None, 4))

        @tf.function
        def estimate():
            layer(INPUTS)
            return layer.losses[0]

        draws = np.array([estimate() for _ in range(500)])
        error = draws.std() / np.sqrt(len(draws))
        assert error > 0
        assert abs(draws.mean() - closed_form(layer)) < 4 * error
