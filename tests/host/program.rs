//! Kernels of the host device: small programs, as text in the bytes of the module, whose results a model can
//! compute byte by byte.

use super::model::Stores;
use std::fmt::Write;
use tidegate::failure::Access;

/// A kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Work group size; nothing depends on it but how threads are divided.
    pub group: [u32; 3],
    /// Bytes of push constants; each operation adds the first of them.
    pub push: u32,
    /// What the module does with each binding. It proves of a `Write` which bytes a launch writes.
    pub bindings: Vec<Access>,
    /// How much of its window an operation reaches; none: all of it.
    pub per: Option<Per>,
    /// All loads of all operations come before all stores.
    pub operations: Vec<Operation>,
}

/// Each invocation of the first dimension has an element of so many bytes, and elements that do not fit are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Per {
    pub bytes: u32,
    /// Only elements below the number in the first four bytes of push constants.
    pub guarded: bool,
}

/// `out[lo + i] = add + push[0] + sum of terms`, for every `i` in the window with `i % step == start`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub out: usize,
    pub window: Window,
    pub step: u64,
    pub start: u64,
    pub add: u8,
    pub terms: Vec<Term>,
}

/// `input[lo + i % len] * factor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub binding: usize,
    pub window: Window,
    pub factor: u8,
}

/// Bytes of a binding; length 0 is "to its end".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    pub lo: u64,
    pub len: u64,
}

impl Window {
    pub const ALL: Window = Window { lo: 0, len: 0 };

    /// First byte and length within a binding of `size` bytes.
    pub fn within(self, size: u64) -> (u64, u64) {
        let lo = self.lo.min(size);
        let rest = size - lo;
        (lo, if self.len == 0 { rest } else { self.len.min(rest) })
    }
}

const MAGIC: &str = "host kernel 1";

fn access_word(access: Access) -> &'static str {
    match access {
        Access::None => "none",
        Access::Read => "read",
        Access::Write => "write",
        Access::MayWrite => "may",
        Access::ReadWrite => "both",
    }
}

impl Program {
    pub fn new(bindings: &[Access]) -> Program {
        Program { group: [1; 3], push: 0, bindings: bindings.to_vec(), per: None, operations: Vec::new() }
    }

    /// Every byte of `out` becomes `add` plus the terms, each with the binding and its factor.
    pub fn map(mut self, out: usize, add: u8, terms: &[(usize, u8)]) -> Program {
        let terms = terms.iter().map(|&(binding, factor)| Term { binding, window: Window::ALL, factor }).collect();
        self.operations.push(Operation { out, window: Window::ALL, step: 1, start: 0, add, terms });
        self
    }

    /// The bytes of a module.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = format!("{MAGIC}\ngroup {} {} {}\n", self.group[0], self.group[1], self.group[2]);
        let _ = writeln!(text, "push {}", self.push);
        if let Some(Per { bytes, guarded }) = self.per {
            let _ = writeln!(text, "per {bytes} {}", u8::from(guarded));
        }
        for &access in &self.bindings {
            let _ = writeln!(text, "bind {}", access_word(access));
        }
        for o in &self.operations {
            let _ = write!(text, "op {} {} {} {} {} {}", o.out, o.window.lo, o.window.len, o.step, o.start, o.add);
            for t in &o.terms {
                let _ = write!(text, " {} {} {} {}", t.binding, t.window.lo, t.window.len, t.factor);
            }
            text.push('\n');
        }
        text.push_str("end\n");
        text.into_bytes()
    }

    /// The kernel of a module, or why there is none.
    pub fn parse(code: &[u8]) -> Result<Program, String> {
        let text = std::str::from_utf8(code).map_err(|_| "the module is no text".to_string())?;
        let mut lines = text.lines();
        if lines.next() != Some(MAGIC) {
            return Err("the module has no magic".to_string());
        }
        let mut program = Program { group: [1; 3], ..Program::default() };
        let mut ended = false;
        for line in lines {
            if ended {
                return Err("the module goes on after its end".to_string());
            }
            let bad = || format!("line \"{line}\" says nothing");
            let mut words = line.split(' ');
            let verb = words.next().ok_or_else(bad)?;
            if verb == "bind" {
                program.bindings.push(match words.next() {
                    Some("none") => Access::None,
                    Some("read") => Access::Read,
                    Some("write") => Access::Write,
                    Some("may") => Access::MayWrite,
                    Some("both") => Access::ReadWrite,
                    _ => return Err(bad()),
                });
                continue;
            }
            let numbers = words.map(str::parse).collect::<Result<Vec<u64>, _>>().map_err(|_| bad())?;
            match (verb, numbers.as_slice()) {
                ("group", &[x, y, z]) => program.group = [x as u32, y as u32, z as u32],
                ("push", &[bytes]) => program.push = bytes as u32,
                ("per", &[bytes, guarded]) if bytes > 0 => {
                    program.per = Some(Per { bytes: bytes as u32, guarded: guarded != 0 });
                }
                ("op", [out, lo, len, step, start, add, rest @ ..]) if *step > 0 && rest.len() % 4 == 0 => {
                    let binding = |index: u64| match (index as usize) < program.bindings.len() {
                        true => Ok(index as usize),
                        false => Err(format!("line \"{line}\" uses a binding outside the layout")),
                    };
                    let mut terms = Vec::new();
                    for term in rest.chunks(4) {
                        let window = Window { lo: term[1], len: term[2] };
                        terms.push(Term { binding: binding(term[0])?, window, factor: term[3] as u8 });
                    }
                    program.operations.push(Operation {
                        out: binding(*out)?,
                        window: Window { lo: *lo, len: *len },
                        step: *step,
                        start: *start,
                        add: *add as u8,
                        terms,
                    });
                }
                ("end", []) => ended = true,
                _ => return Err(bad()),
            }
        }
        match ended {
            true => Ok(program),
            false => Err("the module has no end".to_string()),
        }
    }

    /// Bytes that a run reaches of a slice of so many.
    pub fn reach(&self, size: u64, push: &[u8], groups: [u32; 3]) -> u64 {
        let Some(Per { bytes, guarded }) = self.per else { return size };
        let pushed = push.first_chunk().map_or(0, |four| u64::from(u32::from_le_bytes(*four)));
        let most = if guarded { pushed } else { u64::MAX };
        let invocations = u64::from(groups[0]) * u64::from(self.group[0]);
        invocations.min(most).min(size / u64::from(bytes)) * u64::from(bytes)
    }

    /// The bytes a run touches at the most: binding, first byte, length, and whether they are stored.
    pub fn touches(&self, sizes: &[u64]) -> Vec<(usize, u64, u64, bool)> {
        let mut touches = Vec::new();
        for o in &self.operations {
            let (lo, len) = o.window.within(sizes[o.out]);
            if o.start >= len {
                continue;
            }
            touches.push((o.out, lo, len, true));
            for t in &o.terms {
                let (from, count) = t.window.within(sizes[t.binding]);
                touches.push((t.binding, from, count.min(len), false));
            }
        }
        touches
    }
}

impl Stores for Program {
    fn run(
        &self,
        sizes: &[u64],
        push: &[u8],
        groups: [u32; 3],
        load: &mut dyn FnMut(usize, u64) -> Option<u8>,
    ) -> Vec<(usize, u64, Option<u8>)> {
        let mut stores = Vec::new();
        let pushed = push.first().copied().unwrap_or(0);
        for o in &self.operations {
            let (lo, len) = o.window.within(sizes[o.out]);
            let len = len.min(self.reach(len, push, groups));
            let mut i = o.start;
            while i < len {
                let mut value = Some(o.add.wrapping_add(pushed));
                for t in &o.terms {
                    let (from, count) = t.window.within(sizes[t.binding]);
                    if count > 0 {
                        let loaded = load(t.binding, from + i % count);
                        value = value.zip(loaded).map(|(v, l)| v.wrapping_add(l.wrapping_mul(t.factor)));
                    }
                }
                stores.push((o.out, lo + i, value));
                i += o.step;
            }
        }
        stores
    }
}
