"""Which layers are converted, which are not, and what is said about it."""

import conversion_models as models
import keras
import numpy as np
import pytest
from keras import layers

import tfvn
from tfvn.analysis.conversion import counterpart_of, layer_states
from tfvn.layers.base import stochastic_layers


def names(model):
    return [layer.name for layer in stochastic_layers(model)]


def sequence(*middle):
    return keras.Sequential([keras.Input((4, 3)), *middle])


class OwnDense(layers.Dense):
    """A subclass that computes something else."""

    def call(self, inputs):
        return 2 * super().call(inputs)


class TestStates:
    @pytest.mark.parametrize(
        "name",
        [
            "Dense",
            "EinsumDense",
            "Conv1D",
            "Conv2D",
            "Conv3D",
            "Conv2DTranspose",
            "DepthwiseConv2D",
            "LSTM",
            "LSTMCell",
            "GRU",
            "GRUCell",
        ],
    )
    def test_counterparts_inherit_from_what_they_replace(self, name):
        assert issubclass(getattr(tfvn.layers, name), getattr(layers, name))

    def test_every_layer_with_weights_is_listed_with_a_reason(self):
        model = sequence(
            layers.SimpleRNN(3, return_sequences=True),
            layers.BatchNormalization(),
            layers.Conv1DTranspose(2, 2),
            layers.SeparableConv1D(3, 2),
            layers.SpectralNormalization(layers.Dense(3)),
            OwnDense(3),
            layers.ReLU(),
            layers.Bidirectional(layers.GRU(2)),
            layers.Dense(2),
        )
        found = [
            (type(s.layer).__name__, s.counterpart is not None, s.reason or "")
            for s in layer_states(model)
        ]
        assert [name for name, _, _ in found] == [
            "SimpleRNN",
            "BatchNormalization",
            "Conv1DTranspose",
            "SeparableConv1D",
            "SpectralNormalization",
            "OwnDense",
            "GRU",
            "GRU",
            "Dense",
        ]
        assert [has for _, has, _ in found] == [False] * 6 + [True] * 3
        assert "no `SimpleRNN`" in found[0][2]
        assert "normalizes the kernel" in found[4][2]
        assert "subclass of `Dense`" in found[5][2]
        converted = tfvn.from_deterministic(models.set_weights(model))
        assert [s.is_random for s in layer_states(converted)] == [False] * 6 + [
            True
        ] * 3
        x = models.data(model)
        expected = model.predict(x, verbose=0)
        np.testing.assert_allclose(tfvn.mean_predict(converted, x), expected, atol=1e-5)

    def test_quantized_layers_have_none(self):
        model = models.dense()
        model.layers[0].quantize("int8")
        assert counterpart_of(model.layers[0]) is None
        assert "quantized (int8)" in layer_states(model)[0].reason
        assert names(tfvn.from_deterministic(model)) == ["head"]


class TestLayers:
    def test_last_is_the_last_with_weights(self):
        assert names(tfvn.from_deterministic(models.dense(), layers="last")) == ["head"]
        nested = keras.Sequential(
            [keras.Input((4,)), models.dense(), layers.Reshape((3, 1))]
        )
        assert names(tfvn.from_deterministic(nested, layers="last")) == ["head"]

    def test_last_of_a_sum_are_all_its_terms(self):
        inputs = keras.Input((3,))
        terms = [layers.Dense(2, name=name)(inputs) for name in ("a", "b")]
        model = keras.Model(inputs, layers.Add()(terms))
        assert set(names(tfvn.from_deterministic(model, layers="last"))) == {"a", "b"}

    def test_names_of_layers_and_of_what_holds_them(self):
        model = models.attention()
        converted = tfvn.from_deterministic(model, layers=["attention"])
        assert set(names(converted)) == {"query", "key", "value", "attention_output"}
        assert names(tfvn.from_deterministic(model, layers="head")) == ["head"]
        assert names(tfvn.from_deterministic(model, layers=("query",))) == ["query"]

    def test_layers_themselves(self):
        model = models.dense()
        first, head = model.get_layer("first"), model.get_layer("head")
        assert names(tfvn.from_deterministic(model, layers=head)) == ["head"]
        converted = tfvn.from_deterministic(model, layers=[first, "head"])
        assert names(converted) == ["first", "head"]

    def test_a_function_chooses(self):
        model = models.residual()
        converted = tfvn.from_deterministic(
            model, layers=lambda layer: isinstance(layer, layers.Conv2D)
        )
        assert len(names(converted)) == 2

    @pytest.mark.parametrize(
        ("chosen", "words"),
        [
            (["hed"], "there is no 'hed'"),
            ("hed", "there is no 'hed'"),
            (layers.Dense(3, name="hed"), "there is no 'hed'"),
            (["batch"], "no `BatchNormalization` with random weights"),
            (["relu"], "no layer with weights"),
            (lambda layer: "batch" in layer.name, "no `BatchNormalization`"),
            (lambda layer: False, "selects none"),
            ([], "must be 'all', 'last'"),
            (3, "must be 'all', 'last'"),
        ],
    )
    def test_refuses_what_can_not_be_converted(self, chosen, words):
        model = keras.Sequential([keras.Input((4,)), layers.Dense(3, name="head")])
        model.add(layers.BatchNormalization(name="batch"))
        model.add(layers.ReLU(name="relu"))
        with pytest.raises(ValueError, match=words):
            tfvn.from_deterministic(model, layers=chosen)

    def test_refuses_a_last_layer_without_counterpart(self):
        model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
        model.add(layers.BatchNormalization())
        with pytest.raises(ValueError, match="The last layer with weights must have"):
            tfvn.from_deterministic(model, layers="last")
        with pytest.raises(ValueError, match="The last layer is known in"):
            tfvn.from_deterministic(models.written_model(), layers="last")

    def test_refuses_a_model_without_any(self):
        model = keras.Sequential([keras.Input((4,)), layers.BatchNormalization()])
        with pytest.raises(ValueError, match="no `BatchNormalization`"):
            tfvn.from_deterministic(model)
        model = keras.Sequential([keras.Input((4,)), layers.ReLU()])
        with pytest.raises(ValueError, match="no layer with weights"):
            tfvn.from_deterministic(model)


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"scale": 0}, "`scale` must be a finite number greater than 0"),
            ({"scale": -1.0}, "`scale` must be a finite number greater than 0"),
            ({"scale": "big"}, "`scale` must be a finite number greater than 0"),
            ({"posterior": "variance"}, "must have means"),
            ({"posterior": "guess"}, "posterior='guess'"),
            ({"bias_posterior": "variance"}, "`bias_posterior` must have means"),
            ({"prior": "guess"}, "prior='guess'"),
            ({"estimator": "guess"}, "estimator='guess'"),
        ],
    )
    def test_refused(self, arguments, words):
        with pytest.raises(ValueError, match=words):
            tfvn.from_deterministic(models.dense(), **arguments)

    @pytest.mark.usefixtures("registries")
    def test_a_posterior_without_known_scales(self):
        @tfvn.posteriors.register("own", package="tests")
        class Own(tfvn.posteriors.MeanField.__base__):
            """Has means, and scales that nobody knows how to start."""

            add_scale_variables = variance = sample = distribution = lambda self: None

        with pytest.raises(ValueError, match="must be a posterior whose scales"):
            tfvn.from_deterministic(models.dense(), Own())


class NeedsAnObject(layers.Layer):
    """A layer that Keras cannot make again."""

    def __init__(self, inner, **kwargs):
        super().__init__(**kwargs)
        self.inner = inner
        self.dense = layers.Dense(2)

    def call(self, inputs):
        return self.dense(self.inner(inputs))


class TestModels:
    @pytest.mark.parametrize(
        "convert", [tfvn.from_deterministic, tfvn.to_deterministic]
    )
    @pytest.mark.parametrize(
        "model", [keras.Sequential([layers.Dense(2)]), models.Written(), "model", None]
    )
    def test_must_be_built(self, convert, model):
        with pytest.raises(
            ValueError, match="must be a Keras model that has been built"
        ):
            convert(model)

    def test_converted_twice(self):
        converted = tfvn.from_deterministic(models.dense(), layers="last")
        with pytest.raises(ValueError, match=r"\['head'\] have random weights already"):
            tfvn.from_deterministic(converted)

    def test_a_layer_shared_by_a_wrapper_and_the_model(self):
        inputs, shared = keras.Input((3, 4)), layers.Dense(4, name="shared")
        outputs = layers.TimeDistributed(shared)(shared(inputs))
        with pytest.raises(ValueError, match="would become several layers"):
            tfvn.from_deterministic(keras.Model(inputs, outputs))

    def test_a_layer_that_keras_can_not_make_again(self):
        model = keras.Sequential([keras.Input((4,)), NeedsAnObject(keras.ops.tanh)])
        with pytest.raises(ValueError, match="which Keras cannot make again"):
            tfvn.from_deterministic(model)

    def test_zero_means_and_plain_models_have_no_way_back(self):
        model = keras.Sequential([keras.Input((4,)), tfvn.VarianceDense(2)])
        with pytest.raises(ValueError, match="store what they learn"):
            tfvn.to_deterministic(model)
        with pytest.raises(ValueError, match="must have layers with random weights"):
            tfvn.to_deterministic(models.dense())


@pytest.mark.parametrize("seed", [-1, "x", 1.5])
def test_seed(seed):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="Argument `seed` must be"):
        tfvn.from_deterministic(model, seed=seed)
