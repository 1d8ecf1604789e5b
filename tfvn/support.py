"""Tables of the combinations of posteriors, priors and estimators.

Constructors, error messages, the documentation and the test harness read these tables;
nothing else in the library knows which combinations exist. The column of a posterior is
its `law`, the family of the weight distribution: `"gaussian"`, `"uniform"`,
`"bernoulli"`, all of independent weights, or `"correlated gaussian"`. The `ANY` cell of a
row applies to all laws that the row does not name.

A part from outside the library adds its row when it is registered.
"""

import dataclasses
from typing import Any

ANY = "*"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell of a support table.

    Args:
        how: How the combination is computed, or why it is refused.
        supported: Whether the combination is allowed.
    """

    how: str
    supported: bool = True


EXACT = Cell("exact")
MOMENT_MATCHING = Cell("moment matching")
CLOSED_FORM = Cell("closed form")
CONSTANT = Cell("constant")
MONTE_CARLO = Cell("Monte Carlo")
NO_KL = Cell("no KL")


def refused(reason: str) -> Cell:
    """Returns the cell of a combination that is refused, with the reason."""
    return Cell(reason, supported=False)


_DISCRETE = refused("a discrete posterior has an infinite KL to a density")

_NOT_NAMED = refused("its `support` names neither that law nor `ANY`")
_NO_SEQUENCES = refused("it was registered without `recurrent`")

CORRELATED = "correlated gaussian"
_SIGNS = refused("its random signs would change the correlations between weights")
_INDEPENDENT = refused("it is defined for independent weights")

_LAWS = ("gaussian", "uniform", "bernoulli", CORRELATED)

# law -> cell
Row = dict[str, Cell]

# estimator -> law -> cell
ESTIMATORS: dict[str, Row] = {
    "local": {
        "gaussian": EXACT,
        CORRELATED: refused("it draws outputs as if the weights were independent"),
        ANY: MOMENT_MATCHING,
    },
    "flipout": {CORRELATED: _SIGNS, ANY: EXACT},
    "weights": {ANY: EXACT},
    "mean": {ANY: Cell("no noise: the weight-scaling rule")},
}

# The same for the cells of recurrent layers, which use one sample for a whole sequence.
RECURRENT_ESTIMATORS: dict[str, Row] = {
    "local": {
        ANY: refused("it samples outputs, but all steps must use the same weights")
    },
    "flipout": {
        CORRELATED: _SIGNS,
        ANY: Cell("one sample and its signs for the whole sequence"),
    },
    "weights": {ANY: Cell("one sample for the whole sequence")},
    "mean": {ANY: Cell("no noise: the weight-scaling rule")},
}

# The row of a prior to which no KL has a closed form.
_ESTIMATED: Row = {"bernoulli": _DISCRETE, ANY: MONTE_CARLO}

# prior -> law -> cell. A `tfd.Distribution` without its own row uses "any".
PRIORS: dict[str, Row] = {
    "normal": {
        **_ESTIMATED,
        "gaussian": CLOSED_FORM,
        "uniform": CLOSED_FORM,
        CORRELATED: CLOSED_FORM,
    },
    "log_uniform": {
        **_ESTIMATED,
        "gaussian": CLOSED_FORM,
        "uniform": CONSTANT,
        CORRELATED: _INDEPENDENT,
    },
    "ard": {
        **_ESTIMATED,
        "gaussian": CLOSED_FORM,
        CORRELATED: _INDEPENDENT,
        ANY: refused("the ARD prior is defined for Gaussian posteriors only"),
    },
    "laplace": {**_ESTIMATED, "gaussian": CLOSED_FORM},
    "student_t": {**_ESTIMATED},
    "horseshoe": {**_ESTIMATED},
    "spike_and_slab": {**_ESTIMATED},
    "any": {**_ESTIMATED},
    "none": {ANY: NO_KL},
}

# Priors that do not depend on the scale of a weight: for a law of mean zero the KL is a
# constant, so a variance layer adds nothing to the loss.
SCALE_FREE_PRIORS = ("log_uniform", "ard")


def lookup(table: dict[str, Row], row: str, law: str) -> Cell:
    """Returns the cell of `table` for a row and the law of a posterior."""
    cells = table[row]
    return cells.get(law, cells[ANY])


def require(kind: str, table: dict[str, Row], row: str, law: str) -> Cell:
    """Returns a supported cell, or raises an error with the reason.

    Args:
        kind: What the rows are: `"prior"`, `"estimator"`, `"recurrent estimator"`.
        table: One of the tables.
        row: The name of the row.
        law: The law of the posterior.
    """
    cell = lookup(table, row, law)
    if not cell.supported:
        # A prior of "none" is written `None`.
        offered = [
            None if name == "none" else name
            for name in table
            if lookup(table, name, law).supported
        ]
        part = kind.split()[-1]
        place = "" if part == kind else " in recurrent layers"
        raise ValueError(
            f"The {part} {row!r} does not combine with a {law} posterior{place}, because "
            f"{cell.how}; expected one of {offered}. Received: {part}={row!r}"
        )
    return cell


def default_estimator(law: str, recurrent: bool = False) -> str:
    """Returns the alias of the estimator that fits `law` best."""
    return "local" if law == "gaussian" and not recurrent else "weights"


def require_estimator(alias: str, law: str, recurrent: bool = False) -> Cell:
    """Returns the cell of an estimator, as `require` does."""
    if recurrent:
        return require("recurrent estimator", RECURRENT_ESTIMATORS, alias, law)
    return require("estimator", ESTIMATORS, alias, law)


def add_estimator(
    alias: str, cls: Any, support: Row | None = None, recurrent: Row | None = None
) -> None:
    """Adds the rows of an estimator from outside the library.

    Args:
        alias: Its alias.
        cls: The class.
        support: How it combines with each law of weights. The cell `ANY` applies to laws
            that are not named; without it, they are refused.
        recurrent: The same for the cells of recurrent layers; `None` refuses all.
    """
    if support is None and alias not in ESTIMATORS:
        raise ValueError(
            "A new estimator must be registered with the laws of weights that it supports; "
            f"pass `register({alias!r}, support={{law: cell}})`. Received: support=None"
        )
    if support is not None:
        ESTIMATORS[alias] = {ANY: _NOT_NAMED, **support}
        RECURRENT_ESTIMATORS[alias] = {ANY: _NO_SEQUENCES, **(recurrent or {})}


def add_prior(alias: str, row: str, support: Row | None = None) -> None:
    """Adds the row of a prior from outside the library.

    Args:
        alias: Its alias.
        row: The row that the class of distributions had so far.
        support: How the KL from each law of weights is computed. The cell `ANY` applies
            to laws that are not named; without it, they are refused. `None` is the cells
            of `row`.
    """
    if support is not None:
        PRIORS[alias] = {ANY: _NOT_NAMED, **support}
    PRIORS.setdefault(alias, PRIORS[row])


def add_posterior(
    alias: str, cls: Any, support: Row | None = None, recurrent: Row | None = None
) -> None:
    """Adds cells for the law of a posterior that differ from the `ANY` cells.

    Args:
        alias: Its alias.
        cls: The class, which has a `law`.
        support: How the law combines with estimators and priors, by their aliases.
        recurrent: How it combines with estimators in recurrent layers.
    """
    estimators_and_priors = {**ESTIMATORS, **PRIORS}
    for rows, cells in (
        (estimators_and_priors, support or {}),
        (RECURRENT_ESTIMATORS, recurrent or {}),
    ):
        if not {*cells} <= {*rows} or (cells and cls.law in _LAWS):
            raise ValueError(
                "The keys of a posterior's `support` and `recurrent` must be aliases "
                f"among {sorted(rows)}, and its `law` must be new, because the library "
                f"already has the cells for {list(_LAWS)}. Received: law={cls.law!r}, "
                f"aliases={list(cells)}"
            )
        for row, cell in cells.items():
            rows[row][cls.law] = cell
