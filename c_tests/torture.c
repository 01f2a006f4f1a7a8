/* Devices made and destroyed under every single fault: a small program runs while one call of Vulkan fails, once or for ever,
 * as a loss or not. Whatever a read gives is what was written; a loss is told at once and has one root; without one,
 * writing again repairs; destroying ends, under running work too, and leaves nothing behind.
 *
 * TG_TORTURE is how many devices each test makes at least: "all" is every fault there is (scripts/torture.sh). */
#include "tg_test.h"

#include <stdlib.h>
#include <tg_shim.h>

enum { WORDS = 64, MANY = 1 << 18, BUFFERS = 6, HOST = -1, DEVICE = -2, LOST = -4, UNKNOWN = -13 };

/* One fault. */
struct fault {
    const char *entry;
    int code;
    unsigned nth, times;
    bool executed;
};

/* A device and what its buffers hold when all goes well. */
struct world {
    tg_device dev;
    tg_kernel storing, scaling, incrementing;
    tg_buffer buffers[BUFFERS], large;
    bool told; /* a call said that the device is lost */
    struct fault fault;
};

static const struct { uint32_t first, step; } expected[BUFFERS] = {{1, 1}, {9, 0}, {2, 2}, {9, 0}, {7, 0}, {5, 3}};

static unsigned devices_made, faults_met;

static unsigned faults(const struct fault *fault) { return tg_shim_faults(fault->entry); }

static void complain(const struct world *world, const char *what, tg_result result) {
    test_fail(__FILE__, __LINE__, "%s %d, call %u, %s%s: %s (%s)%s", world->fault.entry, world->fault.code, world->fault.nth,
              world->fault.times == 1 ? "once" : "for ever", world->fault.executed ? ", executed" : "", what,
              test_result_name(result), test_last_report_text());
}

/* Whatever a call answers: if it says lost, so does the device from then on. */
static tg_result heard(struct world *world, tg_result result) {
    if (result == TG_ERROR_DEVICE_LOST) world->told = true;
    if (result == TG_ERROR_INTERNAL) complain(world, "a defect", result);
    const tg_result status = tg_device_status(world->dev);
    if (world->told && status != TG_ERROR_DEVICE_LOST) complain(world, "a call said lost, and the device does not", status);
    if (status == TG_ERROR_DEVICE_LOST && world->fault.code != LOST) complain(world, "no loss", status);
    if (status == TG_ERROR_DEVICE_LOST) world->told = true;
    return result;
}

static tg_result read_buffer(struct world *world, size_t i, uint64_t stream) {
    uint32_t words[WORDS];
    memset(words, 0xa5, sizeof words);
    const tg_result result =
        heard(world, tg_buffer_read(world->dev, stream, words, sizeof words, part(world->buffers[i], 0, sizeof words), TEST_LONG));
    for (size_t at = 0; at < WORDS; at++) {
        const uint32_t wanted = result == TG_OK ? expected[i].first + (uint32_t)at * expected[i].step : 0xa5a5a5a5u;
        if (words[at] != wanted) {
            complain(world, "a wrong byte", result);
            break;
        }
    }
    return result;
}

static tg_result write_buffer(struct world *world, size_t i, uint64_t stream) {
    uint32_t words[WORDS];
    for (size_t at = 0; at < WORDS; at++) words[at] = expected[i].first + (uint32_t)at * expected[i].step;
    return heard(world, tg_buffer_write(world->dev, stream, part(world->buffers[i], 0, sizeof words), words, sizeof words));
}

static struct world begin(struct fault fault) {
    struct world world = {.fault = fault};
    tg_device_desc desc = test_device_desc();
    desc.flags |= TG_DEVICE_TRACK_UNINITIALIZED;
    REQUIRE_OK(tg_device_create(&desc, &world.dev));
    world.storing = kernel(world.dev, "store");
    world.scaling = kernel(world.dev, "scale");
    world.incrementing = kernel(world.dev, "increment");
    devices_made++;
    if (fault.executed)
        tg_shim_fail_executed(fault.entry, fault.nth, fault.times, fault.code);
    else
        tg_shim_fail(fault.entry, fault.nth, fault.times, fault.code);
    return world;
}

static void make_buffer(struct world *world, tg_buffer *made, uint32_t memory, uint64_t words) {
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    desc.size = words * 4;
    desc.memory = memory;
    heard(world, tg_buffer_create(world->dev, &desc, made));
    if (made->id == 0) complain(world, "no live buffer", TG_OK);
}

static void run(struct world *world) {
    const tg_device dev = world->dev;
    const tg_buffer *b = world->buffers;
    for (size_t i = 0; i < BUFFERS - 1; i++) make_buffer(world, &world->buffers[i], TG_MEMORY_DEVICE, WORDS);
    make_buffer(world, &world->buffers[BUFFERS - 1], TG_MEMORY_UPLOAD, WORDS);
    write_buffer(world, 0, 0);
    heard(world, store(dev, 0, world->storing, part(b[1], 0, WORDS * 4), WORDS, 9));
    heard(world, scale(dev, 1, world->scaling, part(b[2], 0, WORDS * 4), part(b[0], 0, WORDS * 4), WORDS, 2));
    heard(world, tg_buffer_copy(dev, 2, part(b[3], 0, WORDS * 4), part(b[1], 0, WORDS * 4)));
    heard(world, tg_buffer_fill(dev, 1, part(b[4], 0, WORDS * 4), 7, 4));
    heard(world, tg_stream_flush(dev, 0));
    tg_read read = {0};
    heard(world, tg_read_begin(dev, 2, part(b[3], 0, WORDS * 4), &read));
    void *mapped = NULL;
    if (heard(world, tg_buffer_map(dev, part(b[5], 0, WORDS * 4), TG_ACCESS_WRITE, TEST_LONG, &mapped)) == TG_OK && mapped) {
        uint32_t *words = mapped;
        for (uint32_t at = 0; at < WORDS; at++) words[at] = 5 + 3 * at;
        heard(world, tg_buffer_unmap(dev, part(b[5], 0, WORDS * 4)));
    }
    read_buffer(world, 2, 1);
    heard(world, tg_device_wait(dev, TEST_LONG));
    if (read.id != 0) {
        const void *data = NULL;
        size_t size = 0;
        if (heard(world, tg_read_wait(dev, read, TEST_LONG)) == TG_OK &&
            heard(world, tg_read_data(dev, read, &data, &size)) == TG_OK) {
            for (size_t at = 0; at < WORDS; at++)
                if (((const uint32_t *)data)[at] != 9) {
                    complain(world, "a wrong byte of an asynchronous read", TG_OK);
                    break;
                }
        }
        CHECK_RESULT(tg_read_release(dev, read), TG_OK);
    }
    for (size_t i = 0; i < BUFFERS; i++) read_buffer(world, i, i);
}

/* Work that takes a while, so that something runs when the device is destroyed. */
static void load(struct world *world) {
    make_buffer(world, &world->large, TG_MEMORY_DEVICE, MANY);
    const tg_slice all = part(world->large, 0, (uint64_t)MANY * 4);
    heard(world, tg_buffer_fill(world->dev, 3, all, 1, 4));
    for (int i = 0; i < 6; i++) {
        heard(world, increment(world->dev, 3, world->incrementing, all, MANY, 1));
        heard(world, tg_stream_flush(world->dev, 3));
    }
}

static void check_lost(struct world *world) {
    for (size_t i = 0; i < BUFFERS; i++) {
        const tg_slice slice = part(world->buffers[i], 0, WORDS * 4);
        const tg_result written = tg_check_written(world->dev, &slice, 1, TEST_LONG);
        if (written != TG_ERROR_UNWRITTEN) complain(world, "bytes of a lost device", written);
        tg_report report = {0};
        REQUIRE_OK(tg_report_slices(world->dev, &slice, 1, &report));
        const tg_failure_info failure = report_failure(report, report_count(report) - 1);
        if (failure.code != TG_ERROR_NEVER_WRITTEN) {
            CHECK_EQ_INT(failure.code, TG_ERROR_DEVICE_LOST);
            CHECK_EQ_INT(failure.vk_result, LOST);
            CHECK_CONTAINS(failure.vk_function.data, world->fault.entry);
        }
        tg_report_release(report);
    }
}

static void repair(struct world *world) {
    for (size_t i = 0; i < BUFFERS; i++) {
        tg_buffer_info info = TG_BUFFER_INFO_INIT;
        REQUIRE_OK(tg_buffer_get_info(world->dev, world->buffers[i], &info));
        if (!info.allocated) CHECK_RESULT(tg_buffer_allocate(world->dev, world->buffers[i], 0), TG_OK);
        if (write_buffer(world, i, i) != TG_OK) complain(world, "a repair failed", TG_OK);
    }
    for (size_t i = 0; i < BUFFERS; i++) {
        const tg_result result = read_buffer(world, i, i + 1);
        if (result != TG_OK) complain(world, "a repaired buffer", result);
    }
}

static void destroy(struct world *world) {
    const tg_result destroyed = tg_device_destroy(world->dev, TEST_LONG);
    if (destroyed != TG_OK) complain(world, "destroying the device", destroyed);
}

/* One device under one fault; whether it was met. */
static bool torture(struct fault fault) {
    const unsigned before = faults(&fault);
    struct world world = begin(fault);
    /* What is over already is not waited for. */
    if (strcmp(fault.entry, "vkWaitSemaphores") == 0) load(&world);
    run(&world);
    const bool met = faults(&fault) > before;
    if (world.told) check_lost(&world);
    if (met && fault.code == LOST && !world.told) complain(&world, "a loss that nobody was told of", TG_OK);
    tg_shim_clear();
    if (!world.told) repair(&world);
    for (size_t i = 0; i < BUFFERS; i++) REQUIRE_OK(tg_buffer_destroy(world.dev, world.buffers[i]));
    REQUIRE_OK(tg_buffer_destroy(world.dev, world.large));
    if (!world.told) REQUIRE_OK(tg_device_wait(world.dev, TEST_LONG));
    if (failure_count(world.dev) != 0) complain(&world, "a failure that nothing carries", TG_OK);
    destroy(&world);
    if (!met) return false;
    faults_met++;

    /* The same, and the device goes under its work, while the calls still fail. */
    world = begin(fault);
    load(&world);
    run(&world);
    load(&world);
    destroy(&world);
    tg_shim_clear();
    return true;
}

static void torture_all(const char *const *entries, size_t entry_count, const int *codes, size_t code_count, bool executed) {
    const char *asked = getenv("TG_TORTURE");
    const bool all = asked && strcmp(asked, "all") == 0;
    const unsigned most = all ? ~0u : asked ? (unsigned)strtoul(asked, NULL, 10) : 12;
    unsigned skipped = 0;
    devices_made = faults_met = 0;
    for (size_t i = 0; i < entry_count; i++)
        for (size_t j = 0; j < code_count; j++)
            for (int forever = 0; forever < 2; forever++)
                for (unsigned nth = 1; nth < 200; nth++) {
                    const struct fault fault = {entries[i], codes[j], nth, forever ? TG_SHIM_FOREVER : 1, executed};
                    /* A slice: the first call of each, as far as they go. */
                    if (!all && (nth > 1 || devices_made >= most)) {
                        skipped++;
                        break;
                    }
                    bool met = torture(fault);
                    /* Whether a wait has anything to wait for depends on how far the device is by then. */
                    const bool may_be_over = nth == 1 && strcmp(entries[i], "vkWaitSemaphores") == 0;
                    for (unsigned tries = 0; !met && may_be_over && tries < 20; tries++) met = torture(fault);
                    if (!met) break;
                }
    printf("%u devices under %u faults, %u kinds cut short\n", devices_made, faults_met, skipped);
    CHECK(faults_met > 0);
}
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const submits[] = {"vkQueueSubmit2", "vkQueueSubmit"};
static const int queue_codes[] = {LOST, UNKNOWN, HOST, DEVICE};

TEST(a_submit_fails) { torture_all(submits, COUNT(submits), queue_codes, COUNT(queue_codes), false); }

TEST(a_submit_is_executed_and_fails) { torture_all(submits, COUNT(submits), queue_codes, 2, true); }

TEST(a_wait_fails) {
    static const char *const entries[] = {"vkWaitSemaphores"};
    torture_all(entries, 1, queue_codes, COUNT(queue_codes), false);
}

TEST(a_wait_is_over_and_fails) {
    static const char *const entries[] = {"vkWaitSemaphores", "vkGetSemaphoreCounterValue"};
    torture_all(entries, 2, queue_codes, COUNT(queue_codes), true);
}

TEST(a_counter_fails) {
    static const char *const entries[] = {"vkGetSemaphoreCounterValue"};
    torture_all(entries, 1, queue_codes, COUNT(queue_codes), false);
}

TEST(memory_fails) {
    static const char *const entries[] = {"vkAllocateMemory", "vkBindBufferMemory", "vkMapMemory", "vkCreateBuffer"};
    static const int codes[] = {LOST, HOST, DEVICE};
    torture_all(entries, COUNT(entries), codes, COUNT(codes), false);
}

TEST(recording_fails) {
    static const char *const entries[] = {"vkEndCommandBuffer", "vkBeginCommandBuffer", "vkCreateCommandPool",
                                          "vkAllocateCommandBuffers", "vkCreateSemaphore"};
    static const int codes[] = {LOST, HOST, DEVICE};
    torture_all(entries, COUNT(entries), codes, COUNT(codes), false);
}

TEST(a_pool_that_cannot_be_reset_may_say_that_the_device_is_lost) {
    static const char *const entries[] = {"vkResetCommandPool"};
    static const int codes[] = {LOST, DEVICE};
    torture_all(entries, 1, codes, COUNT(codes), false);
}
