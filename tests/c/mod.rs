//! The C API as a Rust test wants it: each function once, with slices for arrays and an answer that carries the roots
//! its report names. Nothing here knows a rule.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

pub mod shim;
pub mod words;

use std::ffi::c_void;
use std::mem::size_of;
use std::path::PathBuf;
use std::process::Command;
use tidegate::ffi::*;

/// What a function that did not return `TG_OK` said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub code: tg_result,
    pub roots: Vec<u64>,
    pub more: u32,
    pub message: String,
}

pub type Answer<T = ()> = Result<T, Refused>;

/// A device.
pub struct Device {
    raw: tg_device,
}

/// What a new device is to be; zero is the default of the library.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceOptions {
    pub scheduling: u32,
    pub flags: u64,
    pub slots: u32,
    pub max_recorded: u32,
    pub max_tasks: u32,
    pub max_pending: u32,
    pub staging_size: u64,
}

/// What a report says of one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub id: u64,
    pub claimed_bytes: u64,
    /// The sum of the claims it lists.
    pub listed_bytes: u64,
}

/// The name of a result.
pub fn name(code: tg_result) -> String {
    text(tg_result_name(code))
}

/// Text the library lends.
fn text(lent: tg_str) -> String {
    // SAFETY: the library lends `size` bytes, and whoever asked still holds what they are borrowed from.
    let bytes = unsafe { std::slice::from_raw_parts(lent.data.cast::<u8>(), lent.size) };
    String::from_utf8_lossy(bytes).into_owned()
}

fn given(text: &str) -> tg_str {
    tg_str { data: text.as_ptr().cast(), size: text.len() }
}

/// A struct of the API with nothing but zeros in it, its size aside.
macro_rules! blank {
    ($type:ty) => {{
        // SAFETY: every struct of the API is made of integers, pointers and optional functions; zero is one of each.
        let mut blank: $type = unsafe { std::mem::zeroed() };
        blank.struct_size = size_of::<$type>();
        blank
    }};
}

fn judged(code: tg_result) -> Answer {
    if code == TG_OK { Ok(()) } else { Err(refused(code)) }
}

fn refused(code: tg_result) -> Refused {
    let mut report = tg_report { id: 0 };
    // SAFETY: a writable handle.
    let told = unsafe { tg_last_report(&mut report) };
    if told != TG_OK {
        return Refused { code, roots: Vec::new(), more: 0, message: format!("no report: {}", name(told)) };
    }
    let (roots, more, message) = read_report(report);
    Refused { code, roots: roots.iter().map(|root| root.id).collect(), more, message }
}

/// What a report says; releases it.
fn read_report(report: tg_report) -> (Vec<Root>, u32, String) {
    let mut info = blank!(tg_report_info);
    // SAFETY: a struct that begins with its size.
    assert_eq!(unsafe { tg_report_get_info(report, &mut info) }, TG_OK);
    let mut roots = Vec::new();
    for index in 0..info.failure_count {
        let mut failure = blank!(tg_failure_info);
        // SAFETY: a struct that begins with its size.
        assert_eq!(unsafe { tg_report_failure(report, index, &mut failure) }, TG_OK);
        let mut listed_bytes = 0;
        for at in 0..failure.claim_count {
            let mut claim = blank!(tg_claim_info);
            // SAFETY: a struct that begins with its size.
            assert_eq!(unsafe { tg_report_claim(report, index, at, &mut claim) }, TG_OK);
            listed_bytes += claim.size;
        }
        roots.push(Root { id: failure.id, claimed_bytes: failure.claimed_bytes, listed_bytes });
    }
    let message = text(info.message);
    assert_eq!(tg_report_release(report), TG_OK);
    (roots, info.more, message)
}

fn error_desc(message: &str) -> tg_error_desc {
    let mut error = blank!(tg_error_desc);
    error.code = 1;
    error.message = given(message);
    error
}

impl Device {
    pub fn create(options: DeviceOptions) -> Answer<Device> {
        let mut desc = blank!(tg_device_desc);
        desc.scheduling = options.scheduling;
        desc.flags = options.flags;
        desc.slots = options.slots;
        desc.max_recorded = options.max_recorded;
        desc.max_tasks = options.max_tasks;
        desc.max_pending = options.max_pending;
        desc.staging_size = options.staging_size;
        desc.get_instance_proc_addr = Some(shim::proc_addr());
        let mut raw = tg_device { id: 0 };
        // SAFETY: a struct that begins with its size, and a writable handle.
        judged(unsafe { tg_device_create(&desc, &mut raw) })?;
        Ok(Device { raw })
    }

    pub fn destroy(&self) -> Answer {
        judged(tg_device_destroy(self.raw, TG_WAIT_FOREVER))
    }

    /// The alignment of bound slices, and the largest number of groups in each direction.
    pub fn limits(&self) -> (u64, [u32; 3]) {
        let mut info = blank!(tg_device_info);
        // SAFETY: a struct that begins with its size.
        assert_eq!(unsafe { tg_device_get_info(self.raw, &mut info) }, TG_OK);
        (info.binding_alignment, info.max_groups)
    }

    pub fn wait(&self, timeout_ns: u64) -> Answer {
        judged(tg_device_wait(self.raw, timeout_ns))
    }

    pub fn trim(&self) -> Answer {
        // SAFETY: NULL is accepted.
        judged(unsafe { tg_device_trim(self.raw, std::ptr::null_mut()) })
    }

    pub fn failure_count(&self) -> u64 {
        let mut count = 0;
        // SAFETY: a writable number.
        assert_eq!(unsafe { tg_device_failure_count(self.raw, &mut count) }, TG_OK);
        count
    }

    /// Bytes of live blocks, and bytes taken from Vulkan.
    pub fn memory(&self) -> (u64, u64) {
        let mut info = blank!(tg_memory_info);
        // SAFETY: a struct that begins with its size.
        assert_eq!(unsafe { tg_device_memory_stats(self.raw, &mut info) }, TG_OK);
        let all = [info.device, info.upload, info.readback];
        (all.iter().map(|kind| kind.used).sum(), all.iter().map(|kind| kind.reserved).sum())
    }

    pub fn buffer_create(&self, size: u64, memory: u32, stream: u64, unallocated: bool) -> (tg_buffer, Answer) {
        let mut desc = blank!(tg_buffer_desc);
        (desc.size, desc.memory, desc.stream) = (size, memory, stream);
        desc.flags = if unallocated { TG_BUFFER_UNALLOCATED } else { 0 };
        let mut buffer = tg_buffer { id: 0 };
        // SAFETY: a struct that begins with its size, and a writable handle.
        let code = unsafe { tg_buffer_create(self.raw, &desc, &mut buffer) };
        (buffer, judged(code))
    }

    pub fn buffer_destroy(&self, buffer: tg_buffer) -> Answer {
        judged(tg_buffer_destroy(self.raw, buffer))
    }

    pub fn buffer_allocate(&self, buffer: tg_buffer, size: u64) -> Answer {
        judged(tg_buffer_allocate(self.raw, buffer, size))
    }

    pub fn write(&self, stream: u64, dst: tg_slice, src: &[u8]) -> Answer {
        // SAFETY: as many readable bytes as are said.
        judged(unsafe { tg_buffer_write(self.raw, stream, dst, src.as_ptr().cast(), src.len()) })
    }

    pub fn read(&self, stream: u64, dst: &mut [u8], src: tg_slice, timeout_ns: u64) -> Answer {
        let (at, size) = (dst.as_mut_ptr().cast(), dst.len());
        // SAFETY: as many writable bytes as are said, and nobody else has them.
        judged(unsafe { tg_buffer_read(self.raw, stream, at, size, src, timeout_ns) })
    }

    pub fn copy(&self, stream: u64, dst: tg_slice, src: tg_slice) -> Answer {
        judged(tg_buffer_copy(self.raw, stream, dst, src))
    }

    pub fn fill(&self, stream: u64, dst: tg_slice, pattern: u32, size: u32) -> Answer {
        judged(tg_buffer_fill(self.raw, stream, dst, pattern, size))
    }

    pub fn read_begin(&self, stream: u64, src: tg_slice) -> (tg_read, Answer) {
        let mut read = tg_read { id: 0 };
        // SAFETY: a writable handle.
        let code = unsafe { tg_read_begin(self.raw, stream, src, &mut read) };
        (read, judged(code))
    }

    /// Waits for a read and copies what it gives.
    pub fn read_finish(&self, read: tg_read) -> Answer<Vec<u8>> {
        judged(tg_read_wait(self.raw, read, TG_WAIT_FOREVER))?;
        let (mut data, mut size): (*const c_void, usize) = (std::ptr::null(), 0);
        // SAFETY: a writable pointer and a writable number.
        judged(unsafe { tg_read_data(self.raw, read, &mut data, &mut size) })?;
        if size == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: the library lends `size` bytes until the read is released.
        Ok(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }.to_vec())
    }

    pub fn read_wait(&self, read: tg_read, timeout_ns: u64) -> Answer {
        judged(tg_read_wait(self.raw, read, timeout_ns))
    }

    pub fn read_release(&self, read: tg_read) -> Answer {
        judged(tg_read_release(self.raw, read))
    }

    pub fn kernel_create(&self, code: &[u8], accesses: &[u32]) -> (tg_kernel, Answer) {
        let desc = kernel_desc(code, accesses);
        let mut kernel = tg_kernel { id: 0 };
        // SAFETY: a struct that begins with its size and arrays as long as it says, and a writable handle.
        let code = unsafe { tg_kernel_create(self.raw, &desc, &mut kernel) };
        (kernel, judged(code))
    }

    pub fn kernel_rebuild(&self, kernel: tg_kernel, code: &[u8], accesses: &[u32]) -> Answer {
        let desc = kernel_desc(code, accesses);
        // SAFETY: a struct that begins with its size and arrays as long as it says.
        judged(unsafe { tg_kernel_rebuild(self.raw, kernel, &desc) })
    }

    pub fn kernel_destroy(&self, kernel: tg_kernel) -> Answer {
        judged(tg_kernel_destroy(self.raw, kernel))
    }

    pub fn launch(&self, launch: &Launch<'_>) -> Answer {
        let mut desc = blank!(tg_launch_desc);
        desc.stream = launch.stream;
        desc.kernel = launch.kernel;
        (desc.bindings, desc.binding_count) = (launch.bindings.as_ptr(), launch.bindings.len());
        (desc.extra, desc.extra_count) = (launch.extra.as_ptr(), launch.extra.len());
        match launch.grid {
            Grid::Groups(groups) => desc.groups = groups,
            Grid::Threads(threads) => desc.threads = threads,
            Grid::Indirect(slice) => desc.indirect = slice,
        }
        (desc.push, desc.push_size) = (launch.push.as_ptr().cast(), size_of_val(launch.push));
        // SAFETY: a struct that begins with its size, and arrays as long as it says.
        judged(unsafe { tg_launch(self.raw, &desc) })
    }

    pub fn stream_flush(&self, stream: u64) -> Answer {
        judged(tg_stream_flush(self.raw, stream))
    }

    pub fn stream_wait(&self, stream: u64, timeout_ns: u64) -> Answer {
        judged(tg_stream_wait(self.raw, stream, timeout_ns))
    }

    /// Records an event; the null handle is a new one.
    pub fn event_record(&self, stream: u64, event: tg_event) -> (tg_event, Answer) {
        let mut event = event;
        // SAFETY: a writable handle.
        let code = unsafe { tg_event_record(self.raw, stream, &mut event) };
        (event, judged(code))
    }

    pub fn event_wait(&self, event: tg_event, timeout_ns: u64) -> Answer {
        judged(tg_event_wait(self.raw, event, timeout_ns))
    }

    pub fn event_status(&self, event: tg_event) -> Answer {
        judged(tg_event_status(self.raw, event))
    }

    pub fn event_destroy(&self, event: tg_event) -> Answer {
        judged(tg_event_destroy(self.raw, event))
    }

    pub fn stream_wait_event(&self, stream: u64, event: tg_event) -> Answer {
        judged(tg_stream_wait_event(self.raw, stream, event))
    }

    pub fn check_written(&self, slices: &[tg_slice], timeout_ns: u64) -> Answer {
        // SAFETY: an array as long as is said.
        judged(unsafe { tg_check_written(self.raw, slices.as_ptr(), slices.len(), timeout_ns) })
    }

    pub fn first_failure(&self, slices: &[tg_slice]) -> Answer<u64> {
        let mut id = 0;
        // SAFETY: an array as long as is said, and a writable number.
        judged(unsafe { tg_first_failure(self.raw, slices.as_ptr(), slices.len(), &mut id) })?;
        Ok(id)
    }

    pub fn taint(&self, slices: &[tg_slice]) -> Answer {
        let error = error_desc("declared by the test");
        // SAFETY: an array as long as is said, and a struct that begins with its size.
        judged(unsafe { tg_taint(self.raw, slices.as_ptr(), slices.len(), &error) })
    }

    pub fn mark_written(&self, slices: &[tg_slice]) -> Answer {
        // SAFETY: an array as long as is said.
        judged(unsafe { tg_mark_written(self.raw, slices.as_ptr(), slices.len()) })
    }

    pub fn fail_unallocated(&self, buffer: tg_buffer) -> Answer {
        let error = error_desc("never to be");
        // SAFETY: a struct that begins with its size.
        judged(unsafe { tg_fail_unallocated(self.raw, buffer, &error) })
    }

    /// The claims of a slice: offset, size, oldest root and how many.
    pub fn claims(&self, slice: tg_slice) -> Answer<Vec<(u64, u64, u64, u32)>> {
        let nothing = tg_claim { slice, failure: 0, failure_count: 0, more: 0 };
        let mut claims = [nothing; 128];
        let mut count = 0;
        // SAFETY: an array as long as is said, and a writable number.
        judged(unsafe { tg_claims(self.raw, slice, claims.as_mut_ptr(), claims.len(), &mut count) })?;
        let told = claims[..count].iter();
        Ok(told.map(|claim| (claim.slice.offset, claim.slice.size, claim.failure, claim.failure_count)).collect())
    }

    pub fn scope_begin(&self, stream: u64, uses: &[tg_use]) -> Answer<tg_scope> {
        let mut desc = blank!(tg_scope_desc);
        (desc.stream, desc.uses, desc.use_count) = (stream, uses.as_ptr(), uses.len());
        let mut scope = tg_scope { id: 0 };
        // SAFETY: a struct that begins with its size and an array as long as it says, and a writable handle.
        judged(unsafe { tg_scope_begin(self.raw, &desc, &mut scope) })?;
        Ok(scope)
    }

    pub fn scope_end(&self, scope: tg_scope) -> Answer {
        judged(tg_scope_end(self.raw, scope))
    }

    pub fn scope_fail(&self, scope: tg_scope, torn_down: bool) -> Answer {
        let error = error_desc("the scope failed");
        let error = if torn_down { std::ptr::null() } else { &raw const error };
        // SAFETY: NULL or a struct that begins with its size.
        judged(unsafe { tg_scope_fail(self.raw, scope, error) })
    }

    /// The roots a report on slices names.
    pub fn report(&self, slices: &[tg_slice]) -> Answer<(Vec<Root>, u32)> {
        let mut report = tg_report { id: 0 };
        // SAFETY: an array as long as is said, and a writable handle.
        judged(unsafe { tg_report_slices(self.raw, slices.as_ptr(), slices.len(), &mut report) })?;
        let (roots, more, _) = read_report(report);
        Ok((roots, more))
    }

    /// The roots a report on the device names.
    pub fn report_all(&self) -> Vec<Root> {
        let mut report = tg_report { id: 0 };
        // SAFETY: a writable handle.
        assert_eq!(unsafe { tg_device_report(self.raw, &mut report) }, TG_OK);
        read_report(report).0
    }

    /// The size of a buffer, whether it is allocated, and whether any byte is claimed.
    pub fn buffer_info(&self, buffer: tg_buffer) -> Answer<(u64, bool, bool)> {
        let mut info = blank!(tg_buffer_info);
        // SAFETY: a struct that begins with its size.
        judged(unsafe { tg_buffer_get_info(self.raw, buffer, &mut info) })?;
        Ok((info.size, info.allocated != 0, info.claimed != 0))
    }
}

/// A launch.
pub struct Launch<'a> {
    pub stream: u64,
    pub kernel: tg_kernel,
    pub bindings: &'a [tg_use],
    pub extra: &'a [tg_use],
    pub grid: Grid,
    pub push: &'a [u32],
}

#[derive(Clone, Copy, Debug)]
pub enum Grid {
    Groups([u32; 3]),
    Threads([u32; 3]),
    Indirect(tg_slice),
}

fn kernel_desc(code: &[u8], accesses: &[u32]) -> tg_kernel_desc {
    let mut desc = blank!(tg_kernel_desc);
    (desc.code, desc.code_size) = (code.as_ptr().cast(), code.len());
    (desc.accesses, desc.access_count) = (accesses.as_ptr(), accesses.len());
    desc
}

const CHILD: &str = "TIDEGATE_TEST_CHILD";

/// Runs `body` in a process of its own, on lavapipe and nothing else: the driver and the layers read their settings
/// from the environment once. A machine without lavapipe fails.
pub fn alone(test: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var(CHILD).as_deref() == Ok(test) {
        return body();
    }
    let output = Command::new(std::env::current_exe().expect("the test's own path"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .env("VK_DRIVER_FILES", lavapipe())
        .env("VK_ICD_FILENAMES", lavapipe())
        .env("VK_LAYER_ENABLES", "VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT")
        // Shaders run inline: waking workers takes longer than such small launches do.
        .env("LP_NUM_THREADS", "0")
        .env_remove("TIDEGATE_DEVICE")
        .env_remove("VK_INSTANCE_LAYERS")
        .envs(environment.iter().copied())
        .output()
        .expect("the test starts itself");
    let told = String::from_utf8_lossy(&output.stdout);
    print!("{told}");
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{test}: {}\n{told}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

fn lavapipe() -> PathBuf {
    ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"]
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            name.starts_with("lvp_icd") && name.ends_with(".json")
        })
        .expect("lavapipe's driver file (lvp_icd*.json)")
}
