//! The Vulkan backend on a real driver, along every path that a device's features can force.
//!
//! Each test runs in a process of its own with the validation layer on, told through the environment to look between
//! submissions too, and fails on any message. A machine without a device fails.

use std::process::Command;
use std::sync::Arc;
use tidegate::code::Code;
use tidegate::failure::Point;
use tidegate::memory::{MemoryKind, PageSource};
use tidegate::stream::backend::{Backend as _, Binding, Grid, KernelInfo, KernelSource, Launch};
use tidegate::vulkan::{
    Backend, Containment, DeviceType, Disabled, Kernel, Options, Page, Recording, Select, describe, device_count,
    validation_message_count,
};

const CHILD: &str = "TIDEGATE_TEST_CHILD";
const SECOND: u64 = 1_000_000_000;

/// Runs `body` in a process of its own, with more in its environment.
fn alone(test: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var(CHILD).as_deref() == Ok(test) {
        return body();
    }
    let output = Command::new(std::env::current_exe().expect("the test's own path"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .env("VK_LAYER_ENABLES", "VALIDATION_CHECK_ENABLE_SYNCHRONIZATION_VALIDATION_QUEUE_SUBMIT")
        .envs(environment.iter().copied())
        .output()
        .expect("the test starts itself");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains("1 passed"),
        "{test}: {}\n{told}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Every path a device's features can force, by name.
fn paths() -> [(&'static str, Disabled); 5] {
    let none = Disabled::default();
    [
        ("all features", none),
        ("no push descriptors", Disabled { push_descriptors: true, ..none }),
        ("no synchronization2", Disabled { synchronization2: true, ..none }),
        ("no robustness2", Disabled { robustness2: true, ..none }),
        ("no features", Disabled { push_descriptors: true, synchronization2: true, robustness2: true }),
    ]
}

/// A log that prints, so that a failing test shows what the layers said.
mod log {
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};

    pub(crate) struct Printer;
    struct Words(String);

    impl Visit for Words {
        fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
            self.0 = format!("{value:?}");
        }
    }

    impl tracing::Subscriber for Printer {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            let mut words = Words(String::new());
            event.record(&mut words);
            println!("{} {}", event.metadata().level(), words.0);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }
}

fn options(disabled: Disabled) -> Options {
    Options { validation: true, disabled, dispatch: tracing::Dispatch::new(log::Printer), ..Options::default() }
}

fn device(disabled: Disabled) -> Backend {
    let backend = Backend::create(&options(disabled)).expect("a Vulkan device with the validation layer");
    backend.slot_create(0).expect("a slot");
    backend
}

/// Drops the backend too, so that what the layers say at the end counts.
fn assert_silent(backend: Backend, path: &str) {
    backend.flush_messages();
    drop(backend);
    assert_eq!(validation_message_count(), 0, "validation messages: {path}");
}

fn page(backend: &Backend, kind: MemoryKind, size: u64) -> Arc<Page> {
    Arc::new(backend.page_create(kind, size).expect("a page"))
}

fn at(page: &Arc<Page>, offset: u64, size: u64) -> Binding<'_, Page> {
    Binding { page, offset, size }
}

fn kernel(backend: &Backend, code: &[u8], constants: &[(u32, u32)]) -> (Arc<Kernel>, KernelInfo) {
    let source =
        KernelSource { code, entry: "main", constants, label: "test kernel", trusted: false, declares_uses: false };
    let (kernel, info) = backend.kernel_create(&source).expect("a kernel");
    (Arc::new(kernel), info)
}

/// Closes, submits to queue 0 as the slot's batch, waits, and takes the recording back.
fn run(backend: &Backend, batch: u64, mut recording: Box<Recording>) {
    backend.end(&mut recording).expect("closed");
    let signal = Point { slot: 0, batch };
    backend.submit(0, &mut recording, &[], &[], signal).expect("submitted");
    assert!(backend.wait(signal, 20 * SECOND).expect("waited"), "batch {batch} completes");
    assert_eq!(backend.completed(0), Ok(batch));
    backend.recycle(0, recording);
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn read(backend: &Backend, page: &Page, offset: u64, count: usize) -> Vec<u32> {
    let mut read = vec![0; 4 * count];
    backend.page_read(page, offset, &mut read).expect("read");
    read.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes"))).collect()
}

#[test]
fn a_kernel_between_copies() {
    alone("a_kernel_between_copies", &[], || {
        for (path, disabled) in paths() {
            let backend = device(disabled);
            let align = backend.limits().block_alignment;
            let count = 1000_u32;
            let size = u64::from(count) * 4;
            let step = size.next_multiple_of(align);

            let upload = page(&backend, MemoryKind::Upload, step);
            let work = page(&backend, MemoryKind::Device, 4 << 20);
            let back = page(&backend, MemoryKind::Readback, step);
            let (scale, info) = kernel(&backend, include_bytes!("vulkan_backend/scale.spv"), &[(3, 100)]);
            assert_eq!((info.bindings.len(), info.group_size, info.push_size), (2, [64, 1, 1], 8));

            // Twice, so that recycled recordings and whatever they cache are used too.
            for batch in 1..=2_u32 {
                let input: Vec<u32> = (0..count).map(|i| i * batch).collect();
                backend.page_write(&upload, 0, &bytes(&input)).expect("written");
                let mut r = backend.begin(0).expect("a recording");
                backend.barrier(&mut r);
                backend.copy(&mut r, at(&work, step, size), at(&upload, 0, size));
                backend.fill(&mut r, at(&work, 2 * step, size), 0x0101_0101);
                backend.barrier(&mut r);
                for _ in 0..2 {
                    let launch = Launch {
                        kernel: &scale,
                        bindings: &[at(&work, step, size), at(&work, 2 * step, size)],
                        push: &bytes(&[3, count - 1]),
                        grid: Grid::Groups([count.div_ceil(64), 1, 1]),
                        label: "scale",
                    };
                    backend.launch(&mut r, &launch).expect("recorded");
                    backend.barrier(&mut r);
                }
                backend.copy(&mut r, at(&back, 0, size), at(&work, 2 * step, size));
                backend.host_barrier(&mut r);
                run(&backend, u64::from(batch), r);

                let mut expected: Vec<u32> = input.iter().map(|i| i * 3 + 100).collect();
                expected[count as usize - 1] = 0x0101_0101;
                assert_eq!(read(&backend, &back, 0, count as usize), expected, "{path}");
            }
            for page in [upload, work, back] {
                drop(page);
            }
            drop(scale);
            assert_silent(backend, path);
        }
    });
}

#[test]
fn indirect_counts_run_or_run_nothing() {
    alone("indirect_counts_run_or_run_nothing", &[], || {
        for (path, disabled) in paths() {
            let backend = device(disabled);
            let max = backend.limits().max_groups;
            let back = page(&backend, MemoryKind::Readback, 4096);
            let work = page(&backend, MemoryKind::Device, 4096);
            let counts = page(&backend, MemoryKind::Upload, 4096);
            let scratch = page(&backend, MemoryKind::Device, 4096);
            let (scale, _) = kernel(&backend, include_bytes!("vulkan_backend/scale.spv"), &[]);
            let cases = [
                ([1, 1, 1], true),
                ([u32::MAX, 1, 1], false),
                ([1, max[1].saturating_add(1), 1], false),
                ([1, 1, u32::MAX], false),
                ([0, 1, 1], false),
                ([2, 1, 1], true),
            ];
            // At any multiple of four, aligned for descriptors or not.
            for (i, (case, _)) in cases.iter().enumerate() {
                backend.page_write(&counts, 20 * i as u64 + 4, &bytes(case)).expect("written");
            }
            for batch in 1..=2 {
                let mut r = backend.begin(0).expect("a recording");
                backend.barrier(&mut r);
                backend.fill(&mut r, at(&work, 0, 4096), 0);
                backend.barrier(&mut r);
                for i in 0..cases.len() as u64 {
                    let launch = Launch {
                        kernel: &scale,
                        bindings: &[at(&work, 2048, 256), at(&work, 256 * i, 256)],
                        push: &bytes(&[1, 1]),
                        grid: Grid::Indirect(at(&counts, 20 * i + 4, 12), at(&scratch, 256 * i, 12)),
                        label: "",
                    };
                    backend.launch(&mut r, &launch).expect("recorded");
                }
                backend.barrier(&mut r);
                backend.copy(&mut r, at(&back, 0, 4096), at(&work, 0, 4096));
                backend.host_barrier(&mut r);
                run(&backend, batch, r);
                for (i, (case, runs)) in cases.iter().enumerate() {
                    let expected = if *runs { 7 } else { 0 };
                    assert_eq!(read(&backend, &back, 256 * i as u64, 1), [expected], "{path}: {case:?}");
                }
            }
            for page in [counts, scratch, work, back] {
                drop(page);
            }
            drop(scale);
            assert_silent(backend, path);
        }
    });
}

#[test]
fn bindings_in_several_sets_with_gaps() {
    alone("bindings_in_several_sets_with_gaps", &[], || {
        for (path, disabled) in paths() {
            let backend = device(disabled);
            let upload = page(&backend, MemoryKind::Upload, 4096);
            let back = page(&backend, MemoryKind::Readback, 4096);
            backend.page_write(&upload, 0, &bytes(&[1])).expect("written");
            backend.page_write(&upload, 256, &bytes(&[10])).expect("written");
            backend.page_write(&upload, 512, &bytes(&[100])).expect("written");
            let (sets, info) = kernel(&backend, include_bytes!("vulkan_backend/sets.spv"), &[]);
            let numbers: Vec<_> = info.bindings.iter().map(|b| (b.set, b.binding)).collect();
            assert_eq!(numbers, [(0, 2), (2, 0), (2, 1), (2, 5)]);
            let mut r = backend.begin(0).expect("a recording");
            let launch = Launch {
                kernel: &sets,
                bindings: &[at(&upload, 0, 4), at(&upload, 256, 4), at(&upload, 512, 4), at(&back, 256, 4)],
                push: &[],
                grid: Grid::Groups([1, 1, 1]),
                label: "sum",
            };
            backend.launch(&mut r, &launch).expect("recorded");
            backend.host_barrier(&mut r);
            run(&backend, 1, r);
            assert_eq!(read(&backend, &back, 256, 1), [111], "{path}");
            for page in [upload, back] {
                drop(page);
            }
            drop(sets);
            assert_silent(backend, path);
        }
    });
}

#[test]
fn a_stray_write_reaches_no_further_than_is_said() {
    alone("a_stray_write_reaches_no_further_than_is_said", &[], || {
        for (path, disabled) in paths() {
            let backend = device(disabled);
            let said = backend.info().containment;
            let expected = if disabled.robustness2 { Containment::Page } else { Containment::DescriptorRange };
            assert_eq!(said, expected, "{path}");
            let (stray, _) = kernel(&backend, include_bytes!("vulkan_backend/stray.spv"), &[]);
            let (mine, other) = (page(&backend, MemoryKind::Device, 4096), page(&backend, MemoryKind::Device, 4096));
            let back = page(&backend, MemoryKind::Readback, 8192);
            let mut r = backend.begin(0).expect("a recording");
            backend.fill(&mut r, at(&mine, 0, 4096), 1);
            backend.fill(&mut r, at(&other, 0, 4096), 1);
            backend.barrier(&mut r);
            // Inside the page, past the page, far past everything.
            for word in [64, 1024, 100_000_000_u32] {
                let launch = Launch {
                    kernel: &stray,
                    bindings: &[at(&mine, 256, 256)],
                    push: &bytes(&[word]),
                    grid: Grid::Groups([1, 1, 1]),
                    label: "stray",
                };
                backend.launch(&mut r, &launch).expect("recorded");
                backend.barrier(&mut r);
            }
            backend.copy(&mut r, at(&back, 0, 4096), at(&mine, 0, 4096));
            backend.copy(&mut r, at(&back, 4096, 4096), at(&other, 0, 4096));
            backend.host_barrier(&mut r);
            run(&backend, 1, r);
            let after = read(&backend, &back, 0, 2048);
            assert!(after[1024..].iter().all(|&word| word == 1), "{path}: another page was written");
            if said == Containment::DescriptorRange {
                assert!(after[..1024].iter().all(|&word| word == 1), "{path}: past the descriptor's range");
            }
            for page in [mine, other, back] {
                drop(page);
            }
            drop(stray);
            assert_silent(backend, path);
        }
    });
}

#[test]
fn slots_wait_for_each_other_on_the_device() {
    alone("slots_wait_for_each_other_on_the_device", &[], || {
        for (path, disabled) in paths() {
            let backend = device(disabled);
            backend.slot_create(1).expect("a slot");
            backend.slot_create(70).expect("a slot");
            let back = page(&backend, MemoryKind::Readback, 4096);
            let mut recordings = Vec::new();
            for (slot, pattern, waits) in
                [(0, 1, vec![]), (1, 2, vec![Point { slot: 0, batch: 1 }]), (70, 3, vec![Point { slot: 1, batch: 1 }])]
            {
                let mut r = backend.begin(slot).expect("a recording");
                backend.fill(&mut r, at(&back, 0, 4096), pattern);
                backend.host_barrier(&mut r);
                backend.end(&mut r).expect("closed");
                backend.submit(0, &mut r, &waits, &[], Point { slot, batch: 1 }).expect("submitted");
                recordings.push((slot, r));
            }
            assert_eq!(backend.wait(Point { slot: 70, batch: 1 }, 20 * SECOND), Ok(true), "{path}");
            assert_eq!(read(&backend, &back, 0, 1024), [3; 1024], "{path}");
            assert_eq!(backend.completed(0), Ok(1));
            // Nobody will signal the next one: the wait ends with its timeout.
            assert_eq!(backend.wait(Point { slot: 70, batch: 2 }, 1_000_000), Ok(false), "{path}");
            for (slot, recording) in recordings {
                backend.recycle(slot, recording);
            }
            drop(back);
            assert_silent(backend, path);
        }
    });
}

#[test]
fn descriptors_are_never_taken_for_those_of_a_page_that_is_gone() {
    alone("descriptors_are_never_taken_for_those_of_a_page_that_is_gone", &[], || {
        let backend = device(Disabled { push_descriptors: true, ..Disabled::default() });
        let (stray, _) = kernel(&backend, include_bytes!("vulkan_backend/stray.spv"), &[]);
        for batch in 1..=20 {
            // The driver is free to hand out the same `VkBuffer` again.
            let back = page(&backend, MemoryKind::Readback, 4096);
            let mut r = backend.begin(0).expect("a recording");
            backend.barrier(&mut r);
            let launch = Launch {
                kernel: &stray,
                bindings: &[at(&back, 0, 4096)],
                push: &bytes(&[5]),
                grid: Grid::Groups([1, 1, 1]),
                label: "",
            };
            backend.launch(&mut r, &launch).expect("recorded");
            backend.host_barrier(&mut r);
            run(&backend, batch, r);
            assert_eq!(read(&backend, &back, 20, 1), [0xdead_beef]);
            drop(back);
        }
        drop(stray);
        assert_silent(backend, "no push descriptors");
    });
}

#[test]
fn the_order_things_go_in_does_not_matter() {
    alone("the_order_things_go_in_does_not_matter", &[], || {
        let backend = device(Disabled::default());
        let kept = page(&backend, MemoryKind::Device, 2 << 20);
        let small = page(&backend, MemoryKind::Upload, 64);
        let (stray, _) = kernel(&backend, include_bytes!("vulkan_backend/stray.spv"), &[]);
        let recording = backend.begin(0).expect("a recording");
        drop(backend);
        drop(small);
        drop(recording);
        drop(stray);
        drop(kept);
        assert_eq!(validation_message_count(), 0);
    });
}

#[test]
fn sizes_beyond_the_device_are_refused_unasked() {
    alone("sizes_beyond_the_device_are_refused_unasked", &[], || {
        let backend = device(Disabled::default());
        let limits = backend.limits().clone();
        for size in [64 << 30, u64::MAX, limits.max_buffer_size + 1] {
            let fault = backend.page_create(MemoryKind::Device, size).err().expect("refused");
            assert_eq!((fault.code, fault.vk_result, fault.vk_function), (Code::OutOfDeviceMemory, 0, ""));
            assert!(fault.message.contains(&size.to_string()), "{}", fault.message);
        }
        assert!(limits.block_alignment.is_power_of_two());
        assert_eq!(limits.block_alignment % limits.binding_alignment, 0);
        assert!(limits.queues >= 1 && limits.max_bindings >= 4);
        assert_silent(backend, "");
    });
}

#[test]
fn bytes_outside_a_page_are_a_fault() {
    alone("bytes_outside_a_page_are_a_fault", &[], || {
        let backend = device(Disabled::default());
        let upload = page(&backend, MemoryKind::Upload, 4096);
        for offset in [4093, u64::MAX] {
            let fault = backend.page_write(&upload, offset, &[0; 4]).expect_err("outside");
            assert_eq!(fault.code, Code::Internal);
        }
        drop(upload);
        assert_silent(backend, "");
    });
}

#[test]
fn a_module_that_cannot_be_used_says_why() {
    alone("a_module_that_cannot_be_used_says_why", &[], || {
        let backend = device(Disabled::default());
        let good: &[u8] = include_bytes!("vulkan_backend/scale.spv");
        for (code, entry) in [(&good[..good.len() / 2], "main"), (&[], "main"), (good, "missing"), (good, "ma\0in")] {
            let source =
                KernelSource { code, entry, constants: &[], label: "bad", trusted: false, declares_uses: false };
            let fault = backend.kernel_create(&source).err().expect("refused").fault;
            assert_eq!(fault.code, Code::InvalidShader, "{fault:?}");
            assert!(!fault.message.is_empty());
        }
        assert_silent(backend, "");
    });
}

/// Proves that the layer looks where the other tests rely on it.
#[test]
fn canary_a_missing_barrier_is_noticed() {
    alone("canary_a_missing_barrier_is_noticed", &[], || {
        let backend = device(Disabled::default());
        let work = page(&backend, MemoryKind::Device, 4096);
        let mut r = backend.begin(0).expect("a recording");
        backend.fill(&mut r, at(&work, 0, 4096), 1);
        backend.fill(&mut r, at(&work, 0, 4096), 2);
        run(&backend, 1, r);
        let within = validation_message_count();
        assert!(within > 0, "within a recording");

        let mut recordings = Vec::new();
        for batch in 2..=3 {
            let mut r = backend.begin(0).expect("a recording");
            backend.fill(&mut r, at(&work, 0, 4096), 1);
            backend.end(&mut r).expect("closed");
            let point = Point { slot: 0, batch };
            // The layer may refuse what it objects to.
            let accepted = backend.submit(0, &mut r, &[], &[], point).is_ok();
            recordings.push((accepted, point, r));
        }
        assert!(validation_message_count() > within, "between submissions");
        for (accepted, point, recording) in recordings {
            assert!(!accepted || backend.wait(point, 20 * SECOND) == Ok(true));
            backend.recycle(0, recording);
        }
        drop(work);
    });
}

#[test]
fn devices_are_described_and_selected() {
    alone("devices_are_described_and_selected", &[], || {
        let count = device_count(None).expect("counted");
        assert!(count >= 1);
        let first = describe(None, 0).expect("described");
        assert!(!first.name.is_empty() && first.uuid != [0; 16] && !first.heaps.is_empty());
        assert_eq!(describe(None, count).expect_err("none such").code, Code::NoDevice);

        let by = |select| Backend::create(&Options { select, ..Options::default() });
        let name = Some(first.name[..4].to_uppercase());
        for select in [
            Select { index: Some(0), ..Select::default() },
            Select { name, ..Select::default() },
            Select { uuid: Some(first.uuid), device_type: Some(first.device_type), ..Select::default() },
        ] {
            assert_eq!(by(select).expect("selected").info().description, first);
        }
        let other = if first.device_type == DeviceType::Other { DeviceType::Cpu } else { DeviceType::Other };
        for select in [
            Select { index: Some(count), ..Select::default() },
            Select { name: Some("no such device".into()), ..Select::default() },
            Select { index: Some(0), device_type: Some(other), ..Select::default() },
        ] {
            let asked = select.to_string();
            let fault = by(select).err().expect("none such");
            assert_eq!(fault.code, Code::NoDevice);
            assert!(fault.message.contains(&asked), "{}", fault.message);
            assert!(fault.message.contains(&first.name), "{}", fault.message);
        }
    });
}

#[test]
fn the_environment_selects_when_the_caller_does_not() {
    let test = "the_environment_selects_when_the_caller_does_not";
    alone(test, &[("TIDEGATE_DEVICE", "no such device")], || {
        let fault = Backend::create(&Options::default()).err().expect("none such");
        assert_eq!(fault.code, Code::NoDevice);
        assert!(fault.message.contains("TIDEGATE_DEVICE") && fault.message.contains("no such device"));
        let select = Select { index: Some(0), ..Select::default() };
        assert!(Backend::create(&Options { select, ..Options::default() }).is_ok());
    });
}

#[test]
fn without_a_driver_the_message_says_where_it_was_looked_for() {
    let test = "without_a_driver_the_message_says_where_it_was_looked_for";
    let nowhere = "/nonexistent/driver.json";
    alone(test, &[("VK_DRIVER_FILES", nowhere), ("VK_ICD_FILENAMES", nowhere)], || {
        let fault = Backend::create(&Options::default()).err().expect("no driver");
        assert!(matches!(fault.code, Code::NoDevice | Code::InitializationFailed), "{fault:?}");
        assert!(fault.message.contains("VK_DRIVER_FILES=/nonexistent/driver.json"), "{}", fault.message);
    });
}

#[test]
fn the_committed_shaders_are_what_their_sources_compile_to() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for shader in [
        "shaders/checked_counts",
        "tests/vulkan_backend/scale",
        "tests/vulkan_backend/stray",
        "tests/vulkan_backend/sets",
    ] {
        let fresh = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(shader.replace('/', "-"));
        let output = Command::new("glslangValidator")
            .args(["-V", "--target-env", "vulkan1.2", "-o"])
            .arg(&fresh)
            .arg(root.join(format!("{shader}.comp")))
            .output()
            .expect("glslangValidator");
        assert!(output.status.success(), "{shader}: {}", String::from_utf8_lossy(&output.stdout));
        // The third word names the compiler and its version.
        let words = |path: &std::path::Path| {
            let mut bytes = std::fs::read(path).expect("a module");
            bytes[8..12].fill(0);
            bytes
        };
        assert!(words(&fresh) == words(&root.join(format!("{shader}.spv"))), "{shader}.spv is out of date");
    }
}

/// More indirect launches than share one piece of scratch memory, and more descriptor sets than share one pool.
#[test]
fn a_long_recording_of_indirect_launches() {
    alone("a_long_recording_of_indirect_launches", &[], || {
        for (path, disabled) in paths() {
            let backend = device(disabled);
            let counts = page(&backend, MemoryKind::Upload, 4096);
            let scratch = page(&backend, MemoryKind::Device, 512 << 10);
            let back = page(&backend, MemoryKind::Readback, 4096);
            backend.page_write(&counts, 0, &bytes(&[1, 1, 1])).expect("written");
            let (stray, _) = kernel(&backend, include_bytes!("vulkan_backend/stray.spv"), &[]);
            let mut r = backend.begin(0).expect("a recording");
            for i in 0..1024 + 5 {
                let launch = Launch {
                    kernel: &stray,
                    bindings: &[at(&back, 0, 4096)],
                    push: &bytes(&[i % 1024]),
                    grid: Grid::Indirect(at(&counts, 0, 12), at(&scratch, 256 * u64::from(i), 12)),
                    label: "",
                };
                backend.launch(&mut r, &launch).expect("recorded");
                backend.barrier(&mut r);
            }
            backend.host_barrier(&mut r);
            run(&backend, 1, r);
            assert_eq!(read(&backend, &back, 0, 1024), [0xdead_beef; 1024], "{path}");
            for page in [counts, scratch, back] {
                drop(page);
            }
            drop(stray);
            assert_silent(backend, path);
        }
    });
}
