/* Streams: flushing, waiting, folding. */
#include "tg_test.h"

enum { WORDS = 64 };

TEST(waiting_on_a_stream_that_was_never_used_returns) {
    CHECK_RESULT(tg_stream_wait(test_device(), 12345, 0), TG_OK);
}

TEST(flushing_a_stream_that_was_never_used_is_fine) {
    CHECK_RESULT(tg_stream_flush(test_device(), 12345), TG_OK);
}

TEST(flushing_twice_is_fine) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    CHECK_RESULT(tg_stream_flush(dev, 0), TG_OK);
    CHECK_RESULT(tg_stream_flush(dev, 0), TG_OK);
    CHECK_RESULT(tg_stream_wait(dev, 0, TEST_LONG), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 1, 1);
}

TEST(any_id_is_a_stream) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    static const uint64_t ids[] = {0, 7, 8, 1000, UINT64_C(1) << 32, UINT64_MAX - 1, UINT64_MAX};
    for (uint32_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        write_words(dev, ids[i], whole(data), WORDS, i, 1);
        CHECK_RESULT(tg_stream_wait(dev, ids[i], TEST_LONG), TG_OK);
        CHECK_WORDS(dev, ids[i], whole(data), WORDS, i, 1);
    }
}

TEST(one_slot_serves_every_stream) {
    tg_device_desc desc = test_device_desc();
    desc.slots = 1;
    tg_device dev = test_device_with(&desc);
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 3, whole(data), WORDS, 0, 1);
    for (uint64_t stream = 0; stream < 100; stream++) REQUIRE_OK(increment(dev, stream, incrementing, whole(data), WORDS, 1));
    CHECK_WORDS(dev, 50, whole(data), WORDS, 100, 1);
}

TEST(a_slot_flushes_by_itself_after_many_launches) {
    tg_device_desc desc = test_device_desc();
    desc.max_recorded = 3;
    tg_device dev = test_device_with(&desc);
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 0, 1);
    for (uint64_t i = 0; i < 100; i++) REQUIRE_OK(increment(dev, i % 2, incrementing, whole(data), WORDS, 1));
    CHECK_WORDS(dev, 1, whole(data), WORDS, 100, 1);
}

TEST(a_small_cap_on_pending_work_holds_up_and_loses_nothing) {
    tg_device_desc desc = test_device_desc();
    desc.max_pending = 4;
    tg_device dev = test_device_with(&desc);
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 0, 1);
    for (uint64_t i = 0; i < 200; i++) REQUIRE_OK(increment(dev, i % 3, incrementing, whole(data), WORDS, 1));
    CHECK_WORDS(dev, 1, whole(data), WORDS, 200, 1);
}

/* The same work without each optional feature. */
static void works_with(uint64_t flags) {
    tg_device_desc desc = test_device_desc();
    desc.flags |= flags;
    tg_device dev = test_device_with(&desc);
    tg_kernel incrementing = kernel(dev, "increment"), scaling = kernel(dev, "scale");
    tg_buffer data = buffer(dev, "data", WORDS), result = buffer(dev, "result", WORDS);
    write_words(dev, 0, whole(data), WORDS, 0, 1);
    for (uint32_t i = 0; i < 50; i++) {
        REQUIRE_OK(increment(dev, i % 3, incrementing, whole(data), WORDS, 1));
        REQUIRE_OK(scale(dev, 3, scaling, whole(result), whole(data), WORDS, 2));
    }
    CHECK_WORDS(dev, 4, whole(result), WORDS, 100, 2);
}

TEST(works_without_synchronization2) { works_with(TG_DEVICE_NO_SYNCHRONIZATION2); }

TEST(works_without_push_descriptors) { works_with(TG_DEVICE_NO_PUSH_DESCRIPTORS); }

TEST(works_without_robustness2) { works_with(TG_DEVICE_NO_ROBUSTNESS2); }

TEST(works_without_any_of_them) {
    works_with(TG_DEVICE_NO_SYNCHRONIZATION2 | TG_DEVICE_NO_PUSH_DESCRIPTORS | TG_DEVICE_NO_ROBUSTNESS2);
}
