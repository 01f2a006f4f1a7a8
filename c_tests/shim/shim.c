/* The ways in, the calls that fail on request, and the count of what is alive. */
#include "shim.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct instance_table next;
static PFN_vkGetInstanceProcAddr next_get_instance_proc_addr;
static pthread_mutex_t setup_lock = PTHREAD_MUTEX_INITIALIZER;

void complain(const char *format, ...) {
    va_list arguments;
    fflush(stdout);
    fputs("shim: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _Exit(99); /* without destructors: the state is what is being complained about */
}

/* ---- calls that fail ---- */

#define NAME(name) "vk" #name,
static const char *const entry_names[] = {ALL_ENTRIES(NAME)};
#undef NAME

static struct {
    unsigned calls, faults;
    unsigned skip, times; /* calls to let through, then calls to fail */
    VkResult code;
    bool executed;
} plans[ENTRY_COUNT];
static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;

static enum entry entry_of(const char *name) {
    for (unsigned i = 0; i < ENTRY_COUNT; i++)
        if (strcmp(entry_names[i], name) == 0) return (enum entry)i;
    complain("%s is not wrapped", name);
}

/* What the call this thread is in returns when it is over. */
static _Thread_local VkResult answer_after;

VkResult before(enum entry entry) {
    VkResult result = VK_SUCCESS;
    bool executed = false;
    pthread_mutex_lock(&plan_lock);
    plans[entry].calls++;
    if (plans[entry].skip > 0) {
        plans[entry].skip--;
    } else if (plans[entry].times > 0) {
        if (plans[entry].times != TG_SHIM_FOREVER) plans[entry].times--;
        plans[entry].faults++;
        result = plans[entry].code;
        executed = plans[entry].executed;
    }
    pthread_mutex_unlock(&plan_lock);
    answer_after = executed ? result : VK_SUCCESS;
    return executed ? VK_SUCCESS : result;
}

VkResult after(struct device *device, VkResult real) {
    const VkResult answer = answer_after;
    answer_after = VK_SUCCESS;
    if (answer == VK_ERROR_DEVICE_LOST) queues_idle(device);
    return answer == VK_SUCCESS ? real : answer;
}

static void plan(const char *entry, unsigned nth, unsigned times, int code, bool executed) {
    const enum entry which = entry_of(entry);
    if (nth == 0 || times == 0 || code == VK_SUCCESS) complain("no fault: %s:%u:%u:%d", entry, nth, times, code);
    pthread_mutex_lock(&plan_lock);
    plans[which].skip = nth - 1;
    plans[which].times = times;
    plans[which].code = (VkResult)code;
    plans[which].executed = executed;
    pthread_mutex_unlock(&plan_lock);
}

void tg_shim_fail(const char *entry, unsigned nth, unsigned times, int code) { plan(entry, nth, times, code, false); }

void tg_shim_fail_executed(const char *entry, unsigned nth, unsigned times, int code) {
    static const char *const entries[] = {"vkQueueSubmit", "vkQueueSubmit2", "vkWaitSemaphores",
                                          "vkGetSemaphoreCounterValue", "vkQueueWaitIdle"};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (strcmp(entry, entries[i]) == 0) {
            plan(entry, nth, times, code, true);
            return;
        }
    complain("%s cannot be executed and fail", entry);
}

void tg_shim_clear(void) {
    pthread_mutex_lock(&plan_lock);
    for (unsigned i = 0; i < ENTRY_COUNT; i++) plans[i].skip = plans[i].times = 0;
    pthread_mutex_unlock(&plan_lock);
}

unsigned tg_shim_calls(const char *entry) {
    const enum entry which = entry_of(entry);
    pthread_mutex_lock(&plan_lock);
    const unsigned calls = plans[which].calls;
    pthread_mutex_unlock(&plan_lock);
    return calls;
}

unsigned tg_shim_faults(const char *entry) {
    const enum entry which = entry_of(entry);
    pthread_mutex_lock(&plan_lock);
    const unsigned faults = plans[which].faults;
    pthread_mutex_unlock(&plan_lock);
    return faults;
}

static void fault_from_environment(const char *text) {
    char entry[64];
    unsigned nth, times;
    int code;
    if (sscanf(text, "%63[A-Za-z0-9]:%u:%u:%d", entry, &nth, &times, &code) != 4)
        complain("TG_SHIM_FAULT is '%s', not ENTRY:NTH:TIMES:CODE", text);
    tg_shim_fail(entry, nth, times, code);
}

/* ---- maps ---- */

static size_t place(const struct map *map, uint64_t key) {
    size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (map->capacity - 1);
    while (map->slots[at].key != 0 && map->slots[at].key != key) at = (at + 1) & (map->capacity - 1);
    return at;
}

void *map_get(const struct map *map, uint64_t key) {
    return map->capacity == 0 ? NULL : map->slots[place(map, key)].value;
}

void map_put(struct map *map, uint64_t key, void *value) {
    if (2 * (map->used + 1) > map->capacity) {
        struct map larger = {.capacity = map->capacity ? 2 * map->capacity : 64};
        larger.slots = calloc(larger.capacity, sizeof *larger.slots);
        if (!larger.slots) complain("out of memory");
        for (size_t i = 0; i < map->capacity; i++)
            if (map->slots[i].key != 0) larger.slots[place(&larger, map->slots[i].key)] = map->slots[i], larger.used++;
        free(map->slots);
        *map = larger;
    }
    const size_t at = place(map, key);
    if (map->slots[at].key == 0) map->used++;
    map->slots[at].key = key;
    map->slots[at].value = value;
}

void *map_take(struct map *map, uint64_t key) {
    if (map->capacity == 0) return NULL;
    size_t hole = place(map, key);
    void *value = map->slots[hole].value;
    if (map->slots[hole].key == 0) return NULL;
    map->used--;
    map->slots[hole].key = 0;
    map->slots[hole].value = NULL;
    /* Those behind it move up, or they would not be found. */
    for (size_t at = (hole + 1) & (map->capacity - 1); map->slots[at].key != 0; at = (at + 1) & (map->capacity - 1)) {
        const uint64_t moved = map->slots[at].key;
        void *moved_value = map->slots[at].value;
        map->slots[at].key = 0;
        map->slots[at].value = NULL;
        const size_t better = place(map, moved);
        map->slots[better].key = moved;
        map->slots[better].value = moved_value;
    }
    if (map->used == 0) {
        free(map->slots);
        *map = (struct map){0};
    }
    return value;
}

/* ---- what is alive ---- */

#define NAME(name) #name,
static const char *const kind_names[] = {KINDS(NAME)};
#undef NAME

/* Never emptied while a call could still look: the slots of destroyed devices are used again. */
static _Atomic(struct device *) devices[64];
static atomic_int instances;
static atomic_uint peak_allocations;
static atomic_uint allocation_limit;

struct device *device_of(VkDevice handle) {
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        struct device *device = atomic_load(&devices[i]);
        if (device && device->handle == handle) return device;
    }
    complain("a call on a device that is not there");
}

void count_object(struct device *device, enum kind kind, int change) {
    const unsigned before_it = atomic_fetch_add(&device->live[kind], (unsigned)change);
    if (change < 0 && before_it == 0) complain("a %s more was destroyed than made", kind_names[kind]);
    if (kind == KIND_memory && change > 0) {
        unsigned peak = atomic_load(&peak_allocations);
        while (before_it + 1 > peak && !atomic_compare_exchange_weak(&peak_allocations, &peak, before_it + 1)) {}
    }
}

unsigned tg_shim_peak_allocations(void) { return atomic_load(&peak_allocations); }
void tg_shim_limit_allocations(unsigned count) { atomic_store(&allocation_limit, count); }

/* The pairs that are only counted. */
#define CREATE(Name, Info, kind)                                                                                        \
    VKAPI_ATTR VkResult VKAPI_CALL shim_Create##Name(VkDevice handle, const Info *info,                                 \
                                                     const VkAllocationCallbacks *callbacks, Vk##Name *out) {           \
        BEFORE(Create##Name);                                                                                           \
        struct device *device = device_of(handle);                                                                      \
        const VkResult result = device->next.Create##Name(handle, info, callbacks, out);                                \
        if (result == VK_SUCCESS) count_object(device, KIND_##kind, 1);                                                 \
        return result;                                                                                                  \
    }
#define DESTROY(Name, kind)                                                                                             \
    VKAPI_ATTR void VKAPI_CALL shim_Destroy##Name(VkDevice handle, Vk##Name object,                                     \
                                                  const VkAllocationCallbacks *callbacks) {                             \
        before(ENTRY_Destroy##Name);                                                                                    \
        struct device *device = device_of(handle);                                                                      \
        if (object != VK_NULL_HANDLE) count_object(device, KIND_##kind, -1);                                            \
        device->next.Destroy##Name(handle, object, callbacks);                                                          \
    }
#define COUNTED(Name, kind) CREATE(Name, Vk##Name##CreateInfo, kind) DESTROY(Name, kind)
COUNTED(Fence, fence)
COUNTED(Event, event)
COUNTED(QueryPool, query_pool)
COUNTED(ShaderModule, shader_module)
COUNTED(PipelineCache, pipeline_cache)
COUNTED(PipelineLayout, pipeline_layout)
COUNTED(DescriptorSetLayout, descriptor_set_layout)
COUNTED(DescriptorPool, descriptor_pool)
DESTROY(Pipeline, pipeline)

VKAPI_ATTR VkResult VKAPI_CALL shim_CreateComputePipelines(VkDevice handle, VkPipelineCache cache, uint32_t count,
                                                           const VkComputePipelineCreateInfo *infos,
                                                           const VkAllocationCallbacks *callbacks, VkPipeline *out) {
    for (uint32_t i = 0; i < count; i++) out[i] = VK_NULL_HANDLE;
    BEFORE(CreateComputePipelines);
    struct device *device = device_of(handle);
    const VkResult result = device->next.CreateComputePipelines(handle, cache, count, infos, callbacks, out);
    for (uint32_t i = 0; i < count; i++)
        if (out[i] != VK_NULL_HANDLE) count_object(device, KIND_pipeline, 1);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL shim_AllocateDescriptorSets(VkDevice handle, const VkDescriptorSetAllocateInfo *info,
                                                           VkDescriptorSet *out) {
    for (uint32_t i = 0; i < info->descriptorSetCount; i++) out[i] = VK_NULL_HANDLE;
    BEFORE(AllocateDescriptorSets);
    return device_of(handle)->next.AllocateDescriptorSets(handle, info, out);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_ResetDescriptorPool(VkDevice handle, VkDescriptorPool pool,
                                                        VkDescriptorPoolResetFlags flags) {
    BEFORE(ResetDescriptorPool);
    return device_of(handle)->next.ResetDescriptorPool(handle, pool, flags);
}

/* ---- instance and device ---- */

VKAPI_ATTR VkResult VKAPI_CALL shim_EnumerateInstanceVersion(uint32_t *version) {
    BEFORE(EnumerateInstanceVersion);
    const VkResult result = next.EnumerateInstanceVersion(version);
    if (result == VK_SUCCESS && profile.bare && *version > VK_API_VERSION_1_2) *version = VK_API_VERSION_1_2;
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL shim_EnumerateInstanceExtensionProperties(const char *layer, uint32_t *count,
                                                                         VkExtensionProperties *out) {
    BEFORE(EnumerateInstanceExtensionProperties);
    return next.EnumerateInstanceExtensionProperties(layer, count, out);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_CreateInstance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *callbacks,
                                                   VkInstance *out) {
    BEFORE(CreateInstance);
    VkInstanceCreateInfo asked = *info;
    VkApplicationInfo application;
    /* The driver itself then knows nothing newer. */
    if (profile.bare && info->pApplicationInfo && info->pApplicationInfo->apiVersion > VK_API_VERSION_1_2) {
        application = *info->pApplicationInfo;
        application.apiVersion = VK_API_VERSION_1_2;
        asked.pApplicationInfo = &application;
    }
    const VkResult result = next.CreateInstance(&asked, callbacks, out);
    if (result != VK_SUCCESS) return result;
    atomic_fetch_add(&instances, 1);
    pthread_mutex_lock(&setup_lock);
#define LOAD(name) next.name = (PFN_vk##name)next_get_instance_proc_addr(*out, "vk" #name);
    INSTANCE_ENTRIES(LOAD)
#undef LOAD
    pthread_mutex_unlock(&setup_lock);
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL shim_DestroyInstance(VkInstance instance, const VkAllocationCallbacks *callbacks) {
    before(ENTRY_DestroyInstance);
    if (instance != VK_NULL_HANDLE && atomic_fetch_sub(&instances, 1) == 1)
        for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
            if (atomic_load(&devices[i])) complain("a device outlives the last instance");
    next.DestroyInstance(instance, callbacks);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_EnumeratePhysicalDevices(VkInstance instance, uint32_t *count, VkPhysicalDevice *out) {
    BEFORE(EnumeratePhysicalDevices);
    return next.EnumeratePhysicalDevices(instance, count, out);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                 const VkAllocationCallbacks *callbacks, VkDevice *out) {
    BEFORE(CreateDevice);
    const VkResult usable = profile_check_features(info);
    if (usable != VK_SUCCESS) return usable;
    if (profile.bare && info->enabledExtensionCount > 0) return VK_ERROR_EXTENSION_NOT_PRESENT;
    profile_memory(physical);

    struct device *device = calloc(1, sizeof *device);
    const char **extensions = calloc(info->enabledExtensionCount + 1, sizeof *extensions);
    if (!device || !extensions) complain("out of memory");
    VkDeviceCreateInfo asked = *info;
    asked.enabledExtensionCount = 0;
    asked.ppEnabledExtensionNames = extensions;
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (!profile.discrete || strcmp(info->ppEnabledExtensionNames[i], VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) != 0)
            extensions[asked.enabledExtensionCount++] = info->ppEnabledExtensionNames[i];
    static const float priority = 1.0f;
    const VkDeviceQueueCreateInfo one_queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1,
                                               .pQueuePriorities = &priority};
    if (profile.two_families) {
        asked.queueCreateInfoCount = 1;
        asked.pQueueCreateInfos = &one_queue;
    }
    const VkResult result = next.CreateDevice(physical, &asked, callbacks, out);
    free(extensions);
    if (result != VK_SUCCESS) {
        free(device);
        return result;
    }
    device->handle = *out;
#define LOAD(name) device->next.name = (PFN_vk##name)next.GetDeviceProcAddr(*out, "vk" #name);
    DEVICE_ENTRIES(LOAD) COMMAND_ENTRIES(LOAD) QUEUE_ENTRIES(LOAD)
#undef LOAD
    if (!device->next.QueueSubmit2)
        device->next.QueueSubmit2 = (PFN_vkQueueSubmit2)next.GetDeviceProcAddr(*out, "vkQueueSubmit2KHR");
    VkPhysicalDeviceProperties properties;
    next.GetPhysicalDeviceProperties(physical, &properties);
    device->max_allocations = profile.smallest ? 4096 : properties.limits.maxMemoryAllocationCount;
    const unsigned limit = atomic_load(&allocation_limit);
    if (limit > 0 && limit < device->max_allocations) device->max_allocations = limit;
    queues_init(device);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        struct device *none = NULL;
        if (atomic_compare_exchange_strong(&devices[i], &none, device)) return VK_SUCCESS;
    }
    complain("more devices than the shim can follow");
}

VKAPI_ATTR void VKAPI_CALL shim_DestroyDevice(VkDevice handle, const VkAllocationCallbacks *callbacks) {
    before(ENTRY_DestroyDevice);
    if (handle == VK_NULL_HANDLE) return;
    struct device *device = device_of(handle);
    char left[1024] = "";
    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        const unsigned count = atomic_load(&device->live[kind]);
        const size_t length = strlen(left);
        if (count > 0) snprintf(left + length, sizeof left - length, " %u %s", count, kind_names[kind]);
    }
    if (left[0]) complain("outlives its device:%s", left);
    queues_destroy(device);
    device->next.DestroyDevice(handle, callbacks);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        struct device *this_one = device;
        if (atomic_compare_exchange_strong(&devices[i], &this_one, NULL)) break;
    }
    free(device);
}

/* ---- finding functions ---- */

static const struct {
    const char *name, *core;
} aliases[] = {
    {"vkGetPhysicalDeviceProperties2KHR", "vkGetPhysicalDeviceProperties2"},
    {"vkGetPhysicalDeviceFeatures2KHR", "vkGetPhysicalDeviceFeatures2"},
    {"vkGetPhysicalDeviceMemoryProperties2KHR", "vkGetPhysicalDeviceMemoryProperties2"},
    {"vkGetPhysicalDeviceQueueFamilyProperties2KHR", "vkGetPhysicalDeviceQueueFamilyProperties2"},
    {"vkGetBufferMemoryRequirements2KHR", "vkGetBufferMemoryRequirements2"},
    {"vkGetDeviceBufferMemoryRequirementsKHR", "vkGetDeviceBufferMemoryRequirements"},
    {"vkBindBufferMemory2KHR", "vkBindBufferMemory2"},
    {"vkGetSemaphoreCounterValueKHR", "vkGetSemaphoreCounterValue"},
    {"vkWaitSemaphoresKHR", "vkWaitSemaphores"},
    {"vkSignalSemaphoreKHR", "vkSignalSemaphore"},
    {"vkQueueSubmit2KHR", "vkQueueSubmit2"},
};

/* What would go past the shim: queues are its own objects, and copies it does not see would not be known to the host. */
static bool is_hidden(const char *name) {
    static const char *const names[] = {"vkCmdCopyBuffer2", "vkCmdCopyBuffer2KHR", "vkSetDebugUtilsObjectTagEXT",
                                        "vkMapMemory2KHR", "vkUnmapMemory2KHR"};
    if (strncmp(name, "vkQueue", 7) == 0) return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Ours in place of the real one; NULL where the real driver has none. */
static PFN_vkVoidFunction ours(const char *name, PFN_vkVoidFunction real) {
    if (!real) return NULL;
    const char *core = name;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(name, aliases[i].name) == 0) core = aliases[i].core;
#define FIND(entry_name) \
    if (strcmp(core, "vk" #entry_name) == 0) return (PFN_vkVoidFunction)shim_##entry_name;
    ALL_ENTRIES(FIND)
#undef FIND
    return is_hidden(name) ? NULL : real;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL shim_GetDeviceProcAddr(VkDevice handle, const char *name) {
    return ours(name, next.GetDeviceProcAddr(handle, name));
}

static void setup(PFN_vkGetInstanceProcAddr found) {
    pthread_mutex_lock(&setup_lock);
    if (!next_get_instance_proc_addr) {
        next_get_instance_proc_addr = found;
        profile_parse(getenv("TG_TEST_PROFILE"));
        if (getenv("TG_SHIM_FAULT")) fault_from_environment(getenv("TG_SHIM_FAULT"));
#define LOAD(name) next.name = (PFN_vk##name)found(NULL, "vk" #name);
        GLOBAL_ENTRIES(LOAD)
#undef LOAD
    }
    /* Both ways at once would wrap every device twice. */
    if (next_get_instance_proc_addr != found) complain("both the loader's driver and its caller");
    pthread_mutex_unlock(&setup_lock);
}

static PFN_vkVoidFunction instance_proc(VkInstance instance, const char *name) {
    return ours(name, next_get_instance_proc_addr(instance, name));
}

static void *open_library(const char *name) {
    /* Stays open: what was taken from it is kept. */
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) complain("%s", dlerror());
    return library;
}

static PFN_vkGetInstanceProcAddr symbol(void *library, const char *name) {
    PFN_vkGetInstanceProcAddr found;
    *(void **)&found = dlsym(library, name);
    if (!found) complain("%s", dlerror());
    return found;
}

/* ---- as a driver of the loader ---- */

static void *driver(void) {
    static void *library;
    const char *name = getenv("TG_SHIM_DRIVER");
    pthread_mutex_lock(&setup_lock);
    if (!library) {
        if (!name) complain("TG_SHIM_DRIVER does not name the library of a driver");
        library = open_library(name);
    }
    pthread_mutex_unlock(&setup_lock);
    return library;
}

TG_SHIM_API VKAPI_ATTR VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    PFN_vk_icdNegotiateLoaderICDInterfaceVersion negotiate;
    *(void **)&negotiate = dlsym(driver(), "vk_icdNegotiateLoaderICDInterfaceVersion");
    /* Beyond 5 a driver may be asked for things that only it can answer. */
    if (*version > 5) *version = 5;
    return negotiate ? negotiate(version) : VK_SUCCESS;
}

TG_SHIM_API VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance, const char *name) {
    setup(symbol(driver(), "vk_icdGetInstanceProcAddr"));
    return instance_proc(instance, name);
}

TG_SHIM_API VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name) {
    PFN_vk_icdGetPhysicalDeviceProcAddr find;
    *(void **)&find = dlsym(driver(), "vk_icdGetPhysicalDeviceProcAddr");
    return find ? ours(name, find(instance, name)) : NULL;
}

/* ---- over the loader ---- */

tg_shim_proc tg_shim_get_instance_proc_addr(void *instance, const char *name) {
    setup(symbol(open_library("libvulkan.so.1"), "vkGetInstanceProcAddr"));
    return (tg_shim_proc)instance_proc((VkInstance)instance, name);
}
