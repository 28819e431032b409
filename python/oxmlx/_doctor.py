"""What `python -m oxmlx doctor` prints: versions, devices, libraries, settings, and what to do about what is
missing. A bug report that begins with it needs no questions.

It exists apart from the command line since it must also work where the native module does not load or knows
less than this file asks for: every part of the report may be absent.
"""

import os
import sys

# What each library is for, and the package that brings it where no toolkit is installed.
_LIBRARIES = {
    "nvrtc": ("fused kernels, and all kernels on architectures without a pack", "nvidia-cuda-nvrtc"),
    "cublasLt": ("matrix products", "nvidia-cublas"),
    "cudnn": ("convolutions", "nvidia-cudnn-cu13"),
}
_ALL_LIBRARIES = 'pip install "oxmlx[cuda13]"'
# Without these a GPU is of no use; cuDNN only makes some ops faster.
_REQUIRED = ("nvrtc", "cublasLt")


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine()


def _gibibytes(n: float) -> str:
    return f"{n / 2**30:.1f} GiB"


def folder_size(path: str) -> int:
    """Bytes of the files in a folder; 0 where it cannot be read."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.path.getsize(os.path.join(folder, name))
            except OSError:
                continue
    return total


def gpu_rows(report: dict) -> tuple[list[tuple[str, str]], list[str]]:
    """The rows about GPUs, and advice, from the native module's report.

    The report's keys: driver (text or None), devices (dicts of name, compute_capability, memory), libraries
    (name to path or None), pack_architectures (numbers like 90), kernel_cache (a folder or None), memory (the
    strategy) and problem (text or None).
    """
    rows, advice = [], []
    devices, packs = report.get("devices") or [], report.get("pack_architectures") or []
    problem = report.get("problem")
    driver = report.get("driver")
    rows.append(("NVIDIA driver", driver or "not found"))
    if not driver and not problem:
        problem = "no NVIDIA driver: GPUs need one of version 580 or newer"
    for i, device in enumerate(devices):
        capability = str(device.get("compute_capability", "?"))
        memory = _gibibytes(device.get("memory") or 0)
        rows.append((f"GPU {i}", f"{device.get('name', '?')}, compute capability {capability}, {memory}"))
        if packs and capability.replace(".", "") not in map(str, packs):
            advice.append(f"GPU {i}: this wheel has no pack for it, so NVRTC compiles each kernel once.")
    if driver and not devices:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        why = f"CUDA_VISIBLE_DEVICES={hidden}" if hidden is not None else "the driver lists none"
        rows.append(("GPUs", f"none ({why})"))
    libraries = report.get("libraries") or {}
    for name, path in libraries.items():
        purpose, package = _LIBRARIES.get(name, ("", ""))
        rows.append((name, path or f"not found ({purpose})" if purpose else path or "not found"))
        if path or not devices or not package:
            continue
        if name in _REQUIRED:
            advice.append(f"{name} is missing ({purpose}): {_ALL_LIBRARIES}, or pip install {package}")
        else:
            advice.append(f"{name} is missing ({purpose} run on own kernels): pip install {package}")
    if libraries or devices:
        names = " ".join(f"sm_{a}" for a in packs)
        rows.append(("kernel packs", names or "none: NVRTC compiles each kernel when it is first used"))
    if cache := report.get("kernel_cache"):
        rows.append(("kernel cache", f"{cache} ({folder_size(cache) / 2**20:.1f} MiB)"))
    elif devices:
        rows.append(("kernel cache", "none: no folder can be written; set OXMLX_CACHE_DIR to one"))
    if devices:
        chosen = report.get("memory") or os.environ.get("OXMLX_MEMORY") or "discrete"
        rows.append(("GPU memory", f"strategy {chosen}"))
    if problem:
        advice.insert(0, str(problem))
    return rows, advice


def _self_tests(mx) -> list[tuple[str, str]]:
    """One small program a device."""
    devices = [mx.Device(mx.cpu, 0)] + [mx.Device(mx.gpu, i) for i in range(mx.device_count(mx.gpu))]
    if mx.default_device() not in devices:  # OXMLX_DEVICE asks for what is not there
        devices.append(mx.default_device())
    found = []
    for device in devices:
        try:
            with mx.stream(device):
                value = (mx.arange(4) * 2.0).sum().item()
            outcome = "ok" if value == 12.0 else f"FAILED: expected 12.0, got {value}"
        except Exception as error:
            outcome = f"FAILED: {type(error).__name__}: {error}"
        found.append(("self-test", outcome if len(devices) == 1 else f"{outcome} on {device}"))
    return found


def doctor() -> int:
    """Print the report; 0 if every device that was found works."""
    import platform

    import oxmlx

    rows = [
        ("oxmlx", oxmlx.__version__),
        ("Python", f"{platform.python_version()} ({sys.executable})"),
        ("system", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("CPU", f"{_cpu_model()}, {len(os.sched_getaffinity(0))} usable threads"),
    ]
    try:
        import oxmlx.core as mx
        from oxmlx import _core, debug
    except ImportError as error:
        _print(rows)
        print(f"oxmlx: the native module does not load: {error}", file=sys.stderr)
        print("Reinstall the package for this Python.", file=sys.stderr)
        return 2

    rows.append(("default device", str(mx.default_device())))
    for title, name in (("CPU features", "cpu_features"), ("worker threads", "num_threads")):
        if callable(found := getattr(debug, name, None)):
            value = found()
            rows.append((title, " ".join(value) if isinstance(value, (list, tuple)) else str(value)))
    rows.append(("memory limit", _gibibytes(mx.get_memory_limit())))
    report = getattr(_core, "cuda_report", None) or getattr(debug, "cuda_report", None)
    advice = []
    if callable(report):
        gpu, advice = gpu_rows(report())
        rows += gpu
    else:
        rows.append(("NVIDIA GPU", "this build has no CUDA engine"))
    settings = {k: v for k, v in os.environ.items() if k.startswith(("OXMLX_", "CUDA_VISIBLE"))}
    rows.append(("settings", " ".join(f"{k}={v}" for k, v in sorted(settings.items())) or "none"))
    tests = _self_tests(mx)
    _print(rows + tests)
    for line in advice:
        print(f"-> {line}")
    return 1 if any("FAILED" in outcome for _, outcome in tests) else 0


def _print(rows):
    for name, value in rows:
        print(f"{name:16} {value}")
