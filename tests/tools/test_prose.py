"""The floor under the English holds on every page, and catches what it names."""

from __future__ import annotations

import prose
import pytest

ROOMS = sorted({path.relative_to(prose.ROOT).parts[:2] for path in prose.pages()})


@pytest.mark.parametrize("room", ROOMS, ids="/".join)
def test_pages_are_plain(room):
    held = [path for path in prose.pages() if path.relative_to(prose.ROOT).parts[:2] == room]
    found = [fault for path in held for fault in prose.faults(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("pattern", prose.PAGES)
def test_prose_is_found_on_each_kind_of_page(pattern):
    paths = list(prose.ROOT.glob(pattern))
    assert paths
    read = [path for path in paths if any(len(t.split()) > 8 for _, t in prose.prose(path))]
    assert len(read) > len(paths) / 3


@pytest.mark.parametrize(
    "text",
    [
        "Mend that line",
        "Write it anew",
        "told by its casts",
        "A step is no one's",
        "code is ill",
        "Obviously, it is",
        "It works! And",
    ],
)
def test_each_phrase_is_caught(text):
    (fault,) = prose.unplain(text)
    assert ": " in fault


def test_what_stands_in_code_is_not_prose():
    assert prose.unplain("Write `x = mend(y)`, and [read on](https://simply.example)") == []


def test_a_long_sentence_is_caught_with_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"Short.\n\n{'word ' * 30}\n{'word ' * 8}end.\n\n- {'item ' * 20}\n")
    (fault,) = prose.faults(page)
    assert fault.startswith("page.md:3: 39 words, over 35: word word")


def test_an_example_in_a_docstring_is_not_a_sentence(tmp_path):
    page = tmp_path / "module.py"
    page.write_text(f'"""Short.\n\n    {"name, " * 40}\n\n{"word " * 36}\n"""\n')
    (fault,) = prose.faults(page)
    assert "36 words" in fault


def test_the_tool_names_what_it_read(capsys):
    assert prose.main(["docs/installing.md"]) == 0
    assert capsys.readouterr().out == "1 pages read, 0 to correct\n"
