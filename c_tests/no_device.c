/* In an environment without a device or without a loader: no crash, the code named on the command line, and a report
 * that says what was looked for. */
#include <stdio.h>
#include <string.h>
#include <tidegate/tidegate.h>

int main(int argc, char **argv) {
    const char *expected = argc > 1 ? argv[1] : "";
    const tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device device = {1};
    tg_report report = {0};

    const tg_result result = tg_device_create(&desc, &device);
    printf("tg_device_create: %s\n", tg_result_name(result).data);
    if (strcmp(tg_result_name(result).data, expected) != 0) return 1;
    if (device.id != 0) {
        printf("the handle is not null\n");
        return 1;
    }
    if (tg_last_report(&report) != TG_OK || tg_report_failure_count(report) != 1) {
        printf("there is no report of one failure\n");
        return 1;
    }
    const char *text = tg_report_text(report).data;
    printf("%s\n", text);
    const int says = strstr(text, "tg_device_create") && (strstr(text, "libvulkan") || strstr(text, "device"));
    tg_report_release(report);
    if (!says) printf("the report does not say what was looked for\n");
    return !says;
}
