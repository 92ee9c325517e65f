"""Edits that remove findings: single ones for editors, and all exact ones of a source for `--fix`."""
