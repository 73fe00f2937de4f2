#!/usr/bin/env bash
# Every kernel under the checkers of NVIDIA's compute-sanitizer; docs/sanitizers.md describes it.
#
#   tests/fuzz/compute_sanitizer.sh [memcheck|racecheck|initcheck|synccheck ...]
#
# Without arguments memcheck, racecheck and initcheck, one after the other; every format in every type in a process of
# its own, JOBS (6) at a time. Needs a GPU, compute-sanitizer, and the package built with CUDA. DEVICE names another GPU
# than cuda:0, PYTHON another interpreter, GROUPS_ONLY some of the processes, as "csr-float32 solvers-complex64";
# SECONDS_EACH (none) ends a process that takes longer, which then counts as failed.
set -euo pipefail
cd "$(dirname "$0")/../.."

tools=("$@")
[ ${#tools[@]} -gt 0 ] || tools=(memcheck racecheck initcheck)
for tool in "${tools[@]}"; do
    case $tool in
        memcheck | racecheck | initcheck | synccheck) ;;
        *) sed -n '2,10s/^# \{0,1\}//p' tests/fuzz/compute_sanitizer.sh >&2; exit 2 ;;
    esac
done
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
kernels="${PYTHON:-python3} -m tests.fuzz.every_kernel"
groups=$(tr -s ' ' '\n' <<<"${GROUPS_ONLY:-$($kernels --list)}")
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

failed=""
for tool in "${tools[@]}"; do
    begin=$SECONDS
    echo "== $tool"
    # What is reported is an error of the command. Leaks are none: the library keeps a pool until the process ends.
    check="timeout -s ABRT ${SECONDS_EACH:-0} $sanitizer --tool $tool --error-exitcode 1"
    check="$check --target-processes application-only $kernels ${DEVICE:-cuda:0} --only"
    echo "$groups" | PYTHONFAULTHANDLER=1 xargs -P "${JOBS:-6}" -I{} \
        sh -c "$check {} >$logs/{} 2>&1 || { echo '== $tool: {} failed'; exit 1; }" || failed="$failed $tool"
    for group in $groups; do cat "$logs/$group"; done
    echo "== $tool took $((SECONDS - begin)) s"
done
if [ -n "$failed" ]; then
    echo "== found something or failed:$failed =="
    exit 1
fi
echo "== nothing found by ${tools[*]} =="
