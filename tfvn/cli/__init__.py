"""The commands of `tfvn`: one module for each, with a function `run`.

Their arguments and help texts are in `arguments`, which `_tfvn_command.py`, outside of the
package, reads before it imports TensorFlow.
"""

from _tfvn_command import main

__all__ = ["main"]
