"""`python -m nki_lab.lsp`: the language server."""

import sys

from nki_lab.lsp.start import main

if __name__ == "__main__":
    sys.exit(main())
