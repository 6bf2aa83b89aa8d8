"""Sampled stacks to shares and a drawing."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

from bench import stacks

LOOP = "main (cli.py:1);run_until_complete (loop.c:1);Py_XDECREF (object.h:1);uv_run (core.c:464);0x7f (libc.so.6)"
SERVE = f"{LOOP};Connection.data_received (runtime/webhook/connection.py:1)"
TEXT = f"""\
{LOOP};epoll_wait (libc.so.6) 70
Thread.run (threading.py:1);_work (runtime/background.py:36) 50
{SERVE};answer (runtime/webhook/admission.py:68);parse (runtime/webhook/admission.py:101) 4
{SERVE};Fused.run (vm/fused.py:61);fused (<thesmos:fused>:1) 3
{SERVE};write (loop.c:1);write (libc.so.6) 2
{SERVE};write (loop.c:1);SSL_write_ex (libssl.so.3) 1
"""


def test_waiting_threads_and_what_lies_above_the_loop_are_left_out() -> None:
    found = stacks.read(TEXT)
    assert found.total() == 10
    assert {stack[0] for stack in found} == {"Connection.data_received (runtime/webhook/connection.py:1)"}


def test_time_goes_to_what_the_innermost_known_frame_says() -> None:
    shares = stacks.table(stacks.read(TEXT)).splitlines()
    assert shares[2:6] == [
        "| decoding the review | 40% |",
        "| engine: generated code | 30% |",
        "| system calls | 20% |",
        "| TLS | 10% |",
    ]


def test_the_drawing_is_svg_whose_boxes_are_as_wide_as_their_shares() -> None:
    root = ElementTree.fromstring(stacks.drawing(stacks.read(TEXT), "a <title>"))
    boxes = {}
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        title, rect = group.find("{*}title"), group.find("{*}rect")
        if title is not None and rect is not None:
            boxes[stacks.short(str(title.text))] = (float(rect.get("x", "")), float(rect.get("width", "")))
    assert boxes["Connection.data_received"] == (0.0, stacks.WIDTH)
    assert boxes["parse"][1] == stacks.WIDTH * 0.4
    assert boxes["fused"][1] == stacks.WIDTH * 0.3
    assert "a <title>" in "".join(root.itertext())


def test_frames_that_nobody_could_read_are_left_out() -> None:
    found = Counter({("wide (a.py:1)",): 999, ("narrow (b.py:1)",): 1})
    drawn = stacks.drawing(found, "")
    assert re.search(r"wide", drawn)
    assert "narrow" not in drawn


def test_names_are_shortened_to_the_function() -> None:
    assert stacks.short("_handlers.<locals>.quick.<locals>.attempt (runtime/webhook/app.py:120)") == "attempt"
    assert stacks.short("Live.judge (runtime/webhook/live.py:186)") == "Live.judge"
