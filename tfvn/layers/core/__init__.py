"""Dense layers with a random kernel."""
