"""Conversion, Laplace and pruning with ordinary Keras code: data sets, weights, threads."""

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from keras import layers

import tfvn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4)).astype("float32")
Y = RNG.integers(0, 3, 24)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        rows = slice(8 * index, 8 * index + 8)
        return X[rows], Y[rows]


def classifier(optimizer="sgd", **kwargs):
    model = keras.Sequential(
        [keras.Input((4,)), layers.Dense(5, "relu"), layers.Dense(3, "softmax")]
    )
    model.compile(optimizer, "sparse_categorical_crossentropy", **kwargs)
    return model


def plain_nll(model):
    return -np.log(model(X).numpy()[np.arange(len(Y)), Y])


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_of_a_py_dataset(workers):
    model = classifier(run_eagerly=True)
    fitted = tfvn.last_layer_laplace(model, Batches(workers=workers))
    expected = tfvn.last_layer_laplace(model, X, Y)
    for one, other in zip(fitted.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(np.abs(one), np.abs(other), rtol=1e-3, atol=1e-4)
    converted = tfvn.from_deterministic(model, scale=0.3)
    history = tfvn.fit_scales(
        converted, Batches(workers=workers), epochs=2, learning_rate=0.01, verbose=0
    ).history
    loss = np.add(history["nll"], np.divide(history["kl"], len(X)))
    np.testing.assert_allclose(history["loss"], loss, rtol=1e-5)
    answer = tfvn.ensemble_predict(converted, Batches(workers=workers), 2, seed=1)
    same = tfvn.ensemble_predict(converted, X, 2, seed=1)
    np.testing.assert_allclose(answer.mean, same.mean, atol=1e-5)


def test_class_weights():
    model = classifier(keras.optimizers.SGD(0.0), run_eagerly=True)
    converted = tfvn.from_deterministic(model, scale=1e-5)
    weights = {0: 1.0, 1: 2.0, 2: 5.0}
    history = converted.fit(X, Y, class_weight=weights, verbose=0).history
    expected = np.mean(plain_nll(model) * [weights[label] for label in Y])
    np.testing.assert_allclose(history["nll"], [expected], rtol=1e-3)


def test_accumulated_gradients():
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
    model = classifier(optimizer, run_eagerly=True)
    converted = tfvn.from_deterministic(model)
    for copy in (converted, tfvn.prune(converted, fraction=0.5)):
        before = copy.get_weights()
        copy.fit(X, Y, verbose=0)  # one batch, after which nothing changes yet
        for now, then in zip(copy.get_weights(), before, strict=True):
            np.testing.assert_array_equal(now, then)
        copy.fit(X, Y, verbose=0)
        assert not np.array_equal(copy.get_weights()[0], before[0])


def test_compiled_by_xla():
    model = classifier(jit_compile=True)
    converted = tfvn.from_deterministic(model, train_size=len(X), scale=1e-4)
    assert converted.jit_compile
    kl = sum(float(layer.kl_divergence()) for layer in converted.layers)
    expected = np.mean(plain_nll(model)) + kl / len(X)
    loss = converted.evaluate(X, Y, verbose=0)
    np.testing.assert_allclose(loss, expected, rtol=1e-3)


def test_copies_in_threads():
    model = classifier()

    def copies(seed):
        converted = tfvn.from_deterministic(model, seed=seed, scale=0.3)
        drawn = tfvn.sample_model(tfvn.prune(converted, fraction=0.5), seed=seed)
        return drawn(X).numpy(), tfvn.last_layer_laplace(model, X, Y).get_weights()

    alone = [copies(seed) for seed in range(3)]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(copies, range(3)))
    for (drawn, weights), (other, others) in zip(alone, together, strict=True):
        np.testing.assert_allclose(drawn, other, atol=1e-6)
        for one, same in zip(weights, others, strict=True):
            np.testing.assert_allclose(one, same, atol=1e-6)
