"""TensorFlow Serving's protocols on loopback, to ask exports as a client would.

It is test equipment and no server: it listens to this machine alone, and it is not
TensorFlow Serving.
"""

from protocol_fixture.server import ProtocolFixture

__all__ = ["ProtocolFixture"]
