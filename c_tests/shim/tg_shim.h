/* A Vulkan driver in front of the real one: it presents the device as other hardware, checks what a real device of that
 * kind would punish, and makes calls fail on request.
 *
 * It is a driver of its own for the loader, so that the validation layer lies above it and holds the library to the limits,
 * features, memory types and queues that the profile shows. TG_SHIM_DRIVER names the real driver's library. The same
 * functions can be had over the loader, from tg_shim_get_instance_proc_addr: then the layer lies below, and sees the real
 * device and only the calls that reach it.
 *
 * TG_TEST_PROFILE names what is presented, several joined by commas:
 *
 *   plain         the device as it is
 *   discrete      device memory cannot be mapped, host memory is not coherent, atoms of 256 bytes, two heaps, a memory
 *                 budget. The host sees shadows: bytes move at a flush or an invalidate, for exactly the range given, and
 *                 what the host could not know is a pattern. (A real device also has one coherent type, which the
 *                 library would choose; this one has none.)
 *   smallest      the smallest limits that Vulkan 1.2 allows for what compute uses
 *   bare          Vulkan 1.2, no extension, robustBufferAccess and timeline semaphores as the only features
 *   two_families  a graphics family, then one of four compute queues. Queues run what their semaphores allow, the last
 *                 submitted first.
 *
 * In every profile fresh memory holds garbage, and an object that outlives its device ends the process. So does whatever
 * else the shim finds wrong: it says so on stderr, in a line that begins with "shim:". */
#ifndef TG_SHIM_H
#define TG_SHIM_H

#ifdef __cplusplus
extern "C" {
#endif

#define TG_SHIM_API __attribute__((visibility("default")))
#define TG_SHIM_FOREVER 0xffffffffu

/* The `nth` call of the entry point from now on (1 is the next) returns `code` and does nothing, and so do the `times - 1`
 * calls after it. One plan for each entry point; a new one replaces it. An entry point the shim does not know ends the
 * process. TG_SHIM_FAULT=vkAllocateMemory:1:2:-2 in the environment does the same from the start. */
TG_SHIM_API void tg_shim_fail(const char *entry, unsigned nth, unsigned times, int code);
/* The same, but the call does what it says before it returns `code`: of submits, semaphore waits, counters and waits for a
 * queue. A loss is told when the device has nothing left to do, because a wait on a lost device ends when its work does. */
TG_SHIM_API void tg_shim_fail_executed(const char *entry, unsigned nth, unsigned times, int code);
/* No further call fails. */
TG_SHIM_API void tg_shim_clear(void);
/* How often the entry point was called, and how often it failed on request. */
TG_SHIM_API unsigned tg_shim_calls(const char *entry);
TG_SHIM_API unsigned tg_shim_faults(const char *entry);
/* Whether a profile is presented. */
TG_SHIM_API int tg_shim_presents(const char *profile);
/* Devices made from now on allow so many allocations, as a real device's maxMemoryAllocationCount. */
TG_SHIM_API void tg_shim_limit_allocations(unsigned count);
/* The most allocations that were alive at once, on any device. */
TG_SHIM_API unsigned tg_shim_peak_allocations(void);

/* vkGetInstanceProcAddr of the shim over the platform's loader, for a process whose driver list does not name the shim.
 * Calls that fail on request belong here: the layer takes a submit that the driver refused for one that is pending. */
typedef void (*tg_shim_proc)(void);
TG_SHIM_API tg_shim_proc tg_shim_get_instance_proc_addr(void *instance, const char *name);

#ifdef __cplusplus
}
#endif
#endif
