"""Lets `python -m tfvn` do what the `tfvn` command does.

By the time this runs the package has been imported, so TensorFlow's start-up messages
are shown here; the `tfvn` command (`_tfvn_command.py`) is the quiet way in.
"""

import sys

from tfvn import cli

if __name__ == "__main__":
    sys.exit(cli.main())
