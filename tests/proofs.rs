//! What modules prove of the bytes they write: the shapes that must be proven, and those that must not.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use tidegate::failure::Access;
use tidegate::stream::backend::{KernelInfo, KernelSource};
use tidegate::stream::coverage::LaunchFacts;
use tidegate::vulkan::spirv::{ModuleLimits, inspect};

/// A kernel as each compiler left it.
struct Kernel {
    versions: Vec<(String, KernelInfo)>,
}

fn info(path: &Path, constants: &[(u32, u32)]) -> KernelInfo {
    let limits = ModuleLimits {
        max_bindings: 32,
        max_group_size: [1024, 1024, 64],
        max_group_invocations: 1024,
        scalar_block_layout: true,
        local_size_id: true,
        ..ModuleLimits::default()
    };
    let code = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let source =
        KernelSource { code: &code, entry: "main", constants, label: "", trusted: false, declares_uses: false };
    inspect(&source, &limits).unwrap_or_else(|rejected| panic!("{}: {}", path.display(), rejected.fault.message)).info
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The versions of a kernel: as it is compiled, made small, and for the first Vulkan.
fn kernel_with(name: &str, constants: &[(u32, u32)]) -> Kernel {
    let folder = root().join("tests/data/coverage");
    let versions = [".spv", ".small.spv", ".old.spv"].map(|end| format!("{name}{end}"));
    let found = versions.into_iter().filter(|version| folder.join(version).exists());
    let versions: Vec<_> = found.map(|version| (version.clone(), info(&folder.join(&version), constants))).collect();
    assert!(!versions.is_empty(), "{name}");
    Kernel { versions }
}

fn kernel(name: &str) -> Kernel {
    kernel_with(name, &[])
}

/// What a launch gives.
#[derive(Clone)]
struct Launch {
    groups: [u32; 3],
    push: Vec<u8>,
    /// Bytes of every slice but those that are named.
    size: u64,
    sizes: HashMap<&'static str, u64>,
}

fn launch(groups: [u32; 3], push: &[u32], size: u64) -> Launch {
    let push = push.iter().flat_map(|word| word.to_le_bytes()).collect();
    Launch { groups, push, size, sizes: HashMap::new() }
}

fn covered(info: &KernelInfo, name: &str, launch: &Launch) -> Range<u64> {
    let binding = info.bindings.iter().find(|binding| &*binding.name == name);
    let binding = binding.unwrap_or_else(|| panic!("no {name}"));
    let size = |name: &str| launch.sizes.get(name).copied().unwrap_or(launch.size);
    let sizes = |at: usize| info.bindings.get(at).map(|binding| size(&binding.name));
    let Launch { groups, ref push, .. } = *launch;
    let facts = LaunchFacts { groups, push, slice_size: size(name), sizes: &sizes };
    match &binding.coverage {
        Some(coverage) => {
            assert_eq!(binding.access, Access::MayWrite, "{name}");
            coverage.covered(&facts)
        }
        None => 0..0,
    }
}

#[track_caller]
fn expect(kernel: &Kernel, launch: &Launch, expected: &[(&str, Range<u64>)]) {
    let mut wrong = String::new();
    for (version, info) in &kernel.versions {
        for (name, range) in expected {
            let found = covered(info, name, launch);
            if found != *range {
                wrong += &format!("{version}: {name} is covered in {found:?}, not in {range:?}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn guards_of_one_dimension_are_understood() {
    // 96 invocations; n = 40, flag = 1, first = 3, signed_n = 20.
    let one = launch([3, 1, 1], &[40, 1, 3, 20], 1000);
    expect(
        &kernel("guards"),
        &one,
        &[
            ("Whole", 0..384),
            ("Less", 0..160),
            ("LessOrEqual", 0..164),
            ("Mirrored", 0..160),
            ("Early", 0..160),
            ("Signed", 0..80),
            ("OwnLength", 0..384),
            ("OtherLength", 0..384),
            ("Constant", 0..200),
            ("Nested", 0..160),
            ("Joined", 0..160),
            ("Window", 12..160),
            ("Shifted", 12..172),
            ("Optional", 0..384),
            ("NotFirst", 0..380),
            ("Clamped", 0..164),
        ],
    );
    // No flag, no bound that the grid meets, short slices.
    let other = launch([3, 1, 1], &[1000, 0, 0, -1i32 as u32], 130);
    expect(
        &kernel("guards"),
        &other,
        &[
            ("Whole", 0..128),
            ("Less", 0..128),
            ("Early", 0..128),
            ("Signed", 0..0),
            ("OwnLength", 0..128),
            ("OtherLength", 0..128),
            ("Constant", 0..128),
            ("Nested", 0..0),
            ("Joined", 0..128),
            ("Window", 0..128),
            ("Optional", 0..0),
            ("Clamped", 0..128),
        ],
    );
    let mut lengths = one.clone();
    lengths.sizes.extend([("OwnLength", 47), ("OtherLength", 1000), ("Less", 3)]);
    expect(&kernel("guards"), &lengths, &[("OwnLength", 0..44), ("OtherLength", 0..44), ("Less", 0..0)]);
    expect(&kernel_with("guards", &[(0, 7)]), &one, &[("Constant", 0..28), ("Nested", 0..28), ("Joined", 0..28)]);
    // Sums that wrap around.
    let beyond = launch([3, 1, 1], &[u32::MAX, 1, u32::MAX - 10, i32::MAX as u32], 1000);
    expect(&kernel("guards"), &beyond, &[("Less", 0..384), ("Shifted", 0..0), ("Window", 0..0), ("Signed", 0..384)]);
}

#[test]
fn rows_are_covered_if_they_leave_no_gap() {
    // 16 x 8 x 2 invocations.
    let kernel = kernel("rows");
    let exact = launch([2, 2, 1], &[16, 8, 2, 1000], 4096);
    expect(
        &kernel,
        &exact,
        &[
            ("Plain", 0..512),
            ("Picture", 0..512),
            ("Volume", 0..1024),
            ("Constant", 0..512),
            ("Index", 0..512),
            ("Grid", 0..512),
            ("Vector", 0..512),
            ("Columns", 0..512),
            ("Reversed", 4096 - 512 - 96..4096 - 96),
            ("Parts", 0..64),
            ("Groups", 0..8),
            ("Local", 0..512),
            ("OneSide", 0..512),
            ("Big", 0..0),
        ],
    );
    // Less of everything than the grid reaches.
    let guarded = launch([2, 2, 1], &[13, 5, 1, 70], 4096);
    expect(
        &kernel,
        &guarded,
        &[
            // Rows overlap; nothing is left out.
            ("Plain", 0..428),
            ("Picture", 0..260),
            ("Volume", 0..260),
            ("Index", 0..280),
            ("Vector", 0..260),
            ("Columns", 0..260),
            ("Reversed", 0..280),
            ("OneSide", 0..416),
        ],
    );
    // Rows longer than the grid is wide leave gaps, unless there is only one.
    let wide = launch([2, 2, 1], &[17, 8, 2, 1000], 4096);
    expect(
        &kernel,
        &wide,
        &[("Plain", 0..0), ("Picture", 0..0), ("Volume", 0..0), ("Index", 0..0), ("Vector", 0..0), ("OneSide", 0..0)],
    );
    let row = launch([2, 1, 1], &[17, 1, 1, 1000], 4096);
    expect(&kernel, &row, &[("Picture", 0..64), ("Vector", 0..64), ("Volume", 0..64)]);
    // A slice that ends in a row.
    let short = launch([2, 2, 1], &[16, 8, 2, 1000], 301);
    expect(&kernel, &short, &[("Plain", 0..300), ("Picture", 0..300), ("Volume", 0..300), ("Index", 0..300)]);
    // Indices that wrap around.
    let beyond = launch([2, 2, 1], &[1 << 30, 8, 2, 1000], 4096);
    expect(&kernel, &beyond, &[("Plain", 0..0), ("Picture", 0..0), ("Index", 0..0)]);
    let layers = launch([64, 128, 2], &[512, 512, 4, 1000], 1 << 24);
    expect(&kernel, &layers, &[("Big", 0..1 << 22), ("Picture", 0..1 << 20), ("Volume", 0..1 << 22)]);
}

#[test]
fn an_element_counts_if_all_of_it_is_stored() {
    let sixty_four = launch([2, 1, 1], &[50, 0], 1 << 16);
    expect(
        &kernel("elements"),
        &sixty_four,
        &[
            ("Vec4", 0..1024),
            ("Components", 0..1024),
            ("SomeComponents", 0..0),
            ("Vec3", 0..0),
            ("Scalar", 0..768),
            ("Boxes", 0..1024),
            ("SomeBoxes", 0..0),
            ("Struct", 0..1024),
            ("Hollows", 0..0),
            // The header is a range of its own, and the shorter one: `capacity` is never stored.
            ("header", 8..208),
            ("Bytes", 0..64),
            ("Halves", 0..128),
            ("Fixed", 0..160),
            ("Matrices", 0..4096),
            ("Spaced", 0..0),
        ],
    );
    // An element that does not fit as a whole.
    let short = launch([2, 1, 1], &[50, 0], 47);
    expect(
        &kernel("elements"),
        &short,
        &[("Vec4", 0..32), ("Scalar", 0..36), ("Boxes", 0..32), ("Bytes", 0..47), ("Halves", 0..46)],
    );
}

#[test]
fn a_store_counts_if_no_path_leaves_it_out() {
    let all = 0..256;
    expect(
        &kernel("paths"),
        &launch([2, 1, 1], &[4, 3], 4096),
        &[
            ("Both", all.clone()),
            ("OneSide", 0..0),
            ("Switch", all.clone()),
            ("SomeCases", 0..0),
            ("AfterLoop", all.clone()),
            ("InLoop", 0..0),
            ("DoLoop", all.clone()),
            ("Early", 0..0),
            ("Scattered", 0..0),
            ("Twice", all.clone()),
            ("Hit", 0..0),
            ("Total", 0..4),
            ("Each", 0..0),
            ("Strided", 0..0),
            ("Break", all),
        ],
    );
}

#[test]
fn loads_of_what_the_same_invocation_stored_do_not_make_a_reader() {
    let kernel = kernel("own");
    for (version, info) in &kernel.versions {
        let access = |name: &str| info.bindings.iter().find(|binding| &*binding.name == name).unwrap().access;
        for name in ["Own", "Guarded", "Members", "Scattered", "InLoop"] {
            assert_eq!(access(name), Access::MayWrite, "{version}: {name}");
        }
        for name in ["OtherMember", "Neighbour", "Before", "Sometimes", "Counted", "Rows"] {
            assert_eq!(access(name), Access::ReadWrite, "{version}: {name}");
        }
    }
    expect(
        &kernel,
        &launch([2, 1, 1], &[50, 3], 4096),
        &[("Own", 0..256), ("Guarded", 0..200), ("Members", 0..512), ("Scattered", 0..0), ("InLoop", 0..0)],
    );
}

#[test]
fn group_sizes_may_be_specialization_constants() {
    let two = launch([2, 1, 1], &[], 4096);
    expect(&kernel("sizes"), &two, &[("Plain", 0..8), ("Parts", 0..8), ("Strided", 0..16)]);
    let large = kernel_with("sizes", &[(0, 16), (1, 2)]);
    expect(&large, &two, &[("Plain", 0..128), ("Parts", 0..128), ("Strided", 0..256)]);
    expect(&kernel_with("sizes", &[(0, 16), (2, 2)]), &two, &[("Plain", 0..128), ("Strided", 0..0)]);
}

#[test]
fn elements_that_one_invocation_stores_are_put_together() {
    let groups = launch([2, 1, 1], &[100], 4096);
    expect(&kernel("wide"), &groups, &[("Four", 0..1024), ("Guarded", 0..400), ("Three", 0..0), ("Unrolled", 0..1024)]);
    // The guard lets through whole fours only.
    expect(&kernel("wide"), &launch([2, 1, 1], &[102], 4096), &[("Guarded", 0..400)]);
}

#[test]
fn where_the_data_says_which_bytes_nothing_is_proven() {
    let kernel = kernel("scatter");
    expect(&kernel, &launch([2, 1, 1], &[], 4096), &[("Cache", 0..0)]);
    for (_, info) in &kernel.versions {
        assert_eq!(info.bindings[2].access, Access::MayWrite);
        assert_eq!(info.bindings[2].coverage, None);
    }
}

/// Another compiler: values in variables, and indices that it clamps or guards itself.
#[test]
fn a_part_that_is_chosen_is_known_only_where_its_condition_holds() {
    // flag and n; then the bytes that are written by the local array and by the built-in.
    let cases = [([0, 64], 0..256, 0..256), ([1, 64], 256..512, 0..4)];
    for (push, local, input) in cases {
        let one = launch([1, 1, 1], &push, 512);
        for (version, info) in &kernel("chosen").versions {
            for (name, written) in [("Local", &local), ("Input", &input)] {
                let found = covered(info, name, &one);
                let is_true = found.is_empty() || (written.start <= found.start && found.end <= written.end);
                assert!(is_true, "{version}: {name} with {push:?} is covered in {found:?}, and written in {written:?}");
            }
        }
    }
}

#[test]
fn what_naga_makes_of_a_kernel_is_proven() {
    for version in ["naga", "naga_restrict", "naga_skip"] {
        let mut four = launch([2, 2, 1], &[], 1000);
        four.sizes.insert("source", 40);
        let kernel = kernel(version);
        expect(&kernel, &four, &[("less", 0..40), ("whole", 0..64), ("joined", 0..256), ("picture", 0..992)]);
        expect(&kernel, &four, &[("both", 0..40)]);
    }
}

/// Of the kernels in the tree: which bindings are proven, for the launches they are made for.
#[test]
fn the_kernels_of_the_tree_are_proven() {
    let check = |path: &str, launch: Launch, expected: &[(&str, Range<u64>)]| {
        let kernel = Kernel { versions: vec![(path.to_owned(), info(&root().join(path), &[]))] };
        expect(&kernel, &launch, expected);
    };
    let words = |count: u64| 0..4 * count;
    let picture = launch([2, 2, 1], &[30, 20], 4 * 600);
    for (name, binding) in [("composite", "Composite"), ("sobel", "Edges"), ("tone", "Toned")] {
        check(&format!("examples/shaders/{name}.spv"), picture.clone(), &[(binding, words(600))]);
    }
    check(
        "examples/shaders/blur_vertical.spv",
        launch([2, 2, 1], &[30, 99, 0, 20, 3], 2400),
        &[("Blurred", words(600))],
    );
    check(
        "examples/shaders/blur_horizontal.spv",
        launch([2, 2, 1], &[30, 99, 0, 20, 3], 12480),
        &[("Scratch", 0..12480)],
    );
    check("examples/shaders/double.spv", launch([2, 1, 1], &[], 400), &[("Doubled", words(100))]);
    // Four levels by each invocation, in a loop: its descriptor says that it writes all of them.
    check("examples/shaders/tone_curve.spv", launch([1, 1, 1], &[30, 20], 1024), &[("Curve", 0..0)]);
    check("c_tests/shaders/past_end.spv", launch([2, 1, 1], &[100, 9], 400), &[("To", words(100))]);
    check("tests/vulkan_backend/scale.spv", launch([2, 1, 1], &[2, 90], 400), &[("target", words(90))]);
    check("tests/vulkan_backend/stray.spv", launch([1, 1, 1], &[5], 400), &[("target", 20..24)]);
    check("c_tests/shaders/add.spv", launch([2, 1, 1], &[100], 400), &[("To", words(100))]);
    check("c_tests/shaders/scale.spv", launch([2, 1, 1], &[100, 2], 400), &[("To", words(100))]);
    check("c_tests/shaders/store.spv", launch([2, 1, 1], &[100, 2], 400), &[("To", words(100))]);
    check("c_tests/shaders/row.spv", launch([2, 1, 1], &[25, 50, 2], 400), &[("table", 100..300)]);
    check("c_tests/shaders/constants.spv", launch([100, 1, 1], &[], 400), &[("To", words(100))]);
    check("benches/shaders/increment.spv", launch([2, 1, 1], &[], 400), &[("To", words(100))]);
    for name in ["affine", "mix", "store"] {
        check(&format!("tests/data/oracle/{name}.spv"), launch([8, 1, 1], &[3, 4], 400), &[("To", words(100))]);
    }
    check("tests/data/oracle/split.spv", launch([8, 1, 1], &[3, 4], 400), &[("X", words(100)), ("Y", words(100))]);
    check("tests/data/oracle/row.spv", launch([1, 1, 1], &[3, 4], 400), &[("Table", 12..28)]);
    check("tests/data/oracle/scatter.spv", launch([8, 1, 1], &[1, 4], 400), &[("To", words(100))]);
    check("tests/data/oracle/scatter.spv", launch([8, 1, 1], &[2, 4], 400), &[("To", 0..0)]);
}
