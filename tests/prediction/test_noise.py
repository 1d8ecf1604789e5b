"""What makes layers draw at inference, and for whom."""

import copy
import pickle

import keras
import models
import numpy as np
from keras import layers

from tfvn import passes, random
from tfvn.prediction import noise


class Block(models.NoiseOfTraining):
    """A layer with noise and a layer inside."""

    def __init__(self):
        super().__init__()
        self.norm = layers.BatchNormalization()

    def call(self, inputs, training=False):
        return self.norm(super().call(inputs, training=training), training=training)


def test_layers_inside_of_an_unknown_one_are_not_in_training():
    inputs = keras.Input((models.FEATURES,))
    block = Block()
    model = keras.Model(inputs, block(inputs))
    noise.prepare(model)
    with passes.changed(draws_noise=True):
        model(models.X, training=False)
    np.testing.assert_array_equal(block.norm.moving_mean, np.zeros(models.FEATURES))


def draw(model):
    """One draw of a model by a seed, at inference."""
    stream = random.Stream([0, 7])
    with passes.entered(passes.Pass(draws_noise=True, stream=stream)):
        return model(models.X, training=False).numpy()


class TestPreparedModels:
    """Keras's noise layers read the pass, and nobody can tell from outside."""

    def setup_method(self):
        inputs = keras.Input((models.FEATURES,))
        self.dropout = layers.Dropout(0.5, seed=1)
        outputs = layers.Dense(3)(self.dropout(inputs))
        self.model = keras.Model(inputs, outputs)
        self.config = self.model.get_config()
        noise.prepare(self.model)
        self.drawn = draw(self.model)

    def test_draw_in_a_pass_only(self):
        quiet = self.model(models.X, training=False).numpy()
        assert (self.drawn != quiet).any()
        np.testing.assert_array_equal(draw(self.model), self.drawn)
        np.testing.assert_array_equal(self.model(models.X, training=False), quiet)

    def test_are_wrapped_once(self):
        before = [dict(vars(layer)) for layer in self.model.layers]
        noise.prepare(self.model)
        assert [dict(vars(layer)) for layer in self.model.layers] == before

    def test_have_the_same_config_and_generators(self):
        assert self.model.get_config() == self.config
        generator = self.dropout.seed_generator
        states = [generator.state.numpy().tolist()]
        draw(self.model)
        states.append(generator.state.numpy().tolist())
        self.model(models.X, training=True)
        assert states == [[1, 0]] * 2
        assert generator.state.numpy().tolist() == [1, 1]

    def test_copies_are_on_their_own(self, tmp_path):
        self.model.save(tmp_path / "model.keras")
        clone = keras.models.clone_model(self.model)
        clone.set_weights(self.model.get_weights())
        copies = [
            copy.deepcopy(self.model),
            pickle.loads(pickle.dumps(self.model)),
            keras.saving.load_model(tmp_path / "model.keras"),
            clone,
        ]
        for other in copies:
            noise.prepare(other)
            np.testing.assert_array_equal(draw(other), self.drawn)
            other(models.X, training=True)
        assert self.dropout.seed_generator.state.numpy().tolist() == [1, 0]
