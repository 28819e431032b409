#!/usr/bin/env bash
# What is run on a machine with a GPU, word by word: run.sh [--python PROGRAM] WORD...
#
#   install    unpack the bundle's wheel into a folder (the other words do it where it is missing)
#   doctor     what was found on this machine
#   test       the whole suite with the GPU as default device
#   poison     the same with device memory filled with 0xFF before and after use
#   long       the tests that take minutes, one at a time
#   demo       the digit classifier
#   sanitize   one case for every kernel under compute-sanitizer
#   bench      the benches
#
# Beside a wheel (in a bundle) it tests that wheel, with the python3 of the machine; in a checkout it tests what
# the given Python has installed. The words after a failure still run; the exit code tells.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ -f "$here/pyproject.toml" ] && root=$here || root=$(cd "$here/../.." && pwd)
cd "$root" || exit 2

python=python3
if [ "${1:-}" = --python ]; then
  python=$2
  shift 2
fi
[ $# -gt 0 ] || { sed -n '2,14p' "${BASH_SOURCE[0]}" | cut -c3-; exit 2; }

wheels=("$root"/oxmlx-*.whl)
site=${OXMLX_SITE:-${TMPDIR:-/tmp}/oxmlx-site}
install() {
  rm -rf "$site"
  "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --upgrade \
    --target "$site" "${wheels[0]}"
}
if [ -f "${wheels[0]}" ]; then
  export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
  if [ ! -d "$site/oxmlx" ] || [ "${wheels[0]}" -nt "$site/oxmlx" ]; then install || exit 2; fi
else
  "$python" -c 'import oxmlx' || { echo "oxmlx is not installed for $python" >&2; exit 2; }
fi

has() { "$python" -c "import $1" 2>/dev/null; }
suite() {
  local options=(--device gpu -p no:cacheprovider)
  # A test that hangs must not take the machine's time with it, wherever it hangs.
  has pytest_timeout && options+=(--timeout "${OXMLX_TEST_TIMEOUT:-150}" --timeout-method thread)
  "$python" -m pytest "${options[@]}" "$@"
}
parallel() {
  local workers=${OXMLX_TEST_WORKERS:-8}
  if has xdist && [ "$workers" -gt 1 ]; then suite -n "$workers" --dist worksteal "$@"; else suite "$@"; fi
}

status=0
for word in "$@"; do
  echo "== $word"
  begin=$SECONDS
  case $word in
    install) [ -f "${wheels[0]}" ] && install ;;
    doctor) "$python" -m oxmlx doctor ;;
    test) parallel tests/python --durations=12 ;;
    poison) OXMLX_POISON=1 parallel tests/python ;;
    long) OXMLX_TEST_TIMEOUT=540 suite tests/python --run-long -m long --durations=5 ;;
    demo) "$python" examples/digits.py ;;
    sanitize) "$python" tests/gpu/sanitize.py --symbols kernels.txt --keep "${TMPDIR:-/tmp}/sanitize" ;;
    bench)
      failed=0
      for file in benches/python/*.py; do "$python" "$file" || failed=1; done
      [ $failed = 0 ]
      ;;
    *) echo "unknown word $word" >&2; false ;;
  esac || status=1
  echo "== $word: $((SECONDS - begin)) s"
done
exit $status
