"""Callbacks undo their changes when training fails, in stock Keras models too."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from callback_models import X, Y, assert_same, state

import tfvn
from tfvn.training.callbacks.steps import GuardedSteps
from tfvn.training.group_optimizer import GroupOptimizer


class Fail(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        raise KeyboardInterrupt


@pytest.fixture
def stock_model():
    layer = tfvn.MeanFieldDense(1, kl_weight=0.1, name="last")
    model = keras.Sequential([keras.Input((4,)), layer])
    model.compile(GroupOptimizer({"mean": "sgd", "scale": "sgd"}), "mse")
    model.run_eagerly = True
    model.fit(X, Y, verbose=0)
    return model


def test_error_in_a_step(stock_model):
    before = state(stock_model)
    test = tfvn.callbacks.LearningRateRange(0.1, 1.0, steps=9)
    batches = ((X, Y[:size]) for size in (32, 31))
    options = {"steps_per_epoch": 2, "shuffle": False, "verbose": 0}
    with pytest.raises(tf.errors.InvalidArgumentError, match="ncompatible shapes"):
        stock_model.fit(batches, callbacks=[test], **options)
    assert_same(before, state(stock_model))
    assert not isinstance(stock_model.train_function, GuardedSteps)


@pytest.mark.parametrize("has_guards", [False, True])
def test_error_in_another_callback_is_noticed_in_the_next_fit(stock_model, has_guards):
    snr = tfvn.callbacks.GradientSNR("last", 3)
    turns = tfvn.callbacks.AlternateGroups()
    with pytest.raises(KeyboardInterrupt):
        stock_model.fit(X, Y, callbacks=[snr, turns, Fail()], verbose=0)
    assert isinstance(stock_model.train_function, GuardedSteps)
    (scale,) = stock_model.layers[0].variable_groups["scale"]
    before, count = scale.numpy(), snr._count.numpy()
    callbacks = [tfvn.callbacks.GradientSNR("last", 3)] * has_guards
    stock_model.fit(X, Y, callbacks=callbacks, verbose=0)
    # The group that was off is trained again, and nobody records for the old callback.
    assert not np.array_equal(scale.numpy(), before)
    assert snr._count.numpy() == count
    assert not isinstance(stock_model.train_function, GuardedSteps)
