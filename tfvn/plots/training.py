"""Plots of what `fit` and the callbacks log, and of what pruning costs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfvn.plots import style
from tfvn.plots.inputs import described, epochs_of, logs_of, numbers, runs_of
from tfvn.plots.room import place_legend, strip
from tfvn.utils.validation import check_choice

Axes = Any

# The share of the height that the KL, or log alpha, takes below the other curves.
_STRIP = 0.32

_ACCURACIES = {
    "accuracy_mean": "mean weights",
    "accuracy_one_sample": "one sample",
    "accuracy_ensemble": "ensemble",
    "accuracy_zero_mean": "ensemble, means set to zero",
}

# What `tfvn.callbacks.GradientSNR` logs: the prefix of the name, and the formula.
_RATIOS = {
    "median": ("snr_median_", "median of E[g]² / Var[g]"),
    "pooled": ("snr_pooled_", "ΣE[g]² / ΣVar[g]"),
    "mean": ("snr_", "mean of E[g]² / Var[g]"),
    "paper": ("snr_paper_", "mean of E[g²] / Var[g²]"),
}


def training_curves(history: Any, ax: Axes = None) -> Axes:
    """Plots the negative log-likelihood, the negative ELBO and the KL over the epochs.

    The upper part shows `nll` and `-elbo`, both in nats per example: their distance is the
    KL divided by the number of training examples. The strip below shows the KL in nats,
    whose size differs from theirs.

    Args:
        history: What `fit` of a `tfvn.Model` returns, or its logs, a dictionary. Logs that
            begin with `val_` are drawn too.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes` of the upper part. `ax.child_axes[0]` is the strip, if there is a KL.

    Example:

    >>> import tfvn
    >>> logs = {"nll": [2.0, 1.0], "kl": [300.0, 200.0], "elbo": [-2.3, -1.2]}
    >>> ax = tfvn.plots.training_curves(logs)
    >>> ax.lines[1].get_ydata().tolist()
    [2.3, 1.2]

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), figure 6
    """
    logs = logs_of("history", history)
    curves = {
        label: sign * logs[key]
        for key, label, sign in (
            ("nll", "NLL", 1.0),
            ("elbo", "negative ELBO", -1.0),
            ("val_nll", "NLL, validation", 1.0),
            ("val_elbo", "negative ELBO, validation", -1.0),
        )
        if key in logs
    }
    _check_found(
        "history", curves, "`nll` or `elbo`, as a `tfvn.Model` logs them", logs
    )
    divergences = {
        label: logs[key]
        for key, label in (("kl", "KL"), ("val_kl", "KL, validation"))
        if key in logs
    }
    # The KL of validation is that of the same weights, and is drawn only where it differs.
    if len(divergences) == 2 and np.array_equal(logs["kl"], logs["val_kl"]):
        del divergences["KL, validation"]
    with style.drawing(ax, figsize=(6.0, 4.4)) as ax:
        _draw_curves(ax, curves)
        ax.set(xlabel="epoch", ylabel="nats per example")
        below = _STRIP if divergences else 0.0
        if divergences:
            child = strip(ax, below, "KL, nats", *_range(curves))
            _draw_curves(child, divergences, len(curves))
        place_legend(ax, below=below)
    return ax


def phase_transition(history: Any, ax: Axes = None) -> Axes:
    """Plots the accuracies and the log alphas that `tfvn.callbacks.PhaseTransition` logs.

    While alpha grows, the information moves from the means of the weights to their
    variances: the accuracy with mean weights falls to chance, and that of the ensemble whose
    means are set to zero rises to that of the full ensemble. The strip below shows log alpha.

    Args:
        history: What `fit` returns when the callback was among its `callbacks`, or its
            logs, a dictionary.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes` of the accuracies. `ax.child_axes[0]` is the strip, if a log alpha was
        logged.

    Example:

    >>> import tfvn
    >>> logs = {"accuracy_mean": [0.9, 0.1], "accuracy_ensemble": [0.9, 0.95]}
    >>> ax = tfvn.plots.phase_transition({**logs, "log_alpha_noisy": [-3.0, 5.0]})
    >>> ax.child_axes[0].get_ylabel()
    'log alpha'

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), figure 3
    """
    logs = logs_of("history", history)
    curves = {text: logs[key] for key, text in _ACCURACIES.items() if key in logs}
    what = "`accuracy_mean` or other logs of `tfvn.callbacks.PhaseTransition`"
    _check_found("history", curves, what, logs)
    prefix = "log_alpha_"
    alphas = {
        key.removeprefix(prefix): values
        for key, values in logs.items()
        if key.startswith(prefix)
    }
    with style.drawing(ax, figsize=(6.0, 4.4)) as ax:
        _draw_curves(ax, curves)
        ax.set(xlabel="epoch", ylabel="accuracy")
        handles, below = list(ax.lines), 0.0
        if alphas:
            below = _STRIP
            child = strip(ax, below, "log alpha", 0.0, 1.0)
            names = {f"log alpha, {name}": values for name, values in alphas.items()}
            lines = _draw_curves(child, names, len(curves))
            handles += lines if len(lines) > 1 else []
        else:
            ax.set_ylim(0.0, 1.0)
        place_legend(ax, handles, below)
    return ax


def gradient_snr(runs: Any, ratio: str = "median", ax: Axes = None) -> Axes:
    """Plots the signal-to-noise ratios that `tfvn.callbacks.GradientSNR` logs.

    Args:
        runs: What `fit` returns when the callback was among its `callbacks`, or its logs, a
            dictionary; for several runs, a dictionary from their names to these.
        ratio: Which of them is shown: `"median"` or `"pooled"`, which compare layers and
            runs; `"mean"`, which a few inert weights dominate; or `"paper"`, the ratio
            `E[g^2] / Var[g^2]` of the k-tied paper. The callback explains them.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes`. Epochs in which no gradient varied are gaps in the curves.

    Example:

    >>> import tfvn
    >>> first = {"snr_last": [2.0, 1.0], "snr_paper_last": [9.0, 8.0]}
    >>> second = {"snr_last": [4.0, 3.0], "snr_paper_last": [7.0, 6.0]}
    >>> runs = {"k = 2": first, "mean field": second}
    >>> ax = tfvn.plots.gradient_snr(runs, ratio="paper")
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['k = 2', 'mean field']

    Reference:

    - [Swiatkowski et al., 2020](https://arxiv.org/abs/2002.02655), figure 2
    """
    check_choice("ratio", ratio, tuple(_RATIOS))
    prefix, formula = _RATIOS[ratio]
    found = {
        name: _ratios(logs, prefix) for name, logs in runs_of("runs", runs).items()
    }
    layers = {layer for ratios in found.values() for layer in ratios}
    curves: dict[str, np.ndarray] = {}
    for name, ratios in found.items():
        for layer, values in ratios.items():
            parts = [name] if name is not None else []
            parts += [layer] if len(layers) > 1 or name is None else []
            curves[", ".join(parts)] = np.where(values > 0, values, np.nan)
    if not any(np.isfinite(values).any() for values in curves.values()):
        raise ValueError(
            f"Argument `runs` must have positive ratios, logged as `{prefix}<layer>` by "
            f"`tfvn.callbacks.GradientSNR`. Received: ratios of the layers {sorted(layers)}"
        )
    with style.drawing(ax) as ax:
        _draw_curves(ax, curves)
        ax.set(xlabel="epoch", ylabel=f"signal-to-noise ratio\n{formula}", yscale="log")
        place_legend(ax)
    return ax


def _ratios(logs: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    # The callback always logs the paper's ratio and the mean. So a layer whose own name
    # begins with `paper_` is not taken for another one.
    layers = [key.removeprefix("snr_") for key in logs if key.startswith("snr_")]
    layers = [layer for layer in layers if f"snr_paper_{layer}" in logs]
    named = {layer: f"{prefix}{layer}" for layer in layers}
    return {layer: logs[key] for layer, key in named.items() if key in logs}


def pruning_curve(
    curves: Any, values: Any = None, measure: str = "accuracy", ax: Axes = None
) -> Axes:
    """Plots the accuracy, or the NLL, against the fraction of weights that are pruned.

    If the smallest fraction is 0, a grey line shows the value of the network before pruning.

    Args:
        curves: An object with the attributes `fractions` and `accuracy` (and `nll`); or an
            array of fractions, from 0 to 1; or several curves: a dictionary from names to
            such objects or to pairs `(fractions, values)`.
        values: The accuracy, or the NLL, at each fraction, if `curves` is an array.
        measure: What is shown: `"accuracy"` or `"nll"`.
        ax: The matplotlib `Axes` to draw on; `None` makes one.

    Returns:
        The `Axes`.

    Example:

    >>> import tfvn
    >>> ax = tfvn.plots.pruning_curve([0.0, 0.5, 0.9], [0.99, 0.99, 0.95])
    >>> ax.get_ylabel()
    'accuracy'

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), figure 5
    """
    check_choice("measure", measure, ("accuracy", "nll"))
    if not isinstance(curves, Mapping):
        is_object = hasattr(curves, "fractions")
        curves = {None: curves if is_object else (curves, values)}
    pairs = {name: _pair(curve, measure) for name, curve in curves.items()}
    _check_found("curves", pairs, "at least one curve", {})
    with style.drawing(ax) as ax:
        for name, (fractions, shown) in pairs.items():
            look = style.next_line_style(ax)
            label = measure if name is None else name
            ax.plot(fractions, shown, marker=".", label=label, **look)
        for fractions, shown in pairs.values():
            if fractions[0] == 0:
                ax.axhline(shown[0], color=style.REFERENCE, lw=1, zorder=0)
        ax.set(xlabel="fraction of weights pruned", xlim=(0, 1))
        ax.set(ylabel="accuracy" if measure == "accuracy" else "NLL, nats per example")
        if None not in pairs:
            place_legend(ax)
    return ax


def _pair(curve: Any, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns fractions in rising order, and the values there."""
    if hasattr(curve, "fractions"):
        curve = (curve.fractions, getattr(curve, measure, None))
    if not isinstance(curve, tuple | list) or len(curve) != 2 or curve[1] is None:
        raise ValueError(
            f"A curve must have `fractions` and `{measure}`, or be a pair "
            "`(fractions, values)`; pass `values` beside an array of fractions. "
            f"Received: {described(curve)}"
        )
    fractions, shown = numbers("fractions", curve[0]), numbers(measure, curve[1])
    if len(fractions) != len(shown) or fractions.min() < 0 or fractions.max() > 1:
        raise ValueError(
            "A curve must have fractions from 0 to 1, and one value for each. "
            f"Received: {len(fractions)} fractions from {fractions.min():g} to "
            f"{fractions.max():g} and {len(shown)} values"
        )
    order = np.argsort(fractions, kind="stable")
    return fractions[order], shown[order]


def _draw_curves(ax: Axes, curves: Mapping[str, np.ndarray], first: int = 0) -> list:
    """Draws curves over the epochs; the first has the style with the given index."""
    from matplotlib.ticker import MaxNLocator

    lines = []
    for index, (label, values) in enumerate(curves.items(), start=first):
        # A run of one epoch has only points.
        marker = "." if len(values) < 2 else ""
        look = style.line_style(index)
        lines += ax.plot(epochs_of(values), values, label=label, marker=marker, **look)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.margins(x=0.02)
    if max(len(values) for values in curves.values()) < 2:
        # Wide enough for a whole number, until a longer run is drawn on the same axes.
        ax.set_xlim(0.5, 1.5, auto=True)
    return lines


def _range(curves: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Returns the lowest and the highest value to show."""
    values = np.concatenate(list(curves.values()))
    values = values[np.isfinite(values)]
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.5
    return float(low - margin), float(high + margin)


def _check_found(name: str, found: Mapping, what: str, given: Mapping) -> None:
    if not found:
        raise ValueError(
            f"Argument `{name}` must have {what}. Received: {name} with {sorted(given)}"
        )
