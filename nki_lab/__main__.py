"""`python -m nki_lab`, and the command `nki-lab`: the command line."""

import gc
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name; that of the process where not given).

    An editor waits for `nki-lab lsp`, which is started without loading the other commands.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["lsp"], ["lsp", "--stdio"]):
        from nki_lab.lsp import start

        try:
            return start.main(words[1:])
        except KeyboardInterrupt:
            return 130
        except Exception as error:
            if not hasattr(error, "diagnostics"):
                raise
    try:
        collects = gc.isenabled()
        gc.disable()  # modules make a hundred thousand objects, which stay
        try:
            from nki_lab.cli import main as command  # which also says what the server lacks
        finally:
            gc.freeze()
            if collects:
                gc.enable()
        return command(words)
    except KeyboardInterrupt:  # while modules are loaded
        print("cancelled", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
