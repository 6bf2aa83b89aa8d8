"""The golden-file machinery: files are read as documented, and an update changes the answers alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.golden import make_golden, read_cases

FILE = """-- a comment that stays

[case first]
in
[file other.yaml]
more

[out]
old
[case second]
two
lines

"""


def test_cases_are_read_with_their_sections(tmp_path: Path) -> None:
    path = tmp_path / "a.test"
    path.write_text(FILE)
    first, second = read_cases(path)
    assert (first.name, first.input, first.files, first.out) == ("first", "in\n", {"other.yaml": "more\n"}, "old\n")
    assert (second.name, second.input, second.out) == ("second", "two\nlines\n", "")


def test_an_update_writes_the_answers_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.test"
    path.write_text(FILE)
    golden = make_golden(update=True)
    for case in read_cases(path):
        golden(case, f"new {case.name}\n\nend\n")
    again = read_cases(path)
    assert [c.out for c in again] == ["new first\n\nend\n", "new second\n\nend\n"]
    assert [(c.input, c.files) for c in again] == [("in\n", {"other.yaml": "more\n"}), ("two\nlines\n", {})]
    assert path.read_text().startswith("-- a comment that stays\n\n[case first]\nin\n[file other.yaml]\nmore\n")
    strict = make_golden(update=False)
    for case in again:
        strict(case, f"new {case.name}\n\nend\n")
        with pytest.raises(AssertionError, match="--update-golden"):
            strict(case, "other")


def test_an_answer_that_would_read_as_a_section_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.test"
    path.write_text(FILE)
    with pytest.raises(AssertionError, match="read as a section"):
        make_golden(update=True)(read_cases(path)[0], "x\n[out]\n")


@pytest.mark.parametrize(
    "text", ["stray\n[case a]\n", "[out]\n", "[case a]\n[case a]\n", "[case a]\n[out] x\n[out x]\n"]
)
def test_bad_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.test"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"a\.test"):
        read_cases(path)
