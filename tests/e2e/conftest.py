import pytest


@pytest.fixture(autouse=True)
def _whole_jobs_can_run():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
