"""What each of several workers does in `test_workers.py`; it writes what it has seen."""

import json
import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf

import tfvn

STRATEGY = tf.distribute.MultiWorkerMirroredStrategy()
WORKER = STRATEGY.cluster_resolver.task_id
ROWS = 2000


def failure_of(function):
    """Returns the error of a function, or `None`."""
    try:
        function()
    except Exception as error:  # noqa: BLE001  any error of Keras
        return f"{type(error).__name__}: {error}"
    return None


def trained_ids(**options):
    """Returns the targets of every step of two epochs, which are the ids of examples."""
    seen = []

    def note(ids):
        seen.append(ids.ravel().astype(int).tolist())
        return np.float32(0.0)

    def loss(ids, outputs):
        noted = tf.ensure_shape(tf.numpy_function(note, [ids], tf.float32), [])
        return tf.reduce_sum(outputs, axis=-1) + 0.0 * noted

    with STRATEGY.scope():
        model = tfvn.Sequential([keras.Input((1,)), tfvn.MeanFieldDense(1)])
        model.compile("sgd", loss)
    x, ids = np.ones((41, 1)), np.arange(41.0)[:, None]
    model.fit(x, ids, batch_size=9, epochs=2, verbose=0, **options)
    return seen


def with_backup(folder):
    """Returns the ids of a run whose order of the data a backup decides."""
    backup = tfvn.callbacks.BackupAndRestore(folder)
    return trained_ids(callbacks=[backup])


def noisy(seed):
    """Returns outputs of this worker with random weights."""
    with STRATEGY.scope():
        layer = tfvn.MeanFieldDense(2, seed=seed)
        layer.build((None, 3))
        # Large scales; `set_weights` starts from the same values everywhere.
        for variable in layer.variable_groups["scale"]:
            variable.assign(tf.zeros_like(variable.value))
    outputs = STRATEGY.run(tf.function(lambda: layer(tf.ones((ROWS, 3)))))
    (outputs,) = STRATEGY.experimental_local_results(outputs)
    return {
        "outputs": outputs.numpy().tolist(),
        "mean": tf.reduce_sum(layer.posterior.mean(), 0).numpy().tolist(),
        "variance": tf.reduce_sum(layer.posterior.variance(), 0).numpy().tolist(),
    }


def predicted():
    """Returns predictions and a loss without noise, and what they should be.

    Of the last batch, a single example, one worker has nothing.
    """
    with STRATEGY.scope():
        model = tfvn.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    x = np.arange(21.0)[:, None].astype("float32")
    outputs = model.predict(x, batch_size=5, verbose=0)
    loss = model.evaluate(x, 2.0 * x, batch_size=5, verbose=0)
    expected = x * model.get_weights()[0]
    return [*outputs.ravel().tolist(), loss], [
        *expected.ravel().tolist(),
        float(np.mean(np.square(expected - 2.0 * x))),
    ]


def ensembles():
    """Returns predictions of this worker's rows and, from the first worker, of all."""
    with STRATEGY.scope():
        model = tfvn.Sequential([keras.Input((3,)), tfvn.MeanFieldDense(2)])
    x = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    seeds = np.arange(12).reshape(6, 2)

    def mean_of(rows):
        answer = tfvn.ensemble_predict(
            model, x[rows], num_samples=3, seed=seeds[rows], outputs="regression"
        )
        return answer.mean.tolist()

    # Worker 1 would hang here if a prediction needed all workers.
    everything = mean_of(slice(None)) if WORKER == 0 else None
    return mean_of(slice(WORKER, None, 2)), everything


def stock_fit():
    with STRATEGY.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(np.ones((4, 1)), np.ones((4, 1)), batch_size=2, verbose=0)


def stock_reduction():
    def number():
        return STRATEGY.reduce("MEAN", STRATEGY.run(lambda: tf.ones(())), axis=0)

    tf.function(number)()


def initial_weights():
    with STRATEGY.scope():
        model = tfvn.Sequential([keras.Input((3,)), tfvn.KTiedDense(2)])
    return [weight.tolist() for weight in model.get_weights()]


def refused_steps():
    with STRATEGY.scope():
        model = tfvn.Sequential([keras.Input((1,)), tfvn.MeanFieldDense(1)])
        model.compile("sgd", "mse", steps_per_execution=2)
    model.fit(np.ones((4, 1)), np.ones((4, 1)), verbose=0)


def main(path):
    # Different on each worker, as in two scripts that set no seed.
    keras.utils.set_random_seed(WORKER)
    result = {
        "weights": initial_weights(),
        "epochs": trained_ids(),
        "short epochs": trained_ids(steps_per_epoch=3),
        "epochs with a backup": with_backup(path.with_suffix(".backup")),
        "noise": [noisy(seed) for seed in (5, 5)],
        "predicted": predicted(),
        "ensembles": ensembles(),
        "refused": failure_of(refused_steps),
        "stock fit": failure_of(stock_fit),
        "stock reduction": failure_of(stock_reduction),
    }
    path.write_text(json.dumps(result))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
