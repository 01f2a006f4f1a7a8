#!/usr/bin/env bash
# Compiles the shaders of the tree to the SPIR-V committed beside them, so that building needs no shader compiler.
#
#   scripts/shaders.sh           compile what changed and write each folder's shaders.sha256
#   scripts/shaders.sh --check   write nothing; fail if a shader, its SPIR-V or the list has drifted
#
# The list carries the hash of each source and of its SPIR-V, so drift is seen without a compiler and with another
# version of it, whose output may differ in every byte. With the version the list names, --check compiles again and compares.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folders=(examples/shaders shaders c_tests/shaders tests/data tests/data/spirv tests/data/coverage tests/data/oracle tests/vulkan_backend benches/shaders)
target=vulkan1.2
list=shaders.sha256
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What tells one compiler from another: the hash lists are comparable only under the same line.
version() {
    if command -v glslangValidator >/dev/null; then
        glslangValidator --version | sed -n 's/^Glslang Version: /glslang /p'
    else
        echo none
    fi
}

sources() { # FOLDER
    find "$1" -maxdepth 1 -type f \( -name '*.comp' -o -name '*.spvasm' \) -printf '%f\n' | sort
}

# What is read out of a module must not depend on how it was compiled, so some are kept as an optimizer leaves them
# too (.small.spv), and as modules before SPIR-V 1.3 were spelt (.old.spv).
modules() { # SOURCE
    printf '%s\n' "${1%.*}.spv"
    [[ $PWD/$1 != */tests/data/coverage/*.comp ]] || printf '%s\n' "${1%.*}.small.spv" "${1%.*}.old.spv"
}

compile() { # SOURCE MODULE OUTPUT
    local says environment=$target
    # Storage buffers as modules before SPIR-V 1.3 spelt them.
    [[ $1 != *_old_style.comp && $2 != *.old.spv ]] || environment=vulkan1.0
    case $1 in
        *.comp) says=$(glslangValidator -V --quiet --target-env "$environment" -o "$3" "$1" 2>&1) ;;
        *.spvasm) says=$(spirv-as --preserve-numeric-ids --target-env "$target" -o "$3" "$1" 2>&1) ;;
    esac || { printf '%s\n' "$says" >&2; return 1; }
    [[ $2 != *.small.spv ]] || spirv-opt -Os -o "$3" "$3"
}

write_folder() { # FOLDER
    local source module
    cd "$root/$1"
    while read -r source; do
        while read -r module; do
            compile "$source" "$module" "$work/module.spv" || { echo "$1/$source does not compile" >&2; return 1; }
            cmp -s "$work/module.spv" "$module" || { cp "$work/module.spv" "$module"; echo "compiled $1/$module"; }
        done < <(modules "$source")
    done < <(sources .)
    {
        echo "# $(version), $target; written by scripts/shaders.sh"
        while read -r source; do sha256sum "$source" $(modules "$source"); done < <(sources .)
    } >"$list"
}

check_folder() { # FOLDER
    local source module bad=0
    cd "$root/$1"
    if [ ! -f "$list" ]; then
        echo "drift: $1/$list is missing" >&2
        return 1
    fi
    if ! diff <(sed '/^#/d; s/^[0-9a-f]* [ *]//' "$list") \
        <(while read -r source; do printf '%s\n' "$source" && modules "$source"; done < <(sources .)) >&2; then
        echo "drift: $1/$list does not name the shaders of the folder" >&2
        bad=1
    fi
    sha256sum --check --quiet "$list" >&2 || { echo "drift: $1 is not what $1/$list says" >&2; bad=1; }
    if [ "$(sed -n '1s/^# \(.*\); written by .*/\1/p' "$list")" = "$(version), $target" ]; then
        while read -r source; do
            while read -r module; do
                compile "$source" "$module" "$work/module.spv" && cmp "$work/module.spv" "$module" >&2 ||
                    { echo "drift: $1/$module is not what $1/$source compiles to" >&2; bad=1; }
            done < <(modules "$source")
        done < <(sources .)
    else
        echo "note: $1 was compiled by another version; hashes compared only"
    fi
    return "$bad"
}

mode=${1:-write}
status=0
for folder in "${folders[@]}"; do
    [ -d "$root/$folder" ] && [ -n "$(sources "$root/$folder")" ] || continue
    case $mode in
        write) (write_folder "$folder") || exit 1 ;;
        --check) (check_folder "$folder") || status=1 ;;
        *)
            echo "usage: $0 [--check]" >&2
            exit 2
            ;;
    esac
done
exit "$status"
