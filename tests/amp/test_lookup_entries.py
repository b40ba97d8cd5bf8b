"""The entries of `amp-lessons lookup`: true, readable, and found by what torch says today.

`raised_errors` raises what a CPU and fake CUDA tensors can show. What they can't has a link.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from raised_errors import MESSAGES, SYMPTOMS

from amp_lessons.amp.errors import Entry, lookup
from amp_lessons.amp.errors.catalogue import FOLDER, KINDS, read

ENTRIES = read(FOLDER)
BY_ID = {entry.id: entry for entry in ENTRIES}
TEXTS = ("raised_by", "cause", "cure", "wrong_cure", "versions")

OPENINGS = ("For ", "If ", "On ", "To ", "With ")
ACTIONS = re.compile(
    r"(accumulate|add|ask|bring|call|capture|cast|check|choose|combine|compare|compute|convert"
    r"|decide|decorate|divide|don't|drop|find|give|ignore|install|keep|leave|let|look|lower|make"
    r"|open|pass|print|profile|put|repair|reset|restore|run|save|scale|set|start|subtract|switch"
    r"|trace|train|turn|unscale|use|validate|wrap|write)\b",
    re.IGNORECASE,
)
"""The words that a cure may begin with: it says what to do."""

NEEDS_COMPILE = {"compiled-gradients-differ", "compile-hides-mixed-dtypes"}
"""A CPU can show these too, in seconds of `torch.compile`: lesson 11 does."""

UNRELATED = [
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x3)",
    "RuntimeError: mat1 and mat2 must have the same dtype, but got Long and Float",
    "RuntimeError: expected scalar type Long but found Float",
    "RuntimeError: Found dtype Long but expected Float",
    "RuntimeError: Index put requires the source and destination dtypes match, got Long for the "
    "destination and Float for the source.",
    "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should "
    "be the same",
    "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should "
    "be the same or input should be a MKLDNN tensor and weight is a dense tensor",
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices",
    "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    "RuntimeError: \"cross_entropy_loss\" not implemented for 'Long'",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "RuntimeError: CUDA error: device-side assert triggered",
    "AttributeError: module 'torch' has no attribute 'amp'",
    "_pickle.UnpicklingError: Weights only load failed. WeightsUnpickler error: Unsupported "
    "global: GLOBAL argparse.Namespace was not an allowed global by default.",
]


def one_line(text: str) -> str:
    return " ".join(text.split())


def matched(entry: Entry, text: str) -> int:
    """How many characters of a text an entry's patterns match at most."""
    found = (m for regex in entry.regexes for m in regex.finditer(one_line(text)))
    return max((len(m[0]) for m in found), default=0)


# ---- how many ------------------------------------------------------------------------------------


def test_there_are_at_least_a_hundred_and_most_that_can_be_are_raised():
    assert len(ENTRIES) == len(BY_ID) >= 100
    assert len(MESSAGES) + len(SYMPTOMS) >= 55
    found = [fault for kind in KINDS for fault in unraised(kind, ENTRIES)]
    assert not found, "\n".join(found)


def unraised(kind: str, entries: Sequence[Entry]) -> list[str]:
    """What `raised_errors` lacks of the entries of a kind, or has too much, in a line each."""
    raised, place = (MESSAGES, "MESSAGES") if kind == "message" else (SYMPTOMS, "SYMPTOMS")
    here = {entry.id for entry in entries if entry.kind == kind and entry.shown_on != "cuda"}
    here -= NEEDS_COMPILE | {entry.id for entry in entries if entry.shown_on == "other"}
    missing, stray = sorted(here - raised.keys()), sorted(raised.keys() - here)
    write = "write {} in tests/raised_errors.py, and add it to {} there"
    drop = "remove {} from {} in tests/raised_errors.py: no entry needs it"
    lines = [(write, name) for name in missing] + [(drop, name) for name in stray]
    return [line.format(name.replace("-", "_"), place) for line, name in lines]


def test_an_entry_that_nothing_raises_is_named_with_what_to_write():
    new = replace(BY_ID["unscale-fp16-gradients"], id="growth-factor-of-one")
    assert unraised("message", [*ENTRIES, new]) == [
        "write growth_factor_of_one in tests/raised_errors.py, and add it to MESSAGES there"
    ]
    without = [entry for entry in ENTRIES if entry.id != "clip-before-unscale"]
    assert unraised("symptom", without) == [
        "remove clip_before_unscale from SYMPTOMS in tests/raised_errors.py: no entry needs it"
    ]


# ---- raised here ---------------------------------------------------------------------------------


def test_what_torch_says_matches_its_entry_and_is_looked_up(subtests):
    for name in MESSAGES:
        with subtests.test(name):
            message = list(dict.fromkeys(MESSAGES[name]()))
            assert message
            for text in message:
                others = {entry.id: matched(entry, text) for entry in ENTRIES if entry.id != name}
                assert matched(BY_ID[name], text) > max(others.values()), (text, others)
                best = lookup(text)[0]
                assert (best.entry.id, best.confident) == (name, True), text


def test_a_silent_fault_shows_its_number_and_its_cure(subtests):
    for name in SYMPTOMS:
        with subtests.test(name):
            SYMPTOMS[name]()


# ---- each entry ----------------------------------------------------------------------------------


def test_its_example_is_found_first(subtests):
    for entry in ENTRIES:
        with subtests.test(entry.id):
            best = lookup(entry.example)[0]
            assert (best.entry.id, best.confident) == (entry.id, True), best.why
            if entry.kind == "message":
                others = [matched(other, entry.example) for other in ENTRIES if other != entry]
                assert matched(entry, entry.example) > max(others)


def test_it_is_short_and_says_what_to_do(subtests):
    for entry in ENTRIES:
        with subtests.test(entry.id):
            assert sum(len(getattr(entry, name)) for name in TEXTS) <= 700
            begins = entry.cure
            if begins.startswith(OPENINGS):
                begins = begins.partition(", ")[2]
            assert ACTIONS.match(begins), entry.cure
            assert all(
                text.endswith((".", "`")) for name in TEXTS if (text := getattr(entry, name))
            )


def test_it_cites_threads_or_documentation(subtests):
    for entry in ENTRIES:
        with subtests.test(entry.id):
            assert entry.links
            for link in entry.links:
                assert re.fullmatch(
                    r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+"
                    r"|https://docs\.pytorch\.org/docs/stable/[\w./]+\.html",
                    link,
                )


# ---- what isn't about mixed precision ------------------------------------------------------------


def test_another_error_gets_no_confident_answer(subtests):
    for text in UNRELATED:
        with subtests.test(text[:60]):
            assert [entry.id for entry in ENTRIES if matched(entry, text)] == []
            assert not any(found.confident for found in lookup(text))


# ---- as older versions put it --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "expected-scalar-type",
            "RuntimeError: Expected object of scalar type Half but got scalar type Float for "
            "argument #2 'mat2' in call to _th_mm",
        ),
        (
            "expected-scalar-type",
            "RuntimeError: Expected tensor for argument #1 'input' to have the same dtype as "
            "tensor for 'result'; but type torch.cuda.HalfTensor does not equal "
            "torch.cuda.FloatTensor (while checking arguments for cudnn_batch_norm)",
        ),
        (
            "mat1-mat2-same-dtype",
            "RuntimeError: expected mat1 and mat2 to have the same dtype, but got: "
            "float != c10::Half",
        ),
        (
            "autocast-cuda-not-available",
            "UserWarning: torch.cuda.amp.autocast only affects CUDA ops, but CUDA is not "
            "available.  Disabling.",
        ),
        ("cpu-kernel-not-implemented-for-half", "\"slow_conv2d_cpu\" not implemented for 'Half'"),
        (
            "rnn-input-dtype",
            "RuntimeError: Input and parameter tensors are not the same dtype, found input tensor "
            "with Half and parameter tensor with Float",
        ),
        ("assign-gradient-dtype", "RuntimeError: assigned grad has data of a different type"),
        (
            "value-cannot-be-converted-to-half",
            "RuntimeError: value cannot be converted to type at::Half without overflow: -1e+09",
        ),
        (
            "unscale-bf16-gradients",
            'RuntimeError: "_amp_foreach_non_finite_check_and_unscale_cuda" not implemented '
            "for 'BFloat16'",
        ),
    ],
)
def test_older_wordings_find_the_same_entry(name, text):
    best = lookup(text)[0]
    assert (best.entry.id, best.confident) == (name, True)
