/*
 * A kernel whose shader is cut off in the middle: what the library says of it, and the repair. README.md shows parts of
 * this file word for word, and of repair.txt, which is what it prints; tests/readme.rs and scripts/test.sh hold them
 * together.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tidegate/tidegate.h>

#ifndef EXAMPLE_FOLDER
#define EXAMPLE_FOLDER "."
#endif

enum { COUNT = 1000 };

static void tell_why(void)
{
    tg_report report = {0};
    tg_str text;

    if (tg_last_report(&report) == TG_OK && tg_report_text(report, &text) == TG_OK)
        fputs(text.data, stdout);
    tg_report_release(report);
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
    if (tg_device_create(&device_desc, &device) != TG_OK) {
        tell_why();
        return EXIT_FAILURE;
    }

    tg_buffer from_buffer = {0}, to_buffer = {0};
    tg_buffer_desc buffer_desc = TG_BUFFER_DESC_INIT;
    buffer_desc.size = sizeof numbers;
    buffer_desc.label = TG_STR("numbers");
    tg_buffer_create(device, &buffer_desc, &from_buffer);
    buffer_desc.label = TG_STR("doubled");
    tg_buffer_create(device, &buffer_desc, &to_buffer);
    const tg_slice from = {from_buffer, 0, TG_WHOLE_SIZE}, to = {to_buffer, 0, TG_WHOLE_SIZE};
    tg_buffer_write(device, 0, from, numbers, sizeof numbers);

    tg_kernel kernel = {0};
    tg_kernel_desc kernel_desc = TG_KERNEL_DESC_INIT;
    kernel_desc.code = code;
    kernel_desc.code_size = code_size / 8 * 4;
    kernel_desc.label = TG_STR("double");

    const tg_use bindings[] = {{to, TG_ACCESS_WRITE, 0}, {from, TG_ACCESS_READ, 0}};
    tg_launch_desc launch_desc = TG_LAUNCH_DESC_INIT;
    launch_desc.bindings = bindings;
    launch_desc.binding_count = 2;
    launch_desc.threads[0] = COUNT;

    tg_kernel_create(device, &kernel_desc, &kernel);      /* TG_ERROR_INVALID_SHADER, and a live handle */
    launch_desc.kernel = kernel;
    tg_launch(device, &launch_desc);                      /* TG_SKIPPED */

    if (tg_buffer_read(device, 0, doubled, sizeof doubled, to, TG_WAIT_FOREVER) != TG_OK)
        tell_why();

    kernel_desc.code_size = code_size;
    tg_kernel_rebuild(device, kernel, &kernel_desc);      /* the same handle */
    tg_launch(device, &launch_desc);                      /* TG_OK: it writes the claimed bytes, and releases them */

    if (tg_buffer_read(device, 0, doubled, sizeof doubled, to, TG_WAIT_FOREVER) != TG_OK)
        tell_why();

    int status = EXIT_SUCCESS;
    for (uint32_t i = 0; i < COUNT; ++i)
        if (doubled[i] != 2 * i)
            status = EXIT_FAILURE;
    printf("%d numbers doubled: %s\n", COUNT, status == EXIT_SUCCESS ? "right" : "wrong");
    tg_kernel_destroy(device, kernel);
    tg_buffer_destroy(device, to_buffer);
    tg_buffer_destroy(device, from_buffer);
    tg_device_destroy(device, TG_WAIT_FOREVER);
    return status;
}
