"""What the comparison of outputs lets pass, and everything that it must not."""

from __future__ import annotations

import copy
import json

import nbformat
import outputs
import pytest
from nbformat.v4 import new_output
from outputs import CURVES, OF_THE_RANGE, PNG, RELATIVE, settled

from amp_lessons.core import pictures
from amp_lessons.lessons import plots

LOSSES = {"FP32": [2.0, 1.0, 0.5, 0.25], "FP16": [2.0, 1.1, float("nan"), float("inf")]}


def picture(losses=LOSSES, alt="Both fall."):
    """The output of a cell that shows a picture with curves."""
    drawn = plots.curves(losses, title="Loss", xlabel="step", ylabel="loss", alt=alt)
    return new_output("display_data", data=drawn._repr_mimebundle_())


def changed(name: str, place: int, value: float) -> dict[str, list[float]]:
    losses = copy.deepcopy(LOSSES)
    losses[name][place] = value
    return losses


@pytest.fixture(scope="module")
def stored():
    """A picture as a notebook has it: written to a file, and read back."""
    cell = nbformat.v4.new_code_cell(outputs=[picture()])
    text = nbformat.writes(nbformat.v4.new_notebook(cells=[cell]))
    return nbformat.reads(text, as_version=4).cells[0].outputs


def agrees(shown, stored) -> bool:
    return settled(shown, stored) == stored


def test_the_module_and_the_package_name_one_mime_type():
    assert outputs.CURVES == pictures.CURVES


def test_the_same_picture_agrees(stored):
    assert agrees([picture()], stored)


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, 2.0 * (1 + 0.9 * RELATIVE)), (3, 0.25 + 0.9 * OF_THE_RANGE * 1.75)],
    ids=["relative to the value", "relative to the range"],
)
def test_other_bytes_with_close_curves_agree(stored, place, value):
    shown = [picture(changed("FP32", place, value))]
    assert shown != stored
    assert agrees(shown, stored)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("FP32", 0, 2.1),
        ("FP32", 3, 0.27),
        ("FP32", 2, float("nan")),
        ("FP32", 2, float("inf")),
        ("FP16", 2, 1.0),
        ("FP16", 3, 1.0),
        ("FP16", 3, -float("inf")),
        ("FP16", 3, float("nan")),
    ],
)
def test_a_changed_value_is_refused_and_named(stored, name, place, value):
    kept = f"{LOSSES[name][place]:.3g}"
    with pytest.raises(AssertionError) as refused:
        settled([picture(changed(name, place, value))], stored)
    assert str(refused.value) == f"'{name}' is {value:.3g} at {place}, stored is {kept}"


def test_a_curve_that_is_nan_throughout_is_refused_and_counted(stored):
    losses = LOSSES | {"FP32": [float("nan")] * 4}
    with pytest.raises(AssertionError, match="and differs in 3 more places"):
        settled([picture(losses)], stored)


def test_a_change_in_a_curve_that_stands_still_is_refused():
    flat = {"flat": [4.0, 4.0, 4.0]}
    with pytest.raises(AssertionError, match=r"'flat' is 4\.1 at 1"):
        settled([picture({"flat": [4.0, 4.1, 4.0]})], [picture(flat)])
    with pytest.raises(AssertionError, match="'zero' is 1e-05 at 1"):
        settled([picture({"zero": [0.0, 1e-5]})], [picture({"zero": [0.0, 0.0]})])


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ({"FP32": LOSSES["FP32"]}, r"the curves are \['FP32'\], stored are \['FP16', 'FP32'\]"),
        (LOSSES | {"BF16": [1.0]}, "the curves are .*BF16"),
        (LOSSES | {"FP32": [2.0, 1.0]}, "'FP32' has 2 values, stored are 4"),
    ],
)
def test_a_missing_or_shorter_series_is_refused(stored, losses, words):
    with pytest.raises(AssertionError, match=words):
        settled([picture(losses)], stored)


def test_another_alt_text_is_refused(stored):
    assert not agrees([picture(alt="Both rise.")], stored)


def test_html_around_the_image_is_compared_too(stored):
    shown = picture()
    shown["data"]["text/html"] += "<p>more</p>"
    assert not agrees([shown], stored)


def test_a_picture_without_data_is_compared_by_its_bytes():
    drawn = plots.reaches({"FP16": 11.0, "BF16": 8.0}, title="Bits", xlabel="bits")
    shown, kept = (new_output("display_data", data=drawn._repr_mimebundle_()) for _ in range(2))
    assert CURVES not in shown["data"]
    assert agrees([shown], [kept])
    kept["data"]["text/html"] = PNG.sub('src="data:image/png;base64,AAAA"', shown.data["text/html"])
    assert shown != kept
    assert not agrees([shown], [kept])


def test_data_that_only_one_of_the_two_has_is_refused(stored):
    bare = picture()
    del bare["data"][CURVES]
    assert not agrees([bare], stored)
    assert not agrees([picture()], [bare])


def test_a_picture_too_many_or_too_few_is_refused(stored):
    assert not agrees([picture(), picture()], stored)
    assert not agrees([], stored)


def test_pictures_are_paired_in_their_order_whatever_is_printed_between():
    other = picture({"FP32": [1.0, 2.0]}, alt="It rises.")
    text = new_output("stream", name="stdout", text="42\n")
    shown, kept = [text, picture(), text, other], [picture(), other, text, text]
    assert [o for o in settled(shown, kept) if o != text] == kept[:2]
    with pytest.raises(AssertionError, match="the curves are"):
        settled([other, picture()], [picture(), other])


def test_what_is_printed_is_left_alone():
    ours, theirs = (new_output("stream", name="stdout", text=text) for text in ("1\n", "2\n"))
    assert settled([ours], [theirs]) == [ours]


def test_the_numbers_are_valid_json_for_every_reader():
    bundle = picture()["data"]
    assert bundle[CURVES] == {"FP32": "2 1 0.5 0.25", "FP16": "2 1.1 nan inf"}
    assert json.loads(json.dumps(bundle, allow_nan=False)) == bundle
