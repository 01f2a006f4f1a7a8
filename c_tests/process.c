/* A process that is forked, and one that ends in the middle of things. */
#define _DEFAULT_SOURCE /* anonymous mappings */
#include "tg_vk.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- fork ---- */

enum { CALLS = 24, THREADS = 3 };

struct answers {
    tg_result result[CALLS];
    unsigned count;
    tg_result created, counted, reported;
    bool is_whole;
};

static void pause_for(uint64_t nanoseconds) {
    const struct timespec time = {(time_t)(nanoseconds / TEST_SECOND), (long)(nanoseconds % TEST_SECOND)};
    nanosleep(&time, NULL);
}

static void *shared_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    return memory;
}

/* A child that hangs is ended, and counts as one that crashed. */
static bool ends_well(pid_t child, unsigned seconds) {
    int status = 0;
    for (unsigned i = 0; i < seconds * 100; i++) {
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) {
            if (WIFSIGNALED(status)) printf("the child ended by signal %d\n", WTERMSIG(status));
            else if (WEXITSTATUS(status) != 0) printf("the child ended with %d\n", WEXITSTATUS(status));
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        pause_for(TEST_SECOND / 100);
    }
    printf("the child hangs\n");
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
}

static void call_all(struct answers *answers, tg_device dev, tg_buffer data, tg_kernel code, tg_read read) {
    uint32_t word = 0;
    const void *bytes = NULL;
    const tg_slice some = part(data, 0, 4);
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_device_info info = TG_DEVICE_INFO_INIT;
    tg_launch_desc nothing = TG_LAUNCH_DESC_INIT;
    tg_error_desc error = TG_ERROR_DESC_INIT;
    tg_buffer made = {0};
    tg_read begun = {0};
    tg_report report = {0};
    tg_result *next = answers->result;
    desc.size = 64;
    *next++ = tg_buffer_create(dev, &desc, &made);
    *next++ = tg_buffer_write(dev, 0, some, &word, 4);
    *next++ = tg_buffer_read(dev, 0, &word, 4, some, TG_WAIT_FOREVER);
    *next++ = tg_buffer_fill(dev, 0, some, 1, 4);
    *next++ = tg_read_begin(dev, 0, some, &begun);
    *next++ = tg_read_wait(dev, read, TG_WAIT_FOREVER);
    *next++ = tg_read_data(dev, read, &bytes, NULL);
    *next++ = tg_read_release(dev, read);
    *next++ = tg_launch(dev, &nothing);
    *next++ = tg_stream_flush(dev, 0);
    *next++ = tg_stream_wait(dev, 0, TG_WAIT_FOREVER);
    *next++ = tg_device_wait(dev, TG_WAIT_FOREVER);
    *next++ = tg_device_status(dev);
    *next++ = tg_device_get_info(dev, &info);
    *next++ = tg_taint(dev, &some, 1, &error);
    *next++ = tg_device_report(dev, &report);
    *next++ = tg_buffer_destroy(dev, data);
    *next++ = tg_kernel_destroy(dev, code);
    *next++ = tg_device_trim(dev, NULL);
    *next++ = tg_device_destroy(dev, TG_WAIT_FOREVER);
    answers->count = (unsigned)(next - answers->result);
}

/* Threads that are in calls of every kind, so that a fork finds whatever locks there are taken. */
static struct {
    tg_device dev;
    tg_buffer data;
    volatile bool is_over;
} busy;

static void *be_busy(void *argument) {
    const uint64_t stream = *(const uint64_t *)argument;
    uint32_t word = 0;
    while (!busy.is_over) {
        tg_buffer_fill(busy.dev, stream, part(busy.data, 64 * stream, 64), 7, 4);
        tg_buffer_read(busy.dev, stream, &word, 4, part(busy.data, 64 * stream, 4), TG_WAIT_FOREVER);
        tg_report report = {0};
        tg_device_report(busy.dev, &report);
        tg_report_release(report);
    }
    return NULL;
}

#if defined(__SANITIZE_ADDRESS__)
static const int busy_threads = 0; /* a fork leaves the sanitizer's own allocator locked if a thread is in it */
#else
static const int busy_threads = THREADS;
#endif

TEST(a_forked_child_is_told_so_by_every_call_on_the_device) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {0};
    pthread_t threads[THREADS];
    static const uint64_t streams[THREADS] = {0, 1, 2};
    struct answers *answers = shared_memory(sizeof *answers);
    REQUIRE_OK(tg_device_create(&desc, &dev));
    tg_buffer data = buffer(dev, "data", 256);
    tg_kernel code = kernel(dev, "scale");
    tg_read read = {0};
    write_words(dev, 0, whole(data), 256, 0, 1);
    REQUIRE_OK(tg_read_begin(dev, 0, whole(data), &read));
    busy.dev = dev;
    busy.data = data;
    for (int i = 0; i < busy_threads; i++) REQUIRE(pthread_create(&threads[i], NULL, be_busy, (void *)&streams[i]) == 0);
    const unsigned rounds = test_rounds(40);
    for (unsigned round = 0; round < rounds; round++) {
        memset(answers, 0, sizeof *answers);
        pause_for(round * 20000);
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            call_all(answers, dev, data, code, read);
            tg_device made = {0};
            uint32_t count = 0;
            answers->created = tg_device_create(&desc, &made);
            answers->counted = tg_device_count(&count);
            if (answers->created == TG_OK && tg_device_destroy(made, TEST_LONG) != TG_OK) _exit(2);
            tg_report report = {0};
            answers->reported = tg_last_report(&report);
            tg_report_release(report);
            answers->is_whole = true;
            _exit(0);
        }
        CHECK(ends_well(child, 20));
        CHECK(answers->is_whole);
        CHECK(answers->count > 15);
        for (unsigned i = 0; i < answers->count; i++)
            if (answers->result[i] != TG_ERROR_WRONG_STATE)
                test_fail(__FILE__, __LINE__, "call %u gave %s", i, test_result_name(answers->result[i]));
        CHECK(answers->created == TG_OK || TG_IS_TRACKED(answers->created));
        CHECK(answers->counted == TG_OK || TG_IS_TRACKED(answers->counted));
        CHECK_RESULT(answers->reported, TG_OK);
    }
    busy.is_over = true;
    for (int i = 0; i < busy_threads; i++) pthread_join(threads[i], NULL);
    /* The parent is none the wiser. */
    CHECK_WORDS(dev, 0, part(data, 768, 16), 4, 192, 1);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
}

TEST(a_child_of_a_process_that_is_done_with_its_devices_has_its_own) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {0};
    REQUIRE_OK(tg_device_create(&desc, &dev));
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        tg_device own = {0};
        uint32_t word = 0;
        if (tg_device_create(&desc, &own) != TG_OK) _exit(2);
        tg_buffer data = buffer(own, "data", 16);
        write_words(own, 0, whole(data), 16, 5, 0);
        if (tg_buffer_read(own, 0, &word, 4, part(data, 0, 4), TEST_LONG) != TG_OK || word != 5) _exit(3);
        if (tg_device_status(dev) != TG_ERROR_STALE_HANDLE) _exit(4);
        _exit(tg_device_destroy(own, TEST_LONG) == TG_OK ? 0 : 5);
    }
    CHECK(ends_well(child, 20));
}

/* ---- exit ---- */

enum { WORDS = 1 << 16 };

static struct {
    tg_device dev;
    tg_buffer data;
    tg_kernel code;
} ending;

static void begin_work(uint64_t flags) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    desc.flags = flags;
    if (tg_device_create(&desc, &ending.dev) != TG_OK) _exit(9);
    ending.data = buffer(ending.dev, "data", WORDS);
    ending.code = kernel(ending.dev, "increment");
    if (tg_buffer_fill(ending.dev, 0, whole(ending.data), 0, 4) != TG_OK) _exit(9);
    for (int i = 0; i < 200; i++)
        if (increment(ending.dev, (uint64_t)i % 4, ending.code, whole(ending.data), WORDS, 1) != TG_OK) _exit(9);
    for (uint64_t stream = 0; stream < 4; stream++)
        if (tg_stream_flush(ending.dev, stream) != TG_OK) _exit(9);
}

/* What an engine may do in a handler of its own: whatever it answers, it comes back. */
static void use_at_exit(void) {
    uint32_t word = 0;
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer made = {0};
    desc.size = 64;
    tg_buffer_create(ending.dev, &desc, &made);
    tg_buffer_write(ending.dev, 0, part(made, 0, 4), &word, 4);
    tg_buffer_read(ending.dev, 0, &word, 4, part(ending.data, 0, 4), 10 * TEST_SECOND);
    tg_device_wait(ending.dev, 10 * TEST_SECOND);
    tg_report report = {0};
    tg_last_report(&report);
    tg_report_release(report);
}

static void destroy_at_exit(void) { tg_device_destroy(ending.dev, 10 * TEST_SECOND); }

static void *wait_for_ever(void *argument) {
    (void)argument;
    tg_device_wait(ending.dev, TG_WAIT_FOREVER);
    return NULL;
}

static void *leave(void *argument) {
    exit(argument != NULL);
}

static void *keep_working(void *argument) {
    while (!argument) {
        increment(ending.dev, 7, ending.code, whole(ending.data), WORDS, 1);
        tg_stream_flush(ending.dev, 7);
    }
    return NULL;
}

/* The queue waits for what nobody signals, and so does all work behind that. */
static void hang(void) {
    const tg_vk_handles handles = vk_handles(ending.dev);
    const PFN_vkQueueSubmit submit = (PFN_vkQueueSubmit)vk_device_function(ending.dev, "vkQueueSubmit");
    const VkSemaphore semaphore = vk_timeline(ending.dev, 0);
    const uint64_t value = 1;
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = 1,
        .pWaitSemaphoreValues = &value};
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &values,
        .waitSemaphoreCount = 1,
        .pWaitSemaphores = &semaphore,
        .pWaitDstStageMask = &stage};
    if (submit(handles.queues[0], 1, &info, VK_NULL_HANDLE) != VK_SUCCESS) _exit(8);
    increment(ending.dev, 9, ending.code, whole(ending.data), WORDS, 1);
    tg_stream_flush(ending.dev, 9);
}

static pthread_t start(void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) != 0) _exit(7);
    return thread;
}

/* Ends the child in one of many ways; comes back from none. */
static void end(unsigned way, uint64_t flags) {
    if (way == 1) atexit(use_at_exit);
    if (way == 2) atexit(destroy_at_exit);
    begin_work(flags);
    if (way == 3) atexit(use_at_exit);
    if (way == 4) atexit(destroy_at_exit);
    if (way == 5) {
        start(leave);
        wait_for_ever(NULL);
        pause_for(20 * TEST_SECOND);
    }
    if (way == 6) start(wait_for_ever);
    if (way == 7) start(keep_working);
    if (way == 8) {
        hang();
        start(wait_for_ever);
        pause_for(TEST_SECOND / 50);
    }
    if (way == 9) hang();
    exit(0);
}

/* A child takes a second where it is checked for leaks; TG_TEST_TIMES asks for a long run. */
static unsigned end_rounds(unsigned rounds) { return getenv("TG_TEST_ROUNDS") ? 1 : test_rounds(rounds); }

static void end_each_way(uint64_t flags, unsigned rounds) {
    static const char *const ways[] = {"with nothing else",
                                       "with calls in a handler from before the device",
                                       "with a destruction in a handler from before the device",
                                       "with calls in a handler from after it",
                                       "with a destruction in a handler from after it",
                                       "by another thread while this one waits",
                                       "while another thread waits",
                                       "while another thread enqueues",
                                       "while another thread waits for what hangs",
                                       "with work that hangs"};
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        unsigned bad = 0;
        for (unsigned round = 0; round < rounds; round++) {
            fflush(stdout);
            const pid_t child = fork();
            REQUIRE(child >= 0);
            if (child == 0) end(way, flags);
            bad += !ends_well(child, 15);
        }
        if (bad > 0) test_fail(__FILE__, __LINE__, "%u of %u ended badly: %s", bad, rounds, ways[way]);
    }
}

TEST(a_process_ends_well_with_work_running) { end_each_way(0, end_rounds(3)); }

TEST(a_process_under_validation_ends_well_with_work_running) { end_each_way(TG_DEVICE_VALIDATION, end_rounds(2)); }
