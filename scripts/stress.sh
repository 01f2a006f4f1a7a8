#!/usr/bin/env bash
# The long runs: many threads on one device with every byte checked, a million buffers made and destroyed, and an upload
# of 2 GiB through 64 MiB of staging.
# usage: stress.sh [MINUTES]         the threads work so long, over four devices in turn (default 10)
#        stress.sh --races [MINUTES] the threads over the host backend alone, under ThreadSanitizer (default 2; nightly)
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
export CARGO_TARGET_DIR=$PWD/target CARGO_TERM_COLOR=never
jobs=$(nproc)

if [ "${1:-}" = --races ]; then
    # Everything but the standard library is watched. What it does to pass on the tests' names and words is not ours.
    mkdir -p out
    printf 'race:std::sync::mpmc\nrace:std::io::\n' >out/tsan.supp
    target=$(rustc -vV | sed -n 's/^host: //p')
    TSAN_OPTIONS="suppressions=$PWD/out/tsan.supp" TIDEGATE_STRESS_SECONDS=$((${2:-2} * 30)) \
        RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
        cargo +nightly test --locked --target "$target" --target-dir target/tsan -j "$jobs" \
        --test stress -- --nocapture --test-threads=1 host_
    exit
fi

minutes=${1:-10}
[[ $minutes =~ ^[0-9]+$ ]] && [ "$minutes" -gt 0 ] || { sed -n '4,5s/^# //p' "$0" >&2; exit 2; }
drivers=(/usr/share/vulkan/icd.d/lvp_icd*.json /etc/vulkan/icd.d/lvp_icd*.json)
for driver in "${drivers[@]}"; do [ -f "$driver" ] && break; done
[ -f "$driver" ] || { echo "stress: no lavapipe driver file (lvp_icd*.json)" >&2; exit 1; }
export VK_DRIVER_FILES=$driver VK_ICD_FILENAMES=$driver
unset VK_INSTANCE_LAYERS TIDEGATE_DEVICE TIDEGATE_LOG

# One after the other: two at once would leave each only half of the processors to meet on.
TIDEGATE_STRESS_SECONDS=$((minutes * 15)) \
    cargo test --locked -j "$jobs" --test stress -- --nocapture --test-threads=1

mkdir -p out
cmake -S . -B out/stress -G Ninja -DCMAKE_BUILD_TYPE=Release -DTIDEGATE_BUILD_TESTS=ON \
    -DTIDEGATE_CARGO_TARGET_DIR="$CARGO_TARGET_DIR" >out/stress.log
cmake --build out/stress >>out/stress.log || { tail -n 50 out/stress.log; exit 1; }
tests=$(dirname "$(find out/stress -name test_memory -type f)")
TG_TEST_TIMES=20 "$tests/test_memory" creating_and_destroying_takes_no_memory_once_warm
TG_TEST_UPLOAD=2048 TG_TEST_STAGING=64 \
    "$tests/test_upload" an_upload_through_little_staging_arrives_whole_and_takes_no_host_memory
