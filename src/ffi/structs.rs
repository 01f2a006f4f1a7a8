//! Reading the caller's structs and arrays, and filling the caller's outputs: everything that touches a pointer that
//! came from C, so that no other file has to.

use crate::code::Code;
use crate::error::{Error, Fault, Result};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, size_of};

/// No struct of ours will ever be as long; a size beyond it is an uninitialized `struct_size`.
const LONGEST: usize = 4096;

/// An argument outside what the function accepts.
pub(super) fn misuse(field: &'static str, why: fmt::Arguments<'_>) -> Error {
    Error::misuse(Code::InvalidArgument, field, why)
}

/// A struct that may grow in later versions: it begins with `size_t struct_size`.
///
/// # Safety
/// `repr(C)`, first member a `usize` called `struct_size`, and all bytes zero is a value of it.
pub(super) unsafe trait Versioned: Copy {
    /// Bytes that a caller of the first version cannot do without.
    const LEAST: usize;
}

/// Says that a struct is [`Versioned`], and which member is the last one nobody can do without.
macro_rules! versioned {
    ($($type:ident to $member:ident),* $(,)?) => { $(
        const _: () = assert!(std::mem::offset_of!($type, struct_size) == 0);
        // SAFETY: the offset is checked above; every member is an integer, a pointer, an optional function or a
        // struct or array of those, for all of which zero is a value.
        unsafe impl crate::ffi::structs::Versioned for $type {
            const LEAST: usize = std::mem::offset_of!($type, $member) + {
                const fn size<S, M>(_: fn(&S) -> &M) -> usize { std::mem::size_of::<M>() }
                size(|s: &$type| &s.$member)
            };
        }
    )* };
}
pub(super) use versioned;

/// How a report spells the size of a struct.
fn size_field(of: &'static str) -> &'static str {
    match of {
        "desc" => "desc.struct_size",
        "error" => "error.struct_size",
        _ => "out.struct_size",
    }
}

/// Reads and checks the size a versioned struct begins with.
///
/// # Safety
/// `at` is NULL or points to what its first member says.
unsafe fn struct_size<T: Versioned>(at: *const T, field: &'static str) -> Result<usize> {
    if at.is_null() {
        return Err(misuse(field, format_args!("the struct is NULL")));
    }
    // SAFETY: not NULL, so by the contract its first member can be read; alignment is not assumed.
    let size = unsafe { at.cast::<usize>().read_unaligned() };
    match size {
        0 => Err(misuse(size_field(field), format_args!("it is 0; the struct's TG_..._INIT macro sets it"))),
        _ if size < T::LEAST => {
            Err(misuse(size_field(field), format_args!("{size} bytes are fewer than the {} of {field}", T::LEAST)))
        }
        _ if size > LONGEST => Err(misuse(size_field(field), format_args!("no version of {field} has {size} bytes"))),
        _ => Ok(size),
    }
}

/// Copies a descriptor of whatever version: a missing tail is zero, an unknown one must be.
///
/// # Safety
/// `at` is NULL or points to as many readable bytes as its `struct_size` says.
pub(super) unsafe fn read<T: Versioned>(at: *const T, field: &'static str) -> Result<T> {
    // SAFETY: the same contract.
    let size = unsafe { struct_size(at, field) }?;
    let known = size.min(size_of::<T>());
    // SAFETY: the contract says that `size` bytes can be read, and `known` is no more.
    let tail = unsafe { std::slice::from_raw_parts(at.cast::<u8>().add(known), size - known) };
    if tail.iter().any(|&byte| byte != 0) {
        return Err(misuse(size_field(field), format_args!("{field} uses members that this version does not know")));
    }
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: `known` bytes can be read by the contract and written because `T` is no shorter; the two do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(at.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known) };
    // SAFETY: zero is a value of `T`, and so is any mix of zero and members a caller wrote.
    Ok(unsafe { value.assume_init() })
}

/// The same for a call that is made often: a descriptor of this very version is read where it lies, any other one is
/// copied to `copy`.
///
/// # Safety
/// As [`read`]; and the descriptor stays as it is for `'a`.
pub(super) unsafe fn view<'a, T: Versioned>(
    at: *const T,
    field: &'static str,
    copy: &'a mut MaybeUninit<T>,
) -> Result<&'a T> {
    // SAFETY: its first member can be read by the contract.
    if !at.is_null() && at.is_aligned() && unsafe { at.cast::<usize>().read() } == size_of::<T>() {
        // SAFETY: not NULL, aligned, and by the contract as long as it says; any mix of members is a value of `T`.
        return Ok(unsafe { &*at });
    }
    // SAFETY: the same contract.
    Ok(copy.write(unsafe { read(at, field) }?))
}

/// An info struct of the caller's, checked and ready to be filled.
pub(super) struct Info<'a, T> {
    at: *mut u8,
    size: usize,
    caller: PhantomData<&'a mut T>,
}

impl<T: Versioned> Info<'_, T> {
    /// Checks the caller's struct before any work is done.
    ///
    /// # Safety
    /// `at` is NULL or points to as many writable bytes as its `struct_size` says, and nothing else uses them.
    pub(super) unsafe fn new(at: *mut T, field: &'static str) -> Result<Self> {
        // SAFETY: the same contract.
        let size = unsafe { struct_size(at.cast_const(), field) }?;
        Ok(Info { at: at.cast(), size, caller: PhantomData })
    }

    /// Fills as much as the caller's version has; members that only the caller knows become zero.
    pub(super) fn fill(self, mut value: T) {
        let known = self.size.min(size_of::<T>());
        // SAFETY: a versioned struct begins with its size.
        unsafe { (&raw mut value).cast::<usize>().write(self.size) };
        // SAFETY: `new` was promised `size` writable bytes; `value` is ours, so the two do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), self.at, known);
            std::ptr::write_bytes(self.at.add(known), 0, self.size - known);
        }
    }
}

/// Where the caller wants one value.
pub(super) struct Out<'a, T>(&'a mut MaybeUninit<T>);

impl<T: Copy> Out<'_, T> {
    /// Checks the caller's pointer before any work is done.
    ///
    /// # Safety
    /// `at` is NULL or points to a writable `T` that nothing else uses.
    pub(super) unsafe fn new(at: *mut T, field: &'static str) -> Result<Self> {
        if at.is_null() || !at.is_aligned() {
            return Err(misuse(field, format_args!("the pointer is NULL or not aligned")));
        }
        // SAFETY: not NULL, aligned, and by the contract writable and used by nobody else.
        Ok(Out(unsafe { &mut *at.cast::<MaybeUninit<T>>() }))
    }

    /// Writes what is to be there if nothing better comes.
    pub(super) fn preset(self, value: T) -> Self {
        self.0.write(value);
        self
    }

    /// Writes the value.
    pub(super) fn set(self, value: T) {
        self.0.write(value);
    }
}

/// An array of the caller's.
///
/// # Safety
/// `at` is NULL or points to `count` readable `T` that stay as they are for `'a`.
pub(super) unsafe fn array<'a, T>(at: *const T, count: usize, field: &'static str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check_array(at, count, field)?;
    // SAFETY: checked: not NULL, aligned, no longer than an object can be; readable by the contract.
    Ok(unsafe { std::slice::from_raw_parts(at, count) })
}

/// An array of the caller's to be filled. The elements must be of a type that any bytes are a value of.
///
/// # Safety
/// `at` is NULL or points to `count` writable `T` that nothing else uses for `'a`.
pub(super) unsafe fn array_mut<'a, T>(at: *mut T, count: usize, field: &'static str) -> Result<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_array(at.cast_const(), count, field)?;
    // SAFETY: checked: not NULL, aligned, no longer than an object can be; writable by the contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(at, count) })
}

fn check_array<T>(at: *const T, count: usize, field: &'static str) -> Result {
    if at.is_null() {
        return Err(misuse(field, format_args!("the array is NULL but has {count} elements")));
    }
    if !at.is_aligned() {
        return Err(misuse(field, format_args!("the array is not aligned")));
    }
    match count.checked_mul(size_of::<T>()) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
        _ => Err(misuse(field, format_args!("no array has {count} elements"))),
    }
}

/// A reserved member must be zero, so that it can mean something later.
pub(super) fn reserved(value: u32, field: &'static str) -> Result {
    match value {
        0 => Ok(()),
        _ => Err(misuse(field, format_args!("reserved members must be zero, not {value}"))),
    }
}

/// Flags beyond the known ones are errors, so that they can mean something later.
pub(super) fn flags(value: u64, known: u64, field: &'static str) -> Result<u64> {
    match value & !known {
        0 => Ok(value),
        unknown => Err(misuse(field, format_args!("this version does not know the flags {unknown:#x}"))),
    }
}

/// Host memory for what the caller's sizes ask ran out.
pub(super) fn out_of_host_memory(what: &str) -> Error {
    Fault::new(Code::OutOfHostMemory, format!("no host memory for {what}")).into()
}

/// Room for as many elements as a caller's array has; the caller controls the size, so memory may run out.
pub(super) fn buffer<T: Clone>(empty: T, room: usize) -> Result<Vec<T>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(room).map_err(|_| out_of_host_memory("the list"))?;
    buffer.resize(room, empty);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Sample {
        struct_size: usize,
        first: u64,
        second: u64,
    }
    versioned!(Sample to first);

    fn sample(struct_size: usize) -> [usize; 5] {
        [struct_size, 1, 2, 0, 0]
    }

    fn read_sample(words: &[usize; 5]) -> Result<Sample> {
        // SAFETY: the words are readable, and no size used below is longer.
        unsafe { read(words.as_ptr().cast::<Sample>(), "desc") }
    }

    #[test]
    fn a_missing_tail_is_zero() {
        assert_eq!(read_sample(&sample(16)).map(|s| (s.first, s.second)), Ok((1, 0)));
        assert_eq!(read_sample(&sample(20)).map(|s| (s.first, s.second)), Ok((1, 2)));
        assert_eq!(read_sample(&sample(24)).map(|s| (s.first, s.second)), Ok((1, 2)));
    }

    #[test]
    fn an_unknown_tail_must_be_zero() {
        let mut words = sample(40);
        assert!(read_sample(&words).is_ok());
        words[4] = 1;
        assert!(matches!(read_sample(&words), Err(Error::Misuse(m)) if m.field == "desc.struct_size"));
    }

    #[test]
    fn a_size_no_version_had_is_refused() {
        for size in [0, 8, 15, LONGEST + 1, usize::MAX] {
            assert!(
                matches!(read_sample(&sample(size)), Err(Error::Misuse(m)) if m.field == "desc.struct_size"),
                "{size}"
            );
        }
        // SAFETY: NULL is accepted.
        let null = unsafe { read(std::ptr::null::<Sample>(), "desc") };
        assert!(matches!(null, Err(Error::Misuse(m)) if m.field == "desc"));
    }

    #[test]
    fn outputs_are_filled_up_to_their_size_and_not_beyond() {
        for (size, expected) in [(16, [16, 7, 9, 9, 9]), (24, [24, 7, 8, 9, 9]), (32, [32, 7, 8, 0, 9])] {
            let mut words: [usize; 5] = [size, 9, 9, 9, 9];
            // SAFETY: the words are writable, and no size is longer.
            let info = unsafe { Info::new(words.as_mut_ptr().cast::<Sample>(), "out") };
            info.unwrap_or_else(|_| panic!("refused")).fill(Sample { struct_size: 0, first: 7, second: 8 });
            assert_eq!(words, expected);
        }
    }

    #[test]
    fn arrays_are_checked_before_they_are_touched() {
        let at = std::ptr::dangling::<u64>();
        // SAFETY: every one of these is refused or empty before it is read.
        let (null, odd, long, empty) = unsafe {
            (
                array(std::ptr::null::<u64>(), 1, "slices"),
                array(at.byte_add(1), 1, "slices"),
                array(at, usize::MAX / 4, "slices"),
                array(at, 0, "slices"),
            )
        };
        assert!(null.is_err() && odd.is_err() && long.is_err());
        assert_eq!(empty, Ok(&[] as &[u64]));
    }
}
