/* Reports: data, text and JSON. */
#include "tg_test.h"

#include <pthread.h>
#include <stdlib.h>

enum { WORDS = 64 };

static const tg_report none = {0};

/* from -> middle -> to, all skipped on one root. */
static uint64_t chain(tg_device dev, tg_slice *asked) {
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer from = buffer(dev, "from", WORDS), middle = buffer(dev, "middle", WORDS), to = buffer(dev, "to", WORDS);
    const uint64_t root = taint(dev, part(from, 8, 4), 42, "the source");
    CHECK_RESULT(scale(dev, 0, scaling, whole(middle), whole(from), WORDS, 2), TG_SKIPPED);
    CHECK_RESULT(scale(dev, 1, scaling, whole(to), whole(middle), WORDS, 2), TG_SKIPPED);
    *asked = whole(to);
    return root;
}

TEST(a_root_names_a_stream_where_its_work_was_for_one) {
    tg_device dev = test_device();
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer huge = {0}, data = buffer(dev, "data", WORDS);
    desc.size = UINT64_C(64) << 30;
    desc.stream = 0;
    CHECK_RESULT(tg_buffer_create(dev, &desc, &huge), TG_ERROR_OUT_OF_DEVICE_MEMORY);
    taint(dev, whole(data), 1, "nobody's stream");
    const tg_slice asked[] = {whole(huge), whole(data)};
    tg_report report = {0};
    CHECK_RESULT(tg_report_slices(dev, asked, 2, &report), TG_OK);
    CHECK_EQ_INT(report_count(report), 2);
    CHECK_EQ_INT(report_failure(report, 0).has_stream, 1);
    CHECK_EQ_INT(report_failure(report, 0).stream, 0);
    CHECK_EQ_INT(report_failure(report, 1).has_stream, 0);
    CHECK_EQ_INT(report_failure(report, 1).stream, 0);
    tg_str json;
    REQUIRE_OK(tg_report_json(report, &json));
    CHECK_CONTAINS(json.data, "\"stream\":0");
    CHECK_CONTAINS(json.data, "\"stream\":null");
    tg_report_release(report);
}

TEST(the_path_leads_from_the_root_to_the_bytes_asked_about) {
    tg_device dev = test_device();
    tg_slice asked;
    const uint64_t root = chain(dev, &asked);
    tg_report report = {0};
    CHECK_RESULT(tg_report_slices(dev, &asked, 1, &report), TG_OK);
    CHECK_EQ_INT(report_count(report), 1);
    const tg_failure_info info = report_failure(report, 0);
    CHECK_EQ_INT(info.id, root);
    CHECK_EQ_INT(info.code, TG_ERROR_CALLER);
    CHECK_EQ_INT(info.tag, 42);
    CHECK_EQ_INT(info.skips, 2);
    CHECK_EQ_INT(info.claimed_bytes, 4 + 2 * WORDS * 4);
    CHECK_EQ_INT(info.step_count, 2);
    const tg_step_info first = report_step(report, 0, 0), second = report_step(report, 0, 1);
    CHECK_EQ_INT(first.kind, TG_STEP_SKIP);
    CHECK_CONTAINS(first.kernel.data, "scale");
    CHECK_CONTAINS(first.needed.data, "from");
    CHECK_EQ_INT(first.produced_count, 1);
    CHECK_CONTAINS(first.produced[0].data, "middle");
    CHECK_CONTAINS(second.needed.data, "middle");
    CHECK_CONTAINS(second.produced[0].data, "to");
    CHECK_RESULT(tg_report_release(report), TG_OK);
}

TEST(the_claims_of_a_root_are_listed) {
    tg_device dev = test_device();
    tg_slice asked;
    chain(dev, &asked);
    tg_report report = {0};
    CHECK_RESULT(tg_report_slices(dev, &asked, 1, &report), TG_OK);
    const tg_failure_info info = report_failure(report, 0);
    CHECK_EQ_INT(info.claim_count, 3);
    static const char *const labels[] = {"from", "middle", "to"};
    for (size_t i = 0; i < info.claim_count && i < 3; i++) {
        tg_claim_info claim = TG_CLAIM_INFO_INIT;
        CHECK_RESULT(tg_report_claim(report, 0, i, &claim), TG_OK);
        CHECK(strcmp(claim.label.data, labels[i]) == 0);
        CHECK_EQ_INT(claim.offset, i == 0 ? 8 : 0);
        CHECK_EQ_INT(claim.size, i == 0 ? 4 : WORDS * 4);
    }
    tg_report_release(report);
}

TEST(text_and_json_say_the_same) {
    tg_device dev = test_device();
    tg_slice asked;
    chain(dev, &asked);
    tg_report report = {0};
    CHECK_RESULT(tg_report_slices(dev, &asked, 1, &report), TG_OK);
    static const char *const parts[] = {"the source", "declared by the test", "scale", "from", "middle", "to", "TG_ERROR_CALLER"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        CHECK_CONTAINS(report_text(report), parts[i]);
        CHECK_CONTAINS(report_json(report), parts[i]);
    }
    CHECK(report_json(report)[0] == '{');
    tg_report_release(report);
}

TEST(clean_bytes_give_an_empty_report) {
    tg_device dev = test_device();
    const tg_slice clean = whole(buffer(dev, "clean", WORDS));
    tg_report report = {0};
    CHECK_RESULT(tg_report_slices(dev, &clean, 1, &report), TG_OK);
    CHECK(report.id != 0);
    CHECK_EQ_INT(report_count(report), 0);
    CHECK_EQ_INT(report_info(report).code, TG_OK);
    tg_report_release(report);
}

TEST(a_misuse_is_told_by_function_and_field) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    CHECK_RESULT(tg_buffer_fill(dev, 0, whole(data), 0, 3), TG_ERROR_INVALID_ARGUMENT);
    tg_report report = last_report();
    const tg_report_info info = report_info(report);
    CHECK_EQ_INT(info.code, TG_ERROR_INVALID_ARGUMENT);
    CHECK(strcmp(info.function.data, "tg_buffer_fill") == 0);
    CHECK(strcmp(info.field.data, "pattern_size") == 0);
    CHECK(info.message.size > 0);
    CHECK_EQ_INT(report_count(report), 0);
    tg_report_release(report);
}

TEST(what_is_wrong_in_an_array_is_told_by_its_index) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS), to = buffer(dev, "to", WORDS);
    tg_kernel scaling = kernel(dev, "scale");
    const tg_buffer wrong = {scaling.id};
    const tg_use uses[] = {use(whole(data), TG_ACCESS_READ), use(whole(wrong), TG_ACCESS_WRITE)};
    const uint32_t push[] = {WORDS, 2};
    CHECK_RESULT(launch(dev, 0, scaling, uses, 2, push, sizeof push, WORDS), TG_ERROR_WRONG_KIND);
    CHECK_CONTAINS(test_last_report_text(), "binding 1: the handle names a kernel, not a buffer");
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    const tg_use bindings[] = {use(whole(data), TG_ACCESS_READ), use(whole(to), TG_ACCESS_WRITE)};
    desc.kernel = scaling;
    desc.bindings = bindings;
    desc.binding_count = 2;
    desc.extra = uses;
    desc.extra_count = 2;
    desc.push = push;
    desc.push_size = sizeof push;
    desc.threads[0] = WORDS;
    CHECK_RESULT(tg_launch(dev, &desc), TG_ERROR_WRONG_KIND);
    CHECK_CONTAINS(test_last_report_text(), "extra use 1: the handle names a kernel, not a buffer");
    tg_scope_desc scope_desc = TG_SCOPE_DESC_INIT;
    tg_scope scope = {0};
    scope_desc.uses = uses;
    scope_desc.use_count = 2;
    CHECK_RESULT(tg_scope_begin(dev, &scope_desc, &scope), TG_ERROR_WRONG_KIND);
    CHECK_CONTAINS(test_last_report_text(), "use 1: the handle names a kernel, not a buffer");
    const tg_slice slices[] = {whole(data), whole(to), part(data, 0, WORDS * 4 + 1)};
    CHECK_RESULT(tg_mark_written(dev, slices, 3), TG_ERROR_INVALID_ARGUMENT);
    CHECK_CONTAINS(test_last_report_text(), "slice 2: offset 0 and size 257");
}

TEST(a_skip_says_in_words_what_it_is) {
    tg_device dev = test_device();
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS);
    taint(dev, whole(from), 1, "root");
    CHECK_RESULT(scale(dev, 0, kernel(dev, "scale"), whole(to), whole(from), WORDS, 2), TG_SKIPPED);
    tg_report report = last_report();
    const tg_report_info info = report_info(report);
    CHECK_EQ_INT(info.code, TG_SKIPPED);
    CHECK_CONTAINS(info.message.data, "did not run");
    CHECK_CONTAINS(report_text(report), "tg_launch: TG_SKIPPED: the work did not run");
    CHECK_CONTAINS(report_json(report), "did not run");
    tg_report_release(report);
}

TEST(success_leaves_the_last_report) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    CHECK_RESULT(tg_buffer_fill(dev, 0, whole(data), 0, 3), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_buffer_fill(dev, 0, whole(data), 0, 4), TG_OK);
    CHECK_RESULT(tg_device_wait(dev, TEST_LONG), TG_OK);
    tg_report report = last_report();
    CHECK_EQ_INT(report_info(report).code, TG_ERROR_INVALID_ARGUMENT);
    tg_report_release(report);
}

TEST(before_any_answer_there_is_an_empty_report) {
    tg_report report = last_report();
    CHECK_EQ_INT(report_info(report).code, TG_OK);
    CHECK_EQ_INT(report_count(report), 0);
    tg_report_release(report);
}

static void *ask_on_another_thread(void *found) {
    tg_report report = {0};
    tg_report_info info = TG_REPORT_INFO_INIT;
    if (tg_last_report(&report) == TG_OK && tg_report_get_info(report, &info) == TG_OK) *(tg_result *)found = info.code;
    tg_report_release(report);
    return NULL;
}

TEST(each_thread_has_its_own_last_answer) {
    pthread_t thread;
    tg_result found = 77;
    CHECK_RESULT(tg_device_count(NULL), TG_ERROR_INVALID_ARGUMENT);
    REQUIRE(pthread_create(&thread, NULL, ask_on_another_thread, &found) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_EQ_INT(found, TG_OK);
}

TEST(a_report_outlives_its_device) {
    const tg_device_desc desc = test_device_desc();
    tg_device dev = test_device_with(&desc);
    tg_slice asked;
    chain(dev, &asked);
    tg_report report = {0};
    CHECK_RESULT(tg_report_slices(dev, &asked, 1, &report), TG_OK);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
    test_device_gone(dev);
    CHECK_EQ_INT(report_count(report), 1);
    CHECK_CONTAINS(report_text(report), "the source");
    CHECK_RESULT(tg_report_release(report), TG_OK);
}

TEST(a_report_is_a_snapshot) {
    tg_device dev = test_device();
    tg_slice asked;
    chain(dev, &asked);
    tg_report report = {0};
    CHECK_RESULT(tg_report_slices(dev, &asked, 1, &report), TG_OK);
    CHECK_RESULT(tg_mark_written(dev, &asked, 1), TG_OK);
    CHECK_EQ_INT(report_count(report), 1);
    tg_report_release(report);
    CHECK_RESULT(tg_report_slices(dev, &asked, 1, &report), TG_OK);
    CHECK_EQ_INT(report_count(report), 0);
    tg_report_release(report);
}

TEST(the_device_reports_every_root) {
    tg_device dev = test_device();
    for (int64_t i = 0; i < 5; i++) taint(dev, whole(buffer(dev, "data", WORDS)), i, "root");
    tg_report report = {0};
    CHECK_RESULT(tg_device_report(dev, &report), TG_OK);
    CHECK_EQ_INT(report_count(report), 5);
    CHECK_RESULT(report_info(report).code, TG_OK); /* no byte was asked about */
    for (size_t i = 1; i < 5; i++) CHECK(report_failure(report, i - 1).id < report_failure(report, i).id);
    tg_report_release(report);
}

TEST(more_roots_than_a_set_holds_are_a_flag) {
    tg_device dev = test_device();
    tg_buffer data = buffer(dev, "data", WORDS);
    for (uint64_t i = 0; i < 40; i++) taint(dev, part(data, i * 4, 4), (int64_t)i, "root");
    CHECK_UNWRITTEN(dev, 0, whole(data), WORDS);
    tg_report report = last_report();
    CHECK_EQ_INT(report_count(report), 32);
    CHECK_EQ_INT(report_info(report).more, 1); /* a flag: how many is not known */
    tg_report_release(report);
    tg_buffer out = buffer(dev, "out", WORDS);
    CHECK_RESULT(scale(dev, 0, kernel(dev, "scale"), whole(out), whole(data), WORDS, 2), TG_SKIPPED);
    tg_claim claim;
    size_t count = 0;
    REQUIRE_OK(tg_claims(dev, whole(out), &claim, 1, &count));
    CHECK_EQ_INT(count, 1);
    CHECK_EQ_INT(claim.failure_count, 32);
    CHECK_EQ_INT(claim.more, 1);
}

TEST(a_long_chain_says_what_was_dropped) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale");
    enum { LINKS = 30 };
    tg_buffer buffers[LINKS];
    for (size_t i = 0; i < LINKS; i++) {
        char label[16];
        snprintf(label, sizeof label, "link %zu", i);
        buffers[i] = buffer(dev, label, WORDS);
    }
    taint(dev, whole(buffers[0]), 1, "root");
    for (size_t i = 1; i < LINKS; i++)
        CHECK_RESULT(scale(dev, i % 3, scaling, whole(buffers[i]), whole(buffers[i - 1]), WORDS, 2), TG_SKIPPED);
    const tg_slice asked = whole(buffers[LINKS - 1]);
    tg_report report = {0};
    CHECK_RESULT(tg_report_slices(dev, &asked, 1, &report), TG_OK);
    const tg_failure_info info = report_failure(report, 0);
    CHECK_EQ_INT(info.step_count, 17); /* what is missing, and the 16 newest */
    const tg_step_info gap = report_step(report, 0, 0), last = report_step(report, 0, 16);
    CHECK_EQ_INT(gap.kind, TG_STEP_DROPPED);
    CHECK_EQ_INT(gap.count, LINKS - 1 - 16);
    CHECK_CONTAINS(last.produced[0].data, "link 29");
    tg_report_release(report);
}

TEST(a_step_has_the_label_and_the_number_of_the_work) {
    tg_device dev = test_device();
    tg_kernel scaling = kernel(dev, "scale");
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS);
    taint(dev, whole(from), 1, "root");
    const tg_use uses[] = {use(whole(from), TG_ACCESS_AUTO), use(whole(to), TG_ACCESS_AUTO)};
    const uint32_t push[] = {WORDS, 2};
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.kernel = scaling;
    desc.bindings = uses;
    desc.binding_count = 2;
    desc.threads[0] = WORDS;
    desc.push = push;
    desc.push_size = sizeof push;
    desc.label = TG_STR("frame 6");
    desc.tag = 6;
    CHECK_RESULT(tg_launch(dev, &desc), TG_SKIPPED);
    desc.label = TG_STR("frame 7");
    desc.tag = 7;
    CHECK_RESULT(tg_launch(dev, &desc), TG_SKIPPED);
    const tg_slice asked = whole(to);
    tg_report report = {0};
    CHECK_RESULT(tg_report_slices(dev, &asked, 1, &report), TG_OK);
    const tg_step_info step = report_step(report, 0, 0);
    CHECK_CONTAINS(step.kernel.data, "scale");
    CHECK(strcmp(step.label.data, "frame 7") == 0);
    CHECK_EQ_INT(step.tag, 7);
    CHECK_EQ_INT(step.count, 2);
    CHECK_EQ_INT(step.at_least, 0);
    tg_str text;
    REQUIRE_OK(tg_report_text(report, &text));
    CHECK_CONTAINS(text.data, "\"frame 7\", tag 7 (2 times)");
    tg_report_release(report);
}

TEST(the_words_of_a_long_report_are_cut_with_a_count) {
    tg_device dev = test_device();
    enum { RANGES = 100 };
    tg_buffer data = buffer(dev, "data", 2 * RANGES);
    tg_slice slices[RANGES];
    for (uint64_t i = 0; i < RANGES; i++) slices[i] = part(data, i * 8, 4);
    const tg_error_desc error = TG_ERROR_DESC_INIT;
    REQUIRE_OK(tg_taint(dev, slices, RANGES, &error));
    tg_report report = {0};
    CHECK_RESULT(tg_device_report(dev, &report), TG_OK);
    CHECK_EQ_INT(report_failure(report, 0).claim_count, RANGES);
    tg_claim_info last = TG_CLAIM_INFO_INIT;
    CHECK_RESULT(tg_report_claim(report, 0, RANGES - 1, &last), TG_OK);
    CHECK_EQ_INT(last.offset, (RANGES - 1) * 8);
    CHECK(strcmp(last.label.data, "data") == 0);
    tg_str text, json;
    REQUIRE_OK(tg_report_text(report, &text));
    CHECK_CONTAINS(text.data, "and 36 more ranges");
    REQUIRE_OK(tg_report_json(report, &json));
    CHECK_CONTAINS(json.data, "\"claim_count\":100");
    tg_report_release(report);
}

TEST(a_copy_is_a_step) {
    tg_device dev = test_device();
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS);
    taint(dev, whole(from), 1, "root");
    CHECK_RESULT(tg_buffer_copy(dev, 0, whole(to), whole(from)), TG_OK);
    const tg_slice asked = whole(to);
    tg_report report = {0};
    CHECK_RESULT(tg_report_slices(dev, &asked, 1, &report), TG_OK);
    CHECK_EQ_INT(report_failure(report, 0).step_count, 1);
    const tg_step_info step = report_step(report, 0, 0);
    CHECK_EQ_INT(step.kind, TG_STEP_COPY);
    CHECK_CONTAINS(step.needed.data, "from");
    CHECK_CONTAINS(step.produced[0].data, "to");
    tg_report_release(report);
}

TEST(indices_beyond_the_counts_are_misuse) {
    tg_device dev = test_device();
    tg_slice asked;
    chain(dev, &asked);
    tg_report report = {0};
    REQUIRE_OK(tg_report_slices(dev, &asked, 1, &report));
    tg_failure_info failure = TG_FAILURE_INFO_INIT;
    tg_step_info step = TG_STEP_INFO_INIT;
    tg_claim_info claim = TG_CLAIM_INFO_INIT;
    tg_suspect_info suspect = TG_SUSPECT_INFO_INIT;
    CHECK_RESULT(tg_report_failure(report, 1, &failure), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_report_step(report, 0, 2, &step), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_report_step(report, 1, 0, &step), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_report_claim(report, 0, SIZE_MAX, &claim), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_report_suspect(report, 0, &suspect), TG_ERROR_INVALID_ARGUMENT);
    tg_report_release(report);
}

/* Every function of a report by every wrong handle. */
static tg_result by_info(tg_report report) { tg_report_info out = TG_REPORT_INFO_INIT; return tg_report_get_info(report, &out); }
static tg_result by_count(tg_report report) { size_t out; return tg_report_failure_count(report, &out); }
static tg_result by_failure(tg_report report) { tg_failure_info out = TG_FAILURE_INFO_INIT; return tg_report_failure(report, 0, &out); }
static tg_result by_claim(tg_report report) { tg_claim_info out = TG_CLAIM_INFO_INIT; return tg_report_claim(report, 0, 0, &out); }
static tg_result by_step(tg_report report) { tg_step_info out = TG_STEP_INFO_INIT; return tg_report_step(report, 0, 0, &out); }
static tg_result by_suspect(tg_report report) { tg_suspect_info out = TG_SUSPECT_INFO_INIT; return tg_report_suspect(report, 0, &out); }
static tg_result by_text(tg_report report) { tg_str out; return tg_report_text(report, &out); }
static tg_result by_json(tg_report report) { tg_str out; return tg_report_json(report, &out); }
static tg_result (*const by_report[])(tg_report) = {by_info, by_count, by_failure, by_claim, by_step, by_suspect, by_text,
                                                   by_json, tg_report_release};
enum { FUNCTIONS = sizeof by_report / sizeof *by_report };

TEST(a_null_report_is_null) {
    for (size_t i = 0; i + 1 < FUNCTIONS; i++) CHECK_RESULT(by_report[i](none), TG_ERROR_NULL_HANDLE);
    CHECK_RESULT(tg_report_release(none), TG_OK);
}

TEST(a_released_report_is_stale) {
    tg_report report = last_report();
    CHECK_RESULT(tg_report_release(report), TG_OK);
    for (size_t i = 0; i < FUNCTIONS; i++) CHECK_RESULT(by_report[i](report), TG_ERROR_STALE_HANDLE);
}

TEST(another_handle_is_no_report) {
    tg_device dev = test_device();
    const tg_report wrong[] = {{dev.id}, {buffer(dev, "data", WORDS).id}, {kernel(dev, "scale").id}};
    for (size_t w = 0; w < 3; w++)
        for (size_t i = 0; i < FUNCTIONS; i++) CHECK_RESULT(by_report[i](wrong[w]), TG_ERROR_WRONG_KIND);
}

TEST(a_report_is_no_other_handle) {
    tg_device dev = test_device();
    tg_report report = last_report();
    const tg_device as_device = {report.id};
    const tg_buffer as_buffer = {report.id};
    CHECK_RESULT(tg_device_status(as_device), TG_ERROR_WRONG_KIND);
    CHECK_RESULT(tg_buffer_destroy(dev, as_buffer), TG_ERROR_WRONG_KIND);
    tg_report_release(report);
}

TEST(null_outputs_are_misuse) {
    tg_report report = last_report();
    CHECK_RESULT(tg_last_report(NULL), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_report_get_info(report, NULL), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_report_failure_count(report, NULL), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_report_text(report, NULL), TG_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(tg_report_json(report, NULL), TG_ERROR_INVALID_ARGUMENT);
    tg_report_release(report);
}
