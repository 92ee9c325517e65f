"""`run_ranks`: one kernel on several ranks, which exchange data through `nki.collectives`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.kernel_runtime.collectives.rank_group import Rank, RankGroup, local
from nki_lab.result.calls import run
from nki_lab.result.outcome import Run


def run_ranks(kernel: Callable[..., object], arguments: Sequence[object], **keywords: Any) -> tuple[Run, ...]:
    """Run a kernel on as many ranks as there are `arguments`, and give each rank's Run.

    An entry of `arguments` is what a rank is called with: a tuple of positional arguments, a mapping of keywords, or a
    single array. `keywords` are those of `nki_lab.run`, the same for all ranks. The ranks run at the same time, each
    in a thread; what they exchange is exact, and their times know nothing of each other. The first fault of a rank is
    raised, where `on_error` does not say otherwise.
    """
    if not isinstance(arguments, (list, tuple)) or not arguments:
        raise coded_error(
            "NKI012",
            "run_ranks: arguments is no list of arguments",
            operand="arguments",
            limit="an entry for each rank",
            help="write run_ranks(kernel, [(a0, b0), (a1, b1)])",
        )
    group = RankGroup(len(arguments))
    done: dict[int, Run] = {}
    failed: dict[int, BaseException] = {}

    def one(number: int, given: object) -> None:
        local.rank = Rank(number, group)
        try:
            if isinstance(given, Mapping):
                done[number] = run(kernel, **given, **keywords)
            else:
                done[number] = run(kernel, *(given if isinstance(given, (list, tuple)) else (given,)), **keywords)
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            failed[number] = error
        finally:
            local.rank = None
            group.leave(number)

    threads = [threading.Thread(target=one, args=pair, daemon=True) for pair in enumerate(arguments)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        # A rank with NKI241 failed only because another one did not come.
        causes = {
            number: error
            for number, error in failed.items()
            if not isinstance(error, NkiError) or error.diagnostics[0].code != "NKI241"
        }
        raise min((causes or failed).items())[1]
    return tuple(done[number] for number in range(len(arguments)))
