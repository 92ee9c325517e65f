"""The picture and the card: small, drawn without a browser, and true to the recording."""

from __future__ import annotations

import re
import struct
import zlib
from html.parser import HTMLParser
from typing import Any

import numpy as np
from hypothesis import given, settings

from nki_lab.export import picture
from nki_lab.export.card import card
from nki_lab.export.colours import COLOURS
from nki_lab.kernel_runtime.recording import Recording
from tests.recordings import drawn, synthetic
from tests.scale import scaled

EVIL = "<script>alert(1)</script>"


def pixels(png: bytes) -> np.ndarray[Any, Any]:
    """The pixels of a PNG file as the module writes it, with its checksums checked."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, {}
    while place < len(png):
        (size,) = struct.unpack(">I", png[place : place + 4])
        kind, data = png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        assert struct.unpack(">I", png[place + 8 + size : place + 12 + size])[0] == zlib.crc32(kind + data)
        chunks[kind] = data
        place += 12 + size
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, colour) == (8, 2)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert (lines[:, 0] == 2).all()
    return np.cumsum(lines[:, 1:].astype(np.uint64), axis=0).astype(np.uint8).reshape(height, width, 3)


def one_lane() -> Recording:
    """The Tensor Engine works for the second half of the run."""
    tables = synthetic(4, lanes=1)
    tables["lanes"]["name"], tables["lanes"]["kind"] = ["tensor"], [0]
    tables["rows"]["start"] = np.array([500, 600, 700, 800])
    tables["rows"]["duration"] = np.array([100, 100, 100, 200])
    for name in ("ready", "setup", "after"):
        tables["rows"].pop(name, None)
    return Recording(tables, {"kernel": "k"}, 1000)


def test_work_is_drawn_where_it_was_in_the_engines_hue() -> None:
    image = pixels(picture.png(one_lane(), 100))
    bar = image[picture.LANE // 2 - 2]
    hue = list(bytes.fromhex(COLOURS["tensor"].light[1:]))
    assert (bar[:50] == 255).all()
    assert (bar[51:99] == hue).all()


@settings(max_examples=scaled(50))
@given(drawn())
def test_any_recording_has_a_picture_of_its_lanes(recording: Recording) -> None:
    lines = picture.lines(recording)
    assert pixels(picture.png(recording, 40)).shape == (picture.height(len(lines)), 40, 3)
    assert all(line.busy > 0 for line in lines)


def test_a_picture_of_a_long_run_is_small() -> None:
    assert len(picture.png(Recording(synthetic(100_000)))) < 100_000


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.said = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said += data


def test_a_card_says_what_matters_and_escapes_what_users_wrote() -> None:
    findings = [{"code": "NKI301", "message": EVIL, "severity": "warning", "outcome": "advice"}] * 7
    summary = {"kernel": EVIL, "target": "trn2", "diagnostics": findings, "sbuf_peak_bytes_per_partition": 4608}
    page = Tags(card(Recording(synthetic(500), summary), b"png", "more elsewhere"))
    assert {tag for tag, _ in page.found} <= {"div", "b", "span", "img"}
    for text in (EVIL, "trn2 · 500 instructions", "SBUF 4.5 KiB of 224 KiB", "and 2 more findings", "more elsewhere"):
        assert text in page.said
    (source,) = [attrs["src"] for tag, attrs in page.found if tag == "img"]
    assert re.match(r"data:image/png;base64,[A-Za-z0-9+/=]+$", str(source))


def test_a_failed_run_is_called_one() -> None:
    assert "up to the fault" in card(Recording(synthetic(20), {"fault": 19}), b"")
    assert "up to the fault" not in card(Recording(synthetic(20)), b"")


def test_a_share_below_a_tenth_of_a_percent_is_text() -> None:
    tables = synthetic(4, lanes=1)
    tables["lanes"]["name"], tables["lanes"]["kind"] = ["tensor"], [0]
    page = card(Recording(tables, {}, 1 << 50), b"")
    assert "Tensor &lt; 0.1 %</div>" in page


def test_a_card_says_how_many_rows_its_picture_leaves_out() -> None:
    tables = synthetic(40, lanes=14)
    tables["lanes"] = {"name": ["vector"] * 14, "kind": [0] * 14, "core": list(range(14)), "rank": list(range(14))}
    recording = Recording(tables)
    left_out = len(picture.busy_lines(recording)) - len(picture.lines(recording))
    assert left_out == 14 - picture.LANES
    assert f"and {left_out} more rows of engines and DMA" in card(recording, b"")
    assert "more row" not in card(one_lane(), b"")


def test_a_run_without_time_has_a_card_without_a_picture() -> None:
    page = Tags(card(Recording({}, {"kernel": "empty"}), b""))
    assert "empty" in page.said
    assert not [tag for tag, _ in page.found if tag == "img"]
