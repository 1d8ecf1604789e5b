"""Draws every plot of `tfvn.plots` from generated data, for docs/plots.md.

    python tools/gallery.py                             # writes docs/plots/*.png
    python tools/gallery.py --output DIR --style dark_background --only coverage

The data are made up so that each figure shows what the plot is for; no network is trained.
"""

import argparse
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from _tfvn_command import quiet_tensorflow

with quiet_tensorflow():
    import tfvn
    from tfvn import plots

ROOT = Path(__file__).parent.parent

# Enough for a page, and small enough that all figures together have less than 600 kB.
DPI = 70


def _classifier(
    num_examples: int, strength: float, temperature: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels that are drawn from softmax outputs, and outputs of a temperature."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(num_examples, 10)) * 2.0
    logits[np.arange(num_examples), rng.integers(10, size=num_examples)] += strength
    truth, shown = _softmax(logits), _softmax(logits / temperature)
    labels = [rng.choice(10, p=row) for row in truth]
    return np.array(labels), shown


def _softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    return -np.sum(probabilities * np.log(probabilities + 1e-30), axis=1)


def reliability_diagram() -> Any:
    """Returns the diagrams of a calibrated and an overconfident classifier."""
    ax = plots.reliability_diagram(*_classifier(5_000, 9.0), name="calibrated net")
    labels, probabilities = _classifier(5_000, 9.0, 0.45)
    return plots.reliability_diagram(labels, probabilities, ax=ax, name="overconfident")


def entropy_histograms() -> Any:
    """Returns entropies of usual and of unusual examples."""
    names = {"digits": 14.0, "clothes": 3.0}
    entropies = {n: _entropy(_classifier(10_000, s)[1]) for n, s in names.items()}
    return plots.entropy_histograms(entropies)


def risk_coverage() -> Any:
    """Returns the curves of two scores of the same classifier."""
    labels, probabilities = _classifier(3_000, 6.0)
    noise = np.random.default_rng(1).normal(size=len(labels)) * 0.3
    scores = _entropy(probabilities)
    ax = plots.risk_coverage(labels, probabilities, scores, name="entropy")
    return plots.risk_coverage(labels, probabilities, scores + noise, ax, "noisy score")


def one_draw_accuracies() -> Any:
    """Returns the accuracies of the draws of a variance network."""
    accuracies = np.random.default_rng(0).normal(0.981, 0.0012, 200)
    return plots.one_draw_accuracies(accuracies, ensemble=0.9925, mean_weights=0.098)


def _regression() -> tuple[np.ndarray, Any, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3, 3, 150))
    mean, noise = np.sin(2 * x), 0.1 + 0.25 * (x + 3) / 6
    shifts = (
        rng.normal(size=(1, 12)) * 0.15 + rng.normal(size=(1, 12)) * 0.15 * x[:, None]
    )
    outputs = np.stack(
        [mean[:, None] + shifts, np.log(np.expm1(noise))[:, None] + 0 * shifts], axis=-1
    )
    answer = tfvn.PredictiveDistribution.of_draws("normal", outputs)
    return x, answer, mean + noise * rng.normal(size=x.shape)


def regression_band() -> Any:
    """Returns a sine with noise that grows."""
    return plots.regression_band(*_regression())


def coverage() -> Any:
    """Returns the coverage of intervals that are too wide."""
    _, answer, y = _regression()
    return plots.coverage(answer, y, num_levels=9)


def curves() -> Any:
    """Returns the lower bounds of three runs."""
    epochs = np.arange(1, 31)
    rates = {"zero mean": 4.0, "one alpha": 7.0, "alpha per weight": 12.0}
    runs = {name: -800 * np.exp(-epochs / rate) for name, rate in rates.items()}
    return plots.curves(runs, ylabel="ELBO, nats")


def kl_of_priors() -> Any:
    """Returns the KL to the four priors with an alias."""
    return plots.kl_of_priors()


def phase_transition() -> Any:
    """Returns logs in which the means lose their information."""
    epochs = np.arange(40)
    fall = 1.0 / (1.0 + np.exp((epochs - 26) / 1.5))
    rise = 1.0 / (1.0 + np.exp(-(epochs - 14) / 1.5))
    learned = 1.0 - 0.5 * np.exp(-epochs / 2.0)
    noise = np.random.default_rng(0).normal(size=(4, 40)) * 0.004
    logs = {
        "accuracy_mean": 0.1 + 0.87 * learned * fall,
        "accuracy_one_sample": 0.1 + 0.84 * learned,
        "accuracy_ensemble": 0.1 + 0.88 * learned,
        "accuracy_zero_mean": 0.1 + 0.88 * learned * rise,
    }
    noisy = {
        name: np.clip(value + noise[i], 0, 1)
        for i, (name, value) in enumerate(logs.items())
    }
    noisy["log_alpha_noisy"] = -3.0 + 14.0 / (1.0 + np.exp(-(epochs - 18) / 6.0))
    return plots.phase_transition(noisy)


def pruning_curve() -> Any:
    """Returns the accuracy of two networks that are pruned in different ways."""
    fractions = np.array([0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995])
    curves = {
        name: types.SimpleNamespace(
            fractions=fractions, accuracy=0.992 - drop * np.exp((fractions - 1) * rate)
        )
        for name, drop, rate in (("by scale", 0.3, 90.0), ("at random", 0.5, 5.0))
    }
    return plots.pruning_curve(curves)


def energy_levels() -> Any:
    """Returns a neuron with three levels."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 60)
    levels = np.array([1.0, 1.1, 2.4, 6.0])[labels]
    return plots.energy_levels((levels * rng.lognormal(0, 0.15, 240))[:, None], labels)


def toy_scatter() -> Any:
    """Returns four classes, and activations that encode them by their variances."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 80)
    centres = np.array([(3, 3), (3, 10), (10, 3), (10, 10)])
    scales = np.array([(0.25, 0.25), (0.25, 4.0), (4.0, 0.25), (4.0, 4.0)])
    x = centres[labels] + rng.normal(size=(320, 2))
    return plots.toy_scatter(x, labels, scales[labels] * rng.normal(size=(320, 2)))[0]


def noise_variances() -> Any:
    """Returns the five noises with an alias."""
    return plots.noise_variances()[0]


def explained_variance() -> Any:
    """Returns shares of scales of rank two, and of means of full rank."""
    rng = np.random.default_rng(0)
    scales = np.outer(rng.uniform(0.5, 1.5, 64), rng.uniform(0.5, 1.5, 32))
    scales += np.outer(rng.exponential(size=64), rng.exponential(size=32))
    matrices = {"scale": scales, "mean": rng.normal(size=(64, 32))}
    values = {n: np.linalg.svd(m, compute_uv=False) ** 2 for n, m in matrices.items()}
    return plots.explained_variance({n: v / v.sum() for n, v in values.items()})


def scale_heat_map() -> Any:
    """Returns scales of rank two with some noise."""
    rng = np.random.default_rng(0)
    rows, columns = np.sort(rng.uniform(size=(2, 40))), rng.uniform(size=(2, 24))
    return plots.scale_heat_map(
        0.02 + 0.1 * rows.T @ columns + rng.uniform(0, 0.01, (40, 24))
    )


def gradient_snr() -> Any:
    """Returns the ratios of two runs."""
    rng, epochs = np.random.default_rng(0), np.arange(1, 31)
    runs = {}
    for name, level in (("k-tied, rank 2", 4.0), ("mean field", 0.15)):
        ratio = level * epochs**-0.4 * rng.lognormal(0, 0.15, 30)
        logs = {"snr_median_": ratio, "snr_": 1e5 * ratio, "snr_paper_": 10 * ratio}
        runs[name] = {f"{prefix}dense": values for prefix, values in logs.items()}
    return plots.gradient_snr(runs)


def training_curves() -> Any:
    """Returns logs of a run that overfits a little."""
    epochs = np.arange(1, 31)
    nll, kl = 0.08 + 1.2 * np.exp(-epochs / 5), 900 * np.exp(-epochs / 12) + 260
    val_nll = 0.17 + 1.1 * np.exp(-epochs / 5) + 0.001 * epochs
    logs = {"nll": nll, "kl": kl, "elbo": -(nll + kl / 3000)}
    return plots.training_curves(
        {**logs, "val_nll": val_nll, "val_elbo": -(val_nll + kl / 3000)}
    )


FIGURES: dict[str, Callable[[], Any]] = {
    name: globals()[name] for name in plots.__all__
}


def main() -> None:
    """Draws and saves the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "plots")
    parser.add_argument("--style", default="default", help="a style of matplotlib")
    parser.add_argument("--only", choices=[*FIGURES], nargs="*", default=[*FIGURES])
    options = parser.parse_args()

    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    plt.style.use(options.style)
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        figure = FIGURES[name]().figure
        figure.savefig(options.output / f"{name}.png", dpi=DPI)
        plt.close(figure)


if __name__ == "__main__":
    main()
