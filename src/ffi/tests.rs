//! What holds for every function of the header, shown for each of them. No device is needed for it.

use super::boundary::tests::panic_next;
use super::*;
use crate::code::Code;
use std::ptr::{null, null_mut};

/// Calls every function that answers with a result, with nothing but nulls; `dev` stands wherever a device does.
fn call_all(dev: tg_device, mut before: impl FnMut(), mut after: impl FnMut(&'static str, tg_result)) -> usize {
    let nothing = tg_slice { buffer: tg_buffer::NULL, offset: 0, size: 0 };
    let (read, event) = (tg_read::NULL, tg_event::NULL);
    let (buffer, kernel, scope, report) = (tg_buffer::NULL, tg_kernel::NULL, tg_scope::NULL, tg_report::NULL);
    let mut calls = 0;
    macro_rules! each {
        ($($name:ident ( $($argument:expr),* );)*) => { $(
            before();
            // SAFETY: every function accepts NULL wherever it takes a pointer, and nothing has a size.
            #[allow(unused_unsafe)]
            let result = unsafe { $name($($argument),*) };
            after(stringify!($name), result);
            calls += 1;
        )* };
    }
    each! {
        tg_device_count(null_mut());
        tg_device_describe(0, null_mut());
        tg_device_create(null(), null_mut());
        tg_device_destroy(dev, 0);
        tg_device_get_info(dev, null_mut());
        tg_device_status(dev);
        tg_device_wait(dev, 0);
        tg_device_trim(dev, null_mut());
        tg_device_memory_stats(dev, null_mut());
        tg_device_failure_count(dev, null_mut());
        tg_device_report(dev, null_mut());
        tg_device_claims(dev, null_mut(), 0, null_mut());
        tg_buffer_create(dev, null(), null_mut());
        tg_buffer_destroy(dev, buffer);
        tg_buffer_allocate(dev, buffer, 0);
        tg_buffer_get_info(dev, buffer, null_mut());
        tg_buffer_write(dev, 0, nothing, null(), 0);
        tg_buffer_write_with(dev, 0, nothing, null(), 0, 0);
        tg_buffer_read(dev, 0, null_mut(), 0, nothing, 0);
        tg_buffer_copy(dev, 0, nothing, nothing);
        tg_buffer_fill(dev, 0, nothing, 0, 4);
        tg_buffer_map(dev, nothing, TG_ACCESS_READ, 0, null_mut());
        tg_buffer_unmap(dev, nothing);
        tg_read_begin(dev, 0, nothing, null_mut());
        tg_read_poll(dev, read);
        tg_read_wait(dev, read, 0);
        tg_read_data(dev, read, null_mut(), null_mut());
        tg_read_report(dev, read, null_mut());
        tg_read_release(dev, read);
        tg_kernel_create(dev, null(), null_mut());
        tg_kernel_rebuild(dev, kernel, null());
        tg_kernel_destroy(dev, kernel);
        tg_kernel_get_info(dev, kernel, null_mut());
        tg_launch(dev, null());
        tg_stream_flush(dev, 0);
        tg_stream_wait(dev, 0, 0);
        tg_event_record(dev, 0, null_mut());
        tg_event_wait(dev, event, 0);
        tg_event_status(dev, event);
        tg_stream_wait_event(dev, 0, event);
        tg_event_destroy(dev, event);
        tg_vk_device_handles(dev, null_mut());
        tg_vk_stream_wait_semaphore(dev, 0, 0, 0, 0);
        tg_check_written(dev, null(), 0, 0);
        tg_first_failure(dev, null(), 0, null_mut());
        tg_taint(dev, null(), 0, null());
        tg_mark_written(dev, null(), 0);
        tg_fail_unallocated(dev, buffer, null());
        tg_claims(dev, nothing, null_mut(), 0, null_mut());
        tg_scope_begin(dev, null(), null_mut());
        tg_scope_end(dev, scope);
        tg_scope_fail(dev, scope, null());
        tg_report_slices(dev, null(), 0, null_mut());
        tg_last_report(null_mut());
        tg_report_get_info(report, null_mut());
        tg_report_failure_count(report, null_mut());
        tg_report_failure(report, 0, null_mut());
        tg_report_claim(report, 0, 0, null_mut());
        tg_report_step(report, 0, 0, null_mut());
        tg_report_suspect(report, 0, null_mut());
        tg_report_text(report, null_mut());
        tg_report_json(report, null_mut());
        tg_report_release(report);
    }
    calls
}

/// Whether a function takes a device.
fn on_device(name: &str) -> bool {
    let library = ["tg_device_count", "tg_device_describe", "tg_device_create", "tg_last_report"];
    name == "tg_report_slices" || !name.starts_with("tg_report") && !library.contains(&name)
}

#[test]
fn a_panic_inside_any_function_is_a_result() {
    let result = |name, result| {
        assert_eq!(result, TG_ERROR_INTERNAL, "{name}");
        let told = record::last();
        assert_eq!((told.function, told.code), (name, Code::Internal));
        assert!(told.message.contains("asked to"), "{name}: {}", told.message);
    };
    // Two more answer with something else than a result.
    assert_eq!(call_all(tg_device::NULL, panic_next, result) + 2, functions().len());
    panic_next();
    assert_eq!(tg_version(), 0);
    assert_eq!(record::last().function, "tg_version");
    panic_next();
    assert_eq!(tg_result_name(0).size, "unknown result".len());
    assert_eq!(record::last().function, "tg_result_name");
}

/// The functions of the header, as their files name them.
fn functions() -> Vec<String> {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/ffi")).expect("the sources are there");
    let sources = files.map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("text"));
    sources
        .flat_map(|source| {
            let names = source.lines().filter(|line| line.starts_with("pub ")).filter_map(|line| {
                let (_, rest) = line.split_once("extern \"C\" fn ")?;
                rest.split('(').next().map(str::to_owned)
            });
            names.collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn the_handle_of_the_device_is_checked_before_anything_else() {
    let cases = [
        (tg_device::NULL, TG_ERROR_NULL_HANDLE),
        (tg_device { id: 2 << 60 | 1 << 40 }, TG_ERROR_WRONG_KIND),
        (tg_device { id: u64::MAX }, TG_ERROR_WRONG_KIND),
        (tg_device { id: 1 << 60 | 0xF_FFFF << 40 }, TG_ERROR_STALE_HANDLE),
        (tg_device { id: 1 << 60 | 1 << 40 | 1 }, TG_ERROR_STALE_HANDLE),
    ];
    for (dev, expected) in cases {
        call_all(
            dev,
            || (),
            |name, result| match name {
                "tg_device_destroy" if dev == tg_device::NULL => assert_eq!(result, TG_OK),
                _ if on_device(name) => {
                    assert_eq!(result, expected, "{name} of {dev:?}");
                    assert_eq!((record::last().function, record::last().field), (name, "dev"));
                }
                "tg_report_release" => assert_eq!(result, TG_OK),
                _ if name.starts_with("tg_report") => assert_eq!(result, TG_ERROR_NULL_HANDLE, "{name}"),
                _ => assert_eq!(result, TG_ERROR_INVALID_ARGUMENT, "{name}"),
            },
        );
    }
}

#[test]
fn what_is_not_made_is_null() {
    let mut buffer = tg_buffer { id: 9 };
    let mut report = tg_report { id: 9 };
    let mut dev = tg_device { id: 9 };
    // SAFETY: the pointers are NULL or lead to the variables above.
    unsafe {
        assert_eq!(tg_buffer_create(tg_device::NULL, null(), &mut buffer), TG_ERROR_NULL_HANDLE);
        assert_eq!(tg_report_slices(tg_device::NULL, null(), 0, &mut report), TG_ERROR_NULL_HANDLE);
        assert_eq!(tg_device_create(null(), &mut dev), TG_ERROR_INVALID_ARGUMENT);
    }
    assert_eq!((buffer, report, dev), (tg_buffer::NULL, tg_report::NULL, tg_device::NULL));
}

#[test]
fn the_last_report_needs_no_device() {
    let text = |text: tg_str| {
        // SAFETY: strings from a report are sized, and the report is not released yet.
        let bytes = unsafe { std::slice::from_raw_parts(text.data.cast::<u8>(), text.size + 1) };
        std::str::from_utf8(bytes).expect("UTF-8").strip_suffix('\0').expect("a NUL at the end").to_owned()
    };
    let mut report = tg_report::NULL;
    let string = tg_str { data: null(), size: 0 };
    let (mut words, mut json) = (string, string);
    let mut info = tg_report_info {
        struct_size: size_of::<tg_report_info>(),
        code: 0,
        vk_result: 0,
        vk_function: string,
        function: string,
        field: string,
        message: string,
        failure_count: 9,
        suspect_count: 9,
        more: 9,
        reserved: 9,
    };
    assert_eq!(tg_stream_flush(tg_device { id: 5 }, 0), TG_ERROR_WRONG_KIND);
    // SAFETY: the pointers lead to the variables above.
    unsafe {
        assert_eq!(tg_last_report(&mut report), TG_OK);
        assert_eq!(tg_report_get_info(report, &mut info), TG_OK);
        assert_eq!(tg_report_text(report, &mut words), TG_OK);
        assert_eq!(tg_report_json(report, &mut json), TG_OK);
    }
    assert_eq!((info.code, info.failure_count, info.more), (TG_ERROR_WRONG_KIND, 0, 0));
    assert_eq!((text(info.function).as_str(), text(info.field).as_str()), ("tg_stream_flush", "dev"));
    assert!(!text(info.message).is_empty());
    assert!(text(words).contains("TG_ERROR_WRONG_KIND") && text(json).starts_with('{'));

    let mut failure = tg_step_info {
        struct_size: size_of::<tg_step_info>(),
        kind: 0,
        at_least: 0,
        count: 0,
        kernel: string,
        needed: string,
        produced: null(),
        produced_count: 0,
        label: string,
        tag: 0,
    };
    // SAFETY: the pointer leads to the variable above.
    assert_eq!(unsafe { tg_report_step(report, 0, 0, &mut failure) }, TG_ERROR_INVALID_ARGUMENT);
    assert_eq!(record::last().field, "failure_index");

    assert_eq!(tg_report_release(report), TG_OK);
    assert_eq!(tg_report_release(report), TG_ERROR_STALE_HANDLE);
    // SAFETY: as above.
    assert_eq!(unsafe { tg_report_text(report, &mut words) }, TG_ERROR_STALE_HANDLE);
}

#[test]
fn a_descriptor_is_refused_by_the_name_of_its_member() {
    // SAFETY: zero is a value of every member.
    let zero: tg_device_desc = unsafe { std::mem::zeroed() };
    let good = tg_device_desc { struct_size: size_of::<tg_device_desc>(), ..zero };
    let bad = [
        ("desc.struct_size", zero),
        ("desc.struct_size", tg_device_desc { struct_size: 3, ..good }),
        ("desc.reserved", tg_device_desc { reserved: 1, ..good }),
        ("desc.flags", tg_device_desc { flags: 1 << 63, ..good }),
        ("desc.select", tg_device_desc { select: 16, ..good }),
        ("desc.name", tg_device_desc { select: TG_SELECT_NAME, ..good }),
        ("desc.name", tg_device_desc { name: tg_str { data: null(), size: 1 }, ..good }),
        ("desc.type", tg_device_desc { r#type: 5, ..good }),
        ("desc.scheduling", tg_device_desc { scheduling: 3, ..good }),
        ("desc.slots", tg_device_desc { slots: 1025, ..good }),
        ("desc.max_recorded", tg_device_desc { max_recorded: u32::MAX, ..good }),
        ("desc.max_pending", tg_device_desc { max_pending: u32::MAX, ..good }),
        ("desc.staging_size", tg_device_desc { staging_size: u64::MAX, ..good }),
        ("desc.log_level", tg_device_desc { log_level: 6, ..good }),
    ];
    for (field, desc) in bad {
        let mut dev = tg_device::NULL;
        // SAFETY: the pointers lead to the variables above.
        assert_eq!(unsafe { tg_device_create(&desc, &mut dev) }, TG_ERROR_INVALID_ARGUMENT, "{field}");
        assert_eq!(record::last().field, field);
    }
}

#[test]
fn a_failed_device_frees_the_data_of_its_log_and_a_refused_one_does_not() {
    unsafe extern "C" fn count(user_data: *mut std::ffi::c_void) {
        // SAFETY: the test hands in a counter of its own.
        unsafe { *user_data.cast::<u32>() += 1 };
    }
    let mut finalized = 0u32;
    // SAFETY: zero is a value of every member.
    let zero: tg_device_desc = unsafe { std::mem::zeroed() };
    let desc = tg_device_desc {
        struct_size: size_of::<tg_device_desc>(),
        log_user_data: (&raw mut finalized).cast(),
        log_finalizer: Some(count),
        ..zero
    };
    let mut dev = tg_device::NULL;
    // No machine has this many devices.
    let nowhere = tg_device_desc { select: TG_SELECT_INDEX, index: u32::MAX, ..desc };
    for (desc, result, runs) in
        [(tg_device_desc { scheduling: 99, ..nowhere }, TG_ERROR_INVALID_ARGUMENT, 0), (nowhere, TG_ERROR_NO_DEVICE, 1)]
    {
        // SAFETY: the pointers lead to the variables above.
        assert_eq!(unsafe { tg_device_create(&desc, &mut dev) }, result);
        assert_eq!((dev, finalized), (tg_device::NULL, runs));
    }
}
