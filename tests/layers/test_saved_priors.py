"""Priors with variables in them are saved, loaded and cloned."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_probability import bijectors as tfb
from tensorflow_probability import distributions as tfd
from trainable_prior_models import X, Y, make_model, prior_variables

import tfvn

# Each of a kind of variable.
PRIORS = {
    "tf": lambda: tfd.Normal(0.0, tf.Variable(1.0)),
    "keras": lambda: tfd.Laplace(0.0, keras.Variable(1.0)),
    "transformed": lambda: tfd.Normal(
        0.0,
        tfp.util.TransformedVariable(
            1.0, tfb.Chain([tfb.Shift(1e-3), tfb.Scale(2.0), tfb.Softplus()])
        ),
    ),
    "nested": lambda: tfd.MixtureSameFamily(
        tfd.Categorical(logits=tf.Variable([0.0, 1.0])),
        tfd.Normal(0.0, tf.Variable([0.1, 1.0])),
    ),
}


class TestSaving:
    @pytest.mark.parametrize("kind", PRIORS)
    def test_round_trip(self, kind, tmp_path):
        model = make_model(PRIORS[kind]())
        model.fit(X, Y, epochs=2, verbose=0)
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert len(loaded.trainable_variables) == len(model.trainable_variables)
        for one, other in zip(
            prior_variables(model), prior_variables(loaded), strict=True
        ):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
        weight = 0.3
        for before, after in zip(model.layers, loaded.layers, strict=True):
            priors = (
                tfvn.distributions.trainable.current(layer.prior)
                for layer in (before, after)
            )
            first, second = (float(p.log_prob(weight)) for p in priors)
            assert first == second
        # It goes on as the model itself does: the prior is still trained, and still one.
        for each in (model, loaded):
            each.fit(X, Y, batch_size=16, shuffle=False, verbose=0)
        for one, other in zip(
            prior_variables(model), prior_variables(loaded), strict=True
        ):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-2, atol=1e-3)

    def test_two_loads_share_nothing(self, tmp_path):
        model = make_model(PRIORS["tf"]())
        model.save(tmp_path / "model.keras")
        first, second = (
            keras.models.load_model(tmp_path / "model.keras", compile=False)
            for _ in range(2)
        )
        prior_variables(first)[0].assign(5.0)
        assert float(prior_variables(second)[0].numpy()) == 1.0

    def test_weights_file(self, tmp_path):
        scale = tf.Variable(1.0)
        model = make_model(tfd.Normal(0.0, scale))
        scale.assign(0.25)
        model.save_weights(tmp_path / "model.weights.h5")
        other_scale = tf.Variable(1.0)
        other = make_model(tfd.Normal(0.0, other_scale))
        other.load_weights(tmp_path / "model.weights.h5")
        assert float(other_scale) == 0.25

    def test_clone(self):
        scale = tf.Variable(1.0)
        model = make_model(tfd.Normal(0.0, scale))
        scale.assign(0.5)
        clone = keras.models.clone_model(model)
        values = [float(v.numpy()) for v in prior_variables(clone)]
        # A clone is made layer by layer, so that each has a prior of its own.
        assert values == [0.5, 0.5]
        prior_variables(clone)[0].assign(2.0)
        assert float(scale) == 0.5

    def test_config_is_plain_and_stable(self):
        layer = tfvn.MeanFieldDense(2, prior=PRIORS["transformed"]())
        config = layer.get_config()
        again = tfvn.MeanFieldDense.from_config(json.loads(json.dumps(config)))
        assert again.get_config() == config
