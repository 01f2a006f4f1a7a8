/* Launches: what they need, what they refuse, what they skip. */
#include "tg_test.h"

enum { WORDS = 64 };

struct fixture {
    tg_device dev;
    tg_kernel scaling;
    tg_buffer from, to;
    tg_use bindings[2];
    uint32_t push[2];
};

static struct fixture setup(void) {
    struct fixture f = {.dev = test_device(), .push = {WORDS, 2}};
    f.scaling = kernel(f.dev, "scale");
    f.from = buffer(f.dev, "from", WORDS);
    f.to = buffer(f.dev, "to", WORDS);
    write_words(f.dev, 0, whole(f.from), WORDS, 1, 1);
    write_words(f.dev, 0, whole(f.to), WORDS, 7, 0);
    f.bindings[0] = use(whole(f.from), TG_ACCESS_AUTO);
    f.bindings[1] = use(whole(f.to), TG_ACCESS_AUTO);
    return f;
}

static tg_launch_desc good(const struct fixture *f) {
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.kernel = f->scaling;
    desc.bindings = f->bindings;
    desc.binding_count = 2;
    desc.push = f->push;
    desc.push_size = sizeof f->push;
    desc.threads[0] = WORDS;
    return desc;
}

/* The launch is misuse, the report names the field, and nothing changed. */
static void expect_misuse(const struct fixture *f, const tg_launch_desc *desc, const char *field) {
    CHECK_RESULT(tg_launch(f->dev, desc), TG_ERROR_INVALID_ARGUMENT);
    CHECK_CONTAINS(test_last_report_text(), field);
    CHECK_WORDS(f->dev, 0, whole(f->to), WORDS, 7, 0);
    CHECK_EQ_INT(failure_count(f->dev), 0);
}

TEST(runs_by_threads) {
    const struct fixture f = setup();
    const tg_launch_desc desc = good(&f);
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_OK);
    CHECK_WORDS(f.dev, 0, whole(f.to), WORDS, 2, 2);
}

TEST(runs_by_groups) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    desc.threads[0] = 0;
    desc.groups[0] = 1;
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_OK);
    CHECK_WORDS(f.dev, 0, whole(f.to), WORDS, 2, 2);
}

TEST(threads_are_rounded_up_to_groups) {
    tg_device dev = test_device();
    tg_kernel grid = kernel(dev, "grid"); /* groups of 4 by 2 */
    tg_buffer counts = buffer(dev, "counts", 2);
    write_words(dev, 0, whole(counts), 2, 0, 0);
    const tg_use bindings[] = {use(whole(counts), TG_ACCESS_AUTO)};
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.kernel = grid;
    desc.bindings = bindings;
    desc.binding_count = 1;
    desc.threads[0] = 9;
    desc.threads[1] = 3;
    CHECK_RESULT(tg_launch(dev, &desc), TG_OK);
    CHECK_WORDS(dev, 0, whole(counts), 2, 6, 42); /* 3 by 2 groups, 48 invocations */
}

TEST(an_indirect_grid_is_read_on_the_device) {
    tg_device dev = test_device();
    tg_kernel grid = kernel(dev, "grid");
    tg_buffer counts = buffer(dev, "counts", 2), groups = buffer(dev, "groups", 3);
    write_words(dev, 0, whole(counts), 2, 0, 0);
    write_words(dev, 0, whole(groups), 3, 1, 1);
    const tg_use bindings[] = {use(whole(counts), TG_ACCESS_AUTO)};
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.kernel = grid;
    desc.stream = 1;
    desc.bindings = bindings;
    desc.binding_count = 1;
    desc.indirect = whole(groups);
    CHECK_RESULT(tg_launch(dev, &desc), TG_OK);
    CHECK_WORDS(dev, 0, whole(counts), 2, 6, 42); /* 1 by 2 by 3 groups of 8 */
}

TEST(indirect_counts_past_the_limits_run_nothing) {
    tg_device dev = test_device();
    tg_kernel grid = kernel(dev, "grid");
    tg_buffer counts = buffer(dev, "counts", 2), groups = buffer(dev, "groups", 3);
    const tg_use bindings[] = {use(whole(counts), TG_ACCESS_AUTO)};
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.kernel = grid;
    desc.bindings = bindings;
    desc.binding_count = 1;
    desc.indirect = whole(groups);
    for (uint32_t bad = 0; bad < 3; bad++) {
        uint32_t sizes[3] = {1, 1, 1};
        sizes[bad] = 0xffffffffu;
        write_words(dev, 0, whole(counts), 2, 0, 0);
        REQUIRE_OK(tg_buffer_write(dev, 0, whole(groups), sizes, sizeof sizes));
        CHECK_RESULT(tg_launch(dev, &desc), TG_OK);
        CHECK_WORDS(dev, 0, whole(counts), 2, 0, 0);
    }
}

TEST(tainted_indirect_counts_skip_the_launch) {
    tg_device dev = test_device();
    tg_kernel storing = kernel(dev, "store");
    tg_buffer to = buffer(dev, "to", WORDS), groups = buffer(dev, "groups", 3);
    const uint64_t root = taint(dev, whole(groups), 1, "the counts");
    const uint32_t push[] = {WORDS, 9};
    const tg_use bindings[] = {use(whole(to), TG_ACCESS_AUTO)};
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.kernel = storing;
    desc.bindings = bindings;
    desc.binding_count = 1;
    desc.push = push;
    desc.push_size = sizeof push;
    desc.indirect = whole(groups);
    CHECK_RESULT(tg_launch(dev, &desc), TG_SKIPPED);
    uint64_t id = 0;
    CHECK_EQ_INT(roots_of(dev, whole(to), &id, 1), 1);
    CHECK_EQ_INT(id, root);
}

TEST(an_odd_indirect_offset_is_misuse) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    desc.threads[0] = 0;
    desc.indirect = part(f.from, 2, 12);
    expect_misuse(&f, &desc, "indirect");
}

TEST(an_indirect_slice_of_another_size_is_misuse) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    desc.threads[0] = 0;
    desc.indirect = part(f.from, 0, 8);
    expect_misuse(&f, &desc, "indirect");
}

TEST(groups_and_threads_together_are_misuse) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    desc.groups[0] = 1;
    expect_misuse(&f, &desc, "threads");
}

TEST(a_grid_of_zero_is_nothing) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    desc.threads[0] = 0;
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_OK);
    CHECK_WORDS(f.dev, 0, whole(f.to), WORDS, 7, 0);
    taint(f.dev, whole(f.from), 1, "root");
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_OK); /* claims and releases nothing */
    CHECK_WORDS(f.dev, 0, whole(f.to), WORDS, 7, 0);
}

TEST(too_many_groups_are_a_limit_and_claim_the_outputs) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    desc.threads[0] = 0;
    desc.groups[0] = 0xffffffffu;
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_ERROR_LIMIT_EXCEEDED);
    CHECK_UNWRITTEN(f.dev, 0, whole(f.to), WORDS);
    CHECK_WORDS(f.dev, 0, whole(f.from), WORDS, 1, 1);
    desc = good(&f);
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_OK);
    CHECK_WORDS(f.dev, 0, whole(f.to), WORDS, 2, 2);
    CHECK_EQ_INT(failure_count(f.dev), 0);
}

TEST(a_slice_at_an_offset_the_device_cannot_bind_is_a_limit) {
    const struct fixture f = setup();
    tg_device_info info = TG_DEVICE_INFO_INIT;
    REQUIRE_OK(tg_device_get_info(f.dev, &info));
    if (info.binding_alignment < 8) SKIP("offsets_that_cannot_be_bound");
    tg_launch_desc desc = good(&f);
    tg_use bindings[] = {f.bindings[0], use(part(f.to, 4, 16), TG_ACCESS_AUTO)};
    desc.bindings = bindings;
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_ERROR_LIMIT_EXCEEDED);
    CHECK_UNWRITTEN(f.dev, 0, part(f.to, 4, 16), 4);
    CHECK_WORDS(f.dev, 0, part(f.to, 0, 4), 1, 7, 0);
}

TEST(too_few_bindings_are_misuse) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    desc.binding_count = 1;
    expect_misuse(&f, &desc, "bindings");
}

TEST(too_many_bindings_are_misuse) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    const tg_use bindings[] = {f.bindings[0], f.bindings[1], f.bindings[0]};
    desc.bindings = bindings;
    desc.binding_count = 3;
    expect_misuse(&f, &desc, "bindings");
}

TEST(null_bindings_are_misuse) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    desc.bindings = NULL;
    expect_misuse(&f, &desc, "bindings");
}

TEST(an_unknown_access_is_misuse) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    const tg_use bindings[] = {f.bindings[0], use(whole(f.to), 99)};
    desc.bindings = bindings;
    expect_misuse(&f, &desc, "access");
}

TEST(a_reserved_member_that_is_not_zero_is_misuse) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    tg_use bindings[] = {f.bindings[0], f.bindings[1]};
    bindings[1].reserved = 1;
    desc.bindings = bindings;
    expect_misuse(&f, &desc, "reserved");
}

TEST(push_constants_of_another_size_are_misuse) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    desc.push_size = 4;
    expect_misuse(&f, &desc, "push");
    desc.push_size = 0;
    expect_misuse(&f, &desc, "push");
}

TEST(null_push_constants_are_misuse) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    desc.push = NULL;
    expect_misuse(&f, &desc, "push");
}

TEST(an_empty_slice_cannot_be_bound) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    const tg_use bindings[] = {f.bindings[0], use(part(f.to, 0, 0), TG_ACCESS_AUTO)};
    desc.bindings = bindings;
    expect_misuse(&f, &desc, "bindings");
}

TEST(a_slice_out_of_range_is_misuse) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    const tg_use bindings[] = {f.bindings[0], use(part(f.to, 0, WORDS * 4 + 4), TG_ACCESS_AUTO)};
    desc.bindings = bindings;
    expect_misuse(&f, &desc, "bindings");
}

TEST(a_null_descriptor_is_misuse) {
    CHECK_RESULT(tg_launch(test_device(), NULL), TG_ERROR_INVALID_ARGUMENT);
    CHECK_CONTAINS(test_last_report_text(), "desc");
}

TEST(a_tainted_input_skips_and_hands_its_root_on) {
    const struct fixture f = setup();
    const tg_launch_desc desc = good(&f);
    const uint64_t root = taint(f.dev, part(f.from, 100, 1), 1, "one byte");
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_SKIPPED);
    uint64_t id = 0;
    CHECK_EQ_INT(roots_of(f.dev, whole(f.to), &id, 1), 1);
    CHECK_EQ_INT(id, root);
    CHECK_UNWRITTEN(f.dev, 0, whole(f.to), WORDS);
}

TEST(a_launch_over_the_clean_part_runs) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    taint(f.dev, part(f.from, 128, 128), 1, "the second half");
    const uint32_t push[] = {WORDS / 2, 2};
    const tg_use bindings[] = {use(part(f.from, 0, 128), TG_ACCESS_AUTO), use(part(f.to, 0, 128), TG_ACCESS_AUTO)};
    desc.bindings = bindings;
    desc.push = push;
    desc.threads[0] = WORDS / 2;
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_OK);
    CHECK_WORDS(f.dev, 0, part(f.to, 0, 128), WORDS / 2, 2, 2);
}

TEST(may_write_runs_over_claims_and_releases_nothing) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    const tg_use bindings[] = {f.bindings[0], use(whole(f.to), TG_ACCESS_MAY_WRITE)};
    desc.bindings = bindings;
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_OK);
    taint(f.dev, whole(f.to), 1, "root");
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_OK);
    CHECK_UNWRITTEN(f.dev, 0, whole(f.to), WORDS);
    desc.bindings = f.bindings; /* the proven WRITE releases */
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_OK);
    CHECK_WORDS(f.dev, 0, whole(f.to), WORDS, 2, 2);
}

TEST(a_binding_that_is_not_touched_is_not_tracked) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    taint(f.dev, part(f.from, 192, 64), 1, "the last quarter");
    const uint32_t push[] = {16, 2};
    const tg_use bindings[] = {use(whole(f.from), TG_ACCESS_NONE), use(whole(f.to), TG_ACCESS_NONE)};
    const tg_use extra[] = {use(part(f.from, 0, 64), TG_ACCESS_READ), use(part(f.to, 0, 64), TG_ACCESS_WRITE)};
    desc.bindings = bindings;
    desc.extra = extra;
    desc.extra_count = 2;
    desc.push = push;
    desc.threads[0] = 16;
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_OK);
    CHECK_WORDS(f.dev, 0, part(f.to, 0, 64), 16, 2, 2);
}

/* Row `k` of a table of 64 MiB that each launch binds whole. */
enum { ROW = 1024, ROWS = (64 << 20) / (ROW * 4) };

static tg_slice row(tg_buffer table, uint32_t k) { return part(table, (uint64_t)k * ROW * 4, ROW * 4); }

static tg_result write_row(tg_device dev, uint64_t stream, tg_kernel rows, tg_buffer table, uint32_t k, uint32_t access) {
    const tg_use bindings[] = {use(whole(table), TG_ACCESS_NONE)}, extra[] = {use(row(table, k), access)};
    const uint32_t push[] = {k * ROW, ROW, k};
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.stream = stream;
    desc.kernel = rows;
    desc.bindings = bindings;
    desc.binding_count = 1;
    desc.extra = extra;
    desc.extra_count = 1;
    desc.push = push;
    desc.push_size = sizeof push;
    desc.threads[0] = ROW;
    return tg_launch(dev, &desc);
}

TEST(one_row_of_a_cache_is_touched_and_the_others_keep_their_claims) {
    test_allow_hazards();
    tg_device dev = test_device();
    tg_kernel rows = kernel(dev, "row");
    tg_buffer cache = buffer(dev, "cache", (uint64_t)ROW * ROWS);
    write_words(dev, 0, row(cache, 6), ROW, 1, 1);
    const uint64_t first = taint(dev, row(cache, 0), 1, "row 0"), last = taint(dev, row(cache, ROWS - 1), 2, "the last row");
    const uint64_t edge = taint(dev, part(cache, 8 * ROW * 4, 4), 3, "the first word of row 8");
    /* Claims on other rows do not make it skip, and the launch leaves them, and bytes beside its own, as they are. */
    CHECK_RESULT(write_row(dev, 0, rows, cache, 7, TG_ACCESS_WRITE), TG_OK);
    CHECK_WORDS(dev, 0, row(cache, 7), ROW, 7, 1);
    CHECK_WORDS(dev, 0, row(cache, 6), ROW, 1, 1);
    tg_claim claims[4];
    size_t count = 0;
    CHECK_RESULT(tg_claims(dev, whole(cache), claims, 4, &count), TG_OK);
    CHECK_EQ_INT(count, 3);
    CHECK(claims[0].slice.offset == 0 && claims[0].slice.size == ROW * 4 && claims[0].failure == first);
    CHECK(claims[1].slice.offset == 8 * ROW * 4 && claims[1].slice.size == 4 && claims[1].failure == edge);
    CHECK(claims[2].slice.offset == (uint64_t)(ROWS - 1) * ROW * 4 && claims[2].slice.size == ROW * 4 && claims[2].failure == last);
    /* Over a claimed row a write releases that row, and what reads it skips. */
    CHECK_RESULT(write_row(dev, 1, rows, cache, 0, TG_ACCESS_READ_WRITE), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 1, row(cache, 0), ROW);
    CHECK_RESULT(write_row(dev, 1, rows, cache, 0, TG_ACCESS_WRITE), TG_OK);
    CHECK_WORDS(dev, 1, row(cache, 0), ROW, 0, 1);
    CHECK_UNWRITTEN(dev, 1, row(cache, ROWS - 1), ROW);
    CHECK_UNWRITTEN(dev, 1, row(cache, 8), ROW);
}

TEST(rows_of_a_cache_are_ordered_each_by_itself) {
    test_allow_hazards(); /* what tests/order proves, with the barriers counted, runs here */
    tg_device dev = test_device();
    tg_kernel rows = kernel(dev, "row");
    tg_buffer cache = buffer(dev, "cache", (uint64_t)ROW * ROWS);
    const uint32_t rounds = test_rounds(64);
    for (uint32_t i = 0; i < rounds; i++) {
        CHECK_RESULT(write_row(dev, i % 5, rows, cache, i * 251 % ROWS, TG_ACCESS_WRITE), TG_OK);
        if (i % 4 == 0) CHECK_RESULT(write_row(dev, (i + 1) % 5, rows, cache, i * 251 % ROWS, TG_ACCESS_WRITE), TG_OK);
    }
    for (uint32_t i = 0; i < rounds; i++) CHECK_WORDS(dev, i % 3, row(cache, i * 251 % ROWS), ROW, i * 251 % ROWS, 1);
}

/* It is bound and not touched, so nothing waits for it but its memory. */
TEST(a_buffer_that_is_only_bound_may_be_destroyed_in_flight) {
    tg_device_desc device_desc = test_device_desc();
    device_desc.flags |= TG_DEVICE_ISOLATE_BUFFERS;
    tg_device dev = test_device_with(&device_desc);
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer from = buffer(dev, "from", WORDS);
    write_words(dev, 0, whole(from), WORDS, 1, 1);
    for (int flushed = 0; flushed < 2; flushed++) {
        tg_buffer bound = buffer(dev, "bound", WORDS);
        const tg_use bindings[] = {use(whole(from), TG_ACCESS_READ), use(whole(bound), TG_ACCESS_NONE)};
        const uint32_t push[] = {0, 2}; /* of no words */
        CHECK_RESULT(launch(dev, 1, scaling, bindings, 2, push, sizeof push, WORDS), TG_OK);
        if (flushed) CHECK_RESULT(tg_stream_flush(dev, 1), TG_OK);
        CHECK_RESULT(tg_buffer_destroy(dev, bound), TG_OK);
        uint64_t early = 0, late = 0; /* the device may be done with it already */
        CHECK_RESULT(tg_device_trim(dev, &early), TG_OK);
        CHECK_RESULT(tg_device_wait(dev, TEST_LONG), TG_OK); /* the validation layer would have seen it */
        CHECK_RESULT(tg_device_trim(dev, &late), TG_OK);
        CHECK(early + late >= WORDS * 4);
    }
}

TEST(an_extra_token_can_skip_a_launch) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    tg_buffer_desc token_desc = TG_BUFFER_DESC_INIT;
    tg_buffer token = {0};
    token_desc.size = 1;
    token_desc.memory = TG_MEMORY_TOKEN;
    REQUIRE_OK(tg_buffer_create(f.dev, &token_desc, &token));
    const tg_use extra[] = {use(whole(token), TG_ACCESS_READ)};
    desc.extra = extra;
    desc.extra_count = 1;
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_OK);
    taint(f.dev, whole(token), 1, "the frame was dropped");
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_SKIPPED);
    CHECK_UNWRITTEN(f.dev, 0, whole(f.to), WORDS);
}

TEST(label_and_tag_reach_the_report) {
    const struct fixture f = setup();
    tg_launch_desc desc = good(&f);
    desc.threads[0] = 0;
    desc.groups[0] = 0xffffffffu;
    desc.label = text("the labelled launch");
    desc.tag = 4711;
    CHECK_RESULT(tg_launch(f.dev, &desc), TG_ERROR_LIMIT_EXCEEDED);
    tg_report report = last_report();
    const tg_failure_info info = report_failure(report, 0);
    CHECK_CONTAINS(report_text(report), "the labelled launch");
    CHECK_EQ_INT(info.tag, 4711);
    tg_report_release(report);
}

TEST(many_dependent_launches_add_up) {
    tg_device dev = test_device();
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 0, 1);
    const uint32_t rounds = test_rounds(2000);
    for (uint32_t i = 0; i < rounds; i++) REQUIRE_OK(increment(dev, i % 5, incrementing, whole(data), WORDS, 3));
    CHECK_WORDS(dev, 0, whole(data), WORDS, rounds * 3, 1);
}
