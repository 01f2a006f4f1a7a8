//! What is learnt from modules, and that no bytes get past the checks or end the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidegate::code::Code;
use tidegate::failure::Access;
use tidegate::stream::backend::{KernelInfo, KernelSource};
use tidegate::vulkan::spirv::{Feature, Module, ModuleLimits, Rejected, inspect, validator_available};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/spirv")
}

fn load(name: &str) -> Vec<u8> {
    fs::read(folder().join(name).with_extension("spv")).unwrap()
}

/// More than the fixtures need, so that a test of one limit lowers only that one.
fn roomy() -> ModuleLimits {
    ModuleLimits {
        max_bindings: 16,
        max_group_size: [1024, 1024, 64],
        max_group_invocations: 1024,
        max_shared_size: 32 << 10,
        local_size_id: true,
        ..ModuleLimits::default()
    }
}

fn source(code: &[u8]) -> KernelSource<'_> {
    KernelSource { code, entry: "main", constants: &[], label: "test", trusted: false, declares_uses: false }
}

#[track_caller]
fn accepted(code: &[u8]) -> Module {
    inspect(&source(code), &roomy()).unwrap()
}

#[track_caller]
fn rejected(code: &[u8], expected: Code, words: &str) -> Rejected {
    refused(inspect(&source(code), &roomy()), expected, words)
}

#[track_caller]
fn refused(result: Result<Module, Rejected>, expected: Code, words: &str) -> Rejected {
    let rejected = result.unwrap_err();
    assert_eq!(rejected.fault.code, expected, "{}", rejected.fault.message);
    assert!(rejected.fault.message.contains(words), "\"{}\" does not say \"{words}\"", rejected.fault.message);
    rejected
}

fn to_words(code: &[u8]) -> Vec<u32> {
    code.as_chunks::<4>().0.iter().map(|&chunk| u32::from_le_bytes(chunk)).collect()
}

fn to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The module with every instruction handed to `edit`, which changes or empties it.
fn edited(code: &[u8], mut edit: impl FnMut(u32, &mut Vec<u32>)) -> Vec<u8> {
    let words = to_words(code);
    let mut made = words[..5].to_vec();
    let mut rest = &words[5..];
    while let Some(head) = rest.first() {
        let (instruction, after) = rest.split_at((head >> 16) as usize);
        let mut instruction = instruction.to_vec();
        edit(head & 0xFFFF, &mut instruction);
        made.extend(instruction);
        rest = after;
    }
    to_bytes(&made)
}

const OP_CAPABILITY: u32 = 17;
const OP_STORE: u32 = 62;
const OP_DECORATE: u32 = 71;
const BLOCK: u32 = 2;
const BUILT_IN: u32 = 11;
const NON_WRITABLE: u32 = 24;
const BINDING: u32 = 33;
const DESCRIPTOR_SET: u32 = 34;

fn without_decoration(code: &[u8], decoration: u32) -> Vec<u8> {
    edited(code, |op, words| {
        if op == OP_DECORATE && words[2] == decoration {
            words.clear();
        }
    })
}

fn with_decoration_value(code: &[u8], decoration: u32, value: u32) -> Vec<u8> {
    edited(code, |op, words| {
        if op == OP_DECORATE && words[2] == decoration {
            words[3] = value;
        }
    })
}

fn access(info: &KernelInfo, name: &str) -> Access {
    info.bindings.iter().find(|binding| &*binding.name == name).unwrap_or_else(|| panic!("no {name}")).access
}

#[test]
fn each_kind_of_access_is_inferred() {
    let info = accepted(&load("access")).info;
    let found: Vec<(u32, &str, Access)> = info.bindings.iter().map(|b| (b.binding, &*b.name, b.access)).collect();
    let expected = [
        (0, "read_only", Access::Read),
        (1, "write_only", Access::MayWrite),
        (2, "only_stored", Access::MayWrite),
        (3, "in_place", Access::ReadWrite),
        (4, "counted", Access::ReadWrite),
        (5, "in_function", Access::Read),
        (6, "never", Access::None),
        (7, "length_only", Access::None),
        (8, "OnlyLoaded", Access::Read),
    ];
    assert_eq!(found, expected);
    assert_eq!(info.group_size, [64, 1, 1]);
    assert_eq!(info.push_size, 0);
}

#[test]
fn pointers_are_followed_wherever_they_go() {
    let module = accepted(&load("pointers"));
    for (name, expected) in [
        ("param_read", Access::Read),
        ("param_write", Access::MayWrite),
        ("select_a", Access::Read),
        ("select_b", Access::Read),
        ("phi_a", Access::MayWrite),
        ("phi_b", Access::MayWrite),
        ("copied_from", Access::Read),
        ("copied_to", Access::MayWrite),
        ("escaped", Access::ReadWrite),
        ("modf_to", Access::ReadWrite),
        ("returned", Access::MayWrite),
        // Stored away like `escaped`, but promised not to be written.
        ("kept", Access::Read),
    ] {
        assert_eq!(access(&module.info, name), expected, "{name}");
    }
    assert!(module.needs.0.iter().any(|need| need.feature == Feature::VariablePointersStorageBuffer));
}

#[test]
fn a_promise_that_is_seen_broken_counts_for_nothing() {
    let code = load("pointers");
    let mut variable = 0;
    edited(&code, |op, words| {
        if op == OP_DECORATE && words[2] == BINDING && words[3] == 1 {
            variable = words[1];
        }
    });
    let lying = edited(&code, |op, words| {
        if op == OP_DECORATE && words[2] == NON_WRITABLE {
            words[1] = variable;
        }
    });
    let info = inspect(&KernelSource { trusted: true, ..source(&lying) }, &roomy()).unwrap().info;
    assert_eq!(access(&info, "param_write"), Access::MayWrite);
}

#[test]
fn both_ways_to_declare_a_storage_buffer_are_read_alike() {
    let (new, old) = (accepted(&load("scale")), accepted(&load("scale_old_style")));
    assert_eq!(new.info, old.info);
    assert_eq!(access(&new.info, "source"), Access::Read);
    assert_eq!(access(&new.info, "target"), Access::MayWrite);
    assert_eq!(new.info.push_size, 8);
    assert_eq!(new.needs.0, []);
}

#[test]
fn bindings_are_ordered_by_set_and_binding() {
    let info = accepted(&load("two_sets")).info;
    let found: Vec<(u32, u32, &str)> = info.bindings.iter().map(|b| (b.set, b.binding, &*b.name)).collect();
    assert_eq!(found, [(0, 3, "First"), (0, 7, "second"), (2, 0, "last")]);
    assert_eq!(info.group_size, [8, 4, 1]);
}

#[test]
fn variables_of_one_binding_are_one() {
    let info = accepted(&load("aliases")).info;
    let found: Vec<(u32, Access)> = info.bindings.iter().map(|b| (b.binding, b.access)).collect();
    assert_eq!(found, [(0, Access::ReadWrite), (1, Access::MayWrite)]);
}

#[test]
fn constants_decide_the_group_size() {
    let code = load("specialized");
    let with = |constants: &[(u32, u32)], limits: &ModuleLimits| {
        inspect(&KernelSource { constants, ..source(&code) }, limits).map(|module| module.info.group_size)
    };
    assert_eq!(with(&[], &roomy()).unwrap(), [1, 1, 2]);
    assert_eq!(with(&[(0, 16), (1, 8), (77, 5)], &roomy()).unwrap(), [16, 8, 2]);
    let unsuitable = |constants: &[(u32, u32)], limits: &ModuleLimits, code: Code, words: &str| {
        let rejected = with(constants, limits).unwrap_err();
        assert_eq!(rejected.fault.code, code, "{}", rejected.fault.message);
        assert!(rejected.fault.message.contains(words), "{}", rejected.fault.message);
    };
    unsuitable(&[(0, 0)], &roomy(), Code::InvalidShader, "none may be zero");
    unsuitable(&[(0, 2048)], &roomy(), Code::LimitExceeded, "2048 x 1 x 2");
    unsuitable(&[(0, 32), (1, 32)], &roomy(), Code::LimitExceeded, "1024 together");
    unsuitable(&[(0, 8), (0, 8)], &roomy(), Code::InvalidShader, "given twice");
    // The shared array has 4 bytes for each of 16 x 8 x 4 elements, twice that with constant 3.
    let exact = ModuleLimits { max_shared_size: 2048, ..roomy() };
    assert_eq!(with(&[(0, 16), (1, 8)], &exact).unwrap(), [16, 8, 2]);
    unsuitable(&[(0, 16), (1, 8), (3, 1)], &exact, Code::LimitExceeded, "4096 bytes of shared");
    unsuitable(&[(0, 16), (1, 8), (4, -2i32 as u32)], &exact, Code::LimitExceeded, "2052 bytes of shared");
    unsuitable(&[(2, 0)], &roomy(), Code::InvalidShader, "no elements");
}

#[test]
fn a_constant_of_another_size_cannot_be_given() {
    let code = load("int64");
    let result = inspect(&KernelSource { constants: &[(9, 1)], ..source(&code) }, &roomy());
    refused(result, Code::Unsupported, "the constant 9 has 64 bits");
}

#[test]
fn push_constants_end_where_the_last_member_ends() {
    let code = load("push");
    assert_eq!(accepted(&code).info.push_size, 124);
    let tight = ModuleLimits { max_push_size: 120, ..roomy() };
    refused(inspect(&source(&code), &tight), Code::LimitExceeded, "124 bytes of push constants");
}

#[test]
fn another_entry_points_buffers_are_not_bound() {
    let code = load("two_entries");
    let names = |entry: &str, constants: &[(u32, u32)]| {
        let info = inspect(&KernelSource { entry, constants, ..source(&code) }, &roomy()).unwrap().info;
        let bindings: Vec<_> = info.bindings.iter().map(|b| (b.name.to_string(), b.access)).collect();
        (bindings, info.group_size)
    };
    let binding = |name: &str, access| (name.to_owned(), access);
    let (bindings, size) = names("first", &[]);
    let expected = [("common", Access::Read), ("of_first", Access::MayWrite), ("of_none", Access::None)];
    assert_eq!(bindings, expected.map(|(name, access)| binding(name, access)));
    assert_eq!(size, [2, 3, 4]);
    let (bindings, size) = names("second", &[(0, 16)]);
    let expected = [("common", Access::MayWrite), ("of_second", Access::Read), ("of_none", Access::None)];
    assert_eq!(bindings, expected.map(|(name, access)| binding(name, access)));
    assert_eq!(size, [16, 4, 2]);
}

#[test]
fn a_missing_entry_point_is_named_with_those_there_are() {
    let rejected = rejected(&load("two_entries"), Code::InvalidShader, "no entry point \"main\"");
    assert!(rejected.fault.message.contains("\"first\", \"second\""), "{}", rejected.fault.message);
    assert_eq!(rejected.info, None, "which of the two is meant nobody knows");

    let code = load("scale");
    let result = inspect(&KernelSource { entry: "blur", ..source(&code) }, &roomy());
    let rejected = refused(result, Code::InvalidShader, "it has \"main\"");
    assert_eq!(rejected.info, Some(accepted(&code).info), "there is only one it can be");

    let result = inspect(&KernelSource { entry: "ma\0in", ..source(&code) }, &roomy());
    refused(result, Code::InvalidShader, "no entry point");
    self::rejected(&load("fragment"), Code::InvalidShader, "of the kind Fragment, not GLCompute");
}

#[test]
fn needs_name_capability_and_feature() {
    let needs = accepted(&load("int64")).needs;
    let features: Vec<Feature> = needs.0.iter().map(|need| need.feature).collect();
    let expected =
        [Feature::ShaderInt64, Feature::ShaderBufferInt64Atomics, Feature::SubgroupBasic, Feature::SubgroupArithmetic];
    assert!(expected.iter().all(|feature| features.contains(feature)), "{features:?}");
    assert!(!features.contains(&Feature::ShaderSharedInt64Atomics), "only buffers have 64-bit atomics here");
    needs.check(|_| true).unwrap();
    let fault = needs.check(|feature| feature != Feature::ShaderInt64).unwrap_err();
    assert_eq!(fault.code, Code::Unsupported);
    assert!(fault.message.contains("Int64") && fault.message.contains("shaderInt64"), "{}", fault.message);
    let fault = needs.check(|feature| feature != Feature::SubgroupArithmetic).unwrap_err();
    assert!(fault.message.contains("GroupNonUniformArithmetic"), "{}", fault.message);
}

#[test]
fn a_capability_outside_the_table_is_unsupported() {
    const KERNEL: u32 = 6;
    let kernel = edited(&load("scale"), |op, words| {
        if op == OP_CAPABILITY {
            words.extend([2 << 16 | OP_CAPABILITY, KERNEL]);
        }
    });
    rejected(&kernel, Code::Unsupported, "the capability Kernel");
}

/// The module with one more instruction behind each of the kind.
fn with_instruction(code: &[u8], behind: u32, instruction: &[u32]) -> Vec<u8> {
    edited(code, |op, words| {
        if op == behind {
            words.extend_from_slice(instruction);
        }
    })
}

#[test]
fn an_extension_outside_the_table_is_unsupported() {
    const OP_EXTENSION: u32 = 10;
    for (name, known) in [("SPV_KHR_16bit_storage", true), ("SPV_KHR_subgroup_uniform_control_flow", false)] {
        let mut text = name.as_bytes().to_vec();
        text.resize(text.len() / 4 * 4 + 4, 0);
        let text = to_words(&text);
        let extension = [&[(text.len() as u32 + 1) << 16 | OP_EXTENSION], &text[..]].concat();
        let code = with_instruction(&load("scale"), OP_CAPABILITY, &extension);
        match known {
            true => assert_eq!(accepted(&code).info, accepted(&load("scale")).info),
            false => drop(rejected(&code, Code::Unsupported, "the extension SPV_KHR_subgroup_uniform_control_flow")),
        }
    }
}

#[test]
fn an_execution_mode_without_capability_is_unsupported() {
    const OP_EXECUTION_MODE: u32 = 16;
    const SUBGROUP_UNIFORM_CONTROL_FLOW: u32 = 4421;
    const DERIVATIVE_GROUP_LINEAR: u32 = 5290;
    let code = load("scale");
    let mut entry = 0;
    edited(&code, |op, words| {
        if op == OP_EXECUTION_MODE {
            entry = words[1];
        }
    });
    for (mode, name) in
        [(SUBGROUP_UNIFORM_CONTROL_FLOW, "SubgroupUniformControlFlowKHR"), (DERIVATIVE_GROUP_LINEAR, "DerivativeGroup")]
    {
        let code = with_instruction(&code, OP_EXECUTION_MODE, &[3 << 16 | OP_EXECUTION_MODE, entry, mode]);
        rejected(&code, Code::Unsupported, name);
        refused(inspect(&KernelSource { trusted: true, ..source(&code) }, &roomy()), Code::Unsupported, name);
    }
}

#[test]
fn a_set_of_extended_instructions_outside_the_table_is_unsupported() {
    const OP_EXT_INST_IMPORT: u32 = 11;
    let named = |name: &[u8]| {
        let text = to_words(name);
        let mut bound = 0;
        let mut code = edited(&load("scale"), |op, words| {
            if op == OP_CAPABILITY {
                bound = 0x3000;
                words.extend([(text.len() as u32 + 2) << 16 | OP_EXT_INST_IMPORT, bound]);
                words.extend_from_slice(&text);
            }
        });
        code[12..16].copy_from_slice(&(bound + 1).to_le_bytes());
        code
    };
    rejected(&named(b"SPV_AMD_shader_trinary_minmax\0\0\0"), Code::Unsupported, "\"SPV_AMD_shader_trinary_minmax\"");
    rejected(&named(b"OpenCL.std\0\0"), Code::Unsupported, "\"OpenCL.std\"");
    accepted(&named(b"GLSL.std.450\0\0\0\0"));
}

#[test]
fn only_storage_buffers_are_bound() {
    for (name, words) in [
        ("image", "\"picture\" is an image"),
        ("sampled", "\"picture\" is an image with a sampler"),
        ("texel", "\"texels\" is a texel buffer"),
        ("uniform", "\"settings\" is a uniform buffer"),
        ("array", "\"targets\" is an array of descriptors"),
        ("runtime_array", "RuntimeDescriptorArray"),
        ("address", "by address"),
    ] {
        let rejected = rejected(&load(name), Code::Unsupported, words);
        let target = rejected.info.unwrap().bindings.iter().any(|binding| binding.binding == 0);
        assert!(target, "{name} still has a buffer at binding 0");
    }
    assert_eq!(accepted(&load("unused_image")).info.bindings.len(), 1);
}

/// With the flag that launches declare their uses.
fn reaching(code: &[u8], limits: &ModuleLimits, constants: &[(u32, u32)]) -> Result<Module, Rejected> {
    inspect(&KernelSource { declares_uses: true, constants, ..source(code) }, limits)
}

#[test]
fn memory_is_reached_by_address_where_launches_declare_their_uses() {
    for (name, access, push_size) in [("address", Access::Read, 0), ("list", Access::MayWrite, 12)] {
        rejected(&load(name), Code::Unsupported, "by address");
        let Module { info, needs, .. } = reaching(&load(name), &roomy(), &[]).unwrap();
        assert_eq!((info.bindings[0].access, info.push_size), (access, push_size), "{name}");
        let fault = needs.check(|feature| feature != Feature::BufferDeviceAddress).unwrap_err();
        assert_eq!(fault.code, Code::Unsupported);
        assert!(fault.message.contains("bufferDeviceAddress"), "{}", fault.message);
        needs.check(|feature| feature == Feature::BufferDeviceAddress).unwrap();
    }
}

#[test]
fn a_buffer_that_ends_in_addresses_is_no_array_of_descriptors() {
    rejected(&load("table"), Code::Unsupported, "a list of addresses");
    let Module { info, needs, .. } = reaching(&load("table"), &roomy(), &[]).unwrap();
    assert_eq!(info.bindings.iter().map(|b| b.access).collect::<Vec<_>>(), [Access::Read, Access::MayWrite]);
    let fault = needs.check(|feature| feature != Feature::RuntimeDescriptorArray).unwrap_err();
    assert_eq!(fault.code, Code::Unsupported);
    assert!(fault.message.contains("runtimeDescriptorArray"), "{}", fault.message);
}

#[test]
fn the_addressing_model_alone_needs_the_device_to_have_addresses() {
    // What a validator would refuse, from a caller who vouches for it.
    const PHYSICAL_STORAGE_BUFFER_ADDRESSES: u32 = 5347;
    let code = edited(&load("list"), |op, words| {
        if op == OP_CAPABILITY && words[1] == PHYSICAL_STORAGE_BUFFER_ADDRESSES {
            words.clear();
        }
    });
    let source = KernelSource { declares_uses: true, trusted: true, ..source(&code) };
    let needs = inspect(&source, &roomy()).unwrap().needs;
    assert!(needs.check(|feature| feature != Feature::BufferDeviceAddress).is_err());
    refused(inspect(&KernelSource { declares_uses: false, ..source }, &roomy()), Code::Unsupported, "by address");
}

#[test]
fn each_element_of_an_array_of_buffers_is_a_binding() {
    let code = load("arrays");
    let places = |info: &KernelInfo| -> Vec<(u32, u32, u32, Access)> {
        info.bindings.iter().map(|b| (b.set, b.binding, b.element, b.access)).collect()
    };
    let Module { info, needs, .. } = reaching(&code, &roomy(), &[]).unwrap();
    let expected = [
        (0, 0, 0, Access::Read),
        (0, 0, 1, Access::Read),
        // Stored, but in which of them is not known.
        (0, 1, 0, Access::MayWrite),
        (0, 1, 1, Access::MayWrite),
        (0, 1, 2, Access::MayWrite),
        (0, 4, 0, Access::MayWrite),
        (1, 0, 0, Access::ReadWrite),
    ];
    assert_eq!(places(&info), expected);
    assert_eq!(&*info.bindings[4].name, "targets");
    let feature = Feature::ShaderStorageBufferArrayNonUniformIndexing;
    assert!(needs.check(|other| other != feature).unwrap_err().message.contains("NonUniformIndexing"));
    let longer = reaching(&code, &roomy(), &[(0, 5)]).unwrap().info;
    assert_eq!(longer.bindings.len(), 9);
    refused(reaching(&code, &roomy(), &[(0, 0)]), Code::InvalidShader, "no elements");
}

#[test]
fn arrays_of_buffers_are_held_to_the_limits() {
    let code = load("arrays");
    let limits = ModuleLimits { max_bindings: 6, ..roomy() };
    let few = refused(reaching(&code, &limits, &[]), Code::LimitExceeded, "binds 7 buffers; the device binds 6");
    assert_eq!(few.info.unwrap().bindings.len(), 6);
    // However many a constant asks for, no more are listed than the device binds.
    let many = refused(reaching(&code, &roomy(), &[(0, u32::MAX)]), Code::LimitExceeded, "binds 4294967299 buffers");
    assert_eq!(many.info.unwrap().bindings.len(), 16);
}

#[test]
fn what_declared_uses_do_not_help() {
    for (name, words) in [
        ("image", "\"picture\" is an image"),
        ("sampled", "\"picture\" is an image with a sampler"),
        ("texel", "\"texels\" is a texel buffer"),
        ("uniform", "\"settings\" is a uniform buffer"),
        ("runtime_array", "\"targets\" is an array of descriptors without a length"),
    ] {
        refused(reaching(&load(name), &roomy(), &[]), Code::Unsupported, words);
    }
    let kept = reaching(&load("scale"), &roomy(), &[]).unwrap();
    assert_eq!(kept.info, accepted(&load("scale")).info);
    assert_eq!(reaching(&load("array"), &roomy(), &[]).unwrap().info.bindings.len(), 2);
}

#[test]
fn bytes_that_are_no_module_are_named_for_what_they_are() {
    let code = load("scale");
    rejected(&[], Code::InvalidShader, "empty");
    rejected(&code[..code.len() - 1], Code::InvalidShader, "no whole number of words");
    rejected(&code[..1], Code::InvalidShader, "no whole number of words");
    rejected(&code[..16], Code::InvalidShader, "shorter than its header");
    rejected(&code[..20], Code::InvalidShader, "");
    rejected(&code[..code.len() - 8], Code::InvalidShader, "");
    rejected(b"#version 450\nvoid main() {}\n", Code::InvalidShader, "begins with");
    let change = |at: usize, word: u32| {
        let mut words = to_words(&code);
        words[at] = word;
        to_bytes(&words)
    };
    rejected(&change(0, 0x0723_0204), Code::InvalidShader, "0x07230204");
    rejected(&change(1, 0x0001_0600), Code::Unsupported, "SPIR-V 1.6");
    rejected(&change(1, 0x0100_0000), Code::InvalidShader, "version");
    rejected(&change(3, 0), Code::InvalidShader, "bound");
    rejected(&change(3, u32::MAX), Code::InvalidShader, "bound");
    rejected(&change(3, 5), Code::InvalidShader, "");
    rejected(&change(4, 1), Code::InvalidShader, "reserved");
    rejected(&change(5, 0), Code::InvalidShader, "no length");
    rejected(&change(5, 0xFFFF_0011), Code::InvalidShader, "ends inside");
}

#[test]
fn a_module_of_the_other_byte_order_is_turned_around() {
    let code = load("scale");
    let swapped: Vec<u8> = code.chunks_exact(4).flat_map(|word| word.iter().rev().copied()).collect();
    let (module, same) = (accepted(&swapped), accepted(&code));
    assert_eq!(module.words, same.words);
    assert_eq!(module.info, same.info);
}

#[test]
fn descriptors_outside_the_layout_are_refused() {
    let code = load("scale");
    for trusted in [false, true] {
        let check = |code: &[u8], expected: Code, words: &str| {
            refused(inspect(&KernelSource { trusted, ..source(code) }, &roomy()), expected, words);
        };
        if trusted {
            check(&without_decoration(&code, BINDING), Code::InvalidShader, "outside the layout");
            check(&without_decoration(&code, DESCRIPTOR_SET), Code::InvalidShader, "outside the layout");
            check(&without_decoration(&code, BLOCK), Code::InvalidShader, "outside the layout");
            check(&without_decoration(&code, BUILT_IN), Code::InvalidShader, "is an input");
        } else {
            check(&without_decoration(&code, BINDING), Code::InvalidShader, "");
            check(&without_decoration(&code, DESCRIPTOR_SET), Code::InvalidShader, "");
            check(&without_decoration(&code, BLOCK), Code::InvalidShader, "");
            check(&without_decoration(&code, BUILT_IN), Code::InvalidShader, "");
        }
        check(&with_decoration_value(&code, BINDING, 0x4000_0000), Code::InvalidShader, "outside the layout");
        check(&with_decoration_value(&code, DESCRIPTOR_SET, 4), Code::LimitExceeded, "outside the layout");
    }
    // A variable that nothing uses passes the validator undecorated.
    let unused = {
        let access = load("access");
        let mut never = 0;
        edited(&access, |op, words| {
            if op == OP_DECORATE && words[2] == BINDING && words[3] == 6 {
                never = words[1];
            }
        });
        edited(&access, |op, words| {
            if op == OP_DECORATE && words[1] == never {
                words.clear();
            }
        })
    };
    rejected(&unused, Code::InvalidShader, "\"never\" uses a descriptor outside the layout");
}

#[test]
fn a_built_in_of_another_type_is_refused() {
    const LOCAL_INVOCATION_INDEX: u32 = 29;
    const GLOBAL_INVOCATION_ID: u32 = 28;
    let scalar = edited(&load("scale"), |op, words| {
        if op == OP_DECORATE && words[2] == BUILT_IN && words[3] == GLOBAL_INVOCATION_ID {
            words[3] = LOCAL_INVOCATION_INDEX;
        }
    });
    rejected(&scalar, Code::InvalidShader, "LocalInvocationIndex");
}

#[test]
fn more_bindings_than_the_device_has_are_a_limit() {
    let limits = ModuleLimits { max_bindings: 8, ..roomy() };
    let rejected = refused(inspect(&source(&load("access")), &limits), Code::LimitExceeded, "9 buffers");
    assert_eq!(rejected.info.unwrap().bindings.len(), 9);
}

#[test]
fn an_invalid_module_is_believed_only_where_it_promises() {
    assert!(validator_available(), "these tests need a build that found SPIRV-Tools");
    // Without its stores the target would seem untouched.
    let code = load("scale");
    let storeless = edited(&code, |op, words| {
        if op == OP_STORE {
            words[1] = 1;
        }
    });
    let info = rejected(&storeless, Code::InvalidShader, "not valid").info.unwrap();
    assert_eq!(access(&info, "source"), Access::Read);
    assert_eq!(access(&info, "target"), Access::ReadWrite);
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// The module with one word changed: to another word of it, by one bit, by a little, or to anything.
    fn mutant(&mut self, words: &[u32]) -> Vec<u8> {
        let mut words = words.to_vec();
        let (at, other) = (self.next() as usize % words.len(), self.next() as usize % words.len());
        words[at] = match self.next() % 4 {
            0 => words[other],
            1 => words[at] ^ 1 << (self.next() % 32),
            2 => words[at].wrapping_add(self.next() % 5).wrapping_sub(2),
            _ => self.next() << 1 | self.next() & 1,
        };
        to_bytes(&words)
    }
}

#[test]
fn mutants_are_refused_with_a_reason_or_are_valid() {
    assert!(validator_available(), "these tests need a build that found SPIRV-Tools");
    let words = to_words(&load("scale"));
    let mut numbers = Numbers(1);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutant.spv");
    let (mut passed, mut failed) = (0, 0);
    for _ in 0..300 {
        let mutant = numbers.mutant(&words);
        match inspect(&source(&mutant), &roomy()) {
            Ok(module) => {
                passed += 1;
                fs::write(&file, to_bytes(&module.words)).unwrap();
                let mut validator = Command::new("spirv-val");
                let status = validator.args(["--target-env", "vulkan1.2"]).arg(&file).status();
                assert!(status.expect("spirv-val comes with SPIRV-Tools").success());
            }
            Err(rejected) => {
                failed += 1;
                assert!(!rejected.fault.message.is_empty());
                assert_eq!(rejected.fault.code.kind(), tidegate::code::Kind::Failure);
            }
        }
    }
    assert!(passed > 20 && failed > 150, "{passed} passed and {failed} failed: these are no mutants");
}

#[test]
fn nothing_panics_without_the_validator_in_front() {
    let mut numbers = Numbers(2);
    let trusted = |code: &[u8]| {
        if let Err(rejected) = inspect(&KernelSource { trusted: true, declares_uses: true, ..source(code) }, &roomy()) {
            let gave_up = rejected.fault.message.contains("the parser gave up");
            assert!(!gave_up, "a panic was caught on the way");
        }
    };
    for name in ["scale", "specialized", "pointers", "push", "two_entries", "scale_old_style", "arrays", "list"] {
        let code = load(name);
        let words = to_words(&code);
        for _ in 0..300 {
            trusted(&numbers.mutant(&words));
        }
        for length in (0..code.len()).step_by(4) {
            trusted(&code[..length]);
        }
    }
}

#[test]
fn a_module_of_absurd_size_is_refused_unread() {
    let mut code = load("access");
    code.resize((16 << 20) + 4, 0);
    rejected(&code, Code::LimitExceeded, "16777220 bytes");
}
