//! Strings across the boundary: in by pointer and length, out sized and NUL-terminated.

use super::structs::misuse;
use crate::error::Result;
use arrayvec::ArrayString;
use std::ffi::c_char;

/// A string: UTF-8 bytes and how many.
///
/// Into the library: `data` need not end in NUL; NULL with size 0 is the empty string, NULL with another size is
/// misuse; the bytes are copied before the call returns; bytes that are not UTF-8 are replaced by U+FFFD, never
/// refused. Write TG_STR("...") for a literal, TG_STR_INIT("...") in a static table.
///
/// Out of the library: `data` is never NULL and `data[size]` is 0, so it may be used as a C string. It is borrowed
/// from the object it came from, or static; each function says which.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_str {
    /// The first byte.
    pub data: *const c_char,
    /// Bytes, a terminating NUL not counted.
    pub size: usize,
}

/// Bytes of a label array in an info struct: a label is cut at 128 bytes, and a NUL follows it.
pub const TG_LABEL_CAPACITY: usize = 136;

/// Bytes of a label that are kept.
pub(super) const LABEL: usize = 128;
/// Bytes of a message that are kept (R15).
pub(super) const MESSAGE: usize = 1024;

/// A string of the caller's, cut at `N` bytes: borrowed where it can be used as it is, repaired otherwise.
pub(super) enum Given<'a, const N: usize> {
    /// UTF-8 that fits.
    Borrowed(&'a str),
    /// Cut or repaired; on the stack, so that a bad label allocates no more than a good one.
    Copied(ArrayString<N>),
}

impl<const N: usize> Given<'_, N> {
    /// The text.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Given::Borrowed(text) => text,
            Given::Copied(text) => text,
        }
    }
}

/// Reads a string of the caller's.
///
/// # Safety
/// `given.data` points to `given.size` readable bytes that stay as they are for `'a`, or is NULL.
pub(super) unsafe fn read<'a, const N: usize>(given: tg_str, field: &'static str) -> Result<Given<'a, N>> {
    // SAFETY: the same contract.
    let bytes = unsafe { seen::<N>(given, field) }?;
    Ok(match usable::<N>(bytes) {
        Some(text) => Given::Borrowed(text),
        None => Given::Copied(repaired(bytes)),
    })
}

/// The same for a call that is made often: what has to be copied lies in `copy`, so that nothing large is moved.
///
/// # Safety
/// As [`read`].
#[inline]
pub(super) unsafe fn view<'a, const N: usize>(
    given: tg_str,
    field: &'static str,
    copy: &'a mut ArrayString<N>,
) -> Result<&'a str> {
    if given.size == 0 {
        return Ok("");
    }
    // SAFETY: the same contract.
    let bytes = unsafe { seen::<N>(given, field) }?;
    Ok(usable_or_repaired(bytes, copy))
}

fn usable_or_repaired<'a, const N: usize>(bytes: &'a [u8], copy: &'a mut ArrayString<N>) -> &'a str {
    if let Some(text) = usable::<N>(bytes) {
        return text;
    }
    *copy = repaired(bytes);
    copy
}

/// The part of a string that is looked at: a label of a gigabyte costs no more than one of `N` bytes. The few bytes
/// beyond `N` let a character that is cut be told from one that is broken.
///
/// # Safety
/// As [`read`].
unsafe fn seen<'a, const N: usize>(given: tg_str, field: &'static str) -> Result<&'a [u8]> {
    if given.data.is_null() {
        return match given.size {
            0 => Ok(&[]),
            size => Err(misuse(field, format_args!("the string is NULL but has {size} bytes"))),
        };
    }
    if given.size > isize::MAX as usize {
        return Err(misuse(field, format_args!("no string has {} bytes", given.size)));
    }
    // SAFETY: non-NULL and, by the contract above, readable for `size` bytes; a size that no object can have was refused.
    let bytes = unsafe { std::slice::from_raw_parts(given.data.cast::<u8>(), given.size) };
    Ok(&bytes[..bytes.len().min(N + 4)])
}

fn usable<const N: usize>(seen: &[u8]) -> Option<&str> {
    if seen.len() <= N { std::str::from_utf8(seen).ok() } else { None }
}

fn repaired<const N: usize>(seen: &[u8]) -> ArrayString<N> {
    let mut copy = ArrayString::new();
    for chunk in seen.utf8_chunks() {
        let replacement = (!chunk.invalid().is_empty()).then_some('\u{FFFD}');
        for character in chunk.valid().chars().chain(replacement) {
            if copy.try_push(character).is_err() {
                return copy;
            }
        }
    }
    copy
}

/// Text that ends in NUL and stays where it is: what the library lends out.
#[derive(Default)]
pub(super) struct Lent(Box<str>);

impl Lent {
    /// Copies `text` and ends it.
    pub(super) fn new(text: &str) -> Lent {
        match text {
            // Empty text is lent from elsewhere.
            "" => Lent::default(),
            _ => Lent([text, "\0"].concat().into_boxed_str()),
        }
    }
    /// As C sees it; valid as long as `self`.
    pub(super) fn borrow(&self) -> tg_str {
        match self.0.len() {
            0 => lend("\0"),
            _ => lend(&self.0),
        }
    }
}

/// Text that already ends in NUL, as C sees it; valid as long as `text`.
pub(super) fn lend(text: &str) -> tg_str {
    debug_assert!(text.ends_with('\0'));
    tg_str { data: text.as_ptr().cast(), size: text.len() - 1 }
}

/// At most `most` bytes of a text, whole characters only.
pub(super) fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Copies text into an array of an info struct, cut at a character so that a NUL follows; gives the bytes kept.
pub(super) fn fill<const N: usize>(array: &mut [c_char; N], text: &str) -> usize {
    let kept = cut(text, N - 1).len();
    for (to, from) in array.iter_mut().zip(text.as_bytes()[..kept].iter()) {
        *to = *from as c_char;
    }
    array[kept..].fill(0);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(bytes: &[u8]) -> tg_str {
        tg_str { data: bytes.as_ptr().cast(), size: bytes.len() }
    }

    fn text<const N: usize>(bytes: &[u8]) -> String {
        // SAFETY: a slice is readable for as long as it is.
        unsafe { read::<N>(given(bytes), "label") }.unwrap_or_else(|_| panic!("refused")).as_str().to_owned()
    }

    #[test]
    fn null_is_the_empty_string_only_when_it_has_no_bytes() {
        let null = |size| tg_str { data: std::ptr::null(), size };
        // SAFETY: NULL is accepted.
        let (empty, bad) = unsafe { (read::<8>(null(0), "label"), read::<8>(null(1), "label")) };
        assert_eq!(empty.unwrap_or_else(|_| panic!("refused")).as_str(), "");
        assert!(matches!(bad, Err(crate::error::Error::Misuse(m)) if m.field == "label"));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced() {
        assert_eq!(text::<16>(b"a\xFFb"), "a\u{FFFD}b");
        assert_eq!(text::<16>(b"a\0b"), "a\0b");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(text::<4>("abcde".as_bytes()), "abcd");
        assert_eq!(text::<4>("abc\u{E9}".as_bytes()), "abc");
        assert_eq!(text::<5>("abc\u{E9}".as_bytes()), "abc\u{E9}");
    }

    #[test]
    fn arrays_end_in_nul() {
        let mut array = [1; 4];
        assert_eq!(fill(&mut array, "abcd"), 3);
        assert_eq!(array.map(|c| c as u8), *b"abc\0");
        assert_eq!(fill(&mut array, ""), 0);
        assert_eq!(array, [0; 4]);
    }
}
