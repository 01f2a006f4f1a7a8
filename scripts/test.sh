#!/usr/bin/env bash
# Everything that decides whether this tree is good, set-up included, on lavapipe. Builds below target/ and out/ only.
# usage: test.sh            every step
#        test.sh NAME...    only the steps whose name contains one of the words (the package is always built)
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
out=$root/out/test
logs=$out/logs
prefix=$out/moved/prefix          # where the installed package lies after its move
rm -rf "$out"
mkdir -p "$logs"

bash scripts/setup.sh </dev/null
[ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"

# One driver, by name: a machine with other devices must give the same answers, and no device is a failure.
drivers=(/usr/share/vulkan/icd.d/lvp_icd*.json /etc/vulkan/icd.d/lvp_icd*.json)
for driver in "${drivers[@]}"; do [ -f "$driver" ] && break; done
[ -f "$driver" ] || { echo "test: no lavapipe driver file (lvp_icd*.json)" >&2; exit 1; }
export VK_DRIVER_FILES=$driver VK_ICD_FILENAMES=$driver
unset VK_INSTANCE_LAYERS VK_LAYER_ENABLES VK_LAYER_DISABLES VK_LOADER_DEBUG TIDEGATE_DEVICE TIDEGATE_LOG
export CARGO_TARGET_DIR=$root/target CARGO_TERM_COLOR=never CLICOLOR=0
jobs=$(nproc)

passed=0
failed=0
skipped=0
failures=()
wanted=("$@")

is_wanted() {
    [ "${#wanted[@]}" -eq 0 ] && return 0
    local word
    for word in "${wanted[@]}"; do [[ $1 == *"$word"* ]] && return 0; done
    return 1
}

# What a log says it ran: the sums of cargo's and ctest's own closing lines; a step that ran neither is one test itself.
# ctest counts a test that skipped itself as passed, and lists it below.
count() {
    awk -v status="$2" '
        /^test result: / { p += $4; f += $6 }
        /tests passed, [0-9]+ tests? failed out of [0-9]+/ {
            for (i = 1; i <= NF; i++) { if ($i == "of") total = $(i + 1); if ($i ~ /^tests?$/ && $(i + 1) == "failed") bad = $(i - 1) }
            p += total - bad; f += bad
        }
        /^\t *[0-9]+ - .* \(Skipped\)$/ { p--; s++ }
        END {
            if (p + f + s == 0 && status == 0) p = 1
            if (f == 0 && status != 0) f = 1
            print p + 0, f + 0, s + 0
        }' "$1"
}

# step NAME COMMAND...: runs it with its output in a log, shown only when it fails.
step() {
    local name=$1 log status=0 began p f s
    shift
    if [ "$name" != package ] && ! is_wanted "$name"; then return 0; fi
    log=$logs/${name// /_}.log
    printf '== %s\n' "$name"
    began=$SECONDS
    # A shell of its own: behind `||` this one would let a function go on after a command that failed.
    bash -euo pipefail -c '"$@"' step "$@" >"$log" 2>&1 </dev/null || status=$?
    read -r p f s < <(count "$log" "$status")
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + s))
    if [ "$status" -eq 0 ] && [ "$f" -eq 0 ]; then
        printf '   ok: %d passed, %d skipped, %d s\n' "$p" "$s" $((SECONDS - began))
        # Each on a line of its own: a feature that goes missing is to be seen.
        sed -n 's/^\t *[0-9]* - \(.*\) (Skipped)$/   skipped: \1/p' "$log"
    else
        failures+=("$name")
        tail -n 150 "$log" | sed 's/^/   | /'
        printf '   FAILED after %d s, status %d: %d passed, %d failed; all of it in %s\n' \
            $((SECONDS - began)) "$status" "$p" "$f" "${log#"$root"/}"
        [ "$status" -ne 0 ] || status=1
    fi
    return "$status"
}

finish() {
    local name
    for name in ${failures[@]+"${failures[@]}"}; do printf 'failed: %s\n' "$name"; done
    printf '%d s in all\n' "$SECONDS"
    printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit
}

scripts_parse() { local script; for script in scripts/*.sh .ci/run; do bash -n "$script"; done; }

rust_tests() { cargo test --locked --no-fail-fast -j "$jobs"; }

package() {
    local build=$out/package-build
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$out/first/prefix" \
        -DCMAKE_INSTALL_LIBDIR=lib -DTIDEGATE_CARGO_TARGET_DIR="$CARGO_TARGET_DIR"
    cmake --build "$build"
    cmake --install "$build"
    # Nothing below may lean on where it was built or first installed.
    mkdir -p "${prefix%/*}"
    mv "$out/first/prefix" "$prefix"
    rm -rf "$build" "$out/first"
}

package_files() {
    local lib=$prefix/lib soname file
    soname=$(readelf -d "$lib/libtidegate.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    [ "$soname" = libtidegate.so.0.1 ] || { echo "soname is '$soname', not libtidegate.so.0.1"; return 1; }
    [ "$(readlink "$lib/libtidegate.so")" = "$soname" ]
    [ "$(readlink "$lib/$soname")" = libtidegate.so.0.1.0 ]
    [ -f "$lib/libtidegate.so.0.1.0" ] && [ ! -L "$lib/libtidegate.so.0.1.0" ]
    for file in lib/libtidegate.a include/tidegate/tidegate.h include/tidegate/tidegate_vulkan.h lib/pkgconfig/tidegate.pc \
        lib/cmake/tidegate/tidegateConfig.cmake lib/cmake/tidegate/tidegateConfigVersion.cmake \
        share/licenses/tidegate/LICENSE-MIT share/licenses/tidegate/LICENSE-APACHE; do
        [ -f "$prefix/$file" ] || { echo "not installed: $file"; return 1; }
    done
    if grep -rIlF "$root" "$prefix"; then echo "installed text names the place it was built"; return 1; fi
    if readelf -d "$lib/libtidegate.so" | grep -E 'RPATH|RUNPATH|libvulkan'; then
        echo "the library has a run path, or needs the Vulkan loader at link time"; return 1
    fi
}

symbols() { bash scripts/symbols.sh "$prefix/lib/libtidegate.so"; }

configure_c_tests() { # BUILD [OPTION...]
    local build=$1
    shift
    cmake -S c_tests -B "$build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" "$@"
    cmake --build "$build" -j "$jobs"
}
run_c_tests() {
    local build=$1
    shift
    ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error "$@"
}

c_tests() {
    configure_c_tests "$out/c_tests" -DCMAKE_BUILD_TYPE=Debug
    run_c_tests "$out/c_tests"
}
# A second driver by other people: it has no push descriptors and no robustness2.
c_tests_swiftshader() {
    local driver_file
    driver_file=$(bash scripts/swiftshader.sh)
    configure_c_tests "$out/c_tests" -DCMAKE_BUILD_TYPE=Debug -DTG_SWIFTSHADER="$driver_file"
    run_c_tests "$out/c_tests" -L '^swiftshader$'
}
c_tests_sanitized() {
    configure_c_tests "$out/c_tests_sanitized" -DCMAKE_BUILD_TYPE=Debug -DTG_SANITIZE=ON
    run_c_tests "$out/c_tests_sanitized"
}

# Every scheduling gives the same pictures.
demo() {
    local scheduling
    for scheduling in event interleave sequence; do
        TIDEGATE_PREFIX=$prefix bash scripts/demo.sh --scheduling "$scheduling" \
            examples/data/astronaut.png "$out/demo/$scheduling"
        diff -r "$out/demo/event" "$out/demo/$scheduling"
    done
    # What README.md shows of it.
    build/demo/examples/repair | diff examples/repair.txt -
}

export root out prefix jobs
export -f scripts_parse rust_tests package package_files symbols demo configure_c_tests run_c_tests c_tests c_tests_swiftshader c_tests_sanitized

step "scripts" scripts_parse || true
step "format" cargo fmt --check -- --color never || true
step "lints" cargo clippy --locked --all-targets -j "$jobs" -- -D warnings || true
step "rust tests" rust_tests || true
step "header" bash scripts/check_header.sh || true
step "shaders" bash scripts/shaders.sh --check || true
step "package" package || finish
step "package files" package_files || true
step "symbols" symbols || true
step "consumers" bash c_tests/consumer/run.sh "$prefix" "$out/consumers" || true
step "c tests" c_tests || true
step "c tests swiftshader" c_tests_swiftshader || true
step "c tests sanitized" c_tests_sanitized || true
step "demo" demo || true
finish
