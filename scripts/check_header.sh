#!/bin/sh
# Compiles each header alone, and every initializer and macro in it, under each compiler and language version; and has
# the compilers check the sizes, offsets and numbers the library has.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wextra -Wpedantic -Werror"
# The main header must not lean on Vulkan's.
if grep -n 'vulkan_core.h' include/tidegate/tidegate.h; then exit 1; fi
each() { # NAME: what a program can do with that header alone
    header=include/tidegate/$1
    echo "#include <tidegate/$1>"
    echo "#include <tidegate/$1>"
    # Every struct by its initializer, automatic and static; every constant; every function's address.
    sed -n 's/^#define \(TG_[A-Z0-9_]*\)_INIT { .*/\1/p' "$header" | while read -r name; do
        type=$(echo "$name" | tr 'A-Z' 'a-z')
        echo "extern const $type static_$type; const $type static_$type = ${name}_INIT;"
        echo "unsigned size_$type(void); unsigned size_$type(void) { $type one = ${name}_INIT; (void)one; return (unsigned)sizeof one; }"
    done
    sed -n 's/^#define \(TG_[A-Z0-9_]*\) [^{].*/\1/p' "$header" | grep -v -e '^TG_API$' | while read -r name; do
        echo "long long value_$name(void); long long value_$name(void) { return (long long)$name; }"
    done
    cat <<'C'
extern const tg_str table[2];
const tg_str table[2] = { TG_STR_INIT("one"), TG_STR_INIT("") };
size_t macros(tg_result result);
size_t macros(tg_result result) {
    tg_str text = TG_STR("text");
    tg_result codes[2];
    codes[0] = TG_ERROR_INTERNAL;
    codes[1] = 2 -TG_ERROR_INVALID_ARGUMENT;
    switch (result) {
        case TG_OK: return text.size;
        case TG_ERROR_UNWRITTEN: return table[0].size;
        default: return (size_t)(TG_IS_MISUSE(result) + TG_IS_TRACKED(codes[0]) + codes[1]);
    }
}
C
}
for name in tidegate.h tidegate_vulkan.h; do
    each "$name" > "$work/header.c"
    cp "$work/header.c" "$work/header.cpp"
    for compiler in gcc clang; do
        for standard in c99 c11 c17 c2x; do
            "$compiler" -std=$standard $warnings -Wstrict-prototypes -Wmissing-prototypes -Iinclude \
                -c "$work/header.c" -o "$work/header.o"
        done
        for standard in c++11 c++14 c++17 c++20; do
            "$compiler" -x c++ -std=$standard $warnings -Iinclude -c "$work/header.cpp" -o "$work/header.o"
        done
    done
done
for compiler in gcc clang; do
    "$compiler" -std=c11 $warnings -Iinclude -c c_tests/abi/layout.c -o "$work/layout.o"
done
echo "header: C99 to C23 and C++11 to C++20, gcc and clang: ok"
