#!/bin/sh
# Makes the headers in include/tidegate, c_tests/symbols.txt and c_tests/abi/layout.c anew from src/ffi. The build and the
# tests only ever compare them.
set -eu
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
# The build script has done its part before the library is compiled, so an error in the library is no error here.
TIDEGATE_HEADER_COPY=$copy cargo check --quiet --lib 2>/dev/null || true
for header in tidegate.h tidegate_vulkan.h; do
    test -s "$copy/$header" || { echo "header.sh: $header could not be made; run cargo build to see why" >&2; exit 1; }
done
mkdir -p include/tidegate
cp "$copy"/*.h include/tidegate/
TIDEGATE_WRITE=1 cargo test --quiet --test header
