"""Data flows one way: a room of the library imports those before it, and none after."""

import ast
from pathlib import Path

import tfvn

LIBRARY = Path(tfvn.__file__).parent
ROOMS = [
    "utils",
    "passes",
    "kernel",
    "support",
    "random",
    "distributions",
    "likelihoods",
    "posteriors",
    "kl",
    "priors",
    "estimators",
    "layers",
    "extending",
    "prediction",
    "training",
    "serving",
    "analysis",
    "datasets",
    "plots",
    "reports",
]
# What stands outside of the library and sees all of it.
OUTSIDE = ["__init__", "__main__", "cli", "experiments"]


def imported(path):
    """Yields the rooms that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "tfvn":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("tfvn."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            yield from (parts[-1] for parts in names if parts[0] == "tfvn")


def test_no_room_imports_a_later_one():
    wrong = []
    for path in LIBRARY.rglob("*.py"):
        room = path.relative_to(LIBRARY).with_suffix("").parts[0]
        if room not in OUTSIDE:
            allowed = ROOMS[: ROOMS.index(room) + 1]
            wrong += [
                (str(path), name) for name in imported(path) if name not in allowed
            ]
    assert not wrong
