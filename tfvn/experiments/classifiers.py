"""What is measured of a classifier, with batch normalization in both of its modes."""

from typing import Any

import keras
import numpy as np

import tfvn

# Batch normalization at evaluation: its moving averages, as Keras does it, or the
# statistics of each batch, as the authors of variance networks did it.
MODES = {"moving": False, "batch": True}

# The seed of all draws at evaluation.
_SEED = 1


def accuracy(outputs: np.ndarray, labels: np.ndarray) -> float:
    """Returns the share of right answers, for probabilities or logits."""
    return float((outputs.argmax(axis=-1) == labels).mean())


def measure(
    model: keras.Model,
    test: Any,
    num_samples: int = 20,
    batch_size: int = 200,
    is_random: bool = True,
) -> dict[str, dict[str, float]]:
    """Returns the test accuracies of a network with batch normalization, in both modes.

    Args:
        model: A classifier with logits.
        test: The test data, a pair of arrays.
        num_samples: Number of draws of the ensemble.
        batch_size: Number of rows at a time, which matters for statistics of batches.
        is_random: Whether the network has noise.

    Returns:
        By mode, the accuracy with mean weights, with one draw of the weights (the mean
        over all draws), and of the ensemble. Without noise all three are the same.
    """
    x, y = test
    figures = {}
    for mode, batch_statistics in MODES.items():
        options: Any = {"batch_size": batch_size, "batch_statistics": batch_statistics}
        means = accuracy(tfvn.mean_predict(model, x, **options), y)
        one_sample = ensemble = means
        if is_random:
            answer = tfvn.ensemble_predict(
                model,
                x,
                num_samples,
                seed=_SEED,
                return_samples=True,
                verbose=0,
                **options,
            )
            one_sample = accuracy(answer.samples, y[:, None])
            ensemble = accuracy(answer.mean, y)
        figures[mode] = {
            "mean_weights": means,
            "one_sample": one_sample,
            "ensemble": ensemble,
        }
    return figures


def lower_bounds(
    model: keras.Model, data: Any, num_samples: int = 10, batch_size: int = 200
) -> dict[str, dict[str, float]]:
    """Returns the lower bound of the training data and its parts, in both modes.

    Args:
        model: A classifier that is compiled with its loss.
        data: The training data, a pair of arrays.
        num_samples: Number of draws of the noise.
        batch_size: Number of rows at a time.
    """
    x, y = data
    return {
        mode: tfvn.evidence_lower_bound(
            model,
            x,
            y,
            num_samples=num_samples,
            batch_size=batch_size,
            seed=_SEED,
            batch_statistics=batch_statistics,
        )._asdict()
        for mode, batch_statistics in MODES.items()
    }
