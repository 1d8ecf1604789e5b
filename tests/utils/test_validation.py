"""The checks of single arguments that constructors share."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tfvn.utils import validation

WHOLE = [3, np.int64(3), np.uint8(3), np.array(3), tf.constant(3)]
NUMBERS = [0.5, np.float32(0.5), np.float16(0.5), np.array(0.5), tf.constant(0.5)]
NO_NUMBERS = [True, np.True_, np.array([True])[0], tf.equal(0, 0), "3", None, [3], 1j]


@pytest.mark.parametrize("value", WHOLE, ids=repr)
def test_every_kind_of_integer_is_a_count(value):
    count = validation.check_count("patience", value)
    assert count == 3
    assert type(count) is int


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_every_kind_of_number_is_a_number(value):
    number = validation.check_number("factor", value, above=0, below=1)
    assert number == 0.5
    json.dumps(number)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_other_things_are_not(value):
    with pytest.raises(ValueError, match=r"Argument `n` must be .*Received: n="):
        validation.check_count("n", value)
    with pytest.raises(ValueError, match=r"Argument `n` must be .*Received: n="):
        validation.check_number("n", value)


def test_bounds():
    with pytest.raises(ValueError, match=r"an integer of at least 2. Received: n=1"):
        validation.check_count("n", 1, least=2)
    assert validation.check_count("n", 0, least=0) == 0
    with pytest.raises(ValueError, match="an integer"):
        validation.check_count("n", 3.0)
    inside = {"least": 0, "most": 1}
    assert validation.check_number("n", 0, **inside) == 0
    assert validation.check_number("n", 1, **inside) == 1
    for value in (-0.1, 1.1, float("nan"), float("inf"), np.float32("-inf")):
        with pytest.raises(ValueError, match="of at least 0 and of at most 1"):
            validation.check_number("n", value, **inside)
    for value in (0, 1):
        with pytest.raises(
            ValueError, match="greater than 0 and smaller than 1 or None"
        ):
            validation.check_number("n", value, above=0, below=1, remark=" or None")


def test_choices():
    assert validation.check_choice("mode", "min", ("min", "max")) == "min"
    assert type(validation.check_choice("mode", np.str_("min"), ("min",))) is str
    for value in ("median", 1, None, np.ones(2)):
        with pytest.raises(
            ValueError, match=r"one of \['min', 'max'\]. Received: mode="
        ):
            validation.check_choice("mode", value, ("min", "max"))


def test_none_where_it_is_allowed():
    assert validation.check_count("steps", None, or_none=True) is None
    assert validation.check_number("scale", None, above=0, or_none=True) is None
    with pytest.raises(ValueError, match=r"be `None` or an integer of .*steps=0"):
        validation.check_count("steps", 0, or_none=True)
    with pytest.raises(ValueError, match=r"be `None` or a finite number .*scale=-1"):
        validation.check_number("scale", -1, above=0, or_none=True)
    with pytest.raises(ValueError, match=r"must be an integer.*steps=None"):
        validation.check_count("steps", None)
