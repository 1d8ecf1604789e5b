"""What an experiment is: what a paper claims, how to try it, and what came out."""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

# What a claim can end as.
REPRODUCED = "reproduced"
IN_DIRECTION = "in direction"
CONTRADICTED = "contradicted"
NOT_RUN = "not run"
VERDICTS = (REPRODUCED, IN_DIRECTION, CONTRADICTED, NOT_RUN)

# The lengths of a run: a check that it runs, what fits two cores, and the paper's own.
FORMS = ("quick", "default", "full")

Save = Callable[[str, Any], None]

# Stands for a figure that a piece does not have.
_ABSENT = object()


class Claim(NamedTuple):
    """One claim of a paper, beside what came out.

    Attributes:
        claim: The claim, in words.
        paper: The paper's figures.
        ours: Ours.
        verdict: One of `VERDICTS`.
    """

    claim: str
    paper: str
    ours: str
    verdict: str


class Table(NamedTuple):
    """The figures of a run, ready to print.

    Attributes:
        header: The names of the columns.
        rows: The cells, row by row.
    """

    header: list[str]
    rows: list[list[str]]


@dataclasses.dataclass
class Piece:
    """A part of an experiment that is stored when it ends: one network, one seed.

    Attributes:
        configuration: Which network.
        seed: The seed of its initial weights, the order of its data and its noise.
        settings: The settings of the run.
        folder: Where its training keeps its backup.
        model: The file in which its trained network is saved.
        earlier_seconds: How long it ran before it was interrupted.
    """

    configuration: str
    seed: int
    settings: Mapping[str, Any]
    folder: pathlib.Path
    model: pathlib.Path
    earlier_seconds: float = 0.0


class Results:
    """The figures of all pieces of a run.

    Args:
        pieces: The figures by configuration and seed, each a dictionary.
    """

    def __init__(self, pieces: Mapping[str, Mapping[int, Mapping[str, Any]]]):
        self._pieces = pieces

    def configurations(self) -> list[str]:
        """Returns the names of the configurations that were run."""
        return list(self._pieces)

    def all(self, configuration: str, *keys: str) -> list[Any]:
        """Returns a figure of a configuration, one value for each seed that has it.

        A figure that was no finite number is NaN, so that a network that diverged counts.

        Args:
            configuration: Which network.
            *keys: The keys that lead to the figure.
        """
        found = []
        for figures in self._pieces.get(configuration, {}).values():
            value: Any = figures
            for key in keys:
                value = (
                    value.get(key, _ABSENT) if isinstance(value, Mapping) else _ABSENT
                )
            if value is not _ABSENT:
                found.append(_with_nan(value))
        return found

    def mean(self, configuration: str, *keys: str) -> float:
        """Returns the mean of a figure over the seeds, or NaN if there is none."""
        values = self.all(configuration, *keys)
        return sum(values) / len(values) if values else math.nan

    def text(self, form: Callable[[float], str], configuration: str, *keys: str) -> str:
        """Returns the mean of a figure over the seeds, with the range if there are several.

        Args:
            form: Turns a number into text: `percent` or `number`.
            configuration: Which network.
            *keys: The keys that lead to the figure.

        Example:

        >>> from tfvn.experiments.experiment import Results, percent
        >>> pieces = {"plain": {0: {"accuracy": 0.99}, 1: {"accuracy": 0.97}}}
        >>> Results(pieces).text(percent, "plain", "accuracy")
        '98.00 % (97.00 % to 99.00 %)'
        """
        values = self.all(configuration, *keys)
        mean = form(self.mean(configuration, *keys))
        if len(values) < 2:
            return mean
        missing = sum(map(math.isnan, values))
        if missing:
            return f"no number in {missing} of {len(values)} seeds"
        return f"{mean} ({form(min(values))} to {form(max(values))})"

    def first(self, configuration: str, *keys: str) -> Any:
        """Returns a figure of the first seed, or `None` if there is none."""
        return next(iter(self.all(configuration, *keys)), None)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """An experiment of a paper.

    `tfvn reproduce` reads `name`, `paper`, `claim`, `data` and `minutes` from the text of
    the file, without importing it, so write them as constants.

    Attributes:
        name: The name of the command.
        paper: Authors, year, and the table or figure.
        claim: What the paper claims, in one sentence.
        data: The names of the data sets, as in `tfvn.datasets.load`.
        minutes: How long the default form takes on two cores, about.
        settings: The settings by form. Those of `"quick"` and `"full"` replace those of
            `"default"`; `"seeds"` is the number of seeds. `"configurations"` of the
            quick form may name some of the networks, to save time.
        configurations: The networks that are compared, by name.
        run: Trains and measures one piece, and returns its figures: numbers, strings, and
            lists and dictionaries of them.
        judge: Returns the claims with their verdicts.
        table: Returns the figures as a table.
        draw: Draws figures and saves each with `save(name, axes)`.
        notes: What differs from the paper, in sentences, for the page of results.
    """

    name: str
    paper: str
    claim: str
    data: tuple[str, ...]
    minutes: float
    settings: Mapping[str, Mapping[str, Any]]
    configurations: tuple[str, ...]
    run: Callable[[Piece], dict[str, Any]]
    judge: Callable[[Results], list[Claim]]
    table: Callable[[Results], Table]
    draw: Callable[[Results, Save], None]
    notes: str = ""

    def settings_of(self, form: str) -> dict[str, Any]:
        """Returns the settings of a form.

        Args:
            form: One of `FORMS`.
        """
        default = dict(self.settings["default"])
        return default if form == "default" else {**default, **self.settings[form]}


def _with_nan(value: Any) -> Any:
    """Returns a figure or a list of them with NaN for `null`, which files have for it."""
    if isinstance(value, list):
        return [_with_nan(item) for item in value]
    return math.nan if value is None else value


def judged(holds: bool, in_direction: bool, figures: Iterable[float] = ()) -> str:
    """Returns the verdict on a claim.

    Args:
        holds: Whether what must hold does.
        in_direction: Whether the difference at least has the right sign.
        figures: The figures that the verdict depends on. If one is missing or not a
            number (NaN), nothing can be said, and the claim counts as not run.

    Example:

    >>> from tfvn.experiments.experiment import judged
    >>> judged(False, True), judged(True, True, [float("nan")])
    ('in direction', 'not run')
    """
    if any(math.isnan(figure) for figure in figures):
        return NOT_RUN
    if holds:
        return REPRODUCED
    return IN_DIRECTION if in_direction else CONTRADICTED


def overall(verdicts: Iterable[str]) -> str:
    """Returns the verdict on an experiment: the worst one of its claims.

    Args:
        verdicts: The verdicts on its claims.

    Example:

    >>> from tfvn.experiments.experiment import overall
    >>> overall(["reproduced", "in direction", "reproduced"])
    'in direction'
    """
    severity = (REPRODUCED, IN_DIRECTION, NOT_RUN, CONTRADICTED)
    return max(verdicts, key=severity.index, default=NOT_RUN)


def percent(share: float) -> str:
    """Returns a share as a percentage with two decimals, or a dash for NaN.

    Example:

    >>> from tfvn.experiments.experiment import percent
    >>> percent(0.9934), percent(float("nan"))
    ('99.34 %', '-')
    """
    return "-" if math.isnan(share) else f"{100 * share:.2f} %"


def number(value: float, decimals: int = 1) -> str:
    """Returns a number with some decimals, or a dash for NaN.

    Example:

    >>> from tfvn.experiments.experiment import number
    >>> number(-17.43)
    '-17.4'
    """
    return "-" if math.isnan(value) else f"{value:,.{decimals}f}"
