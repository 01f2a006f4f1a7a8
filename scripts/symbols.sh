#!/usr/bin/env bash
# Compares what a built libtidegate.so exports with the committed list, so that the ABI changes only on purpose.
# usage: symbols.sh [--write] [LIBRARY]      (default: target/release/libtidegate.so)
set -euo pipefail
cd "$(dirname "$0")/.."
list=c_tests/symbols.txt
mode=check
if [ "${1:-}" = --write ]; then mode=write; shift; fi
library=${1:-${CARGO_TARGET_DIR:-target}/release/libtidegate.so}

exported=$(nm -D --defined-only "$library" | awk '{ print $NF }' | LC_ALL=C sort -u)
[ -n "$exported" ] || { echo "symbols: $library exports nothing" >&2; exit 1; }
alien=$(grep -v '^tg_' <<<"$exported" || true)
[ -z "$alien" ] || { printf 'symbols: exported without the prefix tg_:\n%s\n' "$alien" >&2; exit 1; }

if [ "$mode" = write ]; then
    printf '%s\n' "$exported" >"$list"
    exit 0
fi
diff -u --label "$list" --label "$library" "$list" - <<<"$exported" || {
    echo "symbols: the exports differ from $list; if that is meant, run scripts/symbols.sh --write" >&2
    exit 1
}
