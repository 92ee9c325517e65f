"""Neuron Explorer's Parquet profiles: a recording written as one, and one read as a recording."""
