"""Pruned models: weights that are zero stay zero, and all else is as it was."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from pruning_models import dense, scatter

import tfvn
from tfvn.layers.base import stochastic_layers
from tfvn.posteriors import Pruned


def functional():
    """Two inputs and outputs, a shared layer, a nested model, a wrapper and a cell."""
    first, second = keras.Input((6, 3), name="a"), keras.Input((6, 3), name="b")
    shared = tfvn.MeanFieldDense(4, name="shared", kl_weight=0.1)
    inner = keras.Sequential(
        [
            keras.Input((6, 4)),
            keras.layers.Bidirectional(tfvn.KTiedGRU(3, kl_weight=0.1), name="both"),
            keras.layers.BatchNormalization(),
        ],
        name="inner",
    )
    cells = keras.layers.RNN(
        tfvn.GaussianDropoutLSTMCell(2, kl_weight=0.1, name="cell")
    )
    steps = keras.layers.TimeDistributed(tfvn.VarianceDense(2, name="step"))
    head = tfvn.layers.NormalHead(1, posterior="mean_field", kl_weight=0.1, name="head")
    x = inner(shared(first) + shared(second))
    outputs = [head(x), cells(steps(second))]
    return keras.Model([first, second], outputs)


def image():
    layers = [
        tfvn.VarianceConv2D(3, 2, noise="uniform"),
        keras.layers.Flatten(),
        tfvn.GaussianDropoutDense(2, alpha="weight", kl_weight=0.1),
    ]
    return keras.Sequential([keras.Input((5, 5, 2)), *layers])


MODELS = {"functional": functional, "image": image}


def inputs_of(model, rows=3):
    shapes = [tuple(symbol.shape[1:]) for symbol in model.inputs]
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(rows, *s)).astype("float32") for s in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def masks_of(model):
    """Returns all masks of a model, by the number of the layer and by weight."""
    return {
        (index, name): posterior.mask.numpy()
        for index, layer in enumerate(stochastic_layers(model))
        for name, posterior in layer.posteriors.items()
        if isinstance(posterior, Pruned)
    }


def assert_zero(model, masks):
    """Checks that what the masks prune is zero, in the mean and in a sample."""
    found = masks_of(model)
    assert found.keys() == masks.keys()
    for (index, name), mask in masks.items():
        np.testing.assert_array_equal(found[index, name], mask)
        posterior = stochastic_layers(model)[index].posteriors[name]
        for kernel in (posterior.mean(), posterior.sample([3, 4])):
            np.testing.assert_array_equal(kernel.numpy()[~mask], 0.0)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
class TestPrunedModels:
    def test_have_exact_shares_and_leave_the_original_alone(self, make):
        model = make()
        before = [variable.numpy() for variable in model.variables]
        pruned = tfvn.prune(model, 0.75)
        shares = tfvn.sparsity(pruned)
        sizes = {
            layer.name: sum(
                posterior.spec.rows * posterior.spec.columns
                for posterior in layer.posteriors.values()
            )
            for layer in stochastic_layers(model)
        }
        total = sum(round(0.75 * size) for size in sizes.values())
        assert shares.total == total / sum(sizes.values())
        assert len(shares.layers) == len(sizes)
        assert tfvn.sparsity(model).total == 0.0
        for variable in pruned.trainable_variables:
            variable.assign(variable + 1.0)
        for variable, value in zip(model.variables, before, strict=True):
            np.testing.assert_array_equal(variable, value)

    def test_nothing_pruned_is_the_same_model(self, make):
        model = scatter(make())
        same, half = tfvn.prune(model, 0.0), tfvn.prune(model, 0.5)
        x = inputs_of(model)
        expected = keras.tree.flatten(tfvn.mean_predict(model, x))
        found = keras.tree.flatten(tfvn.mean_predict(same, x))
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        kls = [
            sum(float(layer.kl_divergence()) for layer in stochastic_layers(m))
            for m in (model, same, half)
        ]
        assert kls[0] == pytest.approx(kls[1], rel=1e-5)
        assert kls[2] < 0.9 * kls[0]

    def test_stay_pruned(self, make, tmp_path):
        pruned = tfvn.prune(scatter(make()), 0.6)
        masks = masks_of(pruned)
        x = inputs_of(pruned)
        zeros = keras.tree.map_structure(np.zeros_like, tfvn.mean_predict(pruned, x))
        pruned.compile(
            keras.optimizers.AdamW(0.1, weight_decay=0.1), "mse", run_eagerly=True
        )
        pruned.fit(x, zeros, verbose=0)
        assert_zero(pruned, masks)
        pruned.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert_zero(loaded, masks)
        means = (tfvn.mean_predict(model, x) for model in (pruned, loaded))
        for one, other in zip(*map(keras.tree.flatten, means), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        again = tfvn.prune(loaded, 0.8)
        for key, mask in masks_of(again).items():
            assert not np.any(mask & ~masks[key])
        assert tfvn.sparsity(again).total == pytest.approx(0.8, abs=0.05)
        assert_zero(tfvn.prune(again, 0.1), masks_of(again))


def test_a_held_draw_is_zero_where_pruned():
    model = tfvn.prune(scatter(image()), 0.6)
    drawn = tfvn.sample_model(model, seed=1)
    for layer, twin in ((model.layers[i], drawn.layers[i]) for i in (0, 2)):
        mask = layer.posterior.mask.numpy()
        assert np.all((twin.kernel.numpy() != 0.0) == mask)


def test_a_plain_copy_by_keras_keeps_the_weights():
    model = tfvn.prune(scatter(image()), 0.6)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    assert_zero(clone, masks_of(model))


def test_an_export_answers_as_the_pruned_model(tmp_path):
    model = tfvn.prune(dense("mean_field", activation="softmax"), 0.8)
    path = tfvn.export_ensemble(model, tmp_path / "served", num_samples=4)
    x, seeds = inputs_of(model), np.arange(6).reshape(3, 2).astype("int32")
    loaded = tf.saved_model.load(str(path))
    served = loaded.signatures["seeded"](inputs=tf.constant(x), seed=tf.constant(seeds))
    answer = tfvn.ensemble_predict(model, x, num_samples=4, seed=seeds)
    np.testing.assert_allclose(served["mean"], answer.mean, rtol=1e-4, atol=1e-6)
    assert tfvn.ensemble_predict(model, x, num_samples=4).std.max() > 0


class TestKindOfModel:
    def test_is_that_of_the_original(self):
        x, y = np.ones((8, 10), "float32"), np.ones((8, 4), "float32")
        for kind, weight in ((keras.Sequential, 0.01), (tfvn.Sequential, None)):
            layer = tfvn.MeanFieldDense(4, kl_weight=weight)
            model = kind([keras.Input((10,)), layer])
            model.compile("adam", "mse", jit_compile=False)
            model.fit(x, y, verbose=0)
            pruned = tfvn.prune(model, 0.5)
            assert type(pruned) is kind
            assert pruned.optimizer is not model.optimizer
            pruned(x)
            # A model of the library divides by the number of examples that `fit` found.
            weight = 1 / len(x) if weight is None else weight
            kl = float(pruned.layers[0].kl_divergence())
            assert float(pruned.losses[0]) == pytest.approx(weight * kl, rel=1e-4)

    def test_is_functional(self):
        symbol = keras.Input((4,))
        for kind in (tfvn.Model, keras.Model):
            model = kind(symbol, tfvn.VarianceDense(2)(symbol))
            assert type(tfvn.prune(model, 0.5)) is type(model)


def test_dropout_layers_are_still_known_as_such():
    layer = tfvn.GaussianDropoutDense(3, activation="softmax", kl_weight=0.1)
    model = tfvn.prune(scatter(keras.Sequential([keras.Input((4,)), layer])), 0.5)
    x, y = inputs_of(model), np.array([0, 1, 2])
    answer = tfvn.zero_mean_predict(model, x, num_samples=400, seed=1)
    # Without means all classes are alike on average, though not in a draw.
    assert answer.mean.shape == (3, 3)
    callback = tfvn.callbacks.PhaseTransition((x, y), num_samples=2)
    model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    history = model.fit(x, y, callbacks=[callback], verbose=0).history
    assert f"log_alpha_{layer.name}" in history


class TestLaplace:
    """Models of `tfvn.last_layer_laplace`, whose kernel has the bias as its last row."""

    def model(self, hessian):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(20, 4)), rng.integers(0, 3, 20)
        layer = keras.layers.Dense(3, activation="softmax", bias_initializer="ones")
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile("adam", "sparse_categorical_crossentropy")
        return tfvn.last_layer_laplace(model, x, y, hessian=hessian)

    @pytest.mark.parametrize("how", [{"fraction": 0.5}, {"threshold": 1e6}])
    def test_biases_are_kept(self, how):
        pruned = tfvn.prune(self.model("diag"), **how)
        mask = np.asarray(pruned.layers[-1].posterior.mask)
        share = how.get("fraction", 1.0)
        assert np.all(mask[-1])
        assert np.mean(~mask[:-1]) == share
        assert tfvn.sparsity(pruned).total == share

    @pytest.mark.parametrize("hessian", ["kron", "full"])
    def test_correlated_weights_are_refused(self, hessian):
        with pytest.raises(ValueError, match="Weights that are correlated"):
            tfvn.prune(self.model(hessian), fraction=0.5)
