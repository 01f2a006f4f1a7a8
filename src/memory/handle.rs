//! Handles: 64-bit ids that can be checked, in release builds too, and never come to mean something else.
//!
//! From top to bottom 4 bits kind, 20 device serial, 20 slot, 20 generation. A slot whose generations are used up
//! retires, so an id never wraps into a live one.

use crate::code::Code;
use crate::error::{Error, Fault};
use crate::room::{Room, no_memory};

/// A handle as callers hold it. 0 is the null handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(pub u64);

/// What a handle names.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleKind {
    /// A device.
    Device = 1,
    /// A buffer.
    Buffer = 2,
    /// A kernel.
    Kernel = 3,
    /// An event.
    Event = 4,
    /// An asynchronous read.
    Read = 5,
    /// A write scope.
    Scope = 6,
    /// A report; belongs to the library, so its device serial is 0.
    Report = 7,
}

/// Bits of the serial, slot and generation each.
pub const FIELD_BITS: u32 = 20;
const FIELD_MAX: u32 = (1 << FIELD_BITS) - 1;

impl Handle {
    /// Puts a handle together; each number fits its 20 bits.
    pub fn new(kind: HandleKind, serial: u32, slot: u32, generation: u32) -> Handle {
        debug_assert!(serial <= FIELD_MAX && slot <= FIELD_MAX && generation <= FIELD_MAX);
        Handle(
            u64::from(kind as u8) << (3 * FIELD_BITS)
                | u64::from(serial) << (2 * FIELD_BITS)
                | u64::from(slot) << FIELD_BITS
                | u64::from(generation),
        )
    }

    /// Whether it is the null handle.
    pub fn is_null(self) -> bool {
        self.0 == 0
    }
    /// The kind it claims to be.
    pub fn kind_bits(self) -> u8 {
        (self.0 >> (3 * FIELD_BITS)) as u8
    }
    /// The device serial it claims.
    pub fn serial(self) -> u32 {
        (self.0 >> (2 * FIELD_BITS)) as u32 & FIELD_MAX
    }
    /// The slot it claims.
    pub fn slot(self) -> u32 {
        (self.0 >> FIELD_BITS) as u32 & FIELD_MAX
    }
    /// The generation it claims.
    pub fn generation(self) -> u32 {
        self.0 as u32 & FIELD_MAX
    }
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// The objects of one kind of one device, by handle.
#[derive(Debug)]
pub struct HandleTable<T> {
    kind: HandleKind,
    serial: u32,
    /// The bits that kind and serial give every handle of the table.
    prefix: u64,
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    live: usize,
}

impl<T> HandleTable<T> {
    /// An empty table of a device.
    pub fn new(kind: HandleKind, serial: u32) -> HandleTable<T> {
        let prefix = Handle::new(kind, serial, 0, 0).0 >> (2 * FIELD_BITS);
        HandleTable { kind, serial, prefix, entries: Vec::new(), free: Vec::new(), live: 0 }
    }

    /// How many handles are live.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether no handle is live.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// A handle for the value; gives it back when every slot is taken.
    pub fn insert(&mut self, value: T) -> Result<Handle, T> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.is_full() || self.make_room(1).is_err() => return Err(value),
            None => {
                self.entries.push(Entry { generation: 0, value: None });
                self.entries.len() as u32 - 1
            }
        };
        let entry = &mut self.entries[slot as usize];
        entry.generation += 1;
        entry.value = Some(value);
        self.live += 1;
        Ok(Handle::new(self.kind, self.serial, slot, entry.generation))
    }

    /// Sees to room for so many more values, and to take them out again.
    pub fn make_room(&mut self, more: usize) -> Result<(), Fault> {
        self.entries.make_room(more)?;
        let most = self.entries.len() + more;
        if self.free.capacity() >= most { Ok(()) } else { self.free.make_room(most - self.free.len()) }
    }

    /// Whether every slot is taken, or else there is no memory for more.
    pub fn is_full(&self) -> bool {
        self.free.is_empty() && self.entries.len() > FIELD_MAX as usize
    }

    /// Why [`insert`](Self::insert) gave a value back.
    #[cold]
    pub fn refusal(&self, what: &'static str) -> Fault {
        if !self.is_full() {
            return no_memory();
        }
        Fault::new(Code::LimitExceeded, format!("a device has at most {} {what} at a time", FIELD_MAX + 1))
    }

    #[cold]
    fn refuse(&self, handle: Handle, field: &'static str) -> Error {
        self.check(handle, field).err().unwrap_or(Error::NotReady)
    }

    /// Checks a handle: null, of another kind, of another device, no longer live, in this order.
    pub fn check(&self, handle: Handle, field: &'static str) -> Result<(), Error> {
        if self.get(handle).is_some() {
            return Ok(());
        }
        let kind = self.kind;
        Err(if handle.is_null() {
            Error::misuse(Code::NullHandle, field, format_args!("the handle is null"))
        } else if handle.kind_bits() != kind as u8 {
            wrong_kind(handle, kind, field)
        } else if handle.serial() != self.serial {
            Error::misuse(Code::ForeignHandle, field, format_args!("the {} is another device's", kind.noun()))
        } else {
            Error::misuse(Code::StaleHandle, field, format_args!("the {} was destroyed", kind.noun()))
        })
    }

    /// What a handle names, if it is live here.
    pub fn get(&self, handle: Handle) -> Option<&T> {
        if handle.0 >> (2 * FIELD_BITS) != self.prefix {
            return None;
        }
        let entry = self.entries.get(handle.slot() as usize)?;
        if entry.generation == handle.generation() { entry.value.as_ref() } else { None }
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        self.get(handle)?;
        self.entries[handle.slot() as usize].value.as_mut()
    }

    /// What a handle names, or why it names nothing.
    pub fn resolve(&self, handle: Handle, field: &'static str) -> Result<&T, Error> {
        match self.get(handle) {
            Some(value) => Ok(value),
            None => Err(self.refuse(handle, field)),
        }
    }

    /// Takes the value out; the handle is stale from now on.
    pub fn remove(&mut self, handle: Handle) -> Option<T> {
        self.get(handle)?;
        let slot = handle.slot();
        let entry = &mut self.entries[slot as usize];
        if entry.generation < FIELD_MAX {
            self.free.push(slot);
        }
        self.live -= 1;
        entry.value.take()
    }

    /// Every live handle with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.entries.iter().enumerate().filter_map(|(slot, entry)| {
            let value = entry.value.as_ref()?;
            Some((Handle::new(self.kind, self.serial, slot as u32, entry.generation), value))
        })
    }
}

/// Why a handle of another kind, or of none, is no handle of the kind that is wanted.
pub fn wrong_kind(handle: Handle, wanted: HandleKind, field: &'static str) -> Error {
    let wanted = wanted.noun();
    match HandleKind::ALL.iter().find(|kind| **kind as u8 == handle.kind_bits()) {
        Some(named) => {
            let named = named.noun();
            let article = if named.starts_with('e') { "an" } else { "a" };
            Error::misuse(Code::WrongKind, field, format_args!("the handle names {article} {named}, not a {wanted}"))
        }
        None => Error::misuse(Code::WrongKind, field, format_args!("this is no handle, where a {wanted} is wanted")),
    }
}

impl HandleKind {
    const ALL: [HandleKind; 7] = [
        HandleKind::Device,
        HandleKind::Buffer,
        HandleKind::Kernel,
        HandleKind::Event,
        HandleKind::Read,
        HandleKind::Scope,
        HandleKind::Report,
    ];

    /// What people call it.
    pub fn noun(self) -> &'static str {
        match self {
            HandleKind::Device => "device",
            HandleKind::Buffer => "buffer",
            HandleKind::Kernel => "kernel",
            HandleKind::Event => "event",
            HandleKind::Read => "read",
            HandleKind::Scope => "scope",
            HandleKind::Report => "report",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_handle_has_its_own_code_in_order() {
        let mut table = HandleTable::new(HandleKind::Buffer, 7);
        let live = table.insert("a").unwrap();
        let code = |handle| table.check(handle, "buffer").err().map(|error| error.code());
        assert_eq!(code(live), None);
        assert_eq!(code(Handle(0)), Some(Code::NullHandle));
        assert_eq!(code(Handle::new(HandleKind::Kernel, 7, 0, 1)), Some(Code::WrongKind));
        assert_eq!(code(Handle(u64::MAX)), Some(Code::WrongKind));
        assert_eq!(code(Handle::new(HandleKind::Buffer, 8, 0, 1)), Some(Code::ForeignHandle));
        assert_eq!(code(Handle::new(HandleKind::Buffer, 7, 0, 2)), Some(Code::StaleHandle));
        assert_eq!(code(Handle::new(HandleKind::Buffer, 7, 9, 1)), Some(Code::StaleHandle));
    }

    #[test]
    fn a_handle_of_another_kind_is_called_by_its_name() {
        let table: HandleTable<()> = HandleTable::new(HandleKind::Buffer, 7);
        let message = |handle| match table.check(handle, "buffer") {
            Err(Error::Misuse(misuse)) => misuse.message.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(message(Handle::new(HandleKind::Kernel, 7, 0, 1)), "the handle names a kernel, not a buffer");
        assert_eq!(message(Handle::new(HandleKind::Event, 7, 0, 1)), "the handle names an event, not a buffer");
        assert_eq!(message(Handle(u64::MAX)), "this is no handle, where a buffer is wanted");
        for (bits, kind) in (1..).zip(HandleKind::ALL) {
            assert_eq!(kind as u8, bits);
        }
    }

    #[test]
    fn a_slot_retires_when_its_generations_are_used_up() {
        let mut table = HandleTable::new(HandleKind::Buffer, 1);
        let first = table.insert(0).unwrap();
        table.remove(first);
        for n in 1..FIELD_MAX {
            let handle = table.insert(n).unwrap();
            assert_eq!(handle.slot(), 0);
            table.remove(handle);
        }
        let next = table.insert(0).unwrap();
        assert_eq!(next.slot(), 1);
        assert_eq!(table.check(first, "buffer").err().map(|error| error.code()), Some(Code::StaleHandle));
    }
}
