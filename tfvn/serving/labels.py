"""The names of the classes of an export."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfvn.prediction import outputs

Labels = Sequence[str] | Mapping[str, Sequence[str]]

WITH_CLASSES = (
    outputs.LOGITS,
    outputs.PROBABILITIES,
    outputs.BINARY_LOGITS,
    outputs.BINARY_PROBABILITIES,
)


def by_output(kinds: list[Any], draws: dict[str, tf.TensorSpec]) -> dict[str, Any]:
    """Returns what each output is, by its name; an only output has the name `""`.

    Args:
        kinds: What each output is, or one kind for all of them.
        draws: The specs of the signature `samples`, in the order of the outputs.
    """
    names = [name.removesuffix("samples").removesuffix("_") for name in draws]
    # One kind may stand for all outputs.
    kinds = kinds * len(draws) if len(kinds) == 1 else kinds
    return dict(zip(names, kinds, strict=True))


def checked_labels(
    labels: Any, kinds: list[str], draws: dict[str, tf.TensorSpec]
) -> Labels | None:
    """Returns labels as lists; raises unless each output has one label for each class.

    Args:
        labels: The user's argument.
        kinds: As in `by_output`.
        draws: As in `by_output`.
    """
    if labels is None:
        return None
    counts = {
        name: _num_classes(spec, kind)
        for (name, kind), spec in zip(
            by_output(kinds, draws).items(), draws.values(), strict=True
        )
    }
    if len(counts) == 1:
        (count,) = counts.values()
        return _list_of_labels(labels, count, "labels")
    if not isinstance(labels, Mapping) or not set(labels) <= set(counts):
        raise ValueError(
            "Argument `labels` must be a dictionary for a model with several outputs, "
            f"with names of outputs, among {list(counts)}, as keys, and lists of "
            f"labels as values. Received: labels={labels!r}"
        )
    return {
        name: _list_of_labels(value, counts[name], f"labels[{name!r}]")
        for name, value in labels.items()
    }


def _list_of_labels(labels: Any, count: int | None, name: str) -> list[str]:
    is_list = isinstance(labels, Sequence | np.ndarray) and not isinstance(
        labels, str | bytes
    )
    if not is_list or not all(
        isinstance(label, str) and "\n" not in label for label in labels
    ):
        raise ValueError(
            f"Argument `{name}` must be a list of strings without line breaks. "
            f"Received: {name}={labels!r}"
        )
    if count is not None and len(labels) != count:
        expected = f"{count} names, one for each class" if count else "`None`"
        raise ValueError(
            f"Argument `{name}` must be {expected}, because the output has {count or 'no'} "
            f"classes. Received: {name} of {len(labels)} names"
        )
    return [str(label) for label in labels]


def _num_classes(draws: tf.TensorSpec, kind: str) -> int | None:
    """Returns the number of classes of an output, or `None` if it is not fixed."""
    if kind not in WITH_CLASSES:
        return 0
    size = 1 if draws.shape.rank == 2 else draws.shape[-1]
    # A single number is the probability of the second of two classes.
    return 2 if size == 1 else size
