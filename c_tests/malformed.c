/* SPIR-V in whatever state: a live broken kernel and an error that says why, or a working kernel; never a crash. */
#include "tg_test.h"

#include <stdlib.h>

enum { WORDS = 64 };

/* Creates a kernel of these bytes; its launch over a fresh buffer skips, and the report names the shader. */
static void expect_broken(const void *code, size_t size, tg_result expected) {
    tg_device dev = test_device();
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    tg_kernel broken = {0};
    desc.code = code;
    desc.code_size = size;
    desc.label = text("the broken one");
    CHECK_RESULT(tg_kernel_create(dev, &desc, &broken), expected);
    REQUIRE(broken.id != 0);

    tg_report report = last_report();
    CHECK_EQ_INT(report_count(report), 1);
    const tg_failure_info failure = report_failure(report, 0);
    CHECK_EQ_INT(failure.code, expected);
    CHECK(failure.message.size > 0);
    tg_report_release(report);

    tg_kernel_info info = TG_KERNEL_INFO_INIT;
    CHECK_RESULT(tg_kernel_get_info(dev, broken, &info), TG_OK);
    CHECK_EQ_INT(info.broken, 1);

    tg_buffer data = buffer(dev, "data", WORDS);
    write_words(dev, 0, whole(data), WORDS, 1, 1);
    const tg_use bindings[] = {use(whole(data), TG_ACCESS_WRITE)};
    CHECK_RESULT(launch(dev, 0, broken, bindings, 1, NULL, 0, 1), TG_SKIPPED);
    CHECK_UNWRITTEN(dev, 0, whole(data), WORDS);
    report = last_report();
    CHECK_CONTAINS(report_text(report), "the broken one");
    tg_report_release(report);

    write_words(dev, 0, whole(data), WORDS, 1, 1);
    CHECK_WORDS(dev, 0, whole(data), WORDS, 1, 1);
    CHECK_RESULT(tg_kernel_destroy(dev, broken), TG_OK);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(empty) { expect_broken("", 0, TG_ERROR_INVALID_SHADER); }

TEST(one_byte) { expect_broken("\x03", 1, TG_ERROR_INVALID_SHADER); }

TEST(odd_length) {
    size_t size;
    void *code = shader("scale", &size);
    expect_broken(code, size - 1, TG_ERROR_INVALID_SHADER);
    free(code);
}

TEST(wrong_magic) {
    size_t size;
    uint32_t *code = shader("scale", &size);
    code[0] ^= 1;
    expect_broken(code, size, TG_ERROR_INVALID_SHADER);
    free(code);
}

TEST(not_spirv_at_all) {
    static const char glsl[] = "#version 450\nvoid main() {}\n   ";
    expect_broken(glsl, sizeof glsl / 4 * 4, TG_ERROR_INVALID_SHADER);
}

TEST(header_only) {
    size_t size;
    void *code = shader("scale", &size);
    expect_broken(code, 20, TG_ERROR_INVALID_SHADER);
    free(code);
}

TEST(truncated_anywhere) {
    tg_device dev = test_device();
    size_t size;
    void *code = shader("scale", &size);
    for (size_t length = 0; length < size; length += 4) {
        tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
        tg_kernel made = {0};
        desc.code = code;
        desc.code_size = length;
        const tg_result result = tg_kernel_create(dev, &desc, &made);
        if (result != TG_ERROR_INVALID_SHADER && result != TG_ERROR_UNSUPPORTED)
            test_fail(__FILE__, __LINE__, "%zu of %zu bytes gave %s", length, size, test_result_name(result));
        CHECK(made.id != 0);
        CHECK_RESULT(tg_kernel_destroy(dev, made), TG_OK);
    }
    free(code);
    CHECK_EQ_INT(failure_count(dev), 0);
}

TEST(without_the_entry_point) {
    tg_device dev = test_device();
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    tg_kernel broken = {0};
    size_t size;
    void *code = shader("scale", &size);
    desc.code = code;
    desc.code_size = size;
    desc.entry = text("no_such_entry");
    CHECK_RESULT(tg_kernel_create(dev, &desc, &broken), TG_ERROR_INVALID_SHADER);
    CHECK(broken.id != 0);
    CHECK_CONTAINS(test_last_report_text(), "no_such_entry");
    free(code);
}

TEST(missing_capability) {
    size_t size;
    void *code = shader("clock", &size);
    expect_broken(code, size, TG_ERROR_UNSUPPORTED);
    free(code);
}

TEST(physical_addresses) {
    size_t size;
    void *code = shader("addresses", &size);
    expect_broken(code, size, TG_ERROR_UNSUPPORTED);
    free(code);
}

TEST(binding_outside_any_layout) {
    size_t size;
    void *code = shader("far_set", &size);
    expect_broken(code, size, TG_ERROR_LIMIT_EXCEEDED);
    free(code);
}

TEST(null_code_is_misuse) {
    tg_device dev = test_device();
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    tg_kernel made = {77};
    desc.code_size = 64;
    CHECK_RESULT(tg_kernel_create(dev, &desc, &made), TG_ERROR_INVALID_ARGUMENT);
    CHECK_EQ_INT(made.id, 0);
}

/* Each mutant differs from a good module in one word. */
TEST(three_hundred_one_word_mutants) {
    tg_device dev = test_device();
    test_allow_validation(); /* a mutant may be valid and still not what the layer likes to run */
    tg_buffer from = buffer(dev, "from", WORDS), to = buffer(dev, "to", WORDS), bystander = buffer(dev, "bystander", WORDS);
    write_words(dev, 0, whole(bystander), WORDS, 9, 4);
    size_t size;
    uint32_t *code = shader("scale", &size);
    uint32_t random = 12345;
    unsigned works = 0, broken = 0;
    for (int mutant = 0; mutant < 300; mutant++) {
        random = random * 1664525u + 1013904223u;
        const size_t word = (random >> 8) % (size / 4);
        random = random * 1664525u + 1013904223u;
        const uint32_t old = code[word];
        switch (mutant % 3) {
        case 0: code[word] ^= 1u << (random >> 27); break;        /* one bit */
        case 1: code[word] = random >> 8; break;                  /* anything */
        default: code[word] = (random >> 8) % 64; break;          /* another id or a small literal */
        }
        tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
        tg_kernel made = {0};
        desc.code = code;
        desc.code_size = size;
        desc.label = text("mutant");
        const tg_result result = tg_kernel_create(dev, &desc, &made);
        code[word] = old;
        if (TG_IS_MISUSE(result) || result > 0 || made.id == 0)
            test_fail(__FILE__, __LINE__, "mutant %d gave %s, handle %llu", mutant, test_result_name(result),
                      (unsigned long long)made.id);
        result == TG_OK ? works++ : broken++;
        if (result != TG_OK) CHECK_CONTAINS(test_last_report_text(), "mutant");

        write_words(dev, 0, whole(from), WORDS, 1, 1);
        tg_kernel_info info = TG_KERNEL_INFO_INIT;
        REQUIRE_OK(tg_kernel_get_info(dev, made, &info));
        const tg_use bindings[] = {use(whole(from), TG_ACCESS_READ_WRITE), use(whole(to), TG_ACCESS_READ_WRITE)};
        const uint32_t push[64] = {WORDS, 2};
        if (result == TG_OK && info.binding_count <= 2 && info.push_size <= sizeof push) {
            const tg_result ran = launch(dev, 0, made, bindings, info.binding_count, push, info.push_size, WORDS);
            if (TG_IS_MISUSE(ran)) test_fail(__FILE__, __LINE__, "mutant %d: launch gave %s", mutant, test_result_name(ran));
        }
        CHECK_RESULT(tg_device_wait(dev, TEST_LONG), TG_OK);
        CHECK_RESULT(tg_kernel_destroy(dev, made), TG_OK);
    }
    free(code);
    printf("%u mutants work, %u are broken\n", works, broken);
    CHECK(works > 0 && broken > 100);
    CHECK_WORDS(dev, 0, whole(bystander), WORDS, 9, 4);
}
