//! Sets what only the linker can set, finds SPIRV-Tools, and holds the committed header to the source.

#[path = "build_script/header.rs"]
mod header;
#[path = "build_script/spirv_tools.rs"]
mod spirv_tools;

use std::path::Path;

/// While the major version is 0, every minor version has an ABI of its own.
const SONAME_VERSION: &str = concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    spirv_tools::link();
    set_linker_flags();
    check_header();
}

fn set_linker_flags() {
    let flag = |flag: &str| println!("cargo:rustc-cdylib-link-arg=-Wl,{flag}");
    match std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default().as_str() {
        "windows" => {}
        "macos" | "ios" => flag(&format!("-install_name,@rpath/libtidegate.{SONAME_VERSION}.dylib")),
        _ => {
            // Without a name of its own a library is looked for by the path it was linked from.
            flag(&format!("-soname,libtidegate.so.{SONAME_VERSION}"));
            // Threads of a program may still run our thread-local destructors after it closed the library.
            flag("-z,nodelete");
            // What is linked in statically stays inside.
            flag("--exclude-libs,ALL");
        }
    }
}

fn check_header() {
    for path in ["src/ffi", "build_script/header.rs", "cbindgen.toml", header::FOLDER] {
        println!("cargo:rerun-if-changed={path}");
    }
    println!("cargo:rerun-if-env-changed=TIDEGATE_HEADER_COPY");
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&root);
    for (name, make) in header::HEADERS {
        let made = match make(root) {
            Ok(made) => made,
            Err(error) => return complain(root, &format!("{name} cannot be made: {error}")),
        };
        if let Some(copy) = std::env::var_os("TIDEGATE_HEADER_COPY") {
            std::fs::write(Path::new(&copy).join(name), made).expect("scripts/header.sh names a folder");
            continue;
        }
        let committed = std::fs::read_to_string(root.join(header::FOLDER).join(name)).unwrap_or_default();
        if committed != made {
            let line = 1 + committed.lines().zip(made.lines()).take_while(|(old, new)| old == new).count();
            complain(root, &format!("{name} line {line} is not what src/ffi makes; run scripts/header.sh"));
        }
    }
}

/// In a checkout, where the header can be made anew, drift is an error. A program that depends on a published package
/// can do nothing about it and may have another cbindgen; it is told, and goes on.
fn complain(root: &Path, message: &str) {
    let published = root.join("Cargo.toml.orig").is_file();
    let kind = if published { "warning" } else { "error" };
    println!("cargo::{kind}={message}");
}
