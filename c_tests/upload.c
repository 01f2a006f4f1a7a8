/* An upload far larger than the staging memory: TG_TEST_UPLOAD MiB (256) through TG_TEST_STAGING MiB (16). */
#include "tg_test.h"

#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

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
    /* One buffer, or as many as it takes. */
    const uint64_t most = total < device.max_buffer_size ? total : device.max_buffer_size / MIB * MIB;
    enum { BUFFERS = 16, CHUNK = 4 << 20 };
    tg_buffer buffers[BUFFERS] = {{0}};
    const uint64_t count = (total + most - 1) / most;
    REQUIRE(count <= BUFFERS);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t size = total - i * most < most ? total - i * most : most;
        buffers[i] = buffer(dev, "uploaded", size / 4);
        /* The device's memory is the host's on a driver that runs on it: it is to be there before anything is counted. */
        REQUIRE_OK(tg_buffer_fill(dev, 0, whole(buffers[i]), 0, 4));
    }
    REQUIRE_OK(tg_stream_wait(dev, 0, 20 * TEST_LONG));
    uint32_t *source = malloc(total), *read = malloc(CHUNK);
    REQUIRE(source != NULL && read != NULL);
    for (uint64_t i = 0; i < total / 4; i++) source[i] = word_at(i);

    forget_peak();
    const uint64_t before = status("VmRSS");
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t size = total - i * most < most ? total - i * most : most;
        REQUIRE_OK(tg_buffer_write(dev, 0, whole(buffers[i]), source + i * most / 4, size));
    }
    REQUIRE_OK(tg_stream_wait(dev, 0, 20 * TEST_LONG));
    const uint64_t peak = status("VmHWM"), grown = peak > before ? peak - before : 0;
    tg_memory_info info = TG_MEMORY_INFO_INIT;
    REQUIRE_OK(tg_device_memory_stats(dev, &info));
    printf("%llu MiB in %llu buffers through %llu MiB: host memory grew by %llu MiB, staging took %llu MiB\n",
           (unsigned long long)(total / MIB), (unsigned long long)count, (unsigned long long)(staging / MIB),
           (unsigned long long)(grown / MIB), (unsigned long long)(info.upload.reserved / MIB));
    CHECK(info.upload.reserved <= staging + 16 * MIB);
    CHECK(grown <= staging + 32 * MIB);

    uint64_t wrong = 0;
    for (uint64_t at = 0; at < total; at += CHUNK) {
        memset(read, 0xEE, CHUNK);
        REQUIRE_OK(tg_buffer_read(dev, 0, read, CHUNK, part(buffers[at / most], at % most, CHUNK), TEST_LONG));
        wrong += memcmp(read, source + at / 4, CHUNK) != 0;
    }
    CHECK_EQ_INT(wrong, 0);
    free(read);
    free(source);
}
