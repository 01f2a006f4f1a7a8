/* A log callback calls the library. */
#include "tg_test.h"

/* What a callback did, and what it was answered. Each acts once, on the first event that it is told of. */
static struct {
    tg_device device, other;
    tg_buffer made;
    tg_kernel broken;
    uint64_t failure;
    unsigned events, acted;
    tg_result created, kernel, tainted, read, waited, reported, destroyed, claimed;
    char text[1024];
} inner;

static void begin(void) { memset(&inner, 0, sizeof inner); }

/* Every one of these calls logs a root, a skip or a failure of its own. */
static void fail_calls(void *user_data, const tg_log_event *event) {
    (void)user_data;
    inner.events++;
    if (event->failure == 0 || inner.acted++ > 0) return;
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_kernel_desc code = TG_KERNEL_DESC_INIT;
    tg_error_desc error = TG_ERROR_DESC_INIT;
    uint32_t word = 0;
    desc.size = UINT64_C(1) << 60;
    inner.created = tg_buffer_create(inner.device, &desc, &inner.made);
    code.code = "no";
    code.code_size = 2;
    inner.kernel = tg_kernel_create(inner.device, &code, &inner.broken);
    const tg_slice bytes = whole(inner.made);
    inner.tainted = tg_taint(inner.device, &bytes, 1, &error);
    inner.read = tg_buffer_read(inner.device, 0, &word, 4, part(inner.made, 0, 4), TEST_LONG);
    inner.waited = tg_device_wait(inner.device, TEST_LONG);
    tg_report report = {0};
    tg_str said;
    inner.reported = tg_last_report(&report);
    if (inner.reported == TG_OK && tg_report_text(report, &said) == TG_OK)
        snprintf(inner.text, sizeof inner.text, "%s", said.data);
    tg_report_release(report);
}

TEST(calls_inside_a_log_callback_are_answered_whatever_they_log) {
    tg_device_desc desc = test_device_desc();
    begin();
    desc.log = fail_calls;
    tg_device dev = inner.device = test_device_with(&desc);
    tg_buffer data = buffer(dev, "data", 16);
    taint(dev, whole(data), 5, "outer");
    CHECK_EQ_INT(inner.acted, 1);
    CHECK_RESULT(inner.created, TG_ERROR_OUT_OF_DEVICE_MEMORY);
    CHECK_RESULT(inner.kernel, TG_ERROR_INVALID_SHADER);
    CHECK_RESULT(inner.tainted, TG_OK);
    CHECK_RESULT(inner.read, TG_ERROR_UNWRITTEN);
    CHECK_RESULT(inner.waited, TG_OK);
    CHECK_RESULT(inner.reported, TG_OK);
    CHECK_CONTAINS(inner.text, "TG_ERROR_UNWRITTEN");
    /* What a call inside a callback makes is the caller's like anything else. */
    CHECK(inner.made.id != 0);
    CHECK(inner.broken.id != 0);
    CHECK_RESULT(tg_buffer_destroy(dev, inner.made), TG_OK);
    CHECK_RESULT(tg_kernel_destroy(dev, inner.broken), TG_OK);
    CHECK_EQ_INT(failure_count(dev), 1);
    CHECK_RESULT(tg_buffer_destroy(dev, data), TG_OK);
    CHECK_EQ_INT(failure_count(dev), 0);
    /* And the log goes on. */
    const unsigned before = inner.events;
    taint(dev, whole(buffer(dev, "more", 16)), 5, "later");
    CHECK(inner.events > before);
}

/* An inner device with a log of its own: what it logs on behalf of a callback is not reported again. */
static void make_a_device(void *user_data, const tg_log_event *event) {
    (void)user_data;
    inner.events++;
    if (event->failure == 0 || inner.acted++ > 0) return;
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    desc.log = make_a_device;
    inner.created = tg_device_create(&desc, &inner.other);
}

TEST(a_device_is_made_inside_a_log_callback) {
    tg_device_desc desc = test_device_desc();
    begin();
    desc.log = make_a_device;
    tg_device dev = test_device_with(&desc);
    taint(dev, whole(buffer(dev, "data", 16)), 5, "outer");
    CHECK_RESULT(inner.created, TG_OK);
    CHECK_RESULT(tg_device_status(inner.other), TG_OK);
    CHECK_RESULT(tg_device_destroy(inner.other, TEST_LONG), TG_OK);
}

static void destroy_other(void *user_data, const tg_log_event *event) {
    (void)user_data;
    (void)event;
    inner.events++;
    inner.destroyed = tg_device_destroy(inner.other, TG_WAIT_FOREVER);
}

TEST(no_log_callback_destroys_a_device_whichever_call_logs) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {0};
    begin();
    inner.other = test_device();
    desc.log = destroy_other;
    /* Creation tells what was chosen. */
    REQUIRE_OK(tg_device_create(&desc, &dev));
    CHECK(inner.events > 0);
    CHECK_RESULT(inner.destroyed, TG_ERROR_WRONG_STATE);
    /* Destruction tells what was alive. */
    inner.destroyed = TG_OK;
    inner.events = 0;
    buffer(dev, "alive", 16);
    CHECK_RESULT(tg_device_destroy(dev, TEST_LONG), TG_OK);
    CHECK(inner.events > 0);
    CHECK_RESULT(inner.destroyed, TG_ERROR_WRONG_STATE);
    CHECK_RESULT(tg_device_status(inner.other), TG_OK);
}

TEST(a_creation_that_failed_uses_up_no_serial) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT, none = TG_DEVICE_DESC_INIT;
    tg_device first = {0}, failed = {0}, second = {0};
    REQUIRE_OK(tg_device_create(&desc, &first));
    none.select = TG_SELECT_NAME;
    none.name = text("no device has this name");
    for (int i = 0; i < 3; i++) CHECK_RESULT(tg_device_create(&none, &failed), TG_ERROR_NO_DEVICE);
    REQUIRE_OK(tg_device_create(&desc, &second));
    CHECK_EQ_INT(second.id >> 40 & 0xfffff, (first.id >> 40 & 0xfffff) + 1);
    CHECK_RESULT(tg_device_destroy(first, TEST_LONG), TG_OK);
    CHECK_RESULT(tg_device_destroy(second, TEST_LONG), TG_OK);
}
