"""policy.py against four witnesses: the documentation's lists, torch.testing's lists, the header
that torch installs, and the dispatcher's own registrations; and what it must leave untouched."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import threading
import types
import warnings
from collections import Counter
from itertools import product
from pathlib import Path

import policy_tables
import pytest
import torch
from autocast_docs import DOCUMENTED
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.amp import policy
from amp_lessons.amp.policy import (
    OPS,
    OpPolicy,
    PolicyError,
    calls,
    judging,
    op_policy,
    policy_table,
)

pytestmark = pytest.mark.filterwarnings("error")

HALF, BF16, FLOAT, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64
CASES = [(device, dtype) for device in policy.DEVICES for dtype in (HALF, BF16)]
NO_GPU = not torch.cuda.is_available()
SINCE_2_14, SINCE_2_15 = (torch.__version__ >= (2, minor) for minor in (14, 15))
REMOVED = {"cholesky", "qr"} if SINCE_2_14 else set()  # torch.linalg has them


@pytest.fixture(scope="module")
def tables() -> dict[tuple[str, torch.dtype], dict[str, OpPolicy]]:
    return {case: {p.op: p for p in policy_tables.live(*case)} for case in CASES}


# ---- the table ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_op_is_answered_or_says_why(tables, case):
    device, _ = case
    table = tables[case]
    assert tuple(table) == OPS
    assert len(OPS) == len(set(OPS)) >= 250
    for p in table.values():
        assert (p.device, p.dtype) == case
        assert p.group in policy.GROUPS
        assert p.measured == ("fake tensors" if device == "cuda" and NO_GPU else "measured")
        assert p.note
        assert p.inputs >= 1
        assert (p.inputs == 1) <= (p.mixed is None)
        if p.low is None or p.full is None:
            assert re.search("raises|does not run", p.note), p
    counts = policy.counts(table.values())
    print(policy.caption(table.values()))
    assert sum(counts.values()) == len(OPS)
    assert counts["not answerable"] <= 12


# Without a GPU these have no kernel that runs on fake tensors, and nothing that autocast casts.
UNANSWERED = {
    "cuda": {
        *("geqrf", "linalg_lstsq", "fake_quantize_per_tensor_affine", "gaussian_nll_loss"),
        *("ctc_loss", "grid_sampler_2d", "_grid_sampler_2d_cpu_fallback", "addmm(out=)"),
    },
    "cpu": {
        *("cudnn_convolution", "cudnn_convolution_transpose", "_thnn_fused_lstm_cell"),
        *("_thnn_fused_gru_cell", "_scaled_dot_product_flash_attention"),
    },
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_not_answerable_is_known(tables, case):
    lost = {p.op for p in tables[case].values() if p.group == "not answerable"}
    assert lost <= UNANSWERED[case[0]] | {"_grid_sampler_2d_cpu_fallback"}


# torch 2.14 takes bfloat16 here, and gives float32 by itself. Before, it refused bfloat16.
WIDENS_BFLOAT16 = {"fft_irfft", "fft_irfft2", "fft_irfftn", "fft_hfft"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_dtypes_of_a_group_agree_with_it(tables, case):
    """What the casts say and what comes out are two measurements of one thing."""
    device, low = case
    checked = 0
    for p in tables[case].values():
        results = {p.low, p.full, p.mixed} - {None}
        if not results <= {low, FLOAT}:
            continue  # complex, bool or integer results
        if SINCE_2_14 and p.op in WIDENS_BFLOAT16 and low is BF16 and device == "cuda":
            assert (p.group, p.low, p.full) == ("as given", FLOAT, FLOAT), p
            continue
        checked += 1
        if p.group == "lower precision" and p.listed:
            assert results <= {low}, p
        elif p.group == "float32":
            assert results <= {FLOAT}, p
        elif p.group == "widest":
            assert (p.low, p.full, p.mixed) in ((low, FLOAT, FLOAT), (None, None, None)), p
        elif p.group == "as given":
            assert p.low in (low, None), p
            assert p.full in (FLOAT, None), p
    assert checked >= 230


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float64_stays_float64(tables, case):
    """Documentation: ops that run in float64 are not eligible."""
    same = {DOUBLE, torch.complex128, torch.bool, torch.int64, None}
    assert {p.double for p in tables[case].values()} <= same
    assert sum(p.double is DOUBLE for p in tables[case].values()) >= 240


@pytest.mark.parametrize("case", CASES, ids=str)
def test_variants_are_left_alone(tables, case):
    """In place, with out= and with an explicit dtype=: not autocast."""
    low = case[1]
    asked = [tables[case][name] for name in policy.VARIANTS]
    for p in asked:
        assert p.group in ("as given", "not answerable"), p
        assert not p.listed
        if p.group == "as given":
            explicit = "(dtype=)" in p.op
            assert (p.low, p.full) == ((DOUBLE, DOUBLE) if explicit else (low, FLOAT)), p
    assert sum(p.group == "as given" for p in asked) >= len(asked) - 1


# ---- witness 1: the documentation ---------------------------------------------------------------


def test_the_documentation_agrees(tables):
    """Both devices, both dtypes, every group: not one difference in torch 2.13 or 2.15."""
    different = {}
    for (device, group), names in DOCUMENTED.items():
        for name in set(names) - REMOVED:
            for dtype in (HALF, BF16):
                found = tables[device, dtype][policy.find_op(name)].group
                if found != group:
                    different[device, name] = found
    assert different == {}


# The other way round: ops that autocast changes though the documentation does not list them. Some
# have a rule of their own, as the dispatcher says. The others call an op that has one: this one.
CALLS_A_LISTED_OP = {
    "cuda": {
        "inner": "tensordot",
        "matrix_power": "matmul",
        "lstm": "linear",
        "gru": "linear",
        "rnn_tanh": "linear",
        "multi_head_attention": "linear",
        "square": "pow",
        "local_response_norm": "pow",
        "multilabel_soft_margin_loss": "sum",
        "interpolate": "upsample_nearest2d",
    },
    "cpu": {
        "einsum": "bmm",
        "chain_matmul": "mm",
        "multi_dot": "mm",
        "tensordot": "mm",
        "inner": "mm",
        "matrix_power": "matmul",
        "LSTMCell": "linear",
        "GRUCell": "linear",
        "RNNCell": "linear",
        "rnn_relu_cell": "linear",
        "lstm": "linear",
        "gru": "linear",
        "rnn_tanh": "linear",
        "multi_head_attention": "linear",
    },
}


@pytest.mark.parametrize("device", policy.DEVICES)
def test_what_changes_and_is_not_documented_is_explained(tables, device):
    table = tables[device, HALF]
    documented = {
        policy.find_op(name)
        for (where, _), names in DOCUMENTED.items()
        for name in set(names) - REMOVED
        if where == device
    }
    changed = [p for p in table.values() if p.group in policy.GROUPS[:3]]
    silent = [p for p in changed if p.op not in documented]
    explained = CALLS_A_LISTED_OP[device]
    assert {p.op for p in silent if not p.listed} == set(explained)
    for op, called in explained.items():
        assert table[called].listed
        assert table[called].group == table[op].group
    listed = [p.op for p in silent if p.listed]
    print(f"{device}: rules that the documentation does not list: {listed}")
    assert len(listed) >= {"cuda": 30, "cpu": 3}[device]


def test_every_documented_op_is_in_the_table():
    names = {(device, name) for (device, _), names in DOCUMENTED.items() for name in names}
    assert len(names) >= 190
    for _, name in names:
        if name not in REMOVED:
            assert policy.find_op(name) in OPS


def test_an_op_of_another_torch_is_told_with_a_version_that_has_it():
    """2.14 removed cholesky and qr, and brought linalg_matrix_sqrth."""
    for name in ("cholesky", "qr") if SINCE_2_14 else ("linalg_matrix_sqrth",):
        assert name not in OPS
        there = r"2\.13\.0" if SINCE_2_14 else r"2\.15\.0"
        with pytest.raises(
            PolicyError, match=rf"torch [\d.]+ has no {name}; it is in torch {there}"
        ):
            op_policy(name)


# ---- witness 2: torch.testing -------------------------------------------------------------------


@pytest.fixture(scope="module")
def their_lists():
    """torch.testing's module of lists. It asks its neighbour for two names only, and the neighbour
    would ask for packages that this project does not need."""
    neighbour = types.ModuleType("torch.testing._internal.common_utils")
    neighbour.TEST_WITH_ROCM, neighbour.TestCase = False, object
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, neighbour.__name__, neighbour)
        yield importlib.import_module("torch.testing._internal.autocast_test_lists")
    sys.modules.pop("torch.testing._internal.autocast_test_lists")


CUDA_LISTS = {
    "torch_fp16": "lower precision",
    "nn_fp16": "lower precision",
    "linalg_fp16": "lower precision",
    "methods_fp16": "lower precision",
    "torch_fp32": "float32",
    "nn_fp32": "float32",
    "methods_fp32": "float32",
    "torch_need_autocast_promote": "widest",
    "torch_expect_builtin_promote": "as given",
    "banned": "refused",
}
CPU_LISTS = {
    "torch_16": "lower precision",
    "nn_16": "lower precision",
    "torch_fp32": "float32",
    "nn_fp32": "float32",
    "torch_need_autocast_promote": "widest",
    "torch_expect_builtin_promote": "as given",
}
NOT_A_TENSOR = {"equal"}  # its result is a Python bool


@pytest.mark.parametrize(
    ("device", "make", "lists"),
    [("cuda", "AutocastTestLists", CUDA_LISTS), ("cpu", "AutocastCPUTestLists", CPU_LISTS)],
    ids=["cuda", "cpu"],
)
def test_torch_testing_agrees(tables, their_lists, device, make, lists):
    with FakeTensorMode():
        theirs = getattr(their_lists, make)(device)
    compared = 0
    for attribute, group in lists.items():
        for name in {entry[0] for entry in getattr(theirs, attribute)} - NOT_A_TENSOR:
            for dtype in (HALF, BF16):
                found = tables[device, dtype][policy.find_op(name)]
                assert found.group == group, (name, attribute, found)
                compared += 1
    print(f"{device}: {compared} comparisons with torch.testing's lists")
    assert compared >= {"cuda": 200, "cpu": 90}[device]


# ---- witnesses 3 and 4: the installed header and the dispatcher ---------------------------------


HEADER_LISTS = {
    "AT_FORALL_LOWER_PRECISION_FP": "lower precision",
    "AT_FORALL_FP32": "float32",
    "AT_FORALL_FP32_SET_OPT_DTYPE": "float32",
    "AT_FORALL_PROMOTE": "widest",
}


def test_the_installed_header_agrees(tables):
    header = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
    text = header.read_text(encoding="utf-8")
    compared = 0
    for macro, group in HEADER_LISTS.items():
        (body,) = re.findall(rf"#define {macro}\(_\)((?:.*\\\n)+.*\n)", text)
        for name in re.findall(r"_\((\w+)", body):
            found = tables["cuda", HALF][policy.find_op(name)]
            assert found.group == group, found
            assert found.listed, found
            compared += 1
    assert compared >= 110


# A build with CUDA has a rule for cuDNN's RNN, which `lstm`, `gru` and `rnn_tanh` call on a GPU.
NEEDS_A_DRIVER = {"_cudnn_rnn"}


@pytest.mark.parametrize("device", policy.DEVICES)
def test_every_rule_of_the_dispatcher_is_in_the_table(tables, device):
    rules = policy.rules(device)
    assert len(rules) >= 100
    for rule in rules - NEEDS_A_DRIVER:
        found = tables[device, HALF][policy.find_op(rule)]
        assert found.group not in ("as given",), f"{rule} has a rule that does not show: {found}"


# ---- what is known ------------------------------------------------------------------------------

LOW_ON_CPU = """softmax log_softmax logsumexp layer_norm group_norm exp log pow sum norm
    cosine_similarity cumsum rms_norm"""


def test_low_on_the_cpu_and_float32_on_cuda(tables, subtests):
    """rms_norm is here since torch 2.12; in 2.11 it stayed low on CUDA too."""
    for name, dtype in product(LOW_ON_CPU.split(), (HALF, BF16)):
        with subtests.test(f"{name}, {dtype}"):
            assert tables["cpu", dtype][name].low is dtype
            assert tables["cuda", dtype][name].low is FLOAT


LOSSES = """mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy nll_loss kl_div
    binary_cross_entropy_with_logits prod"""


@pytest.mark.parametrize("name", LOSSES.split())
def test_losses_and_prod_are_float32_on_both(tables, name):
    assert {tables[case][name].low for case in CASES} == {FLOAT}


UNLISTED = "mean var std max sqrt sigmoid tanh gelu relu batch_norm embedding dropout"


@pytest.mark.parametrize("name", UNLISTED.split())
def test_what_is_on_no_list_runs_as_given(tables, name):
    for case in CASES:
        p = tables[case][name]
        assert (p.low, p.full, p.group, p.listed) == (case[1], FLOAT, "as given", False), p


def test_binary_cross_entropy_is_refused_on_cuda_with_torchs_own_words(tables):
    for dtype in (HALF, BF16):
        refused = tables["cuda", dtype]["binary_cross_entropy"]
        assert (refused.low, refused.full, refused.mixed) == (None, None, None)
        assert refused.group == "refused"
        assert refused.note.startswith(
            "raises: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
            "autocast.\n"
        )
        assert refused.note.endswith("are\nsafe to autocast.")
        assert tables["cpu", dtype]["binary_cross_entropy"].low is FLOAT
        only = [p.op for p in tables["cuda", dtype].values() if p.group == "refused"]
        assert only == ["binary_cross_entropy"]


def test_what_only_the_casts_tell(tables):
    """Its kernel needs a GPU, but autocast's casts come first and are seen. Since torch 2.15 fake
    tensors can run it."""
    cell = tables["cuda", HALF]["GRUCell"]
    assert cell.group == "lower precision"
    if SINCE_2_15:
        assert (cell.low, cell.full) == (HALF, HALF)
    elif NO_GPU:
        assert (cell.low, cell.full) == (None, None)
        assert "the answer comes from its casts" in cell.note


def test_the_cpu_answers_are_what_an_ordinary_region_gives():
    x = torch.rand(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert op_policy("mm", "cpu", BF16).full is torch.mm(x, x).dtype is BF16
        assert op_policy("softmax", "cpu", BF16).low is x.bfloat16().softmax(1).dtype is BF16
        assert op_policy("mse_loss", "cpu", BF16).low is FLOAT
        assert torch.mm(x, x).dtype is BF16


# ---- names and errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("softmax", "softmax"),
        ("torch.softmax", "softmax"),
        ("torch.nn.functional.softmax", "softmax"),
        ("F.layer_norm", "layer_norm"),
        ("aten::mm", "mm"),
        ("Linear", "linear"),
        ("torch.nn.LayerNorm", "layer_norm"),
        ("lstm_cell", "LSTMCell"),
        ("rnn_tanh_cell", "RNNCell"),
        ("grid_sampler", "grid_sample"),
        ("linalg_multi_dot", "multi_dot"),
        ("addmm_", "addmm_"),
        ("mm(out=)", "mm(out=)"),
        ("aten.addmm.default", "addmm"),
        ("torch.ops.aten.mm.default", "mm"),
        ("aten::softmax.int", "softmax"),
        ("aten::mm.out", "mm(out=)"),
        ("torch.Tensor.add_", "add_"),
        ("torch.linalg.svd", "linalg_svd"),
        ("torch.linalg.norm", "norm"),
        ("torch.fft.rfft", "fft_rfft"),
    ],
)
def test_names(asked, found):
    assert policy.find_op(asked) == found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sotfmax",), "no op called 'sotfmax' among the 3.* near it: softmax"),
        (("zzz",), "no op called 'zzz'.*OPS has the names"),
        ((torch.softmax,), "op must be a name such as 'softmax', got builtin"),
        (("",), "no op called ''"),
        (("cumsum_",), "leaves alone what works in place.*near it: cumsum"),
        (("torch.Tensor.log_",), "leaves alone what works in place"),
        (("aten.log.out",), r"leaves alone what works in place or with out="),
        (("torch.sparse.mm",), "no op called 'torch.sparse.mm'"),
        (("torch.ao.nn.quantized.functional.linear",), "near it: linear"),
        (("torch._foreach_add",), "explain_autocast shows any op"),
        (("mm", "gpu"), "device must be 'cuda' or 'cpu', got 'gpu'; near it: 'cpu'"),
        (("mm", "cudaa"), "near it: 'cuda'"),
        (("mm", "mps"), "device must be 'cuda' or 'cpu', got 'mps'"),
        (("mm", "cuda", torch.float32), "float16 or torch.bfloat16, not torch.float32$"),
        (("mm", "cuda", torch.float64), "not torch.float64$"),
        (("mm", "cuda", "fp61"), "not fp61; near it: 'fp16'"),
        (("mm", "cuda", None), "not None"),
    ],
    ids=lambda value: value if isinstance(value, str) else "call",
)
def test_errors_are_clear_and_change_nothing(arguments, message):
    before = state()
    with pytest.raises(PolicyError, match=message):
        op_policy(*arguments)
    assert state() == before
    assert issubclass(PolicyError, ValueError)


def test_devices_and_dtypes_by_other_names():
    plain = op_policy("mm", "cpu", BF16)
    assert (
        plain == op_policy("mm", torch.device("cpu"), "bf16") == op_policy("mm", "CPU", "BFloat16")
    )
    assert op_policy("mm", "cuda:0", "half") == op_policy("mm")


# ---- what is left untouched ---------------------------------------------------------------------


def state() -> tuple:
    return (
        *((torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in policy.DEVICES),
        torch.is_autocast_cache_enabled(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_rng_state().sum().item(),
        list(warnings.filters),
    )


@pytest.mark.parametrize("device", policy.DEVICES)
def test_state_is_put_back(device):
    torch.manual_seed(7)
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", HALF)
    torch.set_autocast_dtype("cuda", BF16)
    torch.set_autocast_cache_enabled(False)
    torch.set_default_dtype(DOUBLE)
    try:
        before = state()
        policy_table(device, BF16)
        assert state() == before
        assert op_policy("dropout", device).full is FLOAT
        assert state() == before
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", BF16)
        torch.set_autocast_dtype("cuda", HALF)
        torch.set_autocast_cache_enabled(True)
        torch.set_default_dtype(FLOAT)


@pytest.mark.parametrize("device", policy.DEVICES)
@pytest.mark.parametrize("problem", [KeyboardInterrupt, SystemExit])
def test_state_is_put_back_after_an_interrupt(monkeypatch, device, problem):
    def interrupted(_):
        torch.rand(3)
        raise problem

    monkeypatch.setitem(calls.CALLS, "mm", interrupted)
    before = state()
    with pytest.raises(problem):
        op_policy("mm", device)
    assert state() == before
    assert torch.ones(2).tolist() == [1, 1], "still inside the fake tensors' mode"


class Casts(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten._to_copy.default
        return func(*args, **(kwargs or {}))


def test_the_callers_cache_is_kept():
    """Weight and bias are cast once in a region, also if a policy is asked in the middle of it."""
    layer, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
    with torch.autocast("cpu", BF16), Casts() as casts:
        layer(x)
        first = casts.count
        policy_table("cpu")
        op_policy("mm")
        layer(x)
    assert (first, casts.count) == (3, 4)


def test_inside_other_modes_the_answers_are_the_same():
    expected = [op_policy("layer_norm", d) for d in policy.DEVICES]
    with torch.inference_mode(), torch.device("meta"):
        assert [op_policy("layer_norm", d) for d in policy.DEVICES] == expected
    with FakeTensorMode():
        assert [op_policy("layer_norm", d) for d in policy.DEVICES] == expected
    assert [p.measured for p in expected][1] == "measured"


@pytest.mark.slow
def test_threads(tables):
    found: dict[int, list[OpPolicy]] = {}

    def ask(i: int) -> None:
        found[i] = policy_table(*CASES[i])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(CASES))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {CASES[i]: table for i, table in found.items()} == {
        case: list(table.values()) for case, table in tables.items()
    }


@pytest.mark.parametrize("device", policy.DEVICES)
def test_a_table_tries_each_op_few_times_in_one_sandbox(monkeypatch, device):
    """Three kinds of input with autocast and without, float64, and a few more for the notes."""
    made = Counter()

    def counted(module, name):
        original = getattr(module, name)

        def call(*args, **options):
            made[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(module, name, call)

    counted(judging, "attempt")
    counted(policy, "sandbox")
    table = policy.policy_table(device)
    assert made["sandbox"] == 1
    assert 7 * len(table) <= made["attempt"] < 7.5 * len(table)


@pytest.mark.slow
def test_the_first_table_of_a_process_is_quiet():
    """It also imports the fake tensors, and writes not a word on standard error."""
    code = "from amp_lessons.amp import policy; print(len(policy.policy_table('cuda')))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) == len(policy.OPS)


# ---- showing ------------------------------------------------------------------------------------


def test_plain_data_and_caption(tables):
    table = list(tables["cuda", HALF].values())
    assert f"{len(OPS)} ops" in policy.caption(table)
    plain = policy.as_json(table)
    assert plain[0]["op"] == "linear"
    assert plain[0]["low"] == "float16"
    assert plain[OPS.index("relu")]["mixed"] is None
    assert policy.caption([]) == "no ops"
