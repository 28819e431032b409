"""One small case for each kernel under compute-sanitizer: memcheck, racecheck, synccheck and initcheck.

    python tests/gpu/sanitize.py --symbols kernels.txt [--tools memcheck,racecheck] [--shards 3] [--keep DIR]

First all cases run once without a tool, and the trace of launched kernels (OXMLX_TRACE_KERNELS) says which
case is the first to launch which kernel: only those are kept. Then each tool runs them, in several processes
at once. The run fails if a tool found an error, if a case raised, or if a kernel of the list (from
`xtask kernels --list`, a symbol at the beginning of each line) was not launched under a tool.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
TRACE = "OXMLX_TRACE_KERNELS"
# Kernels that no case can launch, as regular expressions of their names, each with its reason.
EXEMPT = {
    r"scatter_columns_(prod|max|min)_\w+": "only Rust programs ask for these",
    r"scatter_columns_sum_(u?int\d+|complex64)": "only Rust programs ask for these",
    r"reduce_\w+_(all|any)_(?!uint8)\w+": "the operand is made a bool first",
    r"reduce_\w+_(sum|prod)_uint(8|16)": "the operand is made a uint32 first",
    r"arange_bool|conv_unfold_1": "there is no such range or convolution",
}
# Generated kernels are in no list: these cases stand for them.
ALWAYS, ALWAYS_ENDS = ("training", "table softmax"), ("-float32",)
HERE = Path(__file__).resolve()


def traced(path) -> list[str]:
    """The kernels of a trace, as often as they were launched."""
    try:
        return Path(path).read_text().split()
    except FileNotFoundError:
        return []


def plan(out: str) -> None:
    """Run every case; write those that were the first to launch some kernel, and what was launched in all."""
    import kernel_cases

    kept, seen, failed = [], set(), {}
    trace = os.environ[TRACE]
    read = 0
    for name in kernel_cases.CASES:
        try:
            kernel_cases.run(name)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {str(error)[:200]}"
        # The trace is only appended to: what follows the last end is this case's.
        try:
            with open(trace) as lines:
                lines.seek(read)
                new = set(lines.read().split())
                read = lines.tell()
        except FileNotFoundError:
            new = set()
        if new - seen or name.startswith(ALWAYS) or name.endswith(ALWAYS_ENDS):
            seen |= new
            kept.append(name)
    Path(out).write_text(json.dumps({"cases": kept, "kernels": sorted(seen), "failed": failed}))


def run(path: str) -> None:
    """Run the cases of a file, watched by a tool. No memory is reused, so that initcheck sees all of it."""
    import kernel_cases
    import oxmlx.core as mx

    mx.set_cache_limit(0)
    failed = 0
    for name in json.loads(Path(path).read_text()):
        try:
            kernel_cases.run(name)
        except Exception as error:
            failed += 1
            print(f"case failed: {name}: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failed else 0)


def start(tool: str, shard: Path, folder: Path, sanitizer: str, options: list[str]):
    stem = folder / f"{tool}-{shard.stem}"
    env = {**os.environ, TRACE: f"{stem}.trace", "OXMLX_DEVICE": "gpu"}
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", "--print-limit", "20", *options]
    command += [sys.executable, str(HERE), "--run", str(shard)]
    log = open(f"{stem}.log", "w")  # noqa: SIM115 - the process writes it
    return subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT), stem


def errors_in(text: str) -> int:
    """Errors and hazards that the tool counted; -1 where it printed no summary."""
    counts = re.findall(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard", text)
    return sum(int(a or b) for a, b in counts) if counts else -1


def choose(folder: Path) -> dict:
    """The cases that matter, found in a process without a tool."""
    out = folder / "plan.json"
    env = {**os.environ, TRACE: str(folder / "plan.trace"), "OXMLX_DEVICE": "gpu"}
    subprocess.run([sys.executable, str(HERE), "--plan", str(out)], env=env, check=True)
    return json.loads(out.read_text())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--symbols", help="the list that must be covered")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--shards", type=int, default=3, help="processes a tool")
    parser.add_argument("--keep", help="a folder for logs")
    parser.add_argument("--only", default="", help="a regular expression that chooses cases")
    parser.add_argument("--sanitizer", default=os.environ.get("COMPUTE_SANITIZER") or "compute-sanitizer")
    parser.add_argument("--options", default="", help="more options for the sanitizer")
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))
    if arguments.plan:
        plan(arguments.plan)
        return 0
    if arguments.run:
        run(arguments.run)
    folder = Path(arguments.keep or tempfile.mkdtemp(prefix="sanitize-"))
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    chosen = choose(folder)
    cases = [name for name in chosen["cases"] if re.search(arguments.only, name)]
    seconds = time.monotonic() - begin
    print(
        f"{len(cases)} cases launch {len(chosen['kernels'])} kernels; planned in {seconds:.0f} s", flush=True
    )
    for name, problem in list(chosen["failed"].items())[:20]:
        print(f"case failed without a tool: {name}: {problem}")
    wanted = set()
    if arguments.symbols:
        lines = Path(arguments.symbols).read_text().splitlines()
        wanted = {line.split()[0] for line in lines if line.strip()}
        for pattern, reason in EXEMPT.items():
            exempt = {name for name in wanted if re.fullmatch(pattern, name)}
            wanted -= exempt
            print(f"{len(exempt)} exempt ({reason}): {pattern}")
    bad = len(chosen["failed"]) + report_missing("planning", wanted, set(chosen["kernels"]))

    shards = []
    for i in range(arguments.shards):
        shards.append(folder / f"shard{i}.json")
        shards[-1].write_text(json.dumps(cases[i :: arguments.shards]))
    running = []
    for tool in arguments.tools.split(","):
        for shard in shards:
            process, stem = start(tool, shard, folder, arguments.sanitizer, arguments.options.split())
            running.append((tool, process, stem))
    launched = {}
    for tool, process, stem in running:
        status = process.wait()
        text = Path(f"{stem}.log").read_text(errors="replace")
        found = errors_in(text)
        launched.setdefault(tool, set()).update(traced(f"{stem}.trace"))
        seconds = time.monotonic() - begin
        print(f"{stem.name}: exit {status}, {found} errors, at {seconds:.0f} s", flush=True)
        if status or found:
            bad += 1
            print("\n".join(text.splitlines()[:40]), flush=True)
    for tool, kernels in launched.items():
        bad += report_missing(tool, wanted if not arguments.only else set(), kernels)
    print(f"sanitizer: {'FAILED' if bad else 'in order'}, logs in {folder}")
    return 1 if bad else 0


def report_missing(where: str, wanted: set, launched: set) -> int:
    missing = sorted(wanted - launched)
    if missing:
        shown = " ".join(missing[:60])
        print(f"{where}: {len(missing)} of {len(wanted)} kernels were not launched: {shown}", flush=True)
    return len(missing)


if __name__ == "__main__":
    sys.exit(main())
