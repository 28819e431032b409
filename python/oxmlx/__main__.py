"""The command line: run MLX programs on oxmlx, and say what was found on this machine.

    python -m oxmlx run script.py [arguments]      a script, with `mlx` meaning oxmlx
    python -m oxmlx run -m package.module [arguments]   a module, likewise
    python -m oxmlx doctor                         versions, devices, threads, memory

It exists so that a program written for MLX needs no edit, and a bug report no questions.
"""

import os
import sys

_USAGE = __doc__.split("\n\n")[1]


def _fail(message: str) -> int:
    print(f"oxmlx: {message}", file=sys.stderr)
    return 2


def _run(arguments: list[str]) -> int:
    if not arguments or arguments == ["-m"]:
        return _fail("run needs a script, or -m and a module.\n" + _USAGE)
    is_module = arguments[0] == "-m"
    if is_module:
        arguments = arguments[1:]
    elif not os.path.exists(arguments[0]):
        hint = ""
        if not arguments[0].endswith(".py") and "/" not in arguments[0]:
            hint = f" If it is a module, use: python -m oxmlx run -m {arguments[0]}"
        return _fail(f"there is no file {arguments[0]!r}.{hint}")

    import runpy

    import oxmlx.as_mlx  # noqa: F401

    sys.argv = arguments
    if is_module:
        # As `python -m` does: the current folder comes first.
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


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


def _doctor() -> int:
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
        from oxmlx import debug
    except ImportError as error:
        for name, value in rows:
            print(f"{name:16} {value}")
        return _fail(f"the native module does not load: {error}\nReinstall the package for this Python.")

    rows.append(("default device", str(mx.default_device())))
    # What the native module knows beyond that; each is optional, so that old and new parts fit together.
    for title, name in (("CPU features", "cpu_features"), ("worker threads", "num_threads")):
        if callable(found := getattr(debug, name, None)):
            value = found()
            rows.append((title, " ".join(value) if isinstance(value, (list, tuple)) else str(value)))
    if callable(limit := getattr(mx, "get_memory_limit", None)):
        rows.append(("memory limit", f"{limit() / 2**30:.1f} GiB"))
    rows.append(("NVIDIA GPU", "available" if mx.cuda.is_available() else "not used (the CPU engine runs)"))
    settings = {k: v for k, v in os.environ.items() if k.startswith("OXMLX_")}
    rows.append(("settings", " ".join(f"{k}={v}" for k, v in sorted(settings.items())) or "none"))
    for name, value in rows:
        print(f"{name:16} {value}")
    check = (mx.arange(4) * 2.0).sum().item()
    print(f"{'self-test':16} {'ok' if check == 12.0 else f'FAILED: expected 12.0, got {check}'}")
    return 0 if check == 12.0 else 1


def main(arguments: list[str]) -> int:
    """Run the command line; the exit status."""
    if arguments[:1] == ["run"]:
        return _run(arguments[1:])
    if arguments == ["doctor"]:
        return _doctor()
    if arguments in (["-h"], ["--help"]):
        print(_USAGE)
        return 0
    problem = f"unknown command {arguments[0]!r}." if arguments else "what should it do?"
    return _fail(f"{problem}\n{_USAGE}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
