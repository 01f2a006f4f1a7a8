/* A loader or layer that lacks an entry point: an answer that names it, or a device without the feature it belongs to. */
#define _DEFAULT_SOURCE /* anonymous mappings */
#include "tg_vk.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1024, LENGTH = 96 };

/* Shared with the children: each tries one name, and may end in whatever way. */
struct shared {
    char names[MOST][LENGTH];
    unsigned count;
    tg_result created, worked;
    uint64_t features;
    bool named, is_whole;
};
static struct shared *shared;
static const char *withheld;
static bool is_listing;

static PFN_vkGetInstanceProcAddr instance_proc;
static PFN_vkGetDeviceProcAddr device_proc;

static void list(const char *name) {
    for (unsigned i = 0; i < shared->count; i++)
        if (strcmp(shared->names[i], name) == 0) return;
    if (shared->count == MOST || strlen(name) >= LENGTH) _exit(3);
    strcpy(shared->names[shared->count++], name);
}

static bool is_withheld(const char *name) {
    if (is_listing) list(name);
    return withheld && strcmp(name, withheld) == 0;
}

static PFN_vkVoidFunction of_device(VkDevice device, const char *name) {
    return is_withheld(name) ? NULL : device_proc(device, name);
}

static PFN_vkVoidFunction of_instance(VkInstance instance, const char *name) {
    if (is_withheld(name)) return NULL;
    PFN_vkVoidFunction found = instance_proc(instance, name);
    if (strcmp(name, "vkGetDeviceProcAddr") != 0 || !found) return found;
    device_proc = (PFN_vkGetDeviceProcAddr)found;
    return (PFN_vkVoidFunction)of_device;
}

static tg_result work(tg_device dev) {
    enum { WORDS = 64 };
    uint32_t words[WORDS];
    size_t size;
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_kernel_desc code = TG_KERNEL_DESC_INIT;
    tg_buffer data = {0}, mapped = {0};
    tg_kernel adds = {0};
    desc.size = sizeof words;
    code.code = shader("increment", &size);
    code.code_size = size;
    code.label = text("increment");
    tg_result result = tg_buffer_create(dev, &desc, &data);
    desc.memory = TG_MEMORY_READBACK;
    if (result == TG_OK) result = tg_buffer_create(dev, &desc, &mapped);
    if (result == TG_OK) result = tg_kernel_create(dev, &code, &adds);
    if (result == TG_OK) result = tg_buffer_fill(dev, 0, whole(data), 5, 4);
    if (result == TG_OK) result = increment(dev, 0, adds, whole(data), WORDS, 2);
    if (result == TG_OK) result = tg_buffer_copy(dev, 1, whole(mapped), whole(data));
    if (result == TG_OK) result = tg_buffer_read(dev, 0, words, sizeof words, whole(mapped), TEST_LONG);
    for (size_t i = 0; i < WORDS && result == TG_OK; i++)
        if (words[i] != 7) result = TG_ERROR_INTERNAL;
    return result;
}

static void try_without(const char *name, uint64_t flags) {
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW);
    *(void **)&instance_proc = loader ? dlsym(loader, "vkGetInstanceProcAddr") : NULL;
    if (!instance_proc) _exit(2);
    withheld = name;
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device dev = {0};
    desc.flags = flags;
    desc.get_instance_proc_addr = (tg_proc)of_instance;
    shared->created = tg_device_create(&desc, &dev);
    shared->named = name && strstr(test_last_report_text(), name) != NULL;
    if (shared->created == TG_OK) {
        tg_device_info info = TG_DEVICE_INFO_INIT;
        if (tg_device_get_info(dev, &info) == TG_OK) shared->features = info.features;
        shared->worked = work(dev);
        if (tg_device_destroy(dev, TEST_LONG) != TG_OK) _exit(4);
    }
    shared->is_whole = true;
    _exit(0);
}

/* In a process of its own. False if it did not end as it should. */
static bool without(const char *name, uint64_t flags) {
    int status = 0;
    shared->is_whole = false;
    shared->created = shared->worked = TG_ERROR_INTERNAL;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) try_without(name, flags);
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    return shared->is_whole && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void withhold_each(uint64_t flags) {
    unsigned refused = 0, done_without = 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    is_listing = true;
    REQUIRE(without(NULL, flags));
    is_listing = false;
    REQUIRE(shared->created == TG_OK && shared->worked == TG_OK && shared->count > 60);
    for (unsigned i = 0; i < shared->count; i++) {
        const char *name = shared->names[i];
        if (!without(name, flags)) {
            test_fail(__FILE__, __LINE__, "without %s the process does not live", name);
        } else if (shared->created == TG_OK) {
            done_without++;
            if (shared->worked != TG_OK)
                test_fail(__FILE__, __LINE__, "without %s work gives %s", name, test_result_name(shared->worked));
        } else {
            refused++;
            if (shared->created != TG_ERROR_INITIALIZATION_FAILED && shared->created != TG_ERROR_UNSUPPORTED)
                test_fail(__FILE__, __LINE__, "without %s: %s", name, test_result_name(shared->created));
            if (!shared->named) test_fail(__FILE__, __LINE__, "the report does not name %s", name);
        }
    }
    CHECK(refused > 40 && done_without > 40);
}

TEST(each_missing_entry_point_is_named_or_done_without) { withhold_each(0); }

TEST(each_missing_entry_point_under_validation_is_named_or_done_without) { withhold_each(TG_DEVICE_VALIDATION); }

TEST(the_feature_of_a_missing_entry_point_is_off) {
    static const struct {
        const char *name;
        uint64_t flags, feature;
    } features[] = {
        {"vkCmdPushDescriptorSetKHR", 0, TG_FEATURE_PUSH_DESCRIPTORS},
        {"vkCmdPipelineBarrier2", 0, TG_FEATURE_SYNCHRONIZATION2},
        {"vkQueueSubmit2", 0, TG_FEATURE_SYNCHRONIZATION2},
        {"vkCmdBeginDebugUtilsLabelEXT", TG_DEVICE_VALIDATION, TG_FEATURE_DEBUG_LABELS},
    };
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        REQUIRE(without(NULL, features[i].flags));
        CHECK(shared->features & features[i].feature);
        CHECK(without(features[i].name, features[i].flags));
        CHECK_RESULT(shared->created, TG_OK);
        CHECK_RESULT(shared->worked, TG_OK);
        if (shared->features & features[i].feature) test_fail(__FILE__, __LINE__, "%s is on", features[i].name);
    }
}
