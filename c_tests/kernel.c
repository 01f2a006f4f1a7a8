/* Kernels: reflection, inferred access, specialization constants, rebuilding. */
#include "tg_test.h"

#include <stdlib.h>

enum { WORDS = 64 };

static tg_kernel_info info_of(tg_device dev, tg_kernel asked) {
    tg_kernel_info info = TG_KERNEL_INFO_INIT;
    REQUIRE_OK(tg_kernel_get_info(dev, asked, &info));
    return info;
}

static uint32_t access_of(tg_device dev, tg_kernel asked, uint32_t binding) {
    tg_binding_info bindings[8];
    tg_kernel_info info = TG_KERNEL_INFO_INIT;
    info.bindings = bindings;
    info.binding_capacity = 8;
    REQUIRE_OK(tg_kernel_get_info(dev, asked, &info));
    REQUIRE(binding < info.binding_count);
    return bindings[binding].access;
}

TEST(access_is_inferred_from_what_the_module_does) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale"), incrementing = kernel(dev, "increment"), storing = kernel(dev, "store"),
              grid = kernel(dev, "grid");
    CHECK_EQ_INT(access_of(dev, scaling, 0), TG_ACCESS_READ);
    CHECK_EQ_INT(access_of(dev, scaling, 1), TG_ACCESS_WRITE);
    CHECK_EQ_INT(access_of(dev, incrementing, 0), TG_ACCESS_READ_WRITE);
    CHECK_EQ_INT(access_of(dev, storing, 0), TG_ACCESS_WRITE);
    CHECK_EQ_INT(access_of(dev, grid, 0), TG_ACCESS_READ_WRITE); /* atomics */
}

TEST(info_tells_what_a_launch_needs) {
    tg_device dev = test_device();
    const tg_kernel_info info = info_of(dev, kernel(dev, "scale"));
    CHECK_EQ_INT(info.binding_count, 2);
    CHECK_EQ_INT(info.push_size, 8);
    CHECK_EQ_INT(info.group_size[0], 64);
    CHECK_EQ_INT(info.group_size[1], 1);
    CHECK_EQ_INT(info.group_size[2], 1);
    CHECK_EQ_INT(info.broken, 0);
    CHECK_EQ_INT(info.failure, 0);
    CHECK_CONTAINS(info.label, "scale");
}

TEST(bindings_are_listed_by_two_calls) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale");
    tg_binding_info bindings[2];
    tg_kernel_info info = info_of(dev, scaling);
    CHECK_EQ_INT(info.binding_count, 2);
    info.bindings = bindings;
    info.binding_capacity = 1;
    CHECK_RESULT(tg_kernel_get_info(dev, scaling, &info), TG_INCOMPLETE);
    CHECK_EQ_INT(info.binding_count, 2);
    info.binding_capacity = 2;
    CHECK_RESULT(tg_kernel_get_info(dev, scaling, &info), TG_OK);
    CHECK_EQ_INT(bindings[0].binding, 0);
    CHECK_EQ_INT(bindings[1].binding, 1);
    CHECK_CONTAINS(bindings[0].name, "From");
}

TEST(the_descriptor_overrides_what_was_inferred) {
    tg_device dev = test_device();
    static const uint32_t accesses[] = {TG_ACCESS_AUTO, TG_ACCESS_MAY_WRITE};
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    tg_kernel made = {0};
    size_t size;
    void *code = shader("scale", &size);
    desc.code = code;
    desc.code_size = size;
    desc.accesses = accesses;
    desc.access_count = 2;
    REQUIRE_OK(tg_kernel_create(dev, &desc, &made));
    free(code);
    CHECK_EQ_INT(access_of(dev, made, 0), TG_ACCESS_READ);
    CHECK_EQ_INT(access_of(dev, made, 1), TG_ACCESS_MAY_WRITE);
}

TEST(an_unknown_access_is_misuse) {
    tg_device dev = test_device();
    static const uint32_t accesses[] = {77};
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    tg_kernel made = {77};
    size_t size;
    void *code = shader("scale", &size);
    desc.code = code;
    desc.code_size = size;
    desc.accesses = accesses;
    desc.access_count = 1;
    CHECK_RESULT(tg_kernel_create(dev, &desc, &made), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(made.id, 0);
    free(code);
}

TEST(specialization_constants_change_the_kernel) {
    tg_device dev = test_device();
    const tg_constant constants[] = {{0, 16}, {1, 99}};
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    tg_kernel made = {0};
    size_t size;
    void *code = shader("constants", &size);
    desc.code = code;
    desc.code_size = size;
    desc.constants = constants;
    desc.constant_count = 2;
    REQUIRE_OK(tg_kernel_create(dev, &desc, &made));
    free(code);
    CHECK_EQ_INT(info_of(dev, made).group_size[0], 16);
    tg_buffer data = buffer(dev, "data", WORDS);
    const tg_use bindings[] = {use(whole(data), TG_ACCESS_AUTO)};
    CHECK_RESULT(launch(dev, 0, made, bindings, 1, NULL, 0, WORDS), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 99, 0);
}

TEST(a_constant_left_alone_keeps_its_default) {
    tg_device dev = test_device();
    tg_kernel made = kernel(dev, "constants");
    tg_buffer data = buffer(dev, "data", WORDS);
    const tg_use bindings[] = {use(whole(data), TG_ACCESS_AUTO)};
    CHECK_RESULT(launch(dev, 0, made, bindings, 1, NULL, 0, WORDS), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 5, 0);
}

TEST(a_broken_kernel_is_one_more_claimed_input) {
    tg_device dev = test_device();
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    tg_kernel broken = {0};
    static const uint32_t accesses[] = {TG_ACCESS_READ, TG_ACCESS_WRITE};
    desc.code = "";
    desc.label = text("the broken kernel");
    desc.accesses = accesses;
    desc.access_count = 2;
    CHECK_RESULT(tg_kernel_create(dev, &desc, &broken), TG_ERROR_INVALID_SHADER);
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS);
    write_words(dev, 0, whole(from), WORDS, 1, 1);
    const uint64_t input = taint(dev, part(from, 0, 16), 7, "the input");
    CHECK_RESULT(scale(dev, 0, broken, whole(to), whole(from), WORDS, 2), TG_SKIPPED);
    uint64_t ids[4] = {0};
    CHECK_EQ_INT(roots_of(dev, whole(to), ids, 4), 2);
    const uint64_t root = info_of(dev, broken).failure;
    CHECK(root != 0);
    CHECK(ids[0] != ids[1] && (ids[0] == root || ids[1] == root) && (ids[0] == input || ids[1] == input));
    CHECK_EQ_INT(roots_of(dev, whole(from), ids, 4), 1); /* what is declared READ is never claimed by it */
}

TEST(an_undeclared_binding_of_a_broken_kernel_is_claimed) {
    tg_device dev = test_device();
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    tg_kernel broken = {0};
    desc.code = "";
    CHECK_RESULT(tg_kernel_create(dev, &desc, &broken), TG_ERROR_INVALID_SHADER);
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS);
    write_words(dev, 0, whole(from), WORDS, 1, 1);
    CHECK_RESULT(scale(dev, 0, broken, whole(to), whole(from), WORDS, 2), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 0, whole(to), WORDS);
    CHECK_UNWRITTEN(dev, 0, whole(from), WORDS);
    CHECK_CONTAINS(test_last_report_text(), "it is broken; it counts as writing \"from\", \"to\"");
}

TEST(rebuilding_changes_what_runs_under_the_same_handle) {
    tg_device dev = test_device();
    tg_kernel changing = kernel(dev, "store");
    tg_buffer data = buffer(dev, "data", WORDS);
    CHECK_RESULT(store(dev, 0, changing, whole(data), WORDS, 5), TG_OK);
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    size_t size;
    void *code = shader("increment", &size);
    desc.code = code;
    desc.code_size = size;
    CHECK_RESULT(tg_kernel_rebuild(dev, changing, &desc), TG_OK);
    free(code);
    CHECK_RESULT(increment(dev, 0, changing, whole(data), WORDS, 2), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 7, 0);
}

TEST(a_rebuild_that_fails_leaves_a_broken_kernel) {
    tg_device dev = test_device();
    tg_kernel changing = kernel(dev, "store");
    tg_buffer data = buffer(dev, "data", WORDS);
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    desc.code = "";
    CHECK_RESULT(tg_kernel_rebuild(dev, changing, &desc), TG_ERROR_INVALID_SHADER);
    CHECK_EQ_INT(info_of(dev, changing).broken, 1);
    CHECK_RESULT(store(dev, 0, changing, whole(data), WORDS, 5), TG_SKIPPED);
}

TEST(a_rebuild_that_is_misuse_changes_nothing) {
    tg_device dev = test_device();
    tg_kernel kept = kernel(dev, "store");
    tg_buffer data = buffer(dev, "data", WORDS);
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    desc.code_size = 8; /* and code is NULL */
    CHECK_RESULT(tg_kernel_rebuild(dev, kept, &desc), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(store(dev, 0, kept, whole(data), WORDS, 5), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 5, 0);
}

TEST(a_kernel_destroyed_in_flight_finishes_its_launches) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    for (uint32_t round = 0; round < test_rounds(200); round++) {
        tg_kernel storing = kernel(dev, "store");
        CHECK_RESULT(store(dev, round % 4, storing, whole(data), WORDS, round), TG_OK);
        CHECK_RESULT(tg_kernel_destroy(dev, storing), TG_OK);
    }
    CHECK_WORDS(dev, 0, whole(data), WORDS, test_rounds(200) - 1, 0);
}
