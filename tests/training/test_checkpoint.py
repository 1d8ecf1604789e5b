"""`tf.train.Checkpoint` of a `tfvn.Model` has its weights, its noise and its progress."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn

X, Y = np.ones((8, 3), "float32"), np.ones((8, 2), "float32")


def make(seed):
    keras.utils.set_random_seed(seed)
    model = tfvn.Sequential(
        [
            keras.Input((3,)),
            tfvn.KTiedDense(4),
            keras.layers.Dropout(0.5),
            tfvn.MeanFieldDense(2, bias_posterior="mean_field"),
        ]
    )
    schedule = tfvn.schedules.LinearAnnealing(steps=100)
    model.compile("sgd", "mse", kl_schedule=schedule, jit_compile=False)
    return model


def test_model_must_be_built(tmp_path):
    unbuilt = tfvn.Sequential([tfvn.MeanFieldDense(2)])
    checkpoint = tf.train.Checkpoint(model=unbuilt)
    with pytest.raises(ValueError, match=r"built before.*Received: model="):
        checkpoint.write(str(tmp_path / "model"))
    unbuilt(X)
    path = checkpoint.write(str(tmp_path / "model"))
    other = tf.train.Checkpoint(model=tfvn.Sequential([tfvn.MeanFieldDense(2)]))
    with pytest.raises(ValueError, match=r"built before.*Received: model="):
        other.read(path)


@pytest.mark.parametrize("strategy", ["one device", "two replicas"])
def test_training_goes_on_as_if_it_had_not_been_interrupted(
    strategy, tmp_path, request
):
    if strategy == "two replicas":
        scope = request.getfixturevalue("two_replicas").scope
    else:
        scope = tf.distribute.get_strategy().scope
    with scope():
        model = make(1)
    model.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    path = tf.train.Checkpoint(model=model).write(str(tmp_path / "model"))
    expected = model.fit(X, Y, batch_size=4, shuffle=False, verbose=0).history
    with scope():
        other = make(2)
        other.optimizer.build(other.trainable_variables)
        tf.train.Checkpoint(model=other).read(path).assert_existing_objects_matched()
    found = other.fit(X, Y, batch_size=4, shuffle=False, verbose=0).history
    # The loss depends on the weights, the noise and the step of the schedule.
    assert found == expected
    for weight, value in zip(other.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, value)
