"""The quickstart: a variance network on digits, and what its uncertainty is worth."""

import time

import keras
import numpy as np

import tfvn

NUM_SAMPLES = 20


def build_model() -> keras.Sequential:
    """Returns a small network whose middle layer has weights of mean zero."""
    model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()])
    model.add(keras.layers.Dense(128, activation="relu"))
    model.add(tfvn.VarianceDense(128))
    model.add(keras.layers.BatchNormalization())
    model.add(keras.layers.Activation("relu"))
    model.add(keras.layers.Dense(10, activation="softmax"))
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        jit_compile=False,
    )
    return model


def with_mean_weights(model: keras.Sequential) -> keras.Sequential:
    """Returns a copy of `model` that uses the means of its weights, without noise."""

    def clone(layer: keras.Layer) -> keras.Layer:
        config = layer.get_config()
        if isinstance(layer, tfvn.layers.StochasticLayer):
            config["estimator"] = "mean"
        return type(layer).from_config(config)

    copy = keras.models.clone_model(model, clone_function=clone)
    copy.set_weights(model.get_weights())
    return copy


def predict_samples(
    model: keras.Sequential, images: np.ndarray, num_samples: int = NUM_SAMPLES
) -> np.ndarray:
    """Returns class probabilities of shape (num_samples, len(images), 10)."""
    draws = [model.predict(images, verbose=0) for _ in range(num_samples)]
    return np.stack(draws)


def predictive_entropy(samples: np.ndarray) -> float:
    """Returns the entropy of the averaged predictions, in nats, over all images."""
    mean = samples.mean(axis=0)
    return float(-(mean * np.log(mean + 1e-12)).sum(axis=-1).mean())


def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the share of right answers."""
    return float((probabilities.argmax(axis=-1) == labels).mean())


def run(epochs: int = 40, seed: int = 0) -> dict[str, float]:
    """Trains the network, and prints what it can do and when it is unsure.

    Args:
        epochs: Passes over the 1,437 training digits.
        seed: Determines the initial weights, the order of the data and the noise.

    Returns:
        The printed figures by name.
    """
    keras.utils.set_random_seed(seed)
    (x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")
    print(f"Training a variance network on {len(x_train):,} digits of 8x8 pixels:")
    print("    model.add(tfvn.VarianceDense(128)); model.fit(...)\n")
    start = time.perf_counter()
    model = build_model()
    model.fit(
        x_train, y_train, batch_size=64, epochs=epochs, verbose=0, callbacks=[_Bar()]
    )
    seconds = time.perf_counter() - start

    samples = predict_samples(model, x_test)
    mean_weights = with_mean_weights(model).predict(x_test, verbose=0)
    noise = np.random.default_rng(seed).uniform(size=x_test.shape).astype("float32")
    figures = {
        "accuracy_mean_weights": accuracy(mean_weights, y_test),
        # On average: which of the draws comes first says nothing.
        "accuracy_one_sample": sum(accuracy(one, y_test) for one in samples)
        / len(samples),
        "accuracy_ensemble": accuracy(samples.mean(axis=0), y_test),
        "entropy_digits": predictive_entropy(samples),
        "entropy_inverted": predictive_entropy(predict_samples(model, 1 - x_test)),
        "entropy_noise": predictive_entropy(predict_samples(model, noise)),
        "seconds": seconds,
    }
    print(_report(figures, len(x_test)))
    return figures


class _Bar(keras.callbacks.Callback):
    """One progress bar for the whole run, where `fit` would print one per epoch."""

    def on_train_begin(self, logs: dict | None = None) -> None:
        self.bar = keras.utils.Progbar(
            self.params["epochs"],
            stateful_metrics=["loss", "accuracy"],
            unit_name="epoch",
        )

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        logs = logs or {}
        values = [(name, logs[name]) for name in ("loss", "accuracy")]
        self.bar.update(epoch + 1, values, finalize=epoch + 1 == self.params["epochs"])


def _report(figures: dict[str, float], num_images: int) -> str:
    rows = [
        ("mean weights (all zero here)", "accuracy_mean_weights"),
        ("one sample, on average", "accuracy_one_sample"),
        (f"{NUM_SAMPLES} samples, averaged", "accuracy_ensemble"),
    ]
    lines = [f"\nAccuracy on {num_images} test digits"]
    lines += [f"    {text:<30}{figures[key]:>7.1%}" for text, key in rows]
    lines += [
        "    The layer knows nothing by its means: it stores what it learnt in the",
        "    variances of its weights.",
        f"\nHow unsure it is: entropy of the prediction, at most {np.log(10):.2f} nats",
    ]
    rows = [
        ("test digits", "entropy_digits"),
        ("inverted digits", "entropy_inverted"),
        ("noise", "entropy_noise"),
    ]
    for text, key in rows:
        bar = "#" * round(20 * figures[key] / np.log(10))
        lines.append(f"    {text:<30}{figures[key]:>7.2f}  {bar}")
    lines.append(f"\nTrained in {figures['seconds']:.0f} s.")
    return "\n".join(lines)
