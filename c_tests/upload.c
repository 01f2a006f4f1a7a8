/* An upload far larger than the staging memory: TG_TEST_UPLOAD MiB (256) through TG_TEST_STAGING MiB (16). */
#include "tg_test.h"

#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)
/* What a sanitizer keeps for itself of whatever is allocated and freed. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZERS_OWN (64 * MIB)
#else
#define SANITIZERS_OWN 0
#endif

static uint64_t setting(const char *name, uint64_t otherwise) {
    const char *value = getenv(name);
    return value ? strtoull(value, NULL, 10) : otherwise;
}

/* A line of /proc/self/status, in bytes. */
static uint64_t status(const char *line) {
    FILE *file = fopen("/proc/self/status", "r");
    REQUIRE(file != NULL);
    char text[256];
    unsigned long long kib = 0;
    while (fgets(text, sizeof text, file))
        if (!strncmp(text, line, strlen(line))) sscanf(text + strlen(line), ": %llu", &kib);
    fclose(file);
    REQUIRE(kib > 0);
    return (uint64_t)kib << 10;
}

/* From now on the peak is counted from what the process has now. */
static void forget_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    REQUIRE(file != NULL);
    REQUIRE(fputs("5", file) >= 0);
    REQUIRE(fclose(file) == 0);
}

static uint32_t word_at(uint64_t index) { return (uint32_t)index * 2654435761u ^ (uint32_t)(index >> 32); }

TEST(an_upload_through_little_staging_arrives_whole_and_takes_no_host_memory) {
    const uint64_t total = setting("TG_TEST_UPLOAD", 256) * MIB, staging = setting("TG_TEST_STAGING", 16) * MIB;
    tg_device_desc desc = test_device_desc();
    desc.staging_size = staging;
    tg_device dev = test_device_with(&desc);
    tg_device_info device = TG_DEVICE_INFO_INIT;
    REQUIRE_OK(tg_device_get_info(dev, &device));
    /* In one piece; or, where the device has no memory for as much, in equal ones to the same buffer. */
    uint64_t size = total;
    while (size > device.max_buffer_size || size > (device.local_heap_size + device.other_heap_size) / 2) size /= 2;
    enum { CHUNK = 4 << 20 };
    const tg_buffer data = buffer(dev, "uploaded", size / 4);
    /* The device's memory is the host's on a driver that runs on it: it is to be there before anything is counted. */
    REQUIRE_OK(tg_buffer_fill(dev, 0, whole(data), 0, 4));
    REQUIRE_OK(tg_stream_wait(dev, 0, TEST_LONG));
    uint32_t *source = malloc(size), *read = malloc(CHUNK);
    REQUIRE(source != NULL && read != NULL);

    uint64_t grown = 0, wrong = 0;
    for (uint64_t done = 0; done < total; done += size) {
        for (uint64_t i = 0; i < size / 4; i++) source[i] = word_at(done / 4 + i);
        forget_peak();
        const uint64_t before = status("VmRSS");
        REQUIRE_OK(tg_buffer_write(dev, 0, whole(data), source, size));
        REQUIRE_OK(tg_stream_wait(dev, 0, TEST_LONG));
        const uint64_t peak = status("VmHWM");
        if (peak > before + grown) grown = peak - before;
        for (uint64_t at = 0; at < size; at += CHUNK) {
            memset(read, 0xEE, CHUNK);
            REQUIRE_OK(tg_buffer_read(dev, 0, read, CHUNK, part(data, at, CHUNK), TEST_LONG));
            wrong += memcmp(read, source + at / 4, CHUNK) != 0;
        }
    }
    CHECK_EQ_INT(wrong, 0);
    tg_memory_info info = TG_MEMORY_INFO_INIT;
    REQUIRE_OK(tg_device_memory_stats(dev, &info));
    printf("%llu MiB in pieces of %llu MiB through %llu MiB: host memory grew by %llu MiB, staging took %llu MiB\n",
           (unsigned long long)(total / MIB), (unsigned long long)(size / MIB), (unsigned long long)(staging / MIB),
           (unsigned long long)(grown / MIB), (unsigned long long)(info.upload.reserved / MIB));
    CHECK(info.upload.reserved <= staging + 16 * MIB);
    CHECK(grown <= staging + 32 * MIB + SANITIZERS_OWN);
    free(read);
    free(source);
}
