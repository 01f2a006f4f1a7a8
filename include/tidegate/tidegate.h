/*
 * tidegate: GPU compute on Vulkan, with every failure tracked on the exact bytes it left unwritten.
 *
 * THE MODEL. A device has streams, buffers and kernels. A stream is a number of your choice: work on one stream runs
 * in the order of the calls, and work on several streams is ordered exactly where it shares bytes. Calls enqueue and
 * return; reads and waits flush and wait.
 *
 * Nothing that fails ends the process, and nothing that fails is forgotten. When work does not succeed, the bytes it
 * was to write are claimed by a failure, the root. Work that needs claimed bytes does not run: it is skipped, and what
 * it was to write takes over the same root. A read gives you bytes only if every one of them was last written by work
 * that succeeded; otherwise it gives TG_ERROR_UNWRITTEN, and the report names the root and the path from it to your
 * bytes. Work that shares no byte with a failure never notices it. Writing the bytes again is the whole recovery.
 *
 * A FIRST PROGRAM doubles some numbers:
 *
 *     tg_device dev;   tg_device_desc device = TG_DEVICE_DESC_INIT;
 *     tg_buffer data;  tg_buffer_desc buffer = TG_BUFFER_DESC_INIT;
 *     tg_kernel twice; tg_kernel_desc kernel = TG_KERNEL_DESC_INIT;
 *     if (tg_device_create(&device, &dev) != TG_OK) return explain();
 *     buffer.size = sizeof numbers;  buffer.label = TG_STR("numbers");
 *     tg_buffer_create(dev, &buffer, &data);
 *     kernel.code = spirv;  kernel.code_size = sizeof spirv;  kernel.label = TG_STR("twice");
 *     tg_kernel_create(dev, &kernel, &twice);
 *
 *     tg_slice all = { data, 0, TG_WHOLE_SIZE };
 *     tg_use binding = { all, TG_ACCESS_AUTO, 0 };
 *     tg_launch_desc launch = TG_LAUNCH_DESC_INIT;
 *     launch.kernel = twice;  launch.bindings = &binding;  launch.binding_count = 1;  launch.threads[0] = 1000;
 *
 *     tg_buffer_write(dev, 0, all, numbers, sizeof numbers);
 *     tg_launch(dev, &launch);
 *     if (tg_buffer_read(dev, 0, numbers, sizeof numbers, all, TG_WAIT_FOREVER) != TG_OK) return explain();
 *     tg_device_destroy(dev, TG_WAIT_FOREVER);
 *
 * HANDLING ERRORS. Only the end is checked above, and that is enough: had the buffer not been allocated, the shader
 * not compiled or the launch not run, the read would say so, and explain() would print the first cause:
 *
 *     tg_report report; tg_str text;
 *     if (tg_last_report(&report) == TG_OK && tg_report_text(report, &text) == TG_OK) fputs(text.data, stderr);
 *     tg_report_release(report);
 *
 * A result is one of three kinds. TG_IS_TRACKED: what was to be written is claimed, so go on and look at the end.
 * TG_IS_MISUSE: the program is wrong; nothing changed and nothing is claimed, so the end does not tell; the report names
 * the argument. Everything else: no error.
 *
 * RULES FOR ALL FUNCTIONS. Every function may be called from any thread. Handles are checked, always: null, wrong
 * kind, of another device, stale, in this order. Zero is the default of every member, and TG_*_INIT lists them;
 * `struct_size` is sizeof the struct. Unknown flags, unknown enum values and non-zero reserved members are misuse. A
 * size of 0 is nothing to do, and succeeds. docs/ has a page each on errors, ownership, threads, versions and strings.
 *
 * FORK AND EXIT. A forked child may not use the devices of its parent: every call on one answers TG_ERROR_WRONG_STATE at
 * once, tg_device_destroy too. A child of a process that had a device makes none of its own. When the process ends, the
 * library waits for work that runs, for as long as some of it completes. From then on calls answer TG_ERROR_WRONG_STATE.
 */

#ifndef TIDEGATE_H
#define TIDEGATE_H

#include <stddef.h>
#include <stdint.h>

/* TG_STATIC is set by the static library's CMake target and pkg-config file. */
#ifndef TG_API
#if defined(_WIN32) && !defined(TG_STATIC)
#define TG_API __declspec(dllimport)
#else
#define TG_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Results --------------------------------------------------------------------------------------------------------- */

/** As a timeout: until it is over. */
#define TG_WAIT_FOREVER UINT64_MAX

/**
 * What a function answers.
 *
 * 0 is TG_OK. Positive is "no error, but". -1 to -99 is a programming error: nothing changed. -100 and below is a
 * failure: what was to be written is claimed. Numbers are never reused; a later version may add some, so treat an
 * unknown number by its range (TG_IS_MISUSE, TG_IS_TRACKED).
 */
typedef int32_t tg_result;

/** The call did what it says. */
#define TG_OK 0
/**
 * The work did not run: bytes it reads are claimed, or its kernel is broken, or a buffer has no memory. What it was to
 * write took over the same roots. tg_last_report names them. The number is positive, so `result < 0` misses it; ask
 * TG_IS_TRACKED.
 */
#define TG_SKIPPED 1
/** The time was up before the work completed. Nothing changed; ask again. */
#define TG_TIMEOUT 2
/** The answer is not there yet. Nothing changed; ask again. */
#define TG_NOT_READY 3
/** The caller's array was too small. It is filled, and the count says how many there are. */
#define TG_INCOMPLETE 4

/** Misuse: an argument is outside what the function accepts. The report names it. */
#define TG_ERROR_INVALID_ARGUMENT (-1)
/** Misuse: a handle that must name something is null. */
#define TG_ERROR_NULL_HANDLE (-2)
/** Misuse: a handle names another kind of object, or is no handle at all. */
#define TG_ERROR_WRONG_KIND (-3)
/** Misuse: a handle belongs to another device. */
#define TG_ERROR_FOREIGN_HANDLE (-4)
/** Misuse: a handle names something already destroyed. */
#define TG_ERROR_STALE_HANDLE (-5)
/**
 * Misuse: the bytes or the object are held by an open scope or mapping, or are in another state than the call needs.
 */
#define TG_ERROR_WRONG_STATE (-6)
/** Failure: no Vulkan device matches. */
#define TG_ERROR_NO_DEVICE (-100)
/** Failure: the Vulkan loader, instance or device could not be set up. */
#define TG_ERROR_INITIALIZATION_FAILED (-101)
/** Failure: the device or this build cannot do it. */
#define TG_ERROR_UNSUPPORTED (-102)
/** Failure: a limit of this device is exceeded. */
#define TG_ERROR_LIMIT_EXCEEDED (-103)
/** Failure: host memory ran out. */
#define TG_ERROR_OUT_OF_HOST_MEMORY (-104)
/** Failure: device memory ran out, or the size can never fit. */
#define TG_ERROR_OUT_OF_DEVICE_MEMORY (-105)
/** Failure: the shader cannot be used. */
#define TG_ERROR_INVALID_SHADER (-106)
/** Failure: bytes asked for were last to be written by work that did not succeed. The report names the roots. */
#define TG_ERROR_UNWRITTEN (-107)
/** Failure: bytes of a fresh buffer that nothing wrote yet (only with TG_DEVICE_TRACK_UNINITIALIZED). */
#define TG_ERROR_NEVER_WRITTEN (-108)
/** Failure: the work was abandoned before its outcome was known. */
#define TG_ERROR_TORN_DOWN (-109)
/** Failure: the device was lost. */
#define TG_ERROR_DEVICE_LOST (-110)
/** Failure: the driver returned a VkResult that has no better name here. The report has the number. */
#define TG_ERROR_DRIVER (-111)
/** Failure: the caller declared it (tg_taint, tg_scope_fail, tg_fail_unallocated). */
#define TG_ERROR_CALLER (-112)
/** Failure: a defect of the library itself. The report says what is known of it. */
#define TG_ERROR_INTERNAL (-113)

/** Whether a result is a programming error: nothing changed. A function, so that a call may stand as its argument. */
static inline int TG_IS_MISUSE(tg_result result) { return result <= -1 && result >= -99; }

/**
 * Whether the work did not happen and what it was to write is claimed: a failure or TG_SKIPPED. The caller may go on
 * and look at the end. A function, so that a call may stand as its argument.
 */
static inline int TG_IS_TRACKED(tg_result result) { return result <= -100 || result == TG_SKIPPED; }

/* Strings --------------------------------------------------------------------------------------------------------- */

/** Bytes of a label array in an info struct: a label is cut at 128 bytes, and a NUL follows it. */
#define TG_LABEL_CAPACITY 136

/**
 * A string: UTF-8 bytes and how many.
 *
 * Into the library: `data` need not end in NUL; NULL with size 0 is the empty string, NULL with another size is
 * misuse; the bytes are copied before the call returns; bytes that are not UTF-8 are replaced by U+FFFD, never
 * refused. Write TG_STR("...") for a literal, TG_STR_INIT("...") in a static table.
 *
 * Out of the library: `data` is never NULL and `data[size]` is 0, so it may be used as a C string. It is borrowed
 * from the object it came from, or static; each function says which.
 */
typedef struct tg_str {
    /** The first byte. */
    const char *data;
    /** Bytes, a terminating NUL not counted. */
    size_t size;
} tg_str;

/** A string literal as a tg_str, in an expression. */
#ifdef __cplusplus
#define TG_STR(literal) (tg_str{ "" literal, sizeof("" literal) - 1 })
#else
#define TG_STR(literal) ((tg_str){ "" literal, sizeof("" literal) - 1 })
#endif

/** A string literal as the initializer of a tg_str, in a static table too. */
#define TG_STR_INIT(literal) { "" literal, sizeof("" literal) - 1 }

/* Handles, slices, uses and claims -------------------------------------------------------------------------------- */

/** As a slice's size: to the end of the buffer. */
#define TG_WHOLE_SIZE UINT64_MAX

/**
 * The launch decides, else the kernel descriptor, else the module. Misuse where there is no kernel to ask.
 *
 * The module says TG_ACCESS_READ of what it only loads and TG_ACCESS_READ_WRITE of what it loads and stores. What it only
 * stores is TG_ACCESS_WRITE for exactly the bytes that the grid and the push constants of the launch prove, and
 * TG_ACCESS_MAY_WRITE for the rest of the slice. (A load that sees nothing but what the same invocation stored before does
 * not count.) The usual kernels are proven: invocation i stores element i on every path, in one dimension or row by row
 * in two or three, plus an offset, all components and members of it, under guards that compare i with a constant, a
 * specialization constant, a push constant or the length of an array. Where data decides what is stored (a scatter, a
 * result only if there is one), and in an indirect launch, nothing is proven. tg_binding_info::basis tells. If such a
 * kernel writes every byte of a slice all the same, declare TG_ACCESS_WRITE, or no launch of it releases its output.
 *
 * When the kernel is broken and its module cannot be parsed, a binding that neither of the two others declares counts
 * as TG_ACCESS_READ_WRITE: the skip claims it, be it an input, and it has to be written again. Declare the accesses to
 * keep inputs out of it.
 */
#define TG_ACCESS_AUTO 0
/** Bound, but not touched: not tracked. */
#define TG_ACCESS_NONE 1
/** Only read. Claims on the bytes skip the work. */
#define TG_ACCESS_READ 2
/**
 * Every byte is written and none is read: the caller's word, where the caller declares it. Success releases the bytes.
 */
#define TG_ACCESS_WRITE 3
/**
 * Some bytes may be written, none is read. The work runs over claimed bytes, and they stay claimed by the same roots:
 * success releases nothing. A failure or a skip claims the whole slice.
 */
#define TG_ACCESS_MAY_WRITE 4
/** Read, and then written. Claims on the bytes skip the work. */
#define TG_ACCESS_READ_WRITE 5

/** A device: one Vulkan device, its streams, its memory and its failures. */
typedef struct tg_device {
    /** The handle as a number; 0 is the null handle. */
    uint64_t id;
} tg_device;

/** Every member of tg_device at its default. */
#define TG_DEVICE_INIT { \
    /* id */ 0 \
}

/** A buffer: bytes of the device, allocated or not, or a token. Belongs to one device. */
typedef struct tg_buffer {
    /** The handle as a number; 0 is the null handle. */
    uint64_t id;
} tg_buffer;

/** Every member of tg_buffer at its default. */
#define TG_BUFFER_INIT { \
    /* id */ 0 \
}

/** A kernel: a compiled shader, or a broken one. Belongs to one device. */
typedef struct tg_kernel {
    /** The handle as a number; 0 is the null handle. */
    uint64_t id;
} tg_kernel;

/** Every member of tg_kernel at its default. */
#define TG_KERNEL_INIT { \
    /* id */ 0 \
}

/** An event: how far a stream was when it was recorded. Belongs to one device. */
typedef struct tg_event {
    /** The handle as a number; 0 is the null handle. */
    uint64_t id;
} tg_event;

/** Every member of tg_event at its default. */
#define TG_EVENT_INIT { \
    /* id */ 0 \
}

/** An asynchronous read: bytes on their way to the host. Belongs to one device. */
typedef struct tg_read {
    /** The handle as a number; 0 is the null handle. */
    uint64_t id;
} tg_read;

/** Every member of tg_read at its default. */
#define TG_READ_INIT { \
    /* id */ 0 \
}

/** An open write scope. Belongs to one device. */
typedef struct tg_scope {
    /** The handle as a number; 0 is the null handle. */
    uint64_t id;
} tg_scope;

/** Every member of tg_scope at its default. */
#define TG_SCOPE_INIT { \
    /* id */ 0 \
}

/**
 * A report: an immutable snapshot of roots and paths. It belongs to the library and outlives its device. Every
 * string from it is borrowed until tg_report_release.
 */
typedef struct tg_report {
    /** The handle as a number; 0 is the null handle. */
    uint64_t id;
} tg_report;

/** Every member of tg_report at its default. */
#define TG_REPORT_INIT { \
    /* id */ 0 \
}

/**
 * The unit of every read, write and claim: some bytes of a buffer. Never grows.
 *
 * Reads, writes, copies, fills and questions take any offset and any size. Bindings begin at multiples of
 * tg_device_info::binding_alignment, indirect counts at a multiple of 4, and what is mapped to be written lies on
 * tg_device_info::map_alignment; a fill has a whole number of patterns.
 */
typedef struct tg_slice {
    /** Whose bytes. */
    tg_buffer buffer;
    /** The first byte, counted from the start of the buffer. */
    uint64_t offset;
    /** How many bytes; TG_WHOLE_SIZE: to the end of the buffer. */
    uint64_t size;
} tg_slice;

/** Every member of tg_slice at its default. */
#define TG_SLICE_INIT { \
    /* buffer */ TG_BUFFER_INIT, \
    /* offset */ 0, \
    /* size */ 0 \
}

/** A slice, and what a piece of work does to its bytes. Never grows. */
typedef struct tg_use {
    /** Which bytes. */
    tg_slice slice;
    /** One of TG_ACCESS_*. */
    uint32_t access;
    /** Must be 0. */
    uint32_t reserved;
} tg_use;

/** Every member of tg_use at its default. */
#define TG_USE_INIT { \
    /* slice */ TG_SLICE_INIT, \
    /* access */ 0, \
    /* reserved */ 0 \
}

/** A claimed range: these bytes were to be written by work that did not succeed. Never grows. */
typedef struct tg_claim {
    /** The claimed bytes. The size is never TG_WHOLE_SIZE. */
    tg_slice slice;
    /** The id of the oldest root that claims them. */
    uint64_t failure;
    /** How many roots claim them: 1 to 32, as many as a report lists of them. */
    uint32_t failure_count;
    /** 1 when more roots claim them than are counted: the 32 oldest are kept. Otherwise 0. */
    uint32_t more;
} tg_claim;

/** Every member of tg_claim at its default. */
#define TG_CLAIM_INIT { \
    /* slice */ TG_SLICE_INIT, \
    /* failure */ 0, \
    /* failure_count */ 0, \
    /* more */ 0 \
}

/* Library --------------------------------------------------------------------------------------------------------- */

/** The major version of this header. Below 1, a minor version may change the ABI (and then the soname). */
#define TG_VERSION_MAJOR 0
/** The minor version of this header. */
#define TG_VERSION_MINOR 1
/** The patch version of this header. */
#define TG_VERSION_PATCH 0

/** A device that is none of the others. */
#define TG_DEVICE_TYPE_OTHER 0
/** A device that shares memory with the host. */
#define TG_DEVICE_TYPE_INTEGRATED 1
/** A device with memory of its own. */
#define TG_DEVICE_TYPE_DISCRETE 2
/** A part of a device, handed to a virtual machine. */
#define TG_DEVICE_TYPE_VIRTUAL 3
/** Software that runs on the host. */
#define TG_DEVICE_TYPE_CPU 4

/** Bytes of the names in tg_device_info, the NUL included. */
#define TG_NAME_CAPACITY 256

/** A kernel that runs past its slice may reach other buffers in the same page, as robustBufferAccess allows. */
#define TG_CONTAINMENT_PAGE 1
/** A kernel that runs past its slice stays inside its buffer (TG_DEVICE_ISOLATE_BUFFERS). */
#define TG_CONTAINMENT_BUFFER 2
/** A kernel that runs past its slice reaches nothing beyond it, rounded up to 4 bytes (robustBufferAccess2). */
#define TG_CONTAINMENT_SLICE 3

/** The validation layer is on. */
#define TG_FEATURE_VALIDATION (1 << 0)
/** Shaders are validated before the driver sees them: this build has SPIRV-Tools. */
#define TG_FEATURE_SHADER_VALIDATOR (1 << 1)
/** VK_KHR_synchronization2 is used. */
#define TG_FEATURE_SYNCHRONIZATION2 (1 << 2)
/** VK_KHR_push_descriptor is used. */
#define TG_FEATURE_PUSH_DESCRIPTORS (1 << 3)
/** VK_EXT_robustness2 is used. */
#define TG_FEATURE_ROBUSTNESS2 (1 << 4)
/** VK_EXT_memory_budget is used. */
#define TG_FEATURE_MEMORY_BUDGET (1 << 5)
/** VK_EXT_device_fault is used. */
#define TG_FEATURE_DEVICE_FAULT (1 << 6)
/** Labels of launches show in debug tools (VK_EXT_debug_utils). */
#define TG_FEATURE_DEBUG_LABELS (1 << 7)
/**
 * Buffers have addresses (bufferDeviceAddress): tg_buffer_info::address tells them, and kernels with
 * TG_KERNEL_DECLARES_USES may reach memory by them.
 */
#define TG_FEATURE_BUFFER_ADDRESSES (1 << 8)

/** What a device is. From tg_device_describe, the members from `features` on are 0: they depend on the descriptor. */
typedef struct tg_device_info {
    /** sizeof(tg_device_info). */
    size_t struct_size;
    /** The index tg_device_describe takes. */
    uint32_t index;
    /** One of TG_DEVICE_TYPE_*. */
    uint32_t type;
    /** PCI or Khronos vendor id. */
    uint32_t vendor_id;
    /** The vendor's id for the device. */
    uint32_t device_id;
    /** The Vulkan version of the device: major * 2^22 + minor * 2^12 + patch. */
    uint32_t api_version;
    /** The driver's version, encoded as the vendor likes. */
    uint32_t driver_version;
    /** VkPhysicalDeviceIDProperties::deviceUUID. */
    uint8_t uuid[16];
    /** Bytes of `name`, the NUL not counted. */
    size_t name_size;
    /** The name the driver gives the device. */
    char name[TG_NAME_CAPACITY];
    /** Bytes of `driver`, the NUL not counted. */
    size_t driver_size;
    /** The driver's name and version for a person, where it gives them. */
    char driver[TG_NAME_CAPACITY];
    /** Bytes of `lacking`, the NUL not counted; 0: tg_device_create can use the device. */
    size_t lacking_size;
    /** What the device lacks, for a person. */
    char lacking[TG_NAME_CAPACITY];
    /** Bytes of memory that only the device sees fast, all heaps together. */
    uint64_t local_heap_size;
    /** Bytes of all other heaps together. */
    uint64_t other_heap_size;
    /** TG_FEATURE_* added together. */
    uint64_t features;
    /**
     * One of TG_CONTAINMENT_*: what a kernel that runs past its slice can spoil. It says nothing of kernels with
     * TG_KERNEL_DECLARES_USES, nor of memory that is not bound. Shared memory of a work group and arrays of an
     * invocation are outside containment: an index past their end may spoil memory of the process or end it. Kernels
     * that index them by data must check the index. If the index and the length are constants of the module, and no
     * specialization constants, tg_kernel_create refuses an index past the end (not for TG_KERNEL_TRUSTED).
     */
    uint32_t containment;
    /** Queues that the slots are spread over. */
    uint32_t queues;
    /** The largest number of work groups in each direction (maxComputeWorkGroupCount). */
    uint32_t max_groups[3];
    /** Bytes of push constants a kernel may have (maxPushConstantsSize). */
    uint32_t max_push_size;
    /** Bindings a kernel may have (maxPerStageDescriptorStorageBuffers, and what else bounds it). */
    uint32_t max_bindings;
    /** Bytes of the largest buffer; a larger one is TG_ERROR_OUT_OF_DEVICE_MEMORY without asking the driver. */
    uint64_t max_buffer_size;
    /** Bytes of the largest slice that can be bound to a kernel (maxStorageBufferRange). */
    uint64_t max_binding_size;
    /** The offset of a bound slice must be a multiple of it; a power of two (minStorageBufferOffsetAlignment). */
    uint64_t binding_alignment;
    /**
     * Slices that are mapped to be written begin and end at multiples of this: 1 where all memory the host sees is
     * coherent. Known once the device is made; else 0.
     */
    uint64_t map_alignment;
} tg_device_info;

/** Every member of tg_device_info at its default. */
#define TG_DEVICE_INFO_INIT { \
    /* struct_size */ sizeof(tg_device_info), \
    /* index */ 0, \
    /* type */ 0, \
    /* vendor_id */ 0, \
    /* device_id */ 0, \
    /* api_version */ 0, \
    /* driver_version */ 0, \
    /* uuid */ { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, \
    /* name_size */ 0, \
    /* name */ "", \
    /* driver_size */ 0, \
    /* driver */ "", \
    /* lacking_size */ 0, \
    /* lacking */ "", \
    /* local_heap_size */ 0, \
    /* other_heap_size */ 0, \
    /* features */ 0, \
    /* containment */ 0, \
    /* queues */ 0, \
    /* max_groups */ { 0, 0, 0 }, \
    /* max_push_size */ 0, \
    /* max_bindings */ 0, \
    /* max_buffer_size */ 0, \
    /* max_binding_size */ 0, \
    /* binding_alignment */ 0, \
    /* map_alignment */ 0 \
}

/**
 * Tells the version of the library that is loaded.
 *
 * Compare it with TG_VERSION, the version of the header the program was compiled with; TG_MAKE_VERSION orders
 * versions.
 *
 * \returns major * 2^22 + minor * 2^12 + patch.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API uint32_t tg_version(void);

/**
 * Tells the name of a result, as this header spells it.
 *
 * \param result Any number.
 * \returns The name, static; "unknown result" for a number this version does not know.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_str tg_result_name(tg_result result);

/**
 * Counts the Vulkan devices of the system, usable or not.
 *
 * Opens the system's Vulkan loader for the time of the call. tg_device_info::lacking says why a device cannot be used:
 * Vulkan 1.2, a compute queue, timeline semaphores and robustBufferAccess are needed.
 *
 * \param out The count; 0 when there is a loader but no device. Written on TG_OK only.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT when out is NULL; TG_ERROR_INITIALIZATION_FAILED when there is no
 *          loader or it has no usable instance (the report says what was looked for);
 *          TG_ERROR_OUT_OF_HOST_MEMORY.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_device_count(uint32_t *out);

/**
 * Describes one of the devices that tg_device_count counted, without creating it.
 *
 * The order is that of the loader and stays the same while the process sees the same devices; the index is what
 * TG_SELECT_INDEX takes.
 *
 * \param index Which, from 0 to the count less 1.
 * \param out Filled on TG_OK, up to its struct_size. Members that only a created device has are 0.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT when out is NULL or its struct_size is not one; TG_ERROR_NO_DEVICE when
 *          there is no device of that index; otherwise as tg_device_count.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_device_describe(uint32_t index, tg_device_info *out);

/** A version as a number that orders: what tg_version returns. */
#define TG_MAKE_VERSION(major, minor, patch) (((uint32_t)(major) << 22) | ((uint32_t)(minor) << 12) | (uint32_t)(patch))

/** The version of this header. */
#define TG_VERSION TG_MAKE_VERSION(TG_VERSION_MAJOR, TG_VERSION_MINOR, TG_VERSION_PATCH)

/* Log ------------------------------------------------------------------------------------------------------------- */

/** As a level: what a caller who says nothing gets, TG_LOG_INFO. */
#define TG_LOG_DEFAULT 0
/** Roots that became real, and defects of the library. */
#define TG_LOG_ERROR 1
/** Skips, at powers of two; what was alive when a device was destroyed; validation warnings. */
#define TG_LOG_WARN 2
/** Once per device: what was chosen and what it can do. */
#define TG_LOG_INFO 3
/** Pages taken and given back, kernels compiled. */
#define TG_LOG_DEBUG 4
/** Everything. */
#define TG_LOG_TRACE 5

/** One thing that is worth telling. Lives as long as the call of the callback; copy what is to be kept. */
typedef struct tg_log_event {
    /** sizeof(tg_log_event) of the library; a later version may have more members behind the ones you know. */
    size_t struct_size;
    /** The code it is about, TG_OK where it is about none. */
    tg_result code;
    /** One of TG_LOG_ERROR to TG_LOG_TRACE. */
    uint32_t level;
    /** The id of the root it is about, 0 where it is about none. */
    uint64_t failure;
    /** What happened, for a person. */
    tg_str message;
} tg_log_event;

/** Every member of tg_log_event at its default. */
#define TG_LOG_EVENT_INIT { \
    /* struct_size */ sizeof(tg_log_event), \
    /* code */ 0, \
    /* level */ 0, \
    /* failure */ 0, \
    /* message */ { NULL, 0 } \
}

/**
 * A callback for events. It may be called from any thread that is inside a function of the library, from several
 * at once, and holds up the call that logs. It runs outside every lock, so it may call any function of the library
 * but tg_device_destroy, which answers TG_ERROR_WRONG_STATE. Events of functions that the callback calls do not reach
 * the callback. The callback must return: no exception, no longjmp.
 *
 * With or without a callback, the environment variable TIDEGATE_LOG puts events on stderr, one line each: error, warn,
 * info, debug, trace, or the number of the level; anything else is info. It is read when a device is made.
 */
typedef void (*tg_log_fn)(void *user_data, const tg_log_event *event);

/**
 * A callback that frees the data of another callback. It is called once, after the last call of that callback, from
 * whichever thread let go last.
 */
typedef void (*tg_finalizer_fn)(void *user_data);

/* Device ---------------------------------------------------------------------------------------------------------- */

/** Choose by `index`, the one tg_device_describe takes. */
#define TG_SELECT_INDEX (1 << 0)
/** Choose by `name`: a part of the device's name, in whatever case. */
#define TG_SELECT_NAME (1 << 1)
/** Choose by `uuid`. */
#define TG_SELECT_UUID (1 << 2)
/** Choose by `type`. */
#define TG_SELECT_TYPE (1 << 3)

/** Each slot records its own command buffers; slots are ordered by the device only where they share bytes. */
#define TG_SCHEDULING_EVENT 0
/** Slots queue tasks on the host, which run in batches on one queue, one task of each slot in turn. */
#define TG_SCHEDULING_INTERLEAVE 1
/** Slots queue tasks on the host, which run in batches on one queue, one slot after another. */
#define TG_SCHEDULING_SEQUENCE 2

/**
 * Turns the Vulkan validation layer on; its messages go to the log and onto the failure of the call that raised
 * them. TG_ERROR_INITIALIZATION_FAILED where there is no such layer.
 */
#define TG_DEVICE_VALIDATION (1 << 0)
/**
 * Fresh bytes carry a root of code TG_ERROR_NEVER_WRITTEN until something writes them. Otherwise they are undefined
 * but readable.
 */
#define TG_DEVICE_TRACK_UNINITIALIZED (1 << 1)
/**
 * Gives each buffer a VkBuffer of its own, so that the driver's robustness keeps a kernel that runs past its slice
 * inside its buffer. Costs memory and time for each buffer.
 */
#define TG_DEVICE_ISOLATE_BUFFERS (1 << 2)
/** As if every kernel had TG_KERNEL_TRUSTED. */
#define TG_DEVICE_TRUST_SHADERS (1 << 3)
/** For tests: as if the device had no VK_KHR_synchronization2. */
#define TG_DEVICE_NO_SYNCHRONIZATION2 (1 << 8)
/** For tests: as if the device had no VK_KHR_push_descriptor. */
#define TG_DEVICE_NO_PUSH_DESCRIPTORS (1 << 9)
/** For tests: as if the device had no VK_EXT_robustness2. */
#define TG_DEVICE_NO_ROBUSTNESS2 (1 << 10)

/** Any function, as vkGetInstanceProcAddr is cast to it and the library casts it back. */
typedef void (*tg_proc)(void);

/** What a new device is to be. Zero in every member but `struct_size` is a device with the defaults. */
typedef struct tg_device_desc {
    /** sizeof(tg_device_desc). */
    size_t struct_size;
    /**
     * Which of the four criteria below hold: TG_SELECT_* added together, every one of which must match. 0: the best
     * device there is (discrete before integrated before the rest), or the one that the environment variable
     * TIDEGATE_DEVICE names by index or by a part of its name.
     */
    uint32_t select;
    /** With TG_SELECT_INDEX: the index. */
    uint32_t index;
    /** With TG_SELECT_NAME: a part of the name, 1 to 255 bytes. */
    tg_str name;
    /** With TG_SELECT_UUID: VkPhysicalDeviceIDProperties::deviceUUID. */
    uint8_t uuid[16];
    /** With TG_SELECT_TYPE: one of TG_DEVICE_TYPE_*. */
    uint32_t type;
    /** One of TG_SCHEDULING_*; 0 is TG_SCHEDULING_EVENT. */
    uint32_t scheduling;
    /** TG_DEVICE_* added together. */
    uint64_t flags;
    /** Streams that the ids of the caller fold onto, 1 to 1024; 0: 8. An id below it is its own slot. */
    uint32_t slots;
    /** Launches after which a slot flushes by itself, 1 to 1048576; 0: 1024. */
    uint32_t max_recorded;
    /**
     * Unfinished pieces of work at the most, 1 to 16777216; 0: 65536. A call that would add one more waits, or answers
     * TG_NOT_READY where only a semaphore of the caller's could let some finish (tg_vk_stream_wait_semaphore). What was
     * enqueued behind an unfinished piece may count for a while after it is finished. Work that is skipped never
     * waits.
     */
    uint32_t max_pending;
    /** With a scheduler: tasks that are queued before everything is flushed by itself, 1 to 1048576; 0: 256. */
    uint32_t max_tasks;
    /**
     * Bytes of device memory at the most; 0: what the driver's budget, else the heap, allows. Buffers leave a sixteenth of
     * it, or 16 MiB where that is less, to what goes up and as much to what comes down, so that a full device can still
     * be written and read, up to that size at a time. Who finds it all in use waits for it, or answers TG_NOT_READY where
     * only a semaphore of the caller's could give some back.
     */
    uint64_t memory_cap;
    /** Bytes of staging memory that writes and reads go through, up to 2^32; 0: 67108864. */
    uint64_t staging_size;
    /** Where events go, or NULL. */
    tg_log_fn log;
    /** Handed to `log` as it is. */
    void *log_user_data;
    /**
     * Frees `log_user_data`, or NULL. Runs once unless tg_device_create returns a misuse: when the device and every
     * call that used it are gone, or before tg_device_create returns a failure.
     */
    tg_finalizer_fn log_finalizer;
    /** The least urgent level that `log` wants, one of TG_LOG_*; 0 is TG_LOG_INFO. */
    uint32_t log_level;
    /** Must be 0. */
    uint32_t reserved;
    /**
     * The caller's vkGetInstanceProcAddr, cast to tg_proc; NULL: the system's loader is opened. It must stay loaded
     * as long as the device.
     */
    tg_proc get_instance_proc_addr;
    /**
     * The name of the device in the lines that the environment variable TIDEGATE_LOG puts on stderr; cut at 128
     * bytes.
     */
    tg_str label;
} tg_device_desc;

/** Every member of tg_device_desc at its default. */
#define TG_DEVICE_DESC_INIT { \
    /* struct_size */ sizeof(tg_device_desc), \
    /* select */ 0, \
    /* index */ 0, \
    /* name */ { NULL, 0 }, \
    /* uuid */ { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, \
    /* type */ 0, \
    /* scheduling */ 0, \
    /* flags */ 0, \
    /* slots */ 0, \
    /* max_recorded */ 0, \
    /* max_pending */ 0, \
    /* max_tasks */ 0, \
    /* memory_cap */ 0, \
    /* staging_size */ 0, \
    /* log */ NULL, \
    /* log_user_data */ NULL, \
    /* log_finalizer */ NULL, \
    /* log_level */ 0, \
    /* reserved */ 0, \
    /* get_instance_proc_addr */ NULL, \
    /* label */ { NULL, 0 } \
}

/** Memory of one kind, in bytes. Never grows. */
typedef struct tg_memory_usage {
    /** Taken from Vulkan. */
    uint64_t reserved;
    /** Of live blocks. */
    uint64_t used;
    /** The most `used` ever was. */
    uint64_t peak;
    /** The largest block that fits without taking a page. */
    uint64_t largest_free;
} tg_memory_usage;

/** Every member of tg_memory_usage at its default. */
#define TG_MEMORY_USAGE_INIT { \
    /* reserved */ 0, \
    /* used */ 0, \
    /* peak */ 0, \
    /* largest_free */ 0 \
}

/** The memory of a device. */
typedef struct tg_memory_info {
    /** sizeof(tg_memory_info). */
    size_t struct_size;
    /** TG_MEMORY_DEVICE. */
    tg_memory_usage device;
    /** TG_MEMORY_UPLOAD. */
    tg_memory_usage upload;
    /** TG_MEMORY_READBACK. */
    tg_memory_usage readback;
} tg_memory_info;

/** Every member of tg_memory_info at its default. */
#define TG_MEMORY_INFO_INIT { \
    /* struct_size */ sizeof(tg_memory_info), \
    /* device */ TG_MEMORY_USAGE_INIT, \
    /* upload */ TG_MEMORY_USAGE_INIT, \
    /* readback */ TG_MEMORY_USAGE_INIT \
}

/**
 * Makes a device.
 *
 * Opens Vulkan, chooses a device and sets it up. Nothing of Vulkan is needed to build or start a program: a machine
 * without a loader, driver or device gives a failure here, and tg_last_report says what was looked for.
 *
 * \param desc What it is to be; must not be NULL.
 * \param out The device; the null handle unless TG_OK is returned. Must not be NULL.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NO_DEVICE when no device matches or none of those that match
 *          can be used; TG_ERROR_INITIALIZATION_FAILED when loader, instance or device cannot be set up, when one of
 *          them lacks an entry point, or when the process is ending or was forked while it had a device;
 *          TG_ERROR_UNSUPPORTED when validation is asked for and not installed, or the device has no memory that fits;
 *          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DEVICE_LOST, TG_ERROR_DRIVER as the
 *          driver says; TG_ERROR_LIMIT_EXCEEDED after 1048575 devices in one process: handles are never reused.
 * \threadsafety Any thread.
 * \claims Nothing: there is no byte yet.
 */
TG_API tg_result tg_device_create(const tg_device_desc *desc, tg_device *out);

/**
 * Destroys a device and everything on it.
 *
 * Waits for its work, or for its loss; then frees everything, tells the log what was alive by label, and turns the
 * handle and every child of it stale. When the time is up first, nothing has changed and the device can be used. A
 * report outlives its device.
 *
 * A device that is lost, or whose waits and counters fail, is destroyed when its queues are idle. If nothing tells that
 * they are before the time is up, or within ten seconds, the device is parked: the handle is stale and the answer TG_OK,
 * but what the device may be working on stays until the process ends, and the log is told.
 *
 * \param dev The device; the null handle is fine and does nothing.
 * \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER.
 * \returns TG_OK; TG_TIMEOUT; TG_ERROR_WRONG_STATE inside a log callback; TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread. Calls that other threads are in finish first, within the timeout; calls that begin once the
 *         work is over answer TG_ERROR_STALE_HANDLE, until the device is gone or TG_TIMEOUT gives it back.
 * \claims Releases everything: no byte is left to claim.
 */
TG_API tg_result tg_device_destroy(tg_device dev, uint64_t timeout_ns);

/**
 * Tells what a device is and what it can do.
 *
 * \param dev The device.
 * \param out Filled on TG_OK, up to its struct_size.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_device_get_info(tg_device dev, tg_device_info *out);

/**
 * Tells whether a device can be used, without waiting.
 *
 * \param dev The device.
 * \returns TG_OK; TG_ERROR_DEVICE_LOST when a loss is known; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
 *          TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_device_status(tg_device dev);

/**
 * Flushes every stream and waits until everything enqueued before has completed.
 *
 * Says nothing about claims: work that was skipped or failed is as complete as any other (tg_check_written).
 *
 * \param dev The device.
 * \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER.
 * \returns TG_OK; TG_TIMEOUT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE;
 *          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER when the driver refuses work;
 *          TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread. Holds no other thread up.
 * \claims Nothing of its own. Work that a flush cannot hand to the driver claims what it was to write.
 */
TG_API tg_result tg_device_wait(tg_device dev, uint64_t timeout_ns);

/**
 * Gives memory that no block uses back to Vulkan.
 *
 * Idle pages go back by themselves, all but one of each kind: of device, upload and readback memory, the last one that
 * small buffers share, that larger ones share, and that one buffer had to itself. Staging for writes stays for a while.
 * This function gives the rest back too, and lets go of the copies that reads which timed out left.
 *
 * \param dev The device.
 * \param freed The bytes given back; may be NULL. Written on TG_OK only.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE;
 *          TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread.
 * \claims Nothing. Whatever still claimed bytes of those pages is released with them.
 */
TG_API tg_result tg_device_trim(tg_device dev, uint64_t *freed);

/**
 * Tells how much memory a device has and uses.
 *
 * \param dev The device.
 * \param out Filled on TG_OK, up to its struct_size; every number is in bytes.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_device_memory_stats(tg_device dev, tg_memory_info *out);

/**
 * Counts the roots that are alive on a device, without waiting.
 *
 * A root lives as long as something carries it: claimed bytes, an unallocated buffer, a broken kernel, an open
 * scope. A program that destroys everything it made is left with 0.
 *
 * \param dev The device.
 * \param out The count. Written on TG_OK only.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_device_failure_count(tg_device dev, uint64_t *out);

/**
 * Makes a report on every root that is alive on a device, without waiting. It asks about no byte, so the code of the
 * report is TG_OK, whatever roots it has.
 *
 * A long report is taken in pieces, between which calls of other threads go on. It tells every root that there was when
 * the call began and that there still is, and every claim of those that stayed as it was. A claim that another thread
 * makes or releases meanwhile is told or not.
 *
 * \param dev The device.
 * \param out The report; the caller releases it. The null handle unless TG_OK is returned.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE;
 *          TG_ERROR_LIMIT_EXCEEDED when a million reports are not released.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_device_report(tg_device dev, tg_report *out);

/**
 * Lists every claimed range on a device, buffer by buffer, ascending in each, without waiting.
 *
 * \param dev The device.
 * \param out An array to fill; may be NULL when capacity is 0.
 * \param capacity Its elements. 0 asks for the count only.
 * \param count How many there are, whatever fits. Must not be NULL. Written on TG_OK and TG_INCOMPLETE.
 * \returns TG_OK; TG_INCOMPLETE when capacity is neither 0 nor enough; TG_ERROR_INVALID_ARGUMENT;
 *          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE; TG_ERROR_OUT_OF_HOST_MEMORY.
 * \threadsafety Any thread. The list is true at one moment of the call.
 * \claims Nothing.
 */
TG_API tg_result tg_device_claims(tg_device dev, tg_claim *out, size_t capacity, size_t *count);

/* Buffer ---------------------------------------------------------------------------------------------------------- */

/** Memory that is fast for the device; the host need not see it. */
#define TG_MEMORY_DEVICE 0
/** Memory that the host writes and the device reads. */
#define TG_MEMORY_UPLOAD 1
/** Memory that the device writes and the host reads. */
#define TG_MEMORY_READBACK 2
/**
 * No memory of ours: a token stands for something the caller owns, and is tracked like a buffer. It can be named in
 * `extra`, in a scope, and wherever claims are asked about or set; it cannot be bound, read, written or copied.
 */
#define TG_MEMORY_TOKEN 3

/** Do not allocate yet: tg_buffer_allocate or tg_fail_unallocated follows. */
#define TG_BUFFER_UNALLOCATED (1 << 0)
/** With tg_buffer_write_with: answer TG_NOT_READY instead of waiting for staging memory. */
#define TG_WRITE_NO_WAIT (1 << 0)

/** What a new buffer is to be. */
typedef struct tg_buffer_desc {
    /** sizeof(tg_buffer_desc). */
    size_t struct_size;
    /** Bytes; at least 1. */
    uint64_t size;
    /** One of TG_MEMORY_*; 0 is TG_MEMORY_DEVICE. */
    uint32_t memory;
    /** Must be 0. */
    uint32_t reserved;
    /** The stream it is created on. Any stream may use it. */
    uint64_t stream;
    /** TG_BUFFER_* added together. */
    uint64_t flags;
    /** Its name in reports and debug tools; cut at 128 bytes. */
    tg_str label;
    /** A number of the caller's for it, told in reports. */
    uint64_t tag;
} tg_buffer_desc;

/** Every member of tg_buffer_desc at its default. */
#define TG_BUFFER_DESC_INIT { \
    /* struct_size */ sizeof(tg_buffer_desc), \
    /* size */ 0, \
    /* memory */ 0, \
    /* reserved */ 0, \
    /* stream */ 0, \
    /* flags */ 0, \
    /* label */ { NULL, 0 }, \
    /* tag */ 0 \
}

/** What a buffer is. */
typedef struct tg_buffer_info {
    /** sizeof(tg_buffer_info). */
    size_t struct_size;
    /** Bytes. */
    uint64_t size;
    /** One of TG_MEMORY_*. */
    uint32_t memory;
    /** 1 when it has memory, 0 when the allocation failed or was not asked for. A token has none and gives 1. */
    uint32_t allocated;
    /** 1 when some byte is claimed, as far as is known without waiting; else 0. */
    uint32_t claimed;
    /** 0. */
    uint32_t reserved;
    /** The stream it was created on. */
    uint64_t stream;
    /** The caller's number. */
    uint64_t tag;
    /** Bytes of `label`, the NUL not counted. */
    size_t label_size;
    /** The caller's name, cut at 128 bytes. */
    char label[TG_LABEL_CAPACITY];
    /**
     * Where a kernel with TG_KERNEL_DECLARES_USES that is handed an address finds the first byte
     * (vkGetBufferDeviceAddress); a multiple of 16. Good until the buffer is destroyed or the device is lost. 0 when
     * there is none: the device lacks TG_FEATURE_BUFFER_ADDRESSES or is lost, the buffer is a token, or it has no memory
     * (then a launch that names it in `extra` is skipped on its root, so the 0 is never followed).
     */
    uint64_t address;
} tg_buffer_info;

/** Every member of tg_buffer_info at its default. */
#define TG_BUFFER_INFO_INIT { \
    /* struct_size */ sizeof(tg_buffer_info), \
    /* size */ 0, \
    /* memory */ 0, \
    /* allocated */ 0, \
    /* claimed */ 0, \
    /* reserved */ 0, \
    /* stream */ 0, \
    /* tag */ 0, \
    /* label_size */ 0, \
    /* label */ "", \
    /* address */ 0 \
}

/**
 * Makes a buffer.
 *
 * A failure gives a live handle too: a buffer without memory, remembered under a root. Work over it is skipped, and
 * reads name the root. tg_buffer_allocate tries again. If memory comes back when work in flight is over, the call waits
 * for that work first, once.
 *
 * \param dev The device.
 * \param desc What it is to be; must not be NULL.
 * \param out The buffer: live on TG_OK and on every failure (TG_IS_TRACKED), null on misuse. Must not be NULL. (One
 *        failure has no handle to give: TG_ERROR_LIMIT_EXCEEDED, beyond 1048576 live buffers.)
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE for
 *          dev; TG_ERROR_OUT_OF_DEVICE_MEMORY, also for a size the device can never hold;
 *          TG_ERROR_OUT_OF_HOST_MEMORY; TG_ERROR_LIMIT_EXCEEDED; TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread.
 * \claims On failure the whole buffer, by one root. A new buffer is never claimed otherwise, unless the device has
 *         TG_DEVICE_TRACK_UNINITIALIZED. Its bytes are undefined but readable.
 */
TG_API tg_result tg_buffer_create(tg_device dev, const tg_buffer_desc *desc, tg_buffer *out);

/**
 * Destroys a buffer.
 *
 * The handle is stale when the call returns. Work in flight keeps the memory until it completes.
 *
 * \param dev The device.
 * \param buffer The buffer; the null handle is fine and does nothing.
 * \returns TG_OK; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
 *          TG_ERROR_WRONG_STATE while an open scope or mapping holds its bytes.
 * \threadsafety Any thread.
 * \claims Releases every claim on its bytes.
 */
TG_API tg_result tg_buffer_destroy(tg_device dev, tg_buffer buffer);

/**
 * Allocates a buffer that has no memory: again after a failure, or for the first time after TG_BUFFER_UNALLOCATED. If
 * memory comes back when work in flight is over, the call waits for that work first, once.
 * For a token that tg_fail_unallocated was called on, it says that the caller's own memory is there now.
 *
 * \param dev The device.
 * \param buffer The buffer.
 * \param size Its new size in bytes; 0: as before.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE when it has memory;
 *          TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_OUT_OF_HOST_MEMORY; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread.
 * \claims On success the root of the failed allocation claims all its bytes; writing them releases them. On failure
 *         the new root takes the place of the old one.
 */
TG_API tg_result tg_buffer_allocate(tg_device dev, tg_buffer buffer, uint64_t size);

/**
 * Tells what a buffer is.
 *
 * \param dev The device.
 * \param buffer The buffer.
 * \param out Filled on TG_OK, up to its struct_size.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_buffer_get_info(tg_device dev, tg_buffer buffer, tg_buffer_info *out);

/**
 * Writes host bytes to a slice, in the order of a stream.
 *
 * The bytes are copied before the call returns. What is longer than a sixteenth of the staging memory (at least
 * 4096 bytes) goes in pieces, between which work of other threads on the same bytes may come; they wait for
 * their own predecessors only.
 *
 * \param dev The device.
 * \param stream The stream.
 * \param dst The bytes to write; a size of 0 does nothing.
 * \param src What to write; may be NULL when src_size is 0.
 * \param src_size Bytes at src; must be the size of the slice.
 * \returns TG_OK; TG_SKIPPED when dst has no memory; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer;
 *          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
 *          TG_ERROR_WRONG_STATE while an open scope or mapping holds the bytes;
 *          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
 *          While a stream waits for a semaphore (tg_vk_stream_wait_semaphore) also TG_NOT_READY: only that could make
 *          room, and nothing changed; TG_ERROR_LIMIT_EXCEEDED when some pieces were enqueued before the room ran out.
 * \threadsafety Any thread. Calls on one stream from several threads are in the order the device sees them.
 * \claims Success releases exactly the bytes of dst. Failure claims them, by a root of its own, but for the pieces
 *         that were enqueued before it.
 */
TG_API tg_result tg_buffer_write(tg_device dev, uint64_t stream, tg_slice dst, const void *src, size_t src_size);

/**
 * tg_buffer_write, with flags.
 *
 * A function of its own because the plain write has no room for flags, and most writes need none.
 *
 * \param dev The device.
 * \param stream The stream.
 * \param dst The bytes to write; a size of 0 does nothing.
 * \param src What to write; may be NULL when src_size is 0.
 * \param src_size Bytes at src; must be the size of the slice.
 * \param flags TG_WRITE_* added together.
 * \returns As tg_buffer_write, and with TG_WRITE_NO_WAIT also TG_NOT_READY: the call would have had to wait, and
 *          nothing changed. With TG_WRITE_NO_WAIT, more bytes than the staging memory has are
 *          TG_ERROR_INVALID_ARGUMENT, because no later try could succeed either.
 * \threadsafety Any thread. Calls on one stream from several threads are in the order the device sees them.
 * \claims As tg_buffer_write; TG_NOT_READY claims and releases nothing.
 */
TG_API tg_result tg_buffer_write_with(tg_device dev, uint64_t stream, tg_slice dst, const void *src, size_t src_size,
    uint64_t flags);

/**
 * Reads a slice into host memory, in the order of a stream.
 *
 * Flushes, waits for the work that wrote the bytes, and copies them, if and only if every one of them was last
 * written by work that succeeded. Otherwise the destination is untouched and tg_last_report names the roots.
 *
 * A call whose time is up leaves the copy it waited for. The next call for the same bytes on the same stream takes it up,
 * unless work that changes them was enqueued since; so a loop on TG_TIMEOUT ends as soon as the work does. Of copies that
 * are over and were not asked for again, the newest 16 are kept, as long as there is memory.
 *
 * If its own copy fails, the call fails by a root of its own, which tg_last_report names and nothing else keeps. The
 * bytes are not claimed, and the next call tries again.
 *
 * While the device is lost, the call answers TG_ERROR_DEVICE_LOST. After tg_device_recover the bytes that went with the
 * device are claimed by the root of the loss, and the call answers TG_ERROR_UNWRITTEN, as for any other claim.
 *
 * \param dev The device.
 * \param stream The stream.
 * \param dst Where to; may be NULL when dst_size is 0. Nothing else may use it during the call.
 * \param dst_size Bytes at dst; must be the size of the slice.
 * \param src The bytes to read; a size of 0 does nothing.
 * \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
 * \returns TG_OK; TG_TIMEOUT; TG_NOT_READY as tg_device_desc::max_pending and memory_cap say; TG_ERROR_UNWRITTEN when
 *          some byte is claimed; TG_ERROR_INVALID_ARGUMENT;
 *          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
 *          TG_ERROR_WRONG_STATE while an open scope or mapping holds the bytes;
 *          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread. Holds no other thread up.
 * \claims Nothing of the device's. Releases nothing.
 */
TG_API tg_result tg_buffer_read(tg_device dev, uint64_t stream, void *dst, size_t dst_size, tg_slice src,
    uint64_t timeout_ns);

/**
 * Copies a slice to another, in the order of a stream.
 *
 * Runs even if the source is partly claimed. Claimed bytes are copied like any others, and their claims with them, so the
 * destination is as good as the source, byte by byte. Offsets and sizes need no alignment.
 *
 * \param dev The device.
 * \param stream The stream.
 * \param dst The bytes to write.
 * \param src The bytes to read; as many, and none of them in dst (VUID-vkCmdCopyBuffer-pRegions-00117). Two sizes of
 *        0 do nothing; 0 and another size are misuse, as any two that differ.
 * \returns TG_OK; TG_SKIPPED when src or dst has no memory; TG_NOT_READY as tg_device_desc::max_pending says, and
 *          nothing changed; TG_ERROR_INVALID_ARGUMENT, also for slices that overlap or differ in size;
 *          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE while an open scope or mapping holds the bytes;
 *          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread. Calls on one stream from several threads are in the order the device sees them.
 * \claims Each claimed byte of src hands its claim to its byte of dst; each clean one releases it. A source without
 *         memory claims all of dst by its root. Failure claims all of dst, by a root of its own.
 */
TG_API tg_result tg_buffer_copy(tg_device dev, uint64_t stream, tg_slice dst, tg_slice src);

/**
 * Fills a slice with a pattern, in the order of a stream.
 *
 * \param dev The device.
 * \param stream The stream.
 * \param dst The bytes to write; a size of 0 does nothing, but the other arguments are checked all the same.
 * \param pattern The pattern in its low bytes, lowest byte first.
 * \param pattern_size Bytes of the pattern: 1, 2 or 4; anything else is misuse. The pattern begins at the first byte
 *        of dst, which may lie anywhere; the size of dst must be a whole number of patterns. (What vkCmdFillBuffer
 *        cannot fill, multiples of 4 only, goes through staging memory.)
 * \returns TG_OK; TG_SKIPPED when dst has no memory; TG_NOT_READY as tg_device_desc::max_pending and
 *          memory_cap say, and nothing changed; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
 *          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE while an open scope or mapping holds
 *          the bytes; TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread. Calls on one stream from several threads are in the order the device sees them.
 * \claims Success releases exactly the bytes of dst. Failure claims them, by a root of its own.
 */
TG_API tg_result tg_buffer_fill(tg_device dev, uint64_t stream, tg_slice dst, uint32_t pattern, uint32_t pattern_size);

/**
 * Maps a slice of memory that the host can see (TG_MEMORY_UPLOAD, TG_MEMORY_READBACK): gives the address of its
 * bytes.
 *
 * Waits until the device is done with them: with what writes them, and for writing with what reads them too. Until
 * tg_buffer_unmap they are held: other work on them is TG_ERROR_WRONG_STATE, except that bytes mapped for reading may
 * be read by anyone. Other bytes of the buffer are free, and may be mapped as well.
 *
 * Memory of TG_MEMORY_DEVICE is never mapped, not even where the host could see it: that would work on one device and
 * fail on the next. tg_buffer_read and tg_buffer_write reach it everywhere.
 *
 * \param dev The device.
 * \param slice The bytes. For writing they must begin and end at multiples of tg_device_info::map_alignment, or end
 *        with the buffer. A size of 0 maps nothing and gives NULL.
 * \param access TG_ACCESS_READ: the bytes are read only; TG_ACCESS_WRITE: every one of them is written and none is
 *        read, what is there before is undefined; TG_ACCESS_READ_WRITE: they are as they were.
 * \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
 * \param out The address of the first byte, until tg_buffer_unmap; NULL unless TG_OK is returned. Must not be NULL.
 * \returns TG_OK; TG_TIMEOUT: the device is not done with the bytes, and nothing changed; TG_ERROR_UNWRITTEN for
 *          TG_ACCESS_READ when some byte is claimed or there are none; TG_SKIPPED for the others: some byte that is
 *          read first is claimed, or there are none; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer
 *          and for a token; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE for TG_MEMORY_DEVICE, and while an open scope or mapping holds
 *          some of the bytes; TG_ERROR_LIMIT_EXCEEDED for a slice that breaks map_alignment;
 *          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread; the bytes may be used and unmapped on another. Holds no other thread up.
 * \claims TG_ACCESS_READ: nothing. Otherwise all bytes of the slice, by a provisional root of code TG_ERROR_TORN_DOWN
 *         until they are unmapped; a skip hands the roots found to all of them; a failure claims them by a root of
 *         its own.
 */
TG_API tg_result tg_buffer_map(tg_device dev, tg_slice slice, uint32_t access, uint64_t timeout_ns, void **out);

/**
 * Ends a mapping: the address is no longer good, and the bytes are free.
 *
 * It is named by its bytes, as everything else is: a handle that can be checked and a range, where an address could
 * not be told from one that was mapped before.
 *
 * \param dev The device.
 * \param slice The bytes that were mapped, exactly. Bytes mapped for reading more than once are unmapped as often. A
 *        size of 0 does nothing.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT for a slice beyond its buffer; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
 *          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE when no mapping has exactly these
 *          bytes; TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_DRIVER when what was written cannot be shown to the device;
 *          TG_ERROR_DEVICE_LOST when the device was lost meanwhile, unless the bytes were only read. On a failure
 *          they are unmapped too.
 * \threadsafety Any thread. No thread may use the address any more.
 * \claims Success releases exactly the bytes of the slice if they were mapped to be written: the caller's word that
 *         it wrote every one. Failure claims them, by a root of its own, or by the loss.
 */
TG_API tg_result tg_buffer_unmap(tg_device dev, tg_slice slice);

/* Asynchronous read ----------------------------------------------------------------------------------------------- */

/**
 * Begins to read a slice, in the order of a stream, and returns at once.
 *
 * The bytes are copied on the device behind everything enqueued on them before, and it is that copy that is read:
 * what becomes of the source afterwards, rewritten, destroyed or its memory used again, does not matter. The work is
 * submitted by the call. tg_read_poll, tg_read_wait and tg_read_data tell when it is over and whether it went well.
 *
 * \param dev The device.
 * \param stream The stream.
 * \param src The bytes to read. A size of 0 gives a read that is over and has no bytes.
 * \param out The read; the caller releases it. Live on TG_OK and on every failure (TG_IS_TRACKED), which is then what
 *        the read's own answer names; otherwise null. Must not be NULL. (One failure has no handle to give:
 *        TG_ERROR_LIMIT_EXCEEDED, beyond 1048576 live reads.)
 * \returns TG_OK, also when bytes of src are claimed: that is the read's answer; TG_NOT_READY: max_pending pieces of
 *          work are unfinished, or memory is full of what is being written and read; the call would have had to wait
 *          for the device, and nothing changed;
 *          TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
 *          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE while an open scope or mapping holds
 *          the bytes; TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER;
 *          TG_ERROR_LIMIT_EXCEEDED; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread. Calls on one stream from several threads are in the order the device sees them.
 * \claims Nothing of the device's. A failure claims the bytes of the read, by a root of its own.
 */
TG_API tg_result tg_read_begin(tg_device dev, uint64_t stream, tg_slice src, tg_read *out);

/**
 * Tells whether a read is over, without waiting.
 *
 * A read that is over stays over: a device lost afterwards takes nothing from it. It is over when this function, or a wait
 * for the read, for its stream or for the device, has found it so; tg_stream_wait and tg_device_wait fetch the bytes of
 * every read that they find over.
 *
 * \param dev The device.
 * \param read The read.
 * \returns TG_OK: its bytes are there, tg_read_data gives them; TG_NOT_READY: not over yet; TG_ERROR_UNWRITTEN: some
 *          byte of it was last to be written by work that did not succeed, tg_read_report names the roots;
 *          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
 *          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_DRIVER when the bytes cannot be fetched: ask again. A device lost
 *          before the read was over is TG_ERROR_UNWRITTEN, with the loss as root.
 * \threadsafety Any thread.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_read_poll(tg_device dev, tg_read read);

/**
 * Waits until a read is over.
 *
 * \param dev The device.
 * \param read The read.
 * \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
 * \returns TG_OK; TG_TIMEOUT: not over yet, ask again; otherwise as tg_read_poll.
 * \threadsafety Any thread, several at once too. Holds no other thread up.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_read_wait(tg_device dev, tg_read read, uint64_t timeout_ns);

/**
 * Gives the bytes of a read that is over and went well; otherwise answers as tg_read_poll.
 *
 * \param dev The device.
 * \param read The read.
 * \param data The bytes, borrowed until tg_read_release or the end of the device; NULL for a read of 0 bytes. Written
 *        on TG_OK only. Must not be NULL.
 * \param size How many there are: the size of the slice. Written on TG_OK only. May be NULL.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; otherwise as tg_read_poll.
 * \threadsafety Any thread. No thread may release the read while another uses its bytes.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_read_data(tg_device dev, tg_read read, const void **data, size_t *size);

/**
 * Makes a report on the roots that claim bytes of a read, with their paths to its source, as far as is known without
 * waiting. Nothing is in it for a read that went well.
 *
 * \param dev The device.
 * \param read The read.
 * \param out The report; the caller releases it. The null handle unless TG_OK is returned. Must not be NULL.
 * \returns TG_OK, claimed or not; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
 *          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_LIMIT_EXCEEDED when a million reports are not
 *          released; TG_ERROR_OUT_OF_HOST_MEMORY.
 * \threadsafety Any thread.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_read_report(tg_device dev, tg_read read, tg_report *out);

/**
 * Releases a read, over or not, and its bytes.
 *
 * The handle is stale when the call returns. A copy still under way goes on, and nobody hears of it.
 *
 * \param dev The device.
 * \param read The read; the null handle is fine and does nothing.
 * \returns TG_OK; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Releases every claim on the bytes of the read; a root that nothing else holds is gone.
 */
TG_API tg_result tg_read_release(tg_device dev, tg_read read);

/* Kernel ---------------------------------------------------------------------------------------------------------- */

/**
 * The caller vouches for the module: it is parsed and reflected, but not validated. A module that breaks Vulkan's
 * rules may then crash the driver.
 *
 * Every module is held to two limits, because the library parses it: 16777216 bytes, and 262144 instructions. The steps
 * that finding out about its bindings takes are limited too. All other modules are also held to these limits, beyond
 * which validators and drivers take all stack, memory or time there is. Only a trusted module may exceed them: then
 * the driver alone says how long it takes to compile, and whether the process survives it.
 *
 * - Types are nested at most 255 deep. If each type is written out wherever another names it, all of them have at most
 *   262144 members, and so have the types of all variables outside functions.
 * - If each constant is written out wherever another names it, all of them have at most 262144 numbers and vectors.
 * - If each call is replaced by the function it calls, a function has at most 131072 instructions, 8192 accesses to
 *   memory, and 1048576 elements of variables; all functions together have at most 4194304 instructions. An
 *   instruction on a struct or array counts once for each number and vector in it.
 * - Half the blocks of such a function, times its instructions and 8 for each construct around each block, are at most
 *   134217728: about 200 nested selections, 150 nested loops or 2500 selections in a row.
 * - Entry points times functions are at most 1048576; so are decorations times targets of groups of decorations.
 *
 * A module beyond a limit is TG_ERROR_LIMIT_EXCEEDED, and the message names the limit and the count. The limits stop
 * modules that are certain to exhaust a driver. They do not make every driver fast: a module within them may take Mesa's
 * software driver some seconds, and each driver chooses how far it unrolls a loop.
 */
#define TG_KERNEL_TRUSTED (1 << 0)
/**
 * Launches of the kernel declare in `extra` what it reaches without binding it. Modules that reach memory the library
 * cannot see are TG_ERROR_UNSUPPORTED without it. With it a module may
 *
 * - reach memory by address (PhysicalStorageBufferAddresses; TG_ERROR_UNSUPPORTED where the device lacks
 *   TG_FEATURE_BUFFER_ADDRESSES). The bytes it reaches by address are exactly those in `extra`: nothing else is ordered
 *   against it, checked before it, claimed or released after it, and without `extra` it reaches none. A buffer's
 *   address is tg_buffer_info::address.
 * - bind arrays of storage buffers whose length is constant. Each element is a binding of its own
 *   (tg_binding_info::element). Which elements are touched cannot be seen, so every one counts as what the module does
 *   with any, and as TG_ACCESS_MAY_WRITE where it only stores; descriptor and launch override that as always, with
 *   TG_ACCESS_NONE for elements that are not touched.
 *
 * Images, uniform buffers and arrays without a length stay unsupported. No robust access of the driver holds such a
 * kernel: a wrong address, or an index past the end of an array, reads or spoils any memory of the process, ends it (on
 * software drivers) or loses the device. What it spoils is not tracked.
 */
#define TG_KERNEL_DECLARES_USES (1 << 1)

/** The module says it, and proves of no launch that it writes bytes of the binding. */
#define TG_BASIS_INFERRED 1
/**
 * The module says it, and each launch writes the bytes that its grid and push constants prove. The rest of its slice
 * counts as TG_ACCESS_MAY_WRITE, and the whole slice in an indirect launch.
 */
#define TG_BASIS_PROVEN 2
/** tg_kernel_desc::accesses says it. */
#define TG_BASIS_DECLARED 3

/** A specialization constant. Never grows. */
typedef struct tg_constant {
    /** The SpecId in the module (VkSpecializationMapEntry::constantID). */
    uint32_t id;
    /** The 4 bytes of its value: an int, an unsigned, a float's bits, or 0 and 1 for a bool. */
    uint32_t value;
} tg_constant;

/** Every member of tg_constant at its default. */
#define TG_CONSTANT_INIT { \
    /* id */ 0, \
    /* value */ 0 \
}

/** What a kernel is made from. */
typedef struct tg_kernel_desc {
    /** sizeof(tg_kernel_desc). */
    size_t struct_size;
    /** SPIR-V, in whatever state; copied. Need not be aligned. Must not be NULL. */
    const void *code;
    /**
     * Bytes of it. Any number: bytes that are no module give a live broken kernel, as do more than 16777216
     * (TG_ERROR_LIMIT_EXCEEDED).
     */
    size_t code_size;
    /** The entry point, at most 1024 bytes; empty: "main". */
    tg_str entry;
    /**
     * What the kernel does to each binding, in the order the kernel reports them: TG_ACCESS_* each. TG_ACCESS_AUTO
     * and bindings beyond the array: what the module does. TG_ACCESS_WRITE is the caller's word that every launch writes
     * every byte of the slice that is bound. May be NULL when there are none.
     */
    const uint32_t *accesses;
    /** Elements of `accesses`; those beyond the bindings of the kernel mean nothing. */
    size_t access_count;
    /** Specialization constants; ids the module lacks are ignored. May be NULL when there are none. */
    const tg_constant *constants;
    /** Elements of `constants`. */
    size_t constant_count;
    /** TG_KERNEL_* added together. */
    uint64_t flags;
    /** Its name in reports and debug tools; cut at 128 bytes. */
    tg_str label;
    /** A number of the caller's for it, told in reports. */
    uint64_t tag;
} tg_kernel_desc;

/** Every member of tg_kernel_desc at its default. */
#define TG_KERNEL_DESC_INIT { \
    /* struct_size */ sizeof(tg_kernel_desc), \
    /* code */ NULL, \
    /* code_size */ 0, \
    /* entry */ { NULL, 0 }, \
    /* accesses */ NULL, \
    /* access_count */ 0, \
    /* constants */ NULL, \
    /* constant_count */ 0, \
    /* flags */ 0, \
    /* label */ { NULL, 0 }, \
    /* tag */ 0 \
}

/** A binding of a kernel. Never grows. */
typedef struct tg_binding_info {
    /** Its descriptor set. */
    uint32_t set;
    /** Its number in the set. */
    uint32_t binding;
    /** TG_ACCESS_*, never TG_ACCESS_AUTO: what the descriptor, else the module, says. */
    uint32_t access;
    /** Which element of an array of buffers (TG_KERNEL_DECLARES_USES); 0 where the binding is one buffer. */
    uint32_t element;
    /** TG_BASIS_*: on what `access` rests. */
    uint32_t basis;
    /** 0. */
    uint32_t reserved;
    /** Bytes of `name`, the NUL not counted. */
    size_t name_size;
    /** The variable's name in the module, where it has one; cut at 128 bytes. */
    char name[TG_LABEL_CAPACITY];
} tg_binding_info;

/** Every member of tg_binding_info at its default. */
#define TG_BINDING_INFO_INIT { \
    /* set */ 0, \
    /* binding */ 0, \
    /* access */ 0, \
    /* element */ 0, \
    /* basis */ 0, \
    /* reserved */ 0, \
    /* name_size */ 0, \
    /* name */ "" \
}

/** What a kernel is. */
typedef struct tg_kernel_info {
    /** sizeof(tg_kernel_info). */
    size_t struct_size;
    /**
     * In: an array for the bindings, or NULL. It is filled in the order of (set, binding, element), which is the order of
     * a launch's bindings.
     */
    tg_binding_info *bindings;
    /** In: elements of `bindings`; 0 asks for the count only. */
    size_t binding_capacity;
    /** Out: how many bindings there are, whatever fits; 0 when the module could not be read. */
    size_t binding_count;
    /** Invocations of a work group in each direction, after specialization. */
    uint32_t group_size[3];
    /** Bytes of push constants that a launch must pass (the end of the module's last push constant). */
    uint32_t push_size;
    /** 1 when the kernel is broken, else 0. */
    uint32_t broken;
    /** 0. */
    uint32_t reserved;
    /** The id of the root that says why it is broken, else 0. */
    uint64_t failure;
    /** The caller's number. */
    uint64_t tag;
    /** Bytes of `label`, the NUL not counted. */
    size_t label_size;
    /** The caller's name, cut at 128 bytes. */
    char label[TG_LABEL_CAPACITY];
} tg_kernel_info;

/** Every member of tg_kernel_info at its default. */
#define TG_KERNEL_INFO_INIT { \
    /* struct_size */ sizeof(tg_kernel_info), \
    /* bindings */ NULL, \
    /* binding_capacity */ 0, \
    /* binding_count */ 0, \
    /* group_size */ { 0, 0, 0 }, \
    /* push_size */ 0, \
    /* broken */ 0, \
    /* reserved */ 0, \
    /* failure */ 0, \
    /* tag */ 0, \
    /* label_size */ 0, \
    /* label */ "" \
}

/**
 * Makes a kernel from SPIR-V.
 *
 * The module is validated, reflected and compiled before the call returns; other calls go on meanwhile. This happens on
 * a thread of the library's with a stack of 32 MiB, so that the caller's stack may be small; without such a thread the
 * kernel is broken with TG_ERROR_OUT_OF_HOST_MEMORY. A failure
 * gives a live handle too: a broken kernel, remembered under a root. Launches of it are skipped, and reads of what
 * they were to write name the root. tg_kernel_rebuild repairs it. A module that cannot be parsed does not tell what it
 * writes: then bindings that neither `accesses` nor the launch declares count as written, inputs too.
 *
 * \param dev The device.
 * \param desc What it is made from; must not be NULL.
 * \param out The kernel: live on TG_OK and on every failure (TG_IS_TRACKED), null on misuse. Must not be NULL. (One
 *        failure has no handle to give: TG_ERROR_LIMIT_EXCEEDED, beyond 1048576 live kernels.)
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for NULL code; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
 *          TG_ERROR_STALE_HANDLE for dev; TG_ERROR_INVALID_SHADER (the report has the validator's words);
 *          TG_ERROR_UNSUPPORTED for what the device lacks, and for memory the library cannot see
 *          (TG_KERNEL_DECLARES_USES);
 *          TG_ERROR_LIMIT_EXCEEDED for what the device's limits or those of TG_KERNEL_TRUSTED do not allow;
 *          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread. Holds no other thread up.
 * \claims No byte. On failure the kernel itself carries a root, which launches hand on to what they were to write.
 */
TG_API tg_result tg_kernel_create(tg_device dev, const tg_kernel_desc *desc, tg_kernel *out);

/**
 * Makes a kernel anew under the same handle: to repair a broken one, or to exchange a working one.
 *
 * Launches enqueued before run, or were skipped, as the kernel was then. When the new module fails, the kernel is
 * broken, on the new root.
 *
 * \param dev The device.
 * \param kernel The kernel.
 * \param desc What it is made from; must not be NULL.
 * \returns As tg_kernel_create, and TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE for kernel; misuse leaves the kernel as it was.
 * \threadsafety Any thread. Holds no other thread up.
 * \claims No byte. The kernel lets go of its old root; bytes that the root claims stay claimed until they are
 *         written.
 */
TG_API tg_result tg_kernel_rebuild(tg_device dev, tg_kernel kernel, const tg_kernel_desc *desc);

/**
 * Destroys a kernel.
 *
 * The handle is stale when the call returns. Work in flight keeps the kernel until it completes.
 *
 * \param dev The device.
 * \param kernel The kernel; the null handle is fine and does nothing.
 * \returns TG_OK; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims No byte. A broken kernel lets go of its root; bytes that the root claims stay claimed.
 */
TG_API tg_result tg_kernel_destroy(tg_device dev, tg_kernel kernel);

/**
 * Tells what a kernel is: its bindings with what it does to them and how that is known, group size, push constants, or
 * why it is broken.
 *
 * \param dev The device.
 * \param kernel The kernel.
 * \param out Filled on TG_OK and TG_INCOMPLETE, up to its struct_size; the members marked "In" are read first.
 * \returns TG_OK; TG_INCOMPLETE when binding_capacity is neither 0 nor enough; TG_ERROR_INVALID_ARGUMENT;
 *          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_kernel_get_info(tg_device dev, tg_kernel kernel, tg_kernel_info *out);

/* Launch ---------------------------------------------------------------------------------------------------------- */

/**
 * A launch: which kernel, over which bytes, how much of it.
 *
 * At most one of `groups`, `threads` and `indirect` is given. A grid is given when any of its numbers is not 0, a
 * slice when its buffer is not the null handle. When none is given, or the first number of the given grid is 0, the
 * grid is empty: the arguments are checked, and nothing else happens.
 */
typedef struct tg_launch_desc {
    /** sizeof(tg_launch_desc). */
    size_t struct_size;
    /** The stream it is enqueued on. */
    uint64_t stream;
    /** What runs. */
    tg_kernel kernel;
    /**
     * The slices bound to the kernel, in the order tg_kernel_get_info gives its bindings; each at a multiple of
     * tg_device_info::binding_alignment, and neither empty nor longer than max_binding_size. An access other than
     * TG_ACCESS_AUTO overrides what descriptor and module say, for this launch. With TG_ACCESS_AUTO in both, the launch
     * writes the bytes that the module proves with these groups and push constants, and may write the rest of the slice.
     */
    const tg_use *bindings;
    /** Elements of `bindings`; as many as the kernel has. */
    size_t binding_count;
    /**
     * Bytes that the kernel reaches but does not bind (TG_KERNEL_DECLARES_USES), or the part of a TG_ACCESS_NONE binding
     * that it touches; tokens among them. TG_ACCESS_AUTO is not accepted. May be NULL when there are none.
     */
    const tg_use *extra;
    /** Elements of `extra`. */
    size_t extra_count;
    /** Work groups in each direction, up to tg_device_info::max_groups. After the first, 0 means 1. */
    uint32_t groups[3];
    /**
     * Invocations in each direction: divided by the group size of the kernel, rounded up. After the first, 0 means 1.
     */
    uint32_t threads[3];
    /**
     * Three uint32_t group counts in a buffer (VkDispatchIndirectCommand): 12 bytes at a multiple of 4
     * (VUID-vkCmdDispatchIndirect-offset-02710). Of a longer slice the launch reads, and checks, the first 12 bytes alone.
     * Counts beyond the limits of the device run nothing. A binding that is stored to without a declaration counts as
     * TG_ACCESS_MAY_WRITE, because the library cannot know how much runs.
     */
    tg_slice indirect;
    /** Push constants; copied. May be NULL when push_size is 0. */
    const void *push;
    /** Bytes of them: exactly what tg_kernel_info::push_size says. */
    size_t push_size;
    /** Its name in reports and debug tools; empty: that of the kernel; cut at 128 bytes. */
    tg_str label;
    /** A number of the caller's for it, told in reports. */
    uint64_t tag;
} tg_launch_desc;

/** Every member of tg_launch_desc at its default. */
#define TG_LAUNCH_DESC_INIT { \
    /* struct_size */ sizeof(tg_launch_desc), \
    /* stream */ 0, \
    /* kernel */ TG_KERNEL_INIT, \
    /* bindings */ NULL, \
    /* binding_count */ 0, \
    /* extra */ NULL, \
    /* extra_count */ 0, \
    /* groups */ { 0, 0, 0 }, \
    /* threads */ { 0, 0, 0 }, \
    /* indirect */ TG_SLICE_INIT, \
    /* push */ NULL, \
    /* push_size */ 0, \
    /* label */ { NULL, 0 }, \
    /* tag */ 0 \
}

/**
 * Enqueues a launch, or skips it.
 *
 * When a byte it reads is claimed, or the kernel is broken, the launch does not run and its outputs take over the
 * roots. Outputs are what the launch, else the kernel's descriptor, else its module declares; of a broken kernel whose
 * module cannot be parsed, every binding that the first two leave at TG_ACCESS_AUTO is one, an input too: a repair has
 * to write it again. Work either enters or skips, decided once, here. Returns without waiting for the device, unless
 * the launch is to run and max_pending pieces of work are unfinished (tg_device_desc).
 *
 * \param dev The device.
 * \param desc The launch; must not be NULL.
 * \returns TG_OK: enqueued; TG_SKIPPED; TG_NOT_READY as tg_device_desc::max_pending says, and nothing changed;
 *          TG_ERROR_INVALID_ARGUMENT, also for a wrong number of bindings, a wrong push_size, a slice beyond its
 *          buffer, an empty slice that is bound, and more than one grid;
 *          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
 *          TG_ERROR_WRONG_STATE while an open scope or mapping holds some of the bytes; TG_ERROR_LIMIT_EXCEEDED for a
 *          slice or grid beyond the limits in tg_device_info; TG_ERROR_OUT_OF_HOST_MEMORY,
 *          TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread. Launches on one stream from several threads are in the order the device sees them.
 * \claims Success releases exactly the slices with TG_ACCESS_WRITE. A skip hands the roots found to everything it was
 *         to write. A failure claims everything it was to write, by a root of its own.
 */
TG_API tg_result tg_launch(tg_device dev, const tg_launch_desc *desc);

/* Stream ---------------------------------------------------------------------------------------------------------- */

/**
 * Hands everything enqueued on a stream to the driver, and what it depends on, without waiting.
 *
 * Waits, reads and the slot itself (after max_recorded launches) flush too; this is for work that is to begin now.
 * A stream that nothing was enqueued on is flushed already.
 *
 * \param dev The device.
 * \param stream The stream; any number.
 * \returns TG_OK; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_STALE_HANDLE for dev;
 *          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER when the driver refuses the
 *          work; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread.
 * \claims Success releases nothing. The driver takes or refuses a submission as a whole. A submission holds the work that
 *         a stream enqueued between two flushes; with a scheduler, the queued work of several streams. If the driver
 *         refuses it, each piece of work in it is a failure, as if that had been known when it was enqueued.
 */
TG_API tg_result tg_stream_flush(tg_device dev, uint64_t stream);

/**
 * Flushes a stream and waits until everything enqueued on it before has completed.
 *
 * Says nothing about claims: work that was skipped or failed is as complete as any other (tg_check_written).
 *
 * \param dev The device.
 * \param stream The stream; any number.
 * \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
 * \returns TG_OK; TG_TIMEOUT; otherwise as tg_stream_flush.
 * \threadsafety Any thread. Holds no other thread up.
 * \claims As tg_stream_flush.
 */
TG_API tg_result tg_stream_wait(tg_device dev, uint64_t stream, uint64_t timeout_ns);

/* Event ----------------------------------------------------------------------------------------------------------- */

/**
 * Records an event on a stream: it is over when everything enqueued on the stream before the call is.
 *
 * What the stream has so far is submitted. An event says when work is over, and nothing about claims: work that was
 * skipped, failed or was refused by the driver is as over as any other.
 *
 * \param dev The device.
 * \param stream The stream; any number.
 * \param event The event. The null handle becomes a new event, which the caller destroys; a live one is recorded
 *        again in place, and whoever waits already waits for what it was. Must not be NULL. Recorded on TG_OK and on
 *        every failure (TG_IS_TRACKED); left as it was on misuse and on TG_ERROR_LIMIT_EXCEEDED.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND,
 *          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_LIMIT_EXCEEDED beyond 1048576 live events;
 *          otherwise as tg_stream_flush.
 * \threadsafety Any thread. Two threads that record one event: it is one of the two.
 * \claims As tg_stream_flush.
 */
TG_API tg_result tg_event_record(tg_device dev, uint64_t stream, tg_event *event);

/**
 * Waits until everything before an event is over.
 *
 * \param dev The device.
 * \param event The event.
 * \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
 * \returns TG_OK; TG_TIMEOUT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE; TG_ERROR_DRIVER when waiting fails; TG_ERROR_DEVICE_LOST, also for an event that
 *          was over before.
 * \threadsafety Any thread, several at once too. Holds no other thread up.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_event_wait(tg_device dev, tg_event event, uint64_t timeout_ns);

/**
 * Tells whether everything before an event is over, without waiting.
 *
 * \param dev The device.
 * \param event The event.
 * \returns TG_OK: over; TG_NOT_READY: not yet; otherwise as tg_event_wait: TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND,
 *          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE, TG_ERROR_DRIVER, TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_event_status(tg_device dev, tg_event event);

/**
 * Makes what is enqueued on a stream from now on come after everything before an event.
 *
 * The device waits; the call does not, and other streams go on (but those that share a backend stream with this one).
 * Work that shares bytes is ordered without it. It is for what the library is not told of: bytes bound as
 * TG_ACCESS_NONE, or reached without being bound.
 *
 * \param dev The device.
 * \param stream The stream that waits; any number, the event's own too.
 * \param event The event. It may be destroyed or recorded again afterwards: what was asked for stands.
 * \returns TG_OK; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
 *          TG_ERROR_OUT_OF_HOST_MEMORY, TG_ERROR_OUT_OF_DEVICE_MEMORY, TG_ERROR_DRIVER when the backend stream cannot
 *          be made, and then nothing is ordered; TG_ERROR_DEVICE_LOST.
 * \threadsafety Any thread.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_stream_wait_event(tg_device dev, uint64_t stream, tg_event event);

/**
 * Destroys an event. Streams and threads that wait for it go on waiting.
 *
 * \param dev The device.
 * \param event The event; the null handle is fine and does nothing.
 * \returns TG_OK; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_event_destroy(tg_device dev, tg_event event);

/* Failures -------------------------------------------------------------------------------------------------------- */

/** A failure that the caller declares. Its roots have the code TG_ERROR_CALLER. */
typedef struct tg_error_desc {
    /** sizeof(tg_error_desc). */
    size_t struct_size;
    /** A code of the caller's own, any number; reports show it as the tag of the root (its bits as uint64_t). */
    int64_t code;
    /** What happened, for a person; cut at 1024 bytes. */
    tg_str message;
    /** The name of what failed; cut at 128 bytes. */
    tg_str label;
} tg_error_desc;

/** Every member of tg_error_desc at its default. */
#define TG_ERROR_DESC_INIT { \
    /* struct_size */ sizeof(tg_error_desc), \
    /* code */ 0, \
    /* message */ { NULL, 0 }, \
    /* label */ { NULL, 0 } \
}

/**
 * Waits until the fate of some bytes is known, and tells whether every one was last written by work that succeeded.
 *
 * The question a read answers, without the read.
 *
 * \param dev The device.
 * \param slices The bytes; may be NULL when count is 0.
 * \param count Elements of slices. 0: TG_OK.
 * \param timeout_ns How long to wait at most, in nanoseconds; TG_WAIT_FOREVER. 0 answers at once.
 * \returns TG_OK: all written; TG_ERROR_UNWRITTEN: some byte is claimed, and tg_last_report names the roots;
 *          TG_TIMEOUT; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer; TG_ERROR_NULL_HANDLE,
 *          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_DRIVER when waiting fails.
 *          What a lost device held is claimed: TG_ERROR_UNWRITTEN.
 * \threadsafety Any thread. Holds no other thread up.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_check_written(tg_device dev, const tg_slice *slices, size_t count, uint64_t timeout_ns);

/**
 * Tells the oldest root that claims any of some bytes, as far as is known without waiting.
 *
 * \param dev The device.
 * \param slices The bytes; may be NULL when count is 0.
 * \param count Elements of slices.
 * \param failure The id of the root; 0: clean so far, which work in flight may still change. Written on TG_OK only.
 * \returns TG_OK, claimed or not; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer;
 *          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_first_failure(tg_device dev, const tg_slice *slices, size_t count, uint64_t *failure);

/**
 * Declares that some bytes are not what they should be: work of the caller's that was to write them failed.
 *
 * In the order of the calls: work enqueued before sees the bytes as they were, work enqueued after is skipped.
 *
 * \param dev The device.
 * \param slices The bytes; tokens too. May be NULL when count is 0.
 * \param count Elements of slices.
 * \param error What failed; must not be NULL.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer; TG_ERROR_NULL_HANDLE,
 *          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE while an open
 *          scope or mapping holds some of the bytes.
 * \threadsafety Any thread.
 * \claims Exactly the bytes of the slices, by one new root of code TG_ERROR_CALLER, which takes the place of older
 *         ones. A buffer without memory has no bytes, and keeps its root (tg_fail_unallocated gives it another). No
 *         bytes: no root.
 */
TG_API tg_result tg_taint(tg_device dev, const tg_slice *slices, size_t count, const tg_error_desc *error);

/**
 * Declares that some bytes are what they should be: work of the caller's wrote every one of them.
 *
 * In the order of the calls, as tg_taint.
 *
 * \param dev The device.
 * \param slices The bytes; tokens too. May be NULL when count is 0.
 * \param count Elements of slices.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer; TG_ERROR_NULL_HANDLE,
 *          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE while an open
 *          scope or mapping holds some of the bytes.
 * \threadsafety Any thread.
 * \claims Releases exactly the bytes of the slices. A buffer without memory has no bytes, and keeps its root. While the
 *         device is lost only tokens are released: its memory is claimed by the root of the loss.
 */
TG_API tg_result tg_mark_written(tg_device dev, const tg_slice *slices, size_t count);

/**
 * Declares that what a buffer stands for could not be allocated: a token's own memory, or a buffer made with
 * TG_BUFFER_UNALLOCATED.
 *
 * \param dev The device.
 * \param buffer The token, or the buffer without memory.
 * \param error Why; must not be NULL.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE; TG_ERROR_WRONG_STATE for a buffer that has memory, and while an open scope
 *          or mapping holds its bytes.
 * \threadsafety Any thread.
 * \claims The whole buffer, by a new root of code TG_ERROR_CALLER, which takes the place of older ones.
 */
TG_API tg_result tg_fail_unallocated(tg_device dev, tg_buffer buffer, const tg_error_desc *error);

/**
 * Lists the claimed parts of a slice, ascending, as far as is known without waiting.
 *
 * \param dev The device.
 * \param slice The bytes.
 * \param out An array to fill; may be NULL when capacity is 0.
 * \param capacity Its elements. 0 asks for the count only.
 * \param count How many there are, whatever fits. Must not be NULL. Written on TG_OK and TG_INCOMPLETE.
 * \returns TG_OK; TG_INCOMPLETE when capacity is neither 0 nor enough; TG_ERROR_INVALID_ARGUMENT, also for a slice
 *          beyond its buffer; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE; TG_ERROR_OUT_OF_HOST_MEMORY.
 * \threadsafety Any thread. The list is true at one moment of the call.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_claims(tg_device dev, tg_slice slice, tg_claim *out, size_t capacity, size_t *count);

/* Write scope ----------------------------------------------------------------------------------------------------- */

/** Work of the caller's: what it reads and writes. */
typedef struct tg_scope_desc {
    /** sizeof(tg_scope_desc). */
    size_t struct_size;
    /** The stream the work belongs to. */
    uint64_t stream;
    /**
     * The bytes it reads and writes, tokens among them. TG_ACCESS_AUTO is not accepted. May be NULL when there are
     * none.
     */
    const tg_use *uses;
    /** Elements of `uses`. */
    size_t use_count;
    /** Its name in reports; cut at 128 bytes. */
    tg_str label;
    /** A number of the caller's for it, told in reports. */
    uint64_t tag;
} tg_scope_desc;

/** Every member of tg_scope_desc at its default. */
#define TG_SCOPE_DESC_INIT { \
    /* struct_size */ sizeof(tg_scope_desc), \
    /* stream */ 0, \
    /* uses */ NULL, \
    /* use_count */ 0, \
    /* label */ { NULL, 0 }, \
    /* tag */ 0 \
}

/**
 * Opens a write scope, or skips the work.
 *
 * Between this and tg_scope_end or tg_scope_fail the caller does its work. What it is to write counts as torn down
 * until the scope ends well: a scope that is never ended leaves it so. While it is open its bytes are held: other
 * work on them is TG_ERROR_WRONG_STATE. On a lost device a scope opens too, for tokens; see tg_scope_end.
 *
 * \param dev The device.
 * \param desc The work; must not be NULL.
 * \param out The scope; the null handle unless TG_OK is returned. Must not be NULL.
 * \returns TG_OK: do the work; TG_SKIPPED: some byte it reads is claimed, do not do it; TG_NOT_READY as
 *          tg_device_desc::max_pending says, and nothing changed; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its
 *          buffer; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
 *          TG_ERROR_WRONG_STATE while another open scope or mapping holds some of the bytes;
 *          TG_ERROR_OUT_OF_HOST_MEMORY; TG_ERROR_LIMIT_EXCEEDED beyond 1048576 open scopes; TG_ERROR_DRIVER when waiting
 *          for room fails.
 * \threadsafety Any thread. The scope may be ended on another.
 * \claims What it is to write, by a provisional root of code TG_ERROR_TORN_DOWN. A skip hands the roots found to
 *         everything it was to write. TG_ERROR_LIMIT_EXCEEDED and TG_ERROR_DRIVER claim it by a root of their code.
 */
TG_API tg_result tg_scope_begin(tg_device dev, const tg_scope_desc *desc, tg_scope *out);

/**
 * Ends a scope: its work succeeded.
 *
 * \param dev The device.
 * \param scope The scope; the null handle is fine and does nothing.
 * \returns TG_OK; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Releases exactly the slices with TG_ACCESS_WRITE, and the provisional claims of the others; what was claimed of
 *         a slice with TG_ACCESS_MAY_WRITE is claimed again, by the same roots. Where the work
 *         turns out to have read bad bytes, what it wrote takes over their roots. While the device is lost, of what it
 *         wrote only tokens are released: the device's memory is claimed by the root of the loss.
 */
TG_API tg_result tg_scope_end(tg_device dev, tg_scope scope);

/**
 * Ends a scope: its work failed.
 *
 * \param dev The device.
 * \param scope The scope; the null handle is fine and does nothing.
 * \param error What failed; NULL: torn down.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE for dev; TG_ERROR_WRONG_KIND,
 *          TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Everything it was to write, by one root: of code TG_ERROR_CALLER, or TG_ERROR_TORN_DOWN when error is NULL.
 */
TG_API tg_result tg_scope_fail(tg_device dev, tg_scope scope, const tg_error_desc *error);

/* Report ---------------------------------------------------------------------------------------------------------- */

/** Work that needed the bytes did not run. */
#define TG_STEP_SKIP 1
/** A copy moved the claim with the bytes. */
#define TG_STEP_COPY 2
/** Work ran on bytes that were found to be bad later. */
#define TG_STEP_RAN_ON_BAD_INPUT 3
/** Steps are missing here: only the newest are kept. */
#define TG_STEP_DROPPED 4
/**
 * Work ran over the claimed bytes with TG_ACCESS_MAY_WRITE, and nothing proves that it wrote them, so they stay claimed.
 * If it writes every one of them, declare TG_ACCESS_WRITE: in tg_kernel_desc::accesses, in the launch, or in the scope.
 */
#define TG_STEP_UNPROVEN_WRITE 5

/** What a report is about. */
typedef struct tg_report_info {
    /** sizeof(tg_report_info). */
    size_t struct_size;
    /** The answer it explains; TG_OK when it explains none. */
    tg_result code;
    /** The VkResult behind the answer, or 0. */
    int32_t vk_result;
    /** The Vulkan function that returned it, or empty. */
    tg_str vk_function;
    /** The function that gave the answer; empty when the report was asked for directly. */
    tg_str function;
    /** Misuse: the parameter, or the member of its struct, as this header spells it. Otherwise empty. */
    tg_str field;
    /** What the answer says beyond its code, or empty. */
    tg_str message;
    /** The roots it lists; tg_report_failure gives each. */
    size_t failure_count;
    /** The work it suspects of a loss; tg_report_suspect gives each. */
    size_t suspect_count;
    /** 1 when there are roots that it does not list: of one set of roots the 32 oldest are kept. Otherwise 0. */
    uint32_t more;
    /** 0. */
    uint32_t reserved;
} tg_report_info;

/** Every member of tg_report_info at its default. */
#define TG_REPORT_INFO_INIT { \
    /* struct_size */ sizeof(tg_report_info), \
    /* code */ 0, \
    /* vk_result */ 0, \
    /* vk_function */ { NULL, 0 }, \
    /* function */ { NULL, 0 }, \
    /* field */ { NULL, 0 }, \
    /* message */ { NULL, 0 }, \
    /* failure_count */ 0, \
    /* suspect_count */ 0, \
    /* more */ 0, \
    /* reserved */ 0 \
}

/** A root. */
typedef struct tg_failure_info {
    /** sizeof(tg_failure_info). */
    size_t struct_size;
    /** Its id; a device never uses one again. */
    uint64_t id;
    /** What happened: a failure (-100 and below). */
    tg_result code;
    /** The VkResult, or 0 where Vulkan had no part. */
    int32_t vk_result;
    /** The Vulkan function that returned it, or empty. */
    tg_str vk_function;
    /** The operation that failed: a function of this header, or a part of one. */
    tg_str operation;
    /** The kernel that failed or was to run, or empty. */
    tg_str kernel;
    /** The caller's name for the buffer, launch or scope, or empty. */
    tg_str label;
    /** What there is to say beyond the code: the validator's words, the size asked for, the caller's message. */
    tg_str message;
    /** The stream the work was for; 0 where has_stream is 0. */
    uint64_t stream;
    /** The caller's number for it; for TG_ERROR_CALLER the caller's code. */
    uint64_t tag;
    /** Bytes that it claims; UINT64_MAX for more. */
    uint64_t claimed_bytes;
    /** How often work was skipped on it. */
    uint64_t skips;
    /** The ranges that it claims; tg_report_claim gives each. */
    size_t claim_count;
    /** The steps of its path to what was asked about; tg_report_step gives each. */
    size_t step_count;
    /**
     * 1 when the work was for a stream; 0 when none was named, as for a kernel, or several may be meant, as for a batch that
     * the device refused.
     */
    uint32_t has_stream;
    /** 0. */
    uint32_t reserved;
} tg_failure_info;

/** Every member of tg_failure_info at its default. */
#define TG_FAILURE_INFO_INIT { \
    /* struct_size */ sizeof(tg_failure_info), \
    /* id */ 0, \
    /* code */ 0, \
    /* vk_result */ 0, \
    /* vk_function */ { NULL, 0 }, \
    /* operation */ { NULL, 0 }, \
    /* kernel */ { NULL, 0 }, \
    /* label */ { NULL, 0 }, \
    /* message */ { NULL, 0 }, \
    /* stream */ 0, \
    /* tag */ 0, \
    /* claimed_bytes */ 0, \
    /* skips */ 0, \
    /* claim_count */ 0, \
    /* step_count */ 0, \
    /* has_stream */ 0, \
    /* reserved */ 0 \
}

/** A range that a root claims. */
typedef struct tg_claim_info {
    /** sizeof(tg_claim_info). */
    size_t struct_size;
    /** Which buffer of the device: the first one created is 1. The handle may be stale by now, so it is not given. */
    uint64_t buffer;
    /** The first claimed byte. */
    uint64_t offset;
    /** Claimed bytes. */
    uint64_t size;
    /** The buffer's label, or "buffer N". */
    tg_str label;
} tg_claim_info;

/** Every member of tg_claim_info at its default. */
#define TG_CLAIM_INFO_INIT { \
    /* struct_size */ sizeof(tg_claim_info), \
    /* buffer */ 0, \
    /* offset */ 0, \
    /* size */ 0, \
    /* label */ { NULL, 0 } \
}

/** A step of a path: how a failure came from some bytes to others. */
typedef struct tg_step_info {
    /** sizeof(tg_step_info). */
    size_t struct_size;
    /** One of TG_STEP_*. */
    uint32_t kind;
    /**
     * 1 when the count is only known to be at least so much: how often a step happened is kept of a few hundred distinct
     * steps of a root. Otherwise 0.
     */
    uint32_t at_least;
    /**
     * How often this happened: the same work, needing and producing the same. For TG_STEP_DROPPED how many distinct
     * steps of the root are no longer kept; those that are missing here are among them.
     */
    uint64_t count;
    /** Which work. */
    tg_str kernel;
    /** The buffer it needed. */
    tg_str needed;
    /**
     * The buffers it was to produce. Of a broken kernel they include every binding that counts as written: see
     * TG_ACCESS_AUTO.
     */
    const tg_str *produced;
    /** Elements of `produced`. */
    size_t produced_count;
    /**
     * The caller's name for the work (tg_launch_desc::label, tg_scope_desc::label) the last time this happened, or empty.
     */
    tg_str label;
    /** The caller's number for it, the last time. */
    uint64_t tag;
} tg_step_info;

/** Every member of tg_step_info at its default. */
#define TG_STEP_INFO_INIT { \
    /* struct_size */ sizeof(tg_step_info), \
    /* kind */ 0, \
    /* at_least */ 0, \
    /* count */ 0, \
    /* kernel */ { NULL, 0 }, \
    /* needed */ { NULL, 0 }, \
    /* produced */ NULL, \
    /* produced_count */ 0, \
    /* label */ { NULL, 0 }, \
    /* tag */ 0 \
}

/** Work that was in flight when a device was lost. */
typedef struct tg_suspect_info {
    /** sizeof(tg_suspect_info). */
    size_t struct_size;
    /** Which work: its kernel, or the operation. */
    tg_str name;
    /** The caller's name for it (tg_launch_desc::label, tg_scope_desc::label), or empty. */
    tg_str label;
    /** The caller's number for it. */
    uint64_t tag;
} tg_suspect_info;

/** Every member of tg_suspect_info at its default. */
#define TG_SUSPECT_INFO_INIT { \
    /* struct_size */ sizeof(tg_suspect_info), \
    /* name */ { NULL, 0 }, \
    /* label */ { NULL, 0 }, \
    /* tag */ 0 \
}

/**
 * Makes a report on the last answer that this thread got from any function and that was neither TG_OK, TG_TIMEOUT,
 * TG_NOT_READY nor TG_INCOMPLETE. A call that cleans up and fails is such an answer too: make the report first.
 *
 * Works before there is a device, and after it. When there was no such answer, the report has the code TG_OK and no
 * roots. Roots that nothing carries any more are not listed.
 *
 * \param out The report; the caller releases it. The null handle unless TG_OK is returned. Must not be NULL.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_LIMIT_EXCEEDED when a million reports are not released;
 *          TG_ERROR_OUT_OF_HOST_MEMORY.
 * \threadsafety Any thread; each has its own last answer.
 * \claims Nothing.
 */
TG_API tg_result tg_last_report(tg_report *out);

/**
 * Makes a report on the roots that claim any of some bytes, with their paths to them, as far as is known without
 * waiting.
 *
 * \param dev The device.
 * \param slices The bytes; may be NULL when count is 0.
 * \param count Elements of slices.
 * \param out The report; the caller releases it. The null handle unless TG_OK is returned. Must not be NULL.
 * \returns TG_OK, claimed or not; TG_ERROR_INVALID_ARGUMENT, also for a slice beyond its buffer;
 *          TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE;
 *          TG_ERROR_LIMIT_EXCEEDED when a million reports are not released; TG_ERROR_OUT_OF_HOST_MEMORY.
 * \threadsafety Any thread.
 * \claims Nothing. Releases nothing.
 */
TG_API tg_result tg_report_slices(tg_device dev, const tg_slice *slices, size_t count, tg_report *out);

/**
 * Tells what a report is about, and how much is in it.
 *
 * \param report The report.
 * \param out Filled on TG_OK, up to its struct_size.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_report_get_info(tg_report report, tg_report_info *out);

/**
 * Counts the roots that a report lists.
 *
 * \param report The report.
 * \param out The count. Written on TG_OK only. Must not be NULL.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_report_failure_count(tg_report report, size_t *out);

/**
 * Tells one of the roots of a report, oldest first.
 *
 * \param report The report.
 * \param index Which, from 0 to the count less 1.
 * \param out Filled on TG_OK, up to its struct_size; its strings are borrowed until tg_report_release.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for an index beyond the count; TG_ERROR_NULL_HANDLE,
 *          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_report_failure(tg_report report, size_t index, tg_failure_info *out);

/**
 * Tells one of the ranges that a root of a report claims, in the order of the buffers' creation.
 *
 * \param report The report.
 * \param failure_index Which root, from 0 to the count less 1.
 * \param claim_index Which range, from 0 to the root's claim_count less 1.
 * \param out Filled on TG_OK, up to its struct_size; its strings are borrowed until tg_report_release.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for an index beyond its count; TG_ERROR_NULL_HANDLE,
 *          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_report_claim(tg_report report, size_t failure_index, size_t claim_index, tg_claim_info *out);

/**
 * Tells one of the steps from a root of a report to what was asked about, from the root down.
 *
 * \param report The report.
 * \param failure_index Which root, from 0 to the count less 1.
 * \param step_index Which step, from 0 to the root's step_count less 1.
 * \param out Filled on TG_OK, up to its struct_size; its strings are borrowed until tg_report_release.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for an index beyond its count; TG_ERROR_NULL_HANDLE,
 *          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_report_step(tg_report report, size_t failure_index, size_t step_index, tg_step_info *out);

/**
 * Tells one of the pieces of work that were in flight when the device was lost, in their order.
 *
 * \param report The report.
 * \param index Which, from 0 to the report's suspect_count less 1.
 * \param out Filled on TG_OK, up to its struct_size; its strings are borrowed until tg_report_release.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT, also for an index beyond the count; TG_ERROR_NULL_HANDLE,
 *          TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_report_suspect(tg_report report, size_t index, tg_suspect_info *out);

/**
 * Renders a report for a person.
 *
 * Of long lists it has the first entries and how many there are more: 256 roots, 64 claims of each, 256 suspects. All of
 * them are given by index.
 *
 * \param report The report.
 * \param out The text, several lines; borrowed until tg_report_release. Written on TG_OK only. Must not be NULL.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_report_text(tg_report report, tg_str *out);

/**
 * Renders a report for a program, as JSON.
 *
 * Cut like the text; `failure_count`, `claim_count` and `suspect_count` tell how many there are.
 *
 * \param report The report.
 * \param out The JSON; borrowed until tg_report_release. Written on TG_OK only. Must not be NULL.
 * \returns TG_OK; TG_ERROR_INVALID_ARGUMENT; TG_ERROR_NULL_HANDLE, TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE,
 *          TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread.
 * \claims Nothing.
 */
TG_API tg_result tg_report_json(tg_report report, tg_str *out);

/**
 * Lets go of a report; every string borrowed from it is gone.
 *
 * \param report The report; the null handle is fine and does nothing.
 * \returns TG_OK; TG_ERROR_WRONG_KIND, TG_ERROR_FOREIGN_HANDLE, TG_ERROR_STALE_HANDLE.
 * \threadsafety Any thread, while no other uses strings borrowed from it.
 * \claims Nothing.
 */
TG_API tg_result tg_report_release(tg_report report);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TIDEGATE_H */
