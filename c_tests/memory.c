/* Memory over a long run and at its limit: what is taken from Vulkan, and what becomes of work that gets none. */
#include "tg_test.h"
#include "tg_shim.h"

#include <pthread.h>
#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

static tg_memory_info memory_of(tg_device dev) {
    tg_memory_info info = TG_MEMORY_INFO_INIT;
    REQUIRE_OK(tg_device_memory_stats(dev, &info));
    return info;
}

static uint64_t reserved(tg_device dev) {
    const tg_memory_info info = memory_of(dev);
    return info.device.reserved + info.upload.reserved + info.readback.reserved;
}

static tg_result create(tg_device dev, uint64_t stream, uint64_t size, tg_buffer *out) {
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    desc.size = size;
    desc.stream = stream;
    return tg_buffer_create(dev, &desc, out);
}

/* Every word of the slice has this value. */
static void check_filled(tg_device dev, tg_slice slice, size_t words, uint32_t value) {
    check_words(__FILE__, __LINE__, dev, 0, slice, words, value, 0);
}

TEST(memory_filled_to_the_cap_and_past_it) {
    enum { MOST = 64, WORDS = 1024 };
    const uint64_t cap = 64 * MIB, size = 4 * MIB;
    tg_device_desc desc = test_device_desc();
    desc.memory_cap = cap;
    desc.staging_size = MIB;
    tg_device dev = test_device_with(&desc);
    tg_kernel scaled = kernel(dev, "scale");
    tg_buffer result = buffer(dev, "result", WORDS), bystander = buffer(dev, "bystander", WORDS);
    write_words(dev, 1, whole(bystander), WORDS, 5, 3);
    CHECK_WORDS(dev, 1, whole(bystander), WORDS, 5, 3);

    tg_buffer full[MOST] = {{0}}, failing = {0};
    uint32_t count = 0;
    tg_result answer = TG_OK;
    while (count < MOST && (answer = create(dev, 0, size, &full[count])) == TG_OK) {
        REQUIRE_OK(tg_buffer_fill(dev, 0, whole(full[count]), 100 + count, 4));
        count++;
    }
    REQUIRE(count >= 8 && count < MOST);
    CHECK_RESULT(answer, TG_ERROR_OUT_OF_DEVICE_MEMORY);
    failing = full[count];
    CHECK(failing.id != 0);
    CHECK(reserved(dev) <= cap);
    uint64_t root[2] = {0}, later[2] = {0};
    CHECK_EQ_INT(roots_of(dev, whole(failing), root, 2), 1);

    /* Past the cap: the pipeline is built and run to its end, and the read at the end names the allocation. */
    CHECK_RESULT(scale(dev, 0, scaled, whole(result), part(failing, 0, WORDS * 4), WORDS, 2), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 0, whole(result), WORDS);
    CHECK_EQ_INT(roots_of(dev, whole(result), later, 2), 1);
    CHECK_EQ_INT(later[0], root[0]);

    /* Nothing else noticed. */
    CHECK_EQ_INT(failure_count(dev), 1);
    for (uint32_t i = 0; i < count; i++) check_filled(dev, part(full[i], size - WORDS * 4, WORDS * 4), WORDS, 100 + i);
    CHECK_WORDS(dev, 1, whole(bystander), WORDS, 5, 3);

    /* Freeing and allocating make room; the bytes are claimed as before. */
    CHECK_RESULT(tg_buffer_destroy(dev, full[0]), TG_OK);
    REQUIRE_OK(tg_buffer_allocate(dev, failing, 0));
    CHECK(reserved(dev) <= cap);
    tg_buffer_info info = TG_BUFFER_INFO_INIT;
    CHECK_RESULT(tg_buffer_get_info(dev, failing, &info), TG_OK);
    CHECK_EQ_INT(info.allocated, 1);
    CHECK_EQ_INT(info.size, size);
    tg_claim claims[2];
    size_t claim_count = 0;
    CHECK_RESULT(tg_claims(dev, whole(failing), claims, 2, &claim_count), TG_OK);
    CHECK_EQ_INT(claim_count, 1);
    CHECK_EQ_INT(claims[0].slice.size, size);
    CHECK_EQ_INT(claims[0].failure, root[0]);
    CHECK_UNWRITTEN(dev, 0, part(failing, 0, WORDS * 4), WORDS);
    CHECK_UNWRITTEN(dev, 0, whole(result), WORDS);

    /* Writing them repairs all. */
    REQUIRE_OK(tg_buffer_fill(dev, 0, whole(failing), 21, 4));
    check_filled(dev, part(failing, size - WORDS * 4, WORDS * 4), WORDS, 21);
    REQUIRE_OK(scale(dev, 0, scaled, whole(result), part(failing, 0, WORDS * 4), WORDS, 2));
    check_filled(dev, whole(result), WORDS, 42);
    CHECK_EQ_INT(failure_count(dev), 0);
    for (uint32_t i = 1; i < count; i++) check_filled(dev, part(full[i], 0, WORDS * 4), WORDS, 100 + i);
    CHECK_WORDS(dev, 1, whole(bystander), WORDS, 5, 3);
}

TEST(allocating_without_room_fails_again) {
    tg_device_desc desc = test_device_desc();
    desc.memory_cap = 64 * MIB;
    tg_device dev = test_device_with(&desc);
    tg_buffer first = {0}, second = {0};
    REQUIRE_OK(create(dev, 0, 40 * MIB, &first));
    CHECK_RESULT(create(dev, 0, 40 * MIB, &second), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK_RESULT(tg_buffer_allocate(dev, second, 0), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK_EQ_INT(failure_count(dev), 1);
    CHECK_RESULT(tg_buffer_destroy(dev, first), TG_OK);
    CHECK_RESULT(tg_buffer_allocate(dev, second, 0), TG_OK);
    CHECK_RESULT(tg_buffer_destroy(dev, second), TG_OK);
    CHECK_EQ_INT(failure_count(dev), 0);
}

/* ---- a full device ---- */

enum { FULL_WORDS = 1 << 16, PART_WORDS = 1 << 14 };
static const uint64_t CAP = MIB, PART = PART_WORDS * 4; /* a part is what a full device leaves to staging */

/* Memory is all buffers, but for what is left to staging. One of four parts, every word of which is 3, and others. */
static tg_device full_device(tg_buffer *big) {
    tg_device_desc desc = test_device_desc();
    desc.memory_cap = CAP;
    tg_device dev = test_device_with(&desc);
    tg_buffer other = {0};
    REQUIRE_OK(create(dev, 0, FULL_WORDS * 4, big));
    for (uint64_t size = PART; size >= 4096; size /= 4)
        while (create(dev, 0, size, &other) == TG_OK) {}
    REQUIRE_OK(tg_buffer_fill(dev, 0, whole(*big), 3, 4));
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    return dev;
}

static tg_slice part_of(tg_buffer big, uint64_t index) { return part(big, index * PART, PART); }

TEST(a_full_device_is_written_and_read_on_any_stream) {
    tg_buffer big = {0};
    tg_device dev = full_device(&big);
    const uint64_t failures = failure_count(dev);
    for (unsigned round = 0; round < test_rounds(20); round++) {
        for (unsigned i = 0; i < 4; i++) write_words(dev, 1 + i, part_of(big, i), PART_WORDS, round + i, 1);
        for (unsigned i = 0; i < 4; i++) check_words(__FILE__, __LINE__, dev, 5 - i, part_of(big, i), PART_WORDS, round + i, 1);
    }
    CHECK_EQ_INT(failure_count(dev), failures);
    CHECK(reserved(dev) <= CAP);
}

/* What is over has its staging until somebody looks. */
TEST(a_full_device_is_written_when_all_is_over_and_nobody_looked) {
    tg_buffer big = {0};
    tg_device dev = full_device(&big);
    const uint64_t failures = failure_count(dev);
    for (unsigned i = 0; i < 8; i++) {
        write_words(dev, i, part_of(big, i % 4), PART_WORDS, i, 1);
        REQUIRE_OK(tg_stream_flush(dev, i));
    }
    for (unsigned i = 0; i < 4; i++) check_words(__FILE__, __LINE__, dev, i, part_of(big, i), PART_WORDS, 4 + i, 1);
    CHECK_EQ_INT(failure_count(dev), failures);
}

TEST(reads_that_nobody_waits_for_leave_a_full_device_readable) {
    tg_buffer big = {0};
    tg_device dev = full_device(&big);
    static uint32_t words[PART_WORDS];
    const uint64_t failures = failure_count(dev);
    for (unsigned i = 0; i < 8; i++) {
        const tg_result answer = tg_buffer_read(dev, i, words, sizeof words, part_of(big, i % 4), 0);
        CHECK(answer == TG_TIMEOUT || answer == TG_OK);
        tg_read read = {0};
        const tg_result begun = tg_read_begin(dev, i, part_of(big, i % 4), &read);
        CHECK(begun == TG_OK || begun == TG_NOT_READY);
        CHECK_EQ_INT(read.id != 0, begun == TG_OK);
        CHECK_RESULT(tg_read_release(dev, read), TG_OK);
    }
    check_filled(dev, part_of(big, 2), PART_WORDS, 3);
    CHECK_EQ_INT(failure_count(dev), failures);
}

TEST(a_write_without_waiting_that_has_no_room_changes_nothing) {
    tg_buffer big = {0};
    tg_device dev = full_device(&big);
    static uint32_t words[FULL_WORDS];
    const uint64_t failures = failure_count(dev);
    CHECK_RESULT(tg_buffer_write_with(dev, 1, whole(big), words, sizeof words, TG_WRITE_NO_WAIT), TG_NOT_READY);
    CHECK_EQ_INT(failure_count(dev), failures);
    for (unsigned i = 0; i < 4; i++) check_filled(dev, part_of(big, i), PART_WORDS, 3);
    CHECK_RESULT(tg_buffer_write_with(dev, 1, part_of(big, 0), words, PART, TG_WRITE_NO_WAIT), TG_OK);
    CHECK_RESULT(tg_buffer_write(dev, 1, whole(big), words, sizeof words), TG_OK);
    for (unsigned i = 0; i < 4; i++) check_filled(dev, part_of(big, i), PART_WORDS, 0);
}

typedef struct {
    tg_device dev;
    tg_slice slice;
    unsigned index;
} full_job;

static void *write_and_read(void *data) {
    const full_job *job = data;
    for (unsigned round = 0; round < test_rounds(50); round++) {
        write_words(job->dev, job->index, job->slice, PART_WORDS, round + job->index, 1);
        check_words(__FILE__, __LINE__, job->dev, job->index, job->slice, PART_WORDS, round + job->index, 1);
    }
    return NULL;
}

TEST(threads_share_what_a_full_device_has_left) {
    tg_buffer big = {0};
    tg_device dev = full_device(&big);
    const uint64_t failures = failure_count(dev);
    pthread_t threads[4];
    full_job jobs[4];
    for (unsigned i = 0; i < 4; i++) {
        jobs[i] = (full_job){dev, part_of(big, i), i};
        REQUIRE(pthread_create(&threads[i], NULL, write_and_read, &jobs[i]) == 0);
    }
    for (unsigned i = 0; i < 4; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ_INT(failure_count(dev), failures);
    CHECK(reserved(dev) <= CAP);
}

/* A number for everything the churn decides, the same in every run. */
static uint32_t next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* Buffers of 16 bytes to 256 KiB come and go on four streams, with work in flight on them when they go. */
TEST(creating_and_destroying_takes_no_memory_once_warm) {
    enum { STREAMS = 4, LIVE = 512 };
    const unsigned rounds = test_rounds(getenv("TG_TEST_PROFILE") ? 5000 : 50000);
    tg_device_desc desc = test_device_desc();
    desc.slots = STREAMS;
    tg_device dev = test_device_with(&desc);
    static tg_buffer live[LIVE];
    static uint64_t sizes[LIVE];
    static uint32_t values[LIVE];
    uint64_t random = 1;
    tg_memory_info warm = TG_MEMORY_INFO_INIT;
    unsigned allocations = 0;
    for (unsigned i = 0; i < rounds; i++) {
        const unsigned at = next(&random) % LIVE;
        const uint64_t stream = i % STREAMS;
        if (live[at].id) REQUIRE_OK(tg_buffer_destroy(dev, live[at]));
        sizes[at] = (UINT64_C(16) << next(&random) % 14) + next(&random) % 4 * 4;
        REQUIRE_OK(create(dev, stream, sizes[at], &live[at]));
        /* A copy of what another stream wrote, or bytes of its own. */
        const unsigned other = next(&random) % LIVE;
        if (other != at && live[other].id && sizes[other] >= sizes[at]) {
            REQUIRE_OK(tg_buffer_copy(dev, stream, whole(live[at]), part(live[other], 0, sizes[at])));
            values[at] = values[other];
        } else {
            REQUIRE_OK(tg_buffer_fill(dev, stream, whole(live[at]), i, 4));
            values[at] = i;
        }
        if (i % 64 == 0) REQUIRE_OK(tg_stream_flush(dev, stream));
        if (i == rounds / 2) {
            warm = memory_of(dev);
            allocations = tg_shim_calls("vkAllocateMemory");
        }
    }
    const tg_memory_info info = memory_of(dev);
    CHECK_EQ_INT(info.device.reserved, warm.device.reserved);
    CHECK_EQ_INT(info.upload.reserved, warm.upload.reserved);
    CHECK_EQ_INT(info.readback.reserved, warm.readback.reserved);
    CHECK_EQ_INT(tg_shim_calls("vkAllocateMemory"), allocations);
    const uint64_t unused = info.device.reserved - info.device.used;
    CHECK(info.device.largest_free > 0 && info.device.largest_free <= unused);
    printf("%u pairs: reserved %llu KiB, used %llu KiB at the most and %llu KiB now; of %llu KiB free the largest block has %llu KiB\n",
           rounds, (unsigned long long)info.device.reserved >> 10, (unsigned long long)info.device.peak >> 10,
           (unsigned long long)info.device.used >> 10, (unsigned long long)unused >> 10,
           (unsigned long long)info.device.largest_free >> 10);
    for (unsigned at = 0; at < LIVE; at++) {
        if (!live[at].id) continue;
        check_filled(dev, part(live[at], sizes[at] - 16, 16), 4, values[at]);
        CHECK_RESULT(tg_buffer_destroy(dev, live[at]), TG_OK);
    }
    CHECK_EQ_INT(memory_of(dev).device.used, 0);
    CHECK_EQ_INT(failure_count(dev), 0);
}
