"""Convolutions with a random kernel."""
