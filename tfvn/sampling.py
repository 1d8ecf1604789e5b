"""When layers that are quiet at inference draw all the same.

Noise layers, like `keras.layers.Dropout`, act in training only. An ensemble needs their
noise at inference, without the rest of the model (batch normalization, say) believing
that it is being trained.
"""

import contextlib

from tfvn import passes


def drawing() -> contextlib.AbstractContextManager[passes.Pass]:
    """Makes noise layers of this library that are called, or traced, in the context draw.

    The state belongs to the thread (or task) that entered the context, and to no model.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> layer = tfvn.MultiplicativeNoise()
    >>> with tfvn.sampling.drawing():
    ...     bool((layer(np.ones((50, 4))).numpy() == 1.0).all())
    False
    >>> bool((layer(np.ones((50, 4))).numpy() == 1.0).all())
    True
    """
    return passes.changed(draws_noise=True)
