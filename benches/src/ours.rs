//! Our side: the functions of the C API, called as a C program calls them.

use crate::raw::{CELL, INCREMENT};
use std::ffi::c_void;
use std::ptr::null;
use tidegate::ffi::{
    TG_ACCESS_AUTO, TG_WHOLE_SIZE, tg_buffer, tg_buffer_create, tg_buffer_desc, tg_buffer_destroy, tg_buffer_fill,
    tg_buffer_read, tg_buffer_write, tg_device, tg_device_create, tg_device_desc, tg_device_destroy, tg_device_report,
    tg_error_desc, tg_kernel, tg_kernel_create, tg_kernel_desc, tg_last_report, tg_launch, tg_launch_desc, tg_report,
    tg_report_failure_count, tg_report_release, tg_report_text, tg_slice, tg_str, tg_stream_flush, tg_stream_wait,
    tg_taint, tg_use,
};

const FOREVER: u64 = u64::MAX;
const OK: i32 = 0;
const SKIPPED: i32 = 1;

pub(crate) const NO_NAME: tg_str = tg_str { data: null(), size: 0 };

/// Ends the program with the report of a call that did not do what it says.
pub(crate) fn expect(wanted: i32, got: i32, what: &str) {
    if got == wanted {
        return;
    }
    let (mut report, mut text) = (tg_report { id: 0 }, NO_NAME);
    // SAFETY: both outputs are writable.
    let words = unsafe {
        if tg_last_report(&mut report) == OK && tg_report_text(report, &mut text) == OK {
            let bytes = std::slice::from_raw_parts(text.data.cast::<u8>(), text.size);
            String::from_utf8_lossy(bytes).into_owned()
        } else {
            String::new()
        }
    };
    panic!("{what} gave {got}, not {wanted}: {words}");
}

pub(crate) fn whole(buffer: tg_buffer) -> tg_slice {
    tg_slice { buffer, offset: 0, size: TG_WHOLE_SIZE }
}

pub(crate) fn used(slice: tg_slice) -> tg_use {
    tg_use { slice, access: TG_ACCESS_AUTO, reserved: 0 }
}

/// A device with the kernel of the measurements.
pub(crate) struct Ours {
    pub(crate) device: tg_device,
    kernel: tg_kernel,
}

impl Ours {
    /// A device with the defaults, but for the scheduling, and for the launches after which it flushes by itself (0: the
    /// default too).
    pub(crate) fn new(scheduling: u32, flushes_after: u32) -> Ours {
        // SAFETY: zero is the default of every member; every pointer is NULL or points to what is named beside it.
        unsafe {
            let mut desc: tg_device_desc = std::mem::zeroed();
            desc.struct_size = size_of::<tg_device_desc>();
            desc.scheduling = scheduling;
            desc.max_recorded = flushes_after;
            desc.max_tasks = flushes_after;
            let mut device = tg_device { id: 0 };
            expect(OK, tg_device_create(&desc, &mut device), "tg_device_create");
            let mut desc: tg_kernel_desc = std::mem::zeroed();
            desc.struct_size = size_of::<tg_kernel_desc>();
            desc.code = INCREMENT.as_ptr().cast();
            desc.code_size = INCREMENT.len();
            let mut kernel = tg_kernel { id: 0 };
            expect(OK, tg_kernel_create(device, &desc, &mut kernel), "tg_kernel_create");
            Ours { device, kernel }
        }
    }

    pub(crate) fn buffer(&self, size: u64) -> tg_buffer {
        let mut buffer = tg_buffer { id: 0 };
        // SAFETY: zero is the default of every member; the output is writable.
        let result = unsafe {
            let mut desc: tg_buffer_desc = std::mem::zeroed();
            desc.struct_size = size_of::<tg_buffer_desc>();
            desc.size = size;
            tg_buffer_create(self.device, &desc, &mut buffer)
        };
        expect(OK, result, "tg_buffer_create");
        buffer
    }

    pub(crate) fn destroy(&self, buffer: tg_buffer) {
        expect(OK, tg_buffer_destroy(self.device, buffer), "tg_buffer_destroy");
    }

    /// Two buffers of zeros and the launches that swap them.
    pub(crate) fn chain(&self) -> Chain {
        let buffers = [self.buffer(CELL), self.buffer(CELL)];
        buffers.iter().for_each(|buffer| self.zero(*buffer));
        let [first, second] = buffers.map(|buffer| used(whole(buffer)));
        Chain { buffers, uses: [[first, second], [second, first]] }
    }

    /// A launch over these uses, which must stay where they are while it is called.
    pub(crate) fn desc(&self, uses: &[tg_use]) -> tg_launch_desc {
        tg_launch_desc {
            struct_size: size_of::<tg_launch_desc>(),
            stream: 0,
            kernel: self.kernel,
            bindings: uses.as_ptr(),
            binding_count: uses.len(),
            extra: null(),
            extra_count: 0,
            groups: [1, 0, 0],
            threads: [0; 3],
            indirect: tg_slice { buffer: tg_buffer { id: 0 }, offset: 0, size: 0 },
            push: null(),
            push_size: 0,
            label: NO_NAME,
            tag: 0,
        }
    }

    #[inline]
    pub(crate) fn launch(&self, desc: &tg_launch_desc) {
        // SAFETY: the struct and the array it points to are readable.
        let result = unsafe { tg_launch(self.device, desc) };
        if result != OK {
            expect(OK, result, "tg_launch");
        }
    }

    /// The same, where the input is claimed.
    #[inline]
    pub(crate) fn skip(&self, desc: &tg_launch_desc) {
        // SAFETY: the struct and the array it points to are readable.
        let result = unsafe { tg_launch(self.device, desc) };
        if result != SKIPPED {
            expect(SKIPPED, result, "tg_launch");
        }
    }

    pub(crate) fn flush(&self) {
        expect(OK, tg_stream_flush(self.device, 0), "tg_stream_flush");
    }

    pub(crate) fn wait(&self) {
        expect(OK, tg_stream_wait(self.device, 0, FOREVER), "tg_stream_wait");
    }

    pub(crate) fn zero(&self, buffer: tg_buffer) {
        expect(OK, tg_buffer_fill(self.device, 0, whole(buffer), 0, 4), "tg_buffer_fill");
        self.wait();
    }

    pub(crate) fn write(&self, to: tg_buffer, bytes: &[u8]) {
        // SAFETY: the bytes are readable.
        let result =
            unsafe { tg_buffer_write(self.device, 0, whole(to), bytes.as_ptr().cast::<c_void>(), bytes.len()) };
        expect(OK, result, "tg_buffer_write");
    }

    pub(crate) fn read(&self, from: tg_buffer, into: &mut [u8]) {
        self.read_part(from, 0, into);
    }

    pub(crate) fn read_part(&self, from: tg_buffer, offset: u64, into: &mut [u8]) {
        let slice = tg_slice { buffer: from, offset, size: into.len() as u64 };
        // SAFETY: the bytes are writable.
        let result =
            unsafe { tg_buffer_read(self.device, 0, into.as_mut_ptr().cast::<c_void>(), into.len(), slice, FOREVER) };
        expect(OK, result, "tg_buffer_read");
    }

    pub(crate) fn fill(&self, slice: tg_slice) {
        expect(OK, tg_buffer_fill(self.device, 0, slice, 1, 4), "tg_buffer_fill");
    }

    /// Makes a report on the device: how many roots it lists.
    pub(crate) fn report(&self) -> usize {
        let (mut report, mut count) = (tg_report { id: 0 }, 0);
        // SAFETY: both outputs are writable.
        unsafe {
            expect(OK, tg_device_report(self.device, &mut report), "tg_device_report");
            expect(OK, tg_report_failure_count(report, &mut count), "tg_report_failure_count");
        }
        expect(OK, tg_report_release(report), "tg_report_release");
        count
    }

    pub(crate) fn taint(&self, buffer: tg_buffer) {
        self.taint_all(&[whole(buffer)]);
    }

    /// One failure takes all of the slices over.
    pub(crate) fn taint_all(&self, slices: &[tg_slice]) {
        let error =
            tg_error_desc { struct_size: size_of::<tg_error_desc>(), code: 1, message: NO_NAME, label: NO_NAME };
        // SAFETY: the slices and the error are readable.
        let result = unsafe { tg_taint(self.device, slices.as_ptr(), slices.len(), &error) };
        expect(OK, result, "tg_taint");
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            expect(OK, tg_device_destroy(self.device, FOREVER), "tg_device_destroy");
        }
    }
}

/// Two buffers that launches swap.
pub(crate) struct Chain {
    pub(crate) buffers: [tg_buffer; 2],
    pub(crate) uses: [[tg_use; 2]; 2],
}

impl Chain {
    /// Launches `count` times, each on what the one before wrote.
    pub(crate) fn launch(&self, ours: &Ours, count: usize) {
        let descs = [ours.desc(&self.uses[0]), ours.desc(&self.uses[1])];
        for i in 0..count {
            ours.launch(&descs[i % 2]);
        }
    }

    /// Makes sure that `count` launches (an even number) ran since the zeros, each on the result of the one before.
    pub(crate) fn check(&self, ours: &Ours, count: u32) {
        let mut bytes = [0; CELL as usize];
        ours.read(self.buffers[0], &mut bytes);
        assert!(all_are(&bytes, count), "{count} dependent launches left {bytes:?}");
    }
}

/// Whether every word has the value.
pub(crate) fn all_are(bytes: &[u8], value: u32) -> bool {
    bytes.chunks_exact(4).all(|word| word == value.to_ne_bytes())
}
