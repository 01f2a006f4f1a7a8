/* Events. */
#include "tg_test.h"

enum { WORDS = 256 };

static tg_event record(tg_device dev, uint64_t stream) {
    tg_event event = {0};
    REQUIRE_OK(tg_event_record(dev, stream, &event));
    REQUIRE(event.id != 0);
    return event;
}

TEST(an_event_without_work_is_over) {
    tg_device dev = test_device();
    tg_event event = record(dev, 12345);
    CHECK_RESULT(tg_event_status(dev, event), TG_OK);
    CHECK_RESULT(tg_event_wait(dev, event, 0), TG_OK);
    CHECK_RESULT(tg_event_destroy(dev, event), TG_OK);
}

TEST(waiting_for_an_event_waits_for_the_work_before_it) {
    tg_device dev = test_device();
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 0, 1);
    for (int i = 0; i < 20; i++) REQUIRE_OK(increment(dev, 0, incrementing, whole(data), WORDS, 1));
    tg_event event = record(dev, 0);
    CHECK_RESULT(tg_event_wait(dev, event, TEST_LONG), TG_OK);
    CHECK_RESULT(tg_event_status(dev, event), TG_OK);
    CHECK_WORDS(dev, 1, whole(data), WORDS, 20, 1);
}

TEST(the_status_gets_there) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 3, whole(data), WORDS, 0, 1);
    tg_event event = record(dev, 3);
    tg_result result;
    while ((result = tg_event_status(dev, event)) == TG_NOT_READY) continue;
    CHECK_RESULT(result, TG_OK);
}

TEST(an_event_is_recorded_again_in_place) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    tg_event event = record(dev, 0);
    const uint64_t id = event.id;
    for (uint32_t i = 0; i < test_rounds(100); i++) {
        write_words(dev, i % 5, whole(data), WORDS, i, 1);
        REQUIRE_OK(tg_event_record(dev, i % 5, &event));
        CHECK_EQ_INT(event.id, id);
        REQUIRE_OK(tg_event_wait(dev, event, TEST_LONG));
    }
    CHECK_RESULT(tg_event_status(dev, event), TG_OK);
    CHECK_RESULT(tg_event_destroy(dev, event), TG_OK);
}

/* Bytes that the library is told nothing of: only the event orders the two streams. */
static void untracked(uint32_t scheduling, uint64_t writer, uint64_t reader) {
    tg_device_desc desc = test_device_desc();
    desc.scheduling = scheduling;
    tg_device dev = test_device_with(&desc);
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer input = buffer(dev, "input", WORDS), secret = buffer(dev, "secret", WORDS), out = buffer(dev, "out", WORDS);
    const uint32_t push[] = {WORDS, 3};
    tg_event event = {0};
    write_words(dev, 0, whole(input), WORDS, 1, 1);
    write_words(dev, 0, whole(secret), WORDS, 0, 0);
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    for (uint32_t i = 0; i < test_rounds(20); i++) {
        tg_use first[2], second[2];
        /* scale: binding 0 is read, binding 1 written */
        first[0] = use(whole(input), TG_ACCESS_READ);
        first[1] = use(whole(secret), TG_ACCESS_NONE);
        second[0] = use(whole(secret), TG_ACCESS_NONE);
        second[1] = use(whole(out), TG_ACCESS_WRITE);
        REQUIRE_OK(launch(dev, writer, scaling, first, 2, push, sizeof push, WORDS));
        REQUIRE_OK(tg_event_record(dev, writer, &event));
        REQUIRE_OK(tg_stream_wait_event(dev, reader, event));
        REQUIRE_OK(launch(dev, reader, scaling, second, 2, push, sizeof push, WORDS));
        /* and the next round's write comes after this one's read */
        REQUIRE_OK(tg_event_record(dev, reader, &event));
        REQUIRE_OK(tg_stream_wait_event(dev, writer, event));
    }
    CHECK_WORDS(dev, 0, whole(out), WORDS, 9, 9);
    REQUIRE_OK(tg_event_destroy(dev, event));
}

TEST(a_stream_waits_for_an_event) { untracked(TG_SCHEDULING_EVENT, 1, 2); }

TEST(a_stream_waits_for_an_event_of_its_own) { untracked(TG_SCHEDULING_EVENT, 1, 1); }

TEST(a_stream_waits_for_an_event_interleaved) { untracked(TG_SCHEDULING_INTERLEAVE, 1, 2); }

TEST(a_stream_waits_for_an_event_in_sequence) { untracked(TG_SCHEDULING_SEQUENCE, 2, 1); }

TEST(destroying_an_event_ends_no_wait) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 1, whole(data), WORDS, 4, 1);
    tg_event event = record(dev, 1);
    REQUIRE_OK(tg_stream_wait_event(dev, 2, event));
    REQUIRE_OK(tg_event_destroy(dev, event));
    CHECK_RESULT(tg_event_status(dev, event), TG_ERROR_STALE_HANDLE);
    CHECK_WORDS(dev, 2, whole(data), WORDS, 4, 1);
}

TEST(claims_are_nothing_to_an_event) {
    tg_device dev = test_device();
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", WORDS);
    taint(dev, whole(data), 1, "bad");
    CHECK_RESULT(increment(dev, 0, incrementing, whole(data), WORDS, 1), TG_SKIPPED);
    tg_event event = record(dev, 0);
    CHECK_RESULT(tg_event_wait(dev, event, TEST_LONG), TG_OK);
}

TEST(bad_arguments_record_nothing) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    tg_event event = {data.id};
    CHECK_RESULT(tg_event_record(dev, 0, NULL), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_event_record(dev, 0, &event), TG_ERROR_WRONG_KIND);
    CHECK_EQ_INT(event.id, data.id);
    event.id = 0;
    CHECK_RESULT(tg_event_status(dev, event), TG_ERROR_NULL_HANDLE);
    CHECK_RESULT(tg_event_destroy(dev, event), TG_OK);
}

TEST(what_is_not_destroyed_goes_with_the_device) {
    tg_device dev = test_device();
    tg_event event = record(dev, 0);
    REQUIRE_OK(tg_device_destroy(dev, TEST_LONG));
    test_device_gone(dev);
    CHECK(test_log_has("an event"));
    CHECK_RESULT(tg_event_status(dev, event), TG_ERROR_STALE_HANDLE);
}
