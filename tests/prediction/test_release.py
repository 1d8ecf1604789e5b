"""Models that were predicted with go when their user lets go of them."""

import gc
import weakref

import keras
import numpy as np
import pytest

import tfvn

X = np.ones((3, 4), "float32")


def ensemble(model):
    tfvn.ensemble_predict(model, X, num_samples=2, outputs="regression")


def mean(model):
    tfvn.mean_predict(model, X)


def sample(model):
    tfvn.sample_model(model, seed=1)(X)


@pytest.mark.parametrize("use", [ensemble, mean, sample], ids=lambda u: u.__name__)
def test_model_is_not_kept(use):
    layers = [tfvn.MeanFieldDense(2, kl_weight=1.0), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    use(model)
    known = weakref.ref(model)
    del model, layers
    # Of its symbolic call Keras remembers the layers until then.
    keras.utils.clear_session(free_memory=False)
    gc.collect()
    assert known() is None
