//! Sets what only the linker can set.

#[path = "build/spirv_tools.rs"]
mod spirv_tools;

fn main() {
    spirv_tools::link();
}
