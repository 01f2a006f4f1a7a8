/* Timeline semaphores of the test's own, on a device of the library's. */
#ifndef TG_VK_H
#define TG_VK_H

#include "tg_test.h"

#include <tidegate/tidegate_vulkan.h>

/* Where a function is looked for; each ends the test when it cannot be had. */
tg_vk_handles vk_handles(tg_device dev);
PFN_vkVoidFunction vk_instance_function(tg_device dev, const char *name);
PFN_vkVoidFunction vk_device_function(tg_device dev, const char *name);

/* The caller destroys it before the device. */
VkSemaphore vk_timeline(tg_device dev, uint64_t value);
void vk_signal(tg_device dev, VkSemaphore semaphore, uint64_t value);
void vk_destroy_semaphore(tg_device dev, VkSemaphore semaphore);

#endif
