/* A small harness: one TEST, one fact, one process.
 *
 *     TEST(half_a_buffer_reads) {
 *         tg_device dev = test_device();
 *         ...
 *         CHECK_RESULT(tg_buffer_read(...), TG_OK);
 *     }
 *
 * A CHECK that fails prints both values and the test goes on; a helper that cannot do its work ends it. What test_device
 * and test_device_with made is destroyed after the body, and a validation message on any of them fails the test.
 *
 * A test whose device lacks a feature says SKIP("feature") and counts as skipped, never as passed. TG_TEST_MAY_LACK lists
 * the features that the device of a run may lack, divided by spaces; a SKIP for any other feature fails the test.
 *
 * In the environment, TG_TEST_PROFILE presents the device as other hardware, and TG_TEST_SHIM=above makes calls of Vulkan
 * fail on request; both as shim/tg_shim.h says. TG_TEST_VERBOSE prints what the device logs. */
#ifndef TG_TEST_H
#define TG_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tidegate/tidegate.h>

#define TEST_SECOND UINT64_C(1000000000)
#define TEST_LONG (30 * TEST_SECOND) /* far beyond what any test waits for; a hang still ends */

void test_register(const char *name, void (*body)(void));
void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void test_abandon(void);
void test_skip(const char *file, int line, const char *feature);

#define TEST(name)                                                                                      \
    static void name(void);                                                                             \
    __attribute__((constructor)) static void register_##name(void) { test_register(#name, name); }      \
    static void name(void)

#define CHECK(condition)                                                                                \
    do {                                                                                                \
        if (!(condition)) test_fail(__FILE__, __LINE__, "%s does not hold", #condition);                \
    } while (0)

#define CHECK_EQ_INT(actual, expected)                                                                  \
    do {                                                                                                \
        const long long actual_ = (long long)(actual), expected_ = (long long)(expected);               \
        if (actual_ != expected_)                                                                       \
            test_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #actual, actual_, expected_);         \
    } while (0)

#define CHECK_RESULT(actual, expected)                                                                  \
    do {                                                                                                \
        const tg_result actual_ = (actual), expected_ = (expected);                                     \
        if (actual_ != expected_)                                                                       \
            test_fail(__FILE__, __LINE__, "%s gave %s (%d), not %s (%d)%s", #actual,                    \
                      test_result_name(actual_), (int)actual_, test_result_name(expected_),             \
                      (int)expected_, test_last_report_text());                                         \
    } while (0)

/* The text `actual` holds `part`. */
#define CHECK_CONTAINS(actual, part)                                                                    \
    do {                                                                                                \
        const char *actual_ = (actual), *part_ = (part);                                                \
        if (!strstr(actual_, part_))                                                                    \
            test_fail(__FILE__, __LINE__, "%s does not hold \"%s\":\n%s", #actual, part_, actual_);     \
    } while (0)

/* Ends a test body whose device lacks `feature`. */
#define SKIP(feature)                                                                                   \
    do {                                                                                                \
        test_skip(__FILE__, __LINE__, feature);                                                         \
        return;                                                                                         \
    } while (0)

/* What must hold for the rest of the test to mean anything. */
#define REQUIRE(condition)                                                                              \
    do {                                                                                                \
        if (!(condition)) {                                                                             \
            test_fail(__FILE__, __LINE__, "%s does not hold", #condition);                              \
            test_abandon();                                                                             \
        }                                                                                               \
    } while (0)
#define REQUIRE_OK(call)                                                                                \
    do {                                                                                                \
        const tg_result result_ = (call);                                                               \
        if (result_ != TG_OK) {                                                                         \
            test_fail(__FILE__, __LINE__, "%s gave %s (%d)%s", #call, test_result_name(result_),        \
                      (int)result_, test_last_report_text());                                           \
            test_abandon();                                                                             \
        }                                                                                               \
    } while (0)

const char *test_result_name(tg_result result);
/* The thread's last report, with a line break before it; or why there is none. */
const char *test_last_report_text(void);

/* Devices, destroyed after the test. */
tg_device test_device(void); /* the same one each time it is asked for in a test */
tg_device_desc test_device_desc(void);
tg_device test_device_with(const tg_device_desc *desc);
/* A part of the name of the device that the tests are meant to run on. */
const char *test_device_name(void);
/* The test destroyed it itself. */
void test_device_gone(tg_device device);

/* What the devices of this test logged. */
struct test_log {
    unsigned events;     /* all of them */
    unsigned validation; /* from a validation layer */
    unsigned roots;      /* a failure that became real */
    unsigned skips;      /* on a root */
    uint64_t last_failure;
};
extern struct test_log test_log;
bool test_log_has(const char *part); /* some event's message holds it */
/* Validation messages are part of this test. */
void test_allow_validation(void);
/* Synchronization validation takes all of a bound range as touched, whatever part the launch declares; where work on
 * parts of one range goes without a barrier, its messages are as they should be. */
void test_allow_hazards(void);

/* How often a loop runs: `rounds`, or fewer under a sanitizer or where TG_TEST_ROUNDS says so; or, for a long run,
 * TG_TEST_TIMES as often. */
unsigned test_rounds(unsigned rounds);

static inline tg_str text(const char *string) {
    tg_str str = {string, strlen(string)};
    return str;
}
static inline tg_slice part(tg_buffer buffer, uint64_t offset, uint64_t size) {
    tg_slice slice = {buffer, offset, size};
    return slice;
}
static inline tg_slice whole(tg_buffer buffer) { return part(buffer, 0, TG_WHOLE_SIZE); }
static inline tg_use use(tg_slice slice, uint32_t access) {
    tg_use made = {slice, access, 0};
    return made;
}

/* SPIR-V of c_tests/shaders; the caller frees it. */
void *shader(const char *name, size_t *size);

/* These must succeed, or the test ends. Sizes count 32-bit words. */
tg_buffer buffer(tg_device dev, const char *label, uint64_t words);
/* The first offset from `offset` on where a bound slice may begin on this device. */
uint64_t bindable(tg_device dev, uint64_t offset);
tg_kernel kernel(tg_device dev, const char *shader_name);
void write_words(tg_device dev, uint64_t stream, tg_slice slice, size_t words, uint32_t first, uint32_t step);
/* Reads the slice and checks that its words are first, first + step, first + 2 * step, ... */
#define CHECK_WORDS(dev, stream, slice, words, first, step)                                             \
    check_words(__FILE__, __LINE__, dev, stream, slice, words, first, step)
void check_words(const char *file, int line, tg_device dev, uint64_t stream, tg_slice slice, size_t words, uint32_t first,
                 uint32_t step);
/* A read of the slice gives UNWRITTEN and leaves the destination as it was. */
#define CHECK_UNWRITTEN(dev, stream, slice, words) check_unwritten(__FILE__, __LINE__, dev, stream, slice, words)
void check_unwritten(const char *file, int line, tg_device dev, uint64_t stream, tg_slice slice, size_t words);

/* Kernels of c_tests/shaders by what they do; accesses are inferred. */
tg_result scale(tg_device dev, uint64_t stream, tg_kernel kernel, tg_slice to, tg_slice from, uint32_t words, uint32_t factor);
tg_result add(tg_device dev, uint64_t stream, tg_kernel kernel, tg_slice to, tg_slice left, tg_slice right, uint32_t words);
tg_result increment(tg_device dev, uint64_t stream, tg_kernel kernel, tg_slice data, uint32_t words, uint32_t step);
tg_result store(tg_device dev, uint64_t stream, tg_kernel kernel, tg_slice to, uint32_t words, uint32_t value);
/* Any kernel: up to 8 bindings, push constants, and so many invocations along x. */
tg_result launch(tg_device dev, uint64_t stream, tg_kernel kernel, const tg_use *bindings, size_t count, const void *push,
                 size_t push_size, uint32_t threads);

/* Taints with the caller's own code and label; gives the root. */
uint64_t taint(tg_device dev, tg_slice slice, int64_t code, const char *label);

/* Of a report that is there; each ends the test when it cannot be had. */
tg_report last_report(void);
tg_report_info report_info(tg_report report);
size_t report_count(tg_report report);
tg_failure_info report_failure(tg_report report, size_t index);
tg_step_info report_step(tg_report report, size_t failure, size_t step);
const char *report_text(tg_report report);
const char *report_json(tg_report report);

/* The roots of a report on the slice, at most `max`, in the report's order. */
size_t roots_of(tg_device dev, tg_slice slice, uint64_t *ids, size_t max);
size_t failure_count(tg_device dev);

#endif
