"""A held draw: plain, deterministic, and drawn from the posterior."""

import keras
import models
import numpy as np
import pytest
import ztests
from keras import layers
from models import FEATURES, X

import tfvn


def is_plain(model):
    return not any(
        type(layer).__module__.startswith("tfvn") for layer in model._flatten_layers()
    )


def twice_nested():
    inner = models.sequential(models.mean_field("local"))
    middle_inputs = keras.Input((FEATURES,))
    middle = tfvn.Model(middle_inputs, inner(middle_inputs))
    inputs = keras.Input((FEATURES,))
    return tfvn.Model(inputs, layers.Dense(2)(middle(inputs) + middle(2 * inputs)))


@pytest.mark.parametrize(
    "make",
    [
        models.local,
        models.weights,
        models.random_bias,
        models.shared_stochastic,
        twice_nested,
    ],
    ids=lambda make: make.__name__,
)
def test_is_a_plain_model_with_one_draw(make, tmp_path):
    model = make()
    before = [weight.copy() for weight in model.get_weights()]
    held = tfvn.sample_model(model, seed=1)
    assert is_plain(held)
    np.testing.assert_array_equal(held(X), held(X))
    np.testing.assert_array_equal(held(X), tfvn.sample_model(model, seed=1)(X))
    assert np.abs(held(X) - tfvn.sample_model(model, seed=2)(X)).max() > 1e-4
    assert (
        np.abs(tfvn.sample_model(model)(X) - tfvn.sample_model(model)(X)).max() > 1e-4
    )
    held.save(tmp_path / "held.keras")
    loaded = keras.models.load_model(tmp_path / "held.keras")
    np.testing.assert_allclose(loaded(X), held(X), atol=1e-6)
    for now, then in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_kernels_are_drawn_from_the_posterior():
    layer = tfvn.MeanFieldDense(2, bias_posterior="mean_field", **models.SPREAD)
    model = tfvn.Sequential([keras.Input((FEATURES,)), layer])
    model.compile({"mean": "adam", "scale": "adam"}, "mse")
    drawn = [tfvn.sample_model(model, seed).get_weights() for seed in range(60)]
    q = layer.posterior_distribution()
    ztests.assert_moments(np.stack([d[0] for d in drawn]), q.mean(), q.variance())
    q = layer.bias_posterior.distribution()
    ztests.assert_moments(np.stack([d[1] for d in drawn]), q.mean(), q.variance())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (tfvn.MeanFieldConv1D(3, 2), (5, 2)),
        (tfvn.KTiedConv2D(4, 2, groups=2, padding="same"), (5, 5, 2)),
        (tfvn.VarianceConv3D(3, 2), (3, 3, 3, 2)),
        (tfvn.MeanFieldConv2DTranspose(3, 2), (4, 4, 2)),
        (tfvn.GaussianDropoutDepthwiseConv2D(2, depth_multiplier=2), (4, 4, 3)),
        (tfvn.MeanFieldEinsumDense("abc,cd->abd", (None, 4), bias_axes="d"), (3, 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_twin_computes_the_layer_with_the_held_kernel(layer, shape):
    model = keras.Sequential([keras.Input(shape), layer])
    if layer.bias is not None:
        layer.bias.assign(np.arange(layer.bias.shape[-1], dtype="float32"))
    held = tfvn.sample_model(model, seed=3)
    x = np.random.default_rng(0).normal(size=(2, *shape)).astype("float32")
    expected = layer.linear_op(x, held.layers[0].kernel.value)
    if layer.bias is not None:
        expected += layer.expand_bias(layer.bias.value)
    np.testing.assert_allclose(held(x), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (models.subclassed, "must be a Keras model that has been built"),
        (models.mc_dropout, "this layer draws other noise"),
    ],
)
def test_refuses_what_it_cannot_hold(make, words):
    with pytest.raises(ValueError, match=words):
        tfvn.sample_model(make())


def preprocessed(layer, data, x, dtype="float32"):
    """A model with a layer that was adapted, and what to call it with."""
    layer.adapt(data)
    x = keras.ops.convert_to_tensor(x)
    return keras.Sequential([keras.Input(x.shape[1:], dtype=dtype), layer]), x


def lookup(**kwargs):
    texts = [["b"], ["z"], ["c"]]
    return preprocessed(layers.StringLookup(**kwargs), ["a", "b", "c"], texts, "string")


def vectorization(**kwargs):
    texts = [["a b"], ["e f c c"]]
    layer = layers.TextVectorization(**kwargs)
    return preprocessed(layer, ["a b c", "b c d", "e"], texts, "string")


def low_rank():
    model = models.sequential()
    model.layers[0].enable_lora(2)
    model.layers[0].lora_kernel_b.assign(np.ones((2, 5)))
    return model, X


def moving_averages():
    model = models.sequential(layers.BatchNormalization())
    model.layers[1].moving_mean.assign(np.full(5, 3.0))
    return model, X


@pytest.mark.parametrize(
    "make",
    [
        lambda: preprocessed(layers.Normalization(), 3.0 * X + 7.0, X),
        lambda: preprocessed(layers.Discretization(num_bins=3), X, X),
        lambda: preprocessed(
            layers.IntegerLookup(output_mode="multi_hot"), [5, 7], [[5], [9]], "int64"
        ),
        lookup,
        lambda: lookup(output_mode="one_hot"),
        vectorization,
        lambda: vectorization(output_mode="tf_idf"),
        low_rank,
        moving_averages,
    ],
    ids=[
        "normalization",
        "discretization",
        "integers",
        "strings",
        "one_hot",
        "texts",
        "tf_idf",
        "low_rank",
        "moving_averages",
    ],
)
def test_a_model_without_random_layers_is_copied_with_all_its_state(make):
    model, x = make()
    held = tfvn.sample_model(model)
    assert held.layers[0] is not model.layers[0]
    np.testing.assert_allclose(held(x), model(x), atol=1e-6)


STEPS = (3, FEATURES)


def stacked_cells():
    cells = [tfvn.MeanFieldLSTMCell(3, **models.SPREAD), layers.GRUCell(2)]
    return layers.RNN([*cells, tfvn.MeanFieldGRUCell(2, **models.SPREAD)])


def of_time(model_class):
    inner = [keras.Input((FEATURES,)), layers.Dense(3), models.mean_field("weights", 2)]
    return layers.TimeDistributed(model_class(inner))


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.Bidirectional(tfvn.MeanFieldLSTM(2, **models.SPREAD)),
        lambda: layers.TimeDistributed(models.mean_field("weights", 2)),
        lambda: layers.RNN(tfvn.MeanFieldLSTMCell(3, **models.SPREAD)),
        stacked_cells,
        lambda: of_time(keras.Sequential),
        lambda: of_time(tfvn.Sequential),
    ],
    ids=[
        "bidirectional",
        "time_distributed",
        "cell",
        "cells",
        "model_of_keras",
        "model_of_ours",
    ],
)
def test_draws_inside_of_wrappers_have_the_law_of_the_model(layer):
    model = keras.Sequential([keras.Input(STEPS), layer()])
    x = np.random.default_rng(0).normal(size=(2, *STEPS)).astype("float32")
    held = tfvn.sample_model(model, seed=0)
    assert is_plain(held)
    drawn = np.stack([tfvn.sample_model(model, seed)(x) for seed in range(30)])
    answer = tfvn.ensemble_predict(model, x, 2000, outputs="regression", seed=1)
    ztests.assert_moments(drawn, answer.mean, answer.std**2)


def test_a_layer_inside_of_two_others_is_drawn_once():
    shared = models.mean_field("weights", 2)
    inputs = keras.Input(STEPS)
    outputs = [layers.TimeDistributed(shared)(inputs), shared(inputs)]
    held = tfvn.sample_model(keras.Model(inputs, outputs))
    first, second = held(np.ones((1, *STEPS)))
    np.testing.assert_allclose(first, second, atol=1e-6)


class MakesLayers(keras.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inside = models.mean_field("weights", 2)

    def call(self, inputs):
        return self.inside(inputs)


def test_a_layer_that_makes_random_layers_itself_gets_plain_ones():
    model = models.sequential(MakesLayers(name="maker"))
    held = tfvn.sample_model(model, seed=1)
    maker = held.get_layer("maker")
    assert isinstance(maker, MakesLayers)
    assert type(maker.inside) is layers.Dense
    np.testing.assert_array_equal(held(X), held(X))
    assert np.abs(held(X) - tfvn.sample_model(model, seed=2)(X)).max() > 1e-4


class TestHeads:
    @pytest.mark.parametrize("is_wrapped", [False, True])
    def test_become_dense_layers_with_a_draw(self, is_wrapped):
        posterior = tfvn.posteriors.MeanField(**models.SPREAD)
        head = tfvn.layers.NormalHead(1, posterior=posterior)
        last = layers.TimeDistributed(head) if is_wrapped else head
        shape = (3, FEATURES) if is_wrapped else (FEATURES,)
        model = tfvn.Sequential([keras.Input(shape), tfvn.MeanFieldDense(8), last])
        held = tfvn.sample_model(model, seed=1)
        assert is_plain(held)
        dense = held.layers[-1].layer if is_wrapped else held.layers[-1]
        assert type(dense) is layers.Dense
        # A draw is neither the means nor another draw.
        means = np.asarray(head.dense.posterior.mean())
        other = tfvn.sample_model(model, seed=2).get_weights()[-2]
        for kernel in (means, other):
            assert np.abs(dense.kernel.numpy() - kernel).max() > 1e-2
        x = np.ones((2, *shape), "float32")
        hidden = held.layers[0](x).numpy()
        np.testing.assert_allclose(
            held(x), hidden @ dense.kernel.numpy() + dense.bias.numpy(), rtol=1e-5
        )

    def test_without_a_posterior_keep_their_weights(self):
        head = tfvn.layers.NormalHead(1, name="head")
        model = tfvn.Sequential(
            [keras.Input((FEATURES,)), models.mean_field("local"), head]
        )
        held = tfvn.sample_model(model, seed=1)
        assert is_plain(held)
        assert held.layers[-1].name == "head"
        for mine, its in zip(held.layers[-1].weights, head.weights, strict=True):
            np.testing.assert_array_equal(mine, its)

    def test_a_learned_scale_stays(self):
        scale = tfvn.layers.LearnedScale(2.0)
        model = tfvn.Sequential(
            [keras.Input((FEATURES,)), tfvn.MeanFieldDense(1), scale]
        )
        scale.log_scale.assign([0.25])
        np.testing.assert_allclose(tfvn.sample_model(model)(X)[:, 1], 0.25)
