#!/usr/bin/env bash
# The fuzzer on a build of the CPU code with sanitizers; docs/sanitizers.md describes it.
#
#   tests/fuzz/sanitize.sh address [arguments of python -m tests.fuzz]   AddressSanitizer and UBSan
#   tests/fuzz/sanitize.sh thread  [arguments of python -m tests.fuzz]   ThreadSanitizer
#
# Needs cmake, ninja, pybind11 and g++ beside what the tests need. PYTHON names another interpreter.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
    sed -n '2,7s/^# \{0,1\}//p' "tests/fuzz/sanitize.sh" >&2
    exit 2
}

kind=${1:-}
case $kind in
    address) sanitizers=address,undefined libraries="libasan.so libubsan.so" ;;
    thread) sanitizers=thread libraries=libtsan.so ;;
    *) usage ;;
esac
shift
python=${PYTHON:-python3}
build=$PWD/build-$kind
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

cmake -S . -B "$build" -G Ninja -DSPMVGPU_CUDA=OFF -DSPMVGPU_SANITIZE="$sanitizers" \
    -DSKBUILD_PROJECT_VERSION="$version" -DPython_EXECUTABLE="$("$python" -c 'import sys; print(sys.executable)')" \
    -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)"
cmake --build "$build"

# A package of its own, so that the one that is installed, or in the checkout, stays as it is.
rm -rf "$build/package"
mkdir "$build/package"
cp -r python/spmvgpu "$build/package/"
rm -f "$build/package/spmvgpu"/_core*.so
cp "$build"/_core*.so "$build/package/spmvgpu/"
export PYTHONPATH=$build/package

# Python itself is not instrumented, so the runtimes come first, and the C++ library with them, whose exceptions they
# look into. What Python never frees is no leak, and more memory than there is is an error that is tested.
preload=""
for library in $libraries libstdc++.so; do
    preload="$preload $(readlink -f "$("${CXX:-c++}" -print-file-name="$library")")"
done
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
export TSAN_OPTIONS=halt_on_error=1:${TSAN_OPTIONS:-}
if [ "$kind" = thread ]; then
    set -- --kinds threads operations "$@"
fi
LD_PRELOAD=$preload exec "$python" -m tests.fuzz --memory 0 "$@"
