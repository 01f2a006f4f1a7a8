#!/usr/bin/env bash
# The demo from nothing on a Debian or Ubuntu machine: set-up, library, examples, run. Run it again as often as you like.
# usage: demo.sh [--scheduling event|interleave|sequence] [PHOTO.png [OUTPUT FOLDER]]
#
#   TIDEGATE_PREFIX   an installed tidegate to use instead of building one
#   VK_DRIVER_FILES   the driver to run on; lavapipe when it is not set
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
scheduling=event
if [ "${1:-}" = --scheduling ]; then
    scheduling=${2:?--scheduling needs a name}
    shift 2
fi
photo=examples/data/astronaut.png
pictures=out/demo
# What the caller names is meant from where the caller stands.
[ $# -lt 1 ] || photo=$(realpath -- "$1")
[ $# -lt 2 ] || pictures=$(realpath -m -- "$2")
build=$root/build/demo
cd "$root"

say() { printf 'demo: %s\n' "$*"; }

# quietly LOG COMMAND...: what a build says is of interest only when it fails.
quietly() {
    local log=$build/$1.log
    shift
    "$@" >"$log" 2>&1 </dev/null || { cat "$log" >&2; printf 'demo: failed: %s\n' "$*" >&2; return 1; }
}

bash scripts/setup.sh </dev/null
[ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
mkdir -p "$build"

prefix=${TIDEGATE_PREFIX:-}
if [ -z "$prefix" ]; then
    prefix=$build/prefix
    say "building the library (the first time takes a few minutes)"
    quietly library-configure cmake -S . -B "$build/library" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DTIDEGATE_CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}"
    quietly library-build cmake --build "$build/library"
    quietly library-install cmake --install "$build/library"
fi
say "building the examples against ${prefix#"$root"/}"
# A cached place of an older package must not win over the prefix asked for.
quietly examples-configure cmake -S examples -B "$build/examples" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -U tidegate_DIR
quietly examples-build cmake --build "$build/examples"

if [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ]; then
    for driver in /usr/share/vulkan/icd.d/lvp_icd*.json /etc/vulkan/icd.d/lvp_icd*.json; do
        [ -f "$driver" ] && break
    done
    [ -f "$driver" ] || { say "no lavapipe driver file (lvp_icd*.json)" >&2; exit 1; }
    # The second name is the one that loaders before 1.3.207 read.
    export VK_DRIVER_FILES=$driver VK_ICD_FILENAMES=$driver
fi

mkdir -p -- "$pictures"
"$build/examples/first_light"
say "a kernel whose shader is cut off, and its repair"
"$build/examples/repair"
say "a photo"
"$build/examples/photo_pipeline" --scheduling "$scheduling" "$photo" "$pictures"
