"""Single faults put into kernels are found, at their line and with their code; kernels without one have no error.

`python tests/recall/run.py --faults 200` is the same over many more.
"""

from __future__ import annotations

import pytest

from tests.draws import Seeded as Draws
from tests.recall.run import WANTED, Score, Subject, is_found, subjects_of
from tests.recall.seeding import SEEDERS, Kernel, Seeded
from tests.recall.subjects import files

pytestmark = pytest.mark.extended

FAULTS = 3  # for each kernel
KERNELS = [subject for file in files() for subject in subjects_of(file)]
TILED = next(subject for subject in KERNELS if subject.name == "load_each")


def test_nearly_every_seeded_fault_is_found() -> None:
    score = Score()
    for place, subject in enumerate(KERNELS):
        for number in range(FAULTS):
            fault = subject.draw(1000 * number + place)
            score.add(subject, fault, subject.findings(fault.text))
    assert score.share >= WANTED, "\n".join(score.missed)
    assert len(score.seeded) >= 7, "the faults are of many kinds"


def test_there_are_twenty_kernels() -> None:
    assert len(KERNELS) >= 20


@pytest.mark.parametrize("subject", KERNELS, ids=lambda subject: f"{subject.file.stem}-{subject.name}")
def test_kernels_without_a_fault_have_no_error(subject: Subject) -> None:
    assert subject.errors() == []


def test_a_fault_elsewhere_or_of_another_code_does_not_count() -> None:
    fault = TILED.draw(0)
    findings = TILED.findings(fault.text)
    assert is_found(fault, findings)
    assert not is_found(Seeded(fault.text, "", "", ("NKI999",), fault.first, fault.last), findings)
    assert not is_found(Seeded(fault.text, "", "", fault.codes, 9000, 9001), findings)


def test_every_seeder_has_something_to_spoil() -> None:
    kernel = Kernel(TILED.text, TILED.name, TILED.target)
    for seeder in SEEDERS:
        made = [seeder(kernel, Draws(number)) for number in range(20)]
        assert any(item is not None and item.text != kernel.text for item in made), seeder.__name__
