//! What a piece of work does to the bytes of a slice, and what that means for claims (R5, R9).

/// What work does to the bytes of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Bound, not touched.
    None,
    /// Only loaded.
    Read,
    /// Every byte of the slice is stored, none is loaded.
    Write,
    /// Some bytes may be stored, none is loaded.
    MayWrite,
    /// Loaded and stored.
    ReadWrite,
}

impl Access {
    /// Claims on the bytes keep the work from running. Work that may store needs no old byte: it runs over claimed ones,
    /// and leaves them claimed (R9).
    pub fn needs_bytes(self) -> bool {
        matches!(self, Access::Read | Access::ReadWrite)
    }
    /// Failing work claims the bytes.
    pub fn writes(self) -> bool {
        matches!(self, Access::Write | Access::MayWrite | Access::ReadWrite)
    }
    /// Succeeding work releases the bytes: it wrote every one of them. Bytes that were read first carried no claim
    /// when the work entered, so only a plain write has anything to release.
    pub fn releases(self) -> bool {
        self == Access::Write
    }
}
