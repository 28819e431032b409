"""The example, run as a user of MLX would run it: with MLX's import names, through `python -m oxmlx run`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


@pytest.mark.slow
def test_digits(tmp_path):
    pytest.importorskip("sklearn")
    image = pytest.importorskip("PIL.Image")
    source = re.sub(r"^(import|from) oxmlx\b", r"\1 mlx", EXAMPLE.read_text(), flags=re.MULTILINE)
    assert "import mlx.core as mx" in source and "import oxmlx" not in source
    (tmp_path / "digits_mlx.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "oxmlx", "run", "digits_mlx.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    match = re.fullmatch(r"digits: test accuracy (\S+), (\d+) parameters, (\S+) s on (.+)", last)
    assert match, last
    assert float(match[1]) >= 0.975 and int(match[2]) == 35914
    assert done.stdout.count("digits: test accuracy") == 1
    for name in ("digits_curves.png", "digits_errors.png"):
        with image.open(tmp_path / "out" / name) as picture:
            assert picture.width > 300 and len(picture.getcolors(100_000)) > 3
    assert (tmp_path / "out" / "digits.safetensors").stat().st_size > 4 * 35914
