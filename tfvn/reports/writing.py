"""Makes a report: predicts, measures, and writes the page."""

import dataclasses
import datetime as dt
import html
import os
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from tfvn.analysis.layer_rows import random_layers
from tfvn.analysis.spread import spread_of
from tfvn.analysis.summaries import Summary, summary
from tfvn.prediction import metrics
from tfvn.prediction.data import checked_rows
from tfvn.prediction.ensemble import ensemble_predict
from tfvn.reports import page
from tfvn.reports.figures import Figure, histogram_of, require_matplotlib
from tfvn.reports.outcomes import Measure, Outcome, Score, outcome_of
from tfvn.serving.card import VERSIONS
from tfvn.utils.validation import check_count

_Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True, repr=False)
class Report:
    """The result of `tfvn.report`.

    Attributes:
        path: The file of the page, or `None` if it was not written.
        measures: The figures of the page by name, for instance `"accuracy"`, `"nll"`,
            `"calibration_error"` and `"ood_auroc_entropy"`.
        summary: The result of `tfvn.summary`.
        html: The page.
    """

    path: pathlib.Path | None
    measures: dict[str, float]
    summary: Summary
    html: str

    def __repr__(self) -> str:
        lines = [f"Report on {self.summary.name!r}, in {self.path}:"]
        lines += [f"  {name:<30}{value:.4g}" for name, value in self.measures.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        # In a frame, so that the style of the page does not change the notebook.
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="700" '
            'style="border:0"></iframe>'
        )


def report(
    model: keras.Model,
    x: Any,
    y: Any,
    ood: Any = None,
    path: str | os.PathLike | None = "report.html",
    *,
    num_samples: int = 20,
    limit: int | None = 2000,
    seed: int = 0,
    outputs: Any = "auto",
    labels: Sequence[str] | None = None,
    names: tuple[str, str] = ("data", "outside"),
    verbose: int = 1,
    command: str | None = None,
) -> Report:
    """Writes a page about a model: how good its predictions are, and how certain.

    The page is one file of HTML that needs no network. It shows, for a classifier, the
    accuracy, the negative log-likelihood, the Brier score, the calibration, and the error
    rate among the examples of which the model is most certain; for a model that predicts
    distributions of numbers, the coverage and the width of intervals. With examples from
    outside of the distribution it shows how well the uncertainty detects them. Then it
    shows the examples of which the model is least certain, `tfvn.summary`, and a histogram
    for each random weight. It needs matplotlib: `pip install "tfvn[plots]"`.

    Args:
        model: A model of this library or of Keras, with one output and with layers that
            draw noise.
        x: Inputs: an array, or a list or dictionary of arrays for several inputs.
        y: Targets: integers or one-hot rows for classes, otherwise numbers.
        ood: Inputs from outside of the distribution that the model was trained on, in the
            form of `x`, or `None`.
        path: The file to write, replaced if it exists; `None` writes no file.
        num_samples: Number of draws.
        limit: The largest number of examples of `x`, and of `ood`, that are used. From
            more, this many are chosen at random. `None` uses all.
        seed: Integer that fixes the draws and the choice of examples.
        outputs: What the model's outputs are, as in `tfvn.ensemble_predict`.
        labels: The names of the classes, or `None` for their numbers.
        names: What the page calls `x` and `ood`.
        verbose: 1 prints what is being done, 0 does not.
        command: The command at the foot of the page; `None` names this function.

    Returns:
        A `Report` with `path`, `measures` (the figures by name), `summary` and `html`.
        In a notebook it shows the page.

    Raises:
        ValueError: If the data do not fit the model, or the model has several outputs.
        ImportError: If matplotlib is not installed.

    Example:

    >>> import keras
    >>> import tfvn
    >>> x, y = tfvn.datasets.load("digits", split="test")
    >>> layers = [keras.layers.Flatten(), tfvn.KTiedDense(10, activation="softmax")]
    >>> model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
    >>> report = tfvn.report(model, x, y, ood=1 - x, path=None, limit=50, verbose=0)
    >>> sorted(report.measures)[:3]
    ['accuracy', 'brier_score', 'calibration_error']
    """
    start = time.perf_counter()
    require_matplotlib()
    say: _Say = print if verbose else _silent
    x, y = _limited("x", x, limit, seed, y)
    described = summary(_built(model, x))
    say(f"Predicting {_count(x)} examples of {names[0]}, {num_samples} draws each")

    def predict(inputs: Any) -> Any:
        return ensemble_predict(
            model,
            inputs,
            check_count("num_samples", num_samples),
            seed=seed,
            outputs=outputs,
            verbose="auto" if verbose else 0,
        )

    outcome = outcome_of(predict(x), y, labels)
    scores, outside = outcome.scores(outcome.answer), []
    if ood is not None:
        ood, _ = _limited("ood", ood, limit, seed)
        say(f"Predicting {_count(ood)} examples of {names[1]}")
        outside = outcome.scores(predict(ood))
    measures, detection = _measures(outcome, scores, outside)
    say("Drawing the figures")
    posteriors, measured = _posteriors(model)
    contents = page.Contents(
        summary=described,
        outcome=outcome,
        measures=measures,
        scores=scores,
        outside=outside,
        detection=detection,
        names=names,
        examples=x if isinstance(x, np.ndarray) else None,
        posteriors=posteriors,
        measured=measured,
        notes=_notes(command, time.perf_counter() - start),
        lead=_lead(described, x, ood, names, num_samples, seed),
    )
    text = page.write(contents)
    written = None if path is None else pathlib.Path(path)
    if written is not None:
        written.write_text(text, "utf-8")
        seconds = time.perf_counter() - start
        say(f"Wrote {written} ({len(text) / 1000:,.0f} kB) in {seconds:.1f} s")
    return Report(
        path=written,
        measures={measure.key: measure.value for measure in measures},
        summary=described,
        html=text,
    )


def _measures(
    outcome: Outcome, scores: list[Score], outside: list[Score]
) -> tuple[list[Measure], dict[str, float]]:
    """Returns the figures of the page, and the AUROC of each score by its name."""
    measures, detection = outcome.measures(), {}
    for index, score in enumerate(scores):
        mean = float(score.values.mean())
        meaning = f"{score.unit}, on average"
        measures.append(Measure(score.key, score.name, mean, f"{mean:#.3g}", meaning))
        if outside:
            auroc = _auroc(score.values, outside[index].values)
            detection[score.name] = auroc
            measures.append(
                Measure(
                    f"ood_auroc_{score.key}",
                    "AUROC",
                    auroc,
                    f"{auroc:.3f}",
                    f"of detecting outside examples by {score.name.lower()}",
                )
            )
    return measures, detection


def _auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    metric = metrics.OODAUROC()
    metric.update_state(np.zeros(len(inside)), inside)
    metric.update_state(np.ones(len(outside)), outside)
    return float(metric.result())


def _posteriors(model: keras.Model) -> tuple[list[Figure], list[str]]:
    """Returns a histogram for each random weight, and what they are histograms of."""
    figures: list[Figure] = []
    measures: list[str] = []
    for name, layer in random_layers(model):
        for weight, posterior in layer.posteriors.items():
            spread = spread_of(posterior)
            if np.isfinite(spread.values).any():
                figures.append(histogram_of(f"{name}, {weight}", spread))
                measures.append(spread.measure)
    return figures, list(dict.fromkeys(measures))


def _limited(
    name: str, x: Any, limit: int | None, seed: int, y: Any = None
) -> tuple[Any, Any]:
    """Returns at most `limit` examples, with their targets if there are any."""
    x = keras.tree.map_structure(np.asarray, x)
    arrays = [*keras.tree.flatten(x), *([] if y is None else [np.asarray(y)])]
    rows = {len(array) if array.ndim else -1 for array in arrays}
    if len(rows) != 1 or min(rows) < 1 or any(a.dtype == object for a in arrays):
        raise ValueError(
            f"Argument `{name}` must have arrays of numbers with the same number of rows, at "
            "least one, and as many targets; pad sequences of several lengths as in "
            f"training. Received: shapes {[array.shape for array in arrays]} and types "
            f"{[str(array.dtype) for array in arrays]}"
        )
    (count,) = rows
    size = check_count("limit", limit, or_none=True)
    if size is None or count <= size:
        return x, None if y is None else np.asarray(y)
    # At random, because files are often sorted by class.
    chosen = np.random.default_rng(seed).choice(count, size, replace=False)
    chosen.sort()
    return (
        keras.tree.map_structure(lambda array: array[chosen], x),
        None if y is None else np.asarray(y)[chosen],
    )


def _built(model: keras.Model, x: Any) -> keras.Model:
    """Returns the model after its first call, if it has not been called yet."""
    checked_rows(model, x, None)
    return model


def _count(x: Any) -> str:
    return f"{len(keras.tree.flatten(x)[0]):,}"


def _lead(
    described: Summary,
    x: Any,
    ood: Any,
    names: tuple[str, str],
    num_samples: int,
    seed: int,
) -> str:
    size = f"{sum(described.parameters.values()):,} parameters"
    text = f"A {described.model} with {size}. {_count(x)} examples of {names[0]}"
    if ood is not None:
        text += f", and {_count(ood)} of {names[1]} from outside of the distribution"
    return f"{text}; {num_samples} draws of the noise for each, with seed {seed}."


def _notes(command: str | None, seconds: float) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in VERSIONS.items())
    today = dt.datetime.now(dt.UTC).date()
    return [
        f"Made by {command or 'tfvn.report'} on {today}, in {seconds:.1f} s.",
        f"{versions}.",
    ]


def _silent(text: str) -> None:
    """Prints nothing."""
