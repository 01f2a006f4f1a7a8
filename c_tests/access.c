/* What launches write that nobody declared anything of: right bytes or none, and what to declare. */
#include "tg_test.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 64 };

static tg_binding_info binding_of(tg_device dev, tg_kernel asked, uint32_t binding) {
    static tg_binding_info bindings[8];
    tg_kernel_info info = TG_KERNEL_INFO_INIT;
    info.bindings = bindings;
    info.binding_capacity = 8;
    REQUIRE_OK(tg_kernel_get_info(dev, asked, &info));
    REQUIRE(binding < info.binding_count);
    return bindings[binding];
}

static void expect_basis(tg_device dev, tg_kernel asked, uint32_t binding, uint32_t access, uint32_t basis) {
    const tg_binding_info info = binding_of(dev, asked, binding);
    CHECK_EQ_INT(info.access, access);
    CHECK_EQ_INT(info.basis, basis);
}

/* The slice cannot be read, because of this root alone. */
static void expect_root(tg_device dev, tg_slice slice, size_t words, uint64_t root) {
    uint64_t roots[2] = {0};
    CHECK_UNWRITTEN(dev, 0, slice, words);
    CHECK_EQ_INT(roots_of(dev, slice, roots, 2), 1);
    CHECK_EQ_INT(roots[0], root);
}

static tg_buffer source(tg_device dev) {
    tg_buffer from = buffer(dev, "from", WORDS);
    write_words(dev, 0, whole(from), WORDS, 0, 1);
    return from;
}

/* A launch over claimed bytes runs, proves none of them, and the report says what to declare. */
static void expect_unproven(tg_device dev, tg_kernel asked, const tg_use *bindings, size_t count, uint32_t output,
                            const void *push, size_t push_size) {
    const tg_slice to = bindings[output].slice;
    const uint64_t root = taint(dev, to, 1, "claimed before");
    CHECK_RESULT(launch(dev, 0, asked, bindings, count, push, push_size, 32), TG_OK);
    expect_root(dev, to, WORDS, root);
    tg_report report = last_report();
    REQUIRE(report_failure(report, 0).step_count == 1);
    const tg_step_info step = report_step(report, 0, 0);
    CHECK_EQ_INT(step.kind, TG_STEP_UNPROVEN_WRITE);
    CHECK_EQ_INT(step.count, 1);
    CHECK_CONTAINS(report_text(report), "nothing proves that it wrote them");
    CHECK_CONTAINS(report_text(report), "declare TG_ACCESS_WRITE");
    CHECK_CONTAINS(report_json(report), "\"unproven_write\"");
    tg_report_release(report);
    /* The caller's word releases. */
    tg_use declared[8];
    memcpy(declared, bindings, count * sizeof *bindings);
    declared[output].access = TG_ACCESS_WRITE;
    CHECK_RESULT(launch(dev, 0, asked, declared, count, push, push_size, 32), TG_OK);
    uint64_t left = 1;
    REQUIRE_OK(tg_first_failure(dev, &to, 1, &left));
    CHECK_EQ_INT(left, 0);
    /* A skip claims the whole slice, and a repair of the input alone does not bring it back. */
    const uint64_t input = taint(dev, bindings[0].slice, 1, "input");
    CHECK_RESULT(launch(dev, 0, asked, bindings, count, push, push_size, 32), TG_SKIPPED);
    write_words(dev, 0, bindings[0].slice, WORDS, 0, 1);
    CHECK_RESULT(launch(dev, 0, asked, bindings, count, push, push_size, 32), TG_OK);
    expect_root(dev, to, WORDS, input);
    report = last_report();
    REQUIRE(report_failure(report, 0).step_count == 2);
    CHECK_EQ_INT(report_step(report, 0, 0).kind, TG_STEP_SKIP);
    CHECK_EQ_INT(report_step(report, 0, 1).kind, TG_STEP_UNPROVEN_WRITE);
    tg_report_release(report);
}

/* Fresh bytes that carry a root are what they were before an unproven launch. */
static void expect_never_written(const char *name, size_t count, uint32_t output, const void *push, size_t push_size) {
    tg_device_desc desc = test_device_desc();
    desc.flags |= TG_DEVICE_TRACK_UNINITIALIZED;
    tg_device dev = test_device_with(&desc);
    tg_use bindings[4];
    for (size_t i = 0; i < count; i++) bindings[i] = use(whole(i == output ? buffer(dev, "to", WORDS) : source(dev)), TG_ACCESS_AUTO);
    CHECK_RESULT(launch(dev, 0, kernel(dev, name), bindings, count, push, push_size, 32), TG_OK);
    CHECK_UNWRITTEN(dev, 0, bindings[output].slice, WORDS);
    tg_report report = last_report();
    CHECK_EQ_INT(report_failure(report, 0).code, TG_ERROR_NEVER_WRITTEN);
    tg_report_release(report);
}

TEST(a_scatter_releases_nothing) {
    tg_device dev = test_device();
    const tg_use bindings[] = {use(whole(source(dev)), TG_ACCESS_AUTO), use(whole(source(dev)), TG_ACCESS_AUTO),
                               use(whole(buffer(dev, "cache", WORDS)), TG_ACCESS_AUTO)};
    tg_kernel scatter = kernel(dev, "scatter");
    expect_basis(dev, scatter, 2, TG_ACCESS_MAY_WRITE, TG_BASIS_INFERRED);
    expect_unproven(dev, scatter, bindings, 3, 2, NULL, 0);
    expect_never_written("scatter", 3, 2, NULL, 0);
}

TEST(two_members_of_four_release_nothing) {
    tg_device dev = test_device();
    const tg_use bindings[] = {use(whole(source(dev)), TG_ACCESS_AUTO), use(whole(buffer(dev, "boxes", WORDS)), TG_ACCESS_AUTO)};
    tg_kernel member = kernel(dev, "member");
    expect_basis(dev, member, 1, TG_ACCESS_MAY_WRITE, TG_BASIS_INFERRED);
    expect_unproven(dev, member, bindings, 2, 1, NULL, 0);
    expect_never_written("member", 2, 1, NULL, 0);
}

TEST(a_result_only_if_there_is_one_releases_nothing) {
    tg_device dev = test_device();
    const tg_use bindings[] = {use(whole(source(dev)), TG_ACCESS_AUTO), use(whole(buffer(dev, "hits", WORDS)), TG_ACCESS_AUTO)};
    tg_kernel first_hit = kernel(dev, "first_hit");
    expect_basis(dev, first_hit, 1, TG_ACCESS_MAY_WRITE, TG_BASIS_INFERRED);
    expect_unproven(dev, first_hit, bindings, 2, 1, NULL, 0);
    expect_never_written("first_hit", 2, 1, NULL, 0);
}

TEST(every_second_element_releases_nothing) {
    tg_device dev = test_device();
    tg_buffer to = buffer(dev, "to", WORDS);
    const tg_use bindings[] = {use(whole(source(dev)), TG_ACCESS_AUTO), use(whole(to), TG_ACCESS_AUTO)};
    const uint64_t root = taint(dev, whole(to), 1, "claimed before");
    tg_kernel stride = kernel(dev, "stride");
    expect_basis(dev, stride, 1, TG_ACCESS_MAY_WRITE, TG_BASIS_INFERRED);
    CHECK_RESULT(launch(dev, 0, stride, bindings, 2, NULL, 0, 32), TG_OK);
    expect_root(dev, whole(to), WORDS, root);
    expect_root(dev, part(to, 4, 4), 1, root);
}

TEST(an_output_on_demand_is_released_when_it_is_wanted) {
    tg_device dev = test_device();
    tg_kernel flag = kernel(dev, "flag");
    tg_buffer to = buffer(dev, "to", WORDS), extra = buffer(dev, "extra", WORDS);
    const tg_use bindings[] = {use(whole(source(dev)), TG_ACCESS_AUTO), use(whole(to), TG_ACCESS_AUTO), use(whole(extra), TG_ACCESS_AUTO)};
    expect_basis(dev, flag, 1, TG_ACCESS_WRITE, TG_BASIS_PROVEN);
    for (uint32_t wanted = 0; wanted < 2; wanted++) {
        const uint64_t root = taint(dev, whole(to), 1, "to");
        const uint64_t other = taint(dev, whole(extra), 1, "extra");
        CHECK_RESULT(launch(dev, 0, flag, bindings, 3, &wanted, sizeof wanted, 32), TG_OK);
        CHECK_WORDS(dev, 0, part(to, 0, 128), 32, 0, 1);
        expect_root(dev, part(to, 128, 128), 32, root);
        expect_root(dev, part(extra, 128, 128), 32, other);
        if (wanted)
            CHECK_WORDS(dev, 0, part(extra, 0, 128), 32, 0, 2);
        else
            expect_root(dev, part(extra, 0, 128), 32, other);
    }
}

TEST(a_guarded_launch_releases_exactly_what_grid_and_push_constants_prove) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale"); /* groups of 64 */
    enum { MANY = 256 };
    tg_buffer from = buffer(dev, "from", MANY), to = buffer(dev, "to", MANY);
    write_words(dev, 0, whole(from), MANY, 0, 1);
    expect_basis(dev, scaling, 1, TG_ACCESS_WRITE, TG_BASIS_PROVEN);
    /* Invocations, the number in the guard, words that are written. */
    static const uint32_t cases[][3] = {{256, 256, 256}, {256, 100, 100}, {256, 255, 255}, {256, 1, 1},   {256, 1000, 256},
                                        {512, 256, 256}, {512, 1000, 256}, {128, 256, 128}, {64, 7, 7},   {1, 256, 64},
                                        {256, 0, 0},     {256, UINT32_MAX, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t threads = cases[i][0], count = cases[i][1], written = cases[i][2];
        const uint64_t root = taint(dev, whole(to), 1, "claimed before");
        const tg_use bindings[] = {use(whole(from), TG_ACCESS_AUTO), use(whole(to), TG_ACCESS_AUTO)};
        const uint32_t push[] = {count, 3};
        CHECK_RESULT(launch(dev, 0, scaling, bindings, 2, push, sizeof push, threads), TG_OK);
        if (written) CHECK_WORDS(dev, 0, part(to, 0, 4 * (uint64_t)written), written, 0, 3);
        if (written < MANY) {
            const uint64_t rest = 4 * (uint64_t)written;
            expect_root(dev, part(to, rest, 4 * MANY - rest), MANY - written, root);
            expect_root(dev, part(to, rest, 4), 1, root);
        }
    }
}

TEST(a_guarded_launch_leaves_the_rest_of_fresh_bytes_never_written) {
    tg_device_desc desc = test_device_desc();
    desc.flags |= TG_DEVICE_TRACK_UNINITIALIZED;
    tg_device dev = test_device_with(&desc);
    tg_buffer from = source(dev), to = buffer(dev, "to", WORDS);
    CHECK_RESULT(scale(dev, 0, kernel(dev, "scale"), whole(to), whole(from), 40, 3), TG_OK);
    CHECK_WORDS(dev, 0, part(to, 0, 160), 40, 0, 3);
    CHECK_UNWRITTEN(dev, 0, part(to, 160, 96), 24);
    tg_report report = last_report();
    CHECK_EQ_INT(report_failure(report, 0).code, TG_ERROR_NEVER_WRITTEN);
    tg_report_release(report);
}

TEST(loads_of_what_the_same_invocation_stored_need_no_byte) {
    tg_device dev = test_device();
    tg_kernel own = kernel(dev, "own");
    tg_buffer to = buffer(dev, "to", WORDS);
    const tg_use bindings[] = {use(whole(source(dev)), TG_ACCESS_AUTO), use(whole(to), TG_ACCESS_AUTO)};
    const uint32_t count = 48;
    expect_basis(dev, own, 1, TG_ACCESS_WRITE, TG_BASIS_PROVEN);
    const uint64_t root = taint(dev, whole(to), 1, "claimed before");
    CHECK_RESULT(launch(dev, 0, own, bindings, 2, &count, sizeof count, WORDS), TG_OK);
    CHECK_WORDS(dev, 0, part(to, 0, 192), 48, 0, 2);
    expect_root(dev, part(to, 192, 64), 16, root);
}

TEST(a_concatenation_is_whole_when_both_launches_wrote_their_part) {
    test_allow_hazards();
    tg_device dev = test_device();
    tg_kernel row = kernel(dev, "row");
    tg_buffer table = buffer(dev, "table", WORDS);
    for (int declared = 0; declared < 2; declared++) {
        const uint64_t root = taint(dev, whole(table), 1, "claimed before");
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t push[] = {half * WORDS / 2, WORDS / 2, half * WORDS / 2};
            const tg_slice part_of_it = part(table, half * WORDS * 2, WORDS * 2);
            const tg_use bindings[] = {use(whole(table), declared ? TG_ACCESS_NONE : TG_ACCESS_AUTO)};
            const tg_use extra[] = {use(part_of_it, TG_ACCESS_WRITE)};
            tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
            desc.kernel = row;
            desc.bindings = bindings;
            desc.binding_count = 1;
            desc.extra = declared ? extra : NULL;
            desc.extra_count = declared ? 1 : 0;
            desc.push = push;
            desc.push_size = sizeof push;
            desc.threads[0] = WORDS / 2;
            CHECK_RESULT(tg_launch(dev, &desc), TG_OK);
            if (half == 0) expect_root(dev, part(table, WORDS * 2, WORDS * 2), WORDS / 2, root);
        }
        CHECK_WORDS(dev, 0, whole(table), WORDS, 0, 1);
    }
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(an_indirect_launch_proves_nothing) {
    tg_device dev = test_device();
    tg_buffer from = source(dev), to = buffer(dev, "to", WORDS), groups = buffer(dev, "groups", 3);
    write_words(dev, 0, whole(groups), 3, 1, 0);
    const uint64_t root = taint(dev, whole(to), 1, "claimed before");
    const tg_use bindings[] = {use(whole(from), TG_ACCESS_AUTO), use(whole(to), TG_ACCESS_AUTO)};
    const uint32_t push[] = {WORDS, 3};
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.kernel = kernel(dev, "scale");
    desc.bindings = bindings;
    desc.binding_count = 2;
    desc.push = push;
    desc.push_size = sizeof push;
    desc.indirect = whole(groups);
    CHECK_RESULT(tg_launch(dev, &desc), TG_OK);
    expect_root(dev, whole(to), WORDS, root);
    CHECK_RESULT(tg_mark_written(dev, &bindings[1].slice, 1), TG_OK);
    CHECK_WORDS(dev, 0, whole(to), WORDS, 0, 3); /* it ran */
}

TEST(a_declared_access_is_the_callers_word) {
    tg_device dev = test_device();
    static const uint32_t accesses[] = {TG_ACCESS_AUTO, TG_ACCESS_AUTO, TG_ACCESS_WRITE};
    size_t size;
    void *code = shader("scatter", &size);
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    desc.code = code;
    desc.code_size = size;
    desc.accesses = accesses;
    desc.access_count = 3;
    tg_kernel made;
    REQUIRE_OK(tg_kernel_create(dev, &desc, &made));
    free(code);
    expect_basis(dev, made, 0, TG_ACCESS_READ, TG_BASIS_INFERRED);
    expect_basis(dev, made, 2, TG_ACCESS_WRITE, TG_BASIS_DECLARED);
    tg_buffer to = buffer(dev, "to", WORDS);
    taint(dev, whole(to), 1, "claimed before");
    const tg_use bindings[] = {use(whole(source(dev)), TG_ACCESS_AUTO), use(whole(source(dev)), TG_ACCESS_AUTO),
                               use(whole(to), TG_ACCESS_AUTO)};
    CHECK_RESULT(launch(dev, 0, made, bindings, 3, NULL, 0, WORDS), TG_OK);
    CHECK_WORDS(dev, 0, whole(to), WORDS, 0, 1);
}
