"""Recordings in the formats of other programs: Perfetto, Neuron Explorer, spreadsheets, plain text."""
