/* A host that is full: every allocation of 4 KiB or more that work, buffers and their pages, events, broken kernels and
 * questions make is refused, one after the other, once and for ever. Each call answers, and when there is memory again,
 * writing repairs. */
#define _GNU_SOURCE /* the ranges of loaded libraries */
#include "tg_test.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

enum { LARGE = 4096 };

/* The library's own code; what the driver, the loader and the validator allocate is theirs. */
static uintptr_t from, to;
static struct {
    bool is_on, for_ever;
    unsigned seen, nth;
    bool met;
} plan;

static int find_library(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    (void)data;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "libtidegate")) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        from = info->dlpi_addr + part->p_vaddr;
        to = from + part->p_memsz;
    }
    return 1;
}

static bool refuses(size_t size, void *caller) {
    if (!plan.is_on || size < LARGE || (uintptr_t)caller < from || (uintptr_t)caller >= to) return false;
    plan.seen++;
    if (plan.seen != plan.nth && !(plan.for_ever && plan.seen > plan.nth)) return false;
    plan.met = true;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size) { return refuses(size, __builtin_return_address(0)) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) {
    return refuses(count * size, __builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}
void *realloc(void *memory, size_t size) {
    return refuses(size, __builtin_return_address(0)) ? NULL : __libc_realloc(memory, size);
}

/* What a call may answer when it needs memory that is not there. */
static unsigned odd;
static tg_result tell(tg_result result, const char *what) {
    if (result == TG_ERROR_INTERNAL || (plan.is_on && TG_IS_MISUSE(result) && result != TG_ERROR_NULL_HANDLE)) {
        odd++;
        printf("allocation %u%s: %s gave %s%s\n", plan.nth, plan.for_ever ? " and all after it" : "", what,
               test_result_name(result), test_last_report_text());
        fflush(stdout);
    }
    return result;
}
#define TELL(call) tell((call), #call)

enum { BUFFERS = 300, SLICES = 700, LAUNCHES = 200, WORDS = 64 };

static tg_buffer first[3], buffers[BUFFERS], large[4];
static tg_kernel works, kernels[200];
static tg_event events[300];
static tg_slice slices[SLICES];
static tg_use extra[SLICES];
static tg_claim claims[SLICES];

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Made before memory runs out: the device, its streams, and a kernel. */
static tg_device prepare(void) {
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {0};
    if (tg_device_create(&desc, &dev) != TG_OK) _exit(8);
    for (size_t i = 0; i < COUNT(first); i++) {
        first[i] = buffer(dev, "first", 1 << 14);
        write_words(dev, i, whole(first[i]), 1 << 14, 0, 1);
        CHECK_WORDS(dev, i, whole(first[i]), 1 << 14, 0, 1);
    }
    works = kernel(dev, "increment");
    REQUIRE_OK(increment(dev, 0, works, whole(first[0]), WORDS, 1));
    REQUIRE_OK(tg_device_wait(dev, TEST_LONG));
    return dev;
}

/* Whatever grows with what is asked for. */
static void use_everything(tg_device dev) {
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_kernel_desc broken = TG_KERNEL_DESC_INIT;
    size_t count;
    uint64_t failure;
    desc.size = WORDS * 4;
    desc.label = text("a buffer");
    for (size_t i = 0; i < BUFFERS; i++) TELL(tg_buffer_create(dev, &desc, &buffers[i]));
    /* Each takes a page of its own. */
    desc.size = 12 << 20;
    for (size_t i = 0; i < COUNT(large); i++) {
        TELL(tg_buffer_create(dev, &desc, &large[i]));
        TELL(tg_buffer_fill(dev, 0, part(large[i], 0, WORDS * 4), 7, 4));
    }
    broken.code = "no";
    broken.code_size = 2;
    for (size_t i = 0; i < COUNT(kernels); i++) TELL(tg_kernel_create(dev, &broken, &kernels[i]));
    for (size_t i = 0; i < COUNT(events); i++) TELL(tg_event_record(dev, i % 3, &events[i]));
    for (size_t i = 0; i < LAUNCHES; i++) TELL(increment(dev, i % 3, works, whole(buffers[i]), WORDS, 1));
    for (size_t i = 0; i < SLICES; i++) {
        slices[i] = part(first[1], i * 8, 4);
        extra[i] = use(slices[i], i % 2 ? TG_ACCESS_WRITE : TG_ACCESS_READ);
    }
    tg_launch_desc launch = TG_LAUNCH_DESC_INIT;
    const tg_use bound = use(part(first[0], 0, WORDS * 4), TG_ACCESS_AUTO);
    const uint32_t push[2] = {WORDS, 1};
    launch.kernel = works;
    launch.bindings = &bound;
    launch.binding_count = 1;
    launch.extra = extra;
    launch.extra_count = SLICES;
    launch.push = push;
    launch.push_size = sizeof push;
    launch.threads[0] = WORDS;
    launch.label = text("reaches far");
    TELL(tg_launch(dev, &launch));
    TELL(tg_check_written(dev, slices, SLICES, TEST_LONG));
    TELL(tg_first_failure(dev, slices, SLICES, &failure));
    TELL(tg_mark_written(dev, slices, SLICES));
    TELL(tg_claims(dev, whole(first[1]), claims, SLICES, &count));
    TELL(tg_device_claims(dev, claims, SLICES, &count));
    tg_error_desc error = TG_ERROR_DESC_INIT;
    error.message = text("declared bad");
    TELL(tg_taint(dev, slices, SLICES, &error));
    tg_scope_desc scope_desc = TG_SCOPE_DESC_INIT;
    for (size_t i = 0; i < SLICES; i++) extra[i] = use(part(first[2], i * 8, 4), TG_ACCESS_WRITE);
    scope_desc.uses = extra;
    scope_desc.use_count = SLICES;
    tg_scope scope = {0};
    if (TELL(tg_scope_begin(dev, &scope_desc, &scope)) == TG_OK) TELL(tg_scope_fail(dev, scope, NULL));
    TELL(tg_device_wait(dev, TEST_LONG));
}

static void release_everything(tg_device dev) {
    for (size_t i = 0; i < COUNT(events); i++) TELL(tg_event_destroy(dev, events[i]));
    for (size_t i = 0; i < COUNT(kernels); i++) TELL(tg_kernel_destroy(dev, kernels[i]));
    for (size_t i = 0; i < BUFFERS; i++) TELL(tg_buffer_destroy(dev, buffers[i]));
    for (size_t i = 0; i < COUNT(large); i++) TELL(tg_buffer_destroy(dev, large[i]));
    TELL(tg_kernel_destroy(dev, works));
    for (size_t i = 0; i < COUNT(first); i++) TELL(tg_buffer_destroy(dev, first[i]));
}

/* 0: all is well; 1: some answer was odd; 2: the plan was not met; anything else is worse. */
static int one_cell(unsigned nth, bool for_ever) {
    const tg_device dev = prepare();
    dl_iterate_phdr(find_library, NULL);
    if (from == 0) return 9;
    plan.nth = nth;
    plan.for_ever = for_ever;
    plan.is_on = true;
    use_everything(dev);
    plan.is_on = false;
    /* There is memory again. */
    if (tg_device_wait(dev, TEST_LONG) != TG_OK) return 3;
    for (size_t i = 0; i < COUNT(first); i++) {
        write_words(dev, 0, whole(first[i]), 1 << 14, 7, 3);
        CHECK_WORDS(dev, 0, whole(first[i]), 1 << 14, 7, 3);
    }
    release_everything(dev);
    if (failure_count(dev) != 0) return 6;
    if (tg_device_destroy(dev, TEST_LONG) != TG_OK) return 7;
    return odd ? 1 : plan.met ? 0 : 2;
}

static void refuse_each(bool for_ever) {
    unsigned aborted = 0, cells = 0;
    for (unsigned nth = 1; nth < 2000; nth++) {
        int status = 0;
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) _exit(one_cell(nth, for_ever));
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2) break;
        cells++;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            aborted += !WIFEXITED(status);
            test_fail(__FILE__, __LINE__, "refusing allocation %u ends in %s %d", nth,
                      WIFEXITED(status) ? "status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        }
    }
    printf("%u cells, %u ended by a signal\n", cells, aborted);
    CHECK(cells > 8);
}

TEST(each_allocation_refused_once) { refuse_each(false); }

TEST(each_allocation_refused_and_all_after_it) { refuse_each(true); }
