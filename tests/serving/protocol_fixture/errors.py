"""The errors of the server, by the names of what is wrong with a request."""

import tensorflow as tf


def invalid(message: str) -> tf.errors.OpError:
    """Returns the error of a request that no version could answer."""
    return tf.errors.InvalidArgumentError(None, None, message)


def precondition(message: str) -> tf.errors.OpError:
    """Returns the error of a request that this model cannot answer."""
    return tf.errors.FailedPreconditionError(None, None, message)


def missing(message: str) -> tf.errors.OpError:
    """Returns the error of a request to what is not there."""
    return tf.errors.NotFoundError(None, None, message)
