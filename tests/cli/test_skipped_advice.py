"""Advice beside what was skipped is such that following it helps."""

import json

import pytest
from click.testing import CliRunner

from pymicro.backends import base
from pymicro.cli import cli


def test_no_library_is_recommended_for_a_format_that_a_cpu_lacks(monkeypatch):
    pytest.importorskip("pymicro._native")
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    words = ["gemm", "--size", "64", "--dtype", "fp8", "--device", "cpu", "--no-store"]
    done = CliRunner().invoke(cli, [*words, "--format", "json"])
    reasons = [r["reason"] for r in json.loads(done.stdout)["results"]]
    assert reasons
    assert not [reason for reason in reasons if "pip install" in reason]
