#!/bin/bash
# On the GPU machine, from a checkout of branch suite with the package installed (pip install .[test]).
set -u
: "${OUT:=.}"
# The whole suite, in eight processes: names, results, durations.
time timeout 560 python -m pytest -n 8 -vv --durations=60 > "$OUT/tests.txt" 2>&1; tail -3 "$OUT/tests.txt"
# What is new here: more entries than int32 counts, on the device and on the host (64 GiB of host memory free, and alone).
time timeout 300 python -m pytest -q -rs tests/test_many_entries.py > "$OUT/many_entries.txt" 2>&1; tail -3 "$OUT/many_entries.txt"
