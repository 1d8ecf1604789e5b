"""`tfvn predict`, as a user calls it."""

import numpy as np
import tensorflow as tf

from tfvn import cli


def answered(capsys, *arguments):
    """Returns what the command prints."""
    assert cli.main(["predict", *map(str, arguments)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys, *arguments):
    """Returns the one line that the command ends with."""
    assert cli.main(["predict", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tfvn: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def write_png(path, pixels):
    path.write_bytes(tf.io.encode_png(np.asarray(pixels)).numpy())
