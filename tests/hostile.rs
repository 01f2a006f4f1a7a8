//! Modules made to exhaust whoever reads them: each is answered, on a thread with a stack of 512 KiB in a process with
//! 2 GiB of address space, by the library before the validator and the driver see it, or by all three.

#![allow(unreachable_pub, reason = "the modules of a test are nobody else's")]

mod c;
mod host;
#[path = "hostile/modules.rs"]
mod modules;

use c::{Device, DeviceOptions};
use tidegate::code::Code;
use tidegate::failure::Access;
use tidegate::ffi::{TG_ERROR_INVALID_SHADER, TG_ERROR_LIMIT_EXCEEDED, TG_ERROR_OUT_OF_HOST_MEMORY, tg_result};
use tidegate::stream::backend::KernelSource;
use tidegate::vulkan::spirv::{Module, ModuleLimits, Rejected, inspect};

const STACK: usize = 512 << 10;
const ADDRESS_SPACE: u64 = 2 << 30;

/// What a module comes to: a kernel, or a code and words of its message.
type Expected = Result<(), (tg_result, &'static str)>;

fn beyond(words: &'static str) -> Expected {
    Err((TG_ERROR_LIMIT_EXCEEDED, words))
}

fn limit_address_space() {
    let limit = libc::rlimit { rlim_cur: ADDRESS_SPACE, rlim_max: ADDRESS_SPACE };
    // SAFETY: a struct that lives as long as the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

fn on_small_stack(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, body).unwrap().join().unwrap();
    });
}

/// Creates a kernel of the module, in a process of its own that ends with it.
#[track_caller]
fn answered(test: &str, make: impl FnOnce() -> Vec<u8>, expected: Expected) {
    c::alone(test, &[], || {
        let code = make();
        limit_address_space();
        let device = Device::create(DeviceOptions::default()).unwrap();
        on_small_stack(|| {
            let (kernel, answer) = device.kernel_create(&code, &[]);
            assert_ne!(kernel.id, 0);
            match (answer, expected) {
                (Ok(()), Ok(())) => {}
                (Err(refused), Err((code, words))) => {
                    assert_eq!(refused.code, code, "{}", refused.message);
                    assert!(refused.message.contains(words), "\"{}\" does not say \"{words}\"", refused.message);
                }
                (answer, expected) => panic!("{answer:?}, but expected was {expected:?}"),
            }
            device.kernel_destroy(kernel).unwrap();
        });
        device.destroy().unwrap();
    });
}

/// One test for each kind of module.
macro_rules! answered {
    ($($name:ident: $make:expr => $expected:expr;)*) => {
        $(#[test]
        fn $name() {
            answered(stringify!($name), || $make, $expected);
        })*
    };
}

answered! {
    calls_that_double: modules::calls(26, 2) => beyond("instructions, with those of what it calls for each call");
    calls_of_a_long_chain: modules::calls(10_000, 1) => beyond("instructions together");
    calls_that_double_in_selections: modules::selecting_calls(24) => beyond("steps of control flow");
    a_thousand_nested_loops: modules::loops(1000) => beyond("32018016000 steps of control flow");
    nested_loops: modules::loops(100) => Ok(());
    a_thousand_nested_selections: modules::selections(1000, true) => beyond("steps of control flow");
    nested_selections: modules::selections(150, true) => Ok(());
    a_thousand_selections_in_a_row: modules::selections(1000, false) => Ok(());
    four_thousand_selections_in_a_row: modules::selections(4000, false) => beyond("steps of control flow");
    a_switch_of_many_cases: modules::switch(5000) => beyond("steps of control flow");
    a_switch: modules::switch(500) => Ok(());
    structs_that_double: modules::structs(40, 2, None) => beyond("members, where each is written out");
    structs_of_a_long_chain: modules::structs(1000, 1, None) => beyond("256 types around another");
    variables_of_large_structs: modules::variables_of_structs(12, 2, 1000) => beyond("variables have 8191");
    constants_that_double: modules::constants(40, 2) => beyond("written out");
    a_million_constants_in_a_chain: modules::constant_chain(1_000_000) => beyond("the module has 1000027 instructions");
    constants_in_a_chain: modules::constant_chain(500) => Err((TG_ERROR_INVALID_SHADER, "not valid"));
    a_null_constant_of_a_large_array: modules::arrays(1, 1 << 28) => beyond("268435459 parts");
    arrays_of_arrays: modules::arrays(40, 2) => beyond("parts, where each is written out");
    a_composite_of_16383_members: modules::wide(16_383) => Ok(());
    a_large_array_as_one_value: modules::large_value(1 << 28) => beyond("536870916 instructions");
    large_arrays_as_one_value: modules::large_value(10_000) => beyond("20000 accesses to memory");
    two_thousand_five_hundred_loads_and_stores: modules::loads_and_stores(2500) => Ok(());
    many_loads_and_stores: modules::loads_and_stores(20_000) => beyond("accesses to memory");
    a_long_chain_of_additions: modules::additions(20_000) => Ok(());
    a_chain_of_specialization_operations: modules::spec_chain(5000) => Ok(());
    local_arrays_of_many_calls: modules::local_arrays(40, 30_000) => beyond("1200000 elements of variables");
    functions_that_nothing_calls: modules::functions(5000) => Ok(());
    entry_points_of_many_functions: modules::entries(1000, 10_000) => beyond("pairs of an entry point and a function");
    groups_of_decorations: modules::decoration_groups(20_000, 20_000) => beyond("groups of decorations");
    no_ops_of_64_mib: modules::no_ops(64 << 20) => beyond("67108864 bytes long; 16777216 are the most");
    no_ops_of_16_mib: modules::no_ops(16 << 20) => beyond("instructions; 262144 are the most");
    an_array_that_nothing_uses: modules::unused_array(1 << 28) => Ok(());
    the_highest_bound: modules::bound(0x3F_FFFF) => Ok(());
}

fn source(code: &[u8], trusted: bool) -> KernelSource<'_> {
    KernelSource { code, entry: "main", constants: &[], label: "test", trusted, declares_uses: false }
}

fn look(code: &[u8], trusted: bool) -> Result<Module, Rejected> {
    let limits = ModuleLimits { max_bindings: 4096, max_binding_number: 4096, ..ModuleLimits::default() };
    inspect(&source(code, trusted), &limits)
}

#[track_caller]
fn refused(result: Result<Module, Rejected>, expected: Code, words: &str) -> Rejected {
    let rejected = result.unwrap_err();
    assert_eq!(rejected.fault.code, expected, "{}", rejected.fault.message);
    assert!(rejected.fault.message.contains(words), "\"{}\" does not say \"{words}\"", rejected.fault.message);
    rejected
}

#[test]
fn a_module_beyond_a_limit_still_says_what_it_binds() {
    let refused = refused(look(&modules::loops(1000), false), Code::LimitExceeded, "steps of control flow");
    let info = refused.info.unwrap();
    assert_eq!(info.bindings.len(), 1);
    assert_eq!(info.bindings[0].access, Access::ReadWrite);
    assert_eq!((info.group_size, info.push_size), ([0; 3], 0), "no more than its bindings is looked for");
}

#[test]
fn a_trusted_module_is_held_to_none_of_the_limits_of_drivers() {
    for code in [modules::loops(1000), modules::structs(40, 2, None), modules::calls(26, 2)] {
        assert_eq!(look(&code, true).unwrap().info.bindings.len(), 1);
    }
    refused(look(&modules::no_ops(2 << 20), true), Code::LimitExceeded, "the module has 524218 instructions");
}

#[test]
fn constants_in_a_chain_are_dropped_without_recursion() {
    let code = modules::constant_chain(100_000);
    on_small_stack(|| assert_eq!(look(&code, true).unwrap().info.bindings.len(), 1));
}

#[test]
fn following_pointers_takes_a_bounded_number_of_steps() {
    let few = modules::pointers(500, 100);
    assert_eq!(look(&few, true).unwrap().info.bindings.len(), 101);
    let many = refused(look(&modules::pointers(20_000, 500), true), Code::LimitExceeded, "more than 67108864 steps");
    assert_eq!(many.info, None, "what was found out so far says too little");
}

#[test]
fn decorations_times_variables_are_a_bounded_number_of_steps() {
    // Every variable is of the block that has all the decorations.
    let code = modules::decorations(20_000, 20_000);
    refused(look(&code, true), Code::LimitExceeded, "more than 67108864 steps");
}

#[test]
fn a_function_that_calls_itself_is_refused() {
    for trusted in [false, true] {
        let _ = look(&modules::recursion(), trusted);
    }
    refused(look(&modules::recursion(), false), Code::InvalidShader, "calls itself");
}

#[test]
fn a_length_that_specialization_decides_counts_as_what_it_is() {
    let code = modules::specialized_array();
    let with = |constants: &[(u32, u32)]| {
        inspect(&KernelSource { constants, ..source(&code, false) }, &ModuleLimits::default())
    };
    with(&[]).unwrap();
    with(&[(0, 64)]).unwrap();
    refused(with(&[(0, 1 << 14)]), Code::LimitExceeded, "a function of the module has 2621444 instructions");
}

#[test]
fn a_name_is_cut_where_it_is_learnt() {
    let info = look(&modules::long_name(100_000), true).unwrap().info;
    assert_eq!(info.bindings[0].name.len(), 128);
}

#[test]
fn a_constant_index_past_the_end_of_shared_memory_is_refused() {
    look(&modules::shared_array(16, 15), false).unwrap();
    refused(look(&modules::shared_array(16, 16), false), Code::InvalidShader, "is indexed at 16, where it has 16");
}

/// Leaves the process so much more address space than it has.
fn leave_room(bytes: u64) {
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = sizes.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: takes a number and gives one.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let most = pages * page + bytes;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a struct that lives as long as the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

/// The kernel is broken for want of memory, and the device goes on.
#[track_caller]
fn out_of_memory(test: &str, room: u64, make: impl FnOnce() -> Vec<u8>, words: &str) {
    c::alone(test, &[], || {
        let (code, small) = (make(), modules::additions(1));
        let device = Device::create(DeviceOptions::default()).unwrap();
        leave_room(room);
        let (kernel, answer) = device.kernel_create(&code, &[]);
        let refused = answer.unwrap_err();
        assert_eq!(refused.code, TG_ERROR_OUT_OF_HOST_MEMORY, "{}", refused.message);
        assert!(refused.message.contains(words), "\"{}\" does not say \"{words}\"", refused.message);
        leave_room(ADDRESS_SPACE);
        device.kernel_rebuild(kernel, &small, &[]).unwrap();
        device.kernel_destroy(kernel).unwrap();
        device.destroy().unwrap();
    });
}

#[test]
fn no_memory_to_parse_in_is_no_end_of_the_process() {
    let words = "bytes that looking at the module may take";
    let test = "no_memory_to_parse_in_is_no_end_of_the_process";
    out_of_memory(test, 128 << 20, || modules::additions(200_000), words);
}

#[test]
fn no_memory_for_a_stack_is_no_end_of_the_process() {
    let test = "no_memory_for_a_stack_is_no_end_of_the_process";
    out_of_memory(test, 16 << 20, || modules::additions(1), "no thread to compile a kernel on");
}
