#!/bin/sh
# Makes include/tidegate/tidegate.h, c_tests/symbols.txt and c_tests/abi/layout.c anew from src/ffi. The build and the
# tests only ever compare them.
set -eu
cd "$(dirname "$0")/.."
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
# The build script has done its part before the library is compiled, so an error in the library is no error here.
TIDEGATE_HEADER_COPY=$copy cargo check --quiet --lib 2>/dev/null || true
test -s "$copy" || { echo "header.sh: the header could not be made; run cargo build to see why" >&2; exit 1; }
mkdir -p include/tidegate
cp "$copy" include/tidegate/tidegate.h
TIDEGATE_WRITE=1 cargo test --quiet --test header
