"""Launcher of the `tfvn` command.

This module is outside the package on purpose. Importing anything of `tfvn` runs
`tfvn/__init__.py`, which imports TensorFlow, and TensorFlow's C++ logger reads
`TF_CPP_MIN_LOG_LEVEL` once, while it loads. So the variable has to be set by code that
runs before the package does.

`TF_CPP_MIN_LOG_LEVEL=0 tfvn ...` shows everything TensorFlow has to say.
"""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# What the C++ logger writes: its own header, and info, warning and error lines.
# Level 3 hides the same three severities once the logger is set up.
_NOISE = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog"
    rb"|[IWE]\d{4} \d\d:\d\d:[\d.]+ +\d+ \S+:\d+\]"
)


def main() -> int:
    """Runs the command and returns its exit status."""
    try:
        with quiet_tensorflow():
            from tfvn import cli
    except KeyboardInterrupt:
        return 130
    return cli.main()


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Imports inside it keep TensorFlow's log lines off stderr, and nothing else.

    Where `TF_CPP_MIN_LOG_LEVEL` is set it does nothing: the user has decided.

    TensorFlow logs while its libraries load (one line per library for a missing GPU
    driver), before the logger has read `TF_CPP_MIN_LOG_LEVEL`; no variable stops these
    lines. They are written to the file descriptor, not to `sys.stderr`.
    """
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = "3"
    sys.stderr.flush()
    with tempfile.TemporaryFile() as captured:
        stderr = os.dup(2)
        os.dup2(captured.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            captured.seek(0)
            for line in captured:
                if not _NOISE.match(line):
                    os.write(2, line)


if __name__ == "__main__":
    sys.exit(main())
