"""Pruning: which weights go, and what is refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_moments import POSTERIORS, weight_moments
from pruning_models import dense, mask_of
from tensorflow_probability import distributions as tfd

import tfvn

SHARED_ALPHA = ["gaussian_dropout-layer", "gaussian_dropout-neuron"]
ZERO_MEAN = [name for name in POSTERIORS if name.startswith("variance")]
BY_ALPHA = ["gaussian_dropout-weight", "gaussian_dropout-additive"]
BY_SNR = ["mean_field", "k_tied-1", "k_tied-2"]
AUTO = {
    **dict.fromkeys(ZERO_MEAN + SHARED_ALPHA, "scale"),
    **dict.fromkeys(BY_ALPHA, "alpha"),
    **dict.fromkeys(BY_SNR, "snr"),
}


def numpy_score(posterior, by):
    """The score of each weight, written out anew from the variables."""
    mean, variance = weight_moments(posterior)
    if by == "scale":
        return np.sqrt(variance)
    return np.log(variance / mean**2) if by == "alpha" else abs(mean) / variance**0.5


class TestRanking:
    @pytest.mark.parametrize("posterior", POSTERIORS)
    def test_auto_chooses_the_score_of_the_family(self, posterior):
        model = dense(posterior)
        score = numpy_score(model.layers[0].posterior, AUTO[posterior])
        if AUTO[posterior] == "alpha":
            score = -score
        pruned = tfvn.prune(model, fraction=0.7)
        kept = mask_of(pruned)
        assert kept.sum() == 12
        assert score[kept].min() > score[~kept].max()
        np.testing.assert_array_equal(
            kept, mask_of(tfvn.prune(model, fraction=0.7, by=AUTO[posterior]))
        )

    @pytest.mark.parametrize("by", ["scale", "alpha", "snr"])
    @pytest.mark.parametrize("posterior", [*BY_SNR, *BY_ALPHA])
    def test_thresholds_against_numpy(self, posterior, by):
        model = dense(posterior)
        score = numpy_score(model.layers[0].posterior, by)
        threshold = np.median(score)
        kept = mask_of(tfvn.prune(model, threshold=threshold, by=by))
        expected = score <= threshold if by == "alpha" else score >= threshold
        np.testing.assert_array_equal(kept, expected)

    def test_a_weight_at_the_threshold_is_kept(self):
        model = dense("variance-gaussian", units=1, inputs=3)
        model.layers[0].posterior.scale.assign([[-0.5], [0.25], [0.125]])
        kept = mask_of(tfvn.prune(model, threshold=0.25))
        np.testing.assert_array_equal(kept, [[True], [True], [False]])

    @pytest.mark.parametrize(
        ("fraction", "count"),
        [
            (0.0, 0),
            (0.1, 4),
            (0.5, 20),
            (0.98, 39),
            (0.99, 40),
            (0.0125, 0),
            (1 / 3, 13),
        ],
    )
    def test_exact_counts_and_ties(self, fraction, count):
        model = dense("variance-gaussian")
        model.layers[0].posterior.scale.assign(np.full((10, 4), -0.3))
        pruned = tfvn.prune(model, fraction)
        # Of equal weights the first are pruned.
        np.testing.assert_array_equal(mask_of(pruned).ravel(), np.arange(40) >= count)
        assert tfvn.sparsity(pruned).total == count / 40

    def test_weights_that_are_certain(self):
        model = dense("mean_field", units=1, inputs=4)
        posterior = model.layers[0].posterior
        posterior.mean_variable.assign([[0.0], [1e-3], [0.0], [2.0]])
        posterior.log_variance_variable.assign([[-300.0], [-300.0], [0.0], [0.0]])
        for by in ("snr", "alpha"):
            order = [mask_of(tfvn.prune(model, n / 4, by=by)).ravel() for n in (2, 3)]
            np.testing.assert_array_equal(order[0], [False, True, False, True])
            np.testing.assert_array_equal(order[1], [False, True, False, False])

    def test_all_layers_together_or_each_for_itself(self):
        layers = [tfvn.VarianceDense(6, name="one"), tfvn.VarianceDense(5, name="two")]
        model = keras.Sequential([keras.Input((10,)), *layers])
        for layer, scale in zip(layers, (0.1, 10.0), strict=True):
            size = np.random.default_rng(0).uniform(
                0.5, 1.0, layer.posterior.spec.shape
            )
            layer.posterior.scale.assign(scale * size)
        by_layer = tfvn.sparsity(tfvn.prune(model, 0.5))
        assert by_layer.layers == {"one": 0.5, "two": 0.5}
        together = tfvn.sparsity(tfvn.prune(model, 0.5, scope="global"))
        assert together.layers == {"one": 45 / 60, "two": 0.0}
        assert together.total == by_layer.total == 0.5

    def test_both_kernels_of_a_recurrent_layer_are_ranked_together(self):
        model = keras.Sequential(
            [keras.Input((5, 4)), tfvn.VarianceLSTM(3, bias_posterior="mean_field")]
        )
        cell = model.layers[0].cell
        cell.posterior.scale.assign(np.full((4, 12), 1.0))
        cell.recurrent_posterior.scale.assign(np.full((3, 12), 0.1))
        pruned = tfvn.prune(model, 0.5)
        assert mask_of(pruned).sum() == 42
        assert mask_of(pruned, weight="recurrent_kernel").sum() == 0
        assert isinstance(pruned.layers[0], tfvn.VarianceLSTM)
        assert type(pruned.layers[0].bias_posterior) is tfvn.posteriors.MeanField


class TestLayers:
    def model(self):
        inner = keras.Sequential(
            [keras.Input((4,)), tfvn.VarianceDense(4, name="inside")], name="inner"
        )
        layers = [
            tfvn.MeanFieldDense(4, name="first", kl_weight=0.1),
            inner,
            keras.layers.Dense(2, name="plain"),
            tfvn.KTiedDense(2, name="last", kl_weight=0.1),
        ]
        return keras.Sequential([keras.Input((4,)), *layers])

    @pytest.mark.parametrize(
        ("layers", "expected"),
        [
            ("all", {"first", "inside", "last"}),
            ("last", {"last"}),
            (["first", "last"], {"first", "last"}),
            (("inner",), {"inside"}),
            (lambda layer: isinstance(layer, tfvn.KTiedDense), {"last"}),
        ],
    )
    def test_are_chosen_by_name_or_function(self, layers, expected):
        shares = tfvn.sparsity(tfvn.prune(self.model(), 0.5, layers=layers)).layers
        assert {name for name, share in shares.items() if share} == expected

    def test_are_chosen_as_objects(self):
        model = self.model()
        for layers in (model.layers[-1], [model.layers[-1]]):
            shares = tfvn.sparsity(tfvn.prune(model, 0.5, layers=layers)).layers
            assert shares == {"first": 0.0, "inside": 0.0, "last": 0.5}

    @pytest.mark.parametrize(
        "layers",
        [
            "plain",
            "missing",
            ["last", "missing"],
            [],
            lambda layer: False,
            None,
            [["x"]],
        ],
    )
    def test_that_are_none_are_refused(self, layers):
        with pytest.raises(ValueError, match=r"`layers` must .*Received:"):
            tfvn.prune(self.model(), 0.5, layers=layers)

    def test_with_the_same_name_have_their_paths(self):
        parts = [
            keras.Sequential(
                [keras.Input((4,)), tfvn.VarianceDense(4, name="x")], name=name
            )
            for name in ("left", "right")
        ]
        model = keras.Sequential([keras.Input((4,)), *parts])
        shares = tfvn.sparsity(tfvn.prune(model, 0.25, layers="left")).layers
        assert shares == {"left/x": 0.25, "right/x": 0.0}

    def test_with_the_same_name_at_several_depths(self):
        inner = keras.Sequential(
            [keras.Input((4,)), tfvn.VarianceDense(4, name="x")], name="inner"
        )
        model = keras.Sequential(
            [keras.Input((4,)), inner, tfvn.VarianceDense(1, name="x")]
        )
        pruned = tfvn.prune(model, 0.25, layers="inner")
        found = tfvn.sparsity(pruned)
        assert found.layers == {"inner/x": 0.25, "x": 0.0}
        assert found.total == 0.2

    def test_of_cells_with_the_same_name(self):
        layers = [
            keras.layers.RNN(tfvn.VarianceGRUCell(2, name="cell"), name="inner"),
            keras.layers.Reshape((1, 2)),
            keras.layers.RNN(tfvn.VarianceGRUCell(2, name="cell"), name="last"),
        ]
        model = keras.Sequential([keras.Input((3, 4)), *layers])
        assert [*tfvn.sparsity(model).layers] == ["inner", "last"]

    def test_of_parts_with_the_same_name(self):
        class Parts(keras.layers.Layer):
            def __init__(self):
                super().__init__(name="both")
                self.first = tfvn.VarianceDense(4, name="x")
                self.second = tfvn.VarianceDense(1, name="x")

            def call(self, inputs):
                return self.second(self.first(inputs))

        model = keras.Sequential([keras.Input((4,)), Parts()])
        pruned = tfvn.prune(model, 0.25, layers=model.layers[0].first)
        assert tfvn.sparsity(pruned).total == 0.2


@pytest.mark.parametrize("by", ["alpha", "snr"])
class TestRefusedScores:
    @pytest.mark.parametrize("posterior", ZERO_MEAN)
    def test_of_zero_mean_weights(self, posterior, by):
        with pytest.raises(
            ValueError, match=r"'random'.*means are zero.*Received: by="
        ):
            tfvn.prune(dense(posterior, prior=None), 0.5, by=by)

    @pytest.mark.parametrize("posterior", SHARED_ALPHA)
    def test_of_shared_alphas(self, posterior, by):
        shared = posterior.split("-")[1]
        with pytest.raises(
            ValueError, match=rf"weights of a {shared} share one alpha.*Received: by="
        ):
            tfvn.prune(dense(posterior), 0.5, by=by)


class TestRefusedArguments:
    @pytest.mark.parametrize("fraction", [1.0, -0.1, 1.5, np.nan, "half", True])
    def test_fraction(self, fraction):
        with pytest.raises(
            ValueError, match=r"`fraction` must be.*Received: fraction="
        ):
            tfvn.prune(dense(), fraction)

    @pytest.mark.parametrize(
        "arguments", [{}, {"fraction": 0.5, "threshold": 1.0}], ids=str
    )
    def test_both_or_neither(self, arguments):
        with pytest.raises(ValueError, match="either `fraction` or `threshold`"):
            tfvn.prune(dense(), **arguments)

    @pytest.mark.parametrize("threshold", [-0.1, np.inf, "x"])
    def test_threshold(self, threshold):
        with pytest.raises(ValueError, match=r"`threshold` must be.*Received:"):
            tfvn.prune(dense(), threshold=threshold)
        if threshold == -0.1:  # a logarithm of alpha may be negative
            tfvn.prune(dense(), threshold=threshold, by="alpha")

    @pytest.mark.parametrize("name", ["by", "scope"])
    def test_choices(self, name):
        with pytest.raises(ValueError, match=rf"`{name}` must be one of.*Received:"):
            tfvn.prune(dense(), 0.5, **{name: "magnitude"})

    @pytest.mark.parametrize("arguments", [{"threshold": 0.1}, {"scope": "global"}])
    def test_scores_that_cannot_be_compared(self, arguments):
        layers = [tfvn.VarianceDense(4), tfvn.MeanFieldDense(4, kl_weight=0.1)]
        model = keras.Sequential([keras.Input((4,)), *layers])
        fraction = None if "threshold" in arguments else 0.5
        with pytest.raises(ValueError, match=r"can be compared.*Received:.*'snr'"):
            tfvn.prune(model, fraction, **arguments)
        tfvn.prune(model, fraction, by="scale", **arguments)

    def test_models(self):
        plain = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        unbuilt = keras.Sequential([tfvn.VarianceDense(1)])
        for function in (lambda m: tfvn.prune(m, 0.5), tfvn.sparsity):
            with pytest.raises(ValueError, match=r"random weights.*Received: model="):
                function(plain)
            for wrong in (unbuilt, "model"):
                with pytest.raises(ValueError, match=r"been built.*Received: model="):
                    function(wrong)

    def test_priors_that_layers_share(self):
        prior = tfd.Normal(tf.Variable(0.0), 1.0)
        layers = [tfvn.MeanFieldDense(4, prior=prior, kl_weight=0.1) for _ in "ab"]
        for kept in (1, 2):
            model = keras.Sequential([keras.Input((4,)), *layers[:kept]])
            if kept == 1:
                assert tfvn.sparsity(tfvn.prune(model, 0.5)).total == 0.5
            else:
                with pytest.raises(
                    ValueError, match=r"share a prior.*Received: layers"
                ):
                    tfvn.prune(model, 0.5)

    def test_weights_that_are_not_finite(self):
        model = dense()
        model.layers[0].posterior.mean_variable.assign(np.full((10, 4), np.nan))
        for by in ("auto", "alpha"):
            with pytest.raises(ValueError, match=r"NaN can't be ranked.*Received:"):
                tfvn.prune(model, 0.5, by=by)
