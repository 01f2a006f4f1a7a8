/* Inside the shim: what its files share. */
#ifndef SHIM_H
#define SHIM_H

#define VK_NO_PROTOTYPES
#include "tg_shim.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vulkan/vk_icd.h>
#include <vulkan/vulkan.h>

/* Entry points that are wrapped. A call of ours goes to the function of the same name in `next`; those that can be called
 * by a second name, from before they were core, are listed in shim.c. */
#define GLOBAL_ENTRIES(X) X(CreateInstance) X(EnumerateInstanceVersion) X(EnumerateInstanceExtensionProperties)

#define INSTANCE_ENTRIES(X)                                                                                        \
    X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties) X(GetPhysicalDeviceProperties2)  \
    X(GetPhysicalDeviceFeatures) X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties)                \
    X(GetPhysicalDeviceMemoryProperties2) X(GetPhysicalDeviceQueueFamilyProperties)                                \
    X(GetPhysicalDeviceQueueFamilyProperties2) X(EnumerateDeviceExtensionProperties) X(CreateDevice)               \
    X(GetDeviceProcAddr)

#define DEVICE_ENTRIES(X)                                                                                          \
    X(DestroyDevice) X(GetDeviceQueue) X(GetDeviceQueue2) X(DeviceWaitIdle)                                        \
    X(AllocateMemory) X(FreeMemory) X(MapMemory) X(UnmapMemory) X(FlushMappedMemoryRanges)                         \
    X(InvalidateMappedMemoryRanges) X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements)                \
    X(GetBufferMemoryRequirements2) X(GetDeviceBufferMemoryRequirements) X(BindBufferMemory) X(BindBufferMemory2)  \
    X(CreateSemaphore) X(DestroySemaphore) X(GetSemaphoreCounterValue) X(WaitSemaphores) X(SignalSemaphore)        \
    X(CreateFence) X(DestroyFence) X(CreateEvent) X(DestroyEvent) X(CreateQueryPool) X(DestroyQueryPool)           \
    X(CreateShaderModule) X(DestroyShaderModule) X(CreatePipelineCache) X(DestroyPipelineCache)                    \
    X(CreateComputePipelines) X(DestroyPipeline) X(CreatePipelineLayout) X(DestroyPipelineLayout)                  \
    X(CreateDescriptorSetLayout) X(DestroyDescriptorSetLayout) X(CreateDescriptorPool) X(DestroyDescriptorPool)    \
    X(ResetDescriptorPool) X(AllocateDescriptorSets) X(CreateCommandPool) X(DestroyCommandPool)                    \
    X(ResetCommandPool) X(AllocateCommandBuffers) X(FreeCommandBuffers) X(SetDebugUtilsObjectNameEXT)

/* These take a command buffer or a queue first. */
#define COMMAND_ENTRIES(X) X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdCopyBuffer) X(CmdFillBuffer) X(CmdUpdateBuffer)
#define QUEUE_ENTRIES(X) X(QueueSubmit) X(QueueSubmit2) X(QueueWaitIdle)

#define ALL_ENTRIES(X) GLOBAL_ENTRIES(X) INSTANCE_ENTRIES(X) DEVICE_ENTRIES(X) COMMAND_ENTRIES(X) QUEUE_ENTRIES(X)

#define DECLARE(name) ENTRY_##name,
enum entry { ALL_ENTRIES(DECLARE) ENTRY_COUNT };
#undef DECLARE
#define MEMBER(name) PFN_vk##name name;
struct instance_table { GLOBAL_ENTRIES(MEMBER) INSTANCE_ENTRIES(MEMBER) };
struct device_table { DEVICE_ENTRIES(MEMBER) COMMAND_ENTRIES(MEMBER) QUEUE_ENTRIES(MEMBER) };
#undef MEMBER
extern struct instance_table next;

/* What must be gone before its device is. */
#define KINDS(X)                                                                                                    \
    X(memory) X(buffer) X(semaphore) X(fence) X(event) X(query_pool) X(shader_module) X(pipeline_cache) X(pipeline) \
    X(pipeline_layout) X(descriptor_set_layout) X(descriptor_pool) X(command_pool)
#define DECLARE(name) KIND_##name,
enum kind { KINDS(DECLARE) KIND_COUNT };
#undef DECLARE

enum { MAX_QUEUES = 4, ATOM = 256 };

struct submission;
/* What the application holds as a VkQueue. */
struct queue {
    VK_LOADER_DATA loader; /* first, as in every dispatchable object of a driver */
    struct device *device;
    struct submission *first, **last;
};

struct device {
    VkDevice handle;
    struct device_table next;
    atomic_uint live[KIND_COUNT];
    unsigned max_allocations;
    VkQueue real_queue;
    struct queue queues[2][MAX_QUEUES]; /* by family */
    pthread_mutex_t queue_lock;
    unsigned pending;
    uint64_t sequence;
    atomic_uint waiters;
};

/* What is presented. */
extern struct profile {
    bool discrete, smallest, bare, two_families;
} profile;

void complain(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Counts the call; not VK_SUCCESS when it is to fail. */
VkResult before(enum entry entry);
#define BEFORE(name)                                          \
    do {                                                      \
        const VkResult injected_ = before(ENTRY_##name);      \
        if (injected_ != VK_SUCCESS) return injected_;        \
    } while (0)

/* What a call that was made returns: what the real one did, unless it is to fail all the same. */
VkResult after(struct device *device, VkResult real);

struct device *device_of(VkDevice handle);
void count_object(struct device *device, enum kind kind, int change);

/* Handles to what is known about them; not synchronized. */
struct map {
    struct { uint64_t key; void *value; } *slots;
    size_t capacity, used;
};
void *map_get(const struct map *map, uint64_t key);
void map_put(struct map *map, uint64_t key, void *value);
void *map_take(struct map *map, uint64_t key);
#define KEY(handle) ((uint64_t)(uintptr_t)(handle))

/* profile.c */
void profile_parse(const char *names);
/* VK_SUCCESS, or why the device cannot be made with these features. */
VkResult profile_check_features(const VkDeviceCreateInfo *info);
extern VkPhysicalDeviceMemoryProperties presented_memory;
void profile_memory(VkPhysicalDevice physical);
uint32_t real_memory_type(void);
/* Bytes taken from a heap that is presented, by every device. */
extern _Atomic uint64_t heap_used[2];

/* memory.c */
struct written { VkBuffer buffer; uint64_t offset, size; };
/* The device is about to write what these commands write: the host no longer knows it. */
void memory_submitted(VkCommandBuffer commands);

/* queues.c */
void queues_init(struct device *device);
void queues_destroy(struct device *device);
/* Until the real device has nothing to do. */
void queues_idle(struct device *device);

/* Everything that is wrapped, by its own name. */
#define DECLARE(name) extern __typeof__(*(PFN_vk##name)0) shim_##name;
ALL_ENTRIES(DECLARE)
#undef DECLARE

#endif
