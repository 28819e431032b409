"""`python -m oxmlx`, `import oxmlx.as_mlx`, and what importing costs: each in a process of its own."""

import subprocess
import sys

import oxmlx.core as mx
import pytest
from oxmlx._doctor import gpu_rows


def python(*arguments, cwd=None, check=True):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=cwd
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


SCRIPT = """
import sys
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten
import mlx.core.random
import mlx.nn.losses
import oxmlx.core
import oxmlx.nn.layers.linear
assert mx is oxmlx.core and nn.Linear is oxmlx.nn.layers.linear.Linear
assert sys.modules["mlx.nn.layers.linear"] is oxmlx.nn.layers.linear
model = nn.Linear(2, 1)
optimizer = optim.SGD(0.1)
loss, grads = nn.value_and_grad(model, lambda m: m(mx.ones((1, 2))).sum())(model)
optimizer.update(model, grads)
print("ran", __name__, sys.argv[1:], len(tree_flatten(model.parameters())))
"""


def test_run_script(tmp_path):
    (tmp_path / "helper.py").write_text("VALUE = 1\n")
    (tmp_path / "program.py").write_text("import helper\n" + SCRIPT)
    done = python("-m", "oxmlx", "run", tmp_path / "program.py", "--steps", "3")
    assert done.stdout == "ran __main__ ['--steps', '3'] 2\n"


def test_run_module(tmp_path):
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tool.py").write_text(SCRIPT)
    done = python("-m", "oxmlx", "run", "-m", "mypackage.tool", "x", cwd=tmp_path)
    assert done.stdout == "ran __main__ ['x'] 2\n"


def test_as_mlx(tmp_path):
    done = python("-c", "import oxmlx.as_mlx\n" + SCRIPT)
    assert done.stdout.startswith("ran")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["run", "nothing.py"], "there is no file 'nothing.py'"),
        (["run", "json.tool"], "run -m json.tool"),
        (["run"], "run needs a script"),
        (["fly"], "unknown command 'fly'"),
        ([], "what should it do?"),
    ],
)
def test_mistakes_are_explained(arguments, message):
    done = python("-m", "oxmlx", *arguments, check=False)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_errors_of_the_program_pass_through(tmp_path):
    (tmp_path / "fails.py").write_text("raise SystemExit(7)\n")
    assert python("-m", "oxmlx", "run", tmp_path / "fails.py", check=False).returncode == 7


def test_doctor():
    done = python("-m", "oxmlx", "doctor")
    for word in ("oxmlx", "Python", "CPU", "default device", "self-test        ok"):
        assert word in done.stdout


REPORT = {
    "driver": "CUDA 13.0",
    "devices": [{"name": "NVIDIA H200", "compute_capability": "9.0", "memory": 150 << 30}],
    "libraries": {"nvrtc": "/lib/libnvrtc.so.13", "cublasLt": None, "cudnn": None},
    "pack_architectures": [90],
    "kernel_cache": None,
    "problem": None,
}


def test_a_gpu_that_was_asked_for_and_is_not_there(monkeypatch):
    """Not the CPU instead: the first eval says so, and the doctor why."""
    monkeypatch.setenv("OXMLX_DEVICE", "gpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    code = "import oxmlx.core as mx; print(mx.default_device(), mx.get_active_memory()); mx.eval(mx.ones(3))"
    done = python("-c", code, check=False)
    assert done.returncode == 1 and done.stdout == "Device(gpu, 0) 0\n"
    assert "There is no Device(gpu, 0)" in done.stderr and "oxmlx doctor" in done.stderr
    done = python("-m", "oxmlx", "doctor", check=False)
    assert done.returncode == 1 and "FAILED" in done.stdout
    monkeypatch.setenv("OXMLX_DEVICE", "")
    assert python("-c", "import oxmlx.core as mx; print(mx.default_device())").stdout == "Device(cpu, 0)\n"


def test_doctor_says_what_to_install():
    rows, advice = gpu_rows(REPORT)
    rows = dict(rows)
    assert rows["GPU 0"] == "NVIDIA H200, compute capability 9.0, 150.0 GiB"
    assert rows["nvrtc"] == "/lib/libnvrtc.so.13" and rows["kernel packs"] == "sm_90"
    assert "OXMLX_CACHE_DIR" in rows["kernel cache"]
    assert [line.split()[0] for line in advice] == ["cublasLt", "cudnn"]
    assert 'pip install "oxmlx[cuda13]"' in advice[0] and "nvidia-cudnn-cu13" in advice[1]


def test_doctor_without_a_driver_or_a_pack(tmp_path):
    (tmp_path / "kernel").write_bytes(bytes(3 << 20))
    rows, advice = gpu_rows({"problem": "no driver", "kernel_cache": str(tmp_path)})
    assert dict(rows)["NVIDIA driver"] == "not found" and advice == ["no driver"]
    assert dict(rows)["kernel cache"] == f"{tmp_path} (3.0 MiB)"
    assert "580" in gpu_rows({})[1][0]
    other = {**REPORT["devices"][0], "compute_capability": "8.6"}
    assert "no pack" in gpu_rows({**REPORT, "devices": [other]})[1][0]


@pytest.mark.skipif(mx.is_available(mx.gpu), reason="there is a GPU")
def test_without_a_gpu_one_message_says_so():
    with pytest.raises(ValueError) as caught:
        mx.set_default_device(mx.gpu)
    assert "gpu" in str(caught.value) and "\n" not in str(caught.value)
    assert mx.device_count(mx.gpu) == 0 and not mx.cuda.is_available()


def test_import_is_light():
    """The engine's import brings in neither numpy nor the heavy parts of the standard library."""
    heavy = ["numpy", "dataclasses", "inspect", "asyncio", "unittest", "logging"]
    code = (
        "import sys; before = set(sys.modules); import oxmlx.core; "
        f"print([m for m in {heavy} if m in sys.modules and m not in before])"
    )
    assert python("-c", code).stdout == "[]\n"


def test_names_are_those_of_mlx():
    """`core` has no names of our own, and every submodule imports by its path."""
    code = (
        "import oxmlx.core as mx, oxmlx.core.random, oxmlx.core.fast\n"
        "import oxmlx.core.metal, oxmlx.core.cuda\n"
        "assert oxmlx.core.random is mx.random\n"
        "print([n for n in ('tree', 'debug', 'OutOfMemoryError', 'sys') if hasattr(mx, n)])"
    )
    assert python("-c", code).stdout == "[]\n"


def test_programs_that_know_only_metal():
    assert not mx.metal.is_available() and mx.metal.device_info() == {}
    assert mx.metal.get_active_memory() == mx.get_active_memory()
    limit = mx.metal.set_cache_limit(1 << 30)
    assert mx.set_cache_limit(limit) == 1 << 30
    mx.metal.clear_cache()
    assert mx.metal.start_capture("trace.gputrace") is None and mx.metal.stop_capture() is None


def test_version_is_that_of_the_wheel():
    from importlib import metadata

    import oxmlx

    try:
        version = metadata.version("oxmlx")
    except metadata.PackageNotFoundError:
        pytest.skip("not installed as a wheel")
    assert version == oxmlx.__version__


def test_package_names():
    import oxmlx

    assert issubclass(oxmlx.OutOfMemoryError, MemoryError)
    assert isinstance(oxmlx.debug.cache_stats(), dict)
    assert oxmlx.__version__
    with pytest.raises(AttributeError):
        _ = oxmlx.nonsense
