"""The evidence lower bound of some data, averaged over draws of the noise."""

from typing import Any, NamedTuple

import keras
import numpy as np

from tfvn import passes, random
from tfvn.layers.base import stochastic_layers
from tfvn.prediction import ensemble_predict
from tfvn.prediction.seeds import seed_pair
from tfvn.utils.validation import check_count


class LowerBound(NamedTuple):
    """The evidence lower bound and its two parts, in nats, summed over all examples.

    Attributes:
        elbo: The evidence lower bound, `data_term - kl`.
        data_term: The expected log-likelihood of all examples.
        kl: The KL of all layers.
    """

    elbo: float
    data_term: float
    kl: float


def evidence_lower_bound(
    model: keras.Model,
    x: Any,
    y: Any,
    num_samples: int = 10,
    batch_size: int | None = 256,
    seed: int | None = None,
    batch_statistics: bool = False,
) -> LowerBound:
    """Returns the evidence lower bound of some data, averaged over draws of the noise.

    It is `-(N m) - KL`, where `N` is the number of examples and `m` the mean of the compiled
    loss, which must be a negative log-likelihood, over all examples and draws. The KL has the
    weight 1, whatever the schedule. With the training data this is the bound that training
    maximizes. In contrast to the logs of `fit`, all examples are evaluated with the same
    weights.

    The KL leaves out the constants that `layer.kl_divergence()` leaves out. If a layer
    estimates its KL, the estimates of `num_samples` draws are averaged. Training is not
    affected: no seed generator advances.

    Args:
        model: A compiled model with noise and one output.
        x: As in `tfvn.ensemble_predict`; its draws are kept in memory.
        y: The targets, an array.
        num_samples: Number of draws.
        batch_size: Number of rows at a time.
        seed: Integer that fixes the draws. `None` draws fresh noise in every call.
        batch_statistics: As in `tfvn.ensemble_predict`. `True` evaluates batch
            normalization as the loss of a training step does.

    Returns:
        A `LowerBound` with `elbo`, `data_term` and `kl`.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MeanFieldDense(3, activation="softmax")
    >>> model = tfvn.Sequential([keras.Input((4,)), layer])
    >>> model.compile("adam", "sparse_categorical_crossentropy")
    >>> bound = tfvn.evidence_lower_bound(model, np.ones((8, 4)), np.ones(8), seed=1)
    >>> bound.elbo == bound.data_term - bound.kl
    True

    Reference:

    - [Neklyudov et al., 2019](https://arxiv.org/abs/1803.03764), table 1
    """
    num_samples = check_count("num_samples", num_samples)
    loss = _per_example_loss(model)
    answer = ensemble_predict(
        model,
        x,
        num_samples,
        batch_size,
        seed,
        return_samples=True,
        # The loss takes the outputs as they are.
        outputs="regression",
        verbose=0,
        batch_statistics=batch_statistics,
    )
    if not hasattr(answer, "samples"):
        raise ValueError(
            "Argument `model` must have one output. "
            f"Received: model={model.name!r} with {len(answer)} outputs"
        )
    y = np.asarray(y)
    if len(y) != len(answer.samples):
        raise ValueError(
            "Argument `y` must have one target for each row of `x`. "
            f"Received: {len(y)} targets for {len(answer.samples)} rows"
        )
    if not len(y):
        raise ValueError(
            "Arguments `x` and `y` must have at least one example. Received: none"
        )
    losses = np.stack(
        [
            np.asarray(loss(y, answer.samples[:, draw]), "float64")
            for draw in range(num_samples)
        ]
    )
    if losses.ndim > 2:
        # Predictions do not tell which steps are masked, and the loss leaves these out.
        raise ValueError(
            "The loss of `model` must be one number for each example; models that predict "
            "a value for each time step are not supported. Received: losses of shape "
            f"{losses.shape[1:]} for {len(y)} examples"
        )
    data_term = -len(y) * float(losses.mean())
    kl = _kl(model, num_samples, seed)
    return LowerBound(data_term - kl, data_term, kl)


def _per_example_loss(model: keras.Model) -> Any:
    """Returns a function of targets and outputs that does not average over examples."""
    loss = getattr(model, "loss", None)
    if loss is None or isinstance(loss, dict | list | tuple):
        raise ValueError(
            "Argument `model` must be compiled with one `loss`, a negative "
            f"log-likelihood. Received: model={model.name!r} with loss={loss!r}"
        )
    loss = keras.losses.get(loss)
    return loss.call if isinstance(loss, keras.losses.Loss) else loss


def _kl(model: keras.Model, num_samples: int, seed: int | None) -> float:
    """Returns the KL of all layers; one that has to be estimated is averaged over draws."""
    layers = stochastic_layers(model)
    draws = num_samples if any(layer.estimates_kl for layer in layers) else 1
    root = seed_pair(seed)
    total = 0.0
    for draw in range(draws):
        with passes.changed(stream=random.Stream(random.fold_in(root, draw))):
            total += sum(float(layer.kl_divergence()) for layer in layers)
    return total / draws
