"""Answers about the names of a text: where they are bound and mentioned, how they are renamed, what a text consists of.

Nothing of the user's is executed or imported. Half-typed texts are read around the lines that do not parse.
"""
