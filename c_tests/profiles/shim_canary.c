/* Proves that the shim sees what it is there to see, with no tidegate in between: each mode does one thing right or wrong
 * and looks for what must come of it. Where the shim must end the process, the test looks for its words. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

#define MUST(call)                                                        \
    do {                                                                  \
        VkResult result_ = (call);                                        \
        if (result_ != VK_SUCCESS) {                                      \
            fprintf(stderr, "canary: %s gave %d\n", #call, result_);      \
            exit(2);                                                      \
        }                                                                 \
    } while (0)

enum { BYTES = 4096, WORDS = BYTES / 4 };

static VkInstance instance;
static VkPhysicalDevice physical;
static VkDevice device;
static VkQueue queues[2];
static VkCommandPool pool;
static uint32_t family;

struct bytes {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint32_t *mapped;
};

static VkResult device_create(const char *extension, const VkPhysicalDeviceFeatures *features, uint32_t queue_count) {
    static const float priorities[] = {1.0f, 1.0f};
    VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, .timelineSemaphore = VK_TRUE};
    VkDeviceQueueCreateInfo queue_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = family,
                                          .queueCount = queue_count, .pQueuePriorities = priorities};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &timeline, .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue_info, .enabledExtensionCount = extension != NULL,
                               .ppEnabledExtensionNames = &extension, .pEnabledFeatures = features};
    return vkCreateDevice(physical, &info, NULL, &device);
}

static void setup(uint32_t queue_family, uint32_t queue_count) {
    family = queue_family;
    MUST(device_create(NULL, NULL, queue_count));
    for (uint32_t i = 0; i < queue_count; i++) vkGetDeviceQueue(device, family, i, &queues[i]);
    VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = family};
    MUST(vkCreateCommandPool(device, &pool_info, NULL, &pool));
}

static struct bytes bytes_create(VkMemoryPropertyFlags flags) {
    struct bytes made = {0};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = BYTES,
                               .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    MUST(vkCreateBuffer(device, &info, NULL, &made.buffer));
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device, made.buffer, &needs);
    VkPhysicalDeviceMemoryProperties types;
    vkGetPhysicalDeviceMemoryProperties(physical, &types);
    uint32_t type = 0;
    while (!(needs.memoryTypeBits >> type & 1) || (types.memoryTypes[type].propertyFlags & flags) != flags) type++;
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size,
                                     .memoryTypeIndex = type};
    MUST(vkAllocateMemory(device, &allocate, NULL, &made.memory));
    MUST(vkBindBufferMemory(device, made.buffer, made.memory, 0));
    if (flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT)
        MUST(vkMapMemory(device, made.memory, 0, VK_WHOLE_SIZE, 0, (void **)&made.mapped));
    return made;
}

static void bytes_destroy(struct bytes *gone) {
    vkDestroyBuffer(device, gone->buffer, NULL);
    vkFreeMemory(device, gone->memory, NULL);
}

static void teardown(void) {
    vkDestroyCommandPool(device, pool, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
}

static VkCommandBuffer record(VkBuffer from, VkBuffer to, uint32_t fill, VkDeviceSize size) {
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1};
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_HOST_READ_BIT};
    VkBufferCopy region = {.size = size};
    VkCommandBuffer commands;
    MUST(vkAllocateCommandBuffers(device, &info, &commands));
    MUST(vkBeginCommandBuffer(commands, &begin));
    if (from)
        vkCmdCopyBuffer(commands, from, to, 1, &region);
    else
        vkCmdFillBuffer(commands, to, 0, size, fill);
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT,
                         VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
    MUST(vkEndCommandBuffer(commands));
    return commands;
}

static void run(VkCommandBuffer commands) {
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
    MUST(vkQueueSubmit(queues[0], 1, &submit, VK_NULL_HANDLE));
    MUST(vkQueueWaitIdle(queues[0]));
}

static VkMappedMemoryRange range(const struct bytes *of, VkDeviceSize offset, VkDeviceSize size) {
    return (VkMappedMemoryRange){.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE, .memory = of->memory, .offset = offset,
                                 .size = size};
}
static void flush(const struct bytes *of, VkDeviceSize offset, VkDeviceSize size) {
    VkMappedMemoryRange flushed = range(of, offset, size);
    MUST(vkFlushMappedMemoryRanges(device, 1, &flushed));
}
static void invalidate(const struct bytes *of, VkDeviceSize offset, VkDeviceSize size) {
    VkMappedMemoryRange invalidated = range(of, offset, size);
    MUST(vkInvalidateMappedMemoryRanges(device, 1, &invalidated));
}

/* Up and down again through device memory, `rounds` times with the same words; gives how many words came back right. */
static int round_trip(int flushes, int invalidates, int rounds) {
    setup(0, 1);
    struct bytes up = bytes_create(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
    struct bytes down = bytes_create(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
    struct bytes local = bytes_create(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    int right = 0;
    for (int round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < WORDS; i++) up.mapped[i] = i * 3 + 1;
        if (round < flushes) flush(&up, 0, VK_WHOLE_SIZE);
        run(record(up.buffer, local.buffer, 0, BYTES));
        run(record(local.buffer, down.buffer, 0, BYTES));
        if (round < invalidates) invalidate(&down, 0, VK_WHOLE_SIZE);
        right = 0;
        for (uint32_t i = 0; i < WORDS; i++) right += down.mapped[i] == i * 3 + 1;
    }
    bytes_destroy(&up);
    bytes_destroy(&down);
    bytes_destroy(&local);
    teardown();
    printf("%d of %d words are right\n", right, WORDS);
    return right;
}

/* The device writes the first 64 bytes of an atom; the host then writes those behind them and flushes. */
static int neighbours_survive(int invalidated_first) {
    setup(0, 1);
    struct bytes shared = bytes_create(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
    run(record(VK_NULL_HANDLE, shared.buffer, 0x01010101, 64));
    if (invalidated_first) invalidate(&shared, 0, 256);
    memset(shared.mapped + 16, 2, 64);
    flush(&shared, 0, 256);
    invalidate(&shared, 0, 256);
    const int survive = shared.mapped[0] == 0x01010101 && shared.mapped[15] == 0x01010101 && shared.mapped[16] == 0x02020202;
    bytes_destroy(&shared);
    teardown();
    return survive;
}

/* One queue writes, another reads; without the wait nothing orders them. Gives whether the reader saw the writer's words. */
static int two_queues(int waits) {
    setup(1, 2);
    struct bytes data = bytes_create(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    struct bytes down = bytes_create(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo semaphore_info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkSemaphore written, read;
    MUST(vkCreateSemaphore(device, &semaphore_info, NULL, &written));
    MUST(vkCreateSemaphore(device, &semaphore_info, NULL, &read));
    const uint64_t one = 1;
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                            .waitSemaphoreValueCount = 1, .pWaitSemaphoreValues = &one,
                                            .signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &one};
    VkCommandBuffer writing = record(VK_NULL_HANDLE, data.buffer, 7, BYTES), reading = record(data.buffer, down.buffer, 0, BYTES);
    VkSubmitInfo write = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values, .commandBufferCount = 1,
                          .pCommandBuffers = &writing, .signalSemaphoreCount = 1, .pSignalSemaphores = &written};
    VkSubmitInfo then_read = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values, .commandBufferCount = 1,
                              .pCommandBuffers = &reading, .waitSemaphoreCount = waits ? 1 : 0, .pWaitSemaphores = &written,
                              .pWaitDstStageMask = &stage, .signalSemaphoreCount = 1, .pSignalSemaphores = &read};
    MUST(vkQueueSubmit(queues[0], 1, &write, VK_NULL_HANDLE));
    MUST(vkQueueSubmit(queues[1], 1, &then_read, VK_NULL_HANDLE));
    VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1, .pSemaphores = &read,
                                .pValues = &one};
    MUST(vkWaitSemaphores(device, &wait, UINT64_MAX));
    MUST(vkDeviceWaitIdle(device));
    const int seen = down.mapped[0] == 7 && down.mapped[WORDS - 1] == 7;
    vkDestroySemaphore(device, written, NULL);
    vkDestroySemaphore(device, read, NULL);
    bytes_destroy(&data);
    bytes_destroy(&down);
    teardown();
    return seen;
}

static int refuses_what_is_optional(void) {
    const VkPhysicalDeviceFeatures wide = {.shaderInt64 = VK_TRUE}, robust = {.robustBufferAccess = VK_TRUE};
    uint32_t extensions = 99;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    vkGetPhysicalDeviceProperties(physical, &properties);
    vkGetPhysicalDeviceFeatures2(physical, &features);
    MUST(vkEnumerateDeviceExtensionProperties(physical, NULL, &extensions, NULL));
    int wrong = VK_API_VERSION_MINOR(properties.apiVersion) != 2 || extensions != 0 || features.features.shaderInt64 ||
                !features.features.robustBufferAccess;
    wrong |= device_create(NULL, &wide, 1) != VK_ERROR_FEATURE_NOT_PRESENT;
    wrong |= device_create(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME, &robust, 1) != VK_ERROR_EXTENSION_NOT_PRESENT;
    MUST(device_create(NULL, &robust, 1));
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return !wrong;
}

static int counts_allocations(void) {
    static VkDeviceMemory memory[5000];
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = 256};
    int count = 0;
    VkResult result = VK_SUCCESS;
    setup(0, 1);
    while (count < 5000 && (result = vkAllocateMemory(device, &info, NULL, &memory[count])) == VK_SUCCESS) count++;
    for (int i = 0; i < count; i++) vkFreeMemory(device, memory[i], NULL);
    teardown();
    return count == 4096 && result == VK_ERROR_TOO_MANY_OBJECTS;
}

int main(int argc, char **argv) {
    const char *mode = argc == 2 ? argv[1] : "";
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    uint32_t count = 1;
    MUST(vkCreateInstance(&instance_info, NULL, &instance));
    const VkResult found = vkEnumeratePhysicalDevices(instance, &count, &physical);
    if ((found != VK_SUCCESS && found != VK_INCOMPLETE) || count == 0) {
        fprintf(stderr, "canary: no device\n");
        return 2;
    }
#define MODE(name, holds) \
    if (strcmp(mode, name) == 0) return !(holds)
    MODE("round_trip", round_trip(2, 2, 2) == WORDS);
    MODE("no_flush", round_trip(0, 1, 1) == 0);
    MODE("no_invalidate", round_trip(1, 0, 1) == 0);
    MODE("no_second_invalidate", round_trip(2, 1, 2) == 0);
    MODE("neighbours", neighbours_survive(1));
    MODE("spoilt_neighbours", !neighbours_survive(0));
    MODE("ordered_queues", two_queues(1));
    MODE("unordered_queues", !two_queues(0));
    MODE("optional", refuses_what_is_optional());
    MODE("allocations", counts_allocations());
    if (strcmp(mode, "mapped_local") == 0) {
        setup(0, 1);
        void *mapped;
        struct bytes local = bytes_create(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
        const VkResult result = vkMapMemory(device, local.memory, 0, VK_WHOLE_SIZE, 0, &mapped);
        bytes_destroy(&local);
        teardown();
        return result != VK_ERROR_MEMORY_MAP_FAILED;
    }
    if (strcmp(mode, "odd_flush") == 0) {
        setup(0, 1);
        const struct bytes up = bytes_create(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
        flush(&up, 64, 64);
        return 1;
    }
    if (strcmp(mode, "leak") == 0) {
        setup(0, 1);
        bytes_create(VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
        teardown();
        return 1;
    }
    fprintf(stderr, "canary: there is no mode '%s'\n", mode);
    return 2;
}
