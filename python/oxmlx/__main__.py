"""The command line: run MLX programs on oxmlx, and say what was found on this machine.

    python -m oxmlx run script.py [arguments]      a script, with `mlx` meaning oxmlx
    python -m oxmlx run -m package.module [arguments]   a module, likewise
    python -m oxmlx doctor                         versions, devices, libraries, memory; what is missing

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


def main(arguments: list[str]) -> int:
    """Run the command line; the exit status."""
    if arguments[:1] == ["run"]:
        return _run(arguments[1:])
    if arguments == ["doctor"]:
        from oxmlx._doctor import doctor

        return doctor()
    if arguments in (["-h"], ["--help"]):
        print(_USAGE)
        return 0
    problem = f"unknown command {arguments[0]!r}." if arguments else "what should it do?"
    return _fail(f"{problem}\n{_USAGE}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
