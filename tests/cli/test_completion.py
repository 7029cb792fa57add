"""What the shell offers after a tab."""

import os
import subprocess
import sys

import pytest


def offered(*words: str) -> list[str]:
    env = {
        **os.environ,
        "_PYMICRO_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("pymicro", *words)),
        "COMP_CWORD": str(len(words)),
    }
    code = "from pymicro.cli import cli; cli(prog_name='pymicro')"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    return [line.split(",", 1)[1] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("gemm", "--backend", "n"), {"native", "numba"}),
        (("gemm", "--backend", "native,n"), {"native,numba"}),
        (("gemm", "--dtype", "fp1"), {"fp16"}),
        (("gemm", "--dtype", "fp16,bf"), {"fp16,bf16"}),
        (("gemm", "--layout", ""), {"all", "nt", "nn"}),
        (("transfer", "--host", "pin"), {"pinned"}),
        (("compa",), {"compare"}),
    ],
)
def test_words_are_completed_after_the_last_comma(words, expected):
    assert expected <= set(offered(*words))


def test_what_was_typed_is_not_offered_again():
    assert "fp16,fp16" not in offered("gemm", "--dtype", "fp16,fp")
