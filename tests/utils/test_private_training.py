"""The private names for training and data do what the library needs of them.

When a new release breaks one of these tests, mend `tfvn/utils/private_training.py`.
"""

import keras
import numpy as np
import tensorflow as tf

from tfvn.utils import private, private_training


class TestTraining:
    def compiled(self, **options):
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", run_eagerly=True, **options)
        return model

    def test_compiled_loss(self):
        model = self.compiled()
        assert private_training.compiled_loss(model) is None
        model.compile("sgd", "mse")
        x = tf.ones((2, 1))
        assert float(private_training.compiled_loss(model)(x, 3.0 * x, None)) == 4.0

    def test_mapped_loss(self):
        model = self.compiled(loss=["mse"], loss_weights=[2.0])
        mapped = private_training.mapped_loss(
            private_training.compiled_loss(model), lambda name: {"mse": "mae"}[name]
        )
        x = tf.ones((2, 1))
        assert float(mapped(x, 4.0 * x, None)) == 6.0

    def test_replace_losses(self):
        model = self.compiled(loss=["mse"])
        private_training.replace_losses(model, lambda name: {"mse": "mae"}[name])
        x = tf.ones((2, 1))
        assert float(private_training.compiled_loss(model)(x, 4.0 * x, None)) == 3.0
        assert model.get_compile_config()["loss"] == ["mse"]

    def test_get_loss(self):
        labels, outputs = tf.constant([[0], [1]]), tf.ones((2, 3))
        loss = private_training.get_loss("crossentropy", labels, outputs)
        assert loss.fn is keras.losses.sparse_categorical_crossentropy
        assert private_training.get_loss("mse", outputs, outputs).reduction

    def test_loss_arguments(self):
        loss = keras.losses.SparseCategoricalCrossentropy(axis=1)
        assert private_training.loss_arguments(loss)["axis"] == 1

    def test_compile_config(self):
        model = self.compiled()
        first = private_training.compile_config(model)
        assert first is private_training.compile_config(model) is not None
        model.compile("sgd")
        assert private_training.compile_config(model) is not first

    def test_compile_arguments(self):
        model = self.compiled()
        model.compile("sgd", loss := keras.losses.MeanSquaredError())
        assert private_training.compile_arguments(model)["loss"] is loss
        assert private_training.compile_arguments(keras.Sequential()) == {}

    def test_step_function(self):
        model, data = self.compiled(), tf.data.Dataset.range(3)
        model.compile("sgd", steps_per_execution=2)
        function = private_training.step_function(model, lambda batch: {"seen": batch})
        assert int(function(iter(data))["seen"]) == 1

    def test_set_loss_tracker(self):
        class Doubled(keras.metrics.Mean):
            def result(self):
                return 2.0 * super().result()

        model, x = self.compiled(loss="mse"), np.ones((1, 1))
        single = model.evaluate(x, x, verbose=0)
        private_training.set_loss_tracker(model, Doubled(name="loss"))
        assert model.evaluate(x, x, verbose=0) == 2.0 * single

    def test_batch_spec(self, two_replicas):
        given = []

        class Builder(keras.Sequential):
            def _maybe_symbolic_build(self, iterator=None, data_batch=None):
                given.append(private_training.batch_spec(iterator))
                super()._maybe_symbolic_build(iterator, data_batch)

        with two_replicas.scope():
            model = Builder([keras.Input((3,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        model.evaluate(np.ones((4, 3)), np.ones((4, 1)), verbose=0)
        x, y = given[0]
        assert x.shape.as_list() == [None, 3]
        assert y.shape.as_list() == [None, 1]

    def test_initial_epoch(self):
        epochs = []

        class Start(keras.callbacks.Callback):
            def on_train_begin(self, logs=None):
                private_training.set_initial_epoch(self.model, 3)

            def on_epoch_begin(self, epoch, logs=None):
                epochs.append(epoch)

        model, x = self.compiled(loss="mse"), np.ones((1, 1))
        model.fit(x, x, epochs=5, verbose=0, callbacks=[Start()])
        assert epochs == [3, 4]

    def test_optimized_variables(self):
        optimizer, variable = keras.optimizers.Adam(), keras.Variable(1.0)
        optimizer.build([variable])
        assert private_training.optimized_variables(optimizer) == [variable]

    def test_steps_of_optimizers(self):
        seen = []

        class Steps(keras.optimizers.SGD):
            # `YellowFin` overrides it.
            def _backend_update_step(self, grads, trainable_variables, learning_rate):
                pairs = list(zip(grads, trainable_variables, strict=True))
                (pair,) = private_training.sum_over_replicas(self, pairs)
                seen.append((float(pair[0]), private_training.index_of(self, pair[1])))

        variable = keras.Variable(1.0)
        Steps().apply([tf.constant(2.0)], [variable])
        assert seen == [(2.0, 0)]

    def test_checkpoint_counts(self, tmp_path):
        path = str(tmp_path / "model.keras")
        checkpoint = keras.callbacks.ModelCheckpoint(path, save_freq=9)
        model, x = self.compiled(loss="mse"), np.ones((2, 1))
        before = [
            getattr(checkpoint, name) for name in private_training.CHECKPOINT_COUNTS
        ]
        model.fit(x, x, batch_size=1, verbose=0, callbacks=[checkpoint])
        after = [
            getattr(checkpoint, name) for name in private_training.CHECKPOINT_COUNTS
        ]
        assert (before, after) == ([0, None], [2, 1])

    def test_metrics_in_order(self):
        # `tfvn.Model` overrides it.
        class Model(keras.Sequential):
            def _flatten_metrics_in_order(self, logs):
                return "ours"

        model, x = Model([keras.Input((1,)), keras.layers.Dense(1)]), np.ones((1, 1))
        model.compile("sgd", "mse", run_eagerly=True)
        assert model.evaluate(x, x, verbose=0) == "ours"


class TestWorkers:
    def test_tensorflow_has_started(self):
        tf.zeros(1).numpy()
        assert private_training.tensorflow_has_started()

    def test_configure_coordination(self, monkeypatch):
        context = private_training.context.context()
        monkeypatch.setattr(context, "_coordination_service_config", None)
        private_training.configure_coordination({"chief": 1, "worker": 2}, 20.5, 10)
        config = context.coordination_service
        assert config.service_type == "standalone"
        # As TensorFlow itself writes it.
        assert config.service_leader == "/job:chief/replica:0/task:0"
        assert config.enable_health_check
        assert config.cluster_register_with_barrier
        assert config.cluster_register_timeout_in_ms == 20500
        assert config.heartbeat_timeout_in_ms == 10000
        jobs = [(job.name, job.num_tasks) for job in config.coordinated_job_list]
        assert jobs == [("chief", 1), ("worker", 2)]


class TestData:
    def test_batches_of(self):
        seen = []

        class Batches(keras.utils.PyDataset):
            def __len__(self):
                return 3

            def __getitem__(self, index):
                return np.array([index])

            def on_epoch_end(self):
                seen.append("end")

        batches = list(private_training.batches_of(Batches(workers=2)))
        assert [int(keras.tree.flatten(batch)[0][0]) for batch in batches] == [0, 1, 2]
        assert seen

    def test_is_shuffled_at_random(self):
        tf.random.set_seed(None)  # as in a script that sets none
        data = tf.data.Dataset.range(3)
        assert not private_training.is_shuffled_at_random(data)
        assert not private_training.is_shuffled_at_random(data.shuffle(2, seed=0))
        assert private_training.is_shuffled_at_random(data.shuffle(2).batch(2).map(abs))

    def test_inputs_of_dataset(self):
        data = tf.data.Dataset.range(3)
        assert private_training.inputs_of_dataset(data.batch(2)) == [data]
        assert private_training.inputs_of_dataset(data) == []

    def test_loops(self):
        found = []

        @tf.function(autograph=False)
        def count():
            found.append(private_training.loops())

            def body(step, seen):
                (loop,) = private_training.loops()
                return step - 2, seen.write(seen.size(), private_training.step_of(loop))

            seen = tf.TensorArray(tf.int32, 0, dynamic_size=True)
            _, seen = tf.while_loop(lambda step, _: step > 4, body, (10, seen))
            return seen.stack()

        assert count().numpy().tolist() == [0, 1, 2]
        assert found == [[]]


def test_custom_objects_too():
    def inner():
        raise AssertionError

    def outer():
        raise AssertionError

    with (
        keras.saving.custom_object_scope({"outer": outer}),
        private.custom_objects_too({"inner": inner}),
    ):
        assert keras.saving.get_registered_object("inner") is inner
        assert keras.saving.get_registered_object("outer") is outer
    assert keras.saving.get_registered_object("inner") is None


def test_lambda_arguments():
    def shape_of(shape):
        return shape

    layer = keras.layers.Lambda(
        abs, output_shape=shape_of, mask=shape_of, arguments={"a": 1}
    )
    assert private.lambda_arguments(layer) == {
        "function": abs,
        "output_shape": shape_of,
        "mask": shape_of,
        "arguments": {"a": 1},
    }
