"""What a user sees of the library: documented names, and nothing else."""

import importlib
import inspect
import pkgutil
import types

import pytest

import tfvn

MODULES = {
    "tfvn": tfvn,
    **{
        f"tfvn.{name}": getattr(tfvn, name)
        for name in tfvn.__all__
        if isinstance(getattr(tfvn, name), types.ModuleType)
    },
}
PACKAGES = ["tfvn"] + [
    module.name
    for module in pkgutil.walk_packages(tfvn.__path__, "tfvn.")
    if module.ispkg
]


def test_modules_for_users():
    assert [*MODULES][1:] == [
        "tfvn.callbacks",
        "tfvn.datasets",
        "tfvn.distributions",
        "tfvn.estimators",
        "tfvn.extending",
        "tfvn.kl",
        "tfvn.layers",
        "tfvn.learning_rates",
        "tfvn.likelihoods",
        "tfvn.losses",
        "tfvn.metrics",
        "tfvn.optimizers",
        "tfvn.plots",
        "tfvn.posteriors",
        "tfvn.priors",
        "tfvn.schedules",
        "tfvn.serving",
    ]


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
class TestModule:
    def test_shows_what_is_for_users(self, module):
        assert dir(module) == sorted(module.__all__)
        assert module.__doc__

    def test_names_are_its_own_and_documented(self, module):
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, str):  # a constant
                continue
            assert inspect.getdoc(value), name
            if isinstance(value, types.ModuleType):
                home = value.__name__
            else:
                home = getattr(value, "__module__", type(value).__module__)
            assert home.startswith("tfvn."), (name, home)


@pytest.mark.parametrize("name", PACKAGES)
def test_no_module_hides_a_name(name):
    package = importlib.import_module(name)
    files = {module.name for module in pkgutil.iter_modules(package.__path__)}
    for public in files & {*getattr(package, "__all__", ())}:
        # A file may bear the name of the module that users see, and is it.
        value = getattr(package, public)
        assert value is importlib.import_module(f"{name}.{public}"), public
