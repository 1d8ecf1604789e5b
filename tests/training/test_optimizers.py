"""What every optimizer takes, keeps and survives."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from noisy_quadratic import OPTIMUM, train

import tfvn
from tfvn.training.optimizers import AdaBound, RAdam, YellowFin

ALL = {"ada_bound": AdaBound, "radam": RAdam, "yellow_fin": YellowFin}
every_optimizer = pytest.mark.parametrize("cls", ALL.values(), ids=ALL)


def make_model(optimizer, **kwargs):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(optimizer, "mse", **kwargs)
    return model


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(64, 3)).astype("float32")
    noise = 0.1 * rng.normal(size=(64, 2))
    return x, (x @ rng.normal(size=(3, 2)) + 1 + noise).astype("float32")


def weights_after(optimizer, data, **kwargs):
    keras.utils.set_random_seed(1)
    model = make_model(optimizer, **kwargs)
    model.fit(*data, batch_size=16, epochs=3, shuffle=False, verbose=0)
    weights = np.concatenate([w.ravel() for w in model.get_weights()])
    assert np.isfinite(weights).all()
    return weights


@pytest.fixture(scope="module")
def weights_without():
    """Weights after training without any of the base arguments, by optimizer."""
    return {}


@every_optimizer
class TestEvery:
    def test_config_round_trip(self, cls):
        schedule = keras.optimizers.schedules.CosineDecay(0.2, 10)
        changed = {
            AdaBound: {"final_learning_rate": 0.3, "gamma": 0.1, "amsbound": True},
            RAdam: {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-5},
            YellowFin: {"momentum": 0.1, "beta": 0.9, "curvature_window": 7},
        }[cls]
        optimizer = cls(schedule, **changed, weight_decay=0.1, clipnorm=2.0, name="me")
        config = keras.optimizers.serialize(optimizer)
        assert config["registered_name"] == f"tfvn>{cls.__name__}"
        copy = keras.optimizers.deserialize(json.loads(json.dumps(config)))
        assert type(copy) is cls
        assert keras.optimizers.serialize(copy) == config
        assert changed.items() <= copy.get_config().items()

    def test_takes_all_that_keras_optimizers_take(self, cls):
        base = {
            "weight_decay": 0.1,
            "global_clipnorm": 1.0,
            "use_ema": True,
            "ema_momentum": 0.9,
            "ema_overwrite_frequency": 2,
            "loss_scale_factor": 2.0,
            "gradient_accumulation_steps": 2,
            "name": "me",
        }
        assert base.items() <= cls(**base).get_config().items()
        assert cls(clipvalue=1.0).clipvalue == 1.0
        with pytest.raises(ValueError, match=r"not recognized.*unknown"):
            cls(unknown=1)

    @pytest.mark.one_in(3)
    def test_state_survives_saving(self, cls, data, tmp_path):
        model = make_model(cls(0.1))
        model.fit(*data, batch_size=16, epochs=2, shuffle=False, verbose=0)
        # What a callback sets comes back as well, together with what it acts on.
        model.optimizer.learning_rate = 0.05
        model.save(tmp_path / "model.keras")
        copy = keras.saving.load_model(tmp_path / "model.keras")
        for new in (model, copy):
            new.fit(*data, batch_size=16, shuffle=False, verbose=0)
        for one, other in zip(
            [*model.weights, *model.optimizer.variables],
            [*copy.weights, *copy.optimizer.variables],
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)

    @pytest.mark.one_in(3)
    @pytest.mark.parametrize(
        "kwargs",
        [
            {"learning_rate": keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)},
            {"learning_rate": lambda: 0.05},
            {"weight_decay": 0.1},
            {"clipnorm": 0.01},
            {"clipvalue": 0.01},
            {"global_clipnorm": 0.01},
            {"use_ema": True, "ema_momentum": 0.5},
            {"gradient_accumulation_steps": 2},
        ],
        ids=lambda kwargs: next(iter(kwargs)),
    )
    def test_base_arguments_act(self, cls, kwargs, data, weights_without):
        # An epsilon that counts: Adam's steps do not depend on the gradient's size.
        own = {} if cls is YellowFin else {"epsilon": 0.01}
        if cls not in weights_without:
            weights_without[cls] = weights_after(cls(0.1, **own), data)
        plain = weights_without[cls]
        changed = weights_after(cls(**{"learning_rate": 0.1, **own, **kwargs}), data)
        assert np.abs(plain - changed).max() > 1e-4

    def test_learning_rate_of_zero_changes_nothing(self, cls, data):
        keras.utils.set_random_seed(1)
        before = make_model("sgd").get_weights()
        after = weights_after(cls(0.0), data)
        np.testing.assert_array_equal(
            after, np.concatenate([weight.ravel() for weight in before])
        )

    @pytest.mark.parametrize("jit", [False, True])
    def test_zero_gradients(self, cls, jit):
        variable = keras.Variable([1.0, -2.0])
        optimizer = cls(0.01)
        optimizer.build([variable])

        @tf.function(jit_compile=jit)
        def step(gradient):
            optimizer.apply([gradient], [variable])

        for _ in range(5):
            step(tf.zeros(2))
        np.testing.assert_array_equal(variable, [1.0, -2.0])
        # They also leave nothing behind that makes the next steps wild.
        for _ in range(5):
            step(tf.ones(2))
            step(tf.zeros(2))
        assert np.isfinite(variable.numpy()).all()
        assert np.all(np.abs(variable.numpy() - [1.0, -2.0]) < 0.2)
        assert all(np.isfinite(v.numpy()).all() for v in optimizer.variables)

    @pytest.mark.parametrize("scale", [1e-15, 1e-8, 1e8, 1e15])
    def test_extreme_gradients(self, cls, scale):
        variable = keras.Variable([1.0, -2.0])
        optimizer = cls()
        for sign in (1.0, 2.0, -1.0, 1.0):
            optimizer.apply([tf.constant([sign, 0.5]) * scale], [variable])
        assert all(np.isfinite(v.numpy()).all() for v in optimizer.variables)
        assert np.isfinite(variable.numpy()).all()

    def test_converges_on_a_quadratic(self, cls):
        # The rate that YellowFin finds is that of the steep start for quite a while.
        optimizer, rounds = (cls(), 4) if cls is YellowFin else (cls(0.1), 1)
        path = train(optimizer, "graph", rounds)
        optimum = np.concatenate([np.ravel(part) for part in OPTIMUM])
        assert np.abs(path[-30:].mean(axis=0) - optimum).max() < 1.0
        start, end = np.square(optimum).sum(), np.square(path[-1] - optimum).sum()
        assert end < 0.1 * start

    def test_sparse_gradients(self, cls):
        model = keras.Sequential([keras.layers.Embedding(5, 2), keras.layers.Dense(1)])
        model.compile(cls(0.01), "mse")
        x, y = np.array([[0, 1], [1, 3]]), np.ones((2, 2, 1))
        model.fit(x, y, epochs=2, verbose=0)
        assert all(np.isfinite(weight).all() for weight in model.get_weights())

    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
    def test_mixed_precision(self, cls, policy, data):
        full = weights_after(cls(0.01), data)
        keras.config.set_dtype_policy(policy)
        # Gradients of a few digits, and a scaled loss, lead about as far.
        np.testing.assert_allclose(weights_after(cls(0.01), data), full, atol=0.05)

    @pytest.mark.one_in(3)
    def test_replicas_agree_with_one_device(self, cls, data, two_replicas):
        one = weights_after(cls(0.1), data, jit_compile=False)
        with two_replicas.scope():
            two = weights_after(cls(0.1), data, jit_compile=False)
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)

    def test_integer_steps_do_not_retrace(self, cls):
        variable = keras.Variable([1.0])
        optimizer = cls()
        optimizer.build([variable])
        step = tf.function(lambda g: optimizer.apply([g], [variable]))
        for _ in range(3):
            step(tf.ones(1))
        assert step.experimental_get_tracing_count() == 1


@pytest.mark.parametrize(
    ("cls", "kwargs", "message"),
    [
        (AdaBound, {"learning_rate": -1.0}, "`learning_rate` must .* of at least 0"),
        (
            AdaBound,
            {"final_learning_rate": 0},
            "`final_learning_rate` .*greater than 0",
        ),
        (
            AdaBound,
            {"beta_1": 1.0},
            "`beta_1` must .* of at least 0 and smaller than 1",
        ),
        (AdaBound, {"beta_2": -0.1}, r"`beta_2` .* Received: beta_2=-0.1"),
        (AdaBound, {"gamma": 0.0}, "`gamma` must be a finite number greater than 0"),
        (AdaBound, {"epsilon": "1"}, r"`epsilon` .* Received: epsilon='1'"),
        (AdaBound, {"base_learning_rate": -1.0}, "`base_learning_rate` must"),
        (RAdam, {"learning_rate": float("nan")}, "`learning_rate` must"),
        (RAdam, {"beta_1": True}, r"`beta_1` must .* Received: beta_1=True"),
        (RAdam, {"beta_2": 0.6}, "`beta_2` must .* greater than 0.6"),
        (RAdam, {"epsilon": 0}, "`epsilon` must be a finite number greater than 0"),
        (YellowFin, {"learning_rate": -1.0}, "`learning_rate` must"),
        (YellowFin, {"momentum": 1}, "`momentum` must .* smaller than 1"),
        (YellowFin, {"beta": 0}, "`beta` must .* greater than 0 and"),
        (YellowFin, {"curvature_window": 0}, "`curvature_window` must be an integer"),
        (YellowFin, {"curvature_window": 2.0}, r".* integer.*Received: .*=2.0"),
    ],
)
def test_bad_arguments(cls, kwargs, message):
    with pytest.raises(ValueError, match=f"^Argument {message}"):
        cls(**kwargs)


def test_in_groups(data):
    model = tfvn.Sequential([keras.Input((3,)), tfvn.MeanFieldDense(2)])
    model.compile({"mean": RAdam(0.01), "scale": AdaBound(0.01)}, "mse")
    before = model.get_weights()
    history = model.fit(*data, batch_size=16, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert all(
        np.any(new != old)
        for new, old in zip(model.get_weights()[:2], before[:2], strict=True)
    )


def test_in_multi_optimizer(data):
    optimizers = keras.optimizers.OptimizerMap(YellowFin(0.1))
    optimizers[".*bias"] = RAdam(0.01)
    kernel, bias = np.split(
        weights_after(keras.optimizers.MultiOptimizer(optimizers), data), [6]
    )
    # In its first steps RAdam is SGD with momentum, and the bias starts from zero.
    assert np.all(np.abs(bias) > 1e-3)
    assert np.all(kernel != weights_after(RAdam(0.01), data)[:6])
