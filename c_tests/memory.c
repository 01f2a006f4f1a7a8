/* Memory over a long run and at its limit: what is taken from Vulkan, and what becomes of work that gets none. */
#include "tg_test.h"
#include "tg_shim.h"

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
