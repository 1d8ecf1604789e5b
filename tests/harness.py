"""The test harness: what every public layer has to pass, and the combinations.

`run_layer_test` puts one layer with one set of arguments through everything a Keras
layer is asked to do. `pairwise` and `cross_product` make the arguments out of the
support tables, so that a new row is tested by being there.
"""

import contextlib
import dataclasses
import functools
import inspect
import itertools
import json
import pathlib
import random
import tempfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfvn
from tfvn import support
from tfvn.layers import RandomWeightsLayer, StochasticRNN, StochasticRNNCell

# Arguments of the Keras twins that a random kernel has no use for.
NOT_TAKEN = {
    "lora_rank",
    "lora_alpha",
    "quantization_config",
    "gptq_unpacked_column_size",
}

# How many trainable variables a posterior has for one kernel.
VARIABLES = {"variance": 1, "mean_field": 2, "gaussian_dropout": 2, "k_tied": 3}

# The arguments that give each posterior its variants.
VARIANTS = {
    "variance": [{"noise": n} for n in ("gaussian", "bernoulli", "uniform")],
    "gaussian_dropout": [
        *({"alpha": alpha} for alpha in ("layer", "neuron", "weight")),
        {"parameterization": "additive"},
    ],
    "k_tied": [{"rank": rank} for rank in (1, 2)],
}

# Where a layer is trained. The first ones are cheap enough for every combination.
REGIMES = ("graph", "jit", "mixed_float16", "mixed_bfloat16")
ALL_REGIMES = (*REGIMES, "eager", "styles", "export", "mirrored")

STEPS = 8


def public_layers(kinds=(RandomWeightsLayer, StochasticRNN)):
    """Returns the layers of these kinds that users can name, by name."""
    names = [*tfvn.layers.__all__, *tfvn.__all__]
    found = {}
    for name in names:
        value = getattr(tfvn.layers, name, None) or getattr(tfvn, name)
        if not inspect.isclass(value) or not issubclass(value, kinds):
            continue
        if keras.saving.get_registered_name(value).startswith("tfvn>"):
            found[name] = value
    return found


def twin_of(layer_class):
    """Returns the Keras layer that a layer is the random form of."""
    return next(c for c in layer_class.__mro__ if c.__module__.startswith("keras."))


def twin_arguments(layer_class):
    """Returns the parameters of the Keras twin that a layer has to take."""
    parameters = inspect.signature(twin_of(layer_class)).parameters
    skipped = {*NOT_TAKEN, "kwargs"}
    return {name: p for name, p in parameters.items() if name not in skipped}


def make_twin(layer, input_shape, kernel=None, bias=None, **kwargs):
    """Returns a built Keras twin.

    Args:
        layer: A stochastic layer.
        input_shape: Shape of the inputs, the batch included.
        kernel: The kernel of the twin; the posterior's means unless given.
        bias: The bias of the twin; the layer's or its means unless given.
        **kwargs: Arguments of the twin that differ from the layer's.
    """
    config = layer.get_config()
    taken = {n: config[n] for n in twin_arguments(type(layer)) if n in config}
    taken[f"{layer.kernel_argument}_initializer"] = "zeros"
    twin = twin_of(type(layer))(**{**taken, **kwargs})
    twin.build(tuple(input_shape))
    if kernel is None:
        kernel = keras.ops.convert_to_numpy(layer.posterior.mean())
    if bias is None and layer.has_bias:
        bias = layer.bias
        if layer.bias_posterior is not None:
            bias = layer.bias_posterior.mean()
        bias = keras.ops.convert_to_numpy(bias)
    twin.set_weights([kernel, bias] if layer.has_bias else [kernel])
    return twin


# The combinations.


def posterior_labels():
    """Returns every posterior in every variant, as `"variance/uniform"`."""
    labels = []
    for alias in tfvn.posteriors.registry.aliases:
        variants = VARIANTS.get(alias, [{}])
        labels += ["/".join([alias, *map(str, v.values())]) for v in variants]
    return labels


def make_posterior(label):
    """Returns the posterior that a label stands for, without variables."""
    alias, *values = label.split("/")
    (variant,) = (
        v for v in VARIANTS.get(alias, [{}]) if [*map(str, v.values())] == values
    )
    return type(tfvn.posteriors.get(alias))(**variant)


@functools.cache
def law_of(label):
    """Returns the law of the posterior that a label stands for."""
    return make_posterior(label).law


def make_prior(row):
    """Returns a prior that stands in this row of `tfvn.support.PRIORS`."""
    if row == "none":
        return None
    return tfd.StudentT(5.0, 0.0, 0.5) if row == "any" else row


def table_factors():
    """Returns what the support tables let a layer choose from, as factors."""
    return {
        "posterior": posterior_labels(),
        "estimator": list(support.ESTIMATORS),
        "prior": list(support.PRIORS),
        "kl_method": list(tfvn.layers.random_weight.KL_METHODS),
        "bias": ["none", "plain", "mean_field"],
    }


def is_supported(combination, estimators="ESTIMATORS"):
    """Whether the tables offer a combination of (some of) the factors."""
    law = law_of(combination["posterior"])
    table = getattr(support, estimators)
    cells = {
        kind: support.lookup(table, combination[kind], law)
        for kind, table in (
            ("estimator", table),
            ("prior", support.PRIORS),
        )
    }
    if not all(cell.supported for cell in cells.values()):
        return False
    if combination["kl_method"] == "analytic":
        return cells["prior"] != support.MONTE_CARLO
    # The ARD prior is a marker without a density.
    return combination["kl_method"] != "monte_carlo" or combination["prior"] != "ard"


def to_arguments(combination, layer_class):
    """Returns the arguments of a layer that a combination stands for."""
    posterior = make_posterior(combination["posterior"])
    preset = issubclass(layer_class, tfvn.layers.Preset)
    bias = combination["bias"]
    if issubclass(layer_class, tfvn.layers.EinsumDense):
        with_bias = {"bias_axes": None} if bias == "none" else {}
    else:
        with_bias = {"use_bias": bias != "none"}
    return {
        **(posterior.get_config() if preset else {"posterior": posterior}),
        "estimator": combination["estimator"],
        "prior": make_prior(combination["prior"]),
        "kl_method": combination["kl_method"],
        **with_bias,
        "bias_posterior": "mean_field" if bias == "mean_field" else None,
    }


def cross_product(factors, is_valid):
    """Returns every valid combination of the factors' levels."""
    products = itertools.product(*factors.values())
    combinations = (dict(zip(factors, levels, strict=True)) for levels in products)
    return [combination for combination in combinations if is_valid(combination)]


def pairwise(factors, is_valid, attempts=30):
    """Returns valid combinations that hold every valid pair of levels.

    Takes a pair that is not yet covered, and of several random completions the one
    that covers most. Always returns the same combinations for the same factors.
    """
    choose = random.Random(0)
    candidates = cross_product(factors, is_valid)
    with_pair = {}
    for combination in candidates:
        for pair in _pairs(combination):
            with_pair.setdefault(pair, []).append(combination)
    # In a list, as the order of a set changes from one process to the next.
    missing = dict.fromkeys(with_pair)
    chosen = []
    while missing:
        options = with_pair[next(iter(missing))]
        sample = choose.sample(options, min(attempts, len(options)))
        best = max(sample, key=lambda c: sum(p in missing for p in _pairs(c)))
        chosen.append(best)
        for pair in _pairs(best):
            missing.pop(pair, None)
    return chosen


def _pairs(combination):
    return itertools.combinations(combination.items(), 2)


def label(combination):
    """Returns a combination as the name of a test."""
    return "-".join(str(level) for level in combination.values())


# The checks.


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer, its arguments, and the shape of the inputs, batch included."""

    layer_class: type
    init_kwargs: dict
    input_shape: tuple

    def make(self, **kwargs):
        """Returns an instance of the class."""
        defaults = {"kl_weight": 0.1, "seed": 7}
        return self.layer_class(**{**defaults, **self.init_kwargs, **kwargs})

    def layer(self):
        """Returns what a model is made of: of a cell, an `RNN` around it."""
        return in_rnn(self.make())

    def model(self, layer=None):
        """Returns the layer under a head that makes one number of its outputs."""
        return keras.Sequential(
            [
                keras.Input(self.input_shape[1:]),
                self.layer() if layer is None else layer,
                keras.layers.Flatten(),
                keras.layers.Dense(1, dtype="float32"),
            ]
        )

    def data(self):
        generator = np.random.default_rng(0)
        inputs = generator.normal(size=self.input_shape).astype("float32")
        return inputs, np.full((len(inputs), 1), 5.0, "float32")


def run_layer_test(layer_class, init_kwargs, input_shape, regimes=ALL_REGIMES):
    """Puts a layer through everything that a Keras layer is asked to do.

    Args:
        layer_class: The class of the layer.
        init_kwargs: The arguments to make it with. `kl_weight` and `seed` have
            values of their own where they are left out.
        input_shape: Shape of the inputs, the batch included.
        regimes: In which of `ALL_REGIMES` the layer is trained and used.
    """
    case = Case(layer_class, init_kwargs, input_shape)
    check_construction(case)
    check_config(case)
    check_shapes(case)
    check_counts(case)
    check_saving(case)
    for regime in regimes:
        REGIME_CHECKS[regime](case)


def check_construction(case):
    layer = case.make(name="layer")
    assert layer.name == "layer"
    assert not layer.built
    for name, value in case.init_kwargs.items():
        if name in twin_arguments(case.layer_class):
            # Keras keeps some arguments under other names.
            kept = getattr(layer, name, None)
            wanted = type(kept)(value) if type(kept) in (bool, int, str) else None
            assert wanted is None or kept == wanted
    inputs, _ = case.data()
    in_rnn(layer)(inputs)
    assert layer.built


def check_config(case):
    layer = case.make()
    config = layer.get_config()
    saved = json.loads(json.dumps(config))
    again = case.layer_class.from_config(saved)
    assert again.get_config() == config
    assert again.name == layer.name
    assert type(again.posterior) is type(layer.posterior)
    # Every argument is in the config, those of the twin included.
    parameters = inspect.signature(case.layer_class).parameters
    assert set(parameters) - {"kwargs"} <= set(config) | {"activity_regularizer"}
    serialized = keras.saving.serialize_keras_object(layer)
    assert serialized["registered_name"] == f"tfvn>{case.layer_class.__name__}"
    restored = keras.saving.deserialize_keras_object(serialized)
    assert restored.get_config() == config


def check_shapes(case):
    layer = case.layer()
    inputs, _ = case.data()
    names = twin_arguments(case.layer_class)
    twin = in_rnn(
        twin_of(case.layer_class)(
            **{k: v for k, v in case.init_kwargs.items() if k in names}
        )
    )
    # Keras's transposed convolutions give a list.
    expected = tuple(twin.compute_output_shape(case.input_shape))
    assert tuple(layer.compute_output_shape(case.input_shape)) == expected
    spec = layer.compute_output_spec(keras.KerasTensor(case.input_shape))
    assert (spec.shape, spec.dtype) == (expected, "float32")
    symbolic = layer(keras.Input(batch_shape=(None, *case.input_shape[1:])))
    assert symbolic.shape == (None, *expected[1:])
    outputs = layer(inputs)
    assert tuple(outputs.shape) == expected
    assert outputs.dtype == "float32"
    assert np.all(np.isfinite(outputs))


def check_counts(case):
    layer = case.layer()
    inputs, _ = case.data()
    layer(inputs)
    layer = owner(layer)
    assert len(layer._seed_generators) == 1
    assert len(layer.losses) == int(adds_kl(layer))
    assert len(layer.non_trainable_weights) == 1
    aliases = [posterior.alias for posterior, _ in random_parts(layer)]
    if set(aliases) <= set(VARIABLES):
        expected = sum(VARIABLES[alias] for alias in aliases)
        if layer.has_bias and layer.bias_posterior is None:
            expected += 1
        assert len(layer.trainable_weights) == expected
    groups = layer.variable_groups
    grouped = [id(v) for variables in groups.values() for v in variables]
    assert sorted(grouped) == sorted(id(v) for v in layer.trainable_weights)
    if adds_kl(layer) and not _estimates_kl(layer):
        (loss,) = layer.losses
        expected = layer.kl_weight.numpy() * layer.kl_divergence().numpy()
        np.testing.assert_allclose(loss, expected, rtol=1e-6)


def check_saving(case):
    model = case.model()
    inputs, _ = case.data()
    layer = model.layers[0]
    for variable in layer.trainable_weights:
        variable.assign(variable + 0.01)
    owner(layer).kl_weight.assign(0.25)
    outputs = _from_the_start(model, inputs)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "model.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
        np.testing.assert_array_equal(loaded(inputs), outputs)
        assert own_config(loaded.layers[0]) == own_config(layer)
        assert owner(loaded.layers[0]).kl_weight.numpy() == np.float32(0.25)

        path = pathlib.Path(directory) / "model.weights.h5"
        model.save_weights(path)
        other = case.model(type(layer).from_config(layer.get_config()))
        other.load_weights(path)
        np.testing.assert_array_equal(other(inputs), outputs)


def check_training(case, **compile_options):
    """Fits a model and returns its stochastic layer."""
    model = case.model()
    layer = model.layers[0]
    inputs, targets = case.data()
    # Bounded steps: the gradient of a prior with a pole at zero has heavy tails.
    compile_options.setdefault("optimizer", keras.optimizers.Adam(0.02))
    model.compile(loss="mse", metrics=["mse"], **compile_options)
    variables = layer.trainable_variables
    before = [v.numpy() for v in variables]
    untrained = {id(v) for v in _without_gradient(owner(layer))}
    warned = pytest.warns(UserWarning, match="Gradients do not exist")
    with warned if untrained else contextlib.nullcontext():
        history = model.fit(
            inputs, targets, batch_size=len(inputs), epochs=STEPS, verbose=0
        )
    assert np.all(np.isfinite(history.history["loss"]))
    # Not the loss: a KL that is estimated from one sample makes it rise and fall.
    errors = history.history["mse"]
    assert errors[-1] < errors[0]
    for variable, value in zip(variables, before, strict=True):
        assert np.all(np.isfinite(variable))
        changed = bool(np.any(variable.numpy() != value))
        assert changed == (id(variable) not in untrained), variable.path
    return owner(layer)


def check_gradients(case):
    """Differentiates one call: finite, and to every variable that it should reach."""
    layer = case.make()
    inputs, _ = case.data()
    with tf.GradientTape() as tape:
        outputs = layer(inputs, training=True)
        loss = tf.reduce_sum(tf.square(outputs - 5.0))
        loss = tf.add_n([loss, *layer.losses])
    variables = layer.trainable_variables
    gradients = tape.gradient(loss, variables)
    assert np.all(np.isfinite(outputs))
    assert len(layer.losses) == adds_kl(layer)
    untrained = {id(v) for v in _without_gradient(layer)}
    for variable, gradient in zip(variables, gradients, strict=True):
        gradient = np.zeros(()) if gradient is None else gradient.numpy()
        assert np.all(np.isfinite(gradient)), variable.path
        assert np.any(gradient != 0) == (id(variable) not in untrained), variable.path
    config = layer.get_config()
    assert type(layer).from_config(config).get_config() == config


def check_graph(case):
    check_training(case, jit_compile=False)


def check_jit(case):
    check_training(case, jit_compile=True)


def check_eager(case):
    check_training(case, run_eagerly=True)


def check_mixed_precision(case, policy):
    half = policy.removeprefix("mixed_")
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        layer = case.layer()
        inputs, _ = case.data()
        assert layer(keras.Input(case.input_shape[1:])).dtype == half
        outputs = layer(inputs)
        assert outputs.dtype == half
        assert np.all(np.isfinite(tf.cast(outputs, "float32")))
        optimizer = keras.optimizers.SGD(0.02)
        if half == "float16":
            # Small, so that no step is left out for an overflow.
            optimizer = keras.optimizers.LossScaleOptimizer(
                optimizer, initial_scale=16.0
            )
        trained = check_training(case, optimizer=optimizer, jit_compile=False)
    finally:
        keras.config.set_dtype_policy(previous)
    layer = owner(layer)
    assert {v.dtype for v in layer.weights + trained.weights} == {"float32"}
    assert layer.kl_divergence().dtype == "float32"
    assert all(loss.dtype == "float32" for loss in layer.losses)
    assert len(layer.losses) == int(adds_kl(layer))


def check_styles(case):
    """Sequential, functional and subclassed models give and learn the same."""
    inputs, targets = case.data()
    reference = case.model()
    original = reference.layers[0]

    def make_layers():
        stochastic = type(original).from_config(original.get_config())
        return [stochastic, keras.layers.Flatten(), keras.layers.Dense(1)]

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks = make_layers()

        def call(self, inputs):
            for block in self.blocks:
                inputs = block(inputs)
            return inputs

    start = outputs = keras.Input(case.input_shape[1:])
    for block in make_layers():
        outputs = block(outputs)
    models = [
        keras.Sequential([keras.Input(case.input_shape[1:]), *make_layers()]),
        keras.Model(start, outputs),
        Subclassed(),
    ]
    weights = reference.get_weights()
    expected = _from_the_start(reference, inputs)
    trained = []
    for model in models:
        model(inputs)
        model.set_weights(weights)
        np.testing.assert_array_equal(_from_the_start(model, inputs), expected)
        model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
        _reset(model)
        model.fit(inputs, targets, batch_size=len(inputs), epochs=2, verbose=0)
        trained.append(model.get_weights())
    for values in trained[1:]:
        for value, first in zip(values, trained[0], strict=True):
            np.testing.assert_allclose(value, first, rtol=1e-4, atol=1e-6)


def check_export(case):
    model = case.model()
    inputs, _ = case.data()
    with tempfile.TemporaryDirectory() as directory:
        model.export(directory, verbose=False)
        served = tf.saved_model.load(directory)
        first, second = served.serve(inputs).numpy(), served.serve(inputs).numpy()
        smaller = served.serve(inputs[:1])
    expected = model(inputs)
    assert first.shape == tuple(expected.shape)
    assert smaller.shape == (1, *expected.shape[1:])
    assert np.all(np.isfinite(first))
    if owner(model.layers[0]).estimator.alias == "mean":
        np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(first, second)
    else:
        assert np.any(first != second)


def check_mirrored(case):
    """On two replicas noise differs, and the KL counts once and not twice."""
    strategy = two_replicas()
    inputs, targets = case.data()
    with strategy.scope():
        model = case.model()
        layer = model.layers[0]
        # Without a likelihood, only the KL is left to learn from.
        model.compile(keras.optimizers.SGD(0.1), no_likelihood, jit_compile=False)

    first, second = strategy.run(tf.function(layer), args=(inputs,)).values
    layer = owner(layer)
    if layer.estimator.alias == "mean":
        np.testing.assert_array_equal(first, second)
    else:
        assert np.mean(first.numpy() == second.numpy()) < 0.5

    before = [v.numpy() for v in layer.trainable_variables]
    with tf.GradientTape() as tape:
        kl = layer.kl_weight.value * layer.kl_divergence()
    variables = [v.value for v in layer.trainable_variables]
    gradients = tape.gradient(kl, variables, unconnected_gradients="zero")
    history = model.fit(inputs, targets, batch_size=len(inputs), verbose=0)
    if _estimates_kl(layer):
        assert np.isfinite(history.history["loss"][0])
        return
    np.testing.assert_allclose(history.history["loss"][0], kl, rtol=1e-5)
    for variable, value, gradient in zip(
        layer.trainable_variables, before, gradients, strict=True
    ):
        expected = value - 0.1 * gradient.numpy()
        np.testing.assert_allclose(variable, expected, rtol=1e-5, atol=1e-6)


REGIME_CHECKS = {
    "graph": check_graph,
    "jit": check_jit,
    "eager": check_eager,
    "mixed_float16": lambda case: check_mixed_precision(case, "mixed_float16"),
    "mixed_bfloat16": lambda case: check_mixed_precision(case, "mixed_bfloat16"),
    "styles": check_styles,
    "export": check_export,
    "mirrored": check_mirrored,
}


@functools.cache
def two_replicas():
    """Returns a strategy that splits each batch between two logical CPUs."""
    # Collective reductions of two strategies in one process get mixed up.
    return tf.distribute.MirroredStrategy(
        ["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
    )


def no_likelihood(targets, outputs):
    """A loss that is zero, with a gradient of zero."""
    return 0.0 * keras.ops.sum(keras.ops.square(outputs - targets), axis=-1)


def in_rnn(layer):
    """Returns a layer, and for a cell an `RNN` around it."""
    cells = (keras.layers.LSTMCell, keras.layers.GRUCell)
    return keras.layers.RNN(layer) if isinstance(layer, cells) else layer


def owner(layer):
    """Returns what owns the random weights: the layer or, in an `RNN`, its cell."""
    return layer.cell if isinstance(layer, keras.layers.RNN) else layer


def own_config(layer):
    """Returns the config of a layer; of an `RNN`, that of its cell beside it."""
    # Keras writes the shape that a cell was built for as a tuple and reads a list.
    config = {k: v for k, v in layer.get_config().items() if k != "cell"}
    return config, owner(layer).get_config()


# What the tables say of a layer.


def random_parts(layer):
    """Returns the posterior and the prior of each random part of a layer."""
    kernel_prior = layer.prior
    if isinstance(kernel_prior, str) and kernel_prior == "auto":
        kernel_prior = layer.posterior.default_prior
    parts = [(layer.posterior, kernel_prior)]
    if isinstance(layer, StochasticRNNCell):
        parts.append((layer.recurrent_posterior, kernel_prior))
    if layer.bias_posterior is not None:
        same = isinstance(layer.bias_prior, str) and layer.bias_prior == "auto"
        prior = kernel_prior if same else layer.bias_prior
        parts.append((layer.bias_posterior, prior))
    return parts


def part_adds_kl(posterior, prior):
    """Whether the KL of a part depends on its variables."""
    row = tfvn.priors.row(prior)
    if posterior.zero_mean and row in support.SCALE_FREE_PRIORS:
        return False
    cell = support.lookup(support.PRIORS, row, posterior.law)
    return cell not in (support.CONSTANT, support.NO_KL)


def adds_kl(layer):
    """Whether a layer adds a KL to the loss."""
    return any(part_adds_kl(*part) for part in random_parts(layer))


def _estimates_kl(layer):
    """Whether the KL of a layer is random."""
    if layer.kl_method == "monte_carlo":
        return adds_kl(layer)
    return any(
        support.lookup(support.PRIORS, tfvn.priors.row(prior), posterior.law)
        == support.MONTE_CARLO
        for posterior, prior in random_parts(layer)
    )


def _without_gradient(layer):
    """Returns the variables that the loss does not depend on."""
    if layer.estimator.alias != "mean":
        return []
    return [
        variable
        for posterior, prior in random_parts(layer)
        if not part_adds_kl(posterior, prior)
        for variable in posterior.variable_groups["scale"]
    ]


def _reset(model):
    for layer in model._flatten_layers():
        for generator in layer._seed_generators:
            generator.state.assign([generator._initial_seed, 0])


def _from_the_start(model, inputs):
    """Returns a model's outputs with the noise that it starts with."""
    _reset(model)
    outputs = model(inputs).numpy()
    _reset(model)
    return outputs
