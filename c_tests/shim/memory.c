/* Memory, and in the profile `discrete` the two views of it: the device's bytes and the host's shadow of them.
 *
 * A flush carries the host's bytes to the device, an invalidate the device's to the host, each for exactly its range; a
 * missing one therefore leaves wrong bytes. What the host cannot know is a pattern that depends on the place: all of a
 * new mapping, and whatever submitted copies and fills write. An atom that is all pattern was never written by the host,
 * and a flush leaves it alone, as hardware does with a clean cache line; one that is partly pattern goes over whole, and
 * spoils what the device had beside the host's bytes. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* Beyond this much of an allocation, garbage is not worth its page faults. */
enum { GARBAGE_MOST = 64 << 20, GARBAGE = 0xb5 };

struct memory {
    struct device *device;
    VkDeviceMemory handle;
    uint64_t size;
    uint32_t type; /* as presented */
    unsigned char *real;   /* `discrete`, host-visible: the real bytes, mapped for good */
    unsigned char *shadow; /* `discrete`, while mapped: for the whole allocation, from offset 0 */
    uint64_t map_offset, map_size;
};

struct buffer {
    struct memory *memory;
    uint64_t offset, size;
};

struct pool;
struct commands {
    struct device *device;
    struct pool *pool;
    struct commands *sibling;
    VkCommandBuffer handle;
    struct written *written;
    size_t written_count, written_room;
};
struct pool {
    struct commands *first;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct map memories, buffers, all_commands, pools;

static void *must(void *allocated) {
    if (!allocated) complain("out of memory");
    return allocated;
}

static void *find(const struct map *map, uint64_t key, const char *what) {
    void *found = map_get(map, key);
    if (!found) complain("a %s that is not there", what);
    return found;
}

/* ---- the pattern ---- */

static uint64_t pattern_at(uint64_t word) { return (word + 1) * UINT64_C(0xd1b54a32d192ed03) ^ UINT64_C(0x9e3779b97f4a7c15); }

static void poison(unsigned char *base, uint64_t offset, uint64_t size) {
    const uint64_t end = offset + size;
    while (offset < end) {
        const uint64_t word = pattern_at(offset / 8), skip = offset % 8;
        const uint64_t bytes = 8 - skip < end - offset ? 8 - skip : end - offset;
        memcpy(base + offset, (const unsigned char *)&word + skip, bytes);
        offset += bytes;
    }
}

static bool is_poison(const unsigned char *base, uint64_t offset, uint64_t end) {
    for (; offset < end; offset += 8) {
        const uint64_t word = pattern_at(offset / 8);
        if (memcmp(base + offset, &word, end - offset < 8 ? end - offset : 8) != 0) return false;
    }
    return true;
}

/* ---- allocations ---- */

static bool is_visible(uint32_t type) {
    return presented_memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
}

static uint32_t heap_of(uint32_t type) { return presented_memory.memoryTypes[type].heapIndex; }

VKAPI_ATTR VkResult VKAPI_CALL shim_AllocateMemory(VkDevice handle, const VkMemoryAllocateInfo *info,
                                                   const VkAllocationCallbacks *callbacks, VkDeviceMemory *out) {
    BEFORE(AllocateMemory);
    struct device *device = device_of(handle);
    if (info->memoryTypeIndex >= presented_memory.memoryTypeCount) complain("memory type %u", info->memoryTypeIndex);
    if (atomic_load(&device->live[KIND_memory]) >= device->max_allocations) return VK_ERROR_TOO_MANY_OBJECTS;
    const uint64_t size = info->allocationSize;
    if (profile.smallest && size > UINT64_C(1) << 30) return VK_ERROR_OUT_OF_DEVICE_MEMORY;

    VkMemoryAllocateInfo asked = *info;
    const uint32_t heap = heap_of(info->memoryTypeIndex);
    if (profile.discrete) {
        asked.memoryTypeIndex = real_memory_type();
        const uint64_t used = atomic_fetch_add(&heap_used[heap], size);
        if (size > presented_memory.memoryHeaps[heap].size || used > presented_memory.memoryHeaps[heap].size - size) {
            atomic_fetch_sub(&heap_used[heap], size);
            return VK_ERROR_OUT_OF_DEVICE_MEMORY;
        }
    }
    const VkResult result = device->next.AllocateMemory(handle, &asked, callbacks, out);
    if (result != VK_SUCCESS) {
        if (profile.discrete) atomic_fetch_sub(&heap_used[heap], size);
        return result;
    }
    count_object(device, KIND_memory, 1);
    struct memory *memory = must(calloc(1, sizeof *memory));
    *memory = (struct memory){.device = device, .handle = *out, .size = size, .type = info->memoryTypeIndex};
    void *real = NULL;
    if (device->next.MapMemory(handle, *out, 0, VK_WHOLE_SIZE, 0, &real) != VK_SUCCESS) complain("real memory cannot be mapped");
    memset(real, GARBAGE, size < GARBAGE_MOST ? size : GARBAGE_MOST);
    if (profile.discrete && is_visible(memory->type))
        memory->real = real;
    else
        device->next.UnmapMemory(handle, *out);
    pthread_mutex_lock(&lock);
    map_put(&memories, KEY(*out), memory);
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL shim_FreeMemory(VkDevice handle, VkDeviceMemory freed, const VkAllocationCallbacks *callbacks) {
    before(ENTRY_FreeMemory);
    struct device *device = device_of(handle);
    if (freed != VK_NULL_HANDLE) {
        pthread_mutex_lock(&lock);
        struct memory *memory = map_take(&memories, KEY(freed));
        pthread_mutex_unlock(&lock);
        if (!memory) complain("memory that is not there was freed");
        if (memory->real) device->next.UnmapMemory(handle, freed);
        if (profile.discrete) atomic_fetch_sub(&heap_used[heap_of(memory->type)], memory->size);
        free(memory->shadow);
        free(memory);
        count_object(device, KIND_memory, -1);
    }
    device->next.FreeMemory(handle, freed, callbacks);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_MapMemory(VkDevice handle, VkDeviceMemory mapped, VkDeviceSize offset, VkDeviceSize size,
                                              VkMemoryMapFlags flags, void **out) {
    BEFORE(MapMemory);
    struct device *device = device_of(handle);
    if (!profile.discrete) return device->next.MapMemory(handle, mapped, offset, size, flags, out);
    pthread_mutex_lock(&lock);
    struct memory *memory = find(&memories, KEY(mapped), "memory");
    VkResult result = VK_ERROR_MEMORY_MAP_FAILED;
    if (memory->real) {
        if (memory->shadow) complain("memory is mapped twice");
        if (size == VK_WHOLE_SIZE) size = memory->size - offset;
        if (offset > memory->size || size == 0 || size > memory->size - offset) complain("mapped past the end");
        memory->shadow = must(aligned_alloc(4096, (size_t)((memory->size + 4095) / 4096 * 4096)));
        poison(memory->shadow, 0, memory->size);
        memory->map_offset = offset;
        memory->map_size = size;
        *out = memory->shadow + offset;
        result = VK_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

VKAPI_ATTR void VKAPI_CALL shim_UnmapMemory(VkDevice handle, VkDeviceMemory mapped) {
    before(ENTRY_UnmapMemory);
    struct device *device = device_of(handle);
    if (!profile.discrete) {
        device->next.UnmapMemory(handle, mapped);
        return;
    }
    pthread_mutex_lock(&lock);
    struct memory *memory = find(&memories, KEY(mapped), "memory");
    if (!memory->shadow) complain("memory that is not mapped was unmapped");
    free(memory->shadow);
    memory->shadow = NULL;
    pthread_mutex_unlock(&lock);
}

/* ---- flushes and invalidates ---- */

static struct memory *check_range(const VkMappedMemoryRange *range, const char *what, uint64_t *end) {
    struct memory *memory = find(&memories, KEY(range->memory), "memory");
    if (!memory->shadow) complain("%s of memory that is not mapped", what);
    const uint64_t map_end = memory->map_offset + memory->map_size;
    *end = range->size == VK_WHOLE_SIZE ? map_end : range->offset + range->size;
    if (range->offset < memory->map_offset || *end < range->offset || *end > map_end)
        complain("%s of %llu..%llu, mapped is %llu..%llu", what, (unsigned long long)range->offset, (unsigned long long)*end,
                 (unsigned long long)memory->map_offset, (unsigned long long)map_end);
    if (range->offset % ATOM != 0 || (*end % ATOM != 0 && *end != memory->size))
        complain("%s of %llu..%llu of %llu bytes: not whole atoms of %d", what, (unsigned long long)range->offset,
                 (unsigned long long)*end, (unsigned long long)memory->size, ATOM);
    return memory;
}

VKAPI_ATTR VkResult VKAPI_CALL shim_FlushMappedMemoryRanges(VkDevice handle, uint32_t count, const VkMappedMemoryRange *ranges) {
    BEFORE(FlushMappedMemoryRanges);
    if (!profile.discrete) return device_of(handle)->next.FlushMappedMemoryRanges(handle, count, ranges);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t end;
        struct memory *memory = check_range(&ranges[i], "a flush", &end);
        for (uint64_t atom = ranges[i].offset; atom < end; atom += ATOM) {
            const uint64_t atom_end = end - atom < ATOM ? end : atom + ATOM;
            if (!is_poison(memory->shadow, atom, atom_end))
                memcpy(memory->real + atom, memory->shadow + atom, atom_end - atom);
        }
    }
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL shim_InvalidateMappedMemoryRanges(VkDevice handle, uint32_t count,
                                                                 const VkMappedMemoryRange *ranges) {
    BEFORE(InvalidateMappedMemoryRanges);
    if (!profile.discrete) return device_of(handle)->next.InvalidateMappedMemoryRanges(handle, count, ranges);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t end;
        struct memory *memory = check_range(&ranges[i], "an invalidate", &end);
        memcpy(memory->shadow + ranges[i].offset, memory->real + ranges[i].offset, end - ranges[i].offset);
    }
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

/* ---- buffers ---- */

VKAPI_ATTR VkResult VKAPI_CALL shim_CreateBuffer(VkDevice handle, const VkBufferCreateInfo *info,
                                                 const VkAllocationCallbacks *callbacks, VkBuffer *out) {
    BEFORE(CreateBuffer);
    struct device *device = device_of(handle);
    VkBufferCreateInfo asked = *info;
    if (profile.two_families) { /* the real device has one family, and nothing to share between */
        asked.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
        asked.queueFamilyIndexCount = 0;
        asked.pQueueFamilyIndices = NULL;
    }
    const VkResult result = device->next.CreateBuffer(handle, &asked, callbacks, out);
    if (result != VK_SUCCESS) return result;
    count_object(device, KIND_buffer, 1);
    struct buffer *buffer = must(calloc(1, sizeof *buffer));
    buffer->size = info->size;
    pthread_mutex_lock(&lock);
    map_put(&buffers, KEY(*out), buffer);
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL shim_DestroyBuffer(VkDevice handle, VkBuffer destroyed, const VkAllocationCallbacks *callbacks) {
    before(ENTRY_DestroyBuffer);
    struct device *device = device_of(handle);
    if (destroyed != VK_NULL_HANDLE) {
        pthread_mutex_lock(&lock);
        free(map_take(&buffers, KEY(destroyed)));
        pthread_mutex_unlock(&lock);
        count_object(device, KIND_buffer, -1);
    }
    device->next.DestroyBuffer(handle, destroyed, callbacks);
}

static void present_requirements(VkMemoryRequirements *needs) {
    if (profile.discrete && needs->memoryTypeBits >> real_memory_type() & 1)
        needs->memoryTypeBits = (1u << presented_memory.memoryTypeCount) - 1;
}

VKAPI_ATTR void VKAPI_CALL shim_GetBufferMemoryRequirements(VkDevice handle, VkBuffer buffer, VkMemoryRequirements *out) {
    before(ENTRY_GetBufferMemoryRequirements);
    device_of(handle)->next.GetBufferMemoryRequirements(handle, buffer, out);
    present_requirements(out);
}

VKAPI_ATTR void VKAPI_CALL shim_GetBufferMemoryRequirements2(VkDevice handle, const VkBufferMemoryRequirementsInfo2 *info,
                                                             VkMemoryRequirements2 *out) {
    before(ENTRY_GetBufferMemoryRequirements2);
    device_of(handle)->next.GetBufferMemoryRequirements2(handle, info, out);
    present_requirements(&out->memoryRequirements);
}

VKAPI_ATTR void VKAPI_CALL shim_GetDeviceBufferMemoryRequirements(VkDevice handle,
                                                                  const VkDeviceBufferMemoryRequirements *info,
                                                                  VkMemoryRequirements2 *out) {
    before(ENTRY_GetDeviceBufferMemoryRequirements);
    device_of(handle)->next.GetDeviceBufferMemoryRequirements(handle, info, out);
    present_requirements(&out->memoryRequirements);
}

static void bind(VkBuffer bound, VkDeviceMemory to, VkDeviceSize offset) {
    pthread_mutex_lock(&lock);
    struct buffer *buffer = find(&buffers, KEY(bound), "buffer");
    buffer->memory = find(&memories, KEY(to), "memory");
    buffer->offset = offset;
    pthread_mutex_unlock(&lock);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_BindBufferMemory(VkDevice handle, VkBuffer buffer, VkDeviceMemory memory,
                                                     VkDeviceSize offset) {
    BEFORE(BindBufferMemory);
    const VkResult result = device_of(handle)->next.BindBufferMemory(handle, buffer, memory, offset);
    if (result == VK_SUCCESS) bind(buffer, memory, offset);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL shim_BindBufferMemory2(VkDevice handle, uint32_t count, const VkBindBufferMemoryInfo *infos) {
    BEFORE(BindBufferMemory2);
    const VkResult result = device_of(handle)->next.BindBufferMemory2(handle, count, infos);
    for (uint32_t i = 0; result == VK_SUCCESS && i < count; i++) bind(infos[i].buffer, infos[i].memory, infos[i].memoryOffset);
    return result;
}

/* ---- commands that write ---- */

VKAPI_ATTR VkResult VKAPI_CALL shim_CreateCommandPool(VkDevice handle, const VkCommandPoolCreateInfo *info,
                                                      const VkAllocationCallbacks *callbacks, VkCommandPool *out) {
    BEFORE(CreateCommandPool);
    struct device *device = device_of(handle);
    VkCommandPoolCreateInfo asked = *info;
    if (profile.two_families) asked.queueFamilyIndex = 0;
    const VkResult result = device->next.CreateCommandPool(handle, &asked, callbacks, out);
    if (result != VK_SUCCESS) return result;
    count_object(device, KIND_command_pool, 1);
    struct pool *pool = must(calloc(1, sizeof *pool));
    pthread_mutex_lock(&lock);
    map_put(&pools, KEY(*out), pool);
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

static void commands_free(struct commands *commands) {
    map_take(&all_commands, KEY(commands->handle));
    free(commands->written);
    free(commands);
}

VKAPI_ATTR void VKAPI_CALL shim_DestroyCommandPool(VkDevice handle, VkCommandPool destroyed,
                                                   const VkAllocationCallbacks *callbacks) {
    before(ENTRY_DestroyCommandPool);
    struct device *device = device_of(handle);
    if (destroyed != VK_NULL_HANDLE) {
        pthread_mutex_lock(&lock);
        struct pool *pool = map_take(&pools, KEY(destroyed));
        if (!pool) complain("a command pool that is not there was destroyed");
        while (pool->first) {
            struct commands *gone = pool->first;
            pool->first = gone->sibling;
            commands_free(gone);
        }
        free(pool);
        pthread_mutex_unlock(&lock);
        count_object(device, KIND_command_pool, -1);
    }
    device->next.DestroyCommandPool(handle, destroyed, callbacks);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_ResetCommandPool(VkDevice handle, VkCommandPool reset, VkCommandPoolResetFlags flags) {
    BEFORE(ResetCommandPool);
    pthread_mutex_lock(&lock);
    struct pool *pool = find(&pools, KEY(reset), "command pool");
    for (struct commands *each = pool->first; each; each = each->sibling) each->written_count = 0;
    pthread_mutex_unlock(&lock);
    return device_of(handle)->next.ResetCommandPool(handle, reset, flags);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_AllocateCommandBuffers(VkDevice handle, const VkCommandBufferAllocateInfo *info,
                                                           VkCommandBuffer *out) {
    for (uint32_t i = 0; i < info->commandBufferCount; i++) out[i] = VK_NULL_HANDLE;
    BEFORE(AllocateCommandBuffers);
    struct device *device = device_of(handle);
    const VkResult result = device->next.AllocateCommandBuffers(handle, info, out);
    if (result != VK_SUCCESS) return result;
    pthread_mutex_lock(&lock);
    struct pool *pool = find(&pools, KEY(info->commandPool), "command pool");
    for (uint32_t i = 0; i < info->commandBufferCount; i++) {
        struct commands *made = must(calloc(1, sizeof *made));
        *made = (struct commands){.device = device, .pool = pool, .sibling = pool->first, .handle = out[i]};
        pool->first = made;
        map_put(&all_commands, KEY(out[i]), made);
    }
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL shim_FreeCommandBuffers(VkDevice handle, VkCommandPool pool, uint32_t count,
                                                   const VkCommandBuffer *list) {
    before(ENTRY_FreeCommandBuffers);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] == VK_NULL_HANDLE) continue;
        struct commands *gone = find(&all_commands, KEY(list[i]), "command buffer");
        struct commands **link = &gone->pool->first;
        while (*link != gone) link = &(*link)->sibling;
        *link = gone->sibling;
        commands_free(gone);
    }
    pthread_mutex_unlock(&lock);
    device_of(handle)->next.FreeCommandBuffers(handle, pool, count, list);
}

static struct commands *commands_of(VkCommandBuffer handle) {
    pthread_mutex_lock(&lock);
    struct commands *commands = find(&all_commands, KEY(handle), "command buffer");
    pthread_mutex_unlock(&lock);
    return commands;
}

VKAPI_ATTR VkResult VKAPI_CALL shim_BeginCommandBuffer(VkCommandBuffer handle, const VkCommandBufferBeginInfo *info) {
    BEFORE(BeginCommandBuffer);
    struct commands *commands = commands_of(handle);
    commands->written_count = 0;
    return commands->device->next.BeginCommandBuffer(handle, info);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_EndCommandBuffer(VkCommandBuffer handle) {
    BEFORE(EndCommandBuffer);
    return commands_of(handle)->device->next.EndCommandBuffer(handle);
}

/* A command buffer is recorded by one thread at a time, so its list needs no lock. */
static void will_write(struct commands *commands, VkBuffer buffer, uint64_t offset, uint64_t size) {
    if (!profile.discrete) return;
    if (commands->written_count == commands->written_room) {
        commands->written_room = commands->written_room ? 2 * commands->written_room : 16;
        commands->written = must(realloc(commands->written, commands->written_room * sizeof *commands->written));
    }
    commands->written[commands->written_count++] = (struct written){buffer, offset, size};
}

VKAPI_ATTR void VKAPI_CALL shim_CmdCopyBuffer(VkCommandBuffer handle, VkBuffer from, VkBuffer to, uint32_t count,
                                              const VkBufferCopy *regions) {
    before(ENTRY_CmdCopyBuffer);
    struct commands *commands = commands_of(handle);
    for (uint32_t i = 0; i < count; i++) will_write(commands, to, regions[i].dstOffset, regions[i].size);
    commands->device->next.CmdCopyBuffer(handle, from, to, count, regions);
}

VKAPI_ATTR void VKAPI_CALL shim_CmdFillBuffer(VkCommandBuffer handle, VkBuffer to, VkDeviceSize offset, VkDeviceSize size,
                                              uint32_t data) {
    before(ENTRY_CmdFillBuffer);
    struct commands *commands = commands_of(handle);
    will_write(commands, to, offset, size);
    commands->device->next.CmdFillBuffer(handle, to, offset, size, data);
}

VKAPI_ATTR void VKAPI_CALL shim_CmdUpdateBuffer(VkCommandBuffer handle, VkBuffer to, VkDeviceSize offset, VkDeviceSize size,
                                                const void *data) {
    before(ENTRY_CmdUpdateBuffer);
    struct commands *commands = commands_of(handle);
    will_write(commands, to, offset, size);
    commands->device->next.CmdUpdateBuffer(handle, to, offset, size, data);
}

void memory_submitted(VkCommandBuffer handle) {
    if (!profile.discrete) return;
    pthread_mutex_lock(&lock);
    const struct commands *commands = find(&all_commands, KEY(handle), "command buffer");
    for (size_t i = 0; i < commands->written_count; i++) {
        const struct written *written = &commands->written[i];
        const struct buffer *buffer = find(&buffers, KEY(written->buffer), "buffer");
        if (!buffer->memory || !buffer->memory->shadow) continue;
        const uint64_t size = written->size == VK_WHOLE_SIZE ? buffer->size - written->offset : written->size;
        poison(buffer->memory->shadow, buffer->offset + written->offset, size);
    }
    pthread_mutex_unlock(&lock);
}
