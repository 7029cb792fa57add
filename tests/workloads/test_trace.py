"""Traces keep every size as the product it was, and survive being written and read."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymicro.workloads import sizes, trace
from pymicro.workloads.trace import Operator, Phase, Tensor, Trace, TraceError

PRIMES = {"batch": 7, "beams": 3, "length": 104, "past": 52, "keys": 53}


@given(
    st.sets(st.sampled_from(["batch", "length", "keys"])),
    st.sampled_from([1, 2, 16, 64, 768, 1024]),
)
def test_a_size_is_found_again_at_other_parameters(names, constant):
    recorded = {"batch": 7, "length": 8 * 13, "keys": 53}
    number = constant
    for name in names:
        number *= recorded[name]
    found = sizes.express(number, recorded)
    other = {"batch": 32, "length": 128, "keys": 9}
    expected = constant
    for name in names:
        expected *= other[name]
    assert sizes.evaluate(found, other) == expected


@pytest.mark.parametrize("size", ["", "rows*3", "-4", "batch*", "1.5"])
def test_what_is_no_product_is_refused(size):
    with pytest.raises(ValueError, match="no product"):
        sizes.evaluate(size, PRIMES)


def example() -> Trace:
    tensor = Tensor(("batch*length", "768"), "float16")
    product = Operator("aten::mm", (tensor, tensor), (tensor,), module="layer.*", transposed="b")
    item = Operator("aten::_local_scalar_dense", (tensor,), (), synchronises=True, views=3)
    phases = (
        Phase("encode", "1", (product, item)),
        Phase("decode", "output-1", (product,), is_decode=True),
    )
    software = {"torch": "2.11.0", "transformers": "5.17.0"}
    return Trace("t5-large", "generate", "fp16", "eager", "cuda", software, PRIMES, 737, phases)


def test_written_and_read_it_is_the_same(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    trace.save(example(), path)
    assert trace.load(path) == example()
    first = path.read_bytes()
    trace.save(trace.load(path), path)
    assert path.read_bytes() == first


def test_bytes_follow_the_parameters():
    operator = example().phases[0].operators[0]
    assert operator.bytes({"batch": 2, "length": 8}) == 3 * 2 * 8 * 768 * 2


def test_decode_runs_one_step_fewer_than_tokens():
    decode = example().phases[1]
    assert trace.runs_of(decode, {"output": 60}) == 59
    assert trace.runs_of(decode, {"output": 1}) == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not gzip", "cannot be read"),
        (gzip.compress(b'{"a": 1}\n'), "no operator trace"),
        (gzip.compress(b'{"schema": 99}\n'), "another version"),
        (gzip.compress(b""), "no operator trace"),
        (gzip.compress(b'{"schema": 1, "model": "x"}\n'), "cannot be read"),
    ],
    # Packed bytes hold the time and make no name for a test.
    ids=["not packed", "no schema", "newer", "empty", "no phases"],
)
def test_what_is_no_trace_is_one_sentence(tmp_path, content, said):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=said):
        trace.load(path)


def test_a_truncated_file_is_one_sentence(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    trace.save(example(), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TraceError, match="cannot be read"):
        trace.load(path)


def test_what_a_mask_is_padded_to_is_a_size_of_its_own():
    pytest.importorskip("torch")
    from pymicro.e2e.recordings import FIRST, SECOND

    assert [sizes.grown(past)["padded"] for past in (0, 6, 7, 8, 148)] == [8, 8, 8, 16, 152]
    for values in (FIRST, SECOND):
        for name, number in values.items():
            own = {k: v for k, v in values.items() if k != "others"}
            if name != "others":
                assert sizes.express(number, own) == name  # Taken for no other one.
    # Sizes of the models themselves are no parameter's.
    for size in (64, 768, 1024, 3072, 4096, 30522, 32128, 50257, 128256):
        assert sizes.express(size, FIRST) == str(size)
        assert sizes.express(size, SECOND) == str(size)
