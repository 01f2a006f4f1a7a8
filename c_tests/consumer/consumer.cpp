/* What a user's first program does: a failure is met, told, and repaired. Exits 0 only if all of that holds. */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <tidegate/tidegate.h>

int main() {
    const tg_device_desc device_desc = TG_DEVICE_DESC_INIT;
    tg_buffer_desc buffer_desc = TG_BUFFER_DESC_INIT;
    tg_device device{};
    tg_buffer buffer{};
    tg_report report{};
    tg_str text = TG_STR("");
    unsigned words[4] = {1, 2, 3, 4}, back[4]{};

    if (tg_version() != TG_VERSION) return 1;
    if (tg_device_create(&device_desc, &device) != TG_OK) return 2;

    buffer_desc.size = std::uint64_t{64} << 30;
    buffer_desc.label = TG_STR("too large");
    if (tg_buffer_create(device, &buffer_desc, &buffer) != TG_ERROR_OUT_OF_DEVICE_MEMORY) return 3;
    const tg_slice slice = {buffer, 0, sizeof words};
    if (tg_buffer_read(device, 0, back, sizeof back, slice, TG_WAIT_FOREVER) != TG_ERROR_UNWRITTEN) return 4;
    if (tg_last_report(&report) != TG_OK || tg_report_text(report, &text) != TG_OK) return 5;
    if (!std::strstr(text.data, "too large")) return 6;
    std::printf("%s\n", text.data);
    tg_report_release(report);

    if (tg_buffer_allocate(device, buffer, sizeof words) != TG_OK) return 7;
    if (tg_buffer_write(device, 0, slice, words, sizeof words) != TG_OK) return 8;
    if (tg_buffer_read(device, 1, back, sizeof back, slice, TG_WAIT_FOREVER) != TG_OK) return 9;
    if (std::memcmp(words, back, sizeof words) != 0) return 10;
    return tg_device_destroy(device, TG_WAIT_FOREVER) == TG_OK ? 0 : 11;
}
