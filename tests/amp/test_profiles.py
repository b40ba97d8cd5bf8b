"""The stored profile, and one that is made here in a process of its own."""

from __future__ import annotations

import json
import os

import pytest

from amp_lessons.amp.speed import profiles
from amp_lessons.amp.speed.profiles import ProfileError, load_profile, profile_step


@pytest.fixture(scope="module")
def made_here(tmp_path_factory) -> tuple[profiles.Profiles, str]:
    """A profile, and what arrived on standard error while it was made."""
    heard = tmp_path_factory.mktemp("profile") / "stderr.txt"
    before = os.dup(2)
    try:
        with open(heard, "w") as stream:
            os.dup2(stream.fileno(), 2)
        found = profile_step(16, 8, steps=2)
    finally:
        os.dup2(before, 2)
        os.close(before)
    return found, heard.read_text()


@pytest.fixture
def live(made_here) -> profiles.Profiles:
    return made_here[0]


def both(live: profiles.Profiles) -> list[profiles.Profiles]:
    return [load_profile(), live]


@pytest.mark.slow
def test_a_step_has_the_eight_products_that_the_lesson_counts(live):
    for found in both(live):
        for profile in found.by_precision.values():
            assert profile.calls["aten::addmm"] == 3 * profile.steps, "forward"
            assert profile.calls["aten::mm"] == 5 * profile.steps, "backward"


def test_autocast_adds_casts(live):
    for found in both(live):
        plain, mixed = (found.by_precision[name] for name in profiles.PRECISIONS)
        # An input, three weights, three biases and the output for the loss; as many on the way
        # back, but for the input, which needs no gradient.
        assert mixed.casts - plain.casts == 8 + 7


def test_the_longest_op_comes_first_and_shares_are_of_the_whole(live):
    for found in both(live):
        for profile in found.by_precision.values():
            times = [op.microseconds for op in profile.ops]
            assert times == sorted(times, reverse=True)
            assert 0.5 < sum(op.share for op in profile.ops) <= 1.001
            heading, *lines, casts = profile.table(3).splitlines()
            assert heading.startswith(profile.precision)
            names = [op.name.split("#")[0].split()[0] for op in profile.ops[:3]]
            assert [line.split()[0] for line in lines] == names
            assert casts == f"casts in a step: {profile.casts}"


def test_both_say_where_they_come_from(live):
    assert live.source.startswith("3 linear layers of 16, batch 8, on ")
    stored = load_profile()
    assert stored.made["command"] == "python tools/make_trace.py"
    assert "512, batch 256" in stored.source
    assert stored.made["torch"] in stored.source


def test_what_is_stored_reads_the_same(live, tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(profiles.as_json(live)))
    assert load_profile(path) == live


def test_the_profilers_messages_do_not_arrive_here(made_here):
    assert made_here[1] == ""


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: profile_step(precisions=("fp8",)), "precisions are fp32 and bf16"),
        (lambda: profile_step(precisions=()), "precisions are fp32 and bf16"),
        (lambda: profile_step(0), "whole numbers from 1 on"),
        (lambda: profile_step(8, 8, seconds=0.01), "no profile after 0.01 s"),
        (lambda: load_profile("none.json"), "cannot be read"),
    ],
)
def test_bad_input_is_one_line(call, says):
    with pytest.raises(ProfileError, match=says) as raised:
        call()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "[]", '{"profiles": []}', '{"profiles": [{}], "made": {}}'])
def test_a_broken_file_is_one_line(text, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(ProfileError, match=r"broken\.json is not a profile"):
        load_profile(path)


def test_a_process_that_fails_says_why(monkeypatch):
    monkeypatch.setattr(profiles.sys, "executable", "/bin/false")
    with pytest.raises(ProfileError, match="the process that profiles failed: no message"):
        profile_step(8, 8)
