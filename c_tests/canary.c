/* Proves that the validation the C tests run under sees hazards between command buffers, with no tidegate in between.
 *
 * A fill and a copy of its bytes, in two command buffers of one submit. `canary whole` puts a barrier between them and
 * must raise no message; `canary broken` leaves it out and must raise a synchronization hazard. Were submit-level
 * synchronization validation off, the second would pass silently, and so would a missing barrier of the library. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

static int messages, hazards;

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT type,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
    (void)severity, (void)type, (void)user;
    messages++;
    if (data->pMessageIdName && strstr(data->pMessageIdName, "SYNC-HAZARD")) hazards++;
    printf("message: %s: %s\n", data->pMessageIdName ? data->pMessageIdName : "?", data->pMessage);
    return VK_FALSE;
}

#define MUST(call)                                                     \
    do {                                                               \
        VkResult result_ = (call);                                     \
        if (result_ != VK_SUCCESS) {                                   \
            fprintf(stderr, "canary: %s gave %d\n", #call, result_);   \
            exit(2);                                                   \
        }                                                              \
    } while (0)

static VkBuffer buffer_create(VkPhysicalDevice physical, VkDevice device, VkDeviceMemory *memory) {
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = 4096,
                               .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    VkBuffer buffer;
    MUST(vkCreateBuffer(device, &info, NULL, &buffer));
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device, buffer, &needs);
    VkPhysicalDeviceMemoryProperties types;
    vkGetPhysicalDeviceMemoryProperties(physical, &types);
    uint32_t type = 0;
    while (type < types.memoryTypeCount && !(needs.memoryTypeBits >> type & 1)) type++;
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size,
                                     .memoryTypeIndex = type};
    MUST(vkAllocateMemory(device, &allocate, NULL, memory));
    MUST(vkBindBufferMemory(device, buffer, *memory, 0));
    return buffer;
}

int main(int argc, char **argv) {
    const int broken = argc == 2 && strcmp(argv[1], "broken") == 0;
    if (!broken && !(argc == 2 && strcmp(argv[1], "whole") == 0)) {
        fprintf(stderr, "usage: canary whole|broken\n");
        return 2;
    }

    const char *layer = "VK_LAYER_KHRONOS_validation";
    const char *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
    VkDebugUtilsMessengerCreateInfoEXT messenger_info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = on_message};
    VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application,
                                          .enabledLayerCount = 1, .ppEnabledLayerNames = &layer,
                                          .enabledExtensionCount = 1, .ppEnabledExtensionNames = &extension};
    VkInstance instance;
    MUST(vkCreateInstance(&instance_info, NULL, &instance));
    PFN_vkCreateDebugUtilsMessengerEXT create_messenger =
        (PFN_vkCreateDebugUtilsMessengerEXT)vkGetInstanceProcAddr(instance, "vkCreateDebugUtilsMessengerEXT");
    PFN_vkDestroyDebugUtilsMessengerEXT destroy_messenger =
        (PFN_vkDestroyDebugUtilsMessengerEXT)vkGetInstanceProcAddr(instance, "vkDestroyDebugUtilsMessengerEXT");
    VkDebugUtilsMessengerEXT messenger;
    MUST(create_messenger(instance, &messenger_info, NULL, &messenger));

    uint32_t count = 1;
    VkPhysicalDevice physical;
    VkResult found = vkEnumeratePhysicalDevices(instance, &count, &physical);
    if ((found != VK_SUCCESS && found != VK_INCOMPLETE) || count == 0) {
        fprintf(stderr, "canary: no device\n");
        return 2;
    }
    float priority = 1.0f;
    VkDeviceQueueCreateInfo queue_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1,
                                          .pQueuePriorities = &priority};
    VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1,
                                      .pQueueCreateInfos = &queue_info};
    VkDevice device;
    MUST(vkCreateDevice(physical, &device_info, NULL, &device));
    VkQueue queue;
    vkGetDeviceQueue(device, 0, 0, &queue);

    VkDeviceMemory memory[2];
    VkBuffer source = buffer_create(physical, device, &memory[0]);
    VkBuffer target = buffer_create(physical, device, &memory[1]);

    VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    VkCommandPool pool;
    MUST(vkCreateCommandPool(device, &pool_info, NULL, &pool));
    VkCommandBufferAllocateInfo commands_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool,
                                                 .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 2};
    VkCommandBuffer commands[2];
    MUST(vkAllocateCommandBuffers(device, &commands_info, commands));
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    MUST(vkBeginCommandBuffer(commands[0], &begin));
    vkCmdFillBuffer(commands[0], source, 0, 4096, 7);
    MUST(vkEndCommandBuffer(commands[0]));
    MUST(vkBeginCommandBuffer(commands[1], &begin));
    if (!broken) {
        VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                   .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT};
        vkCmdPipelineBarrier(commands[1], VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &barrier,
                             0, NULL, 0, NULL);
    }
    VkBufferCopy region = {.size = 4096};
    vkCmdCopyBuffer(commands[1], source, target, 1, &region);
    MUST(vkEndCommandBuffer(commands[1]));
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 2, .pCommandBuffers = commands};
    MUST(vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE));
    MUST(vkQueueWaitIdle(queue));

    vkDestroyCommandPool(device, pool, NULL);
    vkDestroyBuffer(device, source, NULL);
    vkDestroyBuffer(device, target, NULL);
    vkFreeMemory(device, memory[0], NULL);
    vkFreeMemory(device, memory[1], NULL);
    vkDestroyDevice(device, NULL);
    destroy_messenger(instance, messenger, NULL);
    vkDestroyInstance(instance, NULL);

    printf("canary: %d messages, %d of them hazards\n", messages, hazards);
    return broken ? !(hazards > 0 && hazards == messages) : messages != 0;
}
