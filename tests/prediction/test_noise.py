"""What makes layers draw at inference, and for whom."""

import threading

import keras
import models
import numpy as np
import pytest
from keras import layers

import tfvn
from tfvn.layers.inside import replaced_estimators
from tfvn.prediction import noise


def drawing_of_dropout(model):
    return noise.drawing(model), lambda: "call" in vars(model.layers[2])


def other_estimators(model):
    other = tfvn.estimators.get("mean")
    context = replaced_estimators(model, lambda layer: other)
    return context, lambda: model.layers[1].estimator is other


@pytest.mark.parametrize("change", [drawing_of_dropout, other_estimators])
def test_two_threads_do_not_undo_what_the_other_has_changed(change):
    model = models.sequential(models.mean_field("local"), layers.Dropout(0.5))
    own = model.layers[1].estimator
    asks, is_in = threading.Event(), threading.Event()
    found = []

    def enter():
        context, is_changed = change(model)
        asks.set()
        with context:
            is_in.set()
            first.join()
            found.append(is_changed())

    def enter_first():
        context, is_changed = change(model)
        with context:
            second.start()
            asks.wait()
            # Long enough for one that does not wait.
            found.append(is_in.wait(0.2))
            found.append(is_changed())

    first, second = (threading.Thread(target=t) for t in (enter_first, enter))
    first.start()
    first.join()
    second.join()
    assert found == [False, True, True]
    assert "call" not in vars(model.layers[2])
    assert model.layers[1].estimator is own


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
    with noise.drawing(model):
        model(models.X, training=False)
    np.testing.assert_array_equal(block.norm.moving_mean, np.zeros(models.FEATURES))
