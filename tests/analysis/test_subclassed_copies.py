"""Models with a `call` of their own are pruned, tied, sampled and made plain."""

import keras
import numpy as np
import pytest
from keras import layers

import tfvn
from tfvn import passes
from tfvn.layers.base import stochastic_layers
from tfvn.prediction.ensemble import MEAN_WEIGHTS

X = np.random.default_rng(1).normal(size=(3, 6)).astype("float32")


@keras.saving.register_keras_serializable("tests")
class Block(layers.Layer):
    """A layer that makes one layer in its constructor, and one in `build`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first = layers.Dense(6, "relu")

    def build(self, input_shape):
        self.first.build(input_shape)
        self.second = layers.Dense(6)
        self.second.build(input_shape)

    def call(self, inputs):
        return self.second(self.first(inputs))


@keras.saving.register_keras_serializable("tests")
class Plain(keras.Model):
    """A model of plain layers, to be converted, with blocks of the same name."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.first = layers.Dense(6, "relu")
        self.blocks = [Block(name="block"), Block(name="block")]
        self.last = layers.Dense(2)

    def call(self, inputs):
        return self.last(self.blocks[1](self.blocks[0](self.first(inputs))))


def plain():
    model = Plain()
    model(X)
    return model


def converted():
    return tfvn.from_deterministic(plain(), scale=0.5)


def moved(model):
    """Gives all weights, also scales, values that differ from each other."""
    model(X)
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(variable + 0.3 * rng.normal(size=variable.shape))
    return model


def means(model):
    """The predictions with mean weights, without a trace."""
    with passes.entered(MEAN_WEIGHTS):
        return model(X).numpy()


class Layers:
    """The layers of the models below: in attributes, in lists, and twice the same."""

    def make_layers(self, **kwargs):
        self.first = tfvn.MeanFieldDense(6, "relu", **kwargs)
        self.others = [tfvn.MeanFieldDense(6, name="same", **kwargs) for _ in "ab"]
        self.again = self.first
        self.last = layers.Dense(2)

    def call(self, inputs):
        x = self.others[1](self.others[0](self.first(inputs)))
        return self.last(self.again(x))


@keras.saving.register_keras_serializable("tests")
class Bayesian(Layers, tfvn.Model):
    def __init__(self):
        super().__init__()
        self.make_layers()


@keras.saving.register_keras_serializable("tests")
class Stock(Layers, keras.Model):
    def __init__(self):
        super().__init__()
        self.make_layers(kl_weight=0.1)


@keras.saving.register_keras_serializable("tests")
class Inside(Layers, layers.Layer):
    """The same in a layer of a functional model."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.make_layers()

    def build(self, input_shape):
        for layer in (self.first, *self.others, self.last):
            if not layer.built:
                layer.build(input_shape)


def in_a_layer():
    inputs = keras.Input((6,))
    return tfvn.Model(inputs, Inside()(inputs))


MODELS = [converted, Bayesian, Stock, in_a_layer]
FUNCTIONS = {
    "prune": lambda model: tfvn.prune(model, fraction=0.5),
    "tie": lambda model: tfvn.tie(model, rank=1),
}


def assert_loads_alike(model, folder):
    model.save(folder / "model.keras")
    loaded = keras.models.load_model(folder / "model.keras")
    for one, other in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(means(model), means(loaded), atol=1e-6)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_changed_copies(make, name, tmp_path):
    model = moved(make())
    model.compile("sgd", "mse", run_eagerly=True)
    before = [weight.copy() for weight in model.get_weights()]
    copy = FUNCTIONS[name](model)
    pairs = list(zip(stochastic_layers(model), stochastic_layers(copy), strict=True))
    assert len(pairs) > 2
    for old, new in pairs:
        assert new is not old
        if name == "prune":
            mask = new.posterior.mask.numpy()
            assert np.mean(mask) == pytest.approx(0.5, abs=0.5 / mask.size)
            expected = np.where(mask, old.posterior.mean(), 0.0)
        else:
            expected = old.posterior.mean()
            scale = new.posterior_distribution().stddev().numpy()
            matrix = scale.reshape(-1, new.posterior.spec.columns)
            assert np.linalg.matrix_rank(matrix, tol=1e-4) == 1
        np.testing.assert_array_equal(new.posterior.mean(), expected)
    kind = tfvn.Model if name == "tie" or isinstance(model, tfvn.Model) else Stock
    assert isinstance(copy, kind)
    assert isinstance(copy, tfvn.Model) == (kind is tfvn.Model)
    assert_loads_alike(copy, tmp_path)
    copy.fit(X, np.zeros(copy(X).shape), verbose=0)
    if name == "prune":
        for _, new in pairs:
            mask = new.posterior.mask.numpy()
            np.testing.assert_array_equal(new.posterior.mean().numpy()[~mask], 0.0)
        assert tfvn.sparsity(tfvn.prune(copy, fraction=0.9)).total > 0.85
    for now, then in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_plain_copies(make, tmp_path):
    model = moved(make())
    drawn = tfvn.sample_model(model, seed=1)
    assert not stochastic_layers(drawn)
    np.testing.assert_array_equal(drawn(X), drawn(X))
    np.testing.assert_array_equal(drawn(X), tfvn.sample_model(model, seed=1)(X))
    assert np.abs(drawn(X) - tfvn.sample_model(model, seed=2)(X)).max() > 1e-3
    assert_loads_alike(drawn, tmp_path)
    plain = tfvn.to_deterministic(model)
    assert not stochastic_layers(plain)
    np.testing.assert_allclose(plain(X), means(model), atol=1e-5)
    pruned = tfvn.prune(model, fraction=0.5)
    np.testing.assert_allclose(
        tfvn.to_deterministic(pruned)(X), means(pruned), atol=1e-5
    )


def test_a_draw_of_a_converted_model_is_of_the_users_class():
    assert type(tfvn.sample_model(converted(), seed=1)) is Plain


def test_a_layer_in_a_wrapper_and_the_model_would_become_two():
    shared = tfvn.MeanFieldDense(6)
    inputs = keras.Input((2, 6))
    outputs = [layers.TimeDistributed(shared)(inputs), shared(inputs)]
    model = tfvn.Model(inputs, outputs)
    for function in FUNCTIONS.values():
        with pytest.raises(ValueError, match=r"share.* would become several layers"):
            function(model)


class Hidden(tfvn.Model):
    """Holds its layers where nobody can put others in their place."""

    class Holder:
        """Any object of a user."""

    def __init__(self):
        super().__init__()
        self.holder = self.Holder()
        self.holder.dense = tfvn.MeanFieldDense(2, name="inside")
        self._layers.append(self.holder.dense)

    def call(self, inputs):
        return self.holder.dense(inputs)


@pytest.mark.filterwarnings("ignore:.*was called on layer")
@pytest.mark.parametrize(
    "function", [*FUNCTIONS.values(), tfvn.sample_model, tfvn.to_deterministic]
)
def test_layers_that_nobody_calls_are_named(function):
    model = Bayesian()
    model.unused = tfvn.MeanFieldDense(2, name="unused")
    model(X)
    with pytest.raises(ValueError, match=r"in which \['unused'\] are not built"):
        function(model)


@pytest.mark.parametrize("function", [*FUNCTIONS.values(), tfvn.sample_model])
def test_refusals_name_the_reason(function):
    with pytest.raises(ValueError, match=r"has been built.* Received: model='bayesian"):
        function(Bayesian())
    with pytest.raises(ValueError, match=r"has been built.* Received: model=3"):
        function(3)
    model = Hidden()
    model(X)
    words = "expected 'inside' in one of these.* type Hidden, which holds it elsewhere"
    with pytest.raises(ValueError, match=words):
        function(model)


class Small(keras.Model):
    def __init__(self):
        super().__init__()
        self.last = layers.Dense(2)

    def call(self, inputs):
        return self.last(inputs)


def test_laplace_names_a_way_out():
    model = Small()
    model(X)
    model.compile(loss="mse")
    y = model(X).numpy()
    words = r"`call` of its own.*`keras.Model\(inputs, model.call\(inputs\)\)`"
    with pytest.raises(ValueError, match=words):
        tfvn.last_layer_laplace(model, X, y)
    inputs = keras.Input((6,))
    functional = keras.Model(inputs, model.call(inputs))
    functional.compile(loss="mse")
    fitted = tfvn.last_layer_laplace(functional, X, y)
    np.testing.assert_allclose(means(fitted), y, atol=1e-5)
