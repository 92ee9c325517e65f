"""Completions and signatures at a place of a text that is being typed."""

from nki_lab.query.completion.candidates import Completion, full_text
from nki_lab.query.completion.completing import Completions, completions
from nki_lab.query.completion.inserting import Insertion, inserted
from nki_lab.query.completion.signatures import ParameterHelp, SignatureHelp, signature_help
from nki_lab.query.completion.surroundings import forget

__all__ = [
    "Completion",
    "Completions",
    "Insertion",
    "ParameterHelp",
    "SignatureHelp",
    "completions",
    "forget",
    "full_text",
    "inserted",
    "signature_help",
]
