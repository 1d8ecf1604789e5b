"""Every public layer through the harness, and layers against their Keras twins."""

import inspect

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tensorflow_probability import distributions as tfd

import tfvn

# Per linear op: arguments, the shape of the inputs, and what else there is to choose.
OPS = {
    "Dense": {
        "arguments": {"units": 3},
        "input_shape": (8, 4),
        "geometry": {"plain": {}},
    },
    "EinsumDense": {
        "arguments": {
            "equation": "btd,dnh->btnh",
            "output_shape": (3, 2, 3),
            "bias_axes": "nh",
        },
        "input_shape": (4, 3, 4),
        "geometry": {
            "heads": {},
            "ellipsis": {
                "equation": "...d,dh->...h",
                "output_shape": (3,),
                "bias_axes": "h",
            },
            "rows": {
                "equation": "btd,hdt->bh",
                "output_shape": (3,),
                "bias_axes": "h",
            },
            # An axis that inputs, kernel and outputs share.
            "per step": {
                "equation": "btd,tdh->bht",
                "output_shape": (4, 3),
                "bias_axes": "ht",
            },
        },
    },
    "Conv1D": {
        "arguments": {"filters": 4, "kernel_size": 2},
        "input_shape": (4, 7, 2),
        "geometry": {
            "valid": {},
            "causal": {"padding": "causal", "dilation_rate": 2},
            "groups": {"groups": 2, "strides": 2, "padding": "same"},
        },
    },
    "Conv2D": {
        "arguments": {"filters": 4, "kernel_size": 2},
        "input_shape": (4, 5, 6, 2),
        "geometry": {
            "valid": {},
            "strides": {"strides": 2, "padding": "same"},
            "dilation": {"dilation_rate": (2, 1)},
            "groups": {"groups": 2, "kernel_size": (1, 3)},
        },
    },
    "Conv3D": {
        "arguments": {"filters": 2, "kernel_size": 2},
        "input_shape": (4, 3, 4, 3, 2),
        "geometry": {
            "valid": {},
            "strides": {"strides": (1, 2, 1), "padding": "same"},
            "groups": {"groups": 2, "kernel_size": (1, 2, 3)},
        },
    },
    "Conv2DTranspose": {
        "arguments": {"filters": 3, "kernel_size": 2},
        "input_shape": (4, 3, 4, 2),
        "geometry": {
            "valid": {},
            "strides": {"strides": 2, "padding": "same"},
            "output padding": {"kernel_size": 3, "strides": 2, "output_padding": 1},
        },
    },
    "DepthwiseConv2D": {
        "arguments": {"kernel_size": 2},
        "input_shape": (4, 5, 6, 2),
        "geometry": {
            "valid": {},
            "multiplier": {"depth_multiplier": 2, "padding": "same"},
            "strides": {"strides": 2, "kernel_size": (2, 3), "padding": "same"},
            "dilation": {"dilation_rate": 2, "depth_multiplier": 2},
        },
    },
}
FAMILIES = ("Variance", "GaussianDropout", "MeanField", "KTied")
CASES = {
    **OPS,
    **{f"{family}{op}": case for op, case in OPS.items() for family in FAMILIES},
}
LAYERS = harness.public_layers(tfvn.layers.StochasticLayer)

# One variant of each family.
TYPICAL = ["variance/gaussian", "gaussian_dropout/neuron", "mean_field", "k_tied/2"]


def is_preset(name):
    """Whether a layer is a generic one with its posterior fixed."""
    return issubclass(LAYERS[name], tfvn.layers.Preset)


def pairs(name):
    """Returns combinations that hold every pair of choices.

    What a posterior, a prior and an estimator have to do with each other does not
    depend on the linear op: `Dense` has every pair. Of the others, `Conv2D` has every
    posterior; the rest one variant of each family.
    """
    factors = {
        **harness.table_factors(),
        "geometry": [*CASES[name]["geometry"]],
        "activation": [None, "relu"],
        "regime": [*harness.REGIMES],
    }
    if name != "Dense":
        factors |= {"kl_method": ["auto"], "prior": ["normal", "log_uniform"]}
        factors["activation"] = ["relu"]
    if name == "Conv2D":
        factors["prior"] = ["normal", "laplace", "student_t", "none"]
    elif name != "Dense":
        factors["posterior"] = TYPICAL
        factors["regime"] = ["graph", "mixed_float16"]
    return harness.pairwise(factors, harness.is_supported)


def every(name):
    """Returns all combinations that may have anything to do with each other."""
    factors = {
        **harness.table_factors(),
        "bias": ["mean_field"],
        "geometry": [*CASES[name]["geometry"]],
        "activation": ["relu"],
    }
    if name != "Dense":
        factors |= {"kl_method": ["auto"], "prior": ["normal", "none"]}
    found = harness.cross_product(factors, harness.is_supported)
    if name == "Dense":
        return found
    # The normal prior, where there is one.
    law = harness.law_of
    return [
        c for c in found if (c["prior"] == "none") == is_discrete(law(c["posterior"]))
    ]


def is_discrete(law):
    """Whether a law has an infinite KL to every density."""
    return not tfvn.support.lookup(tfvn.support.PRIORS, "any", law).supported


def parameters(generate):
    """Returns the combinations of every generic layer as parameters of a test."""
    return [
        pytest.param(name, combination, id=f"{name}-{harness.label(combination)}")
        for name in OPS
        for combination in generate(name)
    ]


def arguments_of(name, combination):
    """Returns the arguments of a layer that a combination stands for."""
    return {
        **CASES[name]["arguments"],
        **CASES[name]["geometry"][combination["geometry"]],
        **harness.to_arguments(combination, LAYERS[name]),
        "activation": combination["activation"],
        # Away from zero, where a ReLU of a zero mean has no gradient.
        "bias_initializer": keras.initializers.Constant(0.1),
    }


def test_every_public_layer_has_a_case():
    assert set(LAYERS) == set(CASES)


def test_every_public_layer_is_stochastic():
    for layer_class in LAYERS.values():
        assert issubclass(layer_class, tfvn.layers.StochasticLayer)
        assert issubclass(layer_class, harness.twin_of(layer_class))


@pytest.mark.parametrize(("name", "combination"), parameters(pairs))
def test_pairs_of_choices(name, combination):
    case = harness.Case(
        LAYERS[name], arguments_of(name, combination), CASES[name]["input_shape"]
    )
    harness.check_config(case)
    harness.REGIME_CHECKS[combination["regime"]](case)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "combination"), parameters(pairs))
def test_pairs_of_choices_in_full(name, combination):
    arguments = arguments_of(name, combination)
    harness.run_layer_test(
        LAYERS[name], arguments, CASES[name]["input_shape"], regimes=[]
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "combination"), parameters(every))
def test_every_choice(name, combination):
    # That they learn is left to pairs: a training step takes seconds to trace.
    arguments = arguments_of(name, combination)
    harness.check_gradients(
        harness.Case(LAYERS[name], arguments, CASES[name]["input_shape"])
    )


def regimes():
    """Returns (layer, regime) pairs: two layers in all, the others in turn."""
    found = []
    for index, name in enumerate(CASES):
        taken = harness.ALL_REGIMES
        if name not in ("VarianceDense", "KTiedConv2D"):
            taken = [taken[index % len(taken)]]
        found += [(name, regime) for regime in taken]
    return found


@pytest.mark.parametrize(("name", "regime"), regimes())
def test_defaults(name, regime):
    case = CASES[name]
    harness.run_layer_test(
        LAYERS[name], case["arguments"], case["input_shape"], regimes=[regime]
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("regime", harness.ALL_REGIMES)
@pytest.mark.parametrize("name", CASES)
def test_defaults_in_every_regime(name, regime):
    case = CASES[name]
    harness.REGIME_CHECKS[regime](
        harness.Case(LAYERS[name], case["arguments"], case["input_shape"])
    )


@pytest.mark.parametrize("estimator", tfvn.support.ESTIMATORS)
@pytest.mark.parametrize("name", ["VarianceDense", "MeanFieldConv2D"])
def test_replicas_with_every_estimator(name, estimator):
    case = CASES[name]
    arguments = {**case["arguments"], "prior": "normal", "estimator": estimator}
    harness.check_mirrored(harness.Case(LAYERS[name], arguments, case["input_shape"]))


class TestPairwise:
    def test_covers_every_valid_pair(self):
        factors = {
            **harness.table_factors(),
            "posterior": TYPICAL,
            "regime": [*harness.REGIMES],
        }
        every = harness.cross_product(factors, harness.is_supported)
        chosen = harness.pairwise(factors, harness.is_supported)
        wanted = {pair for c in every for pair in harness.pairs_of(c)}
        assert {pair for c in chosen for pair in harness.pairs_of(c)} == wanted
        assert len(chosen) < len(every) / 20

    def test_leaves_out_what_the_table_refuses(self):
        chosen = harness.pairwise(harness.table_factors(), harness.is_supported)
        pairs = {(c["posterior"], c["prior"]) for c in chosen}
        assert ("variance/bernoulli", "normal") not in pairs
        assert ("variance/uniform", "ard") not in pairs
        assert ("variance/uniform", "normal") in pairs


class TestTwinArguments:
    @pytest.mark.parametrize("name", CASES)
    def test_signature(self, name):
        wanted = harness.twin_arguments(LAYERS[name])
        taken = inspect.signature(LAYERS[name]).parameters
        assert [n for n in taken if n in wanted] == [*wanted]
        assert not harness.NOT_TAKEN & set(taken)
        for argument, parameter in wanted.items():
            if argument not in ("kernel_initializer", "depthwise_initializer"):
                assert taken[argument].default == parameter.default
            assert taken[argument].kind == parameter.kind

    @pytest.mark.parametrize("name", CASES)
    def test_ours(self, name):
        taken = inspect.signature(LAYERS[name]).parameters
        assert {
            "prior",
            "estimator",
            "kl_method",
            "kl_weight",
            "bias_posterior",
            "seed",
        } <= set(taken)
        preset = issubclass(LAYERS[name], tfvn.layers.Preset)
        assert ("posterior" in taken) != preset
        assert ("noise" in taken) == name.startswith("Variance")
        assert ("initial_log_alpha" in taken) == name.startswith("GaussianDropout")
        assert ("rank" in taken) == name.startswith("KTied")

    @pytest.mark.parametrize("name", ["Dense", "MeanFieldDense"])
    def test_dense_takes_each(self, name):
        layer = LAYERS[name](
            3,
            "relu",
            kernel_initializer="ones",
            bias_initializer=keras.initializers.Constant(2.0),
            kernel_regularizer=keras.regularizers.L2(0.5),
            bias_regularizer=keras.regularizers.L1(0.25),
            activity_regularizer=keras.regularizers.L1(1.0),
            kernel_constraint="non_neg",
            bias_constraint="unit_norm",
            prior=None,
            estimator="mean",
            trainable=True,
            name="named",
        )
        outputs = layer(np.ones((1, 4), "float32"))
        np.testing.assert_allclose(outputs, np.full((1, 3), 6.0))
        # Activity, kernel and bias, in this order of size.
        losses = sorted(float(loss) for loss in layer.losses)
        np.testing.assert_allclose(losses, [0.25 * 6, 0.5 * 12, 18.0])
        mean, bias = layer.variable_groups["mean"][0], layer.bias
        assert isinstance(mean.constraint, keras.constraints.NonNeg)
        assert isinstance(bias.constraint, keras.constraints.UnitNorm)
        assert layer.name == "named"

    def test_variance_layer_starts_from_its_kernel_initializer(self):
        layer = tfvn.VarianceDense(3, kernel_initializer="ones")
        layer.build((None, 2))
        stddev = layer.posterior_distribution().stddev()
        np.testing.assert_array_equal(stddev, np.ones((2, 3)))

    def test_no_layer_trains_when_frozen(self):
        layer = tfvn.MeanFieldDense(3, trainable=False)
        layer.build((None, 2))
        assert layer.trainable_weights == []
        assert len(layer.non_trainable_weights) == 4


class TestMasking:
    def inputs(self):
        inputs = np.random.default_rng(0).normal(size=(4, 5, 3)).astype("float32")
        inputs[:, 3:] = 0.0
        return inputs, np.ones((4, 5, 2), "float32")

    @pytest.mark.parametrize("name", CASES)
    def test_is_supported_as_in_the_twin(self, name):
        layer = LAYERS[name](**CASES[name]["arguments"])
        twin = harness.twin_of(LAYERS[name])(**CASES[name]["arguments"])
        assert layer.supports_masking == twin.supports_masking

    @pytest.mark.parametrize("estimator", tfvn.support.ESTIMATORS)
    def test_passes_through_a_dense_layer(self, estimator):
        inputs, _ = self.inputs()
        layer = tfvn.MeanFieldDense(2, kl_weight=1.0, estimator=estimator)
        outputs = layer(keras.layers.Masking()(inputs))
        mask = keras.src.backend.get_keras_mask(outputs)
        np.testing.assert_array_equal(mask, np.any(inputs != 0, axis=-1))

    def test_masked_steps_do_not_count(self):
        inputs, targets = self.inputs()
        layer = tfvn.MeanFieldDense(2, kl_weight=0.5, estimator="mean")
        model = keras.Sequential([keras.Input((5, 3)), keras.layers.Masking(), layer])
        model.compile(loss="mse")
        squares = np.square(model(inputs).numpy() - targets).mean(axis=-1)
        expected = squares[:, :3].mean() + 0.5 * layer.kl_divergence().numpy()
        loss = model.evaluate(inputs, targets, verbose=0)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)

    def test_sample_weight_is_for_the_likelihood(self):
        inputs, targets = self.inputs()
        weights = np.random.default_rng(1).uniform(size=(4, 5)).astype("float32")
        layer = tfvn.MeanFieldDense(2, kl_weight=0.5, estimator="mean")
        model = keras.Sequential([keras.Input((5, 3)), layer])
        model.compile(loss="mse")
        squares = np.square(model(inputs).numpy() - targets).mean(axis=-1)
        expected = np.mean(squares * weights) + 0.5 * layer.kl_divergence().numpy()
        loss = model.evaluate(inputs, targets, sample_weight=weights, verbose=0)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


class TestNoise:
    @pytest.mark.parametrize("training", [True, False, None])
    @pytest.mark.parametrize("name", CASES)
    def test_is_drawn_in_every_call(self, name, training):
        layer = LAYERS[name](**CASES[name]["arguments"], kl_weight=1.0)
        inputs = np.ones(CASES[name]["input_shape"], "float32")
        first, second = (layer(inputs, training=training).numpy() for _ in "12")
        assert np.mean(first == second) < 0.5

    @pytest.mark.parametrize("name", CASES)
    def test_seed_determines_it(self, name):
        inputs = np.ones(CASES[name]["input_shape"], "float32")

        def outputs(seed):
            keras.utils.set_random_seed(3)
            layer = LAYERS[name](**CASES[name]["arguments"], seed=seed, kl_weight=1.0)
            return layer(inputs).numpy()

        np.testing.assert_array_equal(outputs(1), outputs(1))
        np.testing.assert_array_equal(outputs(None), outputs(None))
        assert np.any(outputs(1) != outputs(2))

    def test_layers_without_a_seed_differ(self):
        inputs = np.ones((2, 4), "float32")
        options = {"prior": None, "kernel_initializer": "ones"}
        first, second = (tfvn.VarianceDense(3, **options)(inputs) for _ in "12")
        assert np.all(first != second)


@pytest.mark.parametrize("estimator", ["mean", "local", "weights"])
@pytest.mark.parametrize("random_bias", [False, True])
def test_channels_first_agrees_with_channels_last(random_bias, estimator):
    # On a CPU such convolutions run compiled only. As many filters as the outputs
    # are wide: a bias must not end up on the wrong axis.
    inputs = np.random.default_rng(0).normal(size=(2, 4, 6, 5)).astype("float32")
    posterior = tfvn.posteriors.MeanField(scale_initializer=1e-6)
    options = {
        "strides": 2,
        "padding": "same",
        "posterior": posterior,
        "estimator": estimator,
        "prior": None,
        "bias_posterior": posterior if random_bias else None,
    }
    last = tfvn.layers.Conv2D(3, 3, **options)
    last.build((None, 6, 5, 4))
    bias = last.bias_posterior.mean_variable if random_bias else last.bias
    bias.assign([1.0, 20.0, 300.0])
    first = tfvn.layers.Conv2D(3, 3, data_format="channels_first", **options)
    first.build(inputs.shape)
    first.set_weights(last.get_weights())
    assert first.compute_output_shape((None, 4, 6, 5)) == (None, 3, 3, 3)
    outputs = tf.function(first, jit_compile=True, autograph=False)(inputs)
    expected = last(np.moveaxis(inputs, 1, -1))
    np.testing.assert_allclose(np.moveaxis(outputs, 1, -1), expected, atol=1e-3)


@pytest.mark.parametrize("name", CASES)
def test_layers_are_functions_to_tensorflow(name):
    inputs = np.ones(CASES[name]["input_shape"], "float32")
    layer = LAYERS[name](**CASES[name]["arguments"], kl_weight=1.0)
    twin = harness.twin_of(LAYERS[name])(**CASES[name]["arguments"])
    assert [*inspect.signature(layer).parameters] == ["args", "kwargs"]
    assert tf.function(layer)(inputs).shape == twin(inputs).shape


# Shapes and arguments, against the Keras twin.

QUICK = settings(max_examples=25, deadline=None, derandomize=True)


@QUICK
@given(
    shape=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    units=st.integers(1, 5),
    use_bias=st.booleans(),
    bias_posterior=st.sampled_from([None, "mean_field"]),
    activation=st.sampled_from([None, "relu", "tanh"]),
)
def test_dense_of_means_is_the_twin(shape, units, use_bias, bias_posterior, activation):
    layer = tfvn.MeanFieldDense(
        units,
        activation=activation,
        use_bias=use_bias,
        bias_initializer="normal",
        bias_posterior=bias_posterior if use_bias else None,
        estimator="mean",
        kl_weight=1.0,
    )
    inputs = np.random.default_rng(0).normal(size=shape).astype("float32")
    outputs = layer(inputs)
    assert outputs.shape == (*shape[:-1], units)
    twin = harness.make_twin(layer, inputs.shape)
    np.testing.assert_allclose(outputs, twin(inputs), rtol=1e-5, atol=1e-6)


@QUICK
@given(
    shape=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    label=st.sampled_from(harness.posterior_labels()),
    estimator=st.sampled_from([*tfvn.support.ESTIMATORS]),
)
def test_dense_shapes(shape, label, estimator):
    layer = tfvn.layers.Dense(
        3, posterior=harness.make_posterior(label), estimator=estimator, prior=None
    )
    outputs = layer(np.ones(shape, "float32"))
    assert outputs.shape == (*shape[:-1], 3)
    assert outputs.shape == layer.compute_output_shape(tuple(shape))
    assert layer.posterior_distribution().batch_shape == (shape[-1], 3)


@QUICK
@given(
    size=st.tuples(st.integers(3, 6), st.integers(3, 6)),
    kernel_size=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.integers(1, 3),
    dilation_rate=st.integers(1, 2),
    padding=st.sampled_from(["valid", "same"]),
    groups=st.sampled_from([1, 2]),
    use_bias=st.booleans(),
    estimator=st.sampled_from([*tfvn.support.ESTIMATORS]),
)
def test_convolution_against_the_twin(size, estimator, **arguments):
    kernel_size, rate = arguments["kernel_size"], arguments["dilation_rate"]
    # What Keras refuses: both at once, and windows larger than the inputs.
    assume(arguments["strides"] == 1 or rate == 1)
    extents = [(k - 1) * rate + 1 for k in kernel_size]
    assume(all(e <= s for e, s in zip(extents, size, strict=True)))
    layer = tfvn.MeanFieldConv2D(
        4, bias_initializer="normal", estimator=estimator, prior=None, **arguments
    )
    inputs = np.random.default_rng(0).normal(size=(2, *size, 4)).astype("float32")
    outputs = layer(inputs)
    twin = harness.make_twin(layer, inputs.shape)
    expected = twin(inputs)
    assert outputs.shape == expected.shape == layer.compute_output_shape(inputs.shape)
    kernel_shape = (*kernel_size, 4 // arguments["groups"], 4)
    assert layer.posterior_distribution().batch_shape == kernel_shape
    # The standard deviations are 0.01, so that the noise is small beside the means.
    tolerance = 1e-4 if estimator == "mean" else 1.0
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize("prior", [tfd.Normal(0.0, 1.0), tfd.Laplace(0.0, 1.0)])
def test_one_posterior_serves_many_layers(prior):
    posterior = tfvn.posteriors.MeanField(scale_initializer=0.2)
    options = {"posterior": posterior, "prior": prior, "kl_weight": 1.0}
    layers = [tfvn.layers.Dense(units, **options) for units in (2, 3)]
    for layer in layers:
        layer.build((None, 4))
    assert [len(layer.trainable_weights) for layer in layers] == [3, 3]
    shapes = [layer.posterior_distribution().batch_shape for layer in layers]
    assert shapes == [(4, 2), (4, 3)]
    assert posterior.variable_groups == {}
