//! Reports: made from the record of a thread or about slices, and read member by member.

use super::boundary::{call, making};
use super::devices;
use super::record;
use super::reports::{self, step_number};
use super::results::tg_result;
use super::slices::{slices, tg_device, tg_report, tg_slice};
use super::strings::tg_str;
use super::structs::{Info, Out, misuse, versioned};
use crate::code::Code;
use crate::error::Result;
use crate::failure::{Failure, Report};

/// What a report is about.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_report_info {
    /// sizeof(tg_report_info).
    pub struct_size: usize,
    /// The answer it explains; TG_OK when it explains none.
    pub code: tg_result,
    /// The VkResult behind the answer, or 0.
    pub vk_result: i32,
    /// The Vulkan function that returned it, or empty.
    pub vk_function: tg_str,
    /// The function that gave the answer; empty when the report was asked for directly.
    pub function: tg_str,
    /// Misuse: the parameter, or the member of its struct, as this header spells it. Otherwise empty.
    pub field: tg_str,
    /// What the answer says beyond its code, or empty.
    pub message: tg_str,
    /// The roots it lists; tg_report_failure gives each.
    pub failure_count: usize,
    /// The work it suspects of a loss; tg_report_suspect gives each.
    pub suspect_count: usize,
    /// 1 when there are roots that it does not list: of one set of roots the 32 oldest are kept. Otherwise 0.
    pub more: u32,
    /// 0.
    pub reserved: u32,
}

/// A root.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_failure_info {
    /// sizeof(tg_failure_info).
    pub struct_size: usize,
    /// Its id; a device never uses one again.
    pub id: u64,
    /// What happened: a failure (-100 and below).
    pub code: tg_result,
    /// The VkResult, or 0 where Vulkan had no part.
    pub vk_result: i32,
    /// The Vulkan function that returned it, or empty.
    pub vk_function: tg_str,
    /// The operation that failed: a function of this header, or a part of one.
    pub operation: tg_str,
    /// The kernel that failed or was to run, or empty.
    pub kernel: tg_str,
    /// The caller's name for the buffer, launch or scope, or empty.
    pub label: tg_str,
    /// What there is to say beyond the code: the validator's words, the size asked for, the caller's message.
    pub message: tg_str,
    /// The stream the work was for; 0 where has_stream is 0.
    pub stream: u64,
    /// The caller's number for it; for TG_ERROR_CALLER the caller's code.
    pub tag: u64,
    /// Bytes that it claims; UINT64_MAX for more.
    pub claimed_bytes: u64,
    /// How often work was skipped on it.
    pub skips: u64,
    /// The ranges that it claims; tg_report_claim gives each.
    pub claim_count: usize,
    /// The steps of its path to what was asked about; tg_report_step gives each.
    pub step_count: usize,
    /// 1 when the work was for a stream; 0 when none was named, as for a kernel, or several may be meant, as for a batch that
    /// the device refused.
    pub has_stream: u32,
    /// 0.
    pub reserved: u32,
}

/// A range that a root claims.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_claim_info {
    /// sizeof(tg_claim_info).
    pub struct_size: usize,
    /// Which buffer of the device: the first one created is 1. The handle may be stale by now, so it is not given.
    pub buffer: u64,
    /// The first claimed byte.
    pub offset: u64,
    /// Claimed bytes.
    pub size: u64,
    /// The buffer's label, or "buffer N".
    pub label: tg_str,
}

/// Work that needed the bytes did not run.
pub const TG_STEP_SKIP: u32 = 1;
/// A copy moved the claim with the bytes.
pub const TG_STEP_COPY: u32 = 2;
/// Work ran on bytes that were found to be bad later.
pub const TG_STEP_RAN_ON_BAD_INPUT: u32 = 3;
/// Steps are missing here: only the newest are kept.
pub const TG_STEP_DROPPED: u32 = 4;
/// Work ran over the claimed bytes with TG_ACCESS_MAY_WRITE, and nothing proves that it wrote them, so they stay claimed.
/// If it writes every one of them, declare TG_ACCESS_WRITE: in tg_kernel_desc::accesses, in the launch, or in the scope.
pub const TG_STEP_UNPROVEN_WRITE: u32 = 5;

/// A step of a path: how a failure came from some bytes to others.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_step_info {
    /// sizeof(tg_step_info).
    pub struct_size: usize,
    /// One of TG_STEP_*.
    pub kind: u32,
    /// 1 when the count is only known to be at least so much: how often a step happened is kept of a few hundred distinct
    /// steps of a root. Otherwise 0.
    pub at_least: u32,
    /// How often this happened: the same work, needing and producing the same. For TG_STEP_DROPPED how many distinct
    /// steps of the root are no longer kept; those that are missing here are among them.
    pub count: u64,
    /// Which work.
    pub kernel: tg_str,
    /// The buffer it needed.
    pub needed: tg_str,
    /// The buffers it was to produce. Of a broken kernel they include every binding that counts as written: see
    /// TG_ACCESS_AUTO.
    pub produced: *const tg_str,
    /// Elements of `produced`.
    pub produced_count: usize,
    /// The caller's name for the work (tg_launch_desc::label, tg_scope_desc::label) the last time this happened, or empty.
    pub label: tg_str,
    /// The caller's number for it, the last time.
    pub tag: u64,
}

/// Work that was in flight when a device was lost.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct tg_suspect_info {
    /// sizeof(tg_suspect_info).
    pub struct_size: usize,
    /// Which work: its kernel, or the operation.
    pub name: tg_str,
    /// The caller's name for it (tg_launch_desc::label, tg_scope_desc::label), or empty.
    pub label: tg_str,
    /// The caller's number for it.
    pub tag: u64,
}

versioned!(
    tg_report_info to code,
    tg_failure_info to id,
    tg_claim_info to buffer,
    tg_step_info to kind,
    tg_suspect_info to name,
);

/// Makes a report on the last answer that this thread got from any function and that was neither TG_OK, TG_TIMEOUT,
/// TG_NOT_READY nor TG_INCOMPLETE. A call that cleans up and fails is such an answer too: make the report first.
///
/// Works before there is a device, and after it. When there was no such answer, the report has the code TG_OK and no
/// roots. Roots that nothing carries any more are not listed.
///
/// \param out The report; the caller releases it. The null handle unless TG_OK is returned. Must not be NULL.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_LIMIT_EXCEEDED when a million reports are not released;
///          TG_ERROR_OUT_OF_HOST_MEMORY.
/// \threadsafety Any thread; each has its own last answer.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_last_report(out: *mut tg_report) -> tg_result {
    call("tg_last_report", || {
        // SAFETY: the header asks for NULL or a writable handle.
        let out = unsafe { Out::new(out, "out") }?.preset(tg_report::NULL);
        let (report, vk_function) = on_record();
        out.set(reports::add(report, vk_function)?);
        Ok(())
    })
}

/// The report of what this thread has on record, and the Vulkan function behind it.
fn on_record() -> (Report, &'static str) {
    let told = record::last();
    let device = if told.roots.ids.is_empty() { None } else { devices::by_serial(told.device) };
    let mut report = device.map_or_else(
        || Report {
            function: String::new(),
            field: String::new(),
            code: told.code,
            vk_result: 0,
            message: String::new(),
            failures: Vec::new(),
            more: !told.roots.ids.is_empty() || told.roots.more,
            suspects: std::sync::Arc::default(),
        },
        |device| device.report_roots(&told.roots),
    );
    if let ([id], true, true) = (&told.roots.ids[..], told.is_failure, report.failures.is_empty()) {
        // Nothing carries the root any more, as after a read that failed: the answer says what it said.
        report.more = false;
        report.failures.push(gone(*id, &told));
    }
    told.function.clone_into(&mut report.function);
    told.field.clone_into(&mut report.field);
    report.code = told.code;
    report.vk_result = told.vk_result;
    report.message = told.message;
    if report.message.is_empty() && told.code != Code::Ok {
        // A skip has no words of its own, for a loop that skips pays nothing; whoever asks is told what it means.
        told.code.meaning().clone_into(&mut report.message);
    }
    (report, told.vk_function)
}

/// A root that lived no longer than the call that failed.
fn gone(id: u64, told: &record::Told) -> Failure {
    Failure {
        id,
        code: told.code,
        vk_result: told.vk_result,
        vk_function: told.vk_function.to_owned(),
        operation: told.function.to_owned(),
        kernel: String::new(),
        stream: None,
        label: String::new(),
        tag: 0,
        message: told.message.clone(),
        claims: Vec::new(),
        claimed_bytes: 0,
        skips: 0,
        path: Vec::new(),
    }
}

/// Makes a report on the roots that claim any of some bytes, with their paths to them, as far as is known without
/// waiting.
///
/// \param dev The device.
/// \param slices The bytes; may be NULL when count is 0.
/// \param count Elements of slices.
/// \param out The report; the caller releases it. The null handle unless TG_OK is returned. Must not be NULL.
/// \returns TG_OK, claimed or not; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer;
///          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
///          TG_ERROR_LIMIT_EXCEEDED when a million reports are not released; TG_ERROR_OUT_OF_HOST_MEMORY.
/// \threadsafety Any thread.
/// \claims Nothing. Releases nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_report_slices(
    dev: tg_device,
    slices: *const tg_slice,
    count: usize,
    out: *mut tg_report,
) -> tg_result {
    // SAFETY: the header asks for NULL or a writable handle, and for an array of `count` elements.
    unsafe {
        making("tg_report_slices", dev, out, tg_report::NULL, |device, made| {
            let report = device.report_slices(self::slices(slices, count)?)?;
            *made = reports::add(report, "")?;
            Ok(())
        })
    }
}

/// Tells what a report is about, and how much is in it.
///
/// \param report The report.
/// \param out Filled on TG_OK, up to its struct_size.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_report_get_info(report: tg_report, out: *mut tg_report_info) -> tg_result {
    call("tg_report_get_info", || {
        let kept = reports::get(report)?;
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let out = unsafe { Info::new(out, "out") }?;
        let report = kept.report();
        out.fill(tg_report_info {
            struct_size: 0,
            code: report.code as tg_result,
            vk_result: report.vk_result,
            vk_function: kept.vk_function.borrow(),
            function: kept.function.borrow(),
            field: kept.field.borrow(),
            message: kept.message.borrow(),
            failure_count: report.failures.len(),
            suspect_count: report.suspects.len(),
            more: u32::from(report.more),
            reserved: 0,
        });
        Ok(())
    })
}

/// Counts the roots that a report lists.
///
/// \param report The report.
/// \param out The count. Written on TG_OK only. Must not be NULL.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_report_failure_count(report: tg_report, out: *mut usize) -> tg_result {
    call("tg_report_failure_count", || {
        let kept = reports::get(report)?;
        // SAFETY: the header asks for NULL or a writable size_t.
        let out = unsafe { Out::new(out, "out") }?;
        out.set(kept.report().failures.len());
        Ok(())
    })
}

/// Tells one of the roots of a report, oldest first.
///
/// \param report The report.
/// \param index Which, from 0 to the count less 1.
/// \param out Filled on TG_OK, up to its struct_size; its strings are borrowed until tg_report_release.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for an index beyond the count; TG_ERROR_NULL_HANDLE,
///          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_report_failure(report: tg_report, index: usize, out: *mut tg_failure_info) -> tg_result {
    call("tg_report_failure", || {
        let kept = reports::get(report)?;
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let out = unsafe { Info::new(out, "out") }?;
        let failure = at(&kept.report().failures, index, "index")?;
        let strings = at(&kept.failures, index, "index")?;
        out.fill(tg_failure_info {
            struct_size: 0,
            id: failure.id,
            code: failure.code as tg_result,
            vk_result: failure.vk_result,
            vk_function: strings.vk_function.borrow(),
            operation: strings.operation.borrow(),
            kernel: strings.kernel.borrow(),
            label: strings.label.borrow(),
            message: strings.message.borrow(),
            stream: failure.stream.unwrap_or(0),
            tag: failure.tag,
            claimed_bytes: failure.claimed_bytes,
            skips: failure.skips,
            claim_count: failure.claims.len(),
            step_count: failure.path.len(),
            has_stream: u32::from(failure.stream.is_some()),
            reserved: 0,
        });
        Ok(())
    })
}

/// Tells one of the ranges that a root of a report claims, in the order of the buffers' creation.
///
/// \param report The report.
/// \param failure_index Which root, from 0 to the count less 1.
/// \param claim_index Which range, from 0 to the root's claim_count less 1.
/// \param out Filled on TG_OK, up to its struct_size; its strings are borrowed until tg_report_release.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for an index beyond its count; TG_ERROR_NULL_HANDLE,
///          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_report_claim(
    report: tg_report,
    failure_index: usize,
    claim_index: usize,
    out: *mut tg_claim_info,
) -> tg_result {
    call("tg_report_claim", || {
        let kept = reports::get(report)?;
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let out = unsafe { Info::new(out, "out") }?;
        let claim =
            at(&at(&kept.report().failures, failure_index, "failure_index")?.claims, claim_index, "claim_index")?;
        let label = at(&kept.failures, failure_index, "failure_index")?.label_of(claim_index, claim);
        out.fill(tg_claim_info {
            struct_size: 0,
            buffer: claim.buffer,
            offset: claim.offset,
            size: claim.size,
            label: label.unwrap_or(tg_str { data: c"".as_ptr(), size: 0 }),
        });
        Ok(())
    })
}

/// Tells one of the steps from a root of a report to what was asked about, from the root down.
///
/// \param report The report.
/// \param failure_index Which root, from 0 to the count less 1.
/// \param step_index Which step, from 0 to the root's step_count less 1.
/// \param out Filled on TG_OK, up to its struct_size; its strings are borrowed until tg_report_release.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for an index beyond its count; TG_ERROR_NULL_HANDLE,
///          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_report_step(
    report: tg_report,
    failure_index: usize,
    step_index: usize,
    out: *mut tg_step_info,
) -> tg_result {
    call("tg_report_step", || {
        let kept = reports::get(report)?;
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let out = unsafe { Info::new(out, "out") }?;
        let step = at(&at(&kept.report().failures, failure_index, "failure_index")?.path, step_index, "step_index")?;
        let strings = at(&at(&kept.failures, failure_index, "failure_index")?.path, step_index, "step_index")?;
        let produced = strings.produced();
        out.fill(tg_step_info {
            struct_size: 0,
            kind: step_number(step.kind),
            at_least: u32::from(step.at_least),
            count: step.count,
            kernel: strings.kernel.borrow(),
            needed: strings.needed.borrow(),
            produced: produced.as_ptr(),
            produced_count: produced.len(),
            label: strings.label.borrow(),
            tag: step.tag,
        });
        Ok(())
    })
}

/// Tells one of the pieces of work that were in flight when the device was lost, in their order.
///
/// \param report The report.
/// \param index Which, from 0 to the report's suspect_count less 1.
/// \param out Filled on TG_OK, up to its struct_size; its strings are borrowed until tg_report_release.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for an index beyond the count; TG_ERROR_NULL_HANDLE,
///          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_report_suspect(report: tg_report, index: usize, out: *mut tg_suspect_info) -> tg_result {
    call("tg_report_suspect", || {
        let kept = reports::get(report)?;
        // SAFETY: the header asks for NULL or a struct that begins with its size.
        let out = unsafe { Info::new(out, "out") }?;
        let suspect = at(&kept.report().suspects, index, "index")?;
        let [name, label] = kept.suspect(index, suspect).unwrap_or([tg_str { data: c"".as_ptr(), size: 0 }; 2]);
        out.fill(tg_suspect_info { struct_size: 0, name, label, tag: suspect.tag });
        Ok(())
    })
}

/// Renders a report for a person.
///
/// Of long lists it has the first entries and how many there are more: 256 roots, 64 claims of each, 256 suspects. All of
/// them are given by index.
///
/// \param report The report.
/// \param out The text, several lines; borrowed until tg_report_release. Written on TG_OK only. Must not be NULL.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_report_text(report: tg_report, out: *mut tg_str) -> tg_result {
    call("tg_report_text", || {
        let kept = reports::get(report)?;
        // SAFETY: the header asks for NULL or a writable string.
        let out = unsafe { Out::new(out, "out") }?;
        out.set(kept.text());
        Ok(())
    })
}

/// Renders a report for a program, as JSON.
///
/// Cut like the text; `failure_count`, `claim_count` and `suspect_count` tell how many there are.
///
/// \param report The report.
/// \param out The JSON; borrowed until tg_report_release. Written on TG_OK only. Must not be NULL.
/// \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
///          TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tg_report_json(report: tg_report, out: *mut tg_str) -> tg_result {
    call("tg_report_json", || {
        let kept = reports::get(report)?;
        // SAFETY: the header asks for NULL or a writable string.
        let out = unsafe { Out::new(out, "out") }?;
        out.set(kept.json());
        Ok(())
    })
}

/// Lets go of a report; every string borrowed from it is gone.
///
/// \param report The report; the null handle is fine and does nothing.
/// \returns TG_OK; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
/// \threadsafety Any thread, while no other uses strings borrowed from it.
/// \claims Nothing.
#[unsafe(no_mangle)]
pub extern "C" fn tg_report_release(report: tg_report) -> tg_result {
    call("tg_report_release", || match report {
        tg_report::NULL => Ok(()),
        report => reports::remove(report),
    })
}

fn at<'a, T>(list: &'a [T], index: usize, field: &'static str) -> Result<&'a T> {
    list.get(index).ok_or_else(|| misuse(field, format_args!("{index} is not below the count, {}", list.len())))
}
