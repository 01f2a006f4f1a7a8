/* A device's Vulkan objects, and streams that wait for semaphores of the caller's. */
#define _POSIX_C_SOURCE 199309L /* the clock */
#include "tg_vk.h"

#include <pthread.h>
#include <time.h>

enum { WORDS = 256 };
static const uint64_t BRIEF = 3000000; /* nanoseconds; what is held back does not come, however long one waits */

static void hold(tg_device dev, uint64_t stream, VkSemaphore semaphore, uint64_t value) {
    REQUIRE_OK(tg_vk_stream_wait_semaphore(dev, stream, semaphore, value, 0));
}

/* Whoever asks on a stream for bytes that are held back waits with them from then on, so these streams are for asking. */
#define CHECK_HELD(dev, stream, slice)                                                                     \
    do {                                                                                                   \
        uint32_t word_ = 77;                                                                               \
        const tg_slice slice_ = {(slice).buffer, 0, sizeof word_};                                         \
        CHECK_RESULT(tg_buffer_read(dev, stream, &word_, sizeof word_, slice_, 0), TG_TIMEOUT);            \
        CHECK_RESULT(tg_buffer_read(dev, stream, &word_, sizeof word_, slice_, BRIEF), TG_TIMEOUT);        \
        CHECK_EQ_INT(word_, 77);                                                                           \
    } while (0)

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * TEST_SECOND + (uint64_t)time.tv_nsec;
}

/* ---- handles ---- */

TEST(the_handles_are_those_of_the_device) {
    tg_device dev = test_device();
    const tg_vk_handles handles = vk_handles(dev);
    tg_device_info info = TG_DEVICE_INFO_INIT;
    REQUIRE_OK(tg_device_get_info(dev, &info));
    const PFN_vkGetPhysicalDeviceProperties properties_of =
        (PFN_vkGetPhysicalDeviceProperties)vk_instance_function(dev, "vkGetPhysicalDeviceProperties");
    VkPhysicalDeviceProperties properties;
    properties_of(handles.physical_device, &properties);
    CHECK(strcmp(properties.deviceName, info.name) == 0);
    CHECK(handles.api_version >= VK_API_VERSION_1_2 && handles.api_version <= info.api_version);
    CHECK_EQ_INT(handles.queue_count, info.queues);
    CHECK_EQ_INT(handles.reserved, 0);
    const PFN_vkGetDeviceQueue queue_of = (PFN_vkGetDeviceQueue)vk_device_function(dev, "vkGetDeviceQueue");
    for (uint32_t i = 0; i < 4; i++) {
        VkQueue queue = VK_NULL_HANDLE;
        if (i < handles.queue_count) queue_of(handles.device, handles.queue_family, i, &queue);
        CHECK(handles.queues[i] == queue);
    }
}

TEST(handles_are_filled_up_to_the_size_of_the_struct) {
    tg_device dev = test_device();
    const tg_vk_handles whole_of = vk_handles(dev);
    tg_vk_handles some = TG_VK_HANDLES_INIT;
    some.struct_size = offsetof(tg_vk_handles, api_version);
    some.queue_family = 77;
    some.queue_count = 77;
    CHECK_RESULT(tg_vk_device_handles(dev, &some), TG_OK);
    CHECK(some.instance == whole_of.instance && some.device == whole_of.device);
    CHECK(some.get_instance_proc_addr == whole_of.get_instance_proc_addr);
    CHECK_EQ_INT(some.queue_family, 77);
    CHECK_EQ_INT(some.queue_count, 77);
}

TEST(handles_without_a_struct_are_misuse) {
    tg_device dev = test_device();
    tg_vk_handles handles = TG_VK_HANDLES_INIT;
    CHECK_RESULT(tg_vk_device_handles(dev, NULL), TG_ERROR_INVALID_ARGUMENT);
    handles.struct_size = 0;
    CHECK_RESULT(tg_vk_device_handles(dev, &handles), TG_ERROR_INVALID_ARGUMENT);
    handles.struct_size = offsetof(tg_vk_handles, device);
    CHECK_RESULT(tg_vk_device_handles(dev, &handles), TG_ERROR_INVALID_ARGUMENT);
    CHECK(handles.device == VK_NULL_HANDLE);
}

TEST(bad_arguments_make_no_stream_wait) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    VkSemaphore semaphore = vk_timeline(dev, 0);
    CHECK_RESULT(tg_vk_stream_wait_semaphore(dev, 1, VK_NULL_HANDLE, 1, 0), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_vk_stream_wait_semaphore(dev, 1, semaphore, 1, 2), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_vk_stream_wait_semaphore(dev, 1, semaphore, 1, UINT64_C(1) << 63 | TG_VK_SIGNAL_SUBMITTED),
                 TG_ERROR_INVALID_ARGUMENT);
    vk_destroy_semaphore(dev, semaphore);
    write_words(dev, 1, whole(data), WORDS, 1, 1);
    CHECK_WORDS(dev, 1, whole(data), WORDS, 1, 1);
}

/* ---- waiting ---- */

/* What must be seen: one stream waits for what only the host signals, and everything else goes on. */
TEST(nothing_blocks_while_a_stream_waits) {
    tg_device dev = test_device();
    tg_kernel incrementing = kernel(dev, "increment"), scaling = kernel(dev, "scale");
    tg_buffer held = buffer(dev, "held", WORDS), behind = buffer(dev, "behind", WORDS), other = buffer(dev, "other", WORDS);
    write_words(dev, 0, whole(held), WORDS, 0, 1);
    write_words(dev, 0, whole(other), WORDS, 0, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    VkSemaphore semaphore = vk_timeline(dev, 0);
    hold(dev, 1, semaphore, 5);

    /* enqueueing, on the stream that waits and behind it */
    REQUIRE_OK(increment(dev, 1, incrementing, whole(held), WORDS, 7));
    REQUIRE_OK(scale(dev, 2, scaling, whole(behind), whole(held), WORDS, 2));
    REQUIRE_OK(tg_stream_flush(dev, 1));
    REQUIRE_OK(tg_stream_flush(dev, 2));
    tg_event event = {0};
    tg_read read = {0};
    REQUIRE_OK(tg_event_record(dev, 1, &event));
    REQUIRE_OK(tg_read_begin(dev, 2, whole(behind), &read));
    CHECK_RESULT(tg_event_status(dev, event), TG_NOT_READY);
    CHECK_RESULT(tg_read_poll(dev, read), TG_NOT_READY);

    /* other streams complete and read */
    for (uint32_t i = 1; i <= 10; i++) {
        REQUIRE_OK(increment(dev, 3, incrementing, whole(other), WORDS, 1));
        CHECK_RESULT(tg_stream_wait(dev, 3, TEST_LONG), TG_OK);
        CHECK_WORDS(dev, 4, whole(other), WORDS, i, 1);
    }

    /* creating and destroying */
    tg_kernel third = kernel(dev, "store");
    tg_buffer late = buffer(dev, "late", WORDS);
    REQUIRE_OK(store(dev, 3, third, whole(late), WORDS, 9));
    CHECK_WORDS(dev, 3, whole(late), WORDS, 9, 0);
    REQUIRE_OK(tg_kernel_destroy(dev, third));
    REQUIRE_OK(tg_buffer_destroy(dev, late));
    uint64_t trimmed;
    REQUIRE_OK(tg_device_trim(dev, &trimmed));

    /* claims, skips and reports, on the stream that waits too */
    tg_buffer bad = buffer(dev, "bad", WORDS), result = buffer(dev, "result", WORDS);
    const uint64_t root = taint(dev, part(bad, 0, 16), 1, "bad");
    CHECK_RESULT(scale(dev, 1, scaling, whole(result), whole(bad), WORDS, 2), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 1, whole(result), WORDS);
    uint64_t found = 0;
    CHECK_EQ_INT(roots_of(dev, whole(result), &found, 1), 1);
    CHECK_EQ_INT(found, root);
    CHECK_EQ_INT(failure_count(dev), 1);
    const tg_slice slices[] = {whole(held), whole(behind)};
    CHECK_RESULT(tg_first_failure(dev, slices, 2, &found), TG_OK);
    CHECK_EQ_INT(found, 0);
    REQUIRE_OK(tg_buffer_destroy(dev, bad));
    REQUIRE_OK(tg_buffer_destroy(dev, result));
    CHECK_EQ_INT(failure_count(dev), 0);

    /* waits on the stream that waits end by their timeout */
    CHECK_RESULT(tg_stream_wait(dev, 1, BRIEF), TG_TIMEOUT);
    CHECK_RESULT(tg_stream_wait(dev, 2, 0), TG_TIMEOUT);
    CHECK_RESULT(tg_device_wait(dev, BRIEF), TG_TIMEOUT);
    CHECK_HELD(dev, 5, whole(held));
    CHECK_HELD(dev, 6, whole(behind));
    vk_signal(dev, semaphore, 4);
    CHECK_RESULT(tg_stream_wait(dev, 1, BRIEF), TG_TIMEOUT);

    /* signalled, everything is right */
    vk_signal(dev, semaphore, 5);
    CHECK_WORDS(dev, 6, whole(behind), WORDS, 14, 2);
    CHECK_WORDS(dev, 5, whole(held), WORDS, 7, 1);
    CHECK_RESULT(tg_event_wait(dev, event, TEST_LONG), TG_OK);
    CHECK_RESULT(tg_read_wait(dev, read, TEST_LONG), TG_OK);
    const void *bytes;
    size_t size;
    REQUIRE_OK(tg_read_data(dev, read, &bytes, &size));
    CHECK_EQ_INT(size, WORDS * 4);
    CHECK_EQ_INT(((const uint32_t *)bytes)[3], 20);
    CHECK_RESULT(tg_device_wait(dev, TEST_LONG), TG_OK);
    vk_destroy_semaphore(dev, semaphore);
    CHECK_WORDS(dev, 1, whole(other), WORDS, 10, 1);
}

TEST(every_wait_ends_by_its_timeout) {
    tg_device dev = test_device();
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    desc.size = WORDS * 4;
    desc.memory = TG_MEMORY_READBACK;
    tg_buffer data;
    REQUIRE_OK(tg_buffer_create(dev, &desc, &data));
    VkSemaphore semaphore = vk_timeline(dev, 0);
    hold(dev, 0, semaphore, 1);
    REQUIRE_OK(tg_buffer_fill(dev, 0, whole(data), 3, 4));
    tg_event event = {0};
    tg_read read = {0};
    REQUIRE_OK(tg_event_record(dev, 0, &event));
    REQUIRE_OK(tg_read_begin(dev, 0, whole(data), &read));
    const tg_slice slice = whole(data);
    static const uint64_t timeouts[] = {0, 1, 20000000};
    for (size_t i = 0; i < 3; i++) {
        const uint64_t timeout = timeouts[i];
        uint32_t words[WORDS];
        void *address = &address;
        uint64_t began = now();
#define CHECK_TIMEOUT(call)                       \
    do {                                          \
        CHECK_RESULT(call, TG_TIMEOUT);           \
        CHECK(now() - began >= timeout);          \
        began = now();                            \
    } while (0)
        CHECK_TIMEOUT(tg_stream_wait(dev, 0, timeout));
        CHECK_TIMEOUT(tg_device_wait(dev, timeout));
        CHECK_TIMEOUT(tg_event_wait(dev, event, timeout));
        CHECK_TIMEOUT(tg_read_wait(dev, read, timeout));
        CHECK_TIMEOUT(tg_check_written(dev, &slice, 1, timeout));
        CHECK_TIMEOUT(tg_buffer_read(dev, 1, words, sizeof words, slice, timeout));
        CHECK_TIMEOUT(tg_buffer_map(dev, slice, TG_ACCESS_READ, timeout, &address));
        CHECK(address == NULL);
        CHECK_TIMEOUT(tg_device_destroy(dev, timeout));
    }
    vk_signal(dev, semaphore, 1);
    CHECK_RESULT(tg_device_wait(dev, TEST_LONG), TG_OK);
    CHECK_RESULT(tg_check_written(dev, &slice, 1, 0), TG_OK);
    CHECK_WORDS(dev, 1, slice, WORDS, 3, 0);
    vk_destroy_semaphore(dev, semaphore);
}

struct signal {
    tg_device dev;
    VkSemaphore semaphore;
};

static void *signal_after_a_while(void *data) {
    const struct signal *signal = data;
    const struct timespec while_ = {0, 20000000};
    nanosleep(&while_, NULL);
    vk_signal(signal->dev, signal->semaphore, 1);
    return NULL;
}

TEST(a_wait_hears_of_a_signal_from_another_thread) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    VkSemaphore semaphore = vk_timeline(dev, 0);
    hold(dev, 1, semaphore, 1);
    write_words(dev, 1, whole(data), WORDS, 5, 1);
    struct signal signal = {dev, semaphore};
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, signal_after_a_while, &signal) == 0);
    CHECK_RESULT(tg_stream_wait(dev, 1, TG_WAIT_FOREVER), TG_OK);
    CHECK_WORDS(dev, 2, whole(data), WORDS, 5, 1);
    pthread_join(thread, NULL);
    vk_destroy_semaphore(dev, semaphore);
}

TEST(what_the_stream_had_before_does_not_wait) {
    tg_device dev = test_device();
    tg_buffer before = buffer(dev, "before", WORDS), between = buffer(dev, "between", WORDS);
    tg_buffer after = buffer(dev, "after", WORDS);
    VkSemaphore first = vk_timeline(dev, 0), second = vk_timeline(dev, 6);
    write_words(dev, 1, whole(before), WORDS, 1, 1);
    hold(dev, 1, first, 1);
    write_words(dev, 1, whole(between), WORDS, 2, 1);
    hold(dev, 1, second, 7);
    write_words(dev, 1, whole(after), WORDS, 3, 1);
    CHECK_WORDS(dev, 2, whole(before), WORDS, 1, 1);
    CHECK_HELD(dev, 3, whole(between));
    vk_signal(dev, first, 1);
    CHECK_WORDS(dev, 2, whole(between), WORDS, 2, 1);
    CHECK_HELD(dev, 4, whole(after));
    vk_signal(dev, second, 8);
    CHECK_WORDS(dev, 2, whole(after), WORDS, 3, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    vk_destroy_semaphore(dev, first);
    vk_destroy_semaphore(dev, second);
}

TEST(work_that_shares_bytes_comes_behind_on_whichever_stream) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer source = buffer(dev, "source", WORDS), out = buffer(dev, "out", WORDS), third = buffer(dev, "third", WORDS);
    write_words(dev, 0, whole(source), WORDS, 1, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    VkSemaphore semaphore = vk_timeline(dev, 0);
    hold(dev, 1, semaphore, 1);
    REQUIRE_OK(scale(dev, 1, scaling, whole(out), whole(source), WORDS, 3));
    write_words(dev, 2, whole(source), WORDS, 100, 0);                        /* written after it was read */
    REQUIRE_OK(scale(dev, 3, scaling, whole(third), whole(out), WORDS, 5));   /* read after it was written */
    write_words(dev, 4, part(out, 0, 64), 16, 7, 0);                          /* written after it was written, and read */
    CHECK_HELD(dev, 5, whole(source));
    CHECK_HELD(dev, 6, whole(third));
    CHECK_HELD(dev, 7, whole(out));
    vk_signal(dev, semaphore, 1);
    CHECK_WORDS(dev, 0, whole(third), WORDS, 15, 15);
    CHECK_WORDS(dev, 0, whole(source), WORDS, 100, 0);
    CHECK_WORDS(dev, 0, part(out, 0, 64), 16, 7, 0);
    CHECK_WORDS(dev, 0, part(out, 64, WORDS * 4 - 64), WORDS - 16, 51, 3);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    vk_destroy_semaphore(dev, semaphore);
}

TEST(many_streams_wait_and_are_let_go_one_by_one) {
    tg_device_desc desc = test_device_desc();
    enum { COUNT = 24 };
    desc.slots = COUNT + 4;
    tg_device dev = test_device_with(&desc);
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer chain = buffer(dev, "chain", WORDS), each[COUNT];
    VkSemaphore semaphores[COUNT];
    write_words(dev, 0, whole(chain), WORDS, 0, 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        semaphores[i] = vk_timeline(dev, 0);
        each[i] = buffer(dev, "each", WORDS);
        hold(dev, i, semaphores[i], 1);
        write_words(dev, i, whole(each[i]), WORDS, i, 1);
        REQUIRE_OK(increment(dev, i, incrementing, whole(chain), WORDS, 1));
    }
    CHECK_HELD(dev, COUNT, whole(chain));
    for (uint32_t i = COUNT; i-- > 0;) {
        CHECK_RESULT(tg_stream_wait(dev, i, 0), TG_TIMEOUT);
        vk_signal(dev, semaphores[i], 1);
        CHECK_WORDS(dev, COUNT + 1, whole(each[i]), WORDS, i, 1);
    }
    CHECK_WORDS(dev, COUNT, whole(chain), WORDS, COUNT, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    for (uint32_t i = 0; i < COUNT; i++) vk_destroy_semaphore(dev, semaphores[i]);
}

TEST(one_semaphore_lets_a_stream_go_step_by_step) {
    tg_device dev = test_device();
    tg_buffer data[10];
    VkSemaphore semaphore = vk_timeline(dev, 0);
    for (uint32_t i = 0; i < 10; i++) {
        data[i] = buffer(dev, "data", WORDS);
        hold(dev, 1, semaphore, i + 1);
        write_words(dev, 1, whole(data[i]), WORDS, i, 1);
    }
    for (uint32_t i = 0; i < 10; i++) {
        CHECK_RESULT(tg_stream_wait(dev, 1, 0), TG_TIMEOUT);
        vk_signal(dev, semaphore, i + 1);
        CHECK_WORDS(dev, 2, whole(data[i]), WORDS, i, 1);
    }
    CHECK_RESULT(tg_stream_wait(dev, 1, TEST_LONG), TG_OK);
    vk_destroy_semaphore(dev, semaphore);
}

TEST(a_value_reached_already_holds_nothing_up) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    VkSemaphore semaphore = vk_timeline(dev, 9);
    hold(dev, 1, semaphore, 9);
    hold(dev, 1, semaphore, 0);
    write_words(dev, 1, whole(data), WORDS, 4, 1);
    CHECK_WORDS(dev, 2, whole(data), WORDS, 4, 1);
    CHECK_RESULT(tg_stream_wait(dev, 1, TEST_LONG), TG_OK);
    vk_destroy_semaphore(dev, semaphore);
}

TEST(a_semaphore_may_go_once_a_wait_for_its_stream_returned) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    for (uint32_t i = 0; i < 5; i++) {
        VkSemaphore semaphore = vk_timeline(dev, 0);
        hold(dev, 1, semaphore, 1);
        if (i % 2) write_words(dev, 1, whole(data), WORDS, i, 1);
        vk_signal(dev, semaphore, 1);
        CHECK_RESULT(i < 3 ? tg_stream_wait(dev, 1, TEST_LONG) : tg_device_wait(dev, TEST_LONG), TG_OK);
        vk_destroy_semaphore(dev, semaphore);
        write_words(dev, 1, whole(data), WORDS, i, 2);
        CHECK_WORDS(dev, 2, whole(data), WORDS, i, 2);
    }
}

TEST(a_submitted_signal_is_waited_for_by_the_device) {
    tg_device dev = test_device();
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 1, whole(data), WORDS, 0, 1);
    VkSemaphore semaphore = vk_timeline(dev, 0);
    REQUIRE_OK(tg_vk_stream_wait_semaphore(dev, 1, semaphore, 1, TG_VK_SIGNAL_SUBMITTED));
    REQUIRE_OK(increment(dev, 1, incrementing, whole(data), WORDS, 2));
    CHECK_RESULT(tg_stream_wait(dev, 1, 0), TG_TIMEOUT);
    CHECK_RESULT(tg_stream_wait(dev, 1, BRIEF), TG_TIMEOUT);
    vk_signal(dev, semaphore, 1);
    CHECK_WORDS(dev, 2, whole(data), WORDS, 2, 1);
    CHECK_RESULT(tg_stream_wait(dev, 1, TEST_LONG), TG_OK);
    vk_destroy_semaphore(dev, semaphore);
}

TEST(too_much_held_work_is_an_answer_and_no_wait) {
    tg_device_desc desc = test_device_desc();
    desc.max_pending = 8;
    tg_device dev = test_device_with(&desc);
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 1, whole(data), WORDS, 0, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    VkSemaphore semaphore = vk_timeline(dev, 0);
    hold(dev, 1, semaphore, 1);
    for (int i = 0; i < 8; i++) REQUIRE_OK(increment(dev, 1, incrementing, whole(data), WORDS, 1));
    const uint32_t word = 7;
    tg_read read = {0};
    CHECK_RESULT(increment(dev, 1, incrementing, whole(data), WORDS, 1), TG_NOT_READY);
    CHECK_RESULT(tg_buffer_write(dev, 2, part(data, 0, 4), &word, 4), TG_NOT_READY);
    CHECK_RESULT(tg_buffer_fill(dev, 2, whole(data), 0, 4), TG_NOT_READY);
    CHECK_RESULT(tg_read_begin(dev, 2, whole(data), &read), TG_NOT_READY);
    CHECK_EQ_INT(read.id, 0);
    CHECK_EQ_INT(failure_count(dev), 0);
    vk_signal(dev, semaphore, 1);
    CHECK_WORDS(dev, 2, whole(data), WORDS, 8, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    vk_destroy_semaphore(dev, semaphore);
}

TEST(a_full_staging_memory_of_held_work_is_an_answer_and_no_wait) {
    tg_device_desc desc = test_device_desc();
    desc.staging_size = 1 << 16;
    tg_device dev = test_device_with(&desc);
    enum { MANY = 1 << 14 };
    tg_buffer data = buffer(dev, "data", MANY), other = buffer(dev, "other", WORDS);
    VkSemaphore semaphore = vk_timeline(dev, 0);
    hold(dev, 1, semaphore, 1);
    write_words(dev, 1, whole(data), MANY, 3, 1);
    uint32_t words[WORDS] = {0};
    CHECK_RESULT(tg_buffer_write(dev, 1, whole(other), words, sizeof words), TG_NOT_READY);
    write_words(dev, 2, whole(other), WORDS, 6, 1);
    CHECK_WORDS(dev, 2, whole(other), WORDS, 6, 1);
    vk_signal(dev, semaphore, 1);
    CHECK_RESULT(tg_buffer_write(dev, 1, whole(other), words, sizeof words), TG_OK);
    CHECK_WORDS(dev, 2, whole(other), WORDS, 0, 0);
    CHECK_WORDS(dev, 2, whole(data), MANY, 3, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    vk_destroy_semaphore(dev, semaphore);
}

/* Memory is all buffers, but for what is left to staging. */
static tg_device full_device(tg_buffer *data) {
    tg_device_desc desc = test_device_desc();
    desc.memory_cap = 1 << 20;
    tg_device dev = test_device_with(&desc);
    *data = buffer(dev, "data", WORDS * 4);
    tg_buffer_desc other_desc = TG_BUFFER_DESC_INIT;
    tg_buffer other = {0};
    for (other_desc.size = 1 << 16; other_desc.size >= 4096; other_desc.size /= 4)
        while (tg_buffer_create(dev, &other_desc, &other) == TG_OK) {}
    write_words(dev, 0, whole(*data), WORDS * 4, 1, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    return dev;
}

TEST(a_full_device_of_held_writes_is_an_answer_and_no_wait) {
    tg_buffer data = {0};
    tg_device dev = full_device(&data);
    const uint64_t failures = failure_count(dev);
    VkSemaphore semaphore = vk_timeline(dev, 0);
    hold(dev, 1, semaphore, 1);
    uint32_t words[WORDS * 4] = {0};
    tg_result answer = TG_OK;
    unsigned written = 0;
    while (written < 1024 && (answer = tg_buffer_write(dev, 1, whole(data), words, sizeof words)) == TG_OK) written++;
    CHECK(written > 0);
    CHECK_RESULT(answer, TG_NOT_READY);
    CHECK_RESULT(tg_buffer_write(dev, 2, whole(data), words, sizeof words), TG_NOT_READY);
    CHECK_EQ_INT(failure_count(dev), failures);
    vk_signal(dev, semaphore, 1);
    write_words(dev, 1, whole(data), WORDS * 4, 5, 1);
    CHECK_WORDS(dev, 2, whole(data), WORDS * 4, 5, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    vk_destroy_semaphore(dev, semaphore);
}

TEST(a_full_device_of_held_ragged_fills_is_an_answer_and_no_wait) {
    tg_buffer data = {0};
    tg_device dev = full_device(&data);
    const uint64_t failures = failure_count(dev);
    VkSemaphore semaphore = vk_timeline(dev, 0);
    hold(dev, 1, semaphore, 1);
    tg_result answer = TG_OK;
    for (int i = 0; i < 1 << 16 && answer == TG_OK; i++) answer = tg_buffer_fill(dev, 1, part(data, 1, 2), 5, 1);
    CHECK_RESULT(answer, TG_NOT_READY);
    CHECK_EQ_INT(failure_count(dev), failures);
    vk_signal(dev, semaphore, 1);
    CHECK_RESULT(tg_buffer_fill(dev, 1, part(data, 1, 2), 6, 1), TG_OK);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    vk_destroy_semaphore(dev, semaphore);
}

TEST(reads_of_held_bytes_that_fill_a_full_device_are_an_answer_and_no_failure) {
    tg_buffer data = {0};
    tg_device dev = full_device(&data);
    const uint64_t failures = failure_count(dev);
    VkSemaphore semaphore = vk_timeline(dev, 0);
    hold(dev, 1, semaphore, 1);
    REQUIRE_OK(tg_buffer_fill(dev, 1, whole(data), 4, 4));
    uint32_t words[WORDS * 4];
    tg_result answer = TG_TIMEOUT;
    /* Other bytes each time: the same ones would share a copy. */
    for (size_t size = sizeof words; size > 0 && answer == TG_TIMEOUT; size--)
        answer = tg_buffer_read(dev, 2, words, size, part(data, 0, size), 0);
    CHECK_RESULT(answer, TG_NOT_READY);
    CHECK_EQ_INT(failure_count(dev), failures);
    vk_signal(dev, semaphore, 1);
    CHECK_WORDS(dev, 2, whole(data), WORDS * 4, 4, 0);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    vk_destroy_semaphore(dev, semaphore);
}

TEST(a_new_buffer_never_waits_for_what_held_work_does_to_an_old_one) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer doomed = buffer(dev, "doomed", WORDS), out = buffer(dev, "out", WORDS);
    write_words(dev, 0, whole(doomed), WORDS, 1, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    VkSemaphore semaphore = vk_timeline(dev, 0);
    hold(dev, 1, semaphore, 1);
    REQUIRE_OK(scale(dev, 1, scaling, whole(out), whole(doomed), WORDS, 2));
    REQUIRE_OK(tg_buffer_destroy(dev, doomed));
    for (uint32_t i = 0; i < 5; i++) {
        tg_buffer heir = buffer(dev, "heir", WORDS);
        write_words(dev, 2, whole(heir), WORDS, 50, i);
        CHECK_WORDS(dev, 3, whole(heir), WORDS, 50, i);
        REQUIRE_OK(tg_buffer_destroy(dev, heir));
    }
    vk_signal(dev, semaphore, 1);
    CHECK_WORDS(dev, 3, whole(out), WORDS, 2, 2);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    vk_destroy_semaphore(dev, semaphore);
}

TEST(a_device_is_not_destroyed_under_held_work) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    VkSemaphore semaphore = vk_timeline(dev, 0);
    hold(dev, 1, semaphore, 1);
    write_words(dev, 1, whole(data), WORDS, 5, 1);
    CHECK_RESULT(tg_device_destroy(dev, 0), TG_TIMEOUT);
    CHECK_RESULT(tg_device_destroy(dev, BRIEF), TG_TIMEOUT);
    tg_buffer more = buffer(dev, "more", WORDS);
    write_words(dev, 2, whole(more), WORDS, 6, 1);
    CHECK_WORDS(dev, 2, whole(more), WORDS, 6, 1);
    vk_signal(dev, semaphore, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    vk_destroy_semaphore(dev, semaphore);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
    test_device_gone(dev);
}

/* A loop on TG_TIMEOUT keeps one copy, however often it asks, and ends with the work. */
TEST(a_loop_on_reads_without_time_keeps_one_copy_and_ends_with_the_work) {
    enum { TRIES = 2000, BYTES = WORDS * 4 };
    for (uint32_t scheduling = TG_SCHEDULING_EVENT; scheduling <= TG_SCHEDULING_SEQUENCE; scheduling++) {
        tg_device_desc desc = test_device_desc();
        desc.scheduling = scheduling;
        tg_device dev = test_device_with(&desc);
        tg_kernel incrementing = kernel(dev, "increment");
        tg_buffer data = buffer(dev, "data", WORDS);
        write_words(dev, 0, whole(data), WORDS, 0, 1);
        REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
        VkSemaphore semaphore = vk_timeline(dev, 0);
        hold(dev, 1, semaphore, 1);
        REQUIRE_OK(increment(dev, 1, incrementing, whole(data), WORDS, 7));
        uint32_t words[WORDS];
        tg_memory_info memory = TG_MEMORY_INFO_INIT;
        for (int i = 0; i < TRIES; i++) {
            REQUIRE(tg_buffer_read(dev, 2, words, sizeof words, whole(data), 0) == TG_TIMEOUT);
            REQUIRE_OK(tg_device_memory_stats(dev, &memory));
            REQUIRE(memory.readback.used >= BYTES && memory.readback.used < 2 * BYTES);
        }
        vk_signal(dev, semaphore, 1);
        tg_result result;
        while ((result = tg_buffer_read(dev, 2, words, sizeof words, whole(data), 0)) == TG_TIMEOUT) {}
        CHECK_RESULT(result, TG_OK);
        for (uint32_t i = 0; i < WORDS; i++) CHECK_EQ_INT(words[i], 7 + i);
        REQUIRE_OK(tg_device_memory_stats(dev, &memory));
        CHECK_EQ_INT(memory.readback.used, 0);
        CHECK(memory.readback.peak < 2 * BYTES);
        REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
        vk_destroy_semaphore(dev, semaphore);
    }
}
