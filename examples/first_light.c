/* The smallest whole program: numbers go to the device, are doubled there, and come back. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tidegate/tidegate.h>

#ifndef EXAMPLE_FOLDER
#define EXAMPLE_FOLDER "."
#endif

enum { COUNT = 1000 };

static int tell_why(void)
{
    tg_report report = {0};
    tg_str text;

    if (tg_last_report(&report) == TG_OK && tg_report_text(report, &text) == TG_OK)
        fputs(text.data, stderr);
    tg_report_release(report);
    return EXIT_FAILURE;
}

int main(void)
{
    static uint32_t numbers[COUNT], doubled[COUNT];
    static unsigned char code[65536];
    size_t code_size = 0;
    FILE *file = fopen(EXAMPLE_FOLDER "/shaders/double.spv", "rb");

    if (file != NULL) {
        code_size = fread(code, 1, sizeof code, file);
        fclose(file);
    }
    for (uint32_t i = 0; i < COUNT; ++i)
        numbers[i] = i;

    tg_device device = {0};
    tg_device_desc device_desc = TG_DEVICE_DESC_INIT;
    if (tg_device_create(&device_desc, &device) != TG_OK)
        return tell_why();

    /* From here on only the read looks at its result: whatever failed before it, the bytes it asks for carry it. */
    tg_buffer from = {0}, to = {0};
    tg_buffer_desc buffer_desc = TG_BUFFER_DESC_INIT;
    buffer_desc.size = sizeof numbers;
    tg_buffer_create(device, &buffer_desc, &from);
    tg_buffer_create(device, &buffer_desc, &to);
    const tg_slice from_slice = {from, 0, TG_WHOLE_SIZE}, to_slice = {to, 0, TG_WHOLE_SIZE};
    tg_buffer_write(device, 0, from_slice, numbers, sizeof numbers);

    tg_kernel kernel = {0};
    tg_kernel_desc kernel_desc = TG_KERNEL_DESC_INIT;
    kernel_desc.code = code;
    kernel_desc.code_size = code_size;
    tg_kernel_create(device, &kernel_desc, &kernel);

    const tg_use bindings[] = {{to_slice, TG_ACCESS_WRITE, 0}, {from_slice, TG_ACCESS_READ, 0}};
    tg_launch_desc launch_desc = TG_LAUNCH_DESC_INIT;
    launch_desc.kernel = kernel;
    launch_desc.bindings = bindings;
    launch_desc.binding_count = 2;
    launch_desc.threads[0] = COUNT;
    tg_launch(device, &launch_desc);

    const tg_result result = tg_buffer_read(device, 0, doubled, sizeof doubled, to_slice, TG_WAIT_FOREVER);
    int status = result == TG_OK ? EXIT_SUCCESS : tell_why();
    for (uint32_t i = 0; status == EXIT_SUCCESS && i < COUNT; ++i)
        if (doubled[i] != 2 * i)
            status = EXIT_FAILURE;
    printf("%d numbers doubled: %s\n", COUNT, status == EXIT_SUCCESS ? "right" : "wrong");
    tg_kernel_destroy(device, kernel);
    tg_buffer_destroy(device, to);
    tg_buffer_destroy(device, from);
    tg_device_destroy(device, TG_WAIT_FOREVER);
    return status;
}
