/* Asynchronous reads. */
#include "tg_test.h"

#include <stdlib.h>
#include <time.h>

enum { WORDS = 1024, BYTES = WORDS * 4 };

static tg_read begin(tg_device dev, uint64_t stream, tg_slice slice) {
    tg_read read = {0};
    REQUIRE_OK(tg_read_begin(dev, stream, slice, &read));
    REQUIRE(read.id != 0);
    return read;
}

#define CHECK_READ(dev, read, words, first, step) check_read(__LINE__, dev, read, words, first, step)
static void check_read(int line, tg_device dev, tg_read read, size_t words, uint32_t first, uint32_t step) {
    const void *data = NULL;
    size_t size = 0;
    const tg_result result = tg_read_data(dev, read, &data, &size);
    if (result != TG_OK || size != words * 4 || !data) {
        test_fail(__FILE__, line, "the data of a read: %s, %zu bytes", test_result_name(result), size);
        return;
    }
    for (size_t i = 0; i < words; i++) {
        uint32_t word;
        memcpy(&word, (const char *)data + 4 * i, 4);
        if (word != first + step * (uint32_t)i) {
            test_fail(__FILE__, line, "word %zu is %u, not %u", i, word, first + step * (uint32_t)i);
            return;
        }
    }
}

static size_t read_roots(tg_device dev, tg_read read, uint64_t *first) {
    tg_report report = {0};
    REQUIRE_OK(tg_read_report(dev, read, &report));
    const size_t count = report_count(report);
    if (count) *first = report_failure(report, 0).id;
    tg_report_release(report);
    return count;
}

static uint64_t now(void) {
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (uint64_t)time.tv_sec * TEST_SECOND + (uint64_t)time.tv_nsec;
}

TEST(a_read_gives_its_bytes) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 5, 3);
    tg_read read = begin(dev, 0, whole(data)), some = begin(dev, 1, part(data, 40, 80));
    CHECK_RESULT(tg_read_wait(dev, read, TEST_LONG), TG_OK);
    CHECK_RESULT(tg_read_poll(dev, read), TG_OK);
    CHECK_READ(dev, read, WORDS, 5, 3);
    CHECK_RESULT(tg_read_wait(dev, some, TEST_LONG), TG_OK);
    CHECK_READ(dev, some, 20, 35, 3);
    CHECK_RESULT(tg_read_release(dev, read), TG_OK);
    CHECK_RESULT(tg_read_release(dev, some), TG_OK);
}

TEST(polling_gets_there) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    tg_read read = begin(dev, 0, whole(data));
    const uint64_t end = now() + TEST_LONG;
    tg_result result;
    while ((result = tg_read_poll(dev, read)) == TG_NOT_READY && now() < end) continue;
    CHECK_RESULT(result, TG_OK);
    CHECK_READ(dev, read, WORDS, 1, 1);
}

TEST(the_old_bytes_survive_the_source_and_the_reuse_of_its_memory) {
    tg_device dev = test_device();
    tg_kernel storing = kernel(dev, "store");
    for (uint32_t round = 0; round < test_rounds(50); round++) {
        tg_buffer data = buffer(dev, "data", WORDS);
        write_words(dev, 0, whole(data), WORDS, round, 1);
        tg_read read = begin(dev, 1, whole(data));
        REQUIRE_OK(tg_buffer_destroy(dev, data));
        tg_buffer next = buffer(dev, "next", WORDS);
        for (uint64_t stream = 2; stream < 6; stream++) {
            REQUIRE_OK(store(dev, stream, storing, whole(next), WORDS, 77));
            REQUIRE_OK(tg_stream_flush(dev, stream));
        }
        REQUIRE_OK(tg_read_wait(dev, read, TEST_LONG));
        CHECK_READ(dev, read, WORDS, round, 1);
        CHECK_WORDS(dev, 2, whole(next), WORDS, 77, 0);
        CHECK_READ(dev, read, WORDS, round, 1);
        REQUIRE_OK(tg_read_release(dev, read));
        REQUIRE_OK(tg_buffer_destroy(dev, next));
    }
}

TEST(the_data_stay_until_the_release) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 9, 0);
    tg_read read = begin(dev, 0, whole(data));
    const void *first = NULL, *again = NULL;
    uint64_t freed;
    REQUIRE_OK(tg_read_wait(dev, read, TEST_LONG));
    CHECK_RESULT(tg_read_data(dev, read, &first, NULL), TG_OK);
    REQUIRE_OK(tg_buffer_destroy(dev, data));
    for (int i = 0; i < 100; i++) {
        tg_buffer other = buffer(dev, "other", WORDS);
        write_words(dev, 0, whole(other), WORDS, 1000, 1);
        tg_read beside = begin(dev, 0, whole(other));
        REQUIRE_OK(tg_read_wait(dev, beside, TEST_LONG));
        REQUIRE_OK(tg_read_release(dev, beside));
        REQUIRE_OK(tg_buffer_destroy(dev, other));
    }
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    REQUIRE_OK(tg_device_trim(dev, &freed));
    CHECK_RESULT(tg_read_data(dev, read, &again, NULL), TG_OK);
    CHECK(first == again);
    CHECK_READ(dev, read, WORDS, 9, 0);
}

TEST(waiting_for_the_device_waits_for_reads) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    tg_read read = begin(dev, 0, whole(data));
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    CHECK_RESULT(tg_read_poll(dev, read), TG_OK);
}

TEST(a_read_of_claimed_bytes_says_so_and_names_the_root) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    const uint64_t root = taint(dev, part(data, 8, 4), 1, "a bad word");
    tg_read read = begin(dev, 0, whole(data));
    const void *bytes = &bytes;
    size_t size = 77;
    uint64_t found = 0;
    CHECK_RESULT(tg_read_wait(dev, read, TEST_LONG), TG_ERROR_UNWRITTEN);
    tg_report report = last_report();
    CHECK_EQ_INT(report_count(report), 1);
    CHECK_EQ_INT(report_failure(report, 0).id, root);
    tg_report_release(report);
    CHECK_RESULT(tg_read_data(dev, read, &bytes, &size), TG_ERROR_UNWRITTEN);
    CHECK(bytes == &bytes && size == 77);
    /* Written again: the read is still of what was there. */
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    CHECK_RESULT(tg_read_poll(dev, read), TG_ERROR_UNWRITTEN);
    CHECK_EQ_INT(read_roots(dev, read, &found), 1);
    CHECK_EQ_INT(found, root);
    CHECK_EQ_INT(failure_count(dev), 1);
    REQUIRE_OK(tg_read_release(dev, read));
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(a_read_of_memory_that_was_never_there_names_the_allocation) {
    tg_device dev = test_device();
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer huge = {0};
    desc.size = UINT64_C(1) << 60;
    desc.label = text("huge");
    CHECK_RESULT(tg_buffer_create(dev, &desc, &huge), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    tg_read read = begin(dev, 0, part(huge, 4096, 16));
    CHECK_RESULT(tg_read_poll(dev, read), TG_ERROR_UNWRITTEN);
    tg_report report = last_report();
    CHECK_EQ_INT(report_failure(report, 0).code, TG_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK_CONTAINS(report_text(report), "huge");
    tg_report_release(report);
}

TEST(a_read_that_went_well_has_nothing_to_report) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    uint64_t found;
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    tg_read read = begin(dev, 0, whole(data));
    CHECK_EQ_INT(read_roots(dev, read, &found), 0);
    REQUIRE_OK(tg_read_wait(dev, read, TEST_LONG));
    CHECK_EQ_INT(read_roots(dev, read, &found), 0);
}

TEST(a_read_of_nothing_is_over) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    const void *bytes = &bytes;
    size_t size = 77;
    tg_read read = begin(dev, 0, part(data, 4, 0));
    CHECK_RESULT(tg_read_poll(dev, read), TG_OK);
    CHECK_RESULT(tg_read_data(dev, read, &bytes, &size), TG_OK);
    CHECK(bytes == NULL && size == 0);
}

TEST(a_read_is_released_before_it_is_over) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    tg_memory_info info = TG_MEMORY_INFO_INIT;
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    for (unsigned i = 0; i < test_rounds(1000); i++) {
        tg_read read = begin(dev, i % 4, whole(data));
        REQUIRE_OK(tg_read_release(dev, read));
        CHECK_RESULT(tg_read_poll(dev, read), TG_ERROR_STALE_HANDLE);
    }
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    REQUIRE_OK(tg_stream_flush(dev, 0));
    REQUIRE_OK(tg_device_memory_stats(dev, &info));
    CHECK_EQ_INT(info.readback.used, 0);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 1, 1);
}

TEST(no_bytes_can_be_read_that_the_host_has_no_room_for) {
    tg_device dev = test_device();
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer huge = {0};
    tg_read read = {0};
    desc.size = UINT64_MAX;
    desc.flags = TG_BUFFER_UNALLOCATED;
    REQUIRE_OK(tg_buffer_create(dev, &desc, &huge));
    const tg_result result = tg_read_begin(dev, 0, whole(huge), &read);
    CHECK(result == TG_OK || result == TG_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(read.id != 0);
    CHECK_RESULT(tg_read_poll(dev, read), TG_ERROR_UNWRITTEN);
    REQUIRE_OK(tg_read_release(dev, read));
}

TEST(a_failed_begin_gives_a_read_that_names_it) {
    tg_device_desc desc = test_device_desc();
    desc.memory_cap = 1 << 20;
    tg_device dev = test_device_with(&desc);
    tg_buffer_desc most = TG_BUFFER_DESC_INIT;
    tg_buffer data = {0};
    tg_read read = {0};
    most.size = 800 << 10;
    REQUIRE_OK(tg_buffer_create(dev, &most, &data));
    CHECK_RESULT(tg_read_begin(dev, 0, whole(data), &read), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK(read.id != 0);
    CHECK_RESULT(tg_read_wait(dev, read, TEST_LONG), TG_ERROR_UNWRITTEN);
    tg_report report = last_report();
    CHECK_EQ_INT(report_failure(report, 0).code, TG_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK_CONTAINS(report_failure(report, 0).operation.data, "tg_read_begin");
    tg_report_release(report);
    const tg_slice slice = whole(data);
    CHECK_RESULT(tg_check_written(dev, &slice, 1, TEST_LONG), TG_OK);
    REQUIRE_OK(tg_read_release(dev, read));
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(bad_arguments_begin_nothing) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    tg_buffer_desc token_desc = TG_BUFFER_DESC_INIT;
    tg_buffer token = {0};
    tg_read read = {77};
    token_desc.size = 4;
    token_desc.memory = TG_MEMORY_TOKEN;
    REQUIRE_OK(tg_buffer_create(dev, &token_desc, &token));
    CHECK_RESULT(tg_read_begin(dev, 0, whole(data), NULL), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_read_begin(dev, 0, whole(token), &read), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(read.id, 0);
    read = begin(dev, 0, whole(data));
    CHECK_RESULT(tg_read_data(dev, read, NULL, NULL), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_read_report(dev, read, NULL), TG_ERROR_INVALID_ARGUMENT);
}

TEST(what_is_not_released_goes_with_the_device) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    tg_read over = begin(dev, 0, whole(data)), begun = begin(dev, 1, whole(data));
    REQUIRE_OK(tg_read_wait(dev, over, TEST_LONG));
    REQUIRE_OK(tg_device_destroy(dev, TEST_LONG));
    test_device_gone(dev);
    CHECK(test_log_has("a read"));
    CHECK_RESULT(tg_read_poll(dev, begun), TG_ERROR_STALE_HANDLE);
}
