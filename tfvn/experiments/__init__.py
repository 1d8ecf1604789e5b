"""The experiments of the papers, each a command: `tfvn reproduce NAME`.

Every experiment is one file, with the name of the command in snake case, that defines
`EXPERIMENT`. It uses the public names of the library, and what experiments share: a
training loop that can be resumed, a LeNet-5, and what is measured of a classifier.
"""

import importlib
import pathlib

from tfvn.experiments.experiment import Experiment

__all__ = ["get", "names"]

# Files that are no experiments.
_SHARED = {"__init__", "classifiers", "experiment", "lenet5", "runner", "training"}


def names() -> list[str]:
    """Returns the names of all experiments."""
    files = pathlib.Path(__file__).parent.glob("*.py")
    return sorted(f.stem.replace("_", "-") for f in files if f.stem not in _SHARED)


def get(name: str) -> Experiment:
    """Returns an experiment.

    Args:
        name: Its name, one of `names()`.
    """
    if name not in names():
        raise ValueError(
            f"Argument `name` must be one of {names()}. Received: name={name!r}"
        )
    module = importlib.import_module(f"tfvn.experiments.{name.replace('-', '_')}")
    return module.EXPERIMENT
