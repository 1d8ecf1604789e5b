"""What a refusal looks like: one sentence, and what was received."""

import re

import pytest

import tfvn

LAYERS = {
    "Dense": (tfvn.layers.Dense, (3,), (None, 4)),
    "Conv2D": (tfvn.layers.Conv2D, (4, 3), (None, 8, 8, 2)),
}


def refuse(match, call, exception=ValueError):
    """Checks that a call is refused, and the form of the message."""
    with pytest.raises(exception, match=match) as caught:
        call()
    message = str(caught.value)
    assert "Received" in message
    # One sentence, and what was received.
    sentence, _, received = message.partition("Received: ")
    assert re.search(r"[.;] *$", sentence), message
    assert not re.search(r"\.\s+[A-Z]", sentence.strip()), message
    assert received
    return message
