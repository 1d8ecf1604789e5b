"""Pruning: which weights go, that they stay away, and what is refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_moments import POSTERIORS, weight_moments
from tensorflow_probability import distributions as tfd

import tfvn
from tfvn.layers.base import stochastic_layers
from tfvn.posteriors import Pruned

SHARED_ALPHA = ["gaussian_dropout-layer", "gaussian_dropout-neuron"]
ZERO_MEAN = [name for name in POSTERIORS if name.startswith("variance")]
BY_ALPHA = ["gaussian_dropout-weight", "gaussian_dropout-additive"]
BY_SNR = ["mean_field", "k_tied-1", "k_tied-2"]
AUTO = {
    **dict.fromkeys(ZERO_MEAN + SHARED_ALPHA, "scale"),
    **dict.fromkeys(BY_ALPHA, "alpha"),
    **dict.fromkeys(BY_SNR, "snr"),
}


def scatter(model, seed=0):
    """Moves all trainable variables far from where they start."""
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(rng.uniform(-1.5, 1.5, variable.shape))
    return model


def dense(posterior="mean_field", units=4, inputs=10, **kwargs):
    posterior = POSTERIORS.get(posterior, posterior)
    layer = tfvn.layers.Dense(
        units, posterior=posterior, kl_weight=0.01, name="random", **kwargs
    )
    return scatter(keras.Sequential([keras.Input((inputs,)), layer]))


def mask_of(model, index=0, weight="kernel"):
    return stochastic_layers(model)[index].posteriors[weight].mask.numpy()


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
        assert len(shares) == 2
        assert sorted(shares.values()) == [0.0, 0.25]


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
