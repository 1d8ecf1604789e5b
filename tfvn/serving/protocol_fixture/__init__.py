"""TensorFlow Serving's protocols on loopback, for tests and to try an export.

It needs `pip install "tfvn[serving]"`. It is no server for anybody else: it listens to this
machine alone, and it is not TensorFlow Serving.
"""

from tfvn.serving.protocol_fixture.server import ProtocolFixture

__all__ = ["ProtocolFixture"]
