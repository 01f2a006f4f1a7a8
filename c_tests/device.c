/* Creating, asking and destroying devices. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "tg_test.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

TEST(creates_with_every_default) {
    const tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {0};
    CHECK_RESULT(tg_device_create(&desc, &dev), TG_OK);
    CHECK(dev.id != 0);
    CHECK_RESULT(tg_device_status(dev), TG_OK);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
}

TEST(null_descriptor_is_misuse) {
    tg_device dev = {77};
    CHECK_RESULT(tg_device_create(NULL, &dev), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(dev.id, 0);
}

TEST(null_output_is_misuse) {
    const tg_device_desc desc = TG_DEVICE_DESC_INIT;
    CHECK_RESULT(tg_device_create(&desc, NULL), TG_ERROR_INVALID_ARGUMENT);
}

TEST(struct_size_zero_is_misuse) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {77};
    desc.struct_size = 0;
    CHECK_RESULT(tg_device_create(&desc, &dev), TG_ERROR_INVALID_ARGUMENT);
    CHECK_CONTAINS(test_last_report_text(), "struct_size");
    CHECK_CONTAINS(test_last_report_text(), "_INIT");
}

TEST(a_longer_struct_with_a_zero_tail_is_accepted) {
    struct {
        tg_device_desc desc;
        uint64_t tail[4];
    } longer = {TG_DEVICE_DESC_INIT, {0}};
    tg_device dev = {0};
    longer.desc.struct_size = sizeof longer;
    CHECK_RESULT(tg_device_create(&longer.desc, &dev), TG_OK);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
}

TEST(a_longer_struct_with_an_unknown_tail_is_misuse) {
    struct {
        tg_device_desc desc;
        uint64_t tail[4];
    } longer = {TG_DEVICE_DESC_INIT, {0, 0, 0, 1}};
    tg_device dev = {77};
    longer.desc.struct_size = sizeof longer;
    CHECK_RESULT(tg_device_create(&longer.desc, &dev), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(dev.id, 0);
}

TEST(unknown_flags_are_misuse) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {77};
    desc.flags = UINT64_C(1) << 63;
    CHECK_RESULT(tg_device_create(&desc, &dev), TG_ERROR_INVALID_ARGUMENT);
    CHECK_CONTAINS(test_last_report_text(), "flags");
}

TEST(an_index_beyond_the_count_is_no_device) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {77};
    desc.select = TG_SELECT_INDEX;
    desc.index = 1000;
    CHECK_RESULT(tg_device_create(&desc, &dev), TG_ERROR_NO_DEVICE);
    CHECK_EQ_INT(dev.id, 0);
    CHECK_CONTAINS(test_last_report_text(), "1000");
}

TEST(selects_by_name) {
    tg_device_info info = TG_DEVICE_INFO_INIT;
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {0};
    REQUIRE_OK(tg_device_describe(0, &info));
    desc.select = TG_SELECT_NAME;
    desc.name = text(info.name);
    CHECK_RESULT(tg_device_create(&desc, &dev), TG_OK);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
}

TEST(an_unknown_name_is_no_device) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {77};
    desc.select = TG_SELECT_NAME;
    desc.name = text("a device nobody makes");
    CHECK_RESULT(tg_device_create(&desc, &dev), TG_ERROR_NO_DEVICE);
    CHECK_CONTAINS(test_last_report_text(), "a device nobody makes");
}

TEST(selects_by_uuid) {
    tg_device_info info = TG_DEVICE_INFO_INIT;
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {0};
    REQUIRE_OK(tg_device_describe(0, &info));
    desc.select = TG_SELECT_UUID;
    memcpy(desc.uuid, info.uuid, sizeof desc.uuid);
    CHECK_RESULT(tg_device_create(&desc, &dev), TG_OK);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
}

TEST(info_tells_what_the_device_is) {
    tg_device dev = test_device();
    tg_device_info info = TG_DEVICE_INFO_INIT;
    CHECK_RESULT(tg_device_get_info(dev, &info), TG_OK);
    CHECK_CONTAINS(info.name, test_device_name());
    CHECK(info.max_buffer_size > 0);
    CHECK(info.containment != 0);
}

TEST(outputs_are_filled_up_to_their_size) {
    tg_device dev = test_device();
    union {
        tg_device_info info;
        unsigned char bytes[sizeof(tg_device_info)];
    } short_one;
    memset(&short_one, 0xee, sizeof short_one);
    short_one.info.struct_size = sizeof(size_t);
    const tg_result result = tg_device_get_info(dev, &short_one.info);
    CHECK(result == TG_OK || result == TG_ERROR_INVALID_ARGUMENT);
    for (size_t i = sizeof(size_t); i < sizeof short_one; i++) {
        if (short_one.bytes[i] != 0xee) {
            test_fail(__FILE__, __LINE__, "byte %zu beyond struct_size was written", i);
            break;
        }
    }
}

TEST(destroying_null_is_fine) {
    const tg_device none = {0};
    CHECK_RESULT(tg_device_destroy(none, 0), TG_OK);
}

TEST(destroying_twice_is_stale) {
    const tg_device_desc desc = test_device_desc();
    tg_device dev = {0};
    REQUIRE_OK(tg_device_create(&desc, &dev));
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_ERROR_STALE_HANDLE);
}

TEST(children_of_a_destroyed_device_are_stale) {
    const tg_device_desc desc = test_device_desc();
    tg_device dev = {0};
    REQUIRE_OK(tg_device_create(&desc, &dev));
    tg_buffer data = buffer(dev, "data", 16);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
    CHECK_RESULT(tg_buffer_destroy(dev, data), TG_ERROR_STALE_HANDLE);
    CHECK_RESULT(tg_stream_wait(dev, 0, 0), TG_ERROR_STALE_HANDLE);
}

TEST(what_is_alive_at_the_end_is_logged_by_label) {
    const tg_device_desc desc = test_device_desc();
    tg_device dev = test_device_with(&desc);
    buffer(dev, "left behind", 16);
    const unsigned before = test_log.events;
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
    test_device_gone(dev);
    CHECK(test_log.events > before);
    CHECK(test_log_has("left behind"));
}

TEST(two_devices_live_side_by_side) {
    const tg_device_desc desc = test_device_desc();
    tg_device one = test_device_with(&desc), two = test_device_with(&desc);
    CHECK(one.id != two.id);
    tg_buffer in_one = buffer(one, "in one", 64), in_two = buffer(two, "in two", 64);
    write_words(one, 0, whole(in_one), 64, 1, 1);
    write_words(two, 0, whole(in_two), 64, 2, 2);
    taint(two, whole(in_two), 1, "root");
    CHECK_WORDS(one, 0, whole(in_one), 64, 1, 1);
    CHECK_UNWRITTEN(two, 0, whole(in_two), 64);
    CHECK_EQ_INT(failure_count(one), 0);
    CHECK_EQ_INT(failure_count(two), 1);
}

TEST(waiting_for_nothing_returns) {
    tg_device dev = test_device();
    CHECK_RESULT(tg_device_wait(dev, 0), TG_OK);
    CHECK_RESULT(tg_device_wait(dev, TG_WAIT_FOREVER), TG_OK);
}

TEST(trimming_keeps_what_is_in_use) {
    tg_device dev = test_device();
    tg_buffer kept = buffer(dev, "kept", 1024), gone = buffer(dev, "gone", 1 << 20);
    write_words(dev, 0, whole(kept), 1024, 1, 1);
    write_words(dev, 0, whole(gone), 1024, 2, 1);
    CHECK_RESULT(tg_buffer_destroy(dev, gone), TG_OK);
    CHECK_RESULT(tg_device_wait(dev, TEST_LONG), TG_OK);
    uint64_t freed = 0;
    CHECK_RESULT(tg_device_trim(dev, &freed), TG_OK);
    CHECK_WORDS(dev, 0, whole(kept), 1024, 1, 1);
}

TEST(memory_stats_follow_buffers) {
    tg_device dev = test_device();
    tg_memory_info before = TG_MEMORY_INFO_INIT, during = TG_MEMORY_INFO_INIT, after = TG_MEMORY_INFO_INIT;
    REQUIRE_OK(tg_device_memory_stats(dev, &before));
    tg_buffer data = buffer(dev, "data", 1 << 18);
    REQUIRE_OK(tg_device_memory_stats(dev, &during));
    CHECK(during.device.used >= before.device.used + (1 << 20));
    CHECK(during.device.reserved >= during.device.used);
    REQUIRE_OK(tg_buffer_destroy(dev, data));
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    REQUIRE_OK(tg_device_memory_stats(dev, &after));
    CHECK_EQ_INT(after.device.used, before.device.used);
    CHECK(after.device.peak >= during.device.used);
}

TEST(claims_of_the_whole_device_are_listed) {
    tg_device dev = test_device();
    tg_buffer one = buffer(dev, "one", 64), two = buffer(dev, "two", 64);
    const uint64_t first = taint(dev, part(one, 16, 32), 1, "first");
    const uint64_t second = taint(dev, whole(two), 2, "second");
    size_t count = 0;
    CHECK_RESULT(tg_device_claims(dev, NULL, 0, &count), TG_OK);
    CHECK_EQ_INT(count, 2);
    tg_claim claims[4];
    CHECK_RESULT(tg_device_claims(dev, claims, 4, &count), TG_OK);
    CHECK_EQ_INT(count, 2);
    uint64_t bytes = 0, seen = 0;
    for (size_t i = 0; i < count && i < 4; i++) {
        bytes += claims[i].slice.size;
        seen |= claims[i].failure == first ? 1 : claims[i].failure == second ? 2 : 4;
        CHECK_EQ_INT(claims[i].failure_count, 1);
    }
    CHECK_EQ_INT(bytes, 32 + 256);
    CHECK_EQ_INT(seen, 3);
    CHECK_RESULT(tg_device_claims(dev, claims, 1, &count), TG_INCOMPLETE);
    CHECK_EQ_INT(count, 2);
}

static void count_finalizer(void *user_data) { ++*(int *)user_data; }
static void drop_log(void *user_data, const tg_log_event *event) { (void)user_data, (void)event; }

TEST(the_finalizer_of_the_log_runs_once) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {0};
    int finalized = 0;
    desc.log = drop_log;
    desc.log_user_data = &finalized;
    desc.log_finalizer = count_finalizer;
    REQUIRE_OK(tg_device_create(&desc, &dev));
    CHECK_EQ_INT(finalized, 0);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
    CHECK_EQ_INT(finalized, 1);
}

TEST(a_root_is_logged_once_and_its_skips_at_powers_of_two) {
    tg_device dev = test_device();
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", 64);
    const unsigned before = test_log.roots;
    const uint64_t root = taint(dev, whole(data), 1, "root");
    CHECK_EQ_INT(test_log.roots, before + 1);
    CHECK_EQ_INT(test_log.last_failure, root);
    for (int i = 0; i < 1024; i++) REQUIRE(increment(dev, 0, incrementing, whole(data), 64, 1) == TG_SKIPPED);
    CHECK(test_log.skips >= 10 && test_log.skips <= 11);
}

struct reader {
    tg_device dev;
    tg_slice bytes;
    tg_result last;
};

static void *read_until_gone(void *data) {
    struct reader *reader = data;
    unsigned char back[16384];
    do {
        reader->last = tg_buffer_read(reader->dev, 0, back, sizeof back, reader->bytes, TG_WAIT_FOREVER);
    } while (reader->last == TG_OK);
    return NULL;
}

TEST(a_device_destroyed_under_other_threads_reads_lets_them_finish) {
    for (int round = 0; round < 12; round++) {
        const tg_device_desc desc = test_device_desc();
        tg_device dev = {0};
        REQUIRE_OK(tg_device_create(&desc, &dev));
        tg_buffer data = buffer(dev, "data", 16384 / 4);
        REQUIRE_OK(tg_buffer_fill(dev, 0, whole(data), 7, 1));
        struct reader readers[4];
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            readers[i] = (struct reader){dev, whole(data), TG_OK};
            REQUIRE(pthread_create(&threads[i], NULL, read_until_gone, &readers[i]) == 0);
        }
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
        CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
        for (int i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            CHECK_RESULT(readers[i].last, TG_ERROR_STALE_HANDLE);
        }
    }
}

static tg_device logged_device;
static tg_result destroyed_inside;

static void destroy_inside(void *user_data, const tg_log_event *event) {
    (void)user_data;
    if (event->failure != 0) destroyed_inside = tg_device_destroy(logged_device, TG_WAIT_FOREVER);
}

TEST(a_log_callback_cannot_destroy_a_device) {
    tg_device_desc desc = test_device_desc();
    desc.log = destroy_inside;
    destroyed_inside = TG_OK;
    logged_device = test_device_with(&desc);
    tg_buffer data = buffer(logged_device, "data", 16);
    const tg_slice bytes = whole(data);
    const tg_error_desc error = TG_ERROR_DESC_INIT;
    REQUIRE_OK(tg_taint(logged_device, &bytes, 1, &error));
    CHECK_RESULT(destroyed_inside, TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_device_status(logged_device), TG_OK);
}
