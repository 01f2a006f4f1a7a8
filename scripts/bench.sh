#!/usr/bin/env bash
# Measures the budgets: one tab-separated row each, `ok` or `MISS` last. Fails only where a result is wrong.
# usage: bench.sh [--quick | --event] [ROW...]
#        --quick: B1, B2, B4 and B7; --event: without the schedulers; ROW: B1, B3, ...
#
# Ours and a hand-written Vulkan program take turns in one process, on lavapipe. Times drift with the machine, ratios much
# less: compare only within one run, and run it on a machine that does nothing else.
# The first time it builds the package below benches/, and with it the store that B7 and B8 are compared with (several
# minutes); TIDEGATE_BENCH_CUBECL=no leaves that out, and those rows without a baseline.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"

features=(--features cubecl)
[ "${TIDEGATE_BENCH_CUBECL:-yes}" = yes ] || features=()
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target/benches}
cargo build --quiet --release --locked --manifest-path benches/Cargo.toml "${features[@]}"

if [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ]; then
    for driver in /usr/share/vulkan/icd.d/lvp_icd*.json /etc/vulkan/icd.d/lvp_icd*.json; do
        [ -f "$driver" ] && break
    done
    [ -f "$driver" ] || { echo "bench: no lavapipe driver file (lvp_icd*.json)" >&2; exit 1; }
    # The second name is the one that loaders before 1.3.207 read.
    export VK_DRIVER_FILES=$driver VK_ICD_FILENAMES=$driver
fi
unset VK_INSTANCE_LAYERS VK_LAYER_ENABLES VK_LOADER_DEBUG TIDEGATE_DEVICE TIDEGATE_LOG
# Shaders run inline: otherwise the wake-ups of its workers, 20 us a launch, hide everything else.
export LP_NUM_THREADS=${LP_NUM_THREADS-0}

printf '# %s, %s processors, load %s\n' "$(uname -m)" "$(nproc)" "$(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || echo unknown)" >&2
exec "$CARGO_TARGET_DIR/release/tidegate-benches" "$@"
