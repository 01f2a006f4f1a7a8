/* That a profile is what it says, as the library sees it, and the few facts that only one of them can show. Elsewhere than
 * on a profile these hold too, of the device as it is. */
#include "tg_test.h"

#include <stdlib.h>
#include <tg_shim.h>

enum { WORDS = 64 };

static tg_device_info info_of(tg_device dev) {
    tg_device_info info = TG_DEVICE_INFO_INIT;
    REQUIRE_OK(tg_device_get_info(dev, &info));
    return info;
}

static bool presents(const char *profile) { return getenv("TG_TEST_PROFILE") && tg_shim_presents(profile); }

TEST(the_device_is_the_one_presented) {
    const tg_device_info info = info_of(test_device());
    if (presents("discrete")) {
        CHECK_EQ_INT(info.type, TG_DEVICE_TYPE_DISCRETE);
        CHECK_EQ_INT(info.map_alignment, 256);
        CHECK(presents("bare") || info.features & TG_FEATURE_MEMORY_BUDGET);
        CHECK(info.local_heap_size > 0 && info.other_heap_size > 0 && info.local_heap_size != info.other_heap_size);
    }
    if (presents("smallest")) {
        CHECK_EQ_INT(info.max_bindings, 4);
        CHECK_EQ_INT(info.max_push_size, 128);
        CHECK_EQ_INT(info.binding_alignment, 256);
        CHECK_EQ_INT(info.max_binding_size, 1 << 27);
        CHECK_EQ_INT(info.max_buffer_size, 1 << 30);
        for (int i = 0; i < 3; i++) CHECK_EQ_INT(info.max_groups[i], 65535);
    }
    if (presents("bare")) {
        CHECK_EQ_INT(info.api_version >> 12 & 0x3ff, 2);
        CHECK_EQ_INT(info.features & (TG_FEATURE_PUSH_DESCRIPTORS | TG_FEATURE_SYNCHRONIZATION2 | TG_FEATURE_ROBUSTNESS2 |
                                      TG_FEATURE_MEMORY_BUDGET | TG_FEATURE_DEVICE_FAULT | TG_FEATURE_BUFFER_ADDRESSES), 0);
        CHECK_EQ_INT(info.containment, TG_CONTAINMENT_PAGE);
    }
    if (presents("two_families")) CHECK_EQ_INT(info.queues, 4);
    /* So that the tests by address run somewhere. */
    if (!presents("bare") && strcmp(test_device_name(), "llvmpipe") == 0) CHECK(info.features & TG_FEATURE_BUFFER_ADDRESSES);
}

/* Neighbours in one page, written by the host and by the device in turn: an atom that two buffers shared would spoil one. */
TEST(host_visible_neighbours_never_spoil_each_other) {
    tg_device dev = test_device();
    static const uint32_t memories[] = {TG_MEMORY_UPLOAD, TG_MEMORY_READBACK};
    enum { COUNT = 8, SIZE = 12 };
    tg_buffer buffers[COUNT];
    for (size_t kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < COUNT; i++) {
            tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
            desc.size = SIZE;
            desc.memory = memories[kind];
            REQUIRE_OK(tg_buffer_create(dev, &desc, &buffers[i]));
            if (i % 2)
                write_words(dev, 0, whole(buffers[i]), SIZE / 4, (uint32_t)i, 1);
            else
                REQUIRE_OK(tg_buffer_fill(dev, 1, whole(buffers[i]), (uint32_t)i, 4));
        }
        for (size_t i = 0; i < COUNT; i++) CHECK_WORDS(dev, 2, whole(buffers[i]), SIZE / 4, (uint32_t)i, i % 2);
    }
}

/* What was read before is in the host's view of the same memory. */
TEST(a_second_read_of_the_same_bytes_sees_what_the_device_wrote_since) {
    tg_device dev = test_device();
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer data = {0};
    desc.size = WORDS * 4;
    desc.memory = TG_MEMORY_READBACK;
    REQUIRE_OK(tg_buffer_create(dev, &desc, &data));
    tg_kernel storing = kernel(dev, "store");
    for (uint32_t round = 0; round < 5; round++) {
        REQUIRE_OK(store(dev, round, storing, whole(data), WORDS, round));
        CHECK_WORDS(dev, 0, whole(data), WORDS, round, 0);
        REQUIRE_OK(tg_buffer_fill(dev, round, whole(data), ~round, 4));
        CHECK_WORDS(dev, 0, whole(data), WORDS, ~round, 0);
    }
}

/* Slots on several queues: each round's chain goes over every one of them. */
TEST(a_chain_over_all_queues_keeps_its_order) {
    tg_device dev = test_device();
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 0, 1);
    const uint32_t rounds = test_rounds(300);
    for (uint32_t i = 0; i < rounds; i++) {
        REQUIRE_OK(increment(dev, i * 5 % 8, incrementing, whole(data), WORDS, 1));
        if (i % 3 == 0) REQUIRE_OK(tg_stream_flush(dev, i * 5 % 8));
    }
    CHECK_WORDS(dev, 7, whole(data), WORDS, rounds, 1);
}

/* Buffers of their own need memory of their own, and devices allow few allocations. */
TEST(thousands_of_isolated_buffers_share_allocations) {
    tg_device_desc desc = test_device_desc();
    desc.flags |= TG_DEVICE_ISOLATE_BUFFERS;
    tg_device dev = test_device_with(&desc);
    enum { COUNT = 5000 };
    static tg_buffer buffers[COUNT];
    const unsigned count = test_rounds(COUNT);
    for (unsigned i = 0; i < count; i++) buffers[i] = buffer(dev, "small", 16);
    write_words(dev, 0, whole(buffers[count - 1]), 16, 1, 1);
    CHECK_WORDS(dev, 0, whole(buffers[count - 1]), 16, 1, 1);
    if (getenv("TG_TEST_PROFILE")) CHECK(tg_shim_peak_allocations() > 0 && tg_shim_peak_allocations() < 1024);
    for (unsigned i = 0; i < count; i++) REQUIRE_OK(tg_buffer_destroy(dev, buffers[i]));
}
