"""What the commands of `tfvn` do: a module each, with a function `run`.

Their arguments and their help are in `_tfvn_command.py`, outside of the package, so that
they are read before TensorFlow is imported.
"""

from _tfvn_command import main

__all__ = ["main"]
