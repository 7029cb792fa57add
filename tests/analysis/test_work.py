"""Operations, bytes and classes of operators follow from names and shapes."""

import pytest

from pymicro.analysis.work import Product, class_of, work_of
from pymicro.workloads.trace import Operator, Tensor

VALUES = {"batch": 2, "length": 16, "beams": 1, "past": 7, "keys": 8, "next": 9}


def tensor(*shape, dtype="float32", place="device"):
    return Tensor(tuple(map(str, shape)), dtype, place)


def test_a_product_with_a_bias_knows_its_sizes():
    reads = (tensor(768), tensor("batch*length", 64), tensor(64, 768))
    made = work_of(
        Operator("aten::addmm", reads, (tensor("batch*length", 768),), transposed="b"), VALUES
    )
    assert made.product == Product(1, 32, 768, 64, "nt")
    assert made.flop == 2 * 32 * 768 * 64
    assert made.bytes == 4 * (768 + 32 * 64 + 64 * 768 + 32 * 768)


def test_a_batched_product_counts_its_batch():
    reads = (tensor("batch*12", "length", 64), tensor("batch*12", 64, "keys"))
    made = work_of(Operator("aten::bmm", reads, (tensor("batch*12", "length", "keys"),)), VALUES)
    assert made.product == Product(24, 16, 8, 64, "nn")


def test_a_gradient_of_weights_reads_its_first_operand_transposed():
    reads = (tensor(768, "batch*length"), tensor("batch*length", 64))
    made = work_of(Operator("aten::mm", reads, (tensor(768, 64),), transposed="a"), VALUES)
    assert made.product == Product(1, 768, 64, 32, "tn")


@pytest.mark.parametrize(("name", "products"), [("", 2), ("_backward", 5)])
def test_attention_counts_its_products(name, products):
    heads = tensor("batch", 12, "length", 64)
    keys = tensor("batch", 12, "keys", 64)
    reads = (heads, keys, keys) if not name else (heads, heads, keys, keys, heads)
    operator = Operator(f"aten::_scaled_dot_product_flash_attention{name}", reads, (heads,))
    assert work_of(operator, VALUES).flop == products * 2 * 2 * 12 * 16 * 8 * 64


def test_a_causal_mask_halves_the_count():
    heads = tensor("batch", 12, "length", 64)
    plain = Operator("aten::_scaled_dot_product_flash_attention", (heads,) * 3, (heads,))
    causal = Operator(plain.name, plain.reads, plain.writes, details={"is_causal": True})
    assert 2 * work_of(causal, VALUES).flop == work_of(plain, VALUES).flop


def test_a_copy_from_the_host_crosses_the_link():
    reads = (tensor("batch", "length", dtype="int64", place="host"),)
    operator = Operator("aten::_to_copy", reads, (tensor("batch", "length", dtype="int64"),))
    made = work_of(operator, VALUES)
    assert (made.host_bytes, made.bytes) == (2 * 16 * 8, 2 * 16 * 8)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::addmm", "product"),
        ("aten::_scaled_dot_product_efficient_attention_backward", "attention"),
        ("aten::native_layer_norm_backward", "normalisation"),
        ("aten::_softmax_backward_data", "softmax"),
        ("aten::_foreach_addcdiv_.ScalarList", "optimiser"),
        ("aten::_fused_adamw_", "optimiser"),
        ("aten::embedding_dense_backward", "scatter"),
        ("aten::embedding", "gather"),
        ("aten::sum.dim_IntList", "reduction"),
        ("aten::_to_copy", "copy"),
        ("aten::native_dropout", "random"),
        ("aten::gelu_backward", "pointwise"),
        ("aten::never_heard_of", "pointwise"),
        ("aten::_local_scalar_dense", "none"),
    ],
)
def test_the_class_follows_from_the_name(name, kind):
    assert class_of(name) == kind


def test_operands_of_two_formats_and_strided_sources_are_told():
    half, wide, scale = tensor(64, dtype="float16"), tensor(64), tensor(dtype="float32")
    assert work_of(Operator("aten::add.Tensor", (wide, half), (wide,)), VALUES).is_mixed
    assert not work_of(Operator("aten::add.Tensor", (half, half), (half,)), VALUES).is_mixed
    assert not work_of(Operator("aten::mul.Tensor", (half, scale), (half,)), VALUES).is_mixed
    strided = Operator("aten::clone", (wide,), (wide,), details={"strided": True})
    assert work_of(strided, VALUES).is_strided
    assert not work_of(Operator("aten::clone", (wide,), (wide,)), VALUES).is_strided


def test_a_special_form_of_an_operator_has_a_row_of_its_own_where_there_is_one():
    from dataclasses import replace

    from pymicro.analysis.durations import kernel_of
    from pymicro.analysis.primitives import Kernel
    from tests.analysis.devices import device

    p = device()
    slow, slower = Kernel(1.0, 1.0, (5.0, 5.0)), Kernel(1.0, 1.0, (2.0, 2.0))
    strided = work_of(
        Operator("aten::clone", (tensor(64),), (tensor(64),), details={"strided": True}), VALUES
    )
    assert kernel_of(strided, p) == p.library.kernels["copy"]
    for rows, expected in (
        ({"copy_strided": slow}, slow),
        ({"copy_strided": slow, "clone_strided": slower}, slower),
        ({"clone": slow}, slow),
    ):
        library = replace(p.library, kernels={**p.library.kernels, **rows})
        assert kernel_of(strided, replace(p, library=library)) == expected
