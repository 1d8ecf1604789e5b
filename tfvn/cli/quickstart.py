"""`tfvn quickstart`: trains a variance network on digits and shows its uncertainty."""

import json
import os
import shlex
import time

import keras
import numpy as np
import tensorflow as tf

import tfvn
from tfvn.cli.shared import mistakes
from tfvn.serving import versions

NUM_SAMPLES = 20
BATCH_SIZE = 64


def build_model() -> keras.Sequential:
    """Returns a small network whose middle layer has weights of mean zero.

    It is that of the example in README.md. The batch normalization before the variance layer
    keeps some of the layer's inputs alive on images unlike digits. Without it, most are
    zero there, all draws of the weights give nearly the same output, and the network looks
    certain of noise (docs/pitfalls.md).
    """
    model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()])
    for layer in (keras.layers.Dense(128), tfvn.VarianceDense(128)):
        model.add(layer)
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


def strange_images(images: np.ndarray, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns images that a network for digits has never seen, by what was done to them.

    Args:
        images: Digits of shape `(rows, 8, 8, 1)`.
        seed: Seed of the noise.
    """
    noise = np.random.default_rng(seed).uniform(size=images.shape).astype("float32")
    turned = np.rot90(images, axes=(1, 2)).copy()
    return {"turned": turned, "inverted": 1 - images, "noise": noise}


def auroc(usual: np.ndarray, unusual: np.ndarray) -> float:
    """Returns how often a score is higher for an unusual example; NaN without any.

    Args:
        usual: Scores of usual examples.
        unusual: Scores of unusual examples.
    """
    metric = tfvn.metrics.OODAUROC()
    labels = np.repeat([0, 1], [len(usual), len(unusual)])
    metric.update_state(labels, np.concatenate([usual, unusual]))
    return float(metric.result())


def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the share of right answers."""
    return float((probabilities.argmax(axis=-1) == labels).mean())


def run(
    epochs: int = 40,
    seed: int = 0,
    export: str | os.PathLike = "saved_models/digits",
) -> dict[str, float]:
    """Trains the network, prints its accuracy and its uncertainty, and exports it.

    Args:
        epochs: Passes over the 1,437 training digits.
        seed: Determines the initial weights, the order of the data and the noise.
        export: The directory of the export, which becomes a new version.

    Returns:
        The printed figures by name.
    """
    with mistakes():
        # Checked here, so that a wrong path does not cost minutes of training.
        versions.place(export, "--export")
    keras.utils.set_random_seed(seed)
    (x_train, y_train), (x_test, y_test) = tfvn.datasets.load("digits")
    print(f"Training a variance network on {len(x_train):,} digits of 8x8 pixels:")
    print("    model.add(tfvn.VarianceDense(128)); ...; model.fit(x_train, y_train)\n")
    start = time.perf_counter()
    model = build_model()
    model.fit(
        x_train,
        y_train,
        batch_size=BATCH_SIZE,
        epochs=epochs,
        verbose=0,
        callbacks=[_Bar()],
    )
    seconds = time.perf_counter() - start

    answer = tfvn.ensemble_predict(model, x_test, NUM_SAMPLES, return_samples=True)
    is_wrong = answer.mean.argmax(axis=-1) != y_test
    usual = answer.mutual_information
    figures = {
        "accuracy_mean_weights": accuracy(tfvn.mean_predict(model, x_test), y_test),
        # The average over all draws, because their order means nothing.
        "accuracy_one_sample": accuracy(np.asarray(answer.samples), y_test[:, None]),
        "accuracy_ensemble": accuracy(answer.mean, y_test),
        "entropy_digits": float(np.mean(answer.entropy)),
        "mutual_information_digits": float(np.mean(usual)),
        "auroc_wrong": auroc(usual[~is_wrong], usual[is_wrong]),
        "num_wrong": int(is_wrong.sum()),
        "seconds": seconds,
    }
    for name, images in strange_images(x_test, seed).items():
        strange = tfvn.ensemble_predict(model, images, NUM_SAMPLES)
        figures[f"entropy_{name}"] = float(np.mean(strange.entropy))
        information = strange.mutual_information
        figures[f"mutual_information_{name}"] = float(np.mean(information))
        figures[f"auroc_{name}"] = auroc(usual, information)
    print(_report(figures, len(x_test)))
    print(_serve(model, export, x_test[:1]))
    return figures


def _serve(
    model: keras.Sequential, export: str | os.PathLike, image: np.ndarray
) -> str:
    """Exports the network, calls the export, and returns a report of the answer."""
    labels = [str(digit) for digit in range(10)]
    path = tfvn.export_ensemble(model, export, NUM_SAMPLES, labels=labels)
    base = path.parent.resolve()
    # Kept in a variable, because its signatures do not keep its weights alive.
    loaded = tf.saved_model.load(str(path))
    served = loaded.signatures["serving_default"](inputs=tf.constant(image))
    answer = {key: value[0].numpy() for key, value in served.items()}
    digit = int(np.argmax(answer["mean"]))
    request = json.dumps({"instances": image.tolist()}, separators=(",", ":"))
    return f"""
Exported for TensorFlow Serving: {path}
    the answer for one digit, after tf.saved_model.load:
    "{digit}" with probability {answer["mean"][digit]:.3f} +- {answer["std"][digit]:.3f}
    entropy {answer["entropy"]:.3f}, mutual information {answer["mutual_information"]:.3f} nats

To serve it, and to send the same digit to the server (docs/serving.md):
    docker run -p 8501:8501 -v {shlex.quote(f"{base}:/models/{base.name}")} \\
        -e MODEL_NAME={base.name} tensorflow/serving
    curl localhost:8501/v1/models/{base.name}:predict -d '{request}'"""


class _Bar(keras.callbacks.Callback):
    """One progress bar for the whole run; `fit` would print one per epoch."""

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
        "    The means of the layer's weights are zero: it stores what it learnt in",
        "    their variances.",
        f"\nUncertainty in nats: the entropy of the prediction, at most {np.log(10):.2f},",
        "and the mutual information, which is how far the draws disagree",
        f"    {'':<26}{'entropy':>9}{'mutual information':>21}",
    ]
    rows = [
        ("test digits", "digits"),
        ("turned by a quarter", "turned"),
        ("inverted", "inverted"),
        ("noise", "noise"),
    ]
    for text, key in rows:
        entropy, information = (
            figures[f"{measure}_{key}"] for measure in ("entropy", "mutual_information")
        )
        bar = "#" * round(20 * information / np.log(10))
        lines.append(f"    {text:<26}{entropy:>9.2f}{information:>21.2f}  {bar}")
    lines += ["\nHow often the mutual information of such an image is above a digit's"]
    lines += [
        f"    {text:<26}{figures[f'auroc_{key}']:>9.1%}" for text, key in rows[1:]
    ]
    wrong = f"the {figures['num_wrong']} digits it gets wrong"
    if figures["num_wrong"]:
        lines.append(f"    {wrong:<26}{figures['auroc_wrong']:>9.1%}")
    lines += [
        "    50 % would be a guess. It is no guarantee: all draws may agree on an image",
        "    that none of them knows.",
        f"\nTrained in {figures['seconds']:.0f} s.",
    ]
    return "\n".join(lines)
