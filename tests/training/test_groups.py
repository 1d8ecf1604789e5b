"""Means and scales with optimizers of their own."""

import keras
import numpy as np
import pytest

import tfvn
from tfvn.training.group_optimizer import GroupOptimizer

MODES = {
    "eager": {"run_eagerly": True},
    "graph": {"jit_compile": False},
    "jit": {"jit_compile": True},
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 4)).astype("float32")
    return x, rng.normal(size=(32, 2)).astype("float32")


def make_model():
    return tfvn.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(5),
            tfvn.KTiedDense(6, bias_posterior="mean_field"),
            tfvn.GaussianDropoutDense(4),
            tfvn.VarianceDense(3),
            tfvn.MeanFieldDense(2),
        ]
    )


def values(model):
    groups = tfvn.variable_groups(model)
    return {
        name: [variable.numpy() for variable in group] for name, group in groups.items()
    }


def changed(before, after):
    """The groups of which every variable changed, and those of which none did."""
    same = {
        name: [
            np.array_equal(a, b) for a, b in zip(before[name], after[name], strict=True)
        ]
        for name in before
    }
    return (
        {name for name, equal in same.items() if not any(equal)},
        {name for name, equal in same.items() if all(equal)},
    )


class TestGroups:
    def test_are_those_of_the_layers(self):
        groups = tfvn.variable_groups(make_model())
        names = {g: sorted(v.name for v in members) for g, members in groups.items()}
        assert names == {
            "mean": ["bias_mean", *["kernel_mean"] * 3],
            "scale": [
                "bias_log_variance",
                "kernel_log_alpha",
                "kernel_log_left_scale",
                "kernel_log_right_scale",
                "kernel_log_variance",
                "kernel_scale",
            ],
            "default": ["bias", "bias", "bias", "bias", "kernel"],
        }

    def test_hold_every_trainable_variable_once(self):
        model = make_model()
        members = [v for group in tfvn.variable_groups(model).values() for v in group]
        assert {id(v) for v in members} == {id(v) for v in model.trainable_variables}
        assert len(members) == len(model.trainable_variables)

    def test_of_a_stock_model_and_of_nested_ones(self):
        inner = keras.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(3)])
        outer = keras.Sequential([keras.Input((4,)), inner, keras.layers.Dense(2)])
        sizes = {
            name: len(group) for name, group in tfvn.variable_groups(outer).items()
        }
        assert sizes == {"mean": 1, "scale": 1, "default": 3}

    def test_of_frozen_layers_are_empty(self):
        model = make_model()
        model.layers[-1].trainable = False
        groups = tfvn.variable_groups(model)
        frozen = {id(v) for v in model.layers[-1].variables}
        assert not [v for group in groups.values() for v in group if id(v) in frozen]


class TestOptimizers:
    @pytest.mark.parametrize(
        ("idle", "mode"),
        [
            ("mean", "eager"),
            ("scale", "graph"),
            # XLA takes seconds, also below, where groups take turns.
            pytest.param("default", "jit", marks=pytest.mark.exhaustive),
        ],
    )
    def test_rate_of_zero_leaves_a_group_alone(self, data, mode, idle):
        model = make_model()
        optimizers = {
            name: keras.optimizers.Adam(0.01) for name in ("mean", "scale", "default")
        }
        optimizers[idle] = keras.optimizers.Adam(0.0)
        model.compile(optimizers, "mse", **MODES[mode])
        before = values(model)
        model.fit(*data, epochs=3, batch_size=16, verbose=0)
        moved, still = changed(before, values(model))
        assert still == {idle}
        assert moved == {"mean", "scale", "default"} - {idle}

    def test_each_group_follows_its_own(self, data):
        """Against two stock optimizers, applied by hand."""
        x, y = data
        model = tfvn.Sequential(
            [keras.Input((4,)), tfvn.MeanFieldDense(2, estimator="mean")]
        )
        rates = {"mean": 0.1, "scale": 0.3, "default": 0.7}
        model.compile(
            {name: keras.optimizers.SGD(rate) for name, rate in rates.items()},
            "mse",
            train_size=10,
        )
        layer = model.layers[0]
        start = values(model)
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2) + layer.kl_divergence() / 10
        groups = tfvn.variable_groups(model)
        gradients = tape.gradient(loss, [group[0] for group in groups.values()])
        model.train_on_batch(x, y)
        for (name, before), gradient in zip(start.items(), gradients, strict=True):
            expected = before[0] - rates[name] * gradient.numpy()
            np.testing.assert_allclose(
                groups[name][0].numpy(), expected, rtol=1e-5, atol=1e-6
            )

    def test_rates_are_logged(self, data):
        model = make_model()
        model.compile(
            {"mean": keras.optimizers.Adam(0.02), "scale": keras.optimizers.Adam(0.03)},
            "mse",
        )
        history = model.fit(*data, verbose=0).history
        assert history["learning_rate_mean"] == pytest.approx([0.02])
        assert history["learning_rate_scale"] == pytest.approx([0.03])
        assert history["learning_rate_default"] == pytest.approx([0.001])

    def test_schedules_of_the_rate(self, data):
        rate = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
        model = make_model()
        model.compile({"scale": keras.optimizers.SGD(rate)}, "mse")
        history = model.fit(*data, batch_size=16, epochs=2, verbose=0).history
        assert history["learning_rate_scale"] == pytest.approx([0.05, 0.025], rel=1e-5)

    def test_one_optimizer_for_two_groups_is_copied(self):
        adam = keras.optimizers.Adam(0.01)
        optimizer = GroupOptimizer({"mean": adam, "scale": adam})
        assert optimizer.groups["mean"] is not optimizer.groups["scale"]
        assert optimizer.learning_rates()["scale"] == pytest.approx(0.01)

    @pytest.mark.parametrize("switched", [False, True])
    def test_loss_scale_factor(self, data, switched):
        """A factor as of half precision changes no update, and is saved."""
        updated = []
        for factor in (None, 1024.0):
            optimizer = GroupOptimizer({"mean": "sgd"}, loss_scale_factor=factor)
            if switched:
                optimizer.add_switches()
            assert float(optimizer.scale_loss(1.0)) == (factor or 1.0)
            copy = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
            assert float(copy.scale_loss(1.0)) == (factor or 1.0)
            keras.utils.set_random_seed(1)
            model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(2)])
            model.compile(optimizer, "mse", run_eagerly=True)
            model.fit(*data, verbose=0)
            updated.append([v.numpy() for v in model.trainable_variables])
        for one, other in zip(*updated, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)

    def test_gradients_without_variables(self):
        """They belong to the variables in the order in which these were given."""
        for is_switched in (False, True):
            model = make_model()
            optimizer = GroupOptimizer(
                {
                    "mean": keras.optimizers.SGD(1.0),
                    "default": keras.optimizers.SGD(2.0),
                }
            )
            if is_switched:
                optimizer.add_switches()
            variables = model.trainable_variables
            optimizer.build(variables)
            before = [v.numpy() for v in variables]
            gradients = [np.full(v.shape, 0.5 * i) for i, v in enumerate(variables)]
            optimizer.apply([keras.ops.cast(g, "float32") for g in gradients])
            means = {id(v) for v in tfvn.variable_groups(model)["mean"]}
            for start, gradient, variable in zip(
                before, gradients, variables, strict=True
            ):
                rate = 1.0 if id(variable) in means else 2.0
                np.testing.assert_allclose(
                    variable.numpy(), start - rate * gradient, rtol=1e-5, atol=1e-5
                )

    def test_unknown_group(self):
        with pytest.raises(
            ValueError, match=r"groups of variables.*Received:.*'sigma'"
        ):
            make_model().compile({"mean": "adam", "sigma": "adam"}, "mse")

    def test_in_a_stock_model(self, data):
        model = keras.Sequential(
            [keras.Input((4,)), tfvn.MeanFieldDense(2, kl_weight=0.1)]
        )
        optimizer = GroupOptimizer({"mean": keras.optimizers.SGD(0.0)})
        model.compile(optimizer, "mse")
        before = values(model)
        model.fit(*data, verbose=0)
        assert changed(before, values(model)) == ({"scale", "default"}, {"mean"})

    def test_two_replicas(self, data, two_replicas):
        with two_replicas.scope():
            model = make_model()
            model.compile({"mean": "adam", "scale": keras.optimizers.Adam(0.0)}, "mse")
        before = values(model)
        model.fit(*data, batch_size=16, epochs=2, verbose=0)
        moved, still = changed(before, values(model))
        assert still == {"scale"}
        assert moved == {"mean", "default"}


class TestAlternateGroups:
    @pytest.mark.parametrize("mode", ["eager", "jit"])
    def test_trains_one_at_a_time(self, data, mode):
        model = make_model()
        model.compile({"mean": "adam", "scale": "adam"}, "mse", **MODES[mode])
        model.optimizer.build(model.trainable_variables)
        record, slots = [], []

        class Watch(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                self.before = values(self.model)
                self.slots = self.read()

            def read(self):
                return {
                    name: [v.numpy() for v in optimizer.variables]
                    for name, optimizer in self.model.optimizer.groups.items()
                }

            def on_epoch_end(self, epoch, logs=None):
                record.append(changed(self.before, values(self.model)))
                slots.append(changed(self.slots, self.read())[1])

        turns = tfvn.callbacks.AlternateGroups(epochs={"mean": 2, "scale": 1})
        model.fit(*data, epochs=6, batch_size=16, callbacks=[turns, Watch()], verbose=0)
        expected = ["mean", "mean", "scale"] * 2
        for (moved, still), idle, turn in zip(record, slots, expected, strict=True):
            rest = {"mean": "scale", "scale": "mean"}[turn]
            assert moved == {turn, "default"}
            assert still == {rest}
            # Its optimizer has not moved either: slots and step count.
            assert idle == {rest}
        # Each optimizer counts its own steps, and the one around them all.
        counts = {
            name: int(optimizer.iterations.numpy())
            for name, optimizer in model.optimizer.groups.items()
        }
        assert counts == {"mean": 8, "scale": 4, "default": 12}
        assert int(model.optimizer.iterations.numpy()) == 12

    def test_does_not_retrace(self, data):
        model = make_model()
        model.compile({"mean": "adam", "scale": "adam"}, "mse")
        traces = []
        train_step = model.train_step
        model.train_step = lambda batch: traces.append(1) or train_step(batch)
        turns = tfvn.callbacks.AlternateGroups(epochs=1)
        model.fit(*data, epochs=1, callbacks=[turns], verbose=0)
        first = len(traces)
        model.fit(*data, epochs=4, callbacks=[turns], verbose=0)
        assert len(traces) == first <= 2

    def test_all_are_trained_afterwards(self, data):
        model = make_model()
        model.compile({"mean": "adam", "scale": "adam"}, "mse")
        model.fit(*data, callbacks=[tfvn.callbacks.AlternateGroups()], verbose=0)
        before = values(model)
        model.fit(*data, verbose=0)
        assert changed(before, values(model))[0] == {"mean", "scale", "default"}

    def test_needs_an_optimizer_per_group(self, data):
        model = make_model()
        model.compile("adam", "mse")
        with pytest.raises(
            ValueError, match=r"for each of the groups.*Received: optimizer=Adam"
        ):
            model.fit(*data, callbacks=[tfvn.callbacks.AlternateGroups()], verbose=0)

    @pytest.mark.parametrize("epochs", [0, {"mean": 1}, {"mean": 1, "scale": -1}])
    def test_bad_lengths(self, epochs):
        with pytest.raises(ValueError, match=r"`epochs.*` must be.*Received: epochs"):
            tfvn.callbacks.AlternateGroups(epochs=epochs)


def test_averages_of_a_group_that_had_no_turn():
    def adam():
        return keras.optimizers.Adam(1e-3, use_ema=True)

    layer = tfvn.MeanFieldDense(2)
    model = tfvn.Sequential([keras.Input((4,)), layer])
    model.compile({"mean": adam(), "scale": adam()}, "mse")
    before = [v.numpy() for v in layer.variable_groups["scale"]]
    turns = tfvn.callbacks.AlternateGroups()
    model.fit(np.ones((8, 4)), np.ones((8, 2)), callbacks=[turns], verbose=0)
    for one, other in zip(before, layer.variable_groups["scale"], strict=True):
        np.testing.assert_array_equal(one, other.numpy())
