/* Claims: tainting, releasing, asking. */
#include "tg_test.h"

enum { WORDS = 64 };

TEST(fresh_bytes_are_clean) {
    tg_device dev = test_device();
    const tg_slice data = whole(buffer(dev, "data", WORDS));
    uint64_t root = 77;
    CHECK_RESULT(tg_check_written(dev, &data, 1, TEST_LONG), TG_OK);
    CHECK_RESULT(tg_first_failure(dev, &data, 1, &root), TG_OK);
    CHECK_EQ_INT(root, 0);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(a_taint_claims_exactly_its_bytes) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    taint(dev, part(data, 5, 3), 1, "root");
    tg_claim claims[4];
    size_t count = 0;
    const tg_slice all = whole(data);
    CHECK_RESULT(tg_claims(dev, all, claims, 4, &count), TG_OK);
    CHECK_EQ_INT(count, 1);
    CHECK_EQ_INT(claims[0].slice.offset, 5);
    CHECK_EQ_INT(claims[0].slice.size, 3);
    CHECK_WORDS(dev, 0, part(data, 0, 4), 1, 1, 1);
    CHECK_UNWRITTEN(dev, 0, part(data, 4, 4), 1);
    CHECK_WORDS(dev, 0, part(data, 8, 64), 16, 3, 1);
}

TEST(marking_written_releases_exactly_its_bytes) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    taint(dev, whole(data), 1, "root");
    const tg_slice middle = part(data, 64, 64);
    CHECK_RESULT(tg_mark_written(dev, &middle, 1), TG_OK);
    CHECK_WORDS(dev, 0, middle, 16, 17, 1);
    CHECK_UNWRITTEN(dev, 0, part(data, 0, 64), 16);
    CHECK_UNWRITTEN(dev, 0, part(data, 128, 64), 16);
    tg_claim claims[4];
    size_t count = 0;
    CHECK_RESULT(tg_claims(dev, whole(data), claims, 4, &count), TG_OK);
    CHECK_EQ_INT(count, 2);
}

TEST(a_new_failure_takes_over_the_bytes_it_claims) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    const uint64_t first = taint(dev, whole(data), 1, "first");
    const uint64_t second = taint(dev, part(data, 0, 16), 2, "second");
    uint64_t ids[4] = {0};
    CHECK_EQ_INT(roots_of(dev, part(data, 0, 16), ids, 4), 1);
    CHECK_EQ_INT(ids[0], second);
    CHECK_EQ_INT(roots_of(dev, whole(data), ids, 4), 2);
    CHECK_EQ_INT(ids[0], first);
    taint(dev, whole(data), 3, "third");
    CHECK_EQ_INT(failure_count(dev), 1);
}

TEST(the_callers_code_and_words_come_back) {
    tg_device dev = test_device();
    const tg_slice data = whole(buffer(dev, "data", WORDS));
    tg_error_desc desc = TG_ERROR_DESC_INIT;
    desc.code = -123456789012;
    desc.message = text("the sensor was off");
    desc.label = text("sensor 7");
    CHECK_RESULT(tg_taint(dev, &data, 1, &desc), TG_OK);
    tg_report report = {0};
    REQUIRE_OK(tg_report_slices(dev, &data, 1, &report));
    const tg_failure_info info = report_failure(report, 0);
    CHECK_EQ_INT(info.code, TG_ERROR_CALLER);
    CHECK_EQ_INT(info.tag, (uint64_t)desc.code);
    CHECK_CONTAINS(info.message.data, "the sensor was off");
    CHECK_CONTAINS(info.label.data, "sensor 7");
    tg_report_release(report);
}

TEST(tainting_nothing_mints_nothing) {
    tg_device dev = test_device();
    const tg_slice nothing = part(buffer(dev, "data", WORDS), 8, 0);
    tg_error_desc desc = TG_ERROR_DESC_INIT;
    CHECK_RESULT(tg_taint(dev, &nothing, 1, &desc), TG_OK);
    CHECK_RESULT(tg_taint(dev, NULL, 0, &desc), TG_OK);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(a_list_by_null_is_misuse) {
    tg_device dev = test_device();
    tg_error_desc desc = TG_ERROR_DESC_INIT;
    uint64_t root = 0;
    CHECK_RESULT(tg_taint(dev, NULL, 1, &desc), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_mark_written(dev, NULL, 1), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_check_written(dev, NULL, 1, TEST_LONG), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_first_failure(dev, NULL, 1, &root), TG_ERROR_INVALID_ARGUMENT);
}

TEST(a_bad_slice_in_a_list_changes_nothing) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    tg_error_desc desc = TG_ERROR_DESC_INIT;
    const tg_slice slices[] = {part(data, 0, 16), part(data, WORDS * 4, 4)};
    CHECK_RESULT(tg_taint(dev, slices, 2, &desc), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(failure_count(dev), 0);
    taint(dev, whole(data), 1, "root");
    CHECK_RESULT(tg_mark_written(dev, slices, 2), TG_ERROR_INVALID_ARGUMENT);
    CHECK_UNWRITTEN(dev, 0, part(data, 0, 16), 4);
}

TEST(copies_move_claims_with_the_bytes) {
    tg_device dev = test_device();
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS);
    write_words(dev, 0, whole(from), WORDS, 1, 1);
    const uint64_t moved = taint(dev, part(from, 64, 64), 1, "moved");
    taint(dev, whole(to), 2, "replaced");
    CHECK_RESULT(tg_buffer_copy(dev, 0, whole(to), whole(from)), TG_OK);
    CHECK_WORDS(dev, 0, part(to, 0, 64), 16, 1, 1);
    CHECK_WORDS(dev, 0, part(to, 128, 128), 32, 33, 1);
    uint64_t id = 0;
    CHECK_EQ_INT(roots_of(dev, whole(to), &id, 1), 1);
    CHECK_EQ_INT(id, moved);
    CHECK_EQ_INT(failure_count(dev), 1);
}

TEST(an_unallocated_source_claims_what_is_copied) {
    tg_device dev = test_device();
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer from = {0}, to = buffer(dev, "to", WORDS);
    desc.size = WORDS * 4;
    desc.flags = TG_BUFFER_UNALLOCATED;
    desc.label = text("never allocated");
    REQUIRE_OK(tg_buffer_create(dev, &desc, &from));
    tg_error_desc error = TG_ERROR_DESC_INIT;
    error.message = text("no memory of the caller's");
    CHECK_RESULT(tg_fail_unallocated(dev, from, &error), TG_OK);
    CHECK_RESULT(tg_buffer_copy(dev, 0, whole(to), whole(from)), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 0, whole(to), WORDS);
}

TEST(failing_what_has_memory_is_wrong_state) {
    tg_device dev = test_device();
    tg_error_desc error = TG_ERROR_DESC_INIT;
    CHECK_RESULT(tg_fail_unallocated(dev, buffer(dev, "data", WORDS), &error), TG_ERROR_WRONG_STATE);
}

TEST(a_failed_read_leaves_its_destination) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    taint(dev, part(data, WORDS * 4 - 1, 1), 1, "the last byte");
    CHECK_UNWRITTEN(dev, 0, whole(data), WORDS);
}

TEST(unrelated_work_never_notices) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer bad = buffer(dev, "bad", WORDS), good = buffer(dev, "good", WORDS), result = buffer(dev, "result", WORDS);
    taint(dev, whole(bad), 1, "root");
    for (uint64_t stream = 0; stream < 4; stream++) {
        write_words(dev, stream, whole(good), WORDS, 1, 1);
        CHECK_RESULT(scale(dev, stream, scaling, whole(result), whole(good), WORDS, 2), TG_OK);
        CHECK_WORDS(dev, stream, whole(result), WORDS, 2, 2);
    }
}

TEST(claims_are_listed_by_two_calls) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    for (uint64_t i = 0; i < 4; i++) taint(dev, part(data, i * 32, 8), (int64_t)i, "root");
    tg_claim claims[4];
    size_t count = 0;
    CHECK_RESULT(tg_claims(dev, whole(data), NULL, 0, &count), TG_OK);
    CHECK_EQ_INT(count, 4);
    CHECK_RESULT(tg_claims(dev, whole(data), claims, 2, &count), TG_INCOMPLETE);
    CHECK_EQ_INT(count, 4);
    CHECK_RESULT(tg_claims(dev, part(data, 34, 32), claims, 4, &count), TG_OK);
    CHECK_EQ_INT(count, 2);
    CHECK_EQ_INT(claims[0].slice.offset, 34);
    CHECK_EQ_INT(claims[0].slice.size, 6);
    CHECK_EQ_INT(claims[1].slice.offset, 64);
    CHECK_EQ_INT(claims[1].slice.size, 2);
}
