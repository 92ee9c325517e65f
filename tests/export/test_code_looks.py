"""Names in code are told apart by looks, and every look can be read."""

from __future__ import annotations

import pytest

from nki_lab.export.code_looks import CONTRAST, GROUND, LOOKS, contrast, readable
from nki_lab.export.colours import COLOURS, Colour
from nki_lab.kernel_runtime.vocabulary import MEMORIES
from nki_lab.query.token_kinds import ENGINE_MODIFIERS, MODIFIERS


def test_whatever_the_server_tells_apart_has_a_look_of_its_own() -> None:
    wanted = {*MEMORIES, "compileTime", "register", *ENGINE_MODIFIERS.values()}
    assert wanted <= LOOKS.keys() <= set(MODIFIERS)
    assert len({LOOKS[name] for name in wanted}) == len(wanted)


def test_memories_are_told_apart_without_hue() -> None:
    assert len({LOOKS[name].style for name in MEMORIES}) == len(MEMORIES)
    grey = LOOKS["hbm"].colour
    assert grey is not None
    assert all(max(channels) - min(channels) < 32 for channels in map(bytes.fromhex, (grey.light[1:], grey.dark[1:])))


@pytest.mark.parametrize("name", [name for name, look in LOOKS.items() if look.colour])
def test_text_has_contrast_with_the_ground_in_both_themes(name: str) -> None:
    colour = LOOKS[name].colour
    assert colour is not None
    assert contrast(colour.light, GROUND.light) >= CONTRAST
    assert contrast(colour.dark, GROUND.dark) >= CONTRAST


def test_a_colour_that_is_readable_stays_what_it_is() -> None:
    assert readable(COLOURS["vector"]) == Colour(*COLOURS["vector"][:2])
    assert readable(COLOURS["scalar"]) != Colour(*COLOURS["scalar"][:2])


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
