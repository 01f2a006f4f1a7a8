//! Finds the system's SPIRV-Tools, so that shaders can be validated before a driver sees them.
//!
//! Building SPIRV-Tools from source takes longer than building everything else, so a system without it gets a
//! library without a validator, and one that says so.

/// Links SPIRV-Tools and sets `tidegate_spirv_tools`, or does neither.
pub(crate) fn link() {
    println!("cargo:rustc-check-cfg=cfg(tidegate_spirv_tools)");
    println!("cargo:rerun-if-changed=build_script/spirv_tools.rs");
    if link_static() || link_shared() {
        println!("cargo:rustc-cfg=tidegate_spirv_tools");
    }
}

fn probe(name: &str) -> Option<pkg_config::Library> {
    // The first version with every option that is set.
    pkg_config::Config::new().atleast_version("2022.1").cargo_metadata(false).probe(name).ok()
}

fn link_static() -> bool {
    let Some(library) = probe("SPIRV-Tools") else { return false };
    let windows = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "msvc");
    let file = if windows { "SPIRV-Tools.lib" } else { "libSPIRV-Tools.a" };
    let Some(folder) = library.link_paths.iter().find(|folder| folder.join(file).is_file()) else { return false };
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=static=SPIRV-Tools");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos" | "ios" | "freebsd" | "openbsd") => println!("cargo:rustc-link-lib=dylib=c++"),
        _ if windows => {}
        _ => println!("cargo:rustc-link-lib=dylib=stdc++"),
    }
    true
}

fn link_shared() -> bool {
    let Some(library) = probe("SPIRV-Tools-shared") else { return false };
    for folder in &library.link_paths {
        println!("cargo:rustc-link-search=native={}", folder.display());
    }
    println!("cargo:rustc-link-lib=dylib=SPIRV-Tools-shared");
    true
}
