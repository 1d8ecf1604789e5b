"""What all rooms of the library use and none of them owns."""
