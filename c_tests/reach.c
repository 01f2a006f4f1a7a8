/* Kernels that reach memory the library cannot see: by address, or by choosing from an array of buffers. */
#include "tg_test.h"

#include <stdlib.h>

enum { WORDS = 64 };

static tg_device_info info_of(tg_device dev) {
    tg_device_info info = TG_DEVICE_INFO_INIT;
    REQUIRE_OK(tg_device_get_info(dev, &info));
    return info;
}

static bool has_addresses(tg_device dev) { return info_of(dev).features & TG_FEATURE_BUFFER_ADDRESSES; }

static uint64_t address_of(tg_device dev, tg_buffer asked) {
    tg_buffer_info info = TG_BUFFER_INFO_INIT;
    REQUIRE_OK(tg_buffer_get_info(dev, asked, &info));
    return info.address;
}

static tg_result try_kernel(tg_device dev, const char *name, uint64_t flags, tg_kernel *made) {
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    size_t size;
    void *code = shader(name, &size);
    desc.code = code;
    desc.code_size = size;
    desc.flags = flags;
    desc.label = text(name);
    const tg_result result = tg_kernel_create(dev, &desc, made);
    free(code);
    return result;
}

/* The kernel, or false where the device has no addresses; then it is broken, and says what the device lacks. */
static bool by_address(tg_device dev, const char *name, tg_kernel *made) {
    const tg_result result = try_kernel(dev, name, TG_KERNEL_DECLARES_USES, made);
    if (has_addresses(dev)) {
        REQUIRE(result == TG_OK);
        return true;
    }
    CHECK_RESULT(result, TG_ERROR_UNSUPPORTED);
    CHECK(made->id != 0);
    CHECK_CONTAINS(test_last_report_text(), "bufferDeviceAddress");
    return false;
}

/* to[i] = from[i] * factor, both by address, both at their slices. */
static tg_result scale_by_address(tg_device dev, uint64_t stream, tg_kernel scaling, tg_slice to, tg_slice from,
                                  uint32_t factor, const tg_use *extra, size_t extra_count) {
    const struct {
        uint64_t from, to;
        uint32_t count, factor;
    } push = {address_of(dev, from.buffer) + from.offset, address_of(dev, to.buffer) + to.offset, WORDS, factor};
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.stream = stream;
    desc.kernel = scaling;
    desc.extra = extra;
    desc.extra_count = extra_count;
    desc.push = &push;
    desc.push_size = sizeof push;
    desc.threads[0] = WORDS;
    return tg_launch(dev, &desc);
}

static tg_result scale_declared(tg_device dev, uint64_t stream, tg_kernel scaling, tg_slice to, tg_slice from,
                                uint32_t factor) {
    const tg_use extra[] = {use(from, TG_ACCESS_READ), use(to, TG_ACCESS_WRITE)};
    return scale_by_address(dev, stream, scaling, to, from, factor, extra, 2);
}

/* ---- addresses ---- */

TEST(a_buffer_has_an_address_where_the_device_has_them) {
    tg_device dev = test_device();
    tg_buffer one = buffer(dev, "one", WORDS), other = buffer(dev, "other", WORDS);
    const uint64_t first = address_of(dev, one), second = address_of(dev, other);
    if (has_addresses(dev)) {
        CHECK(first != 0 && second != 0);
        CHECK(first + WORDS * 4 <= second || second + WORDS * 4 <= first);
        CHECK(first % 16 == 0 && second % 16 == 0);
        CHECK(address_of(dev, one) == first);
    } else {
        CHECK(first == 0 && second == 0);
    }
}

TEST(what_has_no_memory_has_no_address) {
    tg_device dev = test_device();
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer token = {0}, later = {0};
    desc.size = WORDS * 4;
    desc.memory = TG_MEMORY_TOKEN;
    REQUIRE_OK(tg_buffer_create(dev, &desc, &token));
    CHECK(address_of(dev, token) == 0);
    desc.memory = TG_MEMORY_DEVICE;
    desc.flags = TG_BUFFER_UNALLOCATED;
    REQUIRE_OK(tg_buffer_create(dev, &desc, &later));
    CHECK(address_of(dev, later) == 0);
    REQUIRE_OK(tg_buffer_allocate(dev, later, 0));
    CHECK((address_of(dev, later) != 0) == has_addresses(dev));
}

TEST(without_the_flag_a_kernel_that_follows_addresses_is_broken) {
    tg_device dev = test_device();
    static const char *const names[] = {"addresses", "by_address", "chain", "buffers", "chosen", "table"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        static const uint64_t flags[] = {0, TG_KERNEL_TRUSTED};
        for (size_t j = 0; j < 2; j++) {
            tg_kernel broken = {0};
            CHECK_RESULT(try_kernel(dev, names[i], flags[j], &broken), TG_ERROR_UNSUPPORTED);
            CHECK(broken.id != 0);
            CHECK_CONTAINS(test_last_report_text(), "declare their uses");
        }
    }
}

TEST(an_unknown_kernel_flag_is_misuse) {
    tg_kernel made = {77};
    CHECK_RESULT(try_kernel(test_device(), "store", UINT64_C(1) << 2, &made), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(made.id, 0);
}

TEST(the_flag_changes_nothing_of_other_kernels) {
    tg_device dev = test_device();
    tg_kernel storing = {0};
    REQUIRE_OK(try_kernel(dev, "store", TG_KERNEL_DECLARES_USES, &storing));
    tg_buffer data = buffer(dev, "data", WORDS);
    taint(dev, whole(data), 1, "root");
    CHECK_RESULT(store(dev, 0, storing, whole(data), WORDS, 5), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 5, 0);
}

TEST(what_extra_declares_is_read_and_written_by_address) {
    tg_device dev = test_device();
    tg_kernel scaling = {0};
    if (!by_address(dev, "by_address", &scaling)) SKIP("buffer_addresses");
    /* Offsets of 16 bytes, which no binding could have on every device; and all kinds of memory. */
    static const uint32_t memories[] = {TG_MEMORY_DEVICE, TG_MEMORY_UPLOAD, TG_MEMORY_READBACK};
    for (size_t i = 0; i < 3; i++) {
        tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
        tg_buffer from = {0}, to = {0};
        desc.size = WORDS * 4 + 32;
        desc.memory = memories[i];
        REQUIRE_OK(tg_buffer_create(dev, &desc, &from));
        REQUIRE_OK(tg_buffer_create(dev, &desc, &to));
        const tg_slice in = part(from, 16, WORDS * 4), out = part(to, 16, WORDS * 4);
        write_words(dev, 0, in, WORDS, 1, 1);
        write_words(dev, 0, whole(to), WORDS + 8, 7, 0);
        const uint64_t root = taint(dev, part(to, 0, 32), 1, "in part before it");
        CHECK_RESULT(scale_declared(dev, 0, scaling, out, in, 3), TG_OK);
        CHECK_WORDS(dev, 0, out, WORDS, 3, 3);
        CHECK_WORDS(dev, 0, part(to, 16 + WORDS * 4, 16), 4, 7, 0);
        uint64_t id = 0; /* exactly the bytes declared were released */
        CHECK_EQ_INT(roots_of(dev, part(to, 0, 16), &id, 1), 1);
        CHECK_EQ_INT(id, root);
        CHECK_UNWRITTEN(dev, 0, part(to, 12, 4), 1);
    }
}

TEST(a_buffer_of_addresses_without_a_length_is_followed) {
    tg_device dev = test_device();
    tg_kernel summing = {0};
    const tg_result made = try_kernel(dev, "table", TG_KERNEL_DECLARES_USES, &summing);
    if (made != TG_OK) {
        CHECK_RESULT(made, TG_ERROR_UNSUPPORTED);
        CHECK_CONTAINS(test_last_report_text(), "runtimeDescriptorArray");
        SKIP("runtime_arrays");
    }
    enum { ROWS = 5 };
    tg_buffer table = buffer(dev, "table", 2 * ROWS), rows = buffer(dev, "rows", 4 * ROWS);
    tg_buffer sums = buffer(dev, "sums", ROWS);
    write_words(dev, 0, whole(rows), 4 * ROWS, 0, 1);
    uint64_t addresses[ROWS];
    for (int i = 0; i < ROWS; i++) addresses[i] = address_of(dev, rows) + 16 * (uint64_t)i;
    REQUIRE_OK(tg_buffer_write(dev, 0, whole(table), addresses, sizeof addresses));
    const tg_use bound[] = {use(whole(table), TG_ACCESS_AUTO), use(whole(sums), TG_ACCESS_AUTO)};
    const tg_use behind = use(whole(rows), TG_ACCESS_READ);
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.kernel = summing;
    desc.bindings = bound;
    desc.binding_count = 2;
    desc.extra = &behind;
    desc.extra_count = 1;
    desc.threads[0] = ROWS;
    CHECK_RESULT(tg_launch(dev, &desc), TG_OK);
    CHECK_WORDS(dev, 0, whole(sums), ROWS, 1, 4);
    taint(dev, part(rows, 4, 4), 1, "a row");
    CHECK_RESULT(tg_launch(dev, &desc), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 0, whole(sums), ROWS);
}

TEST(a_claimed_byte_behind_an_address_skips_the_launch) {
    tg_device dev = test_device();
    tg_kernel scaling = {0};
    if (!by_address(dev, "by_address", &scaling)) SKIP("buffer_addresses");
    tg_buffer from = buffer(dev, "from", 2 * WORDS), to = buffer(dev, "to", 2 * WORDS);
    const tg_slice in = part(from, 0, WORDS * 4), out = part(to, 0, WORDS * 4);
    write_words(dev, 0, whole(from), 2 * WORDS, 1, 1);
    write_words(dev, 0, whole(to), 2 * WORDS, 7, 0);
    const uint64_t root = taint(dev, part(from, 40, 1), 1, "one byte");
    taint(dev, part(from, WORDS * 4, 4), 2, "a byte behind the slice");
    CHECK_RESULT(scale_declared(dev, 0, scaling, out, in, 3), TG_SKIPPED);
    uint64_t ids[2] = {0};
    CHECK_EQ_INT(roots_of(dev, out, ids, 2), 1);
    CHECK_EQ_INT(ids[0], root);
    CHECK_UNWRITTEN(dev, 0, out, WORDS);
    CHECK_WORDS(dev, 0, part(to, WORDS * 4, WORDS * 4), WORDS, 7, 0);
    write_words(dev, 0, in, WORDS, 1, 1);
    CHECK_RESULT(scale_declared(dev, 0, scaling, out, in, 3), TG_OK);
    CHECK_WORDS(dev, 0, out, WORDS, 3, 3);
}

/* Each link reads, on another stream, what the one before wrote; a fill writes over what was read. */
TEST(work_by_address_is_ordered_by_its_extra_uses) {
    tg_device dev = test_device();
    tg_kernel scaling = {0};
    if (!by_address(dev, "by_address", &scaling)) SKIP("buffer_addresses");
    tg_buffer ring[3] = {buffer(dev, "a", WORDS), buffer(dev, "b", WORDS), buffer(dev, "c", WORDS)};
    const uint32_t rounds = test_rounds(300);
    write_words(dev, 0, whole(ring[0]), WORDS, 1, 1);
    uint32_t factor = 1;
    for (uint32_t i = 0; i < rounds; i++) {
        REQUIRE_OK(scale_declared(dev, i % 5, scaling, whole(ring[(i + 1) % 3]), whole(ring[i % 3]), 3));
        REQUIRE_OK(tg_buffer_fill(dev, (i + 2) % 5, whole(ring[i % 3]), 0xee, 1));
        if (i % 7 == 0) REQUIRE_OK(tg_stream_flush(dev, i % 5));
        factor *= 3;
    }
    CHECK_WORDS(dev, 6, whole(ring[rounds % 3]), WORDS, factor, factor);
}

TEST(a_launch_that_declares_nothing_is_tracked_for_nothing) {
    tg_device dev = test_device();
    tg_kernel scaling = {0};
    if (!by_address(dev, "by_address", &scaling)) SKIP("buffer_addresses");
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS);
    write_words(dev, 0, whole(from), WORDS, 1, 1);
    REQUIRE_OK(tg_stream_wait(dev, 0, TEST_LONG)); /* nothing else orders them */
    taint(dev, whole(to), 1, "root");
    CHECK_RESULT(scale_by_address(dev, 0, scaling, whole(to), whole(from), 3, NULL, 0), TG_OK);
    REQUIRE_OK(tg_stream_wait(dev, 0, TEST_LONG));
    CHECK_UNWRITTEN(dev, 0, whole(to), WORDS); /* it did run; nobody said what it wrote */
    const tg_slice all = whole(to);
    CHECK_RESULT(tg_mark_written(dev, &all, 1), TG_OK);
    CHECK_WORDS(dev, 0, whole(to), WORDS, 3, 3);
}

TEST(a_buffer_without_memory_skips_what_would_follow_its_address) {
    tg_device dev = test_device();
    tg_kernel scaling = {0};
    const bool whole_kernel = by_address(dev, "by_address", &scaling);
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer lacking = {0}, to = buffer(dev, "to", WORDS);
    desc.size = UINT64_C(1) << 60;
    CHECK_RESULT(tg_buffer_create(dev, &desc, &lacking), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(address_of(dev, lacking) == 0);
    CHECK_RESULT(scale_declared(dev, 0, scaling, whole(to), part(lacking, 0, WORDS * 4), 3), TG_SKIPPED);
    CHECK_EQ_INT(roots_of(dev, whole(to), NULL, 0), whole_kernel ? 1 : 2); /* the kernel's too where it is broken */
    CHECK_RESULT(scale_declared(dev, 0, scaling, part(lacking, 0, WORDS * 4), whole(to), 3), TG_SKIPPED);
}

TEST(a_buffer_reached_by_address_may_be_destroyed_in_flight) {
    tg_device_desc device_desc = test_device_desc();
    device_desc.flags |= TG_DEVICE_ISOLATE_BUFFERS;
    tg_device dev = test_device_with(&device_desc);
    tg_kernel scaling = {0};
    if (!by_address(dev, "by_address", &scaling)) SKIP("buffer_addresses");
    tg_buffer to = buffer(dev, "to", WORDS);
    for (uint32_t round = 0; round < test_rounds(50); round++) {
        tg_buffer from = buffer(dev, "from", WORDS);
        write_words(dev, 0, whole(from), WORDS, round, 1);
        REQUIRE_OK(scale_declared(dev, 1, scaling, whole(to), whole(from), 1));
        REQUIRE_OK(tg_buffer_destroy(dev, from));
        uint64_t freed;
        REQUIRE_OK(tg_device_trim(dev, &freed));
        if (round % 3 == 0) CHECK_WORDS(dev, 0, whole(to), WORDS, round, 1);
    }
}

/* A list in one buffer, its links addresses, its head in a buffer that is bound. */
TEST(addresses_lie_in_buffers_too) {
    tg_device dev = test_device();
    tg_kernel chain = {0};
    if (!by_address(dev, "chain", &chain)) SKIP("buffer_addresses");
    enum { NODES = 5 };
    struct node {
        uint64_t next;
        uint32_t value, unused;
    } nodes[NODES] = {{0}};
    tg_buffer list = buffer(dev, "list", sizeof nodes / 4), head = buffer(dev, "head", 2), sum = buffer(dev, "sum", 1);
    const uint64_t base = address_of(dev, list);
    for (uint32_t i = 0; i < NODES; i++) /* linked as 0, 2, 4, 1, 3 */
        nodes[i] = (struct node){base + (i + 2) % NODES * sizeof *nodes, 10 + i, 0};
    REQUIRE_OK(tg_buffer_write(dev, 0, whole(list), nodes, sizeof nodes));
    REQUIRE_OK(tg_buffer_write(dev, 0, whole(head), &base, sizeof base));
    const tg_use bindings[] = {use(whole(head), TG_ACCESS_AUTO), use(whole(sum), TG_ACCESS_AUTO)};
    const tg_use extra[] = {use(whole(list), TG_ACCESS_READ)};
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.kernel = chain;
    desc.bindings = bindings;
    desc.binding_count = 2;
    desc.extra = extra;
    desc.extra_count = 1;
    desc.groups[0] = 1;
    CHECK_RESULT(tg_launch(dev, &desc), TG_OK);
    CHECK_WORDS(dev, 0, whole(sum), 1, 10 + 12 + 14 + 11, 0);
    taint(dev, part(list, 3 * sizeof *nodes, 4), 1, "a link");
    CHECK_RESULT(tg_launch(dev, &desc), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 0, whole(sum), 1);
}

/* ---- arrays of buffers ---- */

/* An array that is indexed by constants takes no feature of the device, only the room. */
TEST(each_element_of_an_array_is_a_binding) {
    tg_device dev = test_device();
    tg_kernel made = {0};
    const tg_result result = try_kernel(dev, "buffers", TG_KERNEL_DECLARES_USES, &made);
    tg_binding_info bindings[6];
    tg_kernel_info info = TG_KERNEL_INFO_INIT;
    info.bindings = bindings;
    info.binding_capacity = 6;
    REQUIRE_OK(tg_kernel_get_info(dev, made, &info));
    if (info_of(dev).max_bindings < 6) {
        CHECK_RESULT(result, TG_ERROR_LIMIT_EXCEEDED);
        CHECK_CONTAINS(test_last_report_text(), "binds 6 buffers");
        SKIP("six_bindings");
    }
    CHECK_RESULT(result, TG_OK);
    CHECK_EQ_INT(info.binding_count, 6);
    static const uint32_t numbers[] = {0, 1, 1, 1, 1, 2}, elements[] = {0, 0, 1, 2, 3, 0};
    for (size_t i = 0; i < 6; i++) {
        CHECK_EQ_INT(bindings[i].binding, numbers[i]);
        CHECK_EQ_INT(bindings[i].element, elements[i]);
        CHECK_EQ_INT(bindings[i].access, numbers[i] == 1 ? TG_ACCESS_MAY_WRITE : TG_ACCESS_READ);
        if (numbers[i] == 1) CHECK_CONTAINS(bindings[i].name, "targets");
    }
    tg_buffer targets[4], before = buffer(dev, "before", 16), behind = buffer(dev, "behind", 16);
    write_words(dev, 0, whole(before), 16, 40, 1);
    write_words(dev, 0, whole(behind), 16, 50, 1);
    tg_use uses[6] = {use(whole(before), TG_ACCESS_AUTO)};
    for (size_t i = 0; i < 4; i++) {
        targets[i] = buffer(dev, "target", 16);
        uses[i + 1] = use(whole(targets[i]), TG_ACCESS_AUTO);
    }
    uses[5] = use(whole(behind), TG_ACCESS_AUTO);
    for (uint32_t round = 0; round < 3; round++) { /* what is cached the first time serves the others */
        CHECK_RESULT(launch(dev, round, made, uses, 6, NULL, 0, 16), TG_OK);
        CHECK_WORDS(dev, 0, whole(targets[0]), 16, 40, 1);
        CHECK_WORDS(dev, 0, whole(targets[1]), 16, 50, 1);
        CHECK_WORDS(dev, 0, whole(targets[2]), 16, 200, 1);
        CHECK_WORDS(dev, 0, whole(targets[3]), 16, 300, 1);
        REQUIRE_OK(tg_buffer_fill(dev, round, whole(targets[round]), 0, 4));
    }
    /* What is not known to be written does not release, unless the launch says so. */
    taint(dev, whole(targets[2]), 1, "root");
    CHECK_RESULT(launch(dev, 0, made, uses, 6, NULL, 0, 16), TG_OK);
    CHECK_UNWRITTEN(dev, 0, whole(targets[2]), 16);
    for (size_t i = 1; i < 5; i++) uses[i].access = TG_ACCESS_WRITE;
    CHECK_RESULT(launch(dev, 0, made, uses, 6, NULL, 0, 16), TG_OK);
    CHECK_WORDS(dev, 0, whole(targets[2]), 16, 200, 1);
    uses[0].slice.size = 0;
    CHECK_RESULT(launch(dev, 0, made, uses, 5, NULL, 0, 16), TG_ERROR_INVALID_ARGUMENT);
}

/* Of an array only the element that is touched is tracked. */
TEST(an_element_that_is_chosen_when_it_runs) {
    tg_device dev = test_device();
    tg_kernel choosing = {0};
    const tg_result result = try_kernel(dev, "chosen", TG_KERNEL_DECLARES_USES, &choosing);
    if (result != TG_OK) { /* the device need not be able to */
        CHECK_RESULT(result, TG_ERROR_UNSUPPORTED);
        CHECK_CONTAINS(test_last_report_text(), "shaderStorageBufferArrayDynamicIndexing");
        SKIP("dynamic_indexing");
    }
    tg_buffer targets[4];
    tg_use uses[4];
    for (size_t i = 0; i < 4; i++) {
        targets[i] = buffer(dev, "target", 16);
        write_words(dev, 0, whole(targets[i]), 16, 7, 0);
        uses[i] = use(whole(targets[i]), TG_ACCESS_NONE);
    }
    const uint64_t root = taint(dev, whole(targets[1]), 1, "root");
    const uint32_t which = 2;
    uses[which].access = TG_ACCESS_WRITE;
    CHECK_RESULT(launch(dev, 0, choosing, uses, 4, &which, sizeof which, 16), TG_OK);
    CHECK_WORDS(dev, 0, whole(targets[2]), 16, 200, 1);
    CHECK_WORDS(dev, 0, whole(targets[0]), 16, 7, 0);
    uint64_t id = 0;
    CHECK_EQ_INT(roots_of(dev, whole(targets[1]), &id, 1), 1);
    CHECK_EQ_INT(id, root);
    /* Without a word from anybody, each may be written: claims stay, and so does what is clean. */
    for (size_t i = 0; i < 4; i++) uses[i].access = TG_ACCESS_AUTO;
    CHECK_RESULT(launch(dev, 0, choosing, uses, 4, &which, sizeof which, 16), TG_OK);
    CHECK_UNWRITTEN(dev, 0, whole(targets[1]), 16);
    CHECK_EQ_INT(roots_of(dev, whole(targets[1]), &id, 1), 1);
    CHECK_EQ_INT(id, root);
    CHECK_WORDS(dev, 0, whole(targets[3]), 16, 7, 0);
}
