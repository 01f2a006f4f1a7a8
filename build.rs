//! Sets what only the linker can set.

fn main() {}
