"""The page of a report: one file of HTML that needs nothing else."""

import html
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfvn.analysis.summaries import Summary
from tfvn.reports.figures import Figure, picture, render
from tfvn.reports.outcomes import Measure, Outcome, Score
from tfvn.utils.tables import html_table

_STYLE = pathlib.Path(__file__).with_name("page.css")

# How many of the least certain examples the page shows, and how many of their features.
_PICTURES = 12
_FEATURES = 8

# What the histograms of random weights say, by the measure.
_MEANINGS = {
    "log alpha": "Log alpha compares the noise of a weight with its mean: above 0 the noise "
    "is larger. ",
    "SNR": "|mean| / scale is the signal-to-noise ratio of a weight: one near 0 can be left "
    "out with little harm. ",
    "scale": "Weights with mean zero store what they have learned in their standard "
    "deviations. ",
}


class Contents(NamedTuple):
    """What a page shows.

    Attributes:
        summary: The layers of the model.
        outcome: The predictions and their targets.
        measures: The figures at the top.
        scores: How uncertain the model is of the examples.
        outside: The same for those from outside of the distribution, or nothing.
        detection: AUROC of each score, by name.
        names: The names of the data, and of those from outside.
        examples: The inputs, or `None` if they can't be shown.
        posteriors: A figure for each random weight.
        measured: Which measures the figures of random weights are of.
        notes: The lines at the foot of the page.
        lead: The line under the heading.
    """

    summary: Summary
    outcome: Outcome
    measures: list[Measure]
    scores: list[Score]
    outside: list[Score]
    detection: dict[str, float]
    names: tuple[str, str]
    examples: np.ndarray | None
    posteriors: list[Figure]
    measured: list[str]
    notes: list[str]
    lead: str


def write(contents: Contents) -> str:
    """Returns the page."""
    title = f"Report on {contents.summary.name}"
    sections = [
        _predictions(contents),
        _uncertainty(contents),
        _least_certain(contents),
        _layers(contents),
        _posteriors(contents),
    ]
    notes = "".join(f"<p>{_escape(note)}</p>" for note in contents.notes)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{_STYLE.read_text("utf-8")}</style>
</head>
<body>
<header>
<h1>{_escape(title)}</h1>
<p>{_escape(contents.lead)}</p>
</header>
<main>
{_cards(contents.measures)}
{"".join(sections)}</main>
<footer>
{notes}
</footer>
</body>
</html>
"""


def _cards(measures: Iterable[Measure]) -> str:
    cards = "".join(
        f"<div><dt>{_escape(m.name)}</dt>"
        f'<dd class="value">{_escape(m.shown)}</dd>'
        f'<dd class="meaning">{_escape(m.meaning)}</dd></div>'
        for m in measures
    )
    return f'<dl class="measures">{cards}</dl>'


def _predictions(contents: Contents) -> str:
    figures = contents.outcome.calibration()
    return _section("Predictions", _figures(figures)) if figures else ""


def _uncertainty(contents: Contents) -> str:
    figures = []
    for index, score in enumerate(contents.scores):
        groups = {contents.names[0]: score.values}
        if contents.outside:
            groups[contents.names[1]] = contents.outside[index].values
        figures.append(_histogram(score, groups))
    text = _paragraph(contents.outcome.uncertainty)
    if contents.detection:
        text += _paragraph(
            "The area under the ROC curve (AUROC) is how often an example from outside of "
            "the distribution has a larger value than one from inside: 1 tells them apart "
            "without an error, and 0.5 is chance."
        )
    text += _figures(figures)
    if contents.detection:
        rows = [
            (name, f"{inside.values.mean():.4g}", f"{outside.values.mean():.4g}", auroc)
            for (name, auroc), inside, outside in zip(
                ((name, f"{value:.4f}") for name, value in contents.detection.items()),
                contents.scores,
                contents.outside,
                strict=True,
            )
        ]
        header = ("", *(f"mean, {name}" for name in contents.names), "AUROC")
        text += _scrolled(html_table(header, rows, "lrrr"))
    return _section("Uncertainty", text)


def _histogram(score: Score, groups: dict[str, np.ndarray]) -> Figure:
    from tfvn import plots

    def draw(ax: Any) -> None:
        plots.entropy_histograms(groups, ax=ax)
        ax.set_xlabel(f"{score.name.lower()}, {score.unit}")

    means = ", ".join(f"{v.mean():.3g} on {name}" for name, v in groups.items())
    return Figure(
        score.name,
        f"Histograms of the {score.name.lower()} on {' and '.join(groups)}.",
        f"On average {means}.",
        draw,
    )


def _least_certain(contents: Contents) -> str:
    score = contents.scores[0]
    order = np.argsort(-score.values, kind="stable")[:_PICTURES]
    facts = [
        {**contents.outcome.said(row), score.name.lower(): f"{score.values[row]:.3g}"}
        for row in order.tolist()
    ]
    text = _paragraph(
        f"The examples of {contents.names[0]} with the largest {score.name.lower()}."
    )
    pixels = as_pictures(contents.examples)
    if pixels is not None:
        shown = "".join(
            _picture(pixels[row], fact) for row, fact in zip(order, facts, strict=True)
        )
        text += f'<div class="pictures">{shown}</div>'
    else:
        text += _scrolled(_table_of(contents.examples, order, facts))
    return _section("Least certain examples", text)


def _picture(pixels: np.ndarray, facts: dict[str, str]) -> str:
    lines = [f"{name} {value}" for name, value in facts.items()]
    alt = _escape(f"Example: {', '.join(lines)}")
    caption = "<br>".join(map(_escape, lines))
    return (
        f'<figure><img src="{picture(pixels)}" alt="{alt}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _table_of(
    examples: np.ndarray | None, order: np.ndarray, facts: list[dict[str, str]]
) -> str:
    """Returns a table of examples that are no pictures, with their first features."""
    names = list(facts[0]) if facts else []
    rows = [[*fact.values()] for fact in facts]
    if examples is not None:
        flat = examples.reshape(len(examples), -1)[:, :_FEATURES]
        names += [f"feature {index}" for index in range(flat.shape[1])]
        for cells, row in zip(rows, order, strict=True):
            cells += [_feature(value) for value in flat[row]]
    return html_table(names, rows, "l".ljust(len(names), "r"))


def _feature(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, np.number) else str(value)


def as_pictures(examples: np.ndarray | None) -> np.ndarray | None:
    """Returns examples as images with values from 0 to 1, or `None` if they are none.

    Images have shape `(rows, height, width, channels)` with 1, 3 or 4 channels, or
    `(rows, size, size)`.
    """
    if examples is None or examples.dtype.kind not in "biuf" or not examples.size:
        return None
    shape = examples.shape
    is_gray = len(shape) == 3 and shape[1] == shape[2] > 1
    if not is_gray and not (len(shape) == 4 and shape[3] in (1, 3, 4)):
        return None
    pixels = examples[..., 0] if shape[-1] == 1 and not is_gray else examples
    darkest, brightest = float(pixels.min()), float(pixels.max())
    spread = brightest - darkest or 1.0
    return (pixels.astype("float32") - darkest) / spread


def _layers(contents: Contents) -> str:
    parts = [
        f"<h3>{_escape(table.title)}</h3>"
        + _scrolled(html_table(table.header, table.rows, table.align))
        for table in contents.summary.tables()
    ]
    totals = "".join(map(_paragraph, contents.summary.totals()))
    return _section("Layers", "".join(parts) + totals)


def _posteriors(contents: Contents) -> str:
    if not contents.posteriors:
        return ""
    meanings = "".join(_MEANINGS[measure] for measure in contents.measured)
    figures = _figures(contents.posteriors, "small")
    return _section("Posteriors", _paragraph(meanings.strip()) + figures)


def _figures(figures: Sequence[Figure], style: str = "") -> str:
    size = (3.0, 2.1) if style else (5.0, 3.4)
    shown = "".join(_figure(figure, size) for figure in figures)
    return f'<div class="{f"figures {style}".strip()}">{shown}</div>'


def _figure(figure: Figure, size: tuple[float, float]) -> str:
    uris = render(figure, size)
    return (
        f"<figure><h3>{_escape(figure.title)}</h3><picture>"
        f'<source srcset="{uris["dark"]}" media="(prefers-color-scheme: dark)">'
        f'<img src="{uris["light"]}" alt="{_escape(figure.alt)}">'
        f"</picture><figcaption>{_escape(figure.caption)}</figcaption></figure>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{body}\n</section>\n"


def _paragraph(text: str) -> str:
    return f"<p>{_escape(text)}</p>\n"


def _scrolled(table: str) -> str:
    return f'<div class="scroll">{table}</div>\n'


def _escape(text: str) -> str:
    return html.escape(text)
