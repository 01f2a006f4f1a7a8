# What the static library needs at the final link, as `cargo rustc --release --crate-type staticlib -- --print
# native-static-libs` tells it. Consumers of an installed package have no Rust to ask, so it is recorded here; the
# static consumers of scripts/test.sh fail to link when something is missing from it.
# stdc++ is there because the SPIRV-Tools validator inside the archive is C++.
set(TIDEGATE_NATIVE_LIBRARIES stdc++ gcc_s util rt pthread m dl c)
