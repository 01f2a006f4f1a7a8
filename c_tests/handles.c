/* Every function by every wrong handle: the documented misuse, nothing changed, nothing claimed.
 *
 * One table of calls, each with one handle to replace and everything else in order. */
#include "tg_vk.h"

#include <stdlib.h>

enum { WORDS = 64, BYTES = WORDS * 4 };

enum kind { DEVICE, BUFFER, READ, KERNEL, EVENT, SCOPE, KINDS };
static const char *const kind_names[] = {"device", "buffer", "read", "kernel", "event", "scope"};

/* Two devices with the same on each; the foreign handles are of the second, the stale ones destroyed. */
struct world {
    tg_device dev, other;
    tg_buffer data, spare; /* data: 1, 2, 3, ... and its first 16 bytes claimed by `root`; spare: written, clean */
    tg_kernel scaling;
    tg_buffer host;        /* that can be mapped */
    tg_read read;          /* of no bytes */
    tg_event event;        /* of no work */
    tg_scope scope;        /* over a token of its own */
    uint64_t root;
    uint64_t right[KINDS], stale[KINDS], foreign[KINDS];
    void *code;
    size_t code_size;
    uint32_t words[WORDS];
};

struct call {
    const char *name;
    enum kind kind;
    bool null_is_fine;                                   /* destroying or ending the null handle does nothing */
    tg_result (*run)(struct world *w, uint64_t handle);
    bool takes_slice;                                    /* the handle is a slice's: out-of-range slices are tried too */
    tg_result (*run_slice)(struct world *w, tg_slice slice);
};

static tg_device dev_of(uint64_t id) {
    const tg_device handle = {id};
    return handle;
}
static tg_buffer buffer_of(uint64_t id) {
    const tg_buffer handle = {id};
    return handle;
}
static tg_kernel kernel_of(uint64_t id) {
    const tg_kernel handle = {id};
    return handle;
}
static tg_read read_of(uint64_t id) {
    const tg_read handle = {id};
    return handle;
}
static tg_event event_of(uint64_t id) {
    const tg_event handle = {id};
    return handle;
}
static tg_scope scope_of(uint64_t id) {
    const tg_scope handle = {id};
    return handle;
}

/* ---- the device as the wrong handle ---- */

static tg_error_desc error_desc(void) {
    tg_error_desc desc = TG_ERROR_DESC_INIT;
    desc.code = 1;
    return desc;
}

#define ON_DEVICE(function, ...)                                          \
    static tg_result function##_by_device(struct world *w, uint64_t id) { \
        const tg_device dev = dev_of(id);                                 \
        (void)w;                                                          \
        __VA_ARGS__                                                       \
    }

ON_DEVICE(device_destroy, return tg_device_destroy(dev, 0);)
ON_DEVICE(device_get_info, tg_device_info info = TG_DEVICE_INFO_INIT; return tg_device_get_info(dev, &info);)
ON_DEVICE(device_status, return tg_device_status(dev);)
ON_DEVICE(device_wait, return tg_device_wait(dev, 0);)
ON_DEVICE(device_trim, uint64_t freed; return tg_device_trim(dev, &freed);)
ON_DEVICE(device_memory_stats, tg_memory_info info = TG_MEMORY_INFO_INIT; return tg_device_memory_stats(dev, &info);)
ON_DEVICE(device_failure_count, uint64_t count; return tg_device_failure_count(dev, &count);)
ON_DEVICE(device_report, tg_report report = {0}; return tg_device_report(dev, &report);)
ON_DEVICE(device_claims, size_t count; return tg_device_claims(dev, NULL, 0, &count);)
ON_DEVICE(buffer_create, tg_buffer_desc desc = TG_BUFFER_DESC_INIT; tg_buffer out = {0}; desc.size = 64;
          const tg_result result = tg_buffer_create(dev, &desc, &out); CHECK_EQ_INT(out.id, 0); return result;)
ON_DEVICE(buffer_destroy, return tg_buffer_destroy(dev, w->data);)
ON_DEVICE(buffer_allocate, return tg_buffer_allocate(dev, w->data, 0);)
ON_DEVICE(buffer_get_info, tg_buffer_info info = TG_BUFFER_INFO_INIT; return tg_buffer_get_info(dev, w->data, &info);)
ON_DEVICE(buffer_write, return tg_buffer_write(dev, 0, whole(w->spare), w->words, BYTES);)
ON_DEVICE(buffer_write_with, return tg_buffer_write_with(dev, 0, whole(w->spare), w->words, BYTES, 0);)
ON_DEVICE(buffer_read, uint32_t words[WORDS]; return tg_buffer_read(dev, 0, words, BYTES, whole(w->spare), 0);)
ON_DEVICE(buffer_copy, return tg_buffer_copy(dev, 0, part(w->spare, 0, 64), part(w->data, 0, 64));)
ON_DEVICE(buffer_fill, return tg_buffer_fill(dev, 0, whole(w->spare), 0, 4);)
ON_DEVICE(buffer_map, void *at = w; const tg_result result = tg_buffer_map(dev, whole(w->host), TG_ACCESS_READ, 0, &at);
          CHECK(at == NULL); return result;)
ON_DEVICE(buffer_unmap, return tg_buffer_unmap(dev, whole(w->host));)
ON_DEVICE(read_begin, tg_read out = {77}; const tg_result result = tg_read_begin(dev, 0, whole(w->spare), &out);
          CHECK_EQ_INT(out.id, 0); return result;)
ON_DEVICE(read_poll, return tg_read_poll(dev, w->read);)
ON_DEVICE(read_wait, return tg_read_wait(dev, w->read, 0);)
ON_DEVICE(read_data, const void *data; size_t size; return tg_read_data(dev, w->read, &data, &size);)
ON_DEVICE(read_report, tg_report report = {77}; const tg_result result = tg_read_report(dev, w->read, &report);
          CHECK_EQ_INT(report.id, 0); return result;)
ON_DEVICE(read_release, return tg_read_release(dev, w->read);)
ON_DEVICE(kernel_create, tg_kernel_desc desc = TG_KERNEL_DESC_INIT; tg_kernel out = {0}; desc.code = w->code;
          desc.code_size = w->code_size; const tg_result result = tg_kernel_create(dev, &desc, &out);
          CHECK_EQ_INT(out.id, 0); return result;)
ON_DEVICE(kernel_rebuild, tg_kernel_desc desc = TG_KERNEL_DESC_INIT; desc.code = w->code; desc.code_size = w->code_size;
          return tg_kernel_rebuild(dev, w->scaling, &desc);)
ON_DEVICE(kernel_destroy, return tg_kernel_destroy(dev, w->scaling);)
ON_DEVICE(kernel_get_info, tg_kernel_info info = TG_KERNEL_INFO_INIT; return tg_kernel_get_info(dev, w->scaling, &info);)
ON_DEVICE(launch, return scale(dev, 0, w->scaling, whole(w->spare), whole(w->data), WORDS, 2);)
ON_DEVICE(stream_flush, return tg_stream_flush(dev, 0);)
ON_DEVICE(stream_wait, return tg_stream_wait(dev, 0, 0);)
ON_DEVICE(event_record, tg_event event = {0}; const tg_result result = tg_event_record(dev, 0, &event);
          CHECK_EQ_INT(event.id, 0); return result;)
ON_DEVICE(event_wait, return tg_event_wait(dev, w->event, 0);)
ON_DEVICE(event_status, return tg_event_status(dev, w->event);)
ON_DEVICE(stream_wait_event, return tg_stream_wait_event(dev, 0, w->event);)
ON_DEVICE(event_destroy, return tg_event_destroy(dev, w->event);)
ON_DEVICE(vk_device_handles, tg_vk_handles handles = TG_VK_HANDLES_INIT;
          const tg_result result = tg_vk_device_handles(dev, &handles); CHECK(handles.device == VK_NULL_HANDLE); return result;)
ON_DEVICE(vk_stream_wait_semaphore, /* which is never looked at */
          VkSemaphore semaphore; memset(&semaphore, 0xff, sizeof semaphore);
          return tg_vk_stream_wait_semaphore(dev, 0, semaphore, 0, 0);)
ON_DEVICE(check_written, const tg_slice slice = whole(w->spare); return tg_check_written(dev, &slice, 1, 0);)
ON_DEVICE(first_failure, const tg_slice slice = whole(w->spare); uint64_t root; return tg_first_failure(dev, &slice, 1, &root);)
ON_DEVICE(taint, const tg_slice slice = whole(w->spare); const tg_error_desc error = error_desc();
          return tg_taint(dev, &slice, 1, &error);)
ON_DEVICE(mark_written, const tg_slice slice = whole(w->data); return tg_mark_written(dev, &slice, 1);)
ON_DEVICE(fail_unallocated, const tg_error_desc error = error_desc(); return tg_fail_unallocated(dev, w->data, &error);)
ON_DEVICE(claims, size_t count; return tg_claims(dev, whole(w->data), NULL, 0, &count);)
ON_DEVICE(scope_begin, tg_scope_desc desc = TG_SCOPE_DESC_INIT; tg_scope out = {0};
          const tg_use uses[] = {use(whole(w->spare), TG_ACCESS_WRITE)}; desc.uses = uses; desc.use_count = 1;
          const tg_result result = tg_scope_begin(dev, &desc, &out); CHECK_EQ_INT(out.id, 0); return result;)
ON_DEVICE(scope_end, return tg_scope_end(dev, w->scope);)
ON_DEVICE(scope_fail, return tg_scope_fail(dev, w->scope, NULL);)
ON_DEVICE(report_slices, const tg_slice slice = whole(w->data); tg_report report = {0};
          const tg_result result = tg_report_slices(dev, &slice, 1, &report); CHECK_EQ_INT(report.id, 0); return result;)

/* ---- a child as the wrong handle ---- */

#define ON_CHILD(function, parameter, ...)                  \
    static tg_result function(struct world *w, parameter) { \
        const tg_device dev = w->dev;                       \
        __VA_ARGS__                                         \
    }
#define ON_HANDLE(function, ...) ON_CHILD(function, uint64_t id, __VA_ARGS__)
#define ON_SLICE(function, ...) ON_CHILD(function, tg_slice slice, __VA_ARGS__)

ON_HANDLE(buffer_destroy, return tg_buffer_destroy(dev, buffer_of(id));)
ON_HANDLE(buffer_allocate, return tg_buffer_allocate(dev, buffer_of(id), 0);)
ON_HANDLE(buffer_get_info, tg_buffer_info info = TG_BUFFER_INFO_INIT; return tg_buffer_get_info(dev, buffer_of(id), &info);)
ON_HANDLE(fail_unallocated, const tg_error_desc error = error_desc(); return tg_fail_unallocated(dev, buffer_of(id), &error);)
ON_HANDLE(read_poll, return tg_read_poll(dev, read_of(id));)
ON_HANDLE(read_wait, return tg_read_wait(dev, read_of(id), TEST_LONG);)
ON_HANDLE(read_data, const void *data; size_t size; return tg_read_data(dev, read_of(id), &data, &size);)
ON_HANDLE(read_report, tg_report report = {77}; const tg_result result = tg_read_report(dev, read_of(id), &report);
          CHECK_EQ_INT(report.id, 0); return result;)
ON_HANDLE(read_release, return tg_read_release(dev, read_of(id));)
ON_HANDLE(kernel_rebuild, tg_kernel_desc desc = TG_KERNEL_DESC_INIT; desc.code = w->code; desc.code_size = w->code_size;
          return tg_kernel_rebuild(dev, kernel_of(id), &desc);)
ON_HANDLE(kernel_destroy, return tg_kernel_destroy(dev, kernel_of(id));)
ON_HANDLE(kernel_get_info, tg_kernel_info info = TG_KERNEL_INFO_INIT; return tg_kernel_get_info(dev, kernel_of(id), &info);)
ON_HANDLE(launch_kernel, return scale(dev, 0, kernel_of(id), whole(w->spare), part(w->data, 0, 64), 16, 2);)
static tg_result event_record(struct world *w, uint64_t id) {
    tg_event event = {id};
    const tg_result result = tg_event_record(w->dev, 0, &event);
    if (id) CHECK_EQ_INT(event.id, id);
    else REQUIRE_OK(tg_event_destroy(w->dev, event));
    return result;
}
ON_HANDLE(event_wait, return tg_event_wait(dev, event_of(id), TEST_LONG);)
ON_HANDLE(event_status, return tg_event_status(dev, event_of(id));)
ON_HANDLE(stream_wait_event, return tg_stream_wait_event(dev, 0, event_of(id));)
ON_HANDLE(event_destroy, return tg_event_destroy(dev, event_of(id));)
ON_HANDLE(scope_end, return tg_scope_end(dev, scope_of(id));)
ON_HANDLE(scope_fail, const tg_error_desc error = error_desc(); return tg_scope_fail(dev, scope_of(id), &error);)

static size_t host_size(tg_slice slice) { return slice.size == TG_WHOLE_SIZE ? BYTES : (size_t)slice.size; }

ON_SLICE(buffer_write, return tg_buffer_write(dev, 0, slice, w->words, host_size(slice));)
ON_SLICE(buffer_write_with, return tg_buffer_write_with(dev, 0, slice, w->words, host_size(slice), TG_WRITE_NO_WAIT);)
ON_SLICE(buffer_read, return tg_buffer_read(dev, 0, w->words, host_size(slice), slice, 0);)
ON_SLICE(buffer_map, void *at = w; const tg_result result = tg_buffer_map(dev, slice, TG_ACCESS_WRITE, 0, &at);
         CHECK(at == NULL); return result;)
ON_SLICE(buffer_unmap, return tg_buffer_unmap(dev, slice);)
ON_SLICE(read_begin, tg_read out = {77}; const tg_result result = tg_read_begin(dev, 0, slice, &out);
         CHECK_EQ_INT(out.id, 0); return result;)
ON_SLICE(buffer_copy_dst, return tg_buffer_copy(dev, 0, slice, whole(w->data));)
ON_SLICE(buffer_copy_src, return tg_buffer_copy(dev, 0, whole(w->spare), slice);)
ON_SLICE(buffer_fill, return tg_buffer_fill(dev, 0, slice, 0, 1);)
ON_SLICE(launch_binding_read, return scale(dev, 0, w->scaling, whole(w->spare), slice, WORDS, 2);)
ON_SLICE(launch_binding_write, return scale(dev, 0, w->scaling, slice, whole(w->data), WORDS, 2);)

static tg_result launch_with(struct world *w, const tg_use *extra, tg_slice indirect) {
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    const tg_use bindings[] = {use(part(w->spare, 0, 64), TG_ACCESS_READ), use(part(w->spare, 128, 128), TG_ACCESS_WRITE)};
    const uint32_t push[] = {16, 2};
    desc.kernel = w->scaling;
    desc.bindings = bindings;
    desc.binding_count = 2;
    desc.extra = extra;
    desc.extra_count = extra ? 1 : 0;
    desc.push = push;
    desc.push_size = sizeof push;
    desc.indirect = indirect;
    if (indirect.buffer.id == 0) desc.threads[0] = 16;
    return tg_launch(w->dev, &desc);
}
static tg_result launch_extra(struct world *w, tg_slice slice) {
    const tg_use extra = use(slice, TG_ACCESS_WRITE);
    return launch_with(w, &extra, part(buffer_of(0), 0, 0));
}
static tg_result launch_indirect(struct world *w, tg_slice slice) {
    if (slice.size == TG_WHOLE_SIZE) slice.size = 12;
    return launch_with(w, NULL, slice);
}

ON_SLICE(check_written, return tg_check_written(dev, &slice, 1, 0);)
ON_SLICE(first_failure, uint64_t root; return tg_first_failure(dev, &slice, 1, &root);)
ON_SLICE(taint_slice, const tg_error_desc error = error_desc(); return tg_taint(dev, &slice, 1, &error);)
ON_SLICE(mark_written, return tg_mark_written(dev, &slice, 1);)
ON_SLICE(claims_of, size_t count; return tg_claims(dev, slice, NULL, 0, &count);)
ON_SLICE(report_slices, tg_report report = {0}; return tg_report_slices(dev, &slice, 1, &report);)
static tg_result scope_begin(struct world *w, tg_slice slice) {
    tg_scope_desc desc = TG_SCOPE_DESC_INIT;
    tg_scope out = {77};
    const tg_use uses[] = {use(part(w->spare, 0, 16), TG_ACCESS_WRITE), use(slice, TG_ACCESS_WRITE)};
    desc.uses = uses;
    desc.use_count = 2;
    const tg_result result = tg_scope_begin(w->dev, &desc, &out);
    CHECK_EQ_INT(out.id, 0);
    return result;
}

#define BY_DEVICE(function) {"tg_" #function, DEVICE, false, function##_by_device, false, NULL}
#define BY_HANDLE(name, kind, null_is_fine, function) {name, kind, null_is_fine, function, false, NULL}
#define BY_SLICE(name, function) {name, BUFFER, false, NULL, true, function}

static const struct call calls[] = {
    {"tg_device_destroy", DEVICE, true, device_destroy_by_device, false, NULL},
    BY_DEVICE(device_get_info),
    BY_DEVICE(device_status),
    BY_DEVICE(device_wait),
    BY_DEVICE(device_trim),
    BY_DEVICE(device_memory_stats),
    BY_DEVICE(device_failure_count),
    BY_DEVICE(device_report),
    BY_DEVICE(device_claims),
    BY_DEVICE(buffer_create),
    BY_DEVICE(buffer_destroy),
    BY_DEVICE(buffer_allocate),
    BY_DEVICE(buffer_get_info),
    BY_DEVICE(buffer_write),
    BY_DEVICE(buffer_write_with),
    BY_DEVICE(buffer_read),
    BY_DEVICE(buffer_copy),
    BY_DEVICE(buffer_fill),
    BY_DEVICE(buffer_map),
    BY_DEVICE(buffer_unmap),
    BY_DEVICE(read_begin),
    BY_DEVICE(read_poll),
    BY_DEVICE(read_wait),
    BY_DEVICE(read_data),
    BY_DEVICE(read_report),
    BY_DEVICE(read_release),
    BY_DEVICE(kernel_create),
    BY_DEVICE(kernel_rebuild),
    BY_DEVICE(kernel_destroy),
    BY_DEVICE(kernel_get_info),
    BY_DEVICE(launch),
    BY_DEVICE(stream_flush),
    BY_DEVICE(stream_wait),
    BY_DEVICE(event_record),
    BY_DEVICE(event_wait),
    BY_DEVICE(event_status),
    BY_DEVICE(stream_wait_event),
    BY_DEVICE(event_destroy),
    BY_DEVICE(vk_device_handles),
    BY_DEVICE(vk_stream_wait_semaphore),
    BY_DEVICE(check_written),
    BY_DEVICE(first_failure),
    BY_DEVICE(taint),
    BY_DEVICE(mark_written),
    BY_DEVICE(fail_unallocated),
    BY_DEVICE(claims),
    BY_DEVICE(scope_begin),
    BY_DEVICE(scope_end),
    BY_DEVICE(scope_fail),
    BY_DEVICE(report_slices),
    BY_HANDLE("tg_buffer_destroy", BUFFER, true, buffer_destroy),
    BY_HANDLE("tg_buffer_allocate", BUFFER, false, buffer_allocate),
    BY_HANDLE("tg_buffer_get_info", BUFFER, false, buffer_get_info),
    BY_HANDLE("tg_fail_unallocated", BUFFER, false, fail_unallocated),
    BY_HANDLE("tg_read_poll", READ, false, read_poll),
    BY_HANDLE("tg_read_wait", READ, false, read_wait),
    BY_HANDLE("tg_read_data", READ, false, read_data),
    BY_HANDLE("tg_read_report", READ, false, read_report),
    BY_HANDLE("tg_read_release", READ, true, read_release),
    BY_HANDLE("tg_kernel_rebuild", KERNEL, false, kernel_rebuild),
    BY_HANDLE("tg_kernel_destroy", KERNEL, true, kernel_destroy),
    BY_HANDLE("tg_kernel_get_info", KERNEL, false, kernel_get_info),
    BY_HANDLE("tg_launch (kernel)", KERNEL, false, launch_kernel),
    BY_HANDLE("tg_event_record", EVENT, true, event_record),
    BY_HANDLE("tg_event_wait", EVENT, false, event_wait),
    BY_HANDLE("tg_event_status", EVENT, false, event_status),
    BY_HANDLE("tg_stream_wait_event", EVENT, false, stream_wait_event),
    BY_HANDLE("tg_event_destroy", EVENT, true, event_destroy),
    BY_HANDLE("tg_scope_end", SCOPE, true, scope_end),
    BY_HANDLE("tg_scope_fail", SCOPE, true, scope_fail),
    BY_SLICE("tg_buffer_write", buffer_write),
    BY_SLICE("tg_buffer_write_with", buffer_write_with),
    BY_SLICE("tg_buffer_read", buffer_read),
    BY_SLICE("tg_buffer_map", buffer_map),
    BY_SLICE("tg_buffer_unmap", buffer_unmap),
    BY_SLICE("tg_read_begin", read_begin),
    BY_SLICE("tg_buffer_copy (dst)", buffer_copy_dst),
    BY_SLICE("tg_buffer_copy (src)", buffer_copy_src),
    BY_SLICE("tg_buffer_fill", buffer_fill),
    BY_SLICE("tg_launch (binding read)", launch_binding_read),
    BY_SLICE("tg_launch (binding written)", launch_binding_write),
    BY_SLICE("tg_launch (extra)", launch_extra),
    BY_SLICE("tg_launch (indirect)", launch_indirect),
    BY_SLICE("tg_check_written", check_written),
    BY_SLICE("tg_first_failure", first_failure),
    BY_SLICE("tg_taint", taint_slice),
    BY_SLICE("tg_mark_written", mark_written),
    BY_SLICE("tg_claims", claims_of),
    BY_SLICE("tg_report_slices", report_slices),
    BY_SLICE("tg_scope_begin", scope_begin),
};
enum { CALLS = sizeof calls / sizeof *calls };

static void populate(tg_device dev, uint64_t *handles, tg_buffer *data, tg_read *read, tg_event *event,
                     tg_kernel *scaling, tg_scope *scope) {
    tg_buffer_desc token_desc = TG_BUFFER_DESC_INIT;
    tg_buffer token = {0};
    *data = buffer(dev, "data", WORDS);
    REQUIRE_OK(tg_read_begin(dev, 0, part(*data, 0, 0), read));
    event->id = 0;
    REQUIRE_OK(tg_event_record(dev, 0, event));
    *scaling = kernel(dev, "scale");
    token_desc.size = 1;
    token_desc.memory = TG_MEMORY_TOKEN;
    REQUIRE_OK(tg_buffer_create(dev, &token_desc, &token));
    tg_scope_desc desc = TG_SCOPE_DESC_INIT;
    const tg_use uses[] = {use(whole(token), TG_ACCESS_WRITE)};
    desc.uses = uses;
    desc.use_count = 1;
    REQUIRE_OK(tg_scope_begin(dev, &desc, scope));
    handles[DEVICE] = dev.id;
    handles[BUFFER] = data->id;
    handles[READ] = read->id;
    handles[EVENT] = event->id;
    handles[KERNEL] = scaling->id;
    handles[SCOPE] = scope->id;
}

static struct world setup(void) {
    struct world w;
    tg_buffer data;
    tg_read read;
    tg_event event;
    tg_kernel scaling;
    tg_scope scope;
    tg_device gone = {0};
    const tg_device_desc desc = test_device_desc();
    memset(&w, 0, sizeof w);
    w.dev = test_device();
    w.other = test_device_with(&desc);
    w.code = shader("scale", &w.code_size);

    populate(w.dev, w.stale, &data, &read, &event, &scaling, &scope);
    REQUIRE_OK(tg_scope_end(w.dev, scope));
    REQUIRE_OK(tg_kernel_destroy(w.dev, scaling));
    REQUIRE_OK(tg_read_release(w.dev, read));
    REQUIRE_OK(tg_event_destroy(w.dev, event));
    REQUIRE_OK(tg_buffer_destroy(w.dev, data));
    REQUIRE_OK(tg_device_create(&desc, &gone));
    REQUIRE_OK(tg_device_destroy(gone, TEST_LONG));
    w.stale[DEVICE] = gone.id;

    populate(w.other, w.foreign, &data, &read, &event, &scaling, &scope);
    populate(w.dev, w.right, &w.data, &w.read, &w.event, &w.scaling, &w.scope);
    w.spare = buffer(w.dev, "spare", WORDS);
    tg_buffer_desc host = TG_BUFFER_DESC_INIT;
    host.size = BYTES;
    host.memory = TG_MEMORY_UPLOAD;
    REQUIRE_OK(tg_buffer_create(w.dev, &host, &w.host));
    write_words(w.dev, 0, whole(w.data), WORDS, 1, 1);
    write_words(w.dev, 0, whole(w.spare), WORDS, 1000, 1);
    w.root = taint(w.dev, part(w.data, 0, 16), 1, "the one root");
    return w;
}

/* Nothing changed, nothing is claimed: on neither device. */
static void check_unchanged(struct world *w, const char *name) {
    uint64_t ids[4] = {0};
    const tg_slice spare = whole(w->spare);
    if (failure_count(w->dev) != 2) /* the taint, and the open scope's provisional one */
        test_fail(__FILE__, __LINE__, "%s left %zu roots, not 2", name, failure_count(w->dev));
    if (failure_count(w->other) != 1)
        test_fail(__FILE__, __LINE__, "%s changed the other device", name);
    if (roots_of(w->dev, whole(w->data), ids, 4) != 1 || ids[0] != w->root)
        test_fail(__FILE__, __LINE__, "%s changed the claims of the data", name);
    if (tg_check_written(w->dev, &spare, 1, TEST_LONG) != TG_OK)
        test_fail(__FILE__, __LINE__, "%s claimed bytes", name);
}

static void check_bytes(struct world *w) {
    CHECK_WORDS(w->dev, 0, part(w->data, 16, BYTES - 16), WORDS - 4, 5, 1);
    CHECK_WORDS(w->dev, 0, whole(w->spare), WORDS, 1000, 1);
    CHECK_RESULT(tg_device_status(w->dev), TG_OK);
    CHECK_RESULT(tg_device_status(w->other), TG_OK);
    CHECK_RESULT(tg_scope_end(w->dev, w->scope), TG_OK);
    CHECK_RESULT(tg_buffer_destroy(w->dev, w->data), TG_OK);
    CHECK_RESULT(tg_kernel_destroy(w->dev, w->scaling), TG_OK);
    CHECK_RESULT(tg_read_release(w->dev, w->read), TG_OK);
    CHECK_RESULT(tg_event_destroy(w->dev, w->event), TG_OK);
    free(w->code);
}

static void expect(struct world *w, const struct call *call, const char *what, uint64_t handle, tg_result expected) {
    const tg_result result =
        call->takes_slice ? call->run_slice(w, whole(buffer_of(handle))) : call->run(w, handle);
    char name[160];
    snprintf(name, sizeof name, "%s by %s %s", call->name, what, kind_names[call->kind]);
    if (result != expected)
        test_fail(__FILE__, __LINE__, "%s gave %s, not %s", name, test_result_name(result), test_result_name(expected));
    check_unchanged(w, name);
}

TEST(null) {
    struct world w = setup();
    for (size_t i = 0; i < CALLS; i++) {
        /* A null slice is an absent grid to tg_launch: with none there, the launch is of nothing. */
        if (calls[i].run_slice == launch_indirect) continue;
        expect(&w, &calls[i], "null", 0, calls[i].null_is_fine ? TG_OK : TG_ERROR_NULL_HANDLE);
    }
    check_bytes(&w);
}

TEST(wrong_kind) {
    struct world w = setup();
    for (size_t i = 0; i < CALLS; i++)
        for (int other = 0; other < KINDS; other++)
            if (other != (int)calls[i].kind) expect(&w, &calls[i], kind_names[other], w.right[other], TG_ERROR_WRONG_KIND);
    check_bytes(&w);
}

TEST(no_handle_at_all) {
    struct world w = setup();
    static const uint64_t nonsense[] = {1, 0x7fffffffffffffffu, UINT64_MAX, UINT64_C(0xdeadbeefdeadbeef)};
    for (size_t i = 0; i < CALLS; i++) {
        for (size_t n = 0; n < sizeof nonsense / sizeof *nonsense; n++) {
            const tg_result result = calls[i].takes_slice ? calls[i].run_slice(&w, whole(buffer_of(nonsense[n])))
                                                          : calls[i].run(&w, nonsense[n]);
            if (!TG_IS_MISUSE(result))
                test_fail(__FILE__, __LINE__, "%s by %llx gave %s", calls[i].name, (unsigned long long)nonsense[n],
                          test_result_name(result));
            check_unchanged(&w, calls[i].name);
        }
    }
    check_bytes(&w);
}

TEST(foreign) {
    struct world w = setup();
    for (size_t i = 0; i < CALLS; i++) {
        if (calls[i].kind == DEVICE) continue; /* a device belongs to no other */
        expect(&w, &calls[i], "foreign", w.foreign[calls[i].kind], TG_ERROR_FOREIGN_HANDLE);
    }
    check_bytes(&w);
}

TEST(stale) {
    struct world w = setup();
    for (size_t i = 0; i < CALLS; i++) expect(&w, &calls[i], "stale", w.stale[calls[i].kind], TG_ERROR_STALE_HANDLE);
    check_bytes(&w);
}

TEST(out_of_range) {
    struct world w = setup();
    const struct {
        uint64_t offset, size;
    } ranges[] = {{0, BYTES + 1}, {BYTES, 1}, {BYTES + 1, 0}, {BYTES + 4, TG_WHOLE_SIZE}, {UINT64_MAX - 3, 4},
                  {16, UINT64_MAX - 8}, {UINT64_MAX, UINT64_MAX - 1}};
    for (size_t i = 0; i < CALLS; i++) {
        if (!calls[i].takes_slice) continue;
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
            char name[160];
            const tg_result result = calls[i].run_slice(&w, part(w.data, ranges[r].offset, ranges[r].size));
            snprintf(name, sizeof name, "%s by offset %llu, size %llu", calls[i].name,
                     (unsigned long long)ranges[r].offset, (unsigned long long)ranges[r].size);
            if (result != TG_ERROR_INVALID_ARGUMENT)
                test_fail(__FILE__, __LINE__, "%s gave %s, not TG_ERROR_INVALID_ARGUMENT", name, test_result_name(result));
            check_unchanged(&w, name);
        }
    }
    check_bytes(&w);
}
