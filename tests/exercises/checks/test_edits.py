"""Wrong answers as edits: what each edit makes of a program, and what it refuses."""

from __future__ import annotations

import textwrap

import pytest

from amp_lessons.exercises.checks.authoring.edits import (
    EditError,
    drop,
    move,
    of,
    put,
    swap,
    unwrap,
    wrap,
)

LOOP = """\
def train(model, batches):
    for x in batches:
        model.zero()
        with region(
            "cpu",
        ):
            loss = model(x)
        loss.backward()
        if loss > 3:
            model.step()
            model.step()
        else:
            model.skip()
    return model
"""


def changed(edit) -> str:
    """The lines that an edit takes out and puts in, marked by - and +."""
    before, after = LOOP.splitlines(), edit(LOOP).splitlines()
    gone = [f"-{line.strip()}" for line in before if line not in after]
    return "\n".join(gone + [f"+{line.strip()}" for line in after if line not in before])


def test_drop_takes_a_statement_with_all_that_belongs_to_it():
    assert changed(drop("model.zero")) == "-model.zero()"
    assert changed(drop("if loss")) == textwrap.dedent(
        """\
        -if loss > 3:
        -model.step()
        -model.step()
        -else:
        -model.skip()"""
    )
    assert '"cpu"' not in drop("with region")(LOOP)


def test_drop_leaves_a_pass_where_a_block_would_be_empty():
    assert changed(drop("loss = ")) == "-loss = model(x)\n+pass"


def test_put_takes_the_indent_of_the_statement_beside_it():
    assert "        model.log()\n        loss.backward()" in put("model.log()", before="loss.b")(
        LOOP
    )
    below = put("if x:\n    y()", after="with region")(LOOP)
    assert "            loss = model(x)\n        if x:\n            y()\n        loss.b" in below
    assert LOOP.replace("    return", "    done()\n    return") == put("done()", after="for x")(
        LOOP
    )


def test_move_goes_into_another_block_and_out_of_it():
    assert "def train(model, batches):\n    model.zero()\n    for" in move(
        "model.zero", before="for x"
    )(LOOP)
    assert "            model.zero()\n            loss" in move("model.zero", before="loss = ")(
        LOOP
    )
    out = move("loss = ", before="with region")(LOOP)  # it was alone in its block
    assert "        loss = model(x)\n        with region(" in out
    assert "):\n            pass\n" in out


def test_swap_writes_another_phrase():
    assert changed(swap("loss > 3", "loss > 4")) == "-if loss > 3:\n+if loss > 4:"
    assert swap("model.step()", "go()", nth=2)(LOOP).count("go()") == 1
    assert swap("model.step()", "go()", nth=0)(LOOP).count("go()") == 2
    lines = swap("loss.backward()\nif loss > 3:", "if loss.backward():")(LOOP)
    assert "        if loss.backward():\n            model.step()" in lines


def test_wrap_and_unwrap():
    wrapped = wrap("if ready:", "loss.backward", to="if loss")(LOOP)
    assert "        if ready:\n            loss.backward()\n            if loss > 3:" in wrapped
    assert "        loss = model(x)\n        loss.backward()" in unwrap("with region")(LOOP)


def test_edits_are_joined_from_left_to_right():
    both = drop("model.zero") & swap("loss > 3", "loss > 4") & put("model.one()", before="with")
    assert "model.zero" not in both(LOOP)
    assert "model.one()\n        with region" in both(LOOP)
    assert both.text.count(" & ") == 2


def test_an_edit_may_be_of_another_right_answer():
    edit = of("by_hand", drop("model.zero") & drop("return"))
    assert (edit.of, edit(LOOP)) == ("by_hand", drop("return")(drop("model.zero")(LOOP)))


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (drop("nothing"), "no statement begins with 'nothing'"),
        (drop("model.step"), "2 statements begin with 'model.step'; say which with nth="),
        (drop("model.step", nth=3), "only 2 statements begin with 'model.step'"),
        (swap("model", "m"), "'model' stands there 7 times; say which one with nth="),
        (swap("a\nb", "c"), "these lines stand there 0 times"),
        (unwrap("loss = "), "'loss = ' has no block below it"),
        (put("x = = 1", before="loss.b"), "leaves what is not Python"),
        (put("x()"), "no statement begins with ''"),
    ],
    ids=lambda value: getattr(value, "text", ""),
)
def test_an_edit_that_does_not_fit_says_why(edit, why):
    with pytest.raises(EditError, match=why.replace("(", r"\(")):
        edit(LOOP)


def test_statements_on_one_line_are_one_place():
    assert drop("if x")("if x: y()\nz()\n") == "z()\n"
