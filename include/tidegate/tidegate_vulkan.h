/*
 * tidegate for programs that work with Vulkan themselves: a device's Vulkan objects, and streams that wait for the
 * program's own semaphores. Needs Vulkan's headers; tidegate.h does not. docs/vulkan.md is the page on it.
 */

#ifndef TIDEGATE_VULKAN_H
#define TIDEGATE_VULKAN_H

#include <tidegate/tidegate.h>
#include <vulkan/vulkan_core.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The signal of the value was made or submitted before the call, so the device may wait for it: nothing is held back
 * on the host. What is queued behind such a wait on the same VkQueue, other streams' work too, waits with it.
 */
#define TG_VK_SIGNAL_SUBMITTED (1 << 0)

/** The Vulkan objects behind a device. They belong to it. */
typedef struct tg_vk_handles {
    /** sizeof(tg_vk_handles). */
    size_t struct_size;
    /** The instance. */
    VkInstance instance;
    /** The physical device. */
    VkPhysicalDevice physical_device;
    /** The device. Features and extensions beyond what the library itself uses are not enabled. */
    VkDevice device;
    /** Where every function comes from: the caller's own, if the device was made with one. */
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    /** The version of Vulkan the device is used at, as VK_MAKE_API_VERSION. */
    uint32_t api_version;
    /** The family of the queues. */
    uint32_t queue_family;
    /** How many queues the library uses: 0 to queue_count - 1 of the family. */
    uint32_t queue_count;
    /** Always 0. */
    uint32_t reserved;
    /** Those queues; VK_NULL_HANDLE beyond queue_count. */
    VkQueue queues[4];
} tg_vk_handles;

/** Every member of tg_vk_handles at its default. */
#define TG_VK_HANDLES_INIT { \
    /* struct_size */ sizeof(tg_vk_handles), \
    /* instance */ VK_NULL_HANDLE, \
    /* physical_device */ VK_NULL_HANDLE, \
    /* device */ VK_NULL_HANDLE, \
    /* get_instance_proc_addr */ NULL, \
    /* api_version */ 0, \
    /* queue_family */ 0, \
    /* queue_count */ 0, \
    /* reserved */ 0, \
    /* queues */ { VK_NULL_HANDLE, VK_NULL_HANDLE, VK_NULL_HANDLE, VK_NULL_HANDLE } \
}

/**
 * Tells which Vulkan objects a device is made of.
 *
 * They are for looking and for objects of the caller's own on the same VkDevice: creating and destroying them,
 * vkSignalSemaphore, vkWaitSemaphores, vkGetSemaphoreCounterValue and whatever else asks for no external
 * synchronization of the VkDevice or of a queue. The queues are the library's, which locks them only for itself: the
 * caller must not submit to them and must not call vkQueueWaitIdle or vkDeviceWaitIdle. Nothing of the library's may
 * be destroyed. What the caller made on the device must be gone before tg_device_destroy.
 *
 * \param dev The device. The objects live as long as it does.
 * \param out Filled on TG_OK, up to its struct_size.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_vk_device_handles(tg_device dev, tg_vk_handles *out);

/**
 * Makes what is enqueued on a stream from now on wait until a timeline semaphore of the caller's has reached a value.
 *
 * What the stream has so far is submitted first, and does not wait. What comes later stays on the host until the value
 * is reached: no queue stands still for it, so other streams go on, and it may be the host that signals. What shares
 * bytes with it stays back behind it, whichever stream it is on, and so does what those streams enqueue afterwards, a
 * read that ended by its timeout too. Nothing blocks meanwhile. Waits end by their timeout, and a call answers
 * TG_NOT_READY, with nothing changed, where only the held work could make room: tg_device_desc::max_pending pieces are
 * unfinished, or the stream's staging memory or the device's memory is full of it. Nobody tells the library of a
 * signal; the next call that flushes or waits, on any stream, sends off what it let go.
 *
 * \param dev The device.
 * \param stream The stream that waits; any number. Streams that share its backend stream wait too.
 * \param semaphore A timeline semaphore of the VkDevice in tg_vk_handles; not VK_NULL_HANDLE. It must live until it has
 *        reached the value and a tg_stream_wait for the stream, or a tg_device_wait, that began afterwards has
 *        returned TG_OK; on a lost device, until no call but tg_device_destroy follows.
 * \param value What it has to reach. A value that was reached already holds nothing up.
 * \param flags TG_VK_SIGNAL_* added together.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND,
 *          TG_ERROR_STALE_HANDLE; TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER when
 *          the backend stream cannot be made, and then nothing waits, or when the driver refuses what the stream had
 *          so far, and then what comes later waits all the same; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread.
 * \claims As tg_stream_flush.
 */
TG_API tg_result tg_vk_stream_wait_semaphore(tg_device dev, uint64_t stream, VkSemaphore semaphore, uint64_t value,
    uint64_t flags);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TIDEGATE_VULKAN_H */
