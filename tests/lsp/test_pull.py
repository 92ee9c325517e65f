"""An editor that asks for findings is told none unasked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lsp.client import PULLING, Client, codes, connect
from tests.lsp.test_server import FAULTY, SLOW, VERY_SLOW

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def asking() -> Iterator[Client]:
    """An editor that pulls."""
    made = connect()
    assert made.initialize(PULLING, steps=2_400_000)["diagnosticProvider"]["identifier"] == "nki-lab"
    yield made
    told = [item for item in made.seen if item.get("method") == "textDocument/publishDiagnostics"]
    assert made.leave() == 0
    assert told == []


def test_findings_are_given_when_asked_for(asking: Client, uri: str) -> None:
    asking.open(uri, FAULTY)
    found = asking.pulled(uri)
    assert found["kind"] == "full"
    assert codes(found["items"]) == ["NKI201"]


def test_what_has_not_changed_is_not_sent_again(asking: Client, uri: str) -> None:
    asking.open(uri, FAULTY)
    first = asking.pulled(uri)
    again = asking.pulled(uri, previousResultId=first["resultId"])
    assert again == {"kind": "unchanged", "resultId": first["resultId"]}
    asking.change(uri, (0, 0, 0, 0, "\n"))
    assert asking.pulled(uri, previousResultId=first["resultId"])["kind"] == "full"


def test_the_newest_text_is_answered(asking: Client, uri: str) -> None:
    asking.open(uri, FAULTY)
    asking.change(uri, "import nki\n@nki.jit\ndef k(x):\n    y = lambda: 0\n")
    assert codes(asking.pulled(uri)["items"]) == ["NKI121", "NKI104"]


def test_syntax_comes_first_and_the_editor_is_asked_to_ask_again(asking: Client, uri: str) -> None:
    asking.open(uri, SLOW.replace("    return x\n", "    y = lambda: 0\n    return x\n"))
    assert codes(asking.pulled(uri)["items"]) == ["NKI104"]
    asking.receive(lambda item: item.get("method") == "workspace/diagnostic/refresh")
    assert codes(asking.pulled(uri)["items"]) == ["NKI120", "NKI104"]
    asking.shut(uri)


def test_an_editor_asks_again_for_faults_while_their_kernel_is_evaluated(uri: str) -> None:
    client = connect()
    client.initialize(PULLING, steps=72_000_000)
    client.open(uri, VERY_SLOW.replace("    for i", "    nisa.tensor_copy(dst=tile, src=x)\n    for i", 1))
    found = codes(client.pulled(uri)["items"])
    while found == []:
        client.receive(lambda item: item.get("method") == "workspace/diagnostic/refresh")
        found = codes(client.pulled(uri)["items"])
    assert found == ["NKI201"]
    client.shut(uri)
    assert client.leave() == 0


def test_a_text_that_is_not_open_has_no_findings(asking: Client) -> None:
    assert asking.pulled("file:///nowhere.py") == {"kind": "full", "items": []}


def test_a_question_can_be_taken_back(asking: Client, uri: str) -> None:
    asking.open(uri, SLOW)
    number = asking.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    asking.notify("$/cancelRequest", {"id": number})
    assert asking.answer(number)["error"]["code"] == -32800
    asking.shut(uri)


def test_an_editor_that_cannot_be_asked_to_ask_again_gets_everything_at_once() -> None:
    client = connect()
    client.initialize({"textDocument": {"diagnostic": {}}})
    client.open("file:///k.py", SLOW.replace("100000", "3"))
    assert codes(client.pulled("file:///k.py")["items"]) == []
    assert client.leave() == 0
