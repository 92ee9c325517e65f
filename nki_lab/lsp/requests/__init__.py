"""One file a request: convert, ask, convert back."""
