/* Buffers: memory, writes, reads, copies and fills. */
#include "tg_test.h"

#include <stdlib.h>

enum { WORDS = 64 };

static tg_buffer_desc desc_of(uint64_t size) {
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    desc.size = size;
    return desc;
}

TEST(a_written_buffer_reads_the_same) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 3, 7);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 3, 7);
}

TEST(every_memory_can_be_written_and_read) {
    tg_device dev = test_device();
    static const uint32_t memories[] = {TG_MEMORY_DEVICE, TG_MEMORY_UPLOAD, TG_MEMORY_READBACK};
    for (size_t i = 0; i < 3; i++) {
        tg_buffer_desc desc = desc_of(WORDS * 4);
        tg_buffer data = {0};
        desc.memory = memories[i];
        REQUIRE_OK(tg_buffer_create(dev, &desc, &data));
        write_words(dev, 0, whole(data), WORDS, (uint32_t)i, 3);
        CHECK_WORDS(dev, 1, whole(data), WORDS, (uint32_t)i, 3);
    }
}

TEST(size_zero_is_misuse) {
    tg_device dev = test_device();
    const tg_buffer_desc desc = desc_of(0);
    tg_buffer made = {77};
    CHECK_RESULT(tg_buffer_create(dev, &desc, &made), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(made.id, 0);
    CHECK_CONTAINS(test_last_report_text(), "size");
}

TEST(an_unknown_memory_is_misuse) {
    tg_device dev = test_device();
    tg_buffer_desc desc = desc_of(64);
    tg_buffer made = {77};
    desc.memory = 99;
    CHECK_RESULT(tg_buffer_create(dev, &desc, &made), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(made.id, 0);
    CHECK_CONTAINS(test_last_report_text(), "memory");
}

TEST(unknown_flags_are_misuse) {
    tg_device dev = test_device();
    tg_buffer_desc desc = desc_of(64);
    tg_buffer made = {77};
    desc.flags = UINT64_C(1) << 63;
    CHECK_RESULT(tg_buffer_create(dev, &desc, &made), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(made.id, 0);
}

TEST(a_null_label_with_a_size_is_misuse) {
    tg_device dev = test_device();
    tg_buffer_desc desc = desc_of(64);
    tg_buffer made = {77};
    desc.label.data = NULL;
    desc.label.size = 5;
    CHECK_RESULT(tg_buffer_create(dev, &desc, &made), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(made.id, 0);
}

TEST(info_tells_what_was_asked_for) {
    tg_device dev = test_device();
    tg_buffer_desc desc = desc_of(1000);
    tg_buffer made = {0};
    desc.stream = 5;
    desc.label = text("the label");
    desc.tag = 99;
    REQUIRE_OK(tg_buffer_create(dev, &desc, &made));
    tg_buffer_info info = TG_BUFFER_INFO_INIT;
    CHECK_RESULT(tg_buffer_get_info(dev, made, &info), TG_OK);
    CHECK_EQ_INT(info.size, 1000);
    CHECK_EQ_INT(info.memory, TG_MEMORY_DEVICE);
    CHECK_EQ_INT(info.stream, 5);
    CHECK_EQ_INT(info.allocated, 1);
    CHECK_EQ_INT(info.claimed, 0);
    CHECK_EQ_INT(info.tag, 99);
    CHECK_CONTAINS(info.label, "the label");
}

TEST(a_long_label_is_cut) {
    tg_device dev = test_device();
    static char label[4096];
    memset(label, 'x', sizeof label);
    tg_buffer_desc desc = desc_of(64);
    tg_buffer made = {0};
    desc.label.data = label;
    desc.label.size = sizeof label;
    REQUIRE_OK(tg_buffer_create(dev, &desc, &made));
    tg_buffer_info info = TG_BUFFER_INFO_INIT;
    CHECK_RESULT(tg_buffer_get_info(dev, made, &info), TG_OK);
    CHECK_EQ_INT(strlen(info.label), 128);
}

TEST(writing_a_part_leaves_the_rest) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 0, 1);
    write_words(dev, 0, part(data, 16, 16), 4, 100, 1);
    CHECK_WORDS(dev, 0, part(data, 0, 16), 4, 0, 1);
    CHECK_WORDS(dev, 0, part(data, 16, 16), 4, 100, 1);
    CHECK_WORDS(dev, 0, part(data, 32, WORDS * 4 - 32), WORDS - 8, 8, 1);
}

TEST(bytes_need_no_alignment) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    unsigned char source[64], back[64];
    for (size_t i = 0; i < sizeof source; i++) source[i] = (unsigned char)(i * 7 + 1);
    for (uint64_t offset = 0; offset < 5; offset++) {
        for (uint64_t size = 1; size < 9; size++) {
            memset(back, 0, sizeof back);
            CHECK_RESULT(tg_buffer_write(dev, 0, part(data, offset, size), source, size), TG_OK);
            CHECK_RESULT(tg_buffer_read(dev, 1, back, size, part(data, offset, size), TEST_LONG), TG_OK);
            CHECK(memcmp(source, back, size) == 0);
        }
    }
}

TEST(the_source_of_a_write_may_go_at_once) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    uint32_t *source = malloc(WORDS * 4);
    REQUIRE(source);
    for (uint32_t i = 0; i < WORDS; i++) source[i] = i;
    CHECK_RESULT(tg_buffer_write(dev, 0, whole(data), source, WORDS * 4), TG_OK);
    memset(source, 0xff, WORDS * 4);
    free(source);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 0, 1);
}

TEST(a_write_larger_than_the_staging_ring_arrives_whole) {
    tg_device_desc device_desc = test_device_desc();
    device_desc.staging_size = 1 << 20;
    tg_device dev = test_device_with(&device_desc);
    enum { LARGE = 3 << 20 };
    tg_buffer data = buffer(dev, "large", LARGE);
    write_words(dev, 0, whole(data), LARGE, 1, 3);
    CHECK_WORDS(dev, 1, whole(data), LARGE, 1, 3);
}

TEST(sizes_given_twice_must_agree) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    uint32_t words[WORDS] = {0};
    CHECK_RESULT(tg_buffer_write(dev, 0, whole(data), words, WORDS * 4 - 1), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_buffer_write(dev, 0, part(data, 0, 8), words, 16), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_buffer_read(dev, 0, words, 16, part(data, 0, 8), TEST_LONG), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_buffer_read(dev, 0, words, 8, whole(data), TEST_LONG), TG_ERROR_INVALID_ARGUMENT);
}

TEST(a_null_source_is_misuse) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    CHECK_RESULT(tg_buffer_write(dev, 0, whole(data), NULL, WORDS * 4), TG_ERROR_INVALID_ARGUMENT);
    CHECK_CONTAINS(test_last_report_text(), "src");
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(a_null_destination_is_misuse) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    CHECK_RESULT(tg_buffer_read(dev, 0, NULL, WORDS * 4, whole(data), TEST_LONG), TG_ERROR_INVALID_ARGUMENT);
    CHECK_CONTAINS(test_last_report_text(), "dst");
}

TEST(zero_bytes_are_nothing) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    taint(dev, whole(data), 1, "root");
    uint32_t word = 0;
    CHECK_RESULT(tg_buffer_write(dev, 0, part(data, 0, 0), &word, 0), TG_OK);
    CHECK_RESULT(tg_buffer_read(dev, 0, &word, 0, part(data, 4, 0), TEST_LONG), TG_OK);
    CHECK_RESULT(tg_buffer_copy(dev, 0, part(data, 0, 0), part(data, 8, 0)), TG_OK);
    CHECK_RESULT(tg_buffer_fill(dev, 0, part(data, 0, 0), 1, 4), TG_OK);
    CHECK_UNWRITTEN(dev, 0, whole(data), WORDS); /* and release nothing */
}

TEST(zero_bytes_excuse_no_wrong_argument) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    CHECK_RESULT(tg_buffer_fill(dev, 0, part(data, 0, 0), 1, 3), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_buffer_copy(dev, 0, part(data, 0, 0), part(data, 8, 4)), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_buffer_copy(dev, 0, part(data, 0, 4), part(data, 8, 0)), TG_ERROR_INVALID_ARGUMENT);
}

TEST(fills_with_words_halves_and_bytes) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    CHECK_RESULT(tg_buffer_fill(dev, 0, whole(data), 0x01020304, 4), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 0x01020304, 0);
    CHECK_RESULT(tg_buffer_fill(dev, 0, whole(data), 0xabcd, 2), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 0xabcdabcd, 0);
    CHECK_RESULT(tg_buffer_fill(dev, 0, whole(data), 0x5a, 1), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 0x5a5a5a5a, 0);
}

TEST(ragged_fills_touch_their_bytes_only) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    for (uint64_t offset = 0; offset < 5; offset++) {
        for (uint64_t size = 1; size < 14; size++) {
            unsigned char back[32];
            CHECK_RESULT(tg_buffer_fill(dev, 0, whole(data), 0, 1), TG_OK);
            CHECK_RESULT(tg_buffer_fill(dev, 0, part(data, offset, size), 0xee, 1), TG_OK);
            CHECK_RESULT(tg_buffer_read(dev, 0, back, sizeof back, part(data, 0, sizeof back), TEST_LONG), TG_OK);
            for (uint64_t i = 0; i < sizeof back; i++) {
                const int expected = i >= offset && i < offset + size ? 0xee : 0;
                if (back[i] != expected)
                    test_fail(__FILE__, __LINE__, "fill of %d bytes at %d: byte %d is %d", (int)size, (int)offset, (int)i, back[i]);
            }
        }
    }
}

TEST(an_unknown_pattern_size_is_misuse) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    CHECK_RESULT(tg_buffer_fill(dev, 0, whole(data), 0, 3), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_buffer_fill(dev, 0, whole(data), 0, 0), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_buffer_fill(dev, 0, part(data, 0, 6), 0, 4), TG_ERROR_INVALID_ARGUMENT);
}

TEST(copies_between_buffers_and_streams) {
    tg_device dev = test_device();
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS);
    write_words(dev, 0, whole(from), WORDS, 5, 2);
    CHECK_RESULT(tg_buffer_copy(dev, 1, whole(to), whole(from)), TG_OK);
    CHECK_WORDS(dev, 2, whole(to), WORDS, 5, 2);
}

TEST(copies_inside_one_buffer) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 0, 1);
    CHECK_RESULT(tg_buffer_copy(dev, 0, part(data, 128, 128), part(data, 0, 128)), TG_OK);
    CHECK_WORDS(dev, 0, part(data, 128, 128), 32, 0, 1);
}

TEST(an_overlapping_copy_is_misuse) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 0, 1);
    CHECK_RESULT(tg_buffer_copy(dev, 0, part(data, 4, 64), part(data, 0, 64)), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_buffer_copy(dev, 0, whole(data), whole(data)), TG_ERROR_INVALID_ARGUMENT);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 0, 1);
}

TEST(copies_of_unequal_size_are_misuse) {
    tg_device dev = test_device();
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS * 2);
    CHECK_RESULT(tg_buffer_copy(dev, 0, whole(to), whole(from)), TG_ERROR_INVALID_ARGUMENT);
}

TEST(slices_out_of_range_are_misuse) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    uint32_t words[WORDS] = {0};
    const tg_slice bad[] = {part(data, WORDS * 4 - 3, 4), part(data, WORDS * 4 + 1, 0), part(data, UINT64_MAX - 1, 4),
                            part(data, 0, WORDS * 4 + 1), part(data, 8, UINT64_MAX - 4)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_RESULT(tg_buffer_write(dev, 0, bad[i], words, (size_t)bad[i].size), TG_ERROR_INVALID_ARGUMENT);
        CHECK_RESULT(tg_buffer_read(dev, 0, words, (size_t)bad[i].size, bad[i], TEST_LONG), TG_ERROR_INVALID_ARGUMENT);
        CHECK_RESULT(tg_buffer_fill(dev, 0, bad[i], 0, 1), TG_ERROR_INVALID_ARGUMENT);
    }
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(an_unallocated_buffer_is_allocated_later) {
    tg_device dev = test_device();
    tg_buffer_desc desc = desc_of(WORDS * 4);
    tg_buffer later = {0};
    desc.flags = TG_BUFFER_UNALLOCATED;
    CHECK_RESULT(tg_buffer_create(dev, &desc, &later), TG_OK);
    tg_buffer_info info = TG_BUFFER_INFO_INIT;
    CHECK_RESULT(tg_buffer_get_info(dev, later, &info), TG_OK);
    CHECK_EQ_INT(info.allocated, 0);
    CHECK_RESULT(tg_buffer_allocate(dev, later, 0), TG_OK);
    write_words(dev, 0, whole(later), WORDS, 1, 1);
    CHECK_WORDS(dev, 0, whole(later), WORDS, 1, 1);
}

TEST(allocating_after_a_failure_keeps_the_root_until_written) {
    tg_device dev = test_device();
    const tg_buffer_desc desc = desc_of(UINT64_C(1) << 40);
    tg_buffer large = {0};
    CHECK_RESULT(tg_buffer_create(dev, &desc, &large), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    uint64_t before[2] = {0}, after[2] = {0};
    CHECK_EQ_INT(roots_of(dev, part(large, 0, WORDS * 4), before, 2), 1);
    CHECK_RESULT(tg_buffer_allocate(dev, large, WORDS * 4), TG_OK);
    CHECK_EQ_INT(roots_of(dev, whole(large), after, 2), 1);
    CHECK_EQ_INT(after[0], before[0]);
    CHECK_UNWRITTEN(dev, 0, whole(large), WORDS);
    write_words(dev, 0, whole(large), WORDS, 1, 1);
    CHECK_WORDS(dev, 0, whole(large), WORDS, 1, 1);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(allocating_what_has_memory_is_wrong_state) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    CHECK_RESULT(tg_buffer_allocate(dev, data, 0), TG_ERROR_WRONG_STATE);
}

TEST(a_token_is_tracked_and_has_no_bytes) {
    tg_device dev = test_device();
    tg_buffer_desc desc = desc_of(64);
    tg_buffer token = {0};
    uint32_t word = 0;
    desc.memory = TG_MEMORY_TOKEN;
    REQUIRE_OK(tg_buffer_create(dev, &desc, &token));
    CHECK(TG_IS_MISUSE(tg_buffer_write(dev, 0, part(token, 0, 4), &word, 4)));
    CHECK(TG_IS_MISUSE(tg_buffer_read(dev, 0, &word, 4, part(token, 0, 4), TEST_LONG)));
    taint(dev, part(token, 0, 32), 1, "root");
    const tg_slice tainted = part(token, 0, 32), clean = part(token, 32, 32);
    CHECK_RESULT(tg_check_written(dev, &tainted, 1, TEST_LONG), TG_ERROR_UNWRITTEN);
    CHECK_RESULT(tg_check_written(dev, &clean, 1, TEST_LONG), TG_OK);
}

TEST(a_reused_block_inherits_no_claim) {
    tg_device dev = test_device();
    for (int round = 0; round < 50; round++) {
        tg_buffer data = buffer(dev, "data", WORDS);
        const tg_slice all = whole(data);
        CHECK_RESULT(tg_check_written(dev, &all, 1, TEST_LONG), TG_OK);
        taint(dev, all, round, "root");
        CHECK_RESULT(tg_buffer_destroy(dev, data), TG_OK);
        CHECK_EQ_INT(failure_count(dev), 0);
    }
}

TEST(fresh_bytes_are_never_written_where_that_is_tracked) {
    tg_device_desc device_desc = test_device_desc();
    device_desc.flags |= TG_DEVICE_TRACK_UNINITIALIZED;
    tg_device dev = test_device_with(&device_desc);
    tg_buffer data = buffer(dev, "fresh", WORDS);
    CHECK_UNWRITTEN(dev, 0, whole(data), WORDS);
    tg_report report = last_report();
    const tg_failure_info failure = report_failure(report, 0);
    CHECK_EQ_INT(failure.code, TG_ERROR_NEVER_WRITTEN);
    tg_report_release(report);
    write_words(dev, 0, part(data, 0, 16), 4, 1, 1);
    CHECK_WORDS(dev, 0, part(data, 0, 16), 4, 1, 1);
    CHECK_UNWRITTEN(dev, 0, part(data, 16, 16), 4);
}

TEST(writing_what_has_no_memory_is_skipped) {
    tg_device dev = test_device();
    const tg_buffer_desc desc = desc_of(UINT64_C(1) << 40);
    tg_buffer large = {0};
    uint32_t words[4] = {0};
    CHECK_RESULT(tg_buffer_create(dev, &desc, &large), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK_RESULT(tg_buffer_write(dev, 0, part(large, 0, sizeof words), words, sizeof words), TG_SKIPPED);
    CHECK_RESULT(tg_buffer_fill(dev, 0, part(large, 0, 16), 0, 4), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 0, part(large, 0, 16), 4);
    CHECK_EQ_INT(failure_count(dev), 1);
}

TEST(a_write_may_refuse_to_wait) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    uint32_t words[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) words[i] = i;
    const tg_result result = tg_buffer_write_with(dev, 0, whole(data), words, sizeof words, TG_WRITE_NO_WAIT);
    CHECK_RESULT(result, TG_OK); /* the staging memory is empty */
    CHECK_WORDS(dev, 0, whole(data), WORDS, 0, 1);
    CHECK_RESULT(tg_buffer_write_with(dev, 0, whole(data), words, sizeof words, 2), TG_ERROR_INVALID_ARGUMENT);
}

TEST(the_memory_cap_is_kept) {
    tg_device_desc device_desc = test_device_desc();
    device_desc.memory_cap = 256 << 20;
    tg_device dev = test_device_with(&device_desc);
    const tg_buffer_desc desc = desc_of(512 << 20);
    tg_buffer large = {0};
    CHECK_RESULT(tg_buffer_create(dev, &desc, &large), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(large.id != 0);
    tg_buffer small = buffer(dev, "small", WORDS);
    write_words(dev, 0, whole(small), WORDS, 1, 1);
    CHECK_WORDS(dev, 0, whole(small), WORDS, 1, 1);
}
