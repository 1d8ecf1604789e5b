"""The optimizers, against NumPy references that are written from the papers."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn
from tfvn.training.optimizers import AdaBound, RAdam, YellowFin

STEPS = 150
CURVATURE = ([0.5, 1.5, 3.0], [[2.0, 0.7], [1.0, 4.0]])
OPTIMUM = ([1.0, -2.0, 3.0], [[-1.5, 2.5], [4.0, -3.0]])
NOISE = [
    np.random.default_rng(index).normal(size=(STEPS, *np.shape(optimum)))
    for index, optimum in enumerate(OPTIMUM)
]
ALL = {"ada_bound": AdaBound, "radam": RAdam, "yellow_fin": YellowFin}
every_optimizer = pytest.mark.parametrize("cls", ALL.values(), ids=ALL)


def past_average(values, beta):
    """The average of all values so far, the last one with weight 1, then beta, ..."""
    weights = beta ** np.arange(len(values))[::-1]
    return np.tensordot(weights, np.array(values), 1) / weights.sum()


def simulate(step_of):
    """Runs a rule from the gradients so far to a step, in float64."""
    x = np.zeros(7)
    curvature, optimum = (
        np.concatenate([np.ravel(part) for part in parts])
        for parts in (CURVATURE, OPTIMUM)
    )
    noise = np.concatenate([part.reshape(STEPS, -1) for part in NOISE], axis=1)
    gradients, path = [], []
    for t in range(STEPS):
        gradients.append(curvature * (x - optimum) + noise[t])
        x = x + step_of(gradients)
        path.append(x)
    return np.array(path)


def ada_bound_reference(rates, final, beta_1, beta_2, gamma, amsbound, eps=1e-8):
    def step(gradients):
        t = len(gradients)
        rate = rates[t - 1]
        # Averages that start at 0 are past averages times 1 - beta^t.
        m = past_average(gradients, beta_1) * (1 - beta_1**t)
        squares = np.square(gradients)
        seconds = [
            past_average(squares[:k], beta_2) * (1 - beta_2**k) for k in range(1, t + 1)
        ]
        v = np.max(seconds, axis=0) if amsbound else seconds[-1]
        adam = rate * np.sqrt(1 - beta_2**t) / (1 - beta_1**t) / (np.sqrt(v) + eps)
        end = final * rate / rates[0]
        bounds = end * (1 - 1 / (gamma * t + 1)), end * (1 + 1 / (gamma * t))
        used.append((np.mean(adam < bounds[0]), np.mean(adam > bounds[1])))
        return -np.clip(adam, *bounds) * m

    used = []
    path = simulate(step)
    return path, np.array(used)


def radam_reference(rate, beta_1, beta_2, eps=1e-8):
    limit = 2 / (1 - beta_2) - 1

    def step(gradients):
        t = len(gradients)
        m = past_average(gradients, beta_1)
        length = limit - 2 * t * beta_2**t / (1 - beta_2**t)
        if length <= 4:
            return -rate * m
        v = past_average(np.square(gradients), beta_2)
        top = (length - 4) * (length - 2) * limit
        bottom = (limit - 4) * (limit - 2) * length
        # The epsilon is added before the bias correction.
        return (
            -rate
            * np.sqrt(top / bottom)
            * m
            / (np.sqrt(v) + eps / np.sqrt(1 - beta_2**t))
        )

    return simulate(step)


def yellow_fin_reference(factor, beta, window, least_momentum=0.0):
    last = [np.zeros(7)]
    distances, lows, highs, tuned = [], [], [], []

    def step(gradients):
        squared = np.sum(np.square(gradients), axis=1)
        t = len(squared)
        lows.append(np.log(squared[-window:].min()))
        highs.append(np.log(squared[-window:].max()))
        h_min = np.exp(past_average(lows, beta))
        h_max = np.exp(past_average(highs, beta))
        mean = past_average(gradients, beta)
        variance = np.sum(past_average(np.square(gradients), beta) - mean**2)
        distances.append(
            past_average(np.sqrt(squared), beta) / past_average(squared, beta)
        )
        distance = past_average(distances, beta)
        # d/dx of x^2 D^2 + (1 - x)^4 C / h_min^2, with x the root of the momentum.
        x = 0.0
        if variance > 1e-12:
            p = (distance * h_min) ** 2 / (2 * variance)
            roots = np.roots([-1, 3, -(3 + p), 1])
            x = roots[(abs(roots.imag) < 1e-9) & (roots.real < 1)].real.item()
        condition = np.sqrt(h_max / h_min)
        bound = (condition - 1) / (condition + 1)
        root = max(x, bound, np.sqrt(least_momentum))
        rate = (1 - root) ** 2 / h_min * min(1, t / (10 * window))
        tuned.append((rate, root**2, x > bound))
        last.append(root**2 * last[-1] - factor * rate * gradients[-1])
        return last[-1]

    return simulate(step), tuned


def train(optimizer, mode, rounds=1):
    """Returns the path of an optimizer on the problem of `simulate`."""
    variables = [keras.Variable(tf.zeros(np.shape(o))) for o in OPTIMUM]
    optimizer.build(variables)

    def step(*noise):
        gradients = [
            tf.constant(c) * (x - tf.constant(o)) + n
            for c, x, o, n in zip(CURVATURE, variables, OPTIMUM, noise, strict=True)
        ]
        optimizer.apply(gradients, variables)

    if mode != "eager":
        step = tf.function(step, jit_compile=mode == "jit")
    path = []
    for noise in list(zip(*NOISE, strict=True)) * rounds:
        step(*(tf.constant(part, tf.float32) for part in noise))
        path.append(np.concatenate([np.ravel(x.numpy()) for x in variables]))
    return np.array(path)


@pytest.mark.parametrize(
    "mode", [pytest.param("eager", marks=pytest.mark.exhaustive), "graph", "jit"]
)
class TestAgainstReference:
    @pytest.mark.parametrize("amsbound", [False, True])
    def test_ada_bound(self, mode, amsbound):
        config = {"beta_1": 0.8, "beta_2": 0.99, "gamma": 0.05, "amsbound": amsbound}
        schedule = keras.optimizers.schedules.ExponentialDecay(0.15, 100, 0.5)
        rates = 0.15 * 0.5 ** (np.arange(STEPS) / 100)
        expected, clipped = ada_bound_reference(rates, 0.1, **config)
        # Both bounds are at work somewhere, and so is Adam between them.
        assert np.all(clipped.mean(axis=0) > 0.2)
        assert clipped.mean(axis=0).sum() < 0.8
        actual = train(AdaBound(schedule, 0.1, **config), mode)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.8)])
    def test_radam(self, mode, betas):
        expected = radam_reference(0.1, *betas)
        actual = train(RAdam(0.1, *betas), mode)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize(
        ("factor", "beta", "window", "momentum"),
        [(1.0, 0.999, 20, 0.0), (0.5, 0.95, 3, 0.0), (1.0, 0.99, 4, 0.6)],
    )
    def test_yellow_fin(self, mode, factor, beta, window, momentum):
        expected, tuned = yellow_fin_reference(factor, beta, window, momentum)
        optimizer = YellowFin(factor, momentum, beta, window)
        actual = train(optimizer, mode)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
        rate, last_momentum, _ = tuned[-1]
        assert float(optimizer._tuned_rate) == pytest.approx(rate, rel=1e-4)
        assert float(optimizer._tuned_momentum) == pytest.approx(
            last_momentum, rel=1e-4
        )


def test_yellow_fin_references_reach_both_cases():
    # Otherwise the cubic or the bound on the momentum would go untested.
    settings = [(1.0, 0.999, 20), (0.5, 0.95, 3), (1.0, 0.99, 4, 0.6)]
    from_cubic = [
        case for args in settings for *_, case in yellow_fin_reference(*args)[1]
    ]
    assert 0 < np.mean(from_cubic) < 1


def test_yellow_fin_cubic_over_all_magnitudes():
    from tfvn.training.optimizers.yellow_fin import _minimize

    for exponent in np.arange(-20, 11.0):
        p = 10.0**exponent
        y = float(_minimize(tf.constant(1.0), tf.constant(0.5 / p, tf.float32)))
        # The residual, relative to the slope at the root, is the error of the root.
        error = (y**3 + p * y - p) / (3 * y**2 + p)
        assert abs(error) <= 2e-6 * y
        assert 0 < y <= 1 + 1e-6


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

    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
    def test_mixed_precision(self, cls, policy, data):
        keras.config.set_dtype_policy(policy)
        weights_after(cls(0.01), data)

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
        (AdaBound, {"learning_rate": -1.0}, r"`learning_rate` must .* in \[0, inf\)"),
        (AdaBound, {"final_learning_rate": 0}, r"`final_learning_rate` .*\(0, inf\)"),
        (AdaBound, {"beta_1": 1.0}, r"`beta_1` must be a number in \[0, 1\)"),
        (AdaBound, {"beta_2": -0.1}, r"`beta_2` .* Received: beta_2=-0.1"),
        (AdaBound, {"gamma": 0.0}, r"`gamma` must be a number in \(0, inf\)"),
        (AdaBound, {"epsilon": "1"}, r"`epsilon` .* Received: epsilon='1'"),
        (AdaBound, {"base_learning_rate": -1.0}, "`base_learning_rate` must"),
        (RAdam, {"learning_rate": float("nan")}, "`learning_rate` must"),
        (RAdam, {"beta_1": True}, r"`beta_1` must .* Received: beta_1=True"),
        (RAdam, {"beta_2": 0.6}, r"`beta_2` must be a number in \(0.6, 1\)"),
        (RAdam, {"epsilon": 0}, r"`epsilon` must be a number in \(0, inf\)"),
        (YellowFin, {"learning_rate": -1.0}, "`learning_rate` must"),
        (YellowFin, {"momentum": 1}, r"`momentum` must be a number in \[0, 1\)"),
        (YellowFin, {"beta": 0}, r"`beta` must be a number in \(0, 1\)"),
        (YellowFin, {"curvature_window": 0}, "`curvature_window` must be a positive"),
        (YellowFin, {"curvature_window": 2.0}, r".* integer. Received: .*=2.0"),
    ],
)
def test_bad_arguments(cls, kwargs, message):
    with pytest.raises(ValueError, match=f"^Argument {message}"):
        cls(**kwargs)


def test_ada_bound_after_a_warm_up_from_zero():
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, 100, warmup_target=0.1, warmup_steps=5
    )
    kwargs = {"gamma": 1e4, "beta_1": 0.0}
    for base, end in ((None, 0.1), (0.1, 0.1 * float(schedule(4)) / 0.1)):
        variable = keras.Variable([0.0])
        optimizer = AdaBound(schedule, 0.1, base_learning_rate=base, **kwargs)
        for _ in range(5):
            before = variable.numpy()
            optimizer.apply([tf.ones(1)], [variable])
        # So large a gamma makes it SGD at once, with the final rate.
        np.testing.assert_allclose(before - variable.numpy(), [end], rtol=1e-3)


def test_ada_bound_scales_its_bounds_from_where_it_started():
    optimizer = AdaBound(0.1, final_learning_rate=0.2, gamma=1e4, beta_1=0.0)
    optimizer.learning_rate = 0.05
    # A copy does not take the rate of the moment for that of the start.
    copy = AdaBound.from_config(optimizer.get_config())
    for each in (optimizer, copy):
        variable = keras.Variable([0.0])
        each.apply([tf.ones(1)], [variable])
        np.testing.assert_allclose(variable, [-0.1], rtol=1e-3)


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
    weights_after(keras.optimizers.MultiOptimizer(optimizers), data)
