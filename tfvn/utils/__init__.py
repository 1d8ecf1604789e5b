"""What the rest of the library is built with."""
