"""The command that starts the server: `nki-lab lsp`, `python -m nki_lab.lsp`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from nki_lab.extras import extra
from nki_lab.lsp.handshake import shake_hands
from nki_lab.lsp.streams import own_streams


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--stdio", action="store_true", help="speak over standard input and output (default)")
    group.add_argument("--tcp", metavar="HOST:PORT", type=_address, help="speak over one TCP connection")
    parser.add_argument("--verbose", action="store_true", help="log every message to standard error")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT")
    return host.strip("[]"), int(port)


def serve(arguments: argparse.Namespace) -> int:
    """Serve one editor; gives the exit status: 0 where it left in order. NKI022 if the extra `lsp` is missing."""
    require()
    level = logging.DEBUG if arguments.verbose else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="%(levelname)s %(name)s: %(message)s")
    if not arguments.verbose:
        logging.getLogger("pygls").setLevel(logging.CRITICAL)
    if arguments.tcp:
        from nki_lab.lsp.transport import serve_tcp

        return serve_tcp(*arguments.tcp)
    source, output = own_streams()
    beginning, answered = shake_hands(source, output)
    from nki_lab.lsp.transport import serve_stdio  # now that the editor has its answer

    return serve_stdio(source, output, beginning, answered)


def require() -> None:
    """Raise NKI022 where a package of the server is missing; none of them is loaded."""
    with extra("lsp", "the language server needs"):
        for name in ("lsprotocol", "pygls"):
            if find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv`, that of the process where not given."""
    parser = argparse.ArgumentParser(prog="python -m nki_lab.lsp", description="The language server for NKI kernels.")
    add_arguments(parser)
    return serve(parser.parse_args(argv))
