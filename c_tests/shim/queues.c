/* Queues and semaphores.
 *
 * What the application holds are queues of the shim's own. With one family they hand everything on. In the profile
 * `two_families` several of them share the one real queue, which would run all work in the order of the calls and so
 * forgive every forgotten semaphore. So a submit is kept, and handed on only when somebody waits or asks: of the queues
 * whose first submit has all that it waits for, the one submitted last goes first. Only what the semaphores say is kept. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

/* More kept submits than this are not needed to turn an order round. */
enum { KEPT = 64 };

struct point {
    VkSemaphore semaphore;
    uint64_t value;
};

struct submission {
    struct submission *next;
    uint64_t sequence;
    struct point *waits, *signals;
    VkCommandBuffer *commands;
    uint32_t wait_count, signal_count, command_count;
    VkFence fence;
};

/* A timeline: the highest value whose signal was handed on, or made by the host. */
struct semaphore {
    bool is_timeline;
    uint64_t reached;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the map; taken inside a device's queue lock */
static struct map semaphores;

static void *must(void *allocated) {
    if (!allocated) complain("out of memory");
    return allocated;
}

static struct semaphore *semaphore_of(VkSemaphore handle) {
    struct semaphore *semaphore = map_get(&semaphores, KEY(handle));
    if (!semaphore) complain("a semaphore that is not there");
    return semaphore;
}

static bool has_reached(struct point point) {
    pthread_mutex_lock(&lock);
    const bool reached = semaphore_of(point.semaphore)->reached >= point.value;
    pthread_mutex_unlock(&lock);
    return reached;
}

static void reach(struct point point) {
    pthread_mutex_lock(&lock);
    struct semaphore *semaphore = semaphore_of(point.semaphore);
    if (point.value <= semaphore->reached)
        complain("a semaphore is signalled with %llu after %llu", (unsigned long long)point.value,
                 (unsigned long long)semaphore->reached);
    semaphore->reached = point.value;
    pthread_mutex_unlock(&lock);
}

/* ---- handing on; under the device's queue lock ---- */

static bool is_ready(const struct submission *submission) {
    for (uint32_t i = 0; i < submission->wait_count; i++)
        if (!has_reached(submission->waits[i])) return false;
    return true;
}

static void hand_on(struct device *device, struct queue *queue) {
    struct submission *submission = queue->first;
    uint64_t *values = must(calloc(submission->wait_count + submission->signal_count + 1, sizeof *values));
    VkSemaphore *handles = must(calloc(submission->wait_count + submission->signal_count + 1, sizeof *handles));
    VkPipelineStageFlags *stages = must(calloc(submission->wait_count + 1, sizeof *stages));
    const uint32_t waits = submission->wait_count;
    for (uint32_t i = 0; i < waits; i++) {
        handles[i] = submission->waits[i].semaphore;
        values[i] = submission->waits[i].value;
        stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    }
    for (uint32_t i = 0; i < submission->signal_count; i++) {
        handles[waits + i] = submission->signals[i].semaphore;
        values[waits + i] = submission->signals[i].value;
    }
    const VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = waits, .pWaitSemaphoreValues = values,
        .signalSemaphoreValueCount = submission->signal_count, .pSignalSemaphoreValues = values + waits};
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &timeline,
        .waitSemaphoreCount = waits, .pWaitSemaphores = handles, .pWaitDstStageMask = stages,
        .commandBufferCount = submission->command_count, .pCommandBuffers = submission->commands,
        .signalSemaphoreCount = submission->signal_count, .pSignalSemaphores = handles + waits};
    const VkResult result = device->next.QueueSubmit(device->real_queue, 1, &info, submission->fence);
    if (result != VK_SUCCESS) complain("the real queue refused a submit: %d", result);
    for (uint32_t i = 0; i < submission->signal_count; i++) reach(submission->signals[i]);
    queue->first = submission->next;
    if (!queue->first) queue->last = &queue->first;
    device->pending--;
    free(values);
    free(handles);
    free(stages);
    free(submission->waits);
    free(submission->signals);
    free(submission->commands);
    free(submission);
}

static bool hand_one_on(struct device *device) {
    struct queue *chosen = NULL;
    for (int family = 0; family < 2; family++) {
        for (int i = 0; i < MAX_QUEUES; i++) {
            struct queue *queue = &device->queues[family][i];
            if (queue->first && is_ready(queue->first) && (!chosen || queue->first->sequence > chosen->first->sequence))
                chosen = queue;
        }
    }
    if (chosen) hand_on(device, chosen);
    return chosen != NULL;
}

static void hand_all_on(struct device *device) {
    pthread_mutex_lock(&device->queue_lock);
    while (hand_one_on(device)) {}
    pthread_mutex_unlock(&device->queue_lock);
}

static void keep(struct queue *queue, struct submission *submission) {
    struct device *device = queue->device;
    pthread_mutex_lock(&device->queue_lock);
    submission->sequence = ++device->sequence;
    *queue->last = submission;
    queue->last = &submission->next;
    device->pending++;
    /* Whoever waits already looks no more. */
    while ((device->pending > KEPT || atomic_load(&device->waiters) > 0) && hand_one_on(device)) {}
    pthread_mutex_unlock(&device->queue_lock);
}

static struct submission *submission_new(uint32_t waits, uint32_t commands, uint32_t signals) {
    struct submission *made = must(calloc(1, sizeof *made));
    made->waits = must(calloc(waits + 1, sizeof *made->waits));
    made->commands = must(calloc(commands + 1, sizeof *made->commands));
    made->signals = must(calloc(signals + 1, sizeof *made->signals));
    made->wait_count = waits;
    made->command_count = commands;
    made->signal_count = signals;
    return made;
}

static void must_be_timeline(VkSemaphore handle) {
    pthread_mutex_lock(&lock);
    if (!semaphore_of(handle)->is_timeline) complain("two_families knows timeline semaphores only");
    pthread_mutex_unlock(&lock);
}

/* ---- queues ---- */

void queues_init(struct device *device) {
    pthread_mutex_init(&device->queue_lock, NULL);
    for (int family = 0; family < 2; family++) {
        for (int i = 0; i < MAX_QUEUES; i++) {
            struct queue *queue = &device->queues[family][i];
            set_loader_magic_value(queue);
            queue->device = device;
            queue->last = &queue->first;
        }
    }
    if (profile.two_families) device->next.GetDeviceQueue(device->handle, 0, 0, &device->real_queue);
}

void queues_destroy(struct device *device) {
    if (device->pending > 0) complain("a device is destroyed with %u submits that never ran", device->pending);
    pthread_mutex_destroy(&device->queue_lock);
}

static VkQueue queue_at(struct device *device, uint32_t family, uint32_t index) {
    if (family > 1 || index >= (profile.two_families && family == 0 ? 1 : MAX_QUEUES))
        complain("there is no queue %u of family %u", index, family);
    if (!profile.two_families) {
        if (family != 0 || index != 0) complain("queue %u of family %u is not followed", index, family);
        device->next.GetDeviceQueue(device->handle, 0, 0, &device->real_queue);
    }
    return (VkQueue)&device->queues[family][index];
}

VKAPI_ATTR void VKAPI_CALL shim_GetDeviceQueue(VkDevice handle, uint32_t family, uint32_t index, VkQueue *out) {
    before(ENTRY_GetDeviceQueue);
    *out = queue_at(device_of(handle), family, index);
}

VKAPI_ATTR void VKAPI_CALL shim_GetDeviceQueue2(VkDevice handle, const VkDeviceQueueInfo2 *info, VkQueue *out) {
    before(ENTRY_GetDeviceQueue2);
    *out = queue_at(device_of(handle), info->queueFamilyIndex, info->queueIndex);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_QueueSubmit(VkQueue handle, uint32_t count, const VkSubmitInfo *infos, VkFence fence) {
    BEFORE(QueueSubmit);
    struct queue *queue = (struct queue *)handle;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < infos[i].commandBufferCount; j++) memory_submitted(infos[i].pCommandBuffers[j]);
    if (!profile.two_families)
        return after(queue->device, queue->device->next.QueueSubmit(queue->device->real_queue, count, infos, fence));
    for (uint32_t i = 0; i < count || (i == 0 && fence != VK_NULL_HANDLE); i++) {
        static const VkSubmitInfo nothing = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO};
        const VkSubmitInfo *info = count > 0 ? &infos[i] : &nothing;
        const VkTimelineSemaphoreSubmitInfo *timeline = NULL;
        for (const VkBaseInStructure *each = info->pNext; each; each = each->pNext)
            if (each->sType == VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO) timeline = (const void *)each;
        struct submission *kept =
            submission_new(info->waitSemaphoreCount, info->commandBufferCount, info->signalSemaphoreCount);
        for (uint32_t j = 0; j < info->waitSemaphoreCount; j++) {
            must_be_timeline(info->pWaitSemaphores[j]);
            kept->waits[j] = (struct point){info->pWaitSemaphores[j], timeline->pWaitSemaphoreValues[j]};
        }
        for (uint32_t j = 0; j < info->signalSemaphoreCount; j++) {
            must_be_timeline(info->pSignalSemaphores[j]);
            kept->signals[j] = (struct point){info->pSignalSemaphores[j], timeline->pSignalSemaphoreValues[j]};
        }
        if (info->commandBufferCount > 0)
            memcpy(kept->commands, info->pCommandBuffers, info->commandBufferCount * sizeof *kept->commands);
        kept->fence = i + 1 >= count ? fence : VK_NULL_HANDLE;
        keep(queue, kept);
    }
    return after(queue->device, VK_SUCCESS);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_QueueSubmit2(VkQueue handle, uint32_t count, const VkSubmitInfo2 *infos, VkFence fence) {
    BEFORE(QueueSubmit2);
    struct queue *queue = (struct queue *)handle;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < infos[i].commandBufferInfoCount; j++)
            memory_submitted(infos[i].pCommandBufferInfos[j].commandBuffer);
    if (!profile.two_families)
        return after(queue->device, queue->device->next.QueueSubmit2(queue->device->real_queue, count, infos, fence));
    for (uint32_t i = 0; i < count || (i == 0 && fence != VK_NULL_HANDLE); i++) {
        static const VkSubmitInfo2 nothing = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2};
        const VkSubmitInfo2 *info = count > 0 ? &infos[i] : &nothing;
        struct submission *kept =
            submission_new(info->waitSemaphoreInfoCount, info->commandBufferInfoCount, info->signalSemaphoreInfoCount);
        for (uint32_t j = 0; j < info->waitSemaphoreInfoCount; j++) {
            must_be_timeline(info->pWaitSemaphoreInfos[j].semaphore);
            kept->waits[j] = (struct point){info->pWaitSemaphoreInfos[j].semaphore, info->pWaitSemaphoreInfos[j].value};
        }
        for (uint32_t j = 0; j < info->signalSemaphoreInfoCount; j++) {
            must_be_timeline(info->pSignalSemaphoreInfos[j].semaphore);
            kept->signals[j] = (struct point){info->pSignalSemaphoreInfos[j].semaphore, info->pSignalSemaphoreInfos[j].value};
        }
        for (uint32_t j = 0; j < info->commandBufferInfoCount; j++)
            kept->commands[j] = info->pCommandBufferInfos[j].commandBuffer;
        kept->fence = i + 1 >= count ? fence : VK_NULL_HANDLE;
        keep(queue, kept);
    }
    return after(queue->device, VK_SUCCESS);
}

void queues_idle(struct device *device) {
    if (profile.two_families) hand_all_on(device);
    device->next.DeviceWaitIdle(device->handle);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_QueueWaitIdle(VkQueue handle) {
    BEFORE(QueueWaitIdle);
    struct device *device = ((struct queue *)handle)->device;
    if (profile.two_families) hand_all_on(device);
    return after(device, device->next.QueueWaitIdle(device->real_queue));
}

VKAPI_ATTR VkResult VKAPI_CALL shim_DeviceWaitIdle(VkDevice handle) {
    BEFORE(DeviceWaitIdle);
    struct device *device = device_of(handle);
    if (profile.two_families) hand_all_on(device);
    return device->next.DeviceWaitIdle(handle);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_SetDebugUtilsObjectNameEXT(VkDevice handle, const VkDebugUtilsObjectNameInfoEXT *info) {
    BEFORE(SetDebugUtilsObjectNameEXT);
    struct device *device = device_of(handle);
    VkDebugUtilsObjectNameInfoEXT named = *info;
    if (info->objectType == VK_OBJECT_TYPE_QUEUE) named.objectHandle = KEY(device->real_queue);
    return device->next.SetDebugUtilsObjectNameEXT(handle, &named);
}

/* ---- semaphores ---- */

VKAPI_ATTR VkResult VKAPI_CALL shim_CreateSemaphore(VkDevice handle, const VkSemaphoreCreateInfo *info,
                                                    const VkAllocationCallbacks *callbacks, VkSemaphore *out) {
    BEFORE(CreateSemaphore);
    struct device *device = device_of(handle);
    const VkResult result = device->next.CreateSemaphore(handle, info, callbacks, out);
    if (result != VK_SUCCESS) return result;
    count_object(device, KIND_semaphore, 1);
    struct semaphore *semaphore = must(calloc(1, sizeof *semaphore));
    for (const VkBaseInStructure *each = info->pNext; each; each = each->pNext) {
        const VkSemaphoreTypeCreateInfo *type = (const void *)each;
        if (each->sType != VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO) continue;
        semaphore->is_timeline = type->semaphoreType == VK_SEMAPHORE_TYPE_TIMELINE;
        semaphore->reached = type->initialValue;
    }
    pthread_mutex_lock(&lock);
    map_put(&semaphores, KEY(*out), semaphore);
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL shim_DestroySemaphore(VkDevice handle, VkSemaphore destroyed,
                                                 const VkAllocationCallbacks *callbacks) {
    before(ENTRY_DestroySemaphore);
    struct device *device = device_of(handle);
    if (destroyed != VK_NULL_HANDLE) {
        pthread_mutex_lock(&lock);
        free(map_take(&semaphores, KEY(destroyed)));
        pthread_mutex_unlock(&lock);
        count_object(device, KIND_semaphore, -1);
    }
    device->next.DestroySemaphore(handle, destroyed, callbacks);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_GetSemaphoreCounterValue(VkDevice handle, VkSemaphore semaphore, uint64_t *out) {
    BEFORE(GetSemaphoreCounterValue);
    struct device *device = device_of(handle);
    if (profile.two_families) { /* one, so that whoever asks again and again gets on */
        pthread_mutex_lock(&device->queue_lock);
        hand_one_on(device);
        pthread_mutex_unlock(&device->queue_lock);
    }
    return after(device, device->next.GetSemaphoreCounterValue(handle, semaphore, out));
}

static bool wait_is_over(const VkSemaphoreWaitInfo *info) {
    const bool any = info->flags & VK_SEMAPHORE_WAIT_ANY_BIT;
    for (uint32_t i = 0; i < info->semaphoreCount; i++)
        if (has_reached((struct point){info->pSemaphores[i], info->pValues[i]}) == any) return any;
    return !any;
}

VKAPI_ATTR VkResult VKAPI_CALL shim_WaitSemaphores(VkDevice handle, const VkSemaphoreWaitInfo *info, uint64_t timeout) {
    BEFORE(WaitSemaphores);
    struct device *device = device_of(handle);
    if (!profile.two_families) return after(device, device->next.WaitSemaphores(handle, info, timeout));
    atomic_fetch_add(&device->waiters, 1);
    pthread_mutex_lock(&device->queue_lock);
    while (!wait_is_over(info) && hand_one_on(device)) {}
    pthread_mutex_unlock(&device->queue_lock);
    const VkResult result = device->next.WaitSemaphores(handle, info, timeout);
    atomic_fetch_sub(&device->waiters, 1);
    return after(device, result);
}

VKAPI_ATTR VkResult VKAPI_CALL shim_SignalSemaphore(VkDevice handle, const VkSemaphoreSignalInfo *info) {
    BEFORE(SignalSemaphore);
    struct device *device = device_of(handle);
    const VkResult result = device->next.SignalSemaphore(handle, info);
    if (result != VK_SUCCESS || !profile.two_families) return result;
    pthread_mutex_lock(&device->queue_lock);
    reach((struct point){info->semaphore, info->value});
    while (atomic_load(&device->waiters) > 0 && hand_one_on(device)) {}
    pthread_mutex_unlock(&device->queue_lock);
    return VK_SUCCESS;
}
