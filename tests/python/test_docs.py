"""The documents name tests: each of them exists."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.skipif(not DOCS.is_dir(), reason="the documents are not here")
def test_every_difference_names_a_test_that_exists():
    text = (DOCS / "differences.md").read_text()
    named = 0
    for row in text.splitlines():
        file = None
        for found in re.findall(r"`([a-z_]+\.py)?(?:::)?(test_\w+)?`", row):
            file = found[0] or file
            if not file or not (found[0] or found[1]):
                continue
            source = Path(__file__).with_name(file).read_text()
            assert not found[1] or f"def {found[1]}(" in source, (file, found[1])
            named += 1
        if row.startswith("| ") and "---" not in row and not row.startswith("| | "):
            assert file, f"no test is named: {row}"
    assert named > 20
