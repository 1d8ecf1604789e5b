"""Lets `python -m tfvn` do what the `tfvn` command does.

By the time this runs the package has been imported, so that it takes longer and shows
TensorFlow's start-up messages; the `tfvn` command (`_tfvn_command.py`) is the quick and
quiet way in.
"""

import sys

from _tfvn_command import main

if __name__ == "__main__":
    sys.exit(main())
