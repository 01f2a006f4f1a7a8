#!/usr/bin/env bash
# Every fault of every call that the torture tests know, each on two devices of its own: thousands of devices made and
# destroyed. ctest runs a slice of it.
# usage: torture.sh BUILD [DEVICES]   BUILD is a build of c_tests; DEVICES: about so many for each test (default all)
set -euo pipefail
build=${1:?a build folder of c_tests}
export TG_TORTURE=${2:-all}
failed=0
for test in $(ctest --test-dir "$build" -N -R '^torture\.' | sed -n 's/.*: \(torture\..*\)/\1/p'); do
    ctest --test-dir "$build" -R "^${test//./\\.}\$" --timeout 3600 --verbose >"$build/$test.log" 2>&1 || failed=1
    printf '%s: %s\n' "$test" "$(sed -n 's/^[0-9]*: \([0-9]* devices.*\)/\1/p' "$build/$test.log")"
done
[ "$failed" -eq 0 ] || { echo "torture: failed; see $build/torture.*.log"; exit 1; }
