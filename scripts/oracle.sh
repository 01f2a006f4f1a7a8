#!/usr/bin/env bash
# The long run of both oracles: random programs against the model, on the host and through the C API on lavapipe.
# usage: oracle.sh [OPERATIONS]      on each scheduling through the C API; ten times as many on the host (default 50000)
set -euo pipefail
cd "$(dirname "$0")/.."
operations=${1:-50000}
if [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ]; then
    drivers=(/usr/share/vulkan/icd.d/lvp_icd*.json)
    [ -f "${drivers[0]}" ] || { echo "oracle: no lavapipe driver file (lvp_icd*.json)" >&2; exit 1; }
    export VK_DRIVER_FILES=${drivers[0]} VK_ICD_FILENAMES=${drivers[0]}
fi
TIDEGATE_C_OPS=$operations cargo test --locked --test c_oracle
TIDEGATE_OPS=$((operations * 10)) cargo test --locked --test oracle
