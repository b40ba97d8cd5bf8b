"""What lesson 04's checks ask torch, regions for both devices, and exercises called in a region."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from amp_lessons.checks import autocast_ops as checks
from amp_lessons.checks.cases import Case, Misconception, function_exercise

HALF, BFLOAT, SINGLE = torch.float16, torch.bfloat16, torch.float32


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [HALF, BFLOAT])
def test_region_is_open_inside_and_restored_after_an_exception(device, dtype):
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    seen = []

    def inside():
        with checks.region(device, dtype):
            seen.append(torch.is_autocast_enabled(device))
            seen.append(torch.get_autocast_dtype(device))
            seen.append((torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).dtype)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        inside()
    assert seen == [True, dtype, dtype]
    assert before == (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))


def test_region_without_a_dtype_casts_nothing():
    for device in ("cpu", "cuda"):
        with checks.region(device, None):
            ones = torch.ones(2, 2, device=device)
            assert (ones @ ones).dtype is SINGLE


def test_cases_of_the_oracle_reach_every_op_on_both_devices_and_all_have_an_answer():
    cases = checks._oracle_cases()
    assert len(cases) == 400
    assert {case.args[:2] for case in cases} == {
        (op, device) for op in checks._OPS for device in ("cpu", "cuda")
    }
    assert all(checks._asked(*case.args) is not None for case in cases)


def test_the_model_of_the_oracle_without_a_change_is_right_everywhere():
    oracle = checks._model()
    wrong = [c for c in checks._oracle_cases() if oracle(*c.args) is not checks._asked(*c.args)]
    assert not wrong


def test_each_misconception_of_the_oracle_is_wrong_somewhere():
    answers = [checks._asked(*case.args) for case in checks._oracle_cases()]
    for change in ({"everywhere": "cuda"}, {"everywhere": "cpu"}, {"in_place": True}):
        oracle = checks._model(**change)
        assert [oracle(*case.args) for case in checks._oracle_cases()] != answers


def test_oracle_agrees_with_the_policy_module():
    from amp_lessons.policy import op_policy

    for op in ("softmax", "layer_norm", "exp", "sum", "mean", "mse_loss", "relu", "matmul", "prod"):
        for device in ("cpu", "cuda"):
            inputs = (HALF,) * checks._OPS[op][0]
            assert checks._asked(op, device, HALF, inputs) is op_policy(op, device, HALF).low


def test_half_mended_sheet_is_not_attempted_and_names_what_is_open():
    import amp_lessons.checks.exercise as exercise

    given = list(checks._BROKEN.values())
    given[3] = lambda x, weight: ((x @ weight).float() ** 2).sum()
    verdict = checks.mend_mismatches.evaluate(*given)
    assert verdict.state is exercise.State.NOT_ATTEMPTED
    assert verdict.message.startswith("1 of 5 mended; open: update_memory, project")


# ---- an exercise that is called in a way of its own ---------------------------------------------


def in_a_region(function, x):
    with checks.region("cpu", BFLOAT):
        return function(x)


CALLED = function_exercise(
    "gram",
    cases=lambda: [Case((torch.ones(2, 2),), "ones")],
    reference=lambda x: (x @ x).dtype,
    play=lambda answer: partial(in_a_region, answer),
    same=lambda expected, seen: expected == seen,
    misconceptions={
        "single": Misconception("It is float32.", lambda x: x.dtype),
    },
    hints=("one", "two"),
    lesson_learned="",
)


def test_call_is_used_for_the_answer_the_reference_and_the_models():
    assert CALLED.evaluate(lambda x: (x.T @ x).dtype).passed
    verdict = CALLED.evaluate(lambda x: torch.relu(x).dtype)
    assert verdict.diagnosis == "single"


def test_stub_of_an_exercise_with_a_call_is_not_attempted():
    def stub(x):
        raise NotImplementedError

    for answer in (stub, ..., lambda x: ...):
        assert CALLED.evaluate(answer).state == "not attempted"
