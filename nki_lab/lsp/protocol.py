"""The protocol as this server speaks it: it keeps the texts itself, and its exit status tells how it ended."""

from __future__ import annotations

import typing
from collections.abc import Generator
from typing import Any, Final, Protocol

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest, JsonRpcServerNotInitialized
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.protocol.json_rpc import RPCRequest

from nki_lab.lsp.convert import plain

if typing.TYPE_CHECKING:
    from nki_lab.lsp.settings import Settings
    from nki_lab.lsp.texts import Texts


_SYNCHRONIZING: Final = (
    lsp.TEXT_DOCUMENT_DID_OPEN,
    lsp.TEXT_DOCUMENT_DID_CHANGE,
    lsp.TEXT_DOCUMENT_DID_CLOSE,
    lsp.NOTEBOOK_DOCUMENT_DID_OPEN,
    lsp.NOTEBOOK_DOCUMENT_DID_CHANGE,
    lsp.NOTEBOOK_DOCUMENT_DID_CLOSE,
)
"""What keeps the texts of the server those of the editor."""


class Host(Protocol):
    """The server as the protocol sees it."""

    texts: Texts
    settings: Settings
    encoding: str

    def text_changed(self, uri: str, *, opened: bool = False) -> None: ...
    def unit_closed(self, uri: str, cells: list[str]) -> None: ...
    def leave(self, status: int) -> None: ...
    def complain(self, text: str) -> None: ...


class Dialogue(LanguageServerProtocol):
    """Takes in texts and notebooks.

    The library's own copy of a text ends lines where Python's `splitlines` does, form feeds included, and would go out
    of step with the editor's.
    """

    answered: object = None  # the id of the `initialize` that the editor has an answer to
    _greeted = False

    @property
    def host(self) -> Host:
        """Return the server."""
        return typing.cast("Host", self._server)

    @lsp_method(lsp.INITIALIZE)
    def lsp_initialize(self, params: lsp.InitializeParams) -> Generator[object, object, lsp.InitializeResult]:
        """Take the settings that the editor may send with its capabilities."""
        self._greeted = True
        self.host.settings.begin(plain(params.initialization_options))
        return (yield from super().lsp_initialize(params))

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Return a message as objects.

        A request that cannot be understood is answered with an error; an answer that cannot be ends what waits for it.
        """
        number = data.get("id")
        if data.get("jsonrpc") == self.VERSION and "method" in data and not (number is None or _is_id(number)):
            refused = JsonRpcInvalidRequest("the id of a request is a number or a string")
            error = {"code": refused.code, "message": refused.message}
            self._send_data({"jsonrpc": self.VERSION, "id": None, "error": error})
            raise refused
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if data.get("method") == lsp.INITIALIZE:
                return super().structure_message(data | {"params": self._understood(data.get("params"))})
            bare = _without_nulls(data.get("params"))
            if "method" in data and bare != data.get("params"):  # some editors send null for what they leave out
                return self.structure_message(data | {"params": bare})
            if data.get("method") in _SYNCHRONIZING and "id" not in data:
                self.host.complain(
                    f"a message {data['method']} whose parameters have not the protocol's form is passed over:"
                    " findings may be about an older text until the file is closed and opened again"
                )
            if _is_id(data.get("id")) and "method" in data:
                self._send_response(data["id"], error=error.to_response_error())
            asked = self._request_futures.pop(data["id"], None) if _is_answer(data) else None
            if asked is not None:
                asked.set_exception(type(error)())  # another object: who waits for it clears the frames it came through
            raise

    def _understood(self, params: object) -> dict[str, Any]:
        """Return those parameters of `initialize` that have the protocol's form: one that has not costs no other."""
        message = {"jsonrpc": self.VERSION, "id": 0, "method": lsp.INITIALIZE}
        least: dict[str, Any] = {"capabilities": {}, "processId": None}
        given = params if isinstance(params, dict) else {}

        def fits(**more: object) -> bool:
            try:
                super(Dialogue, self).structure_message(message | {"params": least | more})
            except JsonRpcException:
                return False
            return True

        found = {name: value for name, value in given.items() if name != "capabilities" and fits(**{name: value})}
        able: dict[str, Any] = {}
        groups = given.get("capabilities")
        for group, members in groups.items() if isinstance(groups, dict) else ():
            if fits(capabilities={group: members}):
                able[group] = members
            elif isinstance(members, dict):
                able[group] = {name: item for name, item in members.items() if fits(capabilities={group: {name: item}})}
        return least | found | {"capabilities": able}

    def handle_message(self, message: Any) -> None:
        """Take a message; a request before `initialize` or after `shutdown` is refused."""
        if isinstance(message, RPCRequest) and message.jsonrpc == self.VERSION:
            refused = self._refusal(message.method)
            if refused is not None:
                self._send_response(message.id, error=refused.to_response_error())
                return
        super().handle_message(message)

    def _refusal(self, method: str) -> JsonRpcException | None:
        if self._shutdown:
            return JsonRpcInvalidRequest("the server is shut down: `exit` alone may follow")
        if not self._greeted and method not in (lsp.INITIALIZE, lsp.SHUTDOWN):
            return JsonRpcServerNotInitialized("the first request is `initialize`")
        return None

    def _send_response(self, msg_id: int | str, result: Any = None, error: lsp.ResponseError | None = None) -> None:
        if self.answered is not None and msg_id == self.answered:
            self.answered = None
            self._result_types.pop(msg_id, None)
            return
        super()._send_response(msg_id, result, error)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: lsp.DidOpenTextDocumentParams) -> None:
        """Take in a text."""
        self.host.texts.open(params.text_document)
        self.host.text_changed(params.text_document.uri, opened=True)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: lsp.DidChangeTextDocumentParams) -> None:
        """Take in changes of a text."""
        text = self.host.texts.texts.get(params.text_document.uri)
        if text is not None:
            text.apply(params.text_document.version, params.content_changes, self.host.encoding)
            self.host.text_changed(text.uri)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: lsp.DidCloseTextDocumentParams) -> None:
        """Forget a text."""
        self.host.texts.close(params.text_document.uri)
        self.host.unit_closed(params.text_document.uri, [params.text_document.uri])

    @lsp_method(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(self, params: lsp.DidOpenNotebookDocumentParams) -> None:
        """Take in a notebook."""
        self.host.texts.open_notebook(params)
        self.host.text_changed(params.notebook_document.uri, opened=True)

    @lsp_method(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(self, params: lsp.DidChangeNotebookDocumentParams) -> None:
        """Take in changes of cells and of their order."""
        uri = params.notebook_document.uri
        if uri in self.host.texts.notebooks:
            self.host.texts.change_notebook(params, self.host.encoding)
            self.host.text_changed(uri)

    @lsp_method(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(self, params: lsp.DidCloseNotebookDocumentParams) -> None:
        """Forget a notebook."""
        uri = params.notebook_document.uri
        self.host.unit_closed(uri, self.host.texts.close_notebook(uri))

    @lsp_method(lsp.EXIT)
    def lsp_exit(self, *_params: object) -> Generator[object, object, None]:
        """End with status 0 after `shutdown`, with 1 otherwise."""
        self.host.leave(0 if self._shutdown else 1)
        yield from ()


def _without_nulls(value: Any) -> Any:
    """Return parameters without members that are null."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _is_answer(data: dict[str, Any]) -> bool:
    return "method" not in data and _is_id(data.get("id"))


def _is_id(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)
