"""`kl_weight`: what it does to the loss, and the advice to those who leave it out."""

import json
import warnings

import harness
import keras
import numpy as np
import pytest
from known_kl import INPUTS, PRIOR, TARGETS, assert_losses, closed_form, make_layer

import tfvn


class TestStockModel:
    def model(self, layer):
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=False)
        return model

    @pytest.mark.parametrize("kl_weight", [0.0, 0.25, 3])
    def test_loss_is_nll_plus_weighted_kl(self, kl_weight):
        layer = make_layer(kl_weight=kl_weight)
        model = self.model(layer)
        nll = np.mean(np.square(model(INPUTS) - TARGETS))
        expected = nll + kl_weight * closed_form(layer)
        loss = model.evaluate(INPUTS, TARGETS, verbose=0)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)
        history = model.fit(INPUTS, TARGETS, batch_size=6, verbose=0).history
        np.testing.assert_allclose(history["loss"], [expected], rtol=1e-5)
        # Counted in each batch: the mean over three of them is the same.
        history = model.fit(INPUTS, TARGETS, batch_size=2, verbose=0).history
        np.testing.assert_allclose(history["loss"], [expected], rtol=1e-5)

    def test_weight_changes_without_retracing(self):
        traces = []

        class Counted(tfvn.MeanFieldDense):
            def call(self, inputs, training=None):
                traces.append(training)
                return super().call(inputs, training=training)

        layer = Counted(4, prior=PRIOR, kl_weight=1.0, estimator="mean")
        model = self.model(layer)
        nll = np.mean(np.square(model(INPUTS) - TARGETS))
        weights = [1.0, 0.5, 0.0, 2.0]
        seen = []

        def set_weight(epoch, logs):
            layer.kl_weight.assign(weights[epoch])

        def read(epoch, logs):
            seen.append((logs["loss"], len(traces)))

        callback = keras.callbacks.LambdaCallback(
            on_epoch_begin=set_weight, on_epoch_end=read
        )
        model.fit(
            INPUTS, TARGETS, batch_size=6, epochs=4, verbose=0, callbacks=[callback]
        )
        losses, counts = zip(*seen, strict=True)
        expected = [nll + weight * closed_form(layer) for weight in weights]
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        assert len(set(counts)) == 1

    def test_weight_changes_between_batches(self):
        layer = make_layer(kl_weight=1.0)
        model = self.model(layer)
        model.compile(keras.optimizers.SGD(0.0), harness.no_likelihood)
        for weight in (1.0, 0.1, 7.0):
            layer.kl_weight.assign(weight)
            loss = model.train_on_batch(INPUTS, TARGETS)
            np.testing.assert_allclose(loss, weight * closed_form(layer), rtol=1e-5)
            model.reset_metrics()

    def test_weight_is_saved_as_a_plain_number(self):
        config = make_layer(kl_weight=np.float32(0.5)).get_config()
        assert json.loads(json.dumps(config))["kl_weight"] == 0.5

    def test_weight_is_no_parameter(self):
        layer = make_layer()
        layer(INPUTS)
        assert not any(layer.kl_weight is weight for weight in layer.weights)
        assert layer.kl_weight.dtype == "float32"


class TestAdvice:
    def fit(self, layer, **kwargs):
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile("sgd", "mse", jit_compile=False, **kwargs)
        model.evaluate(INPUTS, TARGETS, verbose=0)
        model.fit(INPUTS, TARGETS, epochs=2, verbose=0)
        model.fit(INPUTS, TARGETS, batch_size=2, verbose=0)

    @pytest.mark.parametrize("run_eagerly", [False, True])
    def test_is_given_once_and_names_the_fix(self, run_eagerly):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.fit(make_layer(kl_weight=None), run_eagerly=run_eagerly)
        (advice,) = [w for w in caught if "kl_weight" in str(w.message)]
        assert "kl_weight=1 / number_of_training_examples" in str(advice.message)
        assert advice.category is UserWarning

    def test_is_given_for_each_layer(self):
        layers = [make_layer(kl_weight=None) for _ in range(2)]
        for layer in layers:
            with pytest.warns(UserWarning, match="kl_weight=1 / number_of"):
                layer(INPUTS, training=True)
            layer(INPUTS, training=True)

    def test_is_not_given_at_inference(self):
        # Warnings are errors here.
        layer = make_layer(kl_weight=None)
        layer(INPUTS)
        layer(INPUTS, training=False)

    @pytest.mark.parametrize(
        "layer",
        [
            lambda: make_layer(kl_weight=1.0),
            lambda: make_layer(kl_weight=0.0),
            lambda: make_layer(kl_weight=1 / 6),
            lambda: make_layer(prior=None, estimator="local", kl_weight=None),
            lambda: tfvn.VarianceDense(4),
            lambda: tfvn.VarianceDense(4, noise="bernoulli"),
        ],
    )
    def test_is_not_given_without_need(self, layer):
        self.fit(layer())

    def test_none_acts_as_one(self):
        layer = make_layer(kl_weight=None)
        layer(INPUTS)
        assert_losses(layer, [closed_form(layer)])
        assert layer.get_config()["kl_weight"] is None
