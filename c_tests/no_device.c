/* In an environment without a device or without a loader: no crash, the code named on the command line, and a report
 * that says what was looked for (the second word on the command line). */
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
    tg_report_info info = TG_REPORT_INFO_INIT;
    tg_str text = TG_STR("");
    if (tg_last_report(&report) != TG_OK || tg_report_get_info(report, &info) != TG_OK ||
        tg_report_text(report, &text) != TG_OK) {
        printf("there is no report\n");
        return 1;
    }
    printf("%s\n", text.data);
    int wrong = 0;
    if (info.code != result) wrong = printf("the report is about another code\n");
    if (strcmp(info.function.data, "tg_device_create") != 0) wrong = printf("the report is about another function\n");
    if (!strstr(info.message.data, argc > 2 ? argv[2] : "")) wrong = printf("the report does not say %s\n", argv[2]);
    tg_report_release(report);
    return wrong != 0;
}
