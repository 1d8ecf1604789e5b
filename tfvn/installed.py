"""What is installed beside the library."""

from importlib import metadata


def version(distribution: str) -> str:
    """Returns the version of a distribution, or that it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        # A source tree that was not installed, or TensorFlow under another name
        # (tensorflow-cpu): both run, neither has a version to show.
        return "(not installed)"
