"""The widget's side in the kernel: what the page asks for, it gets in parts; what is missing is said."""

from __future__ import annotations

import base64
import builtins
import gc
import pathlib
import sys
import weakref
from collections import Counter
from collections.abc import Mapping
from typing import Any

import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import widgets
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.result.notebook import texts
from nki_lab.widgets import comparison, parts, visualizer
from nki_lab.widgets.comparison import ComparisonView
from nki_lab.wire import Messages, encode
from tests.recordings import synthetic
from tests.wire.reader import read


class Sent:
    """A widget without a page: what it sends is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, recording: Recording, **options: Any) -> None:
        self.told: list[dict[str, Any]] = []
        self.parts: dict[int, bytes] = {}
        self.widget = widgets.view(recording, **options)
        monkeypatch.setattr(self.widget, "send", self.keep)

    def keep(self, content: dict[str, Any], buffers: Any = ()) -> None:
        self.told.append(content)
        for buffer in buffers:
            before = self.parts.get(content["message"], b"")
            assert content["offset"] == len(before)
            self.parts[content["message"]] = before + bytes(buffer)

    def ask(self, content: Any) -> list[bytes]:
        """What comes back."""
        self.told.clear()
        self.parts.clear()
        self.widget._answer(self.widget, content, [])
        return list(self.parts.values())


def test_a_page_that_loads_gets_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(synthetic(50), {"kernel": "k"})
    sent = Sent(monkeypatch, recording)
    assert sent.ask({"kind": "load"}) == list(Messages(recording))


def summed(zoom: Mapping[str, Any], shift: int) -> dict[tuple[int, int, int], int]:
    """The time of each lane, reason, and stretch that holds so many bits of others."""
    out: Counter[tuple[int, int, int]] = Counter()
    for lane, reason, bucket, time in zip(
        *(zoom[name].tolist() for name in ("lane", "reason", "bucket", "time")), strict=True
    ):
        out[int(lane), int(reason), int(bucket) >> shift] += int(time)
    return dict(out)


def test_a_page_gets_the_lanes_of_a_large_run_first(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    Recording(synthetic(1 << 17), {"kernel": "k"}).save(tmp_path)
    recording = Recording.open(tmp_path)
    unread: list[bool] = []
    opening = Messages.opening

    def noted(messages: Messages) -> bytes:
        unread.append(recording._check_whole is not None)
        return opening(messages)

    monkeypatch.setattr(Messages, "opening", noted)
    first, second, *_ = Sent(monkeypatch, recording).ask({"kind": "load"})
    assert unread == [True]  # the lanes are drawn before anybody has read the rows
    coarse, whole = read(first), read(second)
    assert coarse[0]["coarse"] and "coarse" not in whole[0]
    assert {name: coarse[0][name] for name in ("steps", "makespan", "lanes", "kernel")} == {
        name: whole[0][name] for name in ("steps", "makespan", "lanes", "kernel")
    }
    further = coarse[0]["zoom_shift"] - whole[0]["zoom_shift"]
    assert further > 0  # fewer stretches of time, with the same sums
    np.testing.assert_equal(*(summed(tables["zoom"], shift) for (_, tables), shift in ((coarse, 0), (whole, further))))
    assert not len(coarse[1]["buffers"]["name"])


def test_a_page_gets_the_steps_that_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(synthetic(50))
    sent = Sent(monkeypatch, recording)
    assert sent.ask({"kind": "steps", "first": 10, "count": 20}) == [Messages(recording).rows(10, 20)]
    assert len(sent.ask({"kind": "steps", "first": -5, "count": 10**9})) == 1


def test_a_message_goes_out_in_parts_that_say_how_much_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART", 1000)
    sent = Sent(monkeypatch, Recording(synthetic(50)))
    messages = sent.ask({"kind": "load"})
    assert len(sent.told) > len(messages)
    for content in sent.told:
        assert content["kind"] == "part"
        assert content["total"] == len(sent.parts[content["message"]])
    assert [content["offset"] for content in sent.told][:3] == [0, 1000, 2000]


@pytest.mark.parametrize(
    "content", [None, {}, {"kind": "else"}, {"kind": "steps"}, {"kind": "steps", "first": "1"}, [1]]
)
def test_what_nobody_knows_is_not_answered(monkeypatch: pytest.MonkeyPatch, content: Any) -> None:
    sent = Sent(monkeypatch, Recording(synthetic(5)))
    assert sent.ask(content) == []
    assert sent.told == []


def test_a_damaged_recording_is_said_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = Sent(monkeypatch, Recording(synthetic(5)))

    def broken(*_: Any) -> bytes:
        raise OSError("the disk is gone")

    monkeypatch.setattr(Messages, "rows", broken)
    sent.ask({"kind": "steps", "first": 0, "count": 1})
    assert sent.told == [{"kind": "failed", "text": "the disk is gone"}]


def test_the_step_and_the_channel_of_charts_are_the_only_state_that_is_kept_equal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = Sent(monkeypatch, Recording(synthetic(50)), step=7)
    state = sent.widget.get_state()
    own = {name for name in state if not name.startswith("_")} - {"layout", "tabbable", "tooltip"}
    assert own == {"channel", "step"}
    assert state["step"] == 7


def test_without_the_notebook_packages_a_view_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "anywidget":
            raise ModuleNotFoundError("No module named 'anywidget'", name="anywidget")
        return load(name, *rest)

    for name in ("visualizer", "loaded"):
        monkeypatch.delitem(sys.modules, f"nki_lab.widgets.{name}")
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(NkiError, match=r"NKI022 the visualizer needs the package anywidget") as caught:
        widgets.view(Recording(synthetic(5)))
    assert "nki-lab[widgets]" in caught.value.diagnostics[0].help


def test_pages_without_widgets_show_a_view_as_a_picture() -> None:
    """nbconvert wrote <nki_lab.widgets.visualizer.Visualizer object at 0x7fd895d06c50>."""
    x = np.ones((128, 64), np.float32)
    run = nki_lab.run(doubled, x, target="trn2")
    data = run.view()._repr_mimebundle_()[0]
    assert data["text/plain"].startswith("doubled on trn2: ")
    assert "data:image/png;base64," in data["text/html"]
    assert data["text/html"] == texts(run.recording)["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in data


def doubled(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 2.0)
    return out


def test_a_run_is_pinned_under_a_limit_of_bytes() -> None:
    recording = Recording(synthetic(500))
    kept = widgets.pinned(recording, 1 << 20)
    assert kept is not None
    assert kept["version"] == 1
    assert len(kept["message"]) < len(encode(recording))
    assert widgets.pinned(recording, len(kept["message"])) == kept
    assert widgets.pinned(recording, len(kept["message"]) - 1) is None
    assert widgets.pinned(recording, 0) is None


def test_of_many_widgets_the_oldest_keep_their_picture_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visualizer, "AWAKE", 3)
    recording = Recording(synthetic(50))
    first, *others = [widgets.view(recording, picture=lambda: b"picture") for _ in range(4)]
    assert [item.rests for item in (first, *others)] == [True, False, False, False]
    assert base64.b64encode(b"picture").decode() in first._esm
    assert "render" in first._esm and len(first._esm) < 2000
    others[0]._answer(others[0], {"kind": "load"}, [])  # it is looked at again
    last = widgets.view(recording, picture=lambda: b"picture")
    assert [item.rests for item in (*others, last)] == [False, True, False, False]
    first._answer(first, {"kind": "load"}, [])  # nothing is left to send
    assert first.rests


def test_of_very_many_widgets_the_oldest_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visualizer, "AWAKE", 2)
    monkeypatch.setattr(visualizer, "SHOWN", 5)
    recording = Recording(synthetic(50))
    made = [widgets.view(recording) for _ in range(9)]
    assert sum(item.comm is not None for item in made) == 5
    assert [item.comm is not None for item in made[-5:]] == [True] * 5


def test_nothing_holds_a_widget_that_is_closed() -> None:
    made = widgets.view(Recording(synthetic(5)))
    gone = weakref.ref(made)
    made.close()
    assert made.closed
    del made
    gc.collect()
    assert gone() is None


def test_only_the_latest_comparisons_keep_their_runs() -> None:
    run = Recording(synthetic(5))
    made = [ComparisonView(b"", run, run) for _ in range(comparison.AWAKE + 2)]
    assert [bool(item._messages) for item in made] == [False] * 2 + [True] * comparison.AWAKE
    told: list[object] = []
    made[0].send = lambda content, buffers=None: told.append(content)  # type: ignore[method-assign]
    made[0]._answer(made[0], {"kind": "load", "view": 3}, [])
    assert told == [{"kind": "failed", "view": 3, "text": told[0]["text"]}]  # type: ignore[index]
