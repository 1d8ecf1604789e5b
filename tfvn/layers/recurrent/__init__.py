"""Recurrent layers and cells with random kernels."""
