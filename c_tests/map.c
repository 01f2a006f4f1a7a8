/* Mappings of memory that the host sees. Slices are whole pieces of 256 bytes, so that any device maps them. */
#include "tg_test.h"

enum { PIECE = 64, WORDS = 4 * PIECE, PIECE_BYTES = PIECE * 4 };

static tg_buffer host(tg_device dev, uint32_t memory, const char *label) {
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer made = {0};
    desc.size = WORDS * 4;
    desc.memory = memory;
    desc.label = text(label);
    REQUIRE_OK(tg_buffer_create(dev, &desc, &made));
    return made;
}

static tg_slice piece(tg_buffer buffer, int index) { return part(buffer, (uint64_t)index * PIECE_BYTES, PIECE_BYTES); }

static uint32_t *map(tg_device dev, tg_slice slice, uint32_t access) {
    void *at = NULL;
    REQUIRE_OK(tg_buffer_map(dev, slice, access, TEST_LONG, &at));
    REQUIRE(at != NULL);
    return at;
}

static void fill(uint32_t *at, size_t words, uint32_t first, uint32_t step) {
    for (size_t i = 0; i < words; i++) at[i] = first + step * (uint32_t)i;
}

#define CHECK_MAPPED(at, words, first, step) check_mapped(__LINE__, at, words, first, step)
static void check_mapped(int line, const uint32_t *at, size_t words, uint32_t first, uint32_t step) {
    for (size_t i = 0; i < words; i++)
        if (at[i] != first + step * (uint32_t)i) {
            test_fail(__FILE__, line, "word %zu is %u, not %u", i, at[i], first + step * (uint32_t)i);
            return;
        }
}

TEST(what_the_host_writes_kernels_read) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer input = host(dev, TG_MEMORY_UPLOAD, "input"), out = buffer(dev, "out", WORDS);
    for (uint32_t round = 0; round < test_rounds(20); round++) {
        fill(map(dev, whole(input), TG_ACCESS_WRITE), WORDS, round, 1);
        REQUIRE_OK(tg_buffer_unmap(dev, whole(input)));
        REQUIRE_OK(scale(dev, 1, scaling, whole(out), whole(input), WORDS, 3));
    }
    CHECK_WORDS(dev, 0, whole(out), WORDS, (test_rounds(20) - 1) * 3, 3);
}

TEST(what_kernels_write_the_host_reads) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer input = buffer(dev, "input", WORDS), out = host(dev, TG_MEMORY_READBACK, "out");
    for (uint32_t round = 0; round < test_rounds(20); round++) {
        write_words(dev, 0, whole(input), WORDS, round, 1);
        REQUIRE_OK(scale(dev, 1, scaling, whole(out), whole(input), WORDS, 3));
        CHECK_MAPPED(map(dev, whole(out), TG_ACCESS_READ), WORDS, round * 3, 3);
        REQUIRE_OK(tg_buffer_unmap(dev, whole(out)));
    }
}

TEST(the_host_and_a_kernel_take_turns_in_place) {
    tg_device dev = test_device();
    tg_kernel incrementing = kernel(dev, "increment");
    static const uint32_t kinds[] = {TG_MEMORY_UPLOAD, TG_MEMORY_READBACK};
    for (int k = 0; k < 2; k++) {
        tg_buffer data = host(dev, kinds[k], "data");
        fill(map(dev, whole(data), TG_ACCESS_WRITE), WORDS, 0, 1);
        REQUIRE_OK(tg_buffer_unmap(dev, whole(data)));
        for (uint32_t round = 0; round < test_rounds(20); round++) {
            REQUIRE_OK(increment(dev, round % 3, incrementing, whole(data), WORDS, 1));
            uint32_t *at = map(dev, whole(data), TG_ACCESS_READ_WRITE);
            CHECK_MAPPED(at, WORDS, 2 * round + 1, 1);
            for (size_t i = 0; i < WORDS; i++) at[i]++;
            REQUIRE_OK(tg_buffer_unmap(dev, whole(data)));
        }
        CHECK_WORDS(dev, 0, whole(data), WORDS, 2 * test_rounds(20), 1);
    }
}

TEST(disjoint_pieces_are_mapped_at_once) {
    tg_device dev = test_device();
    tg_buffer data = host(dev, TG_MEMORY_UPLOAD, "data");
    uint32_t *at[4];
    for (int i = 0; i < 4; i++) at[i] = map(dev, piece(data, i), TG_ACCESS_WRITE);
    for (int i = 0; i < 4; i++) CHECK(i == 0 || at[i] == at[0] + i * PIECE);
    for (int i = 3; i >= 0; i--) fill(at[i], PIECE, (uint32_t)(i * PIECE), 1);
    for (int i = 0; i < 4; i++) REQUIRE_OK(tg_buffer_unmap(dev, piece(data, (i + 2) % 4)));
    CHECK_WORDS(dev, 0, whole(data), WORDS, 0, 1);
}

TEST(mapped_bytes_are_held) {
    tg_device dev = test_device();
    tg_kernel storing = kernel(dev, "store");
    tg_buffer data = host(dev, TG_MEMORY_UPLOAD, "data");
    uint32_t words[WORDS] = {0};
    void *at = words;
    tg_read read = {0};
    write_words(dev, 0, whole(data), WORDS, 7, 0);
    fill(map(dev, piece(data, 1), TG_ACCESS_WRITE), PIECE, 8, 0);
    CHECK_RESULT(tg_buffer_write(dev, 0, whole(data), words, sizeof words), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_buffer_read(dev, 0, words, sizeof words, whole(data), TEST_LONG), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_read_begin(dev, 0, whole(data), &read), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(store(dev, 0, storing, whole(data), WORDS, 1), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_buffer_map(dev, whole(data), TG_ACCESS_READ, 0, &at), TG_ERROR_WRONG_STATE);
    CHECK(at == NULL);
    CHECK_RESULT(tg_buffer_destroy(dev, data), TG_ERROR_WRONG_STATE);
    CHECK_WORDS(dev, 0, piece(data, 0), PIECE, 7, 0);
    REQUIRE_OK(store(dev, 0, storing, piece(data, 2), PIECE, 9));
    REQUIRE_OK(tg_buffer_unmap(dev, piece(data, 1)));
    CHECK_WORDS(dev, 0, piece(data, 1), PIECE, 8, 0);
    CHECK_WORDS(dev, 0, piece(data, 2), PIECE, 9, 0);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(bytes_mapped_to_be_read_are_read_by_others_too) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer data = host(dev, TG_MEMORY_READBACK, "data"), out = buffer(dev, "out", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    uint32_t *at = map(dev, whole(data), TG_ACCESS_READ), *again = map(dev, whole(data), TG_ACCESS_READ);
    CHECK(at == again);
    REQUIRE_OK(scale(dev, 0, scaling, whole(out), whole(data), WORDS, 2));
    CHECK_WORDS(dev, 0, whole(out), WORDS, 2, 2);
    CHECK_MAPPED(at, WORDS, 1, 1);
    CHECK_RESULT(tg_buffer_fill(dev, 0, whole(data), 0, 4), TG_ERROR_WRONG_STATE);
    REQUIRE_OK(tg_buffer_unmap(dev, whole(data)));
    REQUIRE_OK(tg_buffer_unmap(dev, whole(data)));
    CHECK_RESULT(tg_buffer_unmap(dev, whole(data)), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_buffer_fill(dev, 0, whole(data), 0, 4), TG_OK);
}

TEST(claimed_bytes_are_not_mapped_to_be_read) {
    tg_device dev = test_device();
    tg_buffer data = host(dev, TG_MEMORY_UPLOAD, "data");
    void *at = &at;
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    const uint64_t root = taint(dev, part(data, 4, 4), 1, "a bad word");
    CHECK_RESULT(tg_buffer_map(dev, whole(data), TG_ACCESS_READ, TEST_LONG, &at), TG_ERROR_UNWRITTEN);
    CHECK(at == NULL);
    tg_report report = last_report();
    CHECK_EQ_INT(report_failure(report, 0).id, root);
    tg_report_release(report);
    CHECK_WORDS(dev, 0, piece(data, 1), PIECE, PIECE + 1, 1);
    CHECK_RESULT(tg_buffer_map(dev, piece(data, 0), TG_ACCESS_READ_WRITE, TEST_LONG, &at), TG_SKIPPED);
    CHECK(at == NULL);
    CHECK_UNWRITTEN(dev, 0, part(data, 0, 4), 1);
    CHECK_WORDS(dev, 0, piece(data, 1), PIECE, PIECE + 1, 1);
}

TEST(writing_releases_exactly_what_was_mapped) {
    tg_device dev = test_device();
    tg_buffer data = host(dev, TG_MEMORY_UPLOAD, "data");
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    taint(dev, whole(data), 1, "all bad");
    fill(map(dev, piece(data, 1), TG_ACCESS_WRITE), PIECE, 5, 1);
    const tg_slice slice = piece(data, 1);
    CHECK_RESULT(tg_check_written(dev, &slice, 1, TEST_LONG), TG_ERROR_UNWRITTEN);
    tg_report report = last_report();
    CHECK_EQ_INT(report_failure(report, 0).code, TG_ERROR_TORN_DOWN);
    tg_report_release(report);
    REQUIRE_OK(tg_buffer_unmap(dev, piece(data, 1)));
    CHECK_WORDS(dev, 0, piece(data, 1), PIECE, 5, 1);
    CHECK_UNWRITTEN(dev, 0, piece(data, 0), PIECE);
    CHECK_UNWRITTEN(dev, 0, piece(data, 2), PIECE);
    CHECK_EQ_INT(failure_count(dev), 1);
}

TEST(memory_of_the_devices_is_not_mapped) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer token = {0};
    void *at = &at;
    desc.size = 4;
    desc.memory = TG_MEMORY_TOKEN;
    REQUIRE_OK(tg_buffer_create(dev, &desc, &token));
    CHECK_RESULT(tg_buffer_map(dev, whole(data), TG_ACCESS_READ, TEST_LONG, &at), TG_ERROR_WRONG_STATE);
    CHECK(at == NULL);
    CHECK_RESULT(tg_buffer_map(dev, whole(data), TG_ACCESS_WRITE, TEST_LONG, &at), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_buffer_map(dev, whole(token), TG_ACCESS_WRITE, TEST_LONG, &at), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(a_slice_that_breaks_the_alignment_is_a_limit) {
    tg_device dev = test_device();
    tg_device_info info = TG_DEVICE_INFO_INIT;
    tg_buffer data[2];
    data[0] = host(dev, TG_MEMORY_UPLOAD, "up");
    data[1] = host(dev, TG_MEMORY_READBACK, "back");
    REQUIRE_OK(tg_device_get_info(dev, &info));
    REQUIRE(info.map_alignment >= 1 && PIECE_BYTES % info.map_alignment == 0);
    unsigned refused = 0;
    for (int k = 0; k < 2; k++) {
        void *at = &at;
        write_words(dev, 0, whole(data[k]), WORDS, 1, 1);
        const tg_result result = tg_buffer_map(dev, part(data[k], 4, 4), TG_ACCESS_WRITE, TEST_LONG, &at);
        if (result == TG_OK) {
            *(uint32_t *)at = 2;
            REQUIRE_OK(tg_buffer_unmap(dev, part(data[k], 4, 4)));
            CHECK_WORDS(dev, 0, whole(data[k]), WORDS, 1, 1);
            continue;
        }
        refused++;
        CHECK_RESULT(result, TG_ERROR_LIMIT_EXCEEDED);
        CHECK(at == NULL);
        CHECK_UNWRITTEN(dev, 0, part(data[k], 4, 4), 1);
        CHECK_WORDS(dev, 0, part(data[k], 8, 8), 2, 3, 1);
        CHECK_MAPPED(map(dev, part(data[k], 8, 8), TG_ACCESS_READ), 2, 3, 1);
        REQUIRE_OK(tg_buffer_unmap(dev, part(data[k], 8, 8)));
    }
    CHECK_EQ_INT(refused > 0, info.map_alignment > 4);
}

TEST(nothing_is_mapped_of_no_bytes) {
    tg_device dev = test_device();
    tg_buffer data = host(dev, TG_MEMORY_UPLOAD, "data");
    void *at = &at;
    CHECK_RESULT(tg_buffer_map(dev, part(data, 4, 0), TG_ACCESS_WRITE, 0, &at), TG_OK);
    CHECK(at == NULL);
    CHECK_RESULT(tg_buffer_unmap(dev, part(data, 4, 0)), TG_OK);
}

TEST(bad_arguments_map_nothing) {
    tg_device dev = test_device();
    tg_buffer data = host(dev, TG_MEMORY_UPLOAD, "data");
    static const uint32_t accesses[] = {TG_ACCESS_AUTO, TG_ACCESS_NONE, TG_ACCESS_MAY_WRITE, 6, UINT32_MAX};
    for (size_t i = 0; i < sizeof accesses / sizeof *accesses; i++) {
        void *at = &at;
        CHECK_RESULT(tg_buffer_map(dev, whole(data), accesses[i], 0, &at), TG_ERROR_INVALID_ARGUMENT);
        CHECK(at == NULL);
    }
    CHECK_RESULT(tg_buffer_map(dev, whole(data), TG_ACCESS_READ, 0, NULL), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_buffer_unmap(dev, whole(data)), TG_ERROR_WRONG_STATE);
    map(dev, whole(data), TG_ACCESS_READ);
    CHECK_RESULT(tg_buffer_unmap(dev, piece(data, 0)), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_buffer_unmap(dev, whole(data)), TG_OK);
}

TEST(a_buffer_without_memory_names_its_root) {
    tg_device dev = test_device();
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer huge = {0};
    void *at = &at;
    desc.size = UINT64_C(1) << 60;
    desc.memory = TG_MEMORY_UPLOAD;
    CHECK_RESULT(tg_buffer_create(dev, &desc, &huge), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK_RESULT(tg_buffer_map(dev, part(huge, 0, 256), TG_ACCESS_WRITE, TEST_LONG, &at), TG_SKIPPED);
    CHECK(at == NULL);
    CHECK_RESULT(tg_buffer_map(dev, part(huge, 0, 256), TG_ACCESS_READ, TEST_LONG, &at), TG_ERROR_UNWRITTEN);
    CHECK_EQ_INT(failure_count(dev), 1);
}

TEST(a_mapping_is_logged_when_the_device_goes) {
    tg_device dev = test_device();
    tg_buffer data = host(dev, TG_MEMORY_UPLOAD, "still mapped");
    map(dev, piece(data, 1), TG_ACCESS_WRITE);
    REQUIRE_OK(tg_device_destroy(dev, TEST_LONG));
    test_device_gone(dev);
    CHECK(test_log_has("a mapping of bytes 256 to 512 of buffer \"still mapped\""));
}
