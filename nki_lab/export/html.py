"""A recording as one HTML file that needs nothing else: the views, the run itself, and a report as text.

The page draws what notebooks draw, by the same scripts. No network, no other file; where scripts do not run, the text
is there.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from typing import Final

from nki_lab.export import formatting
from nki_lab.export.files import replacing
from nki_lab.export.text import report
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.printable import escape
from nki_lab.wire import CHUNK, RANGE, WHOLE, Messages, compact, script

MESSAGE_ID: Final = "nki-lab-message"
"""The element that the views' script reads the run from: its message in the zlib format, in base64."""

ROWS_CLASS: Final = "nki-lab-rows"
"""The class of elements with further rows, in order, in the same form. They stand behind the script, which draws
before the browser has read them."""

VALUES_CLASS: Final = "nki-lab-values"
"""The class of elements with the values of pinned tiles, in the same form."""

VIEWS: Final = '<div id="nki-lab"></div>'
"""The element that the views' script draws into. With `data-channel` the views talk with charts of the page."""

# Not even a damaged name can make the page ask the network for something.
POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 0; background: light-dark(#fff, #16181c); color: light-dark(#14161a, #f1f3f5); }
#nki-lab { box-sizing: border-box; max-width: 2560px; margin: 0 auto; padding: 16px; }
noscript pre { margin: 16px; overflow-x: auto; }
"""
CLOSING: Final = ("</script", "<\\/script")  # inside a script's strings both mean the same


def sharing(page: str, script_at: str) -> str:
    """Return a page that loads the views' script from the address `script_at` in place of carrying it.

    For sites with many runs; such a page asks its own server, or the folder that it lies in, and nobody else.
    """
    inline = f"<script>{_script()}</script>"
    if inline not in page:
        raise ValueError("the page does not carry the views' script of this version")
    policy = POLICY.replace("script-src", "script-src 'self' file:")
    return page.replace(inline, f'<script src="{escape(script_at)}"></script>').replace(POLICY, policy)


def _script() -> str:
    return script("visualizer.js").replace(*CLOSING)


def html(recording: Recording, values: Sequence[bytes] = ()) -> str:
    """The page of a recording. Of a run of more than a million rows it carries the first rows, and sums of all.

    `values` are messages of pinned tiles.
    """
    name = str(recording.summary.get("kernel") or "kernel")
    taken = formatting.makespan(recording.summary, recording.makespan)
    messages = Messages(recording, fault=int(recording.summary.get("fault", -1)))
    count = len(recording) if len(recording) <= WHOLE else RANGE
    message = text_of(messages.whole(0, min(CHUNK, count)))
    tiles = "".join(_island(VALUES_CLASS, item) for item in values)
    rows = (
        _island(ROWS_CLASS, messages.rows(first, min(CHUNK, count - first))) for first in range(CHUNK, count, CHUNK)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)}: {taken}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{VIEWS}\n<noscript><pre>{escape(_text(recording))}</pre></noscript>\n"
        f'<script type="text/plain" id="{MESSAGE_ID}">{message}</script>\n{tiles}'
        f"<script>{_script()}</script>\n{''.join(rows)}</body>\n</html>\n"
    )


def _island(kind: str, message: bytes) -> str:
    """An element with a message that the views' script reads."""
    return f'<script type="text/plain" class="{kind}">{text_of(message)}</script>\n'


def text_of(message: bytes) -> str:
    """Return a message as elements carry it: in the zlib format, in base64."""
    return base64.b64encode(compact(message)).decode("ascii")


def _text(recording: Recording) -> str:
    """The report, and where the times are from: those of a profile may come from a device."""
    profiled = "profile" in recording.summary
    origin = (
        "Read from a Neuron Explorer profile by nki_lab." if profiled else "Simulated by nki_lab; no device was used."
    )
    return f"{report(recording)}\n{origin}\n"


def write(
    recording: Recording,
    path: str | os.PathLike[str],
    values: Sequence[bytes] = (),
    more: Callable[[str], str] = str,
) -> None:
    """Write the page of a recording into a file; `more` adds to it. Raises NKI021 if the disk does not take it."""
    content = more(html(recording, values)).encode()
    with replacing(path) as stream:
        stream.write(content)
