#include "tg_test.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <tg_shim.h>

#ifndef TG_SHADERS
#error "TG_SHADERS names the folder of the compiled shaders"
#endif

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static struct {
    const char *name;
    void (*body)(void);
} tests[512];
static size_t test_count;
static unsigned failures;
static const char *running;
static bool lacking; /* the running test skipped itself */
/* ctest knows a process that ends with it as skipped. */
enum { EXIT_SKIPPED = 77 };

static tg_device devices[8];
static size_t device_count;
static bool has_first_device;
static bool validation_allowed, hazards_allowed;
struct test_log test_log;

void test_register(const char *name, void (*body)(void)) {
    if (test_count == sizeof tests / sizeof *tests) abort();
    tests[test_count].name = name;
    tests[test_count++].body = body;
}

void test_fail(const char *file, int line, const char *format, ...) {
    va_list arguments;
    failures++;
    const char *slash = strrchr(file, '/');
    printf("%s:%d: %s: ", slash ? slash + 1 : file, line, running);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
}

/* Whether `word` is in a list divided by spaces. */
static bool lists(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; at && (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0)) return true;
    return false;
}

void test_skip(const char *file, int line, const char *feature) {
    lacking = true;
    if (lists(getenv("TG_TEST_MAY_LACK"), feature))
        printf("skip %s: the device lacks %s\n", running, feature);
    else
        test_fail(file, line, "the device lacks %s, and this run must not", feature);
}

const char *test_result_name(tg_result result) {
    return tg_result_name(result).data;
}

const char *test_last_report_text(void) {
    static char copy[4096];
    tg_report report = {0};
    copy[0] = 0;
    if (tg_last_report(&report) == TG_OK) {
        snprintf(copy, sizeof copy, "\n%s", report_text(report));
        tg_report_release(report);
    }
    return copy;
}

static char logged[1 << 16];
static size_t logged_size;

bool test_log_has(const char *part) { return strstr(logged, part) != NULL; }

/* The layer's words have a form of their own, and no event of the library about a root is without its id. */
static bool is_validation(const tg_log_event *event) {
    static const char *const marks[] = {"Validation Error", "Validation Warning", "Validation Performance Warning",
                                        "VUID-", "SYNC-HAZARD-", "UNASSIGNED-"};
    if (event->failure != 0) return false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(event->message.data, marks[i])) return true;
    return false;
}

/* Called from any thread that logs; the tests use one. */
static void on_log(void *user_data, const tg_log_event *event) {
    (void)user_data;
    test_log.events++;
    if (event->failure != 0 && event->level == TG_LOG_ERROR) {
        test_log.roots++;
        test_log.last_failure = event->failure;
    }
    if (event->failure != 0 && event->level == TG_LOG_WARN) test_log.skips++;
    if (is_validation(event) && !(hazards_allowed && strstr(event->message.data, "SYNC-HAZARD-"))) {
        test_log.validation++;
        if (!validation_allowed) test_fail("validation", 0, "%s", event->message.data);
    }
    if (logged_size + event->message.size + 2 < sizeof logged) {
        memcpy(logged + logged_size, event->message.data, event->message.size);
        logged_size += event->message.size;
        logged[logged_size++] = '\n';
        logged[logged_size] = 0;
    }
    if (getenv("TG_TEST_VERBOSE")) printf("log %u: %s\n", (unsigned)event->level, event->message.data);
}

void test_allow_validation(void) { validation_allowed = true; }
void test_allow_hazards(void) { hazards_allowed = true; }

/* TG_TEST_SHIM=above puts the shim between the library and the loader, above the validation layer. */
static bool shim_is_above(void) {
    const char *place = getenv("TG_TEST_SHIM");
    return place && strcmp(place, "above") == 0;
}

tg_device_desc test_device_desc(void) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    desc.flags = TG_DEVICE_VALIDATION;
    desc.log = on_log;
    const char *scheduling = getenv("TG_TEST_SCHEDULING");
    if (scheduling) desc.scheduling = (uint32_t)strtoul(scheduling, NULL, 10);
    if (shim_is_above()) desc.get_instance_proc_addr = (tg_proc)tg_shim_get_instance_proc_addr;
    return desc;
}

tg_device test_device_with(const tg_device_desc *desc) {
    tg_device device = {0};
    REQUIRE(device_count < sizeof devices / sizeof *devices);
    REQUIRE_OK(tg_device_create(desc, &device));
    REQUIRE(device.id != 0);
    devices[device_count++] = device;
    return device;
}

tg_device test_device(void) {
    if (!has_first_device) {
        REQUIRE(device_count == 0);
        const tg_device_desc desc = test_device_desc();
        test_device_with(&desc);
        has_first_device = true;
    }
    return devices[0];
}

const char *test_device_name(void) {
    const char *name = getenv("TG_TEST_DEVICE");
    return name ? name : "llvmpipe";
}

void test_device_gone(tg_device device) {
    for (size_t i = 0; i < device_count; i++)
        if (devices[i].id == device.id) devices[i].id = 0;
}

/* Leaks of the driver and the layer are suppressed by the name of their module, so it must still be loaded at exit. */
static void keep_loaded(void) {
    static const char *const modules[] = {"libvulkan.so.1", "libvulkan_lvp.so", "libVkLayer_khronos_validation.so"};
    for (size_t i = 0; SANITIZED && i < sizeof modules / sizeof *modules; i++)
        (void)dlopen(modules[i], RTLD_LAZY | RTLD_NODELETE);
}

static void teardown(void) {
    while (device_count > 0) {
        const tg_device device = devices[--device_count];
        if (device.id != 0) CHECK_RESULT(tg_device_destroy(device, TEST_LONG), TG_OK);
    }
    has_first_device = false;
}

_Noreturn void test_abandon(void) {
    printf("FAIL %s (ended early)\n", running);
    fflush(stdout);
    /* Without destructors: what the test left behind is not the fact to report. */
    _Exit(1);
}

unsigned test_rounds(unsigned rounds) {
    const char *most = getenv("TG_TEST_ROUNDS"), *times = getenv("TG_TEST_TIMES");
    if (times) return rounds * (unsigned)strtoul(times, NULL, 10);
    const unsigned limit = most ? (unsigned)strtoul(most, NULL, 10) : rounds;
    return limit < rounds ? limit : rounds;
}

/* TG_TEST_PROFILE puts the shim between the loader and the real driver, unless it is above already. */
static void choose_driver(void) {
    if (!getenv("TG_TEST_PROFILE") || shim_is_above()) return;
    setenv("VK_DRIVER_FILES", TG_SHIM_DRIVER_FILE, 1);
    setenv("VK_ICD_FILENAMES", TG_SHIM_DRIVER_FILE, 1); /* what loaders before 1.3.207 read */
    setenv("TG_SHIM_DRIVER", TG_SHIM_REAL_DRIVER, 0);
}

/* `test` runs every test, `test NAME` one. */
int main(int argc, char **argv) {
    size_t ran = 0, skipped = 0;
    choose_driver();
    keep_loaded();
    for (size_t i = 0; i < test_count; i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) != 0) continue;
        const unsigned before = failures;
        running = tests[i].name;
        lacking = false;
        validation_allowed = hazards_allowed = false;
        memset(&test_log, 0, sizeof test_log);
        logged[logged_size = 0] = 0;
        tests[i].body();
        teardown();
        skipped += lacking;
        if (!lacking || failures != before) printf("%s %s\n", failures == before ? "ok" : "FAIL", running);
        ran++;
    }
    if (ran == 0) printf("no test of this name\n");
    if (failures != 0 || ran == 0) return 1;
    return skipped == ran ? EXIT_SKIPPED : 0;
}

/* ---- what most tests need ---- */

void *shader(const char *name, size_t *size) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.spv", TG_SHADERS, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        test_fail(__FILE__, __LINE__, "%s cannot be opened", path);
        test_abandon();
    }
    fseek(file, 0, SEEK_END);
    const long length = ftell(file);
    rewind(file);
    void *code = malloc((size_t)length);
    REQUIRE(code && length > 0 && fread(code, 1, (size_t)length, file) == (size_t)length);
    fclose(file);
    *size = (size_t)length;
    return code;
}

tg_buffer buffer(tg_device dev, const char *label, uint64_t words) {
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer made = {0};
    desc.size = words * 4;
    desc.label = text(label);
    REQUIRE_OK(tg_buffer_create(dev, &desc, &made));
    return made;
}

uint64_t bindable(tg_device dev, uint64_t offset) {
    tg_device_info info = TG_DEVICE_INFO_INIT;
    REQUIRE_OK(tg_device_get_info(dev, &info));
    return (offset + info.binding_alignment - 1) / info.binding_alignment * info.binding_alignment;
}

tg_kernel kernel(tg_device dev, const char *shader_name) {
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    tg_kernel made = {0};
    size_t size;
    void *code = shader(shader_name, &size);
    desc.code = code;
    desc.code_size = size;
    desc.label = text(shader_name);
    REQUIRE_OK(tg_kernel_create(dev, &desc, &made));
    free(code);
    return made;
}

void write_words(tg_device dev, uint64_t stream, tg_slice slice, size_t words, uint32_t first, uint32_t step) {
    uint32_t *data = malloc(words * 4);
    REQUIRE(data);
    for (size_t i = 0; i < words; i++) data[i] = first + (uint32_t)i * step;
    if (slice.size == TG_WHOLE_SIZE) slice.size = words * 4;
    REQUIRE_OK(tg_buffer_write(dev, stream, slice, data, words * 4));
    free(data);
}

void check_words(const char *file, int line, tg_device dev, uint64_t stream, tg_slice slice, size_t words, uint32_t first,
                 uint32_t step) {
    uint32_t *data = malloc(words * 4);
    REQUIRE(data);
    memset(data, 0xa5, words * 4);
    if (slice.size == TG_WHOLE_SIZE) slice.size = words * 4;
    const tg_result result = tg_buffer_read(dev, stream, data, words * 4, slice, TEST_LONG);
    if (result != TG_OK) {
        test_fail(file, line, "the read gave %s (%d)%s", test_result_name(result), (int)result, test_last_report_text());
    } else {
        for (size_t i = 0; i < words; i++) {
            const uint32_t expected = first + (uint32_t)i * step;
            if (data[i] != expected) {
                test_fail(file, line, "word %zu is %u, not %u", i, data[i], expected);
                break;
            }
        }
    }
    free(data);
}

void check_unwritten(const char *file, int line, tg_device dev, uint64_t stream, tg_slice slice, size_t words) {
    uint32_t *data = malloc(words * 4);
    REQUIRE(data);
    memset(data, 0xa5, words * 4);
    if (slice.size == TG_WHOLE_SIZE) slice.size = words * 4;
    const tg_result result = tg_buffer_read(dev, stream, data, words * 4, slice, TEST_LONG);
    if (result != TG_ERROR_UNWRITTEN)
        test_fail(file, line, "the read gave %s (%d), not TG_ERROR_UNWRITTEN", test_result_name(result), (int)result);
    for (size_t i = 0; i < words; i++) {
        if (data[i] != 0xa5a5a5a5u) {
            test_fail(file, line, "a failed read changed word %zu of its destination", i);
            break;
        }
    }
    free(data);
}

tg_result launch(tg_device dev, uint64_t stream, tg_kernel kernel, const tg_use *bindings, size_t count, const void *push,
                 size_t push_size, uint32_t threads) {
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    desc.stream = stream;
    desc.kernel = kernel;
    desc.bindings = bindings;
    desc.binding_count = count;
    desc.push = push;
    desc.push_size = push_size;
    desc.threads[0] = threads;
    desc.threads[1] = 1;
    desc.threads[2] = 1;
    return tg_launch(dev, &desc);
}

tg_result scale(tg_device dev, uint64_t stream, tg_kernel kernel, tg_slice to, tg_slice from, uint32_t words,
                uint32_t factor) {
    const tg_use bindings[] = {use(from, TG_ACCESS_AUTO), use(to, TG_ACCESS_AUTO)};
    const uint32_t push[] = {words, factor};
    return launch(dev, stream, kernel, bindings, 2, push, sizeof push, words);
}

tg_result add(tg_device dev, uint64_t stream, tg_kernel kernel, tg_slice to, tg_slice left, tg_slice right, uint32_t words) {
    const tg_use bindings[] = {use(left, TG_ACCESS_AUTO), use(right, TG_ACCESS_AUTO), use(to, TG_ACCESS_AUTO)};
    return launch(dev, stream, kernel, bindings, 3, &words, sizeof words, words);
}

tg_result increment(tg_device dev, uint64_t stream, tg_kernel kernel, tg_slice data, uint32_t words, uint32_t step) {
    const tg_use bindings[] = {use(data, TG_ACCESS_AUTO)};
    const uint32_t push[] = {words, step};
    return launch(dev, stream, kernel, bindings, 1, push, sizeof push, words);
}

tg_result store(tg_device dev, uint64_t stream, tg_kernel kernel, tg_slice to, uint32_t words, uint32_t value) {
    const tg_use bindings[] = {use(to, TG_ACCESS_AUTO)};
    const uint32_t push[] = {words, value};
    return launch(dev, stream, kernel, bindings, 1, push, sizeof push, words);
}

uint64_t taint(tg_device dev, tg_slice slice, int64_t code, const char *label) {
    tg_error_desc desc = TG_ERROR_DESC_INIT;
    desc.code = code;
    desc.label = text(label);
    desc.message = text("declared by the test");
    REQUIRE_OK(tg_taint(dev, &slice, 1, &desc));
    uint64_t root = 0;
    REQUIRE_OK(tg_first_failure(dev, &slice, 1, &root));
    return root;
}

tg_report last_report(void) {
    tg_report report = {0};
    REQUIRE(tg_last_report(&report) == TG_OK);
    return report;
}

tg_report_info report_info(tg_report report) {
    tg_report_info info = TG_REPORT_INFO_INIT;
    REQUIRE(tg_report_get_info(report, &info) == TG_OK);
    return info;
}

size_t report_count(tg_report report) {
    size_t count = 0;
    REQUIRE(tg_report_failure_count(report, &count) == TG_OK);
    return count;
}

tg_failure_info report_failure(tg_report report, size_t index) {
    tg_failure_info info = TG_FAILURE_INFO_INIT;
    REQUIRE(tg_report_failure(report, index, &info) == TG_OK);
    return info;
}

tg_step_info report_step(tg_report report, size_t failure, size_t step) {
    tg_step_info info = TG_STEP_INFO_INIT;
    REQUIRE(tg_report_step(report, failure, step, &info) == TG_OK);
    return info;
}

const char *report_text(tg_report report) {
    tg_str rendered;
    REQUIRE(tg_report_text(report, &rendered) == TG_OK);
    return rendered.data;
}

const char *report_json(tg_report report) {
    tg_str rendered;
    REQUIRE(tg_report_json(report, &rendered) == TG_OK);
    return rendered.data;
}

size_t roots_of(tg_device dev, tg_slice slice, uint64_t *ids, size_t max) {
    tg_report report = {0};
    REQUIRE_OK(tg_report_slices(dev, &slice, 1, &report));
    const size_t count = report_count(report);
    for (size_t i = 0; i < count && i < max; i++) ids[i] = report_failure(report, i).id;
    tg_report_release(report);
    return count;
}

size_t failure_count(tg_device dev) {
    uint64_t count = 0;
    REQUIRE_OK(tg_device_failure_count(dev, &count));
    return (size_t)count;
}
