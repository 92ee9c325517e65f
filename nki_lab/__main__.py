"""`python -m nki_lab`: the command line."""

import sys

from nki_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
