"""Recurrent layers and cells through the harness, and what they are made of."""

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn
from tfvn.extending import ANY, EXACT
from tfvn.layers import StochasticRNN, StochasticRNNCell

LAYERS = harness.public_layers((StochasticRNN, StochasticRNNCell))
FAMILIES = ("", "Variance", "GaussianDropout", "MeanField", "KTied")
KINDS = ("LSTM", "GRUCell", "GRU", "LSTMCell")
NAMES = [f"{family}{kind}" for family in FAMILIES for kind in KINDS]
INPUT_SHAPE = (4, 3, 2)


def test_every_public_layer_has_a_case():
    assert set(LAYERS) == set(NAMES)


def regimes():
    """Returns (layer, regime) pairs that hold every pair of family, kind and regime."""
    factors = {
        "family": [*FAMILIES],
        "kind": [*KINDS],
        "regime": [*harness.ALL_REGIMES],
    }
    chosen = harness.pairwise(factors, lambda combination: True)
    # By regime, so that one in a few still has all of them.
    chosen.sort(key=lambda combination: combination["regime"])
    return [(c["family"] + c["kind"], c["regime"]) for c in chosen]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_defaults(name):
    harness.run_layer_test(LAYERS[name], {"units": 3}, INPUT_SHAPE, regimes=[])


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("name", "regime"), regimes())
def test_defaults_in_a_regime(name, regime):
    harness.REGIME_CHECKS[regime](harness.Case(LAYERS[name], {"units": 3}, INPUT_SHAPE))


def combinations():
    """Returns layers with every pair of choices of the tables."""
    factors = {
        "layer": ["LSTM", "GRU"],
        **harness.table_factors(),
        "regime": [*harness.REGIMES],
    }
    return harness.pairwise(
        factors, lambda c: harness.is_supported(c, "RECURRENT_ESTIMATORS")
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("combination", combinations(), ids=harness.label)
def test_pairs_of_choices(combination):
    layer_class = LAYERS[combination["layer"]]
    arguments = {"units": 3, **harness.to_arguments(combination, layer_class)}
    harness.run_layer_test(
        layer_class, arguments, INPUT_SHAPE, regimes=[combination["regime"]]
    )


@pytest.mark.parametrize("name", NAMES)
class TestTwinArguments:
    def test_by_position(self, name):
        twin = harness.twin_arguments(LAYERS[name])
        values = {
            "units": 3,
            "activation": "relu",
            "recurrent_activation": "tanh",
            "use_bias": False,
            "kernel_initializer": "ones",
            "recurrent_initializer": "zeros",
            "seed": 5,
        }
        values = {n: values.get(n, p.default) for n, p in twin.items()}
        config = LAYERS[name](*values.values()).get_config()
        assert config == LAYERS[name](**values, name=config["name"]).get_config()
        assert config["seed"] == 5
        assert config["kernel_initializer"]["class_name"] == "Ones"
        assert not config["use_bias"]


class TestInitializers:
    @pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
    @pytest.mark.parametrize("family", FAMILIES[2:])
    def test_recurrent_means_start_orthogonal(self, kind, family):
        cell = LAYERS[family + kind](4)
        cell.build((None, 2))
        mean = cell.recurrent_posterior.mean().numpy()
        np.testing.assert_allclose(mean @ mean.T, np.eye(4), atol=1e-5)

    @pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
    def test_recurrent_scales_start_as_those_of_a_variance_layer(self, kind):
        cell = LAYERS["Variance" + kind](25)
        cell.build((None, 2))
        stddev = cell.posterior_distribution("recurrent_kernel").stddev().numpy()
        assert 0.15 < stddev.max() <= 0.2
        assert len(np.unique(stddev)) > 100

    @pytest.mark.parametrize("bias_posterior", [None, "mean_field"])
    def test_the_forget_gate_starts_open(self, bias_posterior):
        cell = tfvn.layers.LSTMCell(2, bias_posterior=bias_posterior)
        cell.build((None, 3))
        random = bias_posterior is not None
        bias = cell.bias_posterior.mean() if random else cell.bias
        np.testing.assert_array_equal(bias, [0, 0, 1, 1, 0, 0, 0, 0])

    def test_given_ones_are_used(self):
        layer = tfvn.layers.GRU(
            2, kernel_initializer="ones", recurrent_initializer="zeros"
        )
        layer.build((None, 3, 4))
        np.testing.assert_array_equal(layer.posterior.mean(), np.ones((4, 6)))
        np.testing.assert_array_equal(
            layer.recurrent_posterior.mean(), np.zeros((2, 6))
        )


class TestParts:
    def test_kernels_have_a_posterior_each(self):
        layer = tfvn.layers.LSTM(3, posterior=tfvn.posteriors.KTied(1), kl_weight=1.0)
        layer.build((None, 5, 4))
        shapes = [tuple(v.shape) for v in layer.variable_groups["scale"]]
        assert shapes == [(4, 1), (12, 1), (3, 1), (12, 1)]
        assert layer.posterior is not layer.recurrent_posterior
        assert layer.posterior_distribution().batch_shape == (4, 12)
        distribution = layer.posterior_distribution("recurrent_kernel")
        assert distribution.batch_shape == (3, 12)

    @pytest.mark.parametrize(
        ("rank", "expected"),
        [(None, 2_822_785), (1, 2_692_993), (2, 2_694_273), (3, 2_695_553)],
    )
    def test_count_of_the_paper(self, rank, expected):
        # Swiatkowski et al., table 1.
        random = (
            tfvn.MeanFieldLSTM(128) if rank is None else tfvn.KTiedLSTM(128, rank=rank)
        )
        model = keras.Sequential(
            [
                keras.Input((80,), dtype="int32"),
                keras.layers.Embedding(20_000, 128),
                random,
                keras.layers.Dense(1, activation="sigmoid"),
            ]
        )
        count = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
        assert count == expected

    def test_groups(self):
        model = keras.Sequential(
            [
                keras.Input((3, 2)),
                keras.layers.Bidirectional(tfvn.MeanFieldLSTM(3)),
                keras.layers.Reshape((2, 3)),
                keras.layers.RNN([tfvn.KTiedGRUCell(2), keras.layers.GRUCell(2)]),
            ]
        )
        groups = tfvn.variable_groups(model)
        assert {name: len(group) for name, group in groups.items()} == {
            "mean": 2 * 2 + 2,
            "scale": 2 * 2 + 4,
            "default": 2 + 1 + 3,
        }

    def test_twin_leaves_nothing_behind(self):
        layer = tfvn.MeanFieldLSTM(3, dropout=0.5)
        assert layer._layers == [layer.cell]
        assert layer._flatten_layers() == [layer, layer.cell]
        assert layer.cell._seed_generators == [layer.cell.seed_generator]

    def test_no_kernel_outside_of_a_sequence(self):
        layer = tfvn.MeanFieldLSTM(3)
        layer.build((None, 3, 2))
        assert not hasattr(layer.cell, "kernel")
        with pytest.raises(AttributeError, match="a distribution over kernels"):
            _ = layer.cell.recurrent_kernel


class TestErrors:
    @pytest.mark.parametrize("name", ["LSTM", "KTiedLSTMCell", "VarianceGRU"])
    def test_local(self, name):
        with pytest.raises(
            ValueError,
            match=r"^The estimator 'local' does not combine with a gaussian "
            r"posterior in recurrent layers, because it samples outputs, but all steps "
            r"must use the same weights; expected one of \['flipout', 'weights', 'mean'\]. "
            r"Received: estimator='local'$",
        ):
            LAYERS[name](3, estimator="local")

    def test_rank(self):
        layer = tfvn.KTiedLSTM(3, rank=4)
        with pytest.raises(
            ValueError, match=r"at most 3 for a kernel of 3 rows and 12"
        ):
            layer.build((None, 5, 8))

    def test_bias_posterior_without_a_bias(self):
        with pytest.raises(ValueError, match="for a layer without a bias"):
            tfvn.MeanFieldGRU(3, use_bias=False, bias_posterior="mean_field")

    def test_prior_of_another_shape(self):
        prior = tfvn.distributions.ZeroMeanNormal(tf.ones((2, 12)))
        layer = tfvn.MeanFieldLSTM(3, prior=prior)
        with pytest.raises(ValueError, match=r"kernel's shape \(3, 12\). Received"):
            layer.build((None, 5, 2))

    def test_unknown_features(self):
        with pytest.raises(
            ValueError, match="last dimension of the inputs to `GRUCell`"
        ):
            tfvn.layers.GRUCell(3).build((None, None))

    def test_unknown_weight(self):
        layer = tfvn.MeanFieldGRU(3)
        layer.build((None, 5, 2))
        with pytest.raises(
            ValueError, match=r"'kernel', 'recurrent_kernel'\]. Received"
        ):
            layer.posterior_distribution("bias")

    def test_cudnn_that_is_not_there(self):
        layer = tfvn.MeanFieldLSTM(3, use_cudnn=True, estimator="flipout")
        with pytest.raises(ValueError, match="cuDNN is not supported for this layer"):
            layer(np.ones((2, 3, 2), "float32"))

    def test_call_without_a_layer(self):
        layer = tfvn.MeanFieldLSTM(3)
        layer.build((None, 5, 2))
        with pytest.raises(
            RuntimeError, match="call the layer that contains this cell"
        ):
            layer.call(tf.ones((1, 5, 2)))

    def test_estimator_that_does_not_hold(self, registries):
        row = {ANY: EXACT}

        @tfvn.estimators.register("other", support=row, recurrent=row)
        class Other(tfvn.estimators.Estimator):
            def __call__(self, terms, seed_generator):
                raise AssertionError

        layer = tfvn.layers.LSTM(3, estimator="other")
        with pytest.raises(NotImplementedError, match="it has no `hold` method"):
            layer(np.ones((2, 3, 2), "float32"))
