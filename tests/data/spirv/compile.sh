#!/bin/sh
# Makes the .spv files from their sources; with --check, says whether the committed ones are what it would make.
set -eu
cd "$(dirname "$0")"
out=.
if [ "${1:-}" = --check ]; then
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
fi
for source in *.comp; do
    case $source in *_old_style.comp) target=vulkan1.0 ;; *) target=vulkan1.2 ;; esac
    glslangValidator -V --quiet --target-env "$target" -o "$out/${source%.comp}.spv" "$source"
done
for source in *.spvasm; do
    spirv-as --target-env spv1.5 -o "$out/${source%.spvasm}.spv" "$source"
done
[ "$out" = . ] && exit 0
status=0
for made in "$out"/*.spv; do
    cmp "$made" "$(basename "$made")" || status=1
done
exit $status
