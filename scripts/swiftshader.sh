#!/usr/bin/env bash
# Fetches SwiftShader, a second Vulkan driver in software, without installing anything, and prints where its driver file is.
# Debian packages it as a part of chromium-common, which is fetched (once) and unpacked, never installed.
# usage: swiftshader.sh [FOLDER]      (default: build/swiftshader)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(realpath -m -- "${1:-$root/build/swiftshader}")
driver_file=$folder/vk_swiftshader_icd.json
library=$folder/libvk_swiftshader.so

die() { printf 'swiftshader: %s\n' "$*" >&2; exit 1; }

if [ ! -s "$driver_file" ] || [ ! -s "$library" ]; then
    command -v apt-get >/dev/null && command -v dpkg >/dev/null \
        || die "needs apt-get and dpkg, to fetch Debian's chromium-common; with a SwiftShader of your own, set TG_SWIFTSHADER to its driver file"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir "$work/package" "$work/unpacked"
    # apt drops its rights for a download, and must still be able to write there.
    chmod 755 "$work" && chmod 777 "$work/package"
    (cd "$work/package" && apt-get download -qq chromium-common) >"$work/log" 2>&1 || {
        # Lists that are old name a version that is gone.
        if [ "$(id -u)" -eq 0 ]; then apt-get update -qq >>"$work/log" 2>&1 || true
        elif command -v sudo >/dev/null; then sudo apt-get update -qq >>"$work/log" 2>&1 || true
        fi
        (cd "$work/package" && apt-get download -qq chromium-common) >>"$work/log" 2>&1 || {
            cat "$work/log" >&2
            die "the package chromium-common, which SwiftShader is a part of, could not be fetched"
        }
    }
    dpkg -x "$work"/package/chromium-common_*.deb "$work/unpacked" || die "chromium-common could not be unpacked"
    found=$(find "$work/unpacked" -name libvk_swiftshader.so -type f | head -n 1)
    [ -n "$found" ] || die "chromium-common holds no libvk_swiftshader.so"
    version=$(sed -n 's/.*"api_version" *: *"\([0-9.]*\)".*/\1/p' "${found%/*}/vk_swiftshader_icd.json" 2>/dev/null || true)
    mkdir -p "$folder"
    cp "$found" "$library.new" && mv "$library.new" "$library"
    # Relative to the driver file, so that the folder can be moved.
    printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "./%s", "api_version": "%s"}}\n' \
        "${library##*/}" "${version:-1.0.5}" >"$driver_file"
fi
printf '%s\n' "$driver_file"
