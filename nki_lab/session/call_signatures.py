"""The signatures of one call, of the kernel and of the helpers that it reaches, for the record of calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.tracer import trace
from nki_lab.session.launch import Launch
from nki_lab.source.callables import code_of

if TYPE_CHECKING:
    from nki_lab.call_records.values import Data


class CallSignatures:
    """The signatures of a call while it runs: `begin` takes the kernel's arguments, `end` keeps all of them.

    A call that does not end well is not kept: its arguments may be what a test expects the kernel to refuse. Nor are
    the helpers of a call that equals a known one, which reaches the same places.
    """

    def __init__(self, launch: Launch) -> None:
        from nki_lab.call_records.call_log import CallLog  # loaded by those who record

        self._launch = launch
        self._code = code_of(launch.function)
        self._log = CallLog((self._code, trace.__code__))
        self._arguments: dict[str, Data] | None = None

    def begin(self, arguments: Mapping[str, object], builder: Builder) -> bool:
        """Take the arguments as the kernel gets them, and watch what `builder` records; return whether they are new."""
        from nki_lab.call_records.recorder import recorder
        from nki_lab.call_records.values import encoded

        launch, code = self._launch, self._code
        taken = {name: encoded(value) for name, value in arguments.items()}
        if code is not None and recorder.knows(code, taken, launch.grid, launch.arch.target):
            return False
        self._arguments = taken
        builder.on_new_place = self._log.note
        return True

    def end(self) -> None:
        """Keep the signatures, once."""
        from nki_lab.call_records.recorder import recorder

        arguments, self._arguments = self._arguments, None
        if arguments is None:
            return
        grid, target, code = self._launch.grid, self._launch.arch.target, self._code
        if code is not None:
            recorder.add(code, arguments, grid, target, inner=False)
        for call in self._log.calls():
            recorder.add(call.code, call.arguments, grid, target, inner=True)
