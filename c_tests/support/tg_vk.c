#include "tg_vk.h"

tg_vk_handles vk_handles(tg_device dev) {
    tg_vk_handles handles = TG_VK_HANDLES_INIT;
    REQUIRE_OK(tg_vk_device_handles(dev, &handles));
    return handles;
}

PFN_vkVoidFunction vk_instance_function(tg_device dev, const char *name) {
    const tg_vk_handles handles = vk_handles(dev);
    const PFN_vkVoidFunction found = handles.get_instance_proc_addr(handles.instance, name);
    REQUIRE(found != NULL);
    return found;
}

PFN_vkVoidFunction vk_device_function(tg_device dev, const char *name) {
    const PFN_vkGetDeviceProcAddr get = (PFN_vkGetDeviceProcAddr)vk_instance_function(dev, "vkGetDeviceProcAddr");
    const PFN_vkVoidFunction found = get(vk_handles(dev).device, name);
    REQUIRE(found != NULL);
    return found;
}

VkSemaphore vk_timeline(tg_device dev, uint64_t value) {
    const PFN_vkCreateSemaphore create = (PFN_vkCreateSemaphore)vk_device_function(dev, "vkCreateSemaphore");
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
        .initialValue = value};
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkSemaphore semaphore = VK_NULL_HANDLE;
    REQUIRE(create(vk_handles(dev).device, &info, NULL, &semaphore) == VK_SUCCESS);
    return semaphore;
}

void vk_signal(tg_device dev, VkSemaphore semaphore, uint64_t value) {
    const PFN_vkSignalSemaphore signal = (PFN_vkSignalSemaphore)vk_device_function(dev, "vkSignalSemaphore");
    const VkSemaphoreSignalInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = semaphore, .value = value};
    REQUIRE(signal(vk_handles(dev).device, &info) == VK_SUCCESS);
}

void vk_destroy_semaphore(tg_device dev, VkSemaphore semaphore) {
    const PFN_vkDestroySemaphore destroy = (PFN_vkDestroySemaphore)vk_device_function(dev, "vkDestroySemaphore");
    destroy(vk_handles(dev).device, semaphore, NULL);
}
