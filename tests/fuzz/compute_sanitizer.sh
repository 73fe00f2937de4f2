#!/usr/bin/env bash
# Every kernel under the checkers of NVIDIA's compute-sanitizer; docs/sanitizers.md describes it.
#
#   tests/fuzz/compute_sanitizer.sh [memcheck|racecheck|initcheck|synccheck ...]
#
# Without arguments memcheck, racecheck and initcheck, one after the other. Needs a GPU, compute-sanitizer, and the
# package built with CUDA. DEVICE names another GPU than cuda:0, PYTHON another interpreter.
set -euo pipefail
cd "$(dirname "$0")/../.."

tools=("$@")
[ ${#tools[@]} -gt 0 ] || tools=(memcheck racecheck initcheck)
for tool in "${tools[@]}"; do
    case $tool in
        memcheck | racecheck | initcheck | synccheck) ;;
        *) sed -n '2,7s/^# \{0,1\}//p' tests/fuzz/compute_sanitizer.sh >&2; exit 2 ;;
    esac
done
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)

failed=""
for tool in "${tools[@]}"; do
    begin=$SECONDS
    echo "== $tool"
    # What is reported is an error of the command. Leaks are none: the library keeps a pool until the process ends.
    "$sanitizer" --tool "$tool" --error-exitcode 1 --target-processes application-only \
        "${PYTHON:-python3}" -m tests.fuzz.every_kernel "${DEVICE:-cuda:0}" || failed="$failed $tool"
    echo "== $tool took $((SECONDS - begin)) s"
done
if [ -n "$failed" ]; then
    echo "== found something or failed:$failed =="
    exit 1
fi
echo "== nothing found by ${tools[*]} =="
