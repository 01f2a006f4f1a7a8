/* Whole scenarios: what a program that uses the library for a day would come across. */
#include "tg_test.h"

#include <stdlib.h>

enum { WORDS = 256 };

/* A small generator of our own, so that a failing round can be run again on any machine. */
static uint32_t seed = 1;
static uint32_t chance(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

TEST(a_third_stream_sees_what_the_second_wrote) {
    tg_device dev = test_device();
    tg_kernel storing = kernel(dev, "store");
    tg_kernel scaling = kernel(dev, "scale");
    for (uint32_t round = 0; round < test_rounds(10000); round++) {
        const uint64_t creator = chance(6), writer = chance(6), reader = chance(6);
        tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
        tg_buffer made = {0};
        desc.size = WORDS * 4;
        desc.stream = creator;
        REQUIRE_OK(tg_buffer_create(dev, &desc, &made));
        tg_buffer result = buffer(dev, "result", WORDS);
        if (chance(2)) write_words(dev, creator, whole(made), WORDS, 1, 1);
        REQUIRE_OK(store(dev, writer, storing, whole(made), WORDS, round));
        if (chance(2)) REQUIRE_OK(tg_stream_flush(dev, chance(6)));
        if (chance(2)) {
            REQUIRE_OK(scale(dev, reader, scaling, whole(result), whole(made), WORDS, 3));
            CHECK_WORDS(dev, chance(6), whole(result), WORDS, round * 3, 0);
        } else {
            CHECK_WORDS(dev, reader, whole(made), WORDS, round, 0);
        }
        REQUIRE_OK(tg_buffer_destroy(dev, made));
        REQUIRE_OK(tg_buffer_destroy(dev, result));
    }
}

TEST(a_write_waits_for_another_streams_read) {
    tg_device dev = test_device();
    tg_kernel storing = kernel(dev, "store");
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer source = buffer(dev, "source", WORDS);
    tg_buffer result = buffer(dev, "result", WORDS);
    for (uint32_t round = 0; round < test_rounds(10000); round++) {
        REQUIRE_OK(store(dev, chance(6), storing, whole(source), WORDS, round));
        REQUIRE_OK(scale(dev, chance(6), scaling, whole(result), whole(source), WORDS, 2));
        REQUIRE_OK(store(dev, chance(6), storing, whole(source), WORDS, 0xffffffffu));
        if (chance(8) == 0) CHECK_WORDS(dev, chance(6), whole(result), WORDS, round * 2, 0);
    }
    CHECK_WORDS(dev, 0, whole(source), WORDS, 0xffffffffu, 0);
}

TEST(a_destroyed_handle_lets_work_in_flight_finish) {
    tg_device dev = test_device();
    tg_kernel storing = kernel(dev, "store");
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer result = buffer(dev, "result", WORDS);
    for (uint32_t round = 0; round < test_rounds(10000); round++) {
        tg_buffer source = buffer(dev, "source", WORDS);
        REQUIRE_OK(store(dev, chance(6), storing, whole(source), WORDS, round));
        REQUIRE_OK(scale(dev, chance(6), scaling, whole(result), whole(source), WORDS, 5));
        REQUIRE_OK(tg_buffer_destroy(dev, source));
        /* Of the same size, so that it takes the block that was just let go; and written at once, on another stream. */
        tg_buffer next = buffer(dev, "next", WORDS);
        REQUIRE_OK(store(dev, chance(6), storing, whole(next), WORDS, 0xffffffffu));
        if (chance(8) == 0) CHECK_WORDS(dev, chance(6), whole(result), WORDS, round * 5, 0);
        REQUIRE_OK(tg_buffer_destroy(dev, next));
    }
}

TEST(a_tainted_launch_in_place_ten_thousand_times_is_one_root_and_one_skip) {
    tg_device dev = test_device();
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 0);
    const uint64_t root = taint(dev, whole(data), 42, "the loop's input");
    for (uint32_t round = 0; round < 10000; round++)
        REQUIRE(increment(dev, round % 3, incrementing, whole(data), WORDS, 1) == TG_SKIPPED);
    CHECK_EQ_INT(failure_count(dev), 1);

    tg_slice asked = whole(data);
    tg_report report = {0};
    REQUIRE_OK(tg_report_slices(dev, &asked, 1, &report));
    CHECK_EQ_INT(report_count(report), 1);
    const tg_failure_info info = report_failure(report, 0);
    CHECK_EQ_INT(info.id, root);
    CHECK_EQ_INT(info.step_count, 1);
    const tg_step_info step = report_step(report, 0, 0);
    CHECK_EQ_INT(step.count, 10000);
    CHECK_CONTAINS(step.kernel.data, "increment");
    tg_report_release(report);
    CHECK_UNWRITTEN(dev, 0, whole(data), WORDS);
}

TEST(a_long_tainted_loop_does_not_grow) {
    tg_device dev = test_device();
    tg_kernel incrementing = kernel(dev, "increment");
    tg_buffer data = buffer(dev, "data", WORDS);
    taint(dev, whole(data), 1, "root");
    tg_memory_info before = TG_MEMORY_INFO_INIT, after = TG_MEMORY_INFO_INIT;
    for (int round = 0; round < 100; round++)
        REQUIRE(increment(dev, 0, incrementing, whole(data), WORDS, 1) == TG_SKIPPED);
    REQUIRE_OK(tg_device_memory_stats(dev, &before));
    for (int round = 0; round < 10000; round++)
        REQUIRE(increment(dev, 0, incrementing, whole(data), WORDS, 1) == TG_SKIPPED);
    REQUIRE_OK(tg_device_memory_stats(dev, &after));
    CHECK(memcmp(&before, &after, sizeof before) == 0);
}

TEST(a_rebuilt_kernel_overwrites_its_own_tainted_output) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    tg_kernel broken = {0};
    size_t size;
    void *code = shader("store", &size); /* nothing in it says writeonly */
    desc.code = code;
    desc.code_size = size / 8 * 4;
    desc.label = text("store, cut in half");
    CHECK_RESULT(tg_kernel_create(dev, &desc, &broken), TG_ERROR_INVALID_SHADER);
    CHECK(broken.id != 0);
    CHECK_RESULT(store(dev, 0, broken, whole(data), WORDS, 7), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 0, whole(data), WORDS);

    desc.code_size = size;
    CHECK_RESULT(tg_kernel_rebuild(dev, broken, &desc), TG_OK);
    CHECK_UNWRITTEN(dev, 0, whole(data), WORDS); /* repairing a kernel writes no byte */
    CHECK_RESULT(store(dev, 0, broken, whole(data), WORDS, 7), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 7, 0);
    CHECK_EQ_INT(failure_count(dev), 0);
    free(code);
}

TEST(half_a_buffer_rewritten_reads_and_the_other_half_fails) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    const uint64_t root = taint(dev, whole(data), 1, "root");
    write_words(dev, 0, part(data, 0, WORDS * 2), WORDS / 2, 10, 1);
    CHECK_WORDS(dev, 1, part(data, 0, WORDS * 2), WORDS / 2, 10, 1);
    CHECK_UNWRITTEN(dev, 1, part(data, WORDS * 2, WORDS * 2), WORDS / 2);
    CHECK_UNWRITTEN(dev, 1, whole(data), WORDS);
    uint64_t ids[4];
    CHECK_EQ_INT(roots_of(dev, whole(data), ids, 4), 1);
    CHECK_EQ_INT(ids[0], root);
    CHECK_EQ_INT(roots_of(dev, part(data, 0, WORDS * 2), ids, 4), 0);
}

TEST(two_roots_in_one_read_are_each_named_once) {
    tg_device dev = test_device();
    tg_kernel adding = kernel(dev, "add");
    tg_buffer left = buffer(dev, "left", WORDS), right = buffer(dev, "right", WORDS), sum = buffer(dev, "sum", WORDS);
    const uint64_t first = taint(dev, whole(left), 1, "left root");
    const uint64_t second = taint(dev, whole(right), 2, "right root");
    CHECK(first != second);
    CHECK_RESULT(add(dev, 0, adding, whole(sum), whole(left), whole(right), WORDS), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 0, whole(sum), WORDS);
    /* The report of the failed read, on this thread. */
    tg_report report = last_report();
    CHECK_EQ_INT(report_count(report), 2);
    const char *rendered = report_text(report);
    CHECK_CONTAINS(rendered, "left root");
    CHECK_CONTAINS(rendered, "right root");
    tg_report_release(report);
    uint64_t ids[4] = {0};
    const tg_slice all[] = {whole(sum), whole(left), whole(right), whole(sum)};
    CHECK_RESULT(tg_check_written(dev, all, 4, TEST_LONG), TG_ERROR_UNWRITTEN);
    CHECK_EQ_INT(roots_of(dev, whole(sum), ids, 4), 2);
    CHECK_EQ_INT(ids[0], first < second ? first : second);
    CHECK_EQ_INT(ids[1], first < second ? second : first);
}

TEST(sixty_four_gibibytes_fail_alone) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer large = {0};
    desc.size = UINT64_C(64) << 30;
    desc.label = text("sixty-four gibibytes");
    CHECK_RESULT(tg_buffer_create(dev, &desc, &large), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    REQUIRE(large.id != 0);
    tg_buffer_info info = TG_BUFFER_INFO_INIT;
    CHECK_RESULT(tg_buffer_get_info(dev, large, &info), TG_OK);
    CHECK_EQ_INT(info.size, desc.size);
    CHECK_EQ_INT(info.allocated, 0);

    tg_buffer result = buffer(dev, "result", WORDS);
    CHECK_RESULT(scale(dev, 0, scaling, whole(result), part(large, 0, WORDS * 4), WORDS, 2), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 0, whole(result), WORDS);
    tg_report report = last_report();
    CHECK_EQ_INT(report_count(report), 1);
    const tg_failure_info failure = report_failure(report, 0);
    CHECK_EQ_INT(failure.code, TG_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK_CONTAINS(failure.label.data, "sixty-four gibibytes");
    tg_report_release(report);

    tg_buffer small = buffer(dev, "one mebibyte", 1 << 18);
    write_words(dev, 0, whole(small), 1 << 18, 5, 3);
    CHECK_WORDS(dev, 1, whole(small), 1 << 18, 5, 3);
}

TEST(a_kernel_that_writes_past_its_slice_spoils_no_other_buffer) {
    tg_device_desc desc = test_device_desc();
    desc.flags |= TG_DEVICE_ISOLATE_BUFFERS;
    tg_device dev = test_device_with(&desc);
    tg_kernel straying = kernel(dev, "past_end");
    enum { BUFFERS = 32 };
    tg_buffer buffers[BUFFERS];
    for (uint32_t i = 0; i < BUFFERS; i++) {
        buffers[i] = buffer(dev, "neighbour", WORDS);
        write_words(dev, 0, whole(buffers[i]), WORDS, i * 1000, 1);
    }
    const tg_use bindings[] = {use(whole(buffers[BUFFERS / 2]), TG_ACCESS_WRITE)};
    for (uint32_t beyond = 1; beyond < 1u << 20; beyond *= 4) {
        const uint32_t push[] = {WORDS, beyond};
        CHECK_RESULT(launch(dev, beyond % 3, straying, bindings, 1, push, sizeof push, WORDS), TG_OK);
    }
    CHECK_RESULT(tg_device_wait(dev, TEST_LONG), TG_OK);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        if (i != BUFFERS / 2) CHECK_WORDS(dev, 0, whole(buffers[i]), WORDS, i * 1000, 1);
    }
}

TEST(the_containment_the_device_tells_holds) {
    tg_device dev = test_device();
    tg_device_info info = TG_DEVICE_INFO_INIT;
    REQUIRE_OK(tg_device_get_info(dev, &info));
    if (info.containment != TG_CONTAINMENT_SLICE) SKIP("containment_by_slice");
    tg_kernel straying = kernel(dev, "past_end");
    tg_buffer before = buffer(dev, "before", WORDS), middle = buffer(dev, "middle", WORDS), after = buffer(dev, "after", WORDS);
    write_words(dev, 0, whole(before), WORDS, 1, 1);
    write_words(dev, 0, whole(after), WORDS, 2, 2);
    const tg_use bindings[] = {use(whole(middle), TG_ACCESS_WRITE)};
    const uint32_t push[] = {WORDS, 1};
    CHECK_RESULT(launch(dev, 0, straying, bindings, 1, push, sizeof push, WORDS), TG_OK);
    CHECK_WORDS(dev, 0, whole(before), WORDS, 1, 1);
    CHECK_WORDS(dev, 0, whole(after), WORDS, 2, 2);
}

TEST(destroying_everything_empties_the_store) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS), last = buffer(dev, "last", WORDS);
    taint(dev, whole(from), 1, "root");
    CHECK_RESULT(scale(dev, 0, scaling, whole(to), whole(from), WORDS, 2), TG_SKIPPED);
    CHECK_RESULT(scale(dev, 1, scaling, whole(last), whole(to), WORDS, 2), TG_SKIPPED);
    CHECK_EQ_INT(failure_count(dev), 1);
    CHECK_RESULT(tg_buffer_destroy(dev, from), TG_OK);
    CHECK_RESULT(tg_buffer_destroy(dev, to), TG_OK);
    CHECK_EQ_INT(failure_count(dev), 1);
    CHECK_RESULT(tg_buffer_destroy(dev, last), TG_OK);
    CHECK_EQ_INT(failure_count(dev), 0);
}
