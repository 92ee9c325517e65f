"""Comparisons of two runs for readers: a sentence, a page of text, HTML, and plain data."""
