/* Calls of Vulkan that fail, as the shim makes them: what the library claims, what it tries again, and what nobody notices. */
#include "tg_test.h"

#include <stdlib.h>
#include <tg_shim.h>

enum { WORDS = 64, LARGE = 24 << 20, OUT_OF_HOST_MEMORY = -1, OUT_OF_DEVICE_MEMORY = -2, TOO_MANY_OBJECTS = -10 };

static const char *const submits[] = {"vkQueueSubmit", "vkQueueSubmit2"};

/* Whichever of the two this device submits by. */
static void fail_submits(unsigned nth, unsigned times, int code) {
    for (size_t i = 0; i < 2; i++) tg_shim_fail(submits[i], nth, times, code);
}
static unsigned failed_submits(void) { return tg_shim_faults(submits[0]) + tg_shim_faults(submits[1]); }

/* What a stream's first work makes for itself is made before anything fails. */
static void warm_up(tg_device dev, uint64_t stream) {
    tg_buffer data = buffer(dev, "warm", WORDS);
    write_words(dev, stream, whole(data), WORDS, 1, 1);
    CHECK_WORDS(dev, stream, whole(data), WORDS, 1, 1);
    REQUIRE_OK(tg_buffer_destroy(dev, data));
}

static tg_result large_buffer(tg_device dev, tg_buffer *made) {
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    desc.size = (uint64_t)LARGE * 4;
    desc.label = text("large");
    return tg_buffer_create(dev, &desc, made);
}

/* The only root of the slice comes from this call with this result. */
static void check_root(tg_device dev, tg_slice slice, tg_result code, const char *function, int vk_result) {
    tg_report report = {0};
    REQUIRE_OK(tg_report_slices(dev, &slice, 1, &report));
    REQUIRE(report_count(report) == 1);
    const tg_failure_info failure = report_failure(report, 0);
    CHECK_EQ_INT(failure.code, code);
    CHECK_EQ_INT(failure.vk_result, vk_result);
    CHECK_CONTAINS(failure.vk_function.data, function);
    CHECK_CONTAINS(failure.message.data, function);
    tg_report_release(report);
}

/* Writes it anew: the whole recovery. */
static void check_repair(tg_device dev, tg_slice slice) {
    write_words(dev, 0, slice, WORDS, 5, 3);
    CHECK_WORDS(dev, 1, slice, WORDS, 5, 3);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(memory_that_is_short_once_is_made_by_giving_back_what_is_idle) {
    tg_device dev = test_device();
    tg_buffer idle = {0}, made = {0};
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    desc.size = (uint64_t)LARGE * 2;
    REQUIRE_OK(tg_buffer_create(dev, &desc, &idle));
    REQUIRE_OK(tg_buffer_destroy(dev, idle));
    tg_shim_fail("vkAllocateMemory", 1, 1, OUT_OF_DEVICE_MEMORY);
    CHECK_RESULT(large_buffer(dev, &made), TG_OK);
    CHECK_EQ_INT(tg_shim_faults("vkAllocateMemory"), 1);
    write_words(dev, 0, part(made, 0, WORDS * 4), WORDS, 1, 1);
    CHECK_WORDS(dev, 0, part(made, 0, WORDS * 4), WORDS, 1, 1);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(memory_that_stays_short_leaves_a_live_buffer_without_bytes) {
    tg_device dev = test_device();
    warm_up(dev, 0);
    tg_buffer made = {0}, bystander = buffer(dev, "bystander", WORDS);
    write_words(dev, 0, whole(bystander), WORDS, 1, 1);
    tg_shim_fail("vkAllocateMemory", 1, TG_SHIM_FOREVER, OUT_OF_DEVICE_MEMORY);
    CHECK_RESULT(large_buffer(dev, &made), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    REQUIRE(made.id != 0);
    CHECK(tg_shim_faults("vkAllocateMemory") >= 1);
    tg_buffer_info info = TG_BUFFER_INFO_INIT;
    CHECK_RESULT(tg_buffer_get_info(dev, made, &info), TG_OK);
    CHECK_EQ_INT(info.allocated, 0);
    const tg_slice some = part(made, 0, WORDS * 4);
    check_root(dev, some, TG_ERROR_OUT_OF_DEVICE_MEMORY, "vkAllocateMemory", OUT_OF_DEVICE_MEMORY);
    uint32_t word = 1;
    CHECK_RESULT(tg_buffer_write(dev, 0, part(made, 0, 4), &word, 4), TG_SKIPPED);
    tg_shim_clear();
    CHECK_UNWRITTEN(dev, 0, some, WORDS);
    CHECK_WORDS(dev, 0, whole(bystander), WORDS, 1, 1);
    CHECK_RESULT(tg_buffer_allocate(dev, made, WORDS * 4), TG_OK);
    CHECK_UNWRITTEN(dev, 0, some, WORDS);
    check_repair(dev, whole(made));
}

TEST(a_device_that_allows_few_allocations_claims_what_it_cannot_have) {
    tg_shim_limit_allocations(3);
    tg_device dev = test_device();
    tg_buffer made[8] = {{0}};
    unsigned failed = 0;
    for (size_t i = 0; i < 8; i++) {
        const tg_result result = large_buffer(dev, &made[i]);
        CHECK(made[i].id != 0);
        if (result == TG_OK) continue;
        failed++;
        check_root(dev, part(made[i], 0, 4), result, "vkAllocateMemory", TOO_MANY_OBJECTS);
    }
    CHECK(failed >= 5);
    CHECK(tg_shim_peak_allocations() <= 3);
}

TEST(host_memory_that_cannot_be_mapped_claims_what_was_written) {
    enum { MORE = 1024 }; /* too much for a page of small blocks, whose memory may be mapped already */
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", MORE);
    uint32_t words[MORE] = {0};
    tg_shim_fail("vkMapMemory", 1, TG_SHIM_FOREVER, OUT_OF_HOST_MEMORY);
    CHECK_RESULT(tg_buffer_write(dev, 0, whole(data), words, sizeof words), TG_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(tg_shim_faults("vkMapMemory") >= 1);
    check_root(dev, whole(data), TG_ERROR_OUT_OF_HOST_MEMORY, "vkMapMemory", OUT_OF_HOST_MEMORY);
    tg_shim_clear();
    write_words(dev, 0, whole(data), MORE, 5, 3);
    CHECK_WORDS(dev, 1, whole(data), MORE, 5, 3);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(a_submit_refused_once_is_submitted_again) {
    tg_device dev = test_device();
    tg_kernel storing = kernel(dev, "store");
    tg_buffer data = buffer(dev, "data", WORDS);
    warm_up(dev, 0);
    fail_submits(1, 1, OUT_OF_HOST_MEMORY);
    CHECK_RESULT(store(dev, 0, storing, whole(data), WORDS, 9), TG_OK);
    CHECK_RESULT(tg_stream_flush(dev, 0), TG_OK);
    CHECK_EQ_INT(failed_submits(), 1);
    tg_shim_clear();
    CHECK_WORDS(dev, 0, whole(data), WORDS, 9, 0);
    CHECK_EQ_INT(failure_count(dev), 0);
}

/* A batch refused twice: each launch in it, what was enqueued behind it, and nothing else. */
static void refused_twice(uint64_t flags, const char *submit) {
    tg_device_desc desc = test_device_desc();
    desc.flags |= flags;
    tg_device dev = test_device_with(&desc);
    tg_kernel storing = kernel(dev, "store"), scaling = kernel(dev, "scale");
    tg_buffer one = buffer(dev, "one", WORDS), two = buffer(dev, "two", WORDS), derived = buffer(dev, "derived", WORDS),
              bystander = buffer(dev, "bystander", WORDS);
    warm_up(dev, 0);
    write_words(dev, 1, whole(bystander), WORDS, 1, 1);
    write_words(dev, 0, whole(one), WORDS, 3, 0);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));

    CHECK_RESULT(store(dev, 0, storing, whole(one), WORDS, 9), TG_OK);
    CHECK_RESULT(store(dev, 0, storing, whole(two), WORDS, 9), TG_OK);
    CHECK_RESULT(scale(dev, 0, scaling, whole(derived), whole(one), WORDS, 2), TG_OK);
    tg_shim_fail(submit, 1, 2, OUT_OF_HOST_MEMORY);
    CHECK_RESULT(tg_stream_flush(dev, 0), TG_ERROR_OUT_OF_HOST_MEMORY);
    CHECK_EQ_INT(tg_shim_faults(submit), 2);
    const tg_slice claimed[] = {whole(one), whole(two), whole(derived)};
    for (size_t i = 0; i < 3; i++) {
        check_root(dev, claimed[i], TG_ERROR_OUT_OF_HOST_MEMORY, submit, OUT_OF_HOST_MEMORY);
        CHECK_UNWRITTEN(dev, 0, claimed[i], WORDS);
    }
    CHECK_WORDS(dev, 1, whole(bystander), WORDS, 1, 1);
    CHECK_EQ_INT(failure_count(dev), 1);

    CHECK_RESULT(store(dev, 0, storing, whole(one), WORDS, 9), TG_OK);
    CHECK_RESULT(store(dev, 0, storing, whole(two), WORDS, 9), TG_OK);
    CHECK_RESULT(scale(dev, 0, scaling, whole(derived), whole(one), WORDS, 2), TG_OK);
    CHECK_WORDS(dev, 0, whole(derived), WORDS, 18, 0);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(a_batch_refused_twice_claims_all_its_launches_were_to_write) { refused_twice(0, "vkQueueSubmit2"); }

TEST(a_batch_refused_twice_without_synchronization2) { refused_twice(TG_DEVICE_NO_SYNCHRONIZATION2, "vkQueueSubmit"); }

TEST(a_pipeline_that_cannot_be_made_is_a_broken_kernel) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    tg_kernel made = {0};
    size_t size;
    void *code = shader("store", &size);
    desc.code = code;
    desc.code_size = size;
    tg_shim_fail("vkCreateComputePipelines", 1, 1, OUT_OF_DEVICE_MEMORY);
    CHECK_RESULT(tg_kernel_create(dev, &desc, &made), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    REQUIRE(made.id != 0);
    CHECK_RESULT(store(dev, 0, made, whole(data), WORDS, 9), TG_SKIPPED);
    check_root(dev, whole(data), TG_ERROR_OUT_OF_DEVICE_MEMORY, "vkCreateComputePipelines", OUT_OF_DEVICE_MEMORY);
    CHECK_RESULT(tg_kernel_rebuild(dev, made, &desc), TG_OK);
    free(code);
    CHECK_RESULT(store(dev, 0, made, whole(data), WORDS, 9), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 9, 0);
    CHECK_EQ_INT(failure_count(dev), 0);
}

/* The launch itself, or the flush after it, reports the call that failed; its output is claimed, and repaired by the same
 * launch once more. */
static void launch_with(uint64_t flags, const char *function, int vk_result, tg_result code) {
    tg_device_desc desc = test_device_desc();
    desc.flags |= flags;
    tg_device dev = test_device_with(&desc);
    tg_kernel storing = kernel(dev, "store");
    tg_buffer data = buffer(dev, "data", WORDS), bystander = buffer(dev, "bystander", WORDS);
    write_words(dev, 1, whole(bystander), WORDS, 1, 1);
    warm_up(dev, 0);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    tg_shim_fail(function, 1, TG_SHIM_FOREVER, vk_result);
    const tg_result launched = store(dev, 0, storing, whole(data), WORDS, 9);
    const tg_result flushed = tg_stream_flush(dev, 0);
    CHECK(launched == code || flushed == code);
    CHECK(tg_shim_faults(function) >= 1);
    tg_shim_clear();
    check_root(dev, whole(data), code, function, vk_result);
    CHECK_UNWRITTEN(dev, 0, whole(data), WORDS);
    CHECK_WORDS(dev, 1, whole(bystander), WORDS, 1, 1);
    CHECK_RESULT(store(dev, 0, storing, whole(data), WORDS, 9), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 9, 0);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(recording_that_cannot_begin_claims_the_launch) {
    launch_with(0, "vkBeginCommandBuffer", OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_HOST_MEMORY);
}

TEST(recording_that_cannot_end_claims_the_launch) {
    launch_with(0, "vkEndCommandBuffer", OUT_OF_DEVICE_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST(a_descriptor_pool_that_cannot_be_made_claims_the_launch) {
    launch_with(TG_DEVICE_NO_PUSH_DESCRIPTORS, "vkCreateDescriptorPool", OUT_OF_DEVICE_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY);
}

TEST(descriptor_sets_that_cannot_be_had_claim_the_launch) {
    launch_with(TG_DEVICE_NO_PUSH_DESCRIPTORS, "vkAllocateDescriptorSets", OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_HOST_MEMORY);
}

TEST(a_device_that_cannot_be_made_is_no_device_and_no_leak) {
    const tg_device_desc desc = test_device_desc();
    tg_device dev = {77};
    tg_shim_fail("vkCreateDevice", 1, 1, OUT_OF_HOST_MEMORY);
    CHECK_RESULT(tg_device_create(&desc, &dev), TG_ERROR_OUT_OF_HOST_MEMORY);
    CHECK_EQ_INT(dev.id, 0);
    CHECK_CONTAINS(test_last_report_text(), "vkCreateDevice");
    CHECK_RESULT(tg_device_create(&desc, &dev), TG_OK);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
}

/* A wait that fails is not the end of the work: what it uses goes when the device says that it is over. */
TEST(a_device_whose_waits_fail_is_not_destroyed_under_running_work) {
    enum { LAUNCHES = 40, MANY = LARGE / 64 };
    const tg_device_desc desc = test_device_desc();
    tg_device dev = test_device_with(&desc);
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", MANY);
    REQUIRE_OK(tg_buffer_fill(dev, 0, whole(data), 1, 4));
    for (int i = 0; i < LAUNCHES; i++) REQUIRE_OK(increment(dev, 0, incrementing, whole(data), MANY, 1));
    REQUIRE_OK(tg_stream_flush(dev, 0));
    tg_shim_fail("vkWaitSemaphores", 1, TG_SHIM_FOREVER, OUT_OF_HOST_MEMORY);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
    CHECK(tg_shim_faults("vkWaitSemaphores") > 0);
    tg_shim_clear();
    test_device_gone(dev);
}

static tg_device told_device;
static tg_result flushed_inside;
static unsigned told;

static void flush_inside(void *user_data, const tg_log_event *event) {
    (void)user_data;
    if (event->failure == 0 || told++ > 0) return;
    flushed_inside = tg_stream_flush(told_device, 0);
}

/* R16: no lock is held while the log is told, that of the queue whose submission was refused neither. */
TEST(a_log_callback_may_flush_the_stream_it_is_told_of) {
    tg_device_desc desc = test_device_desc();
    desc.log = flush_inside;
    desc.log_user_data = NULL;
    told_device = test_device_with(&desc);
    warm_up(told_device, 0);
    tg_buffer lost = buffer(told_device, "lost", WORDS);
    fail_submits(1, 2, OUT_OF_HOST_MEMORY);
    REQUIRE_OK(tg_buffer_fill(told_device, 0, whole(lost), 7, 4));
    flushed_inside = TG_ERROR_INTERNAL;
    CHECK_RESULT(tg_stream_flush(told_device, 0), TG_ERROR_OUT_OF_HOST_MEMORY);
    CHECK_EQ_INT(told, 1);
    CHECK_RESULT(flushed_inside, TG_OK);
    CHECK_UNWRITTEN(told_device, 0, whole(lost), WORDS);
    check_repair(told_device, whole(lost));
}

/* A read whose own copy fails: the only root is the read's, and nothing keeps it. */
static void read_with(uint64_t flags, uint32_t scheduling, const char *function, int vk_result, tg_result code) {
    tg_device_desc desc = test_device_desc();
    desc.flags |= flags;
    desc.scheduling = scheduling;
    tg_device dev = test_device_with(&desc);
    tg_buffer data = buffer(dev, "data", WORDS);
    warm_up(dev, 0);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    tg_shim_fail(function, 1, TG_SHIM_FOREVER, vk_result);
    uint32_t words[WORDS] = {77};
    CHECK_RESULT(tg_buffer_read(dev, 0, words, sizeof words, whole(data), TEST_LONG), code);
    CHECK(tg_shim_faults(function) >= 1);
    CHECK_EQ_INT(words[0], 77);
    tg_report report = {0};
    REQUIRE_OK(tg_last_report(&report));
    REQUIRE(report_count(report) == 1);
    tg_failure_info failure = report_failure(report, 0);
    CHECK(failure.id != 0);
    CHECK_EQ_INT(failure.code, code);
    CHECK_EQ_INT(failure.vk_result, vk_result);
    CHECK_CONTAINS(failure.vk_function.data, function);
    CHECK_CONTAINS(failure.operation.data, "tg_buffer_read");
    tg_report_release(report);
    CHECK_EQ_INT(failure_count(dev), 0);

    tg_read read = {0};
    const tg_result begun = tg_read_begin(dev, 0, whole(data), &read);
    CHECK(begun == TG_OK || begun == code);
    CHECK_RESULT(tg_read_wait(dev, read, TEST_LONG), TG_ERROR_UNWRITTEN);
    REQUIRE_OK(tg_read_report(dev, read, &report));
    REQUIRE(report_count(report) == 1);
    failure = report_failure(report, 0);
    CHECK_EQ_INT(failure.code, code);
    CHECK_EQ_INT(failure.vk_result, vk_result);
    CHECK_CONTAINS(failure.vk_function.data, function);
    tg_report_release(report);
    CHECK_EQ_INT(failure_count(dev), 1);
    REQUIRE_OK(tg_read_release(dev, read));
    CHECK_EQ_INT(failure_count(dev), 0);
    tg_shim_clear();
    CHECK_WORDS(dev, 0, whole(data), WORDS, 1, 1);
}

static const uint32_t schedulings[] = {TG_SCHEDULING_EVENT, TG_SCHEDULING_INTERLEAVE, TG_SCHEDULING_SEQUENCE};

TEST(a_read_that_cannot_be_recorded_names_its_own_root) {
    for (size_t i = 0; i < 3; i++) {
        read_with(0, schedulings[i], "vkBeginCommandBuffer", OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_HOST_MEMORY);
        read_with(0, schedulings[i], "vkEndCommandBuffer", OUT_OF_DEVICE_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY);
    }
}

TEST(a_read_that_cannot_be_submitted_names_its_own_root) {
    for (size_t i = 0; i < 3; i++) {
        read_with(0, schedulings[i], "vkQueueSubmit2", OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_HOST_MEMORY);
        read_with(TG_DEVICE_NO_SYNCHRONIZATION2, schedulings[i], "vkQueueSubmit", OUT_OF_DEVICE_MEMORY,
                  TG_ERROR_OUT_OF_DEVICE_MEMORY);
    }
}

TEST(memory_that_is_refused_once_is_asked_for_once_more) {
    tg_device dev = test_device();
    tg_buffer made = {0};
    tg_shim_fail("vkAllocateMemory", 1, 1, OUT_OF_DEVICE_MEMORY);
    CHECK_RESULT(large_buffer(dev, &made), TG_OK);
    CHECK_EQ_INT(tg_shim_faults("vkAllocateMemory"), 1);
    CHECK_EQ_INT(failure_count(dev), 0);
}
