#!/usr/bin/env bash
# Installs what building and testing need, and only what is missing. The one place that names system packages.
# Quiet, repeatable, and needs no network when everything is there.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif command -v sudo >/dev/null 2>&1; then sudo "$@"
    else die "this needs root, and there is no sudo; as root, run: $*"
    fi
}

# What apt says is of interest only when it fails.
apt() {
    local says
    says=$(as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@" 2>&1 </dev/null) ||
        { printf '%s\n' "$says" >&2; die "failed: apt-get $*"; }
}

# The runtime that -fsanitize links for clang is packaged by clang's major version, so its name is found by asking.
clang_runtime() {
    local major=""
    if command -v clang >/dev/null 2>&1; then
        major=$(clang -dumpversion | cut -d. -f1)
    else
        major=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9][0-9]*\)$/\1/p' | head -n 1)
    fi
    if [ -n "$major" ]; then printf 'libclang-rt-%s-dev\n' "$major"; fi
}

packages=(
    gcc g++ libc6-dev clang                                   # compilers: the header is checked under both
    cmake ninja-build make pkg-config binutils                # building, linking, reading symbols
    libvulkan1 libvulkan-dev mesa-vulkan-drivers              # loader, headers (the canary), lavapipe
    vulkan-validationlayers
    glslang-tools spirv-tools                                 # shaders compared with their sources; the validator linked in
    valgrind libpng-dev python3
    ca-certificates curl
)

missing_packages() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || printf '%s\n' "$package"
    done
}

if command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1; then
    mapfile -t missing < <(missing_packages "${packages[@]}")
    updated=no
    if [ "${#missing[@]}" -gt 0 ]; then
        say "installing ${missing[*]}"
        apt update -qq
        updated=yes
        apt install -y -qq --no-install-recommends "${missing[@]}"
    fi
    runtime=$(clang_runtime)
    if [ -n "$runtime" ] && [ -n "$(missing_packages "$runtime")" ]; then
        [ "$updated" = yes ] || apt update -qq
        # Older distributions ship the runtime inside another package and have none of this name.
        if apt-cache show "$runtime" >/dev/null 2>&1; then
            say "installing $runtime"
            apt install -y -qq --no-install-recommends "$runtime"
        fi
    fi
else
    for tool in cc c++ cmake ninja pkg-config nm readelf glslangValidator spirv-val; do
        command -v "$tool" >/dev/null 2>&1 || die "$tool is missing, and this system has no apt-get; install what ${0##*/} lists by its own package manager"
    done
fi

# Rust: the version Cargo.toml asks for, or newer.
[ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
wanted=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml | head -n 1)
rust_is_enough() {
    command -v cargo >/dev/null 2>&1 || return 1
    local have
    have=$(rustc --version | sed 's/^rustc \([0-9.]*\).*/\1/')
    [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" = "$wanted" ]
}
if ! rust_is_enough; then
    if command -v rustup >/dev/null 2>&1; then
        say "updating Rust to at least $wanted"
        rustup toolchain install stable --profile minimal --component clippy --component rustfmt >/dev/null 2>&1 || true
        rustup default stable >/dev/null 2>&1 || true
    elif command -v curl >/dev/null 2>&1; then
        say "installing Rust by rustup"
        installer=$(mktemp)
        if curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs -o "$installer"; then
            sh "$installer" -y -q --profile minimal --component clippy --component rustfmt --default-toolchain stable >/dev/null 2>&1 || true
        fi
        rm -f "$installer"
        [ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
    fi
    rust_is_enough || die "Rust $wanted or newer is needed and could not be installed; install it from https://rustup.rs, then run this again"
fi
for component in clippy fmt; do
    cargo "$component" --version >/dev/null 2>&1 || {
        name=$component; [ "$name" = fmt ] && name=rustfmt
        rustup component add "$name" >/dev/null 2>&1 || die "cargo $component is missing; run: rustup component add $name"
    }
done

# A device must be there: lavapipe, by its driver file.
compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null || compgen -G '/etc/vulkan/icd.d/lvp_icd*.json' >/dev/null \
    || die "no lavapipe driver file (lvp_icd*.json) was found after installing mesa-vulkan-drivers"
