/* What is presented: limits, features, extensions, memory and queue families. */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct profile profile;
_Atomic uint64_t heap_used[2];

static const struct {
    const char *name;
    bool *flag;
} names[] = {
    {"plain", NULL},
    {"discrete", &profile.discrete},
    {"smallest", &profile.smallest},
    {"bare", &profile.bare},
    {"two_families", &profile.two_families},
};

void profile_parse(const char *text) {
    char copy[256];
    snprintf(copy, sizeof copy, "%s", text ? text : "");
    char *rest = copy;
    for (char *word; (word = strtok_r(rest, ",", &rest));) {
        size_t i = 0;
        while (i < sizeof names / sizeof *names && strcmp(word, names[i].name) != 0) i++;
        if (i == sizeof names / sizeof *names) complain("TG_TEST_PROFILE: there is no profile %s", word);
        if (names[i].flag) *names[i].flag = true;
    }
}

int tg_shim_presents(const char *name) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) return names[i].flag ? *names[i].flag : 1;
    complain("there is no profile %s", name);
}

/* ---- limits ---- */

static void at_most(uint32_t *limit, uint32_t value) {
    if (*limit > value) *limit = value;
}

/* "Required Limits" of the Vulkan specification, for what compute can meet. */
static void smallest_limits(VkPhysicalDeviceLimits *limits) {
    at_most(&limits->maxTexelBufferElements, 65536);
    at_most(&limits->maxUniformBufferRange, 16384);
    at_most(&limits->maxStorageBufferRange, 1u << 27);
    at_most(&limits->maxPushConstantsSize, 128);
    at_most(&limits->maxMemoryAllocationCount, 4096);
    at_most(&limits->maxSamplerAllocationCount, 4000);
    limits->bufferImageGranularity = 131072;
    at_most(&limits->maxBoundDescriptorSets, 4);
    at_most(&limits->maxPerStageDescriptorSamplers, 16);
    at_most(&limits->maxPerStageDescriptorUniformBuffers, 12);
    at_most(&limits->maxPerStageDescriptorStorageBuffers, 4);
    at_most(&limits->maxPerStageDescriptorSampledImages, 16);
    at_most(&limits->maxPerStageDescriptorStorageImages, 4);
    at_most(&limits->maxPerStageDescriptorInputAttachments, 4);
    at_most(&limits->maxPerStageResources, 128);
    at_most(&limits->maxDescriptorSetSamplers, 96);
    at_most(&limits->maxDescriptorSetUniformBuffers, 72);
    at_most(&limits->maxDescriptorSetUniformBuffersDynamic, 8);
    at_most(&limits->maxDescriptorSetStorageBuffers, 24);
    at_most(&limits->maxDescriptorSetStorageBuffersDynamic, 4);
    at_most(&limits->maxDescriptorSetSampledImages, 96);
    at_most(&limits->maxDescriptorSetStorageImages, 24);
    at_most(&limits->maxDescriptorSetInputAttachments, 4);
    at_most(&limits->maxComputeSharedMemorySize, 16384);
    for (int i = 0; i < 3; i++) at_most(&limits->maxComputeWorkGroupCount[i], 65535);
    at_most(&limits->maxComputeWorkGroupInvocations, 128);
    at_most(&limits->maxComputeWorkGroupSize[0], 128);
    at_most(&limits->maxComputeWorkGroupSize[1], 128);
    at_most(&limits->maxComputeWorkGroupSize[2], 64);
    limits->minMemoryMapAlignment = 64;
    limits->minTexelBufferOffsetAlignment = 256;
    limits->minUniformBufferOffsetAlignment = 256;
    limits->minStorageBufferOffsetAlignment = 256;
    limits->optimalBufferCopyOffsetAlignment = 256;
    limits->optimalBufferCopyRowPitchAlignment = 256;
    limits->nonCoherentAtomSize = 256;
}

static void present_properties(VkPhysicalDeviceProperties *properties) {
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
    snprintf(name, sizeof name, "%.120s%s%s%s%s", properties->deviceName, profile.discrete ? " discrete" : "",
             profile.smallest ? " smallest" : "", profile.bare ? " bare" : "", profile.two_families ? " two_families" : "");
    memcpy(properties->deviceName, name, sizeof name);
    if (profile.smallest) smallest_limits(&properties->limits);
    if (profile.discrete) {
        properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
        properties->limits.nonCoherentAtomSize = ATOM;
    }
    if (profile.bare && properties->apiVersion > VK_API_VERSION_1_2)
        properties->apiVersion = VK_MAKE_API_VERSION(0, 1, 2, VK_HEADER_VERSION);
}

VKAPI_ATTR void VKAPI_CALL shim_GetPhysicalDeviceProperties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *out) {
    before(ENTRY_GetPhysicalDeviceProperties);
    next.GetPhysicalDeviceProperties(physical, out);
    present_properties(out);
}

VKAPI_ATTR void VKAPI_CALL shim_GetPhysicalDeviceProperties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *out) {
    before(ENTRY_GetPhysicalDeviceProperties2);
    next.GetPhysicalDeviceProperties2(physical, out);
    present_properties(&out->properties);
    if (!profile.smallest) return;
    const VkDeviceSize allocation = (VkDeviceSize)1 << 30;
    for (VkBaseOutStructure *each = out->pNext; each; each = each->pNext) {
        switch ((int)each->sType) {
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES: {
            VkPhysicalDeviceVulkan11Properties *p = (void *)each;
            p->subgroupSupportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT;
            at_most(&p->maxPerSetDescriptors, 1024);
            if (p->maxMemoryAllocationSize > allocation) p->maxMemoryAllocationSize = allocation;
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES:
            ((VkPhysicalDeviceSubgroupProperties *)each)->supportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES: {
            VkPhysicalDeviceMaintenance3Properties *p = (void *)each;
            at_most(&p->maxPerSetDescriptors, 1024);
            if (p->maxMemoryAllocationSize > allocation) p->maxMemoryAllocationSize = allocation;
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES: {
            VkPhysicalDeviceMaintenance4Properties *p = (void *)each;
            if (p->maxBufferSize > allocation) p->maxBufferSize = allocation;
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES: {
            VkPhysicalDeviceVulkan13Properties *p = (void *)each;
            if (p->maxBufferSize > allocation) p->maxBufferSize = allocation;
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR:
            at_most(&((VkPhysicalDevicePushDescriptorPropertiesKHR *)each)->maxPushDescriptors, 32);
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_PROPERTIES:
            ((VkPhysicalDeviceTimelineSemaphoreProperties *)each)->maxTimelineSemaphoreValueDifference = INT32_MAX;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES:
            ((VkPhysicalDeviceVulkan12Properties *)each)->maxTimelineSemaphoreValueDifference = INT32_MAX;
            break;
        default: break;
        }
    }
}

/* ---- features ---- */

/* The feature structs of Vulkan 1.2: nothing but VkBool32 behind sType and pNext, and no padding counted. */
static const struct {
    VkStructureType type;
    size_t size;
} feature_structs[] = {
#define FEATURES(TYPE, Name, last)                           \
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##TYPE##_FEATURES,    \
     offsetof(VkPhysicalDevice##Name##Features, last) + sizeof(VkBool32)}
    FEATURES(VULKAN_1_1, Vulkan11, shaderDrawParameters),
    FEATURES(VULKAN_1_2, Vulkan12, subgroupBroadcastDynamicId),
    FEATURES(16BIT_STORAGE, 16BitStorage, storageInputOutput16),
    FEATURES(MULTIVIEW, Multiview, multiviewTessellationShader),
    FEATURES(VARIABLE_POINTERS, VariablePointers, variablePointers),
    FEATURES(PROTECTED_MEMORY, ProtectedMemory, protectedMemory),
    FEATURES(SAMPLER_YCBCR_CONVERSION, SamplerYcbcrConversion, samplerYcbcrConversion),
    FEATURES(SHADER_DRAW_PARAMETERS, ShaderDrawParameters, shaderDrawParameters),
    FEATURES(8BIT_STORAGE, 8BitStorage, storagePushConstant8),
    FEATURES(SHADER_ATOMIC_INT64, ShaderAtomicInt64, shaderSharedInt64Atomics),
    FEATURES(SHADER_FLOAT16_INT8, ShaderFloat16Int8, shaderInt8),
    FEATURES(DESCRIPTOR_INDEXING, DescriptorIndexing, runtimeDescriptorArray),
    FEATURES(SCALAR_BLOCK_LAYOUT, ScalarBlockLayout, scalarBlockLayout),
    FEATURES(IMAGELESS_FRAMEBUFFER, ImagelessFramebuffer, imagelessFramebuffer),
    FEATURES(UNIFORM_BUFFER_STANDARD_LAYOUT, UniformBufferStandardLayout, uniformBufferStandardLayout),
    FEATURES(SHADER_SUBGROUP_EXTENDED_TYPES, ShaderSubgroupExtendedTypes, shaderSubgroupExtendedTypes),
    FEATURES(SEPARATE_DEPTH_STENCIL_LAYOUTS, SeparateDepthStencilLayouts, separateDepthStencilLayouts),
    FEATURES(HOST_QUERY_RESET, HostQueryReset, hostQueryReset),
    FEATURES(TIMELINE_SEMAPHORE, TimelineSemaphore, timelineSemaphore),
    FEATURES(BUFFER_DEVICE_ADDRESS, BufferDeviceAddress, bufferDeviceAddressMultiDevice),
    FEATURES(VULKAN_MEMORY_MODEL, VulkanMemoryModel, vulkanMemoryModelAvailabilityVisibilityChains),
#undef FEATURES
};

static size_t feature_size(VkStructureType type) {
    for (size_t i = 0; i < sizeof feature_structs / sizeof *feature_structs; i++)
        if (feature_structs[i].type == type) return feature_structs[i].size;
    return 0;
}

static void restrict_core(VkPhysicalDeviceFeatures *features) {
    const VkBool32 robust = features->robustBufferAccess;
    memset(features, 0, sizeof *features);
    features->robustBufferAccess = robust;
}

static void restrict_struct(VkBaseOutStructure *features, size_t size) {
    VkBool32 timeline = VK_FALSE;
    if (features->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)
        timeline = ((VkPhysicalDeviceVulkan12Features *)features)->timelineSemaphore;
    if (features->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES)
        timeline = ((VkPhysicalDeviceTimelineSemaphoreFeatures *)features)->timelineSemaphore;
    memset(features + 1, 0, size - sizeof *features);
    if (features->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)
        ((VkPhysicalDeviceVulkan12Features *)features)->timelineSemaphore = timeline;
    if (features->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES)
        ((VkPhysicalDeviceTimelineSemaphoreFeatures *)features)->timelineSemaphore = timeline;
}

VKAPI_ATTR void VKAPI_CALL shim_GetPhysicalDeviceFeatures(VkPhysicalDevice physical, VkPhysicalDeviceFeatures *out) {
    before(ENTRY_GetPhysicalDeviceFeatures);
    next.GetPhysicalDeviceFeatures(physical, out);
    if (profile.bare) restrict_core(out);
}

VKAPI_ATTR void VKAPI_CALL shim_GetPhysicalDeviceFeatures2(VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *out) {
    before(ENTRY_GetPhysicalDeviceFeatures2);
    if (!profile.bare) {
        next.GetPhysicalDeviceFeatures2(physical, out);
        return;
    }
    /* A driver leaves structs it does not know as they are, so the real one must not see them. */
    VkBaseOutStructure *all[64], *known[64];
    size_t all_count = 0, known_count = 0;
    for (VkBaseOutStructure *each = out->pNext; each; each = each->pNext) {
        if (all_count == 64) complain("a chain of more than 64 structs");
        all[all_count++] = each;
        if (feature_size(each->sType) > 0) known[known_count++] = each;
    }
    out->pNext = known_count > 0 ? known[0] : NULL;
    for (size_t i = 0; i < known_count; i++) known[i]->pNext = i + 1 < known_count ? known[i + 1] : NULL;
    next.GetPhysicalDeviceFeatures2(physical, out);
    restrict_core(&out->features);
    for (size_t i = 0; i < known_count; i++) restrict_struct(known[i], feature_size(known[i]->sType));
    out->pNext = all_count > 0 ? all[0] : NULL;
    for (size_t i = 0; i < all_count; i++) all[i]->pNext = i + 1 < all_count ? all[i + 1] : NULL;
}

VkResult profile_check_features(const VkDeviceCreateInfo *info) {
    if (!profile.bare) return VK_SUCCESS;
    VkPhysicalDeviceFeatures core = {0}, allowed;
    if (info->pEnabledFeatures) core = *info->pEnabledFeatures;
    for (const VkBaseInStructure *each = info->pNext; each; each = each->pNext) {
        switch ((int)each->sType) {
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2:
            core = ((const VkPhysicalDeviceFeatures2 *)each)->features;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES:
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT:
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FAULT_FEATURES_EXT:
            return VK_ERROR_FEATURE_NOT_PRESENT;
        default: {
            const size_t size = feature_size(each->sType);
            union {
                VkBaseOutStructure base;
                VkPhysicalDeviceVulkan12Features largest;
            } asked, kept;
            if (size == 0) break;
            memcpy(&asked, each, size);
            memcpy(&kept, each, size);
            restrict_struct(&kept.base, size);
            if (memcmp(&asked, &kept, size) != 0) return VK_ERROR_FEATURE_NOT_PRESENT;
        }
        }
    }
    allowed = core;
    restrict_core(&allowed);
    return memcmp(&core, &allowed, sizeof core) == 0 ? VK_SUCCESS : VK_ERROR_FEATURE_NOT_PRESENT;
}

/* ---- extensions ---- */

VKAPI_ATTR VkResult VKAPI_CALL shim_EnumerateDeviceExtensionProperties(VkPhysicalDevice physical, const char *layer,
                                                                       uint32_t *count, VkExtensionProperties *out) {
    BEFORE(EnumerateDeviceExtensionProperties);
    if (layer || (!profile.bare && !profile.discrete))
        return next.EnumerateDeviceExtensionProperties(physical, layer, count, out);
    if (profile.bare) {
        *count = 0;
        return VK_SUCCESS;
    }
    uint32_t real = 0;
    VkResult result = next.EnumerateDeviceExtensionProperties(physical, NULL, &real, NULL);
    if (result != VK_SUCCESS) return result;
    VkExtensionProperties *list = calloc(real + 1, sizeof *list);
    if (!list) complain("out of memory");
    result = next.EnumerateDeviceExtensionProperties(physical, NULL, &real, list);
    if (result == VK_SUCCESS) {
        uint32_t total = 0;
        bool has_budget = false;
        for (uint32_t i = 0; i < real; i++)
            if (strcmp(list[i].extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME) == 0) has_budget = true;
        total = real;
        if (!has_budget) {
            strcpy(list[total].extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
            list[total++].specVersion = VK_EXT_MEMORY_BUDGET_SPEC_VERSION;
        }
        if (out) {
            const uint32_t room = *count < total ? *count : total;
            memcpy(out, list, room * sizeof *list);
            result = room < total ? VK_INCOMPLETE : VK_SUCCESS;
            *count = room;
        } else {
            *count = total;
        }
    }
    free(list);
    return result;
}

/* ---- memory ---- */

VkPhysicalDeviceMemoryProperties presented_memory;
static uint32_t real_type;
static pthread_once_t memory_once = PTHREAD_ONCE_INIT;
static VkPhysicalDevice memory_of;

uint32_t real_memory_type(void) { return real_type; }

/* The host's heap comes first and the device's type last, so that nothing can lean on index 0. */
static void find_memory(void) {
    VkPhysicalDeviceMemoryProperties real;
    next.GetPhysicalDeviceMemoryProperties(memory_of, &real);
    const VkMemoryPropertyFlags needed = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    while (real_type < real.memoryTypeCount && (real.memoryTypes[real_type].propertyFlags & needed) != needed) real_type++;
    if (real_type == real.memoryTypeCount) complain("the real device has no coherent memory to stand in for others");
    presented_memory = real;
    if (!profile.discrete) return;
    const VkDeviceSize size = real.memoryHeaps[real.memoryTypes[real_type].heapIndex].size;
    presented_memory = (VkPhysicalDeviceMemoryProperties){
        .memoryTypeCount = 3,
        .memoryTypes = {{VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, 0},
                        {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0},
                        {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 1}},
        .memoryHeapCount = 2,
        .memoryHeaps = {{size / 2, 0}, {size / 4 * 3, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}},
    };
}

void profile_memory(VkPhysicalDevice physical) {
    if (memory_of == VK_NULL_HANDLE) memory_of = physical;
    pthread_once(&memory_once, find_memory);
}

VKAPI_ATTR void VKAPI_CALL shim_GetPhysicalDeviceMemoryProperties(VkPhysicalDevice physical,
                                                                  VkPhysicalDeviceMemoryProperties *out) {
    before(ENTRY_GetPhysicalDeviceMemoryProperties);
    profile_memory(physical);
    *out = presented_memory;
}

VKAPI_ATTR void VKAPI_CALL shim_GetPhysicalDeviceMemoryProperties2(VkPhysicalDevice physical,
                                                                   VkPhysicalDeviceMemoryProperties2 *out) {
    before(ENTRY_GetPhysicalDeviceMemoryProperties2);
    profile_memory(physical);
    next.GetPhysicalDeviceMemoryProperties2(physical, out);
    out->memoryProperties = presented_memory;
    for (VkBaseOutStructure *each = out->pNext; each && profile.discrete; each = each->pNext) {
        if (each->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
        VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (void *)each;
        for (uint32_t heap = 0; heap < presented_memory.memoryHeapCount; heap++) {
            budget->heapUsage[heap] = atomic_load(&heap_used[heap]);
            budget->heapBudget[heap] = presented_memory.memoryHeaps[heap].size;
        }
    }
}

/* ---- queue families ---- */

static const VkQueueFamilyProperties families[] = {
    {VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT, 1, 0, {1, 1, 1}},
    {VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT, MAX_QUEUES, 0, {1, 1, 1}},
};

VKAPI_ATTR void VKAPI_CALL shim_GetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice physical, uint32_t *count,
                                                                       VkQueueFamilyProperties *out) {
    before(ENTRY_GetPhysicalDeviceQueueFamilyProperties);
    if (!profile.two_families) {
        next.GetPhysicalDeviceQueueFamilyProperties(physical, count, out);
        return;
    }
    if (out) memcpy(out, families, (*count < 2 ? *count : 2) * sizeof *out);
    if (!out || *count > 2) *count = 2;
}

VKAPI_ATTR void VKAPI_CALL shim_GetPhysicalDeviceQueueFamilyProperties2(VkPhysicalDevice physical, uint32_t *count,
                                                                        VkQueueFamilyProperties2 *out) {
    before(ENTRY_GetPhysicalDeviceQueueFamilyProperties2);
    if (!profile.two_families) {
        next.GetPhysicalDeviceQueueFamilyProperties2(physical, count, out);
        return;
    }
    for (uint32_t i = 0; out && i < *count && i < 2; i++) out[i].queueFamilyProperties = families[i];
    if (!out || *count > 2) *count = 2;
}
