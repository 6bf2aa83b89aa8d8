"""What is sent and what is taken for an answer; sets of policies none of which equals another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.client import Job, _whole, whole_requests
from bench.compiling import compiled
from bench.measure import percentile
from bench.policies import generated_policies, policies_of_other_kinds, to_text


@pytest.mark.parametrize(
    ("got", "whole"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", True),
        (b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", False),
        (b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", True),
    ],
)
def test_an_answer_is_whole_by_its_length_or_its_last_chunk(got: bytes, whole: bool) -> None:
    assert _whole(bytearray(got)) is whole


def test_each_line_of_the_bodies_is_a_request(tmp_path: Path) -> None:
    bodies = tmp_path / "bodies.jsonl"
    bodies.write_text('{"a":1}\n{"b":22}\n', encoding="utf-8")
    job = Job("https://127.0.0.1:9443/validate?x=1", str(bodies), 1.0, headers={"authorization": "Bearer t"})
    first, second = whole_requests(job)
    assert first.startswith(b"POST /validate?x=1 HTTP/1.1\r\nhost: 127.0.0.1:9443\r\n")
    assert b"\r\nauthorization: Bearer t\r\n" in first
    assert first.endswith(b'content-length: 7\r\n\r\n{"a":1}')
    assert second.endswith(b'content-length: 8\r\n\r\n{"b":22}')


def test_a_percentile_is_a_value_that_was_there() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 3.0, 4.0, 4.0]


def test_generated_policies_compile_and_none_equals_another() -> None:
    made = generated_policies(45)
    # Without their names they would fold where they are equal.
    bodies = {json.dumps([rule["validate"] for rule in policy["spec"]["rules"]]) for policy in made}
    assert len(bodies) == 45
    assert len({policy["metadata"]["name"] for policy in made}) == 45
    assert made == generated_policies(45)
    found = compiled(to_text(made), "made")
    assert found is not None
    assert found.policies == 45


def test_policies_of_other_kinds_reach_no_pod() -> None:
    made = policies_of_other_kinds(18)
    kinds = {rule["match"]["any"][0]["resources"]["kinds"][0] for policy in made for rule in policy["spec"]["rules"]}
    assert len(kinds) == 8
    assert "Pod" not in kinds
