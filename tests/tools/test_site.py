"""The website, built once: links, figures, folds, marking and search, held against the course."""

from __future__ import annotations

import base64
import hashlib
import html
import inspect
import json
import random
import re
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import answers
import build_site
import griffe
import nbformat
import pytest
import record_widgets
import record_wrong_answers
from pages import value_of
from served_site import serving
from website import api, assets, cells, exercises, lessons, lookup, places, policies, widgets
from website.text import Text

import amp_lessons
from amp_lessons import __version__
from amp_lessons.amp import policy_record
from amp_lessons.amp.errors import UnreadableText, catalogue
from amp_lessons.amp.errors import lookup as python_lookup
from amp_lessons.core.catalogue import LESSONS, WHEEL
from amp_lessons.lessons.widgets.autocast_steps import AutocastSteps
from amp_lessons.quiz import bank, markup
from amp_lessons.quiz.exports import page as exported
from amp_lessons.quiz.items import ChoiceItem, NumberItem
from amp_lessons.quiz.marking import mark

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "someone/amp-lessons"
RIGHT = ("solution", "right cell", "judge cell", "passed cell")
"""How the labels of answers begin that have no place on the site at all."""
WRONG = ("rule cell", "wrong cell", "program cell", "shared cell")
"""The same of what may be shown for one mistake of each exercise."""
SLOW_TO_RECORD = {"GradientHistogram", "OrderTheCalls", "PolicyBrowser"}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    to = build_site.build(folder, REPOSITORY, "v1")
    assert not to.lost
    return folder


@pytest.fixture(scope="module")
def texts(site) -> dict[str, str]:
    """Each page's HTML, by its path."""
    return {
        path.relative_to(site).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(site.rglob("*.html"))
    }


@pytest.fixture(scope="module")
def tab(chromium, site) -> Iterator[Any]:
    """A page of the site in a browser, for its modules."""
    with serving(site) as address:
        page = chromium.new_page()
        page.goto(f"{address}/docs.html")
        yield page
        page.close()


# ---- links --------------------------------------------------------------------------------------


def test_every_link_leads_to_a_page_and_a_heading(site, texts):
    ids = {
        path: set(map(html.unescape, re.findall(r'\bid="([^"]+)"', t))) for path, t in texts.items()
    }
    followed = 0
    for path, text in texts.items():
        assert len(re.findall(r'\bid="([^"]+)"', text)) == len(ids[path]), f"{path}: an id twice"
        for address in map(html.unescape, re.findall(r'(?:href|src)="([^"]*)"', text)):
            if re.match(r"[a-z]+:", address):
                continue
            followed += 1
            file, anchor = urldefrag(address)
            target = (site / path).parent.joinpath(unquote(file)).resolve() if file else site / path
            assert target.is_file(), f"{path} links to {address}"
            name = target.relative_to(site.resolve() if file else site).as_posix()
            if anchor and name in ids and not (name == "quiz.html" and anchor == "progress"):
                assert unquote(anchor) in ids[name], f"{path} links to {address}"
    assert followed > 2500


def test_no_page_asks_another_host_for_anything(site, texts):
    for path, text in texts.items():
        assert "default-src 'self'" in html.unescape(text), path
        loaded = re.findall(r"<(?:script|link|img|iframe|source|form)\b[^>]*>", text)
        assert loaded
        assert not [tag for tag in loaded if re.search(r'(?:src|href|action)="(?:https?:)?//', tag)]
    for path in [*site.rglob("*.css"), *site.rglob("*.mjs")]:
        code = path.read_text(encoding="utf-8")
        assert not re.search(r'(?:url\(|import\(|from |fetch\()\s*["\']?(?:https?:)?//', code), path


def test_each_notebook_can_be_run_elsewhere(texts):
    for source in lessons.sources():
        text = texts[source.page]
        assert f"colab.research.google.com/github/{REPOSITORY}/blob/v1/{source.file}" in text
        assert f"mybinder.org/v2/gh/{REPOSITORY}/v1?urlpath=lab/tree/{source.file}" in text
        assert f'{Path(source.file).name}" download' in text


def test_colab_opens_notebooks_that_find_the_wheel_of_a_release():
    to = places.Places({}, {}, REPOSITORY, f"v{__version__}")
    way = lessons.ways_to_run("notebooks/home.ipynb", "index.html", to)[1]
    assert way.address.endswith(f"{REPOSITORY}/blob/gh-pages/notebooks/home.ipynb")
    address = f"https://github.com/{REPOSITORY}/releases/download/v{__version__}/{WHEEL}"
    text = assets.notebook(ROOT / LESSONS[0].notebook, to)
    assert f'or "{address}"' in nbformat.reads(text, as_version=4).cells[0].source
    assert assets.notebook(ROOT / LESSONS[0].notebook, places.Places({}, {}, REPOSITORY)) == (
        ROOT / LESSONS[0].notebook
    ).read_text(encoding="utf-8")


# ---- the vocabulary -----------------------------------------------------------------------------


def test_the_page_of_the_api_has_each_name_with_its_own_words(texts):
    page = texts[places.API]
    assert [name for group in api.groups() for name in group.names] == sorted(
        set(amp_lessons.__all__), key=stub_order().index
    )
    for name, value in api.vocabulary().items():
        assert f'id="{name}"' in page
        live = getattr(amp_lessons, name)
        if callable(live) and live.__doc__ and value.docstring:
            assert inspect.getdoc(live) == value.docstring.value.strip(), name
    told = [value.path for value in api.vocabulary().values() if value.docstring]
    assert len(told) > 10
    assert "growth_interval: int = 2000" in html.unescape(re.sub(r"<[^>]+>", "", page))


def stub_order() -> list[str]:
    stub = (ROOT / "amp_lessons/__init__.pyi").read_text(encoding="utf-8")
    return re.findall(r"import (\w+) as \1", stub)


def test_lessons_link_to_the_names_that_they_import(texts):
    page = texts[places.lesson_page("grad_scaler")]
    imported = '<a href="../api.html#ScalerLog"><span class="n">ScalerLog</span></a>'
    assert imported in page
    assert page.count('<a href="../api.html#monitor"><code>amp_lessons.monitor</code></a>') == 1


def test_a_docstring_in_an_unknown_form_is_refused():
    section = griffe.DocstringSectionAdmonition(kind="note", text="x", title="x")
    with pytest.raises(ValueError, match="admonition"):
        api._section(section, Text(lambda href: href, str))


# ---- what notebooks show ------------------------------------------------------------------------


def shown(source: lessons.Source) -> Iterator[str]:
    """What a notebook has stored in its outputs, as it stands in a page."""
    for part in cells.parts_of(nbformat.read(ROOT / source.file, as_version=4)):
        for output in part.outputs if part.kind == "output" else ():
            if output.output_type == "stream":
                yield html.escape(output.text.rstrip())
            else:
                yield from re.findall(r'alt="[^"]+"', output.data.get("text/html", ""))


@pytest.mark.parametrize("source", lessons.sources(), ids=lambda source: source.page)
def test_a_page_shows_what_its_notebook_has_stored(site, texts, source):
    notebook = nbformat.read(ROOT / source.file, as_version=4)
    for part in shown(source):
        assert part in texts[source.page]
    for cell in notebook.cells:
        if "question" in cell.metadata.get("tags", []) or cells.widget_in(cell.source):
            continue
        for output in cell.get("outputs", []):
            for data in re.findall(r'base64,([^"]+)"', output.get("data", {}).get("text/html", "")):
                name = hashlib.sha256(base64.b64decode(data)).hexdigest()[:16]
                assert f"images/{name}.png" in texts[source.page]
                assert (site / f"images/{name}.png").is_file()


def test_the_pages_show_hundreds_of_results():
    assert sum(1 for source in lessons.sources() for _ in shown(source)) > 300


@pytest.mark.parametrize(
    "lesson", [each for each in LESSONS if each.asks], ids=lambda lesson: lesson.slug
)
def test_what_answers_a_prediction_is_folded(texts, lesson):
    text = texts[f"lessons/{lesson.slug}.html"]
    parts = cells.parts_of(nbformat.read(ROOT / lesson.notebook, as_version=4))
    predicted = [part.ids[0] for part in parts if part.kind == "predict"]
    folds = re.findall(
        r'<details class="result" data-about="([^"]+)">(.*?)</details>', text, re.DOTALL
    )
    assert predicted
    assert {about for about, _ in folds} == set(predicted)
    assert all('<div class="output">' in fold for _, fold in folds)
    open_parts = re.sub(r'<details class="result".*?</details>', "", text, flags=re.DOTALL)
    elsewhere = "\n".join(
        html.escape(output.get("text", ""))
        for part in parts
        if not part.about
        for output in part.outputs
    )
    for part in parts:
        if part.about and part.kind == "output" and part.outputs[0].output_type == "stream":
            result = html.escape(part.outputs[0].text.rstrip())
            assert len(result) < 15 or result not in open_parts or result in elsewhere


# ---- answers that nobody may see ----------------------------------------------------------------


def test_no_answer_of_an_exercise_is_on_the_site(site):
    recorded = exercises.recorded()
    assert len(recorded) == sum(len(lesson.exercises) for lesson in LESSONS)
    shown = "\n".join(f"{each['verdict']}\n{each['program']}" for each in recorded.values())
    allowed = answers.search().leaks([("shown", shown.encode())])["shown"]
    assert not [label for label in allowed if label.startswith(RIGHT)]
    files = [path for path in sorted(site.rglob("*")) if path.is_file() and path.suffix != ".png"]
    found = answers.search().leaks((str(path), path.read_bytes()) for path in files)
    for name, labels in found.items():
        if name.endswith(places.doc_page("contributing")):  # it explains edits by an example
            continue
        assert not [label for label in labels if label.startswith(RIGHT)], name
        mistakes = {label for label in labels if label.startswith(WRONG)}
        assert not mistakes - set(allowed), name


def test_a_solution_on_a_page_would_be_found(site):
    solution = answers.all_answers()["solution: clip_step"]
    (labels,) = answers.search().leaks([("page.html", html.escape(solution).encode())]).values()
    assert "solution: clip_step" in labels


@pytest.mark.slow
def test_a_wrong_answer_that_is_shown_holds_little_of_a_right_one():
    assert record_wrong_answers.FILE.read_text(encoding="utf-8") == record_wrong_answers.record()


# ---- the same as Python -------------------------------------------------------------------------

MARK = """async (asked) => {
  const { answerIn } = await import("/modules/answering.mjs");
  return asked.map(([question, answers]) => answers.map((answer) => {
    try {
      const { told } = answerIn(question, { type: "answer", answer });
      return [told.right, told.score, told.remarks, told.key];
    } catch (fault) { return fault.message; }
  }));
}"""


def given_to(item: Any) -> list[tuple[Any, Any]]:
    """Answers to an item, as a box sends them and as Python marks them."""
    if isinstance(item, NumberItem):
        values = [item.answer, *(mistake.value for mistake in item.mistakes)]
        return [(repr(value), value) for value in values]
    if isinstance(item, ChoiceItem):
        single = [[place] for place in range(len(item.choices))]
        return [
            (each, each)
            for each in (single if item.form == "one" else [*single, sorted(item.right)])
        ]
    right = list(range(len(item.lines)))
    tried = [right, right[::-1], right[:-1], [*right, *range(len(right), len(item.offered))]]
    return [(each, each) for each in tried]


def test_every_question_is_marked_as_in_python(tab):
    there = bank.load()
    items = [*there.items, *there.predictions]
    assert len(there.predictions) > 100
    asked = [[exported.question_data(item), [a for a, _ in given_to(item)]] for item in items]
    for item, got in zip(items, value_of(tab, MARK, asked), strict=True):
        for (_, answer), told in zip(given_to(item), got, strict=True):
            wanted = markup.feedback(item, mark(item, answer))
            expected = [wanted["right"], wanted["score"], wanted["remarks"], wanted["key"]]
            assert told == expected, item.id


SEARCH = """async (texts) => {
  const { searcher } = await import("/modules/error_search.mjs");
  const search = searcher(await (await fetch("/data/errors.json")).json());
  return texts.map((text) => {
    try {
      const found = search(text);
      return found.map(({ entry, score, confident, why }) => [entry.id, score, confident, why]);
    } catch (fault) { return fault.message; }
  });
}"""


def test_every_error_is_found_as_in_python(tab):
    entries = catalogue.load()
    asked = [text for entry in entries for text in (entry.example, entry.title)]
    for name in ("pasted", "written", "unrelated"):
        file = ROOT / f"tests/data/{name}_errors.toml"
        asked += texts_in(tomllib.loads(file.read_text(encoding="utf-8")))
    asked += ["", "é", "loss is nna in fp16", "scalre skips evry step"]
    assert len(asked) > 500
    for text, got in zip(asked, value_of(tab, SEARCH, asked), strict=True):
        assert got == found_in_python(text), text


def found_in_python(text: str) -> Any:
    try:
        found = python_lookup(text)
    except UnreadableText as error:
        return str(error)
    return [[each.entry.id, pytest.approx(each.score), each.confident, each.why] for each in found]


def texts_in(data: Any) -> list[str]:
    if isinstance(data, str):
        return [data]
    inside = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return [text for each in inside for text in texts_in(each)]


def test_a_pattern_that_javascript_reads_otherwise_would_be_noticed():
    assert lookup.for_javascript("(?P<a>x)(?P=a)") == "(?<a>x)\\k<a>"


VIEWS = """async (states) => {
  const { answerTo } = await import("/modules/autocast_view.mjs");
  const data = await (await fetch("/data/autocast_regions_AutocastSteps.json")).json();
  return states.map((state) => answerTo(data, state).view);
}"""


def test_the_steps_of_autocast_are_told_as_in_python(tab):
    draw, states, wanted = random.Random(0), [], []
    for device, dtype in (("cuda", "float16"), ("cpu", "bfloat16")):
        widget = AutocastSteps(device=device, dtype=dtype)
        options = widget.view["options"]
        for count in (0, 3, len(widget.steps)):
            given = [draw.choice([[], draw.choices(options, k=2)]) for _ in range(count)]
            widget.answers, widget.place = given, count
            states.append(
                {name: getattr(widget, name) for name in ("device", "dtype", "answers", "place")}
            )
            wanted.append(json.loads(json.dumps(widget.view)))
    got = value_of(tab, VIEWS, states)
    for one, other in zip(got, wanted, strict=True):
        other["torch"] = one["torch"]  # of the record
        assert one == other


# ---- records ------------------------------------------------------------------------------------


def test_the_records_of_widgets_are_up_to_date():
    quick = {name for name in widgets.MODULES if name not in SLOW_TO_RECORD}
    made = record_widgets.record(quick, alone=True)
    index = json.loads(made.pop("widgets.json"))
    assert len(index) >= 7
    for cell, found in index.items():
        assert widgets.recorded()[cell] == found, "run tools/record_widgets.py"
    for name, text in made.items():
        kept = json.loads((widgets.RECORDED / name).read_text(encoding="utf-8"))
        now = json.loads(text)
        if "torch" in kept:
            now["torch"] = kept["torch"]  # another build of it
        assert now == kept, f"run tools/record_widgets.py: {name}"


def test_each_widget_of_a_notebook_is_recorded():
    cells_now = [widgets.key(file, cell) for file, cell, *_ in record_widgets.widget_cells()]
    assert len(cells_now) > 10
    assert sorted(cells_now) == sorted(widgets.recorded())


@pytest.mark.slow
def test_the_slow_records_of_widgets_are_up_to_date():
    made = record_widgets.record(SLOW_TO_RECORD)
    for name, text in made.items():
        if name == "widgets.json":
            continue
        now = json.loads(text)
        kept = json.loads((widgets.RECORDED / name).read_text(encoding="utf-8"))
        if "results" in kept:  # the last digits of a training differ from one CPU to the next
            facts = ("order", "right", "findings")
            now, kept = ([[r[f] for f in facts] for r in each["results"]] for each in (now, kept))
        elif "counts" in kept:
            now, kept = (
                [each["exponents"], each["total"], each["formats"][0]["name"]]
                for each in (now, kept)
            )
        else:
            now["torch"] = kept["torch"]
        assert now == kept, f"run tools/record_widgets.py: {name}"


def test_the_policy_table_has_every_recorded_version(texts):
    data = policies.data()
    assert list(data["versions"]) == list(policy_record.versions())
    newest = policy_record.versions()[-1]
    for op in policy_record.table("cuda", "float16", newest):
        assert f"<code>{html.escape(op)}</code>" in texts["policy.html"]


def test_the_search_knows_each_page_and_stays_small(site, texts):
    path = site / "data/search.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    assert {page for page, *_ in found["pages"]} == set(texts) - {"search.html"}
    titles = {title for _, _, title, *_ in found["sections"]}
    assert {entry.title for entry in catalogue.load()} <= titles
    assert path.stat().st_size < 400_000


def test_a_step_as_recorded_is_one_of_python():
    step = AutocastSteps().steps[0]
    kept = json.loads((widgets.RECORDED / "autocast_regions_AutocastSteps.json").read_text())
    assert kept["rules"]["cuda float16"]["steps"][0] == json.loads(json.dumps(asdict(step)))


def test_a_folder_that_holds_something_else_is_not_emptied(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("x")
    for place in (tmp_path, tmp_path / "thesis.txt"):
        assert build_site.main(["--into", str(place)]) == 2
        assert capsys.readouterr().out.count("\n") == 1
    assert (tmp_path / "thesis.txt").read_text() == "x"


def test_what_follows_a_result_gives_nothing_away(texts):
    """The pictures and counts of further cells are folded with it, and the next section isn't."""
    page = texts[places.lesson_page("amp_in_20_minutes")]
    fold = page.index('<details class="result" data-about="amp_in_20_minutes.big_pictures">')
    counted = page.index("weights that changed: 0 of 10448")
    end = page.index("</details>", page.index("No weight has changed"))
    assert page.index('"amp_in_20_minutes.big_pictures"') < fold < counted < end
    assert "<h2" not in page[fold:end]
