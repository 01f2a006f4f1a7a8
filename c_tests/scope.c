/* Write scopes around work of the caller's own. */
#include "tg_test.h"

enum { WORDS = 64 };

static tg_result begin(tg_device dev, const tg_use *uses, size_t count, tg_scope *scope) {
    tg_scope_desc desc = TG_SCOPE_DESC_INIT;
    desc.uses = uses;
    desc.use_count = count;
    desc.label = text("the scope");
    return tg_scope_begin(dev, &desc, scope);
}

TEST(success_releases) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    taint(dev, whole(data), 1, "old");
    const tg_use uses[] = {use(whole(data), TG_ACCESS_WRITE)};
    tg_scope scope = {0};
    CHECK_RESULT(begin(dev, uses, 1, &scope), TG_OK);
    CHECK(scope.id != 0);
    CHECK_RESULT(tg_scope_end(dev, scope), TG_OK);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 1, 1);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(an_error_claims_what_was_to_be_written) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    const tg_use uses[] = {use(part(data, 0, 64), TG_ACCESS_WRITE)};
    tg_scope scope = {0};
    REQUIRE_OK(begin(dev, uses, 1, &scope));
    tg_error_desc error = TG_ERROR_DESC_INIT;
    error.code = 5;
    error.message = text("the caller's work failed");
    CHECK_RESULT(tg_scope_fail(dev, scope, &error), TG_OK);
    CHECK_UNWRITTEN(dev, 0, part(data, 0, 64), 16);
    CHECK_CONTAINS(test_last_report_text(), "the caller's work failed");
    CHECK_WORDS(dev, 0, part(data, 64, 64), 16, 17, 1);
}

TEST(failing_without_an_error_is_torn_down) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    const tg_use uses[] = {use(whole(data), TG_ACCESS_WRITE)};
    tg_scope scope = {0};
    REQUIRE_OK(begin(dev, uses, 1, &scope));
    CHECK_RESULT(tg_scope_fail(dev, scope, NULL), TG_OK);
    CHECK_UNWRITTEN(dev, 0, whole(data), WORDS);
    tg_report report = last_report();
    const tg_failure_info info = report_failure(report, 0);
    CHECK_EQ_INT(info.code, TG_ERROR_TORN_DOWN);
    tg_report_release(report);
}

TEST(a_claimed_input_skips_with_a_null_scope) {
    tg_device dev = test_device();
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS);
    const uint64_t root = taint(dev, whole(from), 1, "root");
    const tg_use uses[] = {use(whole(to), TG_ACCESS_WRITE), use(whole(from), TG_ACCESS_READ)};
    tg_scope scope = {77};
    CHECK_RESULT(begin(dev, uses, 2, &scope), TG_SKIPPED);
    CHECK_EQ_INT(scope.id, 0);
    uint64_t id = 0;
    CHECK_EQ_INT(roots_of(dev, whole(to), &id, 1), 1);
    CHECK_EQ_INT(id, root);
    CHECK_RESULT(tg_scope_end(dev, scope), TG_OK); /* ending the null scope is fine */
    CHECK_UNWRITTEN(dev, 0, whole(to), WORDS);
}

TEST(held_bytes_are_wrong_state_and_unchanged) {
    tg_device dev = test_device();
    tg_kernel storing = kernel(dev, "store");
    const uint64_t behind = bindable(dev, 64);
    tg_buffer data = buffer(dev, "data", behind / 4 + 16);
    write_words(dev, 0, whole(data), behind / 4 + 16, 1, 1);
    const tg_use uses[] = {use(part(data, 0, 64), TG_ACCESS_WRITE)};
    const tg_slice held = part(data, 0, 64), rest = part(data, behind, 64);
    uint32_t words[16] = {0};
    tg_scope scope = {0}, second = {77};
    tg_error_desc error = TG_ERROR_DESC_INIT;
    REQUIRE_OK(begin(dev, uses, 1, &scope));
    CHECK_RESULT(tg_buffer_write(dev, 0, held, words, sizeof words), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_buffer_read(dev, 0, words, sizeof words, held, TEST_LONG), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_buffer_fill(dev, 0, held, 0, 4), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_buffer_copy(dev, 0, rest, held), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_buffer_copy(dev, 0, held, rest), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(store(dev, 0, storing, whole(data), WORDS, 9), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_taint(dev, &held, 1, &error), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_mark_written(dev, &held, 1), TG_ERROR_WRONG_STATE);
    CHECK_RESULT(begin(dev, uses, 1, &second), TG_ERROR_WRONG_STATE);
    CHECK_EQ_INT(second.id, 0);
    CHECK_RESULT(store(dev, 0, storing, rest, 16, 9), TG_OK); /* what nobody holds is free */
    CHECK_RESULT(tg_scope_end(dev, scope), TG_OK);
    CHECK_WORDS(dev, 0, held, 16, 1, 1);
    CHECK_WORDS(dev, 0, rest, 16, 9, 0);
}

TEST(an_open_scope_counts_as_unwritten) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    const tg_use uses[] = {use(whole(data), TG_ACCESS_WRITE)};
    const tg_slice all = whole(data);
    tg_scope scope = {0};
    uint64_t root = 0;
    REQUIRE_OK(begin(dev, uses, 1, &scope));
    CHECK_RESULT(tg_first_failure(dev, &all, 1, &root), TG_OK);
    CHECK(root != 0);
    CHECK_EQ_INT(failure_count(dev), 1);
    CHECK_RESULT(tg_scope_end(dev, scope), TG_OK);
    CHECK_RESULT(tg_first_failure(dev, &all, 1, &root), TG_OK);
    CHECK_EQ_INT(root, 0);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(an_empty_write_set_mints_nothing) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    const tg_use uses[] = {use(whole(data), TG_ACCESS_READ)};
    tg_scope scope = {0};
    CHECK_RESULT(begin(dev, uses, 1, &scope), TG_OK);
    CHECK_EQ_INT(failure_count(dev), 0);
    CHECK_RESULT(tg_scope_fail(dev, scope, NULL), TG_OK);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(may_write_releases_nothing) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    const tg_use uses[] = {use(whole(data), TG_ACCESS_MAY_WRITE)};
    tg_scope scope = {0};
    const uint64_t root = taint(dev, part(data, 0, 16), 1, "root");
    CHECK_RESULT(begin(dev, uses, 1, &scope), TG_OK);
    CHECK_RESULT(tg_scope_end(dev, scope), TG_OK);
    uint64_t roots[2] = {0};
    CHECK_EQ_INT(roots_of(dev, whole(data), roots, 2), 1);
    CHECK_EQ_INT(roots[0], root);
    CHECK_EQ_INT(roots_of(dev, part(data, 16, 4 * WORDS - 16), roots, 2), 0);
}

TEST(ending_twice_is_stale) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    const tg_use uses[] = {use(whole(data), TG_ACCESS_WRITE)};
    tg_scope scope = {0};
    REQUIRE_OK(begin(dev, uses, 1, &scope));
    CHECK_RESULT(tg_scope_end(dev, scope), TG_OK);
    CHECK_RESULT(tg_scope_end(dev, scope), TG_ERROR_STALE_HANDLE);
    CHECK_RESULT(tg_scope_fail(dev, scope, NULL), TG_ERROR_STALE_HANDLE);
}

TEST(every_access_must_be_said) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    const tg_use uses[] = {use(whole(data), TG_ACCESS_AUTO)};
    tg_scope scope = {77};
    CHECK_RESULT(begin(dev, uses, 1, &scope), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(scope.id, 0);
}

TEST(an_abandoned_scope_goes_with_its_device) {
    const tg_device_desc desc = test_device_desc();
    tg_device dev = test_device_with(&desc);
    tg_buffer data = buffer(dev, "data", WORDS);
    const tg_use uses[] = {use(whole(data), TG_ACCESS_WRITE)};
    tg_scope scope = {0};
    REQUIRE_OK(begin(dev, uses, 1, &scope));
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
    test_device_gone(dev);
    CHECK_RESULT(tg_scope_end(dev, scope), TG_ERROR_STALE_HANDLE);
}
