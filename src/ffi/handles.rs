//! The numbers behind handles: 4 bits kind, 20 device serial, 20 slot, 20 generation, top to bottom.
//!
//! The objects of a device are checked by the device. What belongs to the library, devices and reports, is checked
//! here, by the same rules and in the same order.

use crate::code::Code;
use crate::error::{Error, Result};

/// What every handle type can do.
macro_rules! handles {
    ($($name:ident;)*) => { $(
        impl $name {
            /// The handle that names nothing.
            pub const NULL: $name = $name { id: 0 };
        }
        impl From<crate::device::Handle> for $name {
            fn from(handle: crate::device::Handle) -> $name { $name { id: handle.0 } }
        }
        impl From<$name> for crate::device::Handle {
            fn from(handle: $name) -> crate::device::Handle { crate::device::Handle(handle.id) }
        }
    )* };
}
pub(super) use handles;

/// What a handle names. The numbers of a device's objects are given where their handles are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A device: its serial, no slot, no generation.
    Device = 1,
    /// A report: no serial, because it belongs to the library.
    Report = 7,
}

/// The largest number a part of 20 bits holds.
pub(super) const MOST: u32 = (1 << 20) - 1;

/// A handle in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The device it belongs to; 0: the library.
    pub(super) serial: u32,
    /// Its place.
    pub(super) slot: u32,
    /// Which of those that had this place.
    pub(super) generation: u32,
}

impl Parts {
    /// The handle as a number.
    pub(super) fn id(self, kind: Kind) -> u64 {
        (kind as u64) << 60 | u64::from(self.serial) << 40 | u64::from(self.slot) << 20 | u64::from(self.generation)
    }

    /// Takes a number apart that must be a handle of `kind`.
    pub(super) fn of(id: u64, kind: Kind, field: &'static str) -> Result<Parts> {
        if id == 0 {
            return Err(Error::misuse(Code::NullHandle, field, format_args!("the handle is null")));
        }
        if id >> 60 != kind as u64 {
            let why = format_args!("{id:#018x} is no handle of a {}", kind.name());
            return Err(Error::misuse(Code::WrongKind, field, why));
        }
        let part = |shift: u32| (id >> shift) as u32 & MOST;
        Ok(Parts { serial: part(40), slot: part(20), generation: part(0) })
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Device => "device",
            Kind::Report => "report",
        }
    }

    /// The misuse of a handle whose object is gone.
    pub(super) fn stale(self, id: u64, field: &'static str) -> Error {
        Error::misuse(Code::StaleHandle, field, format_args!("the {} {id:#018x} is no more", self.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let parts = Parts { serial: MOST, slot: 0, generation: 5 };
        assert_eq!(Parts::of(parts.id(Kind::Report), Kind::Report, "report"), Ok(parts));
    }

    #[test]
    fn null_comes_before_wrong_kind() {
        let code = |id| Parts::of(id, Kind::Device, "dev").map_err(|error| error.code());
        assert_eq!(code(0), Err(Code::NullHandle));
        assert_eq!(code(1), Err(Code::WrongKind));
        assert_eq!(code(u64::MAX), Err(Code::WrongKind));
    }
}
