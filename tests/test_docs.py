"""What the documentation shows is run: README, docstrings, examples."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tfvn

ROOT = Path(__file__).parent.parent
MODULES = [
    module.name
    for module in pkgutil.walk_packages(tfvn.__path__, "tfvn.")
    if not module.name.endswith("__main__")
]


def python_blocks(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)


def test_readme_example_runs_as_printed(capsys):
    first, second = python_blocks(ROOT / "README.md")
    assert len([line for line in first.splitlines() if line]) == 12
    scope = {}
    exec(first, scope)
    accuracy = float(capsys.readouterr().out.splitlines()[-1].split("accuracy: ")[1])
    assert accuracy > 0.95
    exec(second, scope)
    assert scope["layer"].kl_weight.numpy() == pytest.approx(1 / 1437)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    failures, _ = doctest.testmod(module, extraglobs={"tfvn": tfvn})
    assert failures == 0


def test_every_public_class_has_an_example():
    missing = [
        name
        for name in tfvn.__all__
        if isinstance(getattr(tfvn, name), type)
        and ">>> " not in (getattr(tfvn, name).__doc__ or "")
    ]
    assert missing == []


def test_readme_names_the_two_commands_and_make_knows_them():
    makefile = (ROOT / "Makefile").read_text()
    for command in ("quickstart", "test"):
        assert f"make {command}" in (ROOT / "README.md").read_text()
        assert re.search(rf"^{command}:", makefile, flags=re.MULTILINE)


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=str)
def test_examples_explain_themselves(script):
    run = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=True
    )
    assert "--quick" in run.stdout
    assert run.stderr == ""
