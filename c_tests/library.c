/* What can be asked before there is a device. */
#include "tg_test.h"

TEST(the_loaded_version_is_the_headers) {
    CHECK_EQ_INT(tg_version(), TG_VERSION);
    CHECK_EQ_INT(tg_version() >> 22, TG_VERSION_MAJOR);
    CHECK_EQ_INT(tg_version() >> 12 & 0x3ff, TG_VERSION_MINOR);
    CHECK_EQ_INT(tg_version() & 0xfff, TG_VERSION_PATCH);
}

TEST(results_have_the_headers_names) {
    static const struct {
        tg_result result;
        const char *name;
    } names[] = {
#define NAMED(result) {result, #result}
        NAMED(TG_OK), NAMED(TG_SKIPPED), NAMED(TG_TIMEOUT), NAMED(TG_NOT_READY), NAMED(TG_INCOMPLETE),
        NAMED(TG_ERROR_INVALID_ARGUMENT), NAMED(TG_ERROR_NULL_HANDLE), NAMED(TG_ERROR_WRONG_KIND),
        NAMED(TG_ERROR_FOREIGN_HANDLE), NAMED(TG_ERROR_STALE_HANDLE), NAMED(TG_ERROR_WRONG_STATE),
        NAMED(TG_ERROR_NO_DEVICE), NAMED(TG_ERROR_INITIALIZATION_FAILED), NAMED(TG_ERROR_UNSUPPORTED),
        NAMED(TG_ERROR_LIMIT_EXCEEDED), NAMED(TG_ERROR_OUT_OF_HOST_MEMORY), NAMED(TG_ERROR_OUT_OF_DEVICE_MEMORY),
        NAMED(TG_ERROR_INVALID_SHADER), NAMED(TG_ERROR_UNWRITTEN), NAMED(TG_ERROR_NEVER_WRITTEN),
        NAMED(TG_ERROR_TORN_DOWN), NAMED(TG_ERROR_DEVICE_LOST), NAMED(TG_ERROR_DRIVER), NAMED(TG_ERROR_CALLER),
        NAMED(TG_ERROR_INTERNAL),
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const tg_str name = tg_result_name(names[i].result);
        CHECK(strcmp(name.data, names[i].name) == 0);
        CHECK_EQ_INT(name.size, strlen(names[i].name));
    }
}

TEST(a_number_without_a_name_is_unknown) {
    CHECK_CONTAINS(tg_result_name(-99).data, "unknown");
    CHECK_CONTAINS(tg_result_name(INT32_MIN).data, "unknown");
    CHECK_CONTAINS(tg_result_name(INT32_MAX).data, "unknown");
}

TEST(the_ranges_of_results_tell_their_kind) {
    CHECK(!TG_IS_MISUSE(TG_OK) && !TG_IS_TRACKED(TG_OK));
    CHECK(!TG_IS_MISUSE(TG_SKIPPED) && TG_IS_TRACKED(TG_SKIPPED));
    CHECK(!TG_IS_MISUSE(TG_TIMEOUT) && !TG_IS_TRACKED(TG_TIMEOUT));
    CHECK(TG_IS_MISUSE(TG_ERROR_INVALID_ARGUMENT) && !TG_IS_TRACKED(TG_ERROR_INVALID_ARGUMENT));
    CHECK(TG_IS_MISUSE(TG_ERROR_WRONG_STATE));
    CHECK(!TG_IS_MISUSE(TG_ERROR_NO_DEVICE) && TG_IS_TRACKED(TG_ERROR_NO_DEVICE));
    CHECK(TG_IS_TRACKED(TG_ERROR_UNWRITTEN));
}

static unsigned calls;

static tg_result counted(tg_result result) {
    calls++;
    return result;
}

TEST(asking_for_the_kind_of_a_call_calls_once) {
    CHECK(!TG_IS_MISUSE(counted(TG_ERROR_NO_DEVICE)));
    CHECK_EQ_INT(calls, 1);
    CHECK(!TG_IS_TRACKED(counted(TG_OK)));
    CHECK_EQ_INT(calls, 2);
}

TEST(a_device_is_counted) {
    uint32_t count = 0;
    CHECK_RESULT(tg_device_count(&count), TG_OK);
    CHECK(count >= 1);
}

TEST(counting_into_null_is_misuse) {
    CHECK_RESULT(tg_device_count(NULL), TG_ERROR_INVALID_ARGUMENT);
    CHECK_CONTAINS(test_last_report_text(), "tg_device_count");
}

TEST(every_counted_device_is_described) {
    uint32_t count = 0;
    REQUIRE_OK(tg_device_count(&count));
    for (uint32_t i = 0; i < count; i++) {
        tg_device_info info = TG_DEVICE_INFO_INIT;
        CHECK_RESULT(tg_device_describe(i, &info), TG_OK);
        CHECK(info.name[0] != 0);
    }
}

TEST(a_device_beyond_the_count_is_not_there) {
    uint32_t count = 0;
    tg_device_info info = TG_DEVICE_INFO_INIT;
    REQUIRE_OK(tg_device_count(&count));
    CHECK_RESULT(tg_device_describe(count, &info), TG_ERROR_NO_DEVICE);
    CHECK_RESULT(tg_device_describe(UINT32_MAX, &info), TG_ERROR_NO_DEVICE);
}

TEST(describing_into_null_is_misuse) {
    CHECK_RESULT(tg_device_describe(0, NULL), TG_ERROR_INVALID_ARGUMENT);
}
