#!/usr/bin/env bash
# Builds and runs C and C++ programs against an installed package, in every way a user would link it.
# usage: run.sh PREFIX WORK      PREFIX: the installed tree, already moved; WORK: a folder to build in
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
prefix=$1
work=$2
rm -rf "$work"
mkdir -p "$work"
flags=(-Wall -Wextra -Wpedantic -Werror)

# The program must run, and the library it found at run time must be the one meant ("" when none may be needed).
check() { # PROGRAM FOLDER
    local found
    echo "-- $1"
    env -u LD_LIBRARY_PATH "$1"
    found=$(env -u LD_LIBRARY_PATH ldd "$1" | sed -n 's/.*libtidegate.* => \(.*\) (.*/\1/p')
    case "$found" in
        "") [ -z "$2" ] || { echo "$1 does not use the shared library"; return 1; } ;;
        *) [ "${found%/*}" = "$2" ] || { echo "$1 uses $found, not one in '$2'"; return 1; } ;;
    esac
}

for target in tidegate::tidegate tidegate::shared tidegate::static; do
    build=$work/${target//:/_}
    cmake -S "$here" -B "$build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DTIDEGATE_TARGET="$target"
    cmake --build "$build"
    folder=$prefix/lib
    [ "$target" != tidegate::static ] || folder=""
    check "$build/consumer_c" "$folder"
    check "$build/consumer_cpp" "$folder"
done

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
cc -std=c11 "${flags[@]}" "$here/consumer.c" -o "$work/pkg_c" $(pkg-config --cflags --libs tidegate) -Wl,-rpath,"$prefix/lib"
c++ -std=c++17 "${flags[@]}" "$here/consumer.cpp" -o "$work/pkg_cpp" $(pkg-config --cflags --libs tidegate) -Wl,-rpath,"$prefix/lib"
check "$work/pkg_c" "$prefix/lib"
check "$work/pkg_cpp" "$prefix/lib"

# Statically: a package without the shared library, moved once more.
mkdir -p "$work/static"
cp -R "$prefix" "$work/static/prefix"
rm "$work/static/prefix/lib/"libtidegate.so*
export PKG_CONFIG_PATH=$work/static/prefix/lib/pkgconfig
cc -std=c11 "${flags[@]}" "$here/consumer.c" -o "$work/pkg_static_c" $(pkg-config --static --cflags --libs tidegate)
c++ -std=c++17 "${flags[@]}" "$here/consumer.cpp" -o "$work/pkg_static_cpp" $(pkg-config --static --cflags --libs tidegate)
check "$work/pkg_static_c" ""
check "$work/pkg_static_cpp" ""

# The version asked for is the version promised: another minor version is refused.
mkdir -p "$work/version"
printf '%s\n' 'cmake_minimum_required(VERSION 3.20)' 'project(version LANGUAGES C)' \
    'find_package(tidegate ${WANTED} REQUIRED)' >"$work/version/CMakeLists.txt"
cmake -S "$work/version" -B "$work/version/good" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DWANTED=0.1
if cmake -S "$work/version" -B "$work/version/bad" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DWANTED=0.2 >/dev/null 2>&1; then
    echo "find_package accepted version 0.2"
    exit 1
fi

# From source, as a subdirectory of somebody's project.
source=$(cd "$here/../.." && pwd)
cmake -S "$here" -B "$work/subdirectory" -G Ninja -DTIDEGATE_SOURCE="$source" \
    -DTIDEGATE_CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$source/target}"
cmake --build "$work/subdirectory"
check "$work/subdirectory/consumer_c" "$work/subdirectory/tidegate/lib"
check "$work/subdirectory/consumer_cpp" "$work/subdirectory/tidegate/lib"
