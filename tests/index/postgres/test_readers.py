"""Two servers without files and one writer, as processes: nobody is told what was written over more than a moment ago."""

from __future__ import annotations

import pytest

from tests.benchmarks.readers import STATED, run


@pytest.mark.slow
def test_no_answer_is_older_than_stated(tmp_path):
    """Each reader shows each write within the stated time, no answer is staler, none fails; a write handed over counts too."""
    found = run(tmp_path, 6.0)
    assert not found.errors
    assert len(found.written) > 5
    assert found.handed
    for reader in range(2):
        assert len(found.delays(reader)) == len(found.written)
        assert len(found.seen[reader]) > 20
        assert found.delays(reader)[-1] <= STATED
    assert found.stale() <= STATED
