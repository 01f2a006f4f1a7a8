//! The header as a product: every function documented, guarded and listed, every size and offset what C sees.
//!
//! `scripts/header.sh` runs this with TIDEGATE_WRITE set, and the two lists are then written instead of compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tidegate::ffi::*;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Both headers, one after the other.
fn header() -> String {
    read("include/tidegate/tidegate.h") + &read("include/tidegate/tidegate_vulkan.h")
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(path.to_str().expect("UTF-8")));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push((path.clone(), read(&path)));
        }
    }
    found
}

/// Compares a committed list, or writes it.
fn compare(path: &str, made: &str) {
    if std::env::var_os("TIDEGATE_WRITE").is_some() {
        std::fs::write(root().join(path), made).expect("the list can be written");
    }
    let committed = std::fs::read_to_string(root().join(path)).unwrap_or_default();
    let line = 1 + committed.lines().zip(made.lines()).take_while(|(old, new)| old == new).count();
    assert!(committed == made, "{path} line {line} is not what the library says; run scripts/header.sh");
}

/// A function of the header: its comment, its name, its parameters.
struct Function {
    comment: String,
    name: String,
    parameters: Vec<String>,
    result: String,
}

fn functions() -> Vec<Function> {
    let header = header();
    let mut functions = Vec::new();
    for (at, _) in header.match_indices("\nTG_API ") {
        let comment = header[..at].rsplit("/**").next().expect("a comment above").to_owned();
        assert!(
            comment.trim_end().ends_with("*/") && comment.matches("*/").count() == 1,
            "no comment above: {comment}"
        );
        let declaration = header[at..].split(';').next().expect("a declaration").replace('\n', " ");
        let (before, parameters) = declaration.split_once('(').expect("a function");
        let name = before.rsplit(' ').next().expect("a name").to_owned();
        let parameters = parameters.trim_end_matches(')').split(',').filter(|one| one.trim() != "void");
        let parameters = parameters.map(|one| one.trim().rsplit([' ', '*']).next().expect("a name").to_owned());
        let result =
            before.trim().trim_start_matches("TG_API").trim().trim_end_matches(name.as_str()).trim().to_owned();
        functions.push(Function { comment, parameters: parameters.collect(), name, result });
    }
    assert!(functions.len() > 40);
    functions
}

#[test]
fn every_function_says_everything_in_one_order() {
    for Function { comment, name, parameters, result } in functions() {
        let mut expected: Vec<String> = parameters.iter().map(|parameter| format!("\\param {parameter} ")).collect();
        expected.extend(["\\returns ", "\\threadsafety ", "\\claims "].map(str::to_owned));
        let tags: Vec<&str> = comment.match_indices('\\').map(|(at, _)| &comment[at..]).collect();
        assert_eq!(tags.len(), expected.len(), "{name}: wrong number of tags");
        for (tag, expected) in tags.iter().zip(&expected) {
            assert!(tag.starts_with(expected.as_str()), "{name}: expected {expected:?}, found {:.40?}", tag);
            let words = tag[expected.len()..].split(" * \\").next().expect("words");
            assert!(words.trim().len() > 5, "{name}: {expected} says nothing");
        }
        let (summary, _) = comment.split_once('\\').expect("tags");
        assert!(summary.contains(". ") || summary.contains(".\n"), "{name}: no sentence says what it does");
        if result == "tg_result" {
            assert!(comment.contains("\\returns TG_OK") || comment.contains("\\returns As tg_"), "{name}: no codes");
        }
        if parameters.first().is_some_and(|first| first == "dev") && !comment.contains("\\returns As tg_") {
            for code in ["TG_ERROR_WRONG_KIND", "TG_ERROR_STALE_HANDLE"] {
                let told = comment.contains(code) || comment.contains("otherwise as tg_");
                assert!(told, "{name}: {code} is not among its codes");
            }
        }
    }
}

#[test]
fn every_code_in_the_header_exists() {
    let header = header();
    let defined: Vec<&str> = defines(&header).map(|(name, _)| name).collect();
    for (at, _) in header.match_indices("TG_ERROR_") {
        let name: String = header[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let initializer = name == "TG_ERROR_DESC_INIT";
        assert!(initializer || defined.contains(&name.as_str()), "the header speaks of {name}, which is no code");
    }
}

#[test]
fn every_function_goes_through_the_boundary() {
    let mut seen = Vec::new();
    for (path, source) in sources("src") {
        let inside = path.parent().is_some_and(|folder| folder.ends_with("ffi"));
        for (at, _) in source.match_indices("extern \"C\" fn ") {
            // Callbacks of the tests are no functions of the header.
            let code = source[..at].rsplit('\n').next().expect("a line");
            if !code.starts_with("pub ") {
                continue;
            }
            let name: String = source[at + 14..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            assert!(inside, "{} exports {name}: src/ffi is the only boundary", path.display());
            let above = source[..at].rsplit('\n').nth(1).expect("a line above");
            assert_eq!(above, "#[unsafe(no_mangle)]", "{name} is not exported");
            let body = &source[at..][source[at..].find(" {\n").expect("a body")..];
            // Nothing comes before the wrapper, except the block that allows it to take pointers.
            let first = body
                .lines()
                .map(str::trim)
                .find(|line| !line.is_empty() && *line != "{" && *line != "unsafe {" && !line.starts_with("//"));
            let first = first.expect("a line");
            let wrapped = ["call", "on_device", "making", "value"]
                .iter()
                .any(|wrapper| first.starts_with(&format!("{wrapper}(\"{name}\"")));
            assert!(wrapped, "{name} begins with {first:?}, not with the wrapper and its own name");
            seen.push(name);
        }
    }
    seen.sort();
    let mut declared: Vec<String> = functions().into_iter().map(|function| function.name).collect();
    declared.sort();
    assert_eq!(seen, declared);
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    for (path, source) in sources("src") {
        let allowed = path.components().any(|part| ["ffi", "vulkan"].iter().any(|folder| part.as_os_str() == *folder));
        assert!(allowed || !source.contains("unsafe "), "{} is no place for unsafe code", path.display());
    }
}

#[test]
fn the_symbols_are_the_functions() {
    let mut names: Vec<String> = functions().into_iter().map(|function| function.name + "\n").collect();
    names.sort();
    compare("c_tests/symbols.txt", &names.concat());
}

/// The constants of the header, with what they are defined as.
fn defines(header: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = header.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(' '));
    lines.filter(|(name, value)| {
        name.starts_with("TG_") && !name.contains('(') && *name != "TG_API" && *name != "TG_VERSION" && *value != "{ \\"
    })
}

/// The structs of the header, with their members.
fn structs(header: &str) -> BTreeMap<String, Vec<String>> {
    let mut structs = BTreeMap::new();
    for part in header.split("\ntypedef struct ").skip(1) {
        let (name, rest) = part.split_once(" {\n").expect("a struct");
        let (body, _) = rest.split_once("\n} ").expect("its end");
        let code = body.lines().map(str::trim).filter(|line| line.ends_with(';') && !line.starts_with(['/', '*']));
        let members = code.map(|line| {
            let declared = line.trim_end_matches(';').split('[').next().expect("a member");
            declared.rsplit([' ', '*']).next().expect("a name").to_owned()
        });
        structs.insert(name.to_owned(), members.collect());
    }
    structs
}

#[test]
#[cfg(target_pointer_width = "64")]
fn sizes_and_offsets_are_the_same_on_both_sides() {
    let mut made = String::from(
        "/* Sizes, offsets and numbers as the library has them; tests/header.rs compares them with Rust, the compiler\n   \
         with the header. scripts/header.sh writes this file. */\n#include <tidegate/tidegate_vulkan.h>\n\n\
         #if UINTPTR_MAX == 0xFFFFFFFFFFFFFFFF\n",
    );
    let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    macro_rules! structs {
        ($($name:ident { $($member:ident)* })*) => { $(
            let _ = writeln!(made, "_Static_assert(sizeof({0}) == {1}, \"{0}\");", stringify!($name), size_of::<$name>());
            let mut members = Vec::new();
            $(
                let member = stringify!($member).trim_start_matches("r#");
                let offset = std::mem::offset_of!($name, $member);
                let name = stringify!($name);
                let _ = writeln!(made, "_Static_assert(offsetof({name}, {member}) == {offset}, \"{name}.{member}\");");
                members.push(member.to_owned());
            )*
            listed.insert(stringify!($name).to_owned(), members);
        )* };
    }
    structs! {
        tg_str { data size }
        tg_device { id }
        tg_buffer { id }
        tg_kernel { id }
        tg_event { id }
        tg_read { id }
        tg_scope { id }
        tg_report { id }
        tg_slice { buffer offset size }
        tg_use { slice access reserved }
        tg_claim { slice failure failure_count more }
        tg_log_event { struct_size code level failure message }
        tg_device_desc {
            struct_size select index name uuid r#type scheduling flags slots max_recorded max_pending max_tasks
            memory_cap staging_size log log_user_data log_finalizer log_level reserved get_instance_proc_addr label
        }
        tg_device_info {
            struct_size index r#type vendor_id device_id api_version driver_version uuid name_size name driver_size
            driver lacking_size lacking local_heap_size other_heap_size features containment queues max_groups
            max_push_size max_bindings max_buffer_size max_binding_size binding_alignment
            map_alignment
        }
        tg_memory_usage { reserved used peak largest_free }
        tg_memory_info { struct_size device upload readback }
        tg_buffer_desc { struct_size size memory reserved stream flags label tag }
        tg_buffer_info { struct_size size memory allocated claimed reserved stream tag label_size label address }
        tg_constant { id value }
        tg_kernel_desc {
            struct_size code code_size entry accesses access_count constants constant_count flags label tag
        }
        tg_binding_info { set binding access element basis reserved name_size name }
        tg_kernel_info {
            struct_size bindings binding_capacity binding_count group_size push_size broken reserved failure tag
            label_size label
        }
        tg_launch_desc {
            struct_size stream kernel bindings binding_count extra extra_count groups threads indirect push push_size
            label tag
        }
        tg_error_desc { struct_size code message label }
        tg_scope_desc { struct_size stream uses use_count label tag }
        tg_report_info {
            struct_size code vk_result vk_function function field message failure_count suspect_count more reserved
        }
        tg_failure_info {
            struct_size id code vk_result vk_function operation kernel label message stream tag claimed_bytes skips
            claim_count step_count has_stream reserved
        }
        tg_claim_info { struct_size buffer offset size label }
        tg_step_info { struct_size kind at_least count kernel needed produced produced_count label tag }
        tg_suspect_info { struct_size name label tag }
        tg_vk_handles {
            struct_size instance physical_device device get_instance_proc_addr api_version queue_family queue_count
            reserved queues
        }
    }
    let header = header();
    assert_eq!(listed, structs(&header));
    made.push_str("#endif\n\n");

    let mut constants = Vec::new();
    macro_rules! constants {
        ($($name:ident)*) => { $(
            let _ = writeln!(made, "_Static_assert({0} == {1}, \"{0}\");", stringify!($name), number($name as i128));
            constants.push(stringify!($name));
        )* };
    }
    constants! {
        TG_WAIT_FOREVER TG_OK TG_SKIPPED TG_TIMEOUT TG_NOT_READY TG_INCOMPLETE TG_ERROR_INVALID_ARGUMENT
        TG_ERROR_NULL_HANDLE TG_ERROR_WRONG_KIND TG_ERROR_FOREIGN_HANDLE TG_ERROR_STALE_HANDLE TG_ERROR_WRONG_STATE
        TG_ERROR_NO_DEVICE TG_ERROR_INITIALIZATION_FAILED TG_ERROR_UNSUPPORTED TG_ERROR_LIMIT_EXCEEDED
        TG_ERROR_OUT_OF_HOST_MEMORY TG_ERROR_OUT_OF_DEVICE_MEMORY TG_ERROR_INVALID_SHADER TG_ERROR_UNWRITTEN
        TG_ERROR_NEVER_WRITTEN TG_ERROR_TORN_DOWN TG_ERROR_DEVICE_LOST TG_ERROR_DRIVER TG_ERROR_CALLER
        TG_ERROR_INTERNAL TG_LABEL_CAPACITY TG_WHOLE_SIZE TG_ACCESS_AUTO TG_ACCESS_NONE TG_ACCESS_READ TG_ACCESS_WRITE
        TG_ACCESS_MAY_WRITE TG_ACCESS_READ_WRITE TG_VERSION_MAJOR TG_VERSION_MINOR TG_VERSION_PATCH
        TG_DEVICE_TYPE_OTHER TG_DEVICE_TYPE_INTEGRATED TG_DEVICE_TYPE_DISCRETE TG_DEVICE_TYPE_VIRTUAL
        TG_DEVICE_TYPE_CPU TG_NAME_CAPACITY TG_CONTAINMENT_PAGE TG_CONTAINMENT_BUFFER TG_CONTAINMENT_SLICE
        TG_FEATURE_VALIDATION TG_FEATURE_SHADER_VALIDATOR TG_FEATURE_SYNCHRONIZATION2 TG_FEATURE_PUSH_DESCRIPTORS
        TG_FEATURE_ROBUSTNESS2 TG_FEATURE_MEMORY_BUDGET TG_FEATURE_DEVICE_FAULT TG_FEATURE_DEBUG_LABELS TG_FEATURE_BUFFER_ADDRESSES
        TG_LOG_DEFAULT TG_LOG_ERROR TG_LOG_WARN TG_LOG_INFO TG_LOG_DEBUG TG_LOG_TRACE TG_SELECT_INDEX TG_SELECT_NAME
        TG_SELECT_UUID TG_SELECT_TYPE TG_SCHEDULING_EVENT TG_SCHEDULING_INTERLEAVE TG_SCHEDULING_SEQUENCE
        TG_DEVICE_VALIDATION TG_DEVICE_TRACK_UNINITIALIZED TG_DEVICE_ISOLATE_BUFFERS TG_DEVICE_TRUST_SHADERS
        TG_DEVICE_NO_SYNCHRONIZATION2 TG_DEVICE_NO_PUSH_DESCRIPTORS TG_DEVICE_NO_ROBUSTNESS2 TG_MEMORY_DEVICE
        TG_MEMORY_UPLOAD TG_MEMORY_READBACK TG_MEMORY_TOKEN TG_BUFFER_UNALLOCATED TG_WRITE_NO_WAIT TG_KERNEL_TRUSTED TG_KERNEL_DECLARES_USES
        TG_BASIS_INFERRED TG_BASIS_PROVEN TG_BASIS_DECLARED TG_STEP_SKIP TG_STEP_COPY TG_STEP_RAN_ON_BAD_INPUT TG_STEP_DROPPED TG_STEP_UNPROVEN_WRITE TG_VK_SIGNAL_SUBMITTED
    }
    let defined: Vec<&str> = defines(&header).map(|(name, _)| name).collect();
    assert_eq!(constants, defined);
    compare("c_tests/abi/layout.c", &made);
}

/// A number as C writes it.
fn number(value: i128) -> String {
    if value == i128::from(u64::MAX) { "UINT64_MAX".to_owned() } else { value.to_string() }
}

/// Whatever the loader, the driver and the library may answer a creation with.
#[test]
fn the_codes_of_creation_are_listed() {
    let header = include_str!("../include/tidegate/tidegate.h");
    let end = header.find("TG_API tg_result tg_device_create").expect("a function");
    let comment = &header[header[..end].rfind("/**").expect("its comment")..end];
    let codes = "INVALID_ARGUMENT NO_DEVICE INITIALIZATION_FAILED UNSUPPORTED OUT_OF_HOST_MEMORY OUT_OF_DEVICE_MEMORY \
                 DEVICE_LOST DRIVER LIMIT_EXCEEDED";
    for code in codes.split_whitespace() {
        assert!(comment.contains(&format!("TG_ERROR_{code}")), "{code}: {comment}");
    }
}
