/*
 * A photo through seven compute stages on four streams, first as it should be, then three times broken.
 *
 *   photo --+-- blur rows -- blur columns (stream 1) ----------------+
 *           +-- sobel (stream 2) ------------------------------------+-- composite (stream 4)
 *           +-- histogram -- tone curve -- tone (stream 3) ----------+
 *
 *   photo_pipeline [photo.png [output folder]]
 *
 * The calls that make and run it are in support/pipeline.c; the runs, and what is expected of them, are here. What to
 * look for: nothing between tg_buffer_create and tg_buffer_read asks whether a failure happened. The stages are enqueued
 * to the end, whatever is broken; the read at the end says whether every byte is good, its report says what went wrong
 * first, and writing the bytes again is the whole recovery.
 */
#include "support/picture.h"
#include "support/pipeline.h"
#include "support/reference.h"
#include "support/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#ifndef EXAMPLE_FOLDER
#define EXAMPLE_FOLDER "."
#endif

static const struct {
    const char *run, *broken, *origin, *repaired;
    int spoilt; /* the one picture beside the composite that the fault reaches */
} faults[] = {
    [NO_FAULT] = {"clean", "", "", "", -1},
    [BROKEN_SHADER] = {"broken shader", "kernel sobel", "sobel", "shader rebuilt", 1},
    [OUT_OF_MEMORY] = {"out of memory", "buffer blur scratch", "blur scratch", "smaller tiles", 0},
    [TAINTED] = {"tainted", "buffer curve", "curve", "bytes written", 2},
};

static struct table table;
static const char *out_folder = "out";
static int wrong;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void expect(bool holds, const char *format, ...)
{
    va_list arguments;

    if (holds)
        return;
    ++wrong;
    va_start(arguments, format);
    fputs("WRONG: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

/* ---- what is expected of it ---- */

/* Report strings are never needed for a decision, only compared here to see that they say what they should. */
static bool says(tg_str string, const char *expected)
{
    return string.size == strlen(expected) && memcmp(string.data, expected, string.size) == 0;
}

/* The report of the failed read: one root, the one we made, and a path from it to the composite. */
static void check_report(tg_report report, enum fault fault)
{
    const char *run = faults[fault].run;
    tg_failure_info root = TG_FAILURE_INFO_INIT;
    tg_step_info first = TG_STEP_INFO_INIT, step = TG_STEP_INFO_INIT;
    size_t roots = 0;

    tg_report_failure_count(report, &roots);
    expect(roots == 1, "%s: the read has %zu roots", run, roots);
    if (tg_report_failure(report, 0, &root) != TG_OK) {
        expect(false, "%s: no root", run);
        return;
    }
    switch (fault) {
    case BROKEN_SHADER:
        expect(root.code == TG_ERROR_INVALID_SHADER, "%s: root is %s", run, name_of(root.code));
        expect(says(root.kernel, "sobel"), "%s: the root's kernel is %s", run, root.kernel.data);
        expect(root.message.size > 0 || root.vk_result != 0, "%s: nobody says what is wrong with the shader", run);
        break;
    case OUT_OF_MEMORY:
        expect(root.code == TG_ERROR_OUT_OF_DEVICE_MEMORY, "%s: root is %s", run, name_of(root.code));
        expect(says(root.label, "blur scratch"), "%s: the root's buffer is %s", run, root.label.data);
        break;
    default:
        expect(root.code == TG_ERROR_CALLER, "%s: root is %s", run, name_of(root.code));
        expect(root.tag == TAINT_CODE, "%s: the root's number is %" PRIu64, run, root.tag);
        expect(says(root.label, taint_label), "%s: the root's label is %s", run, root.label.data);
        expect(says(root.message, taint_message), "%s: the root's message is %s", run, root.message.data);
    }
    if (root.step_count == 0 || tg_report_step(report, 0, root.step_count - 1, &step) != TG_OK) {
        expect(false, "%s: no path leads from the root to the composite", run);
        return;
    }
    expect(tg_report_step(report, 0, 0, &first) == TG_OK && says(first.needed, faults[fault].origin),
           "%s: the path starts at %s", run, first.needed.data);
    expect(step.kind == TG_STEP_SKIP && says(step.kernel, "composite"), "%s: the path ends at %s", run,
           step.kernel.data);
    expect(says(step.needed, picture_names[faults[fault].spoilt]), "%s: the composite lacked %s", run,
           step.needed.data);
    expect(step.produced_count == 1 && says(step.produced[0], "composite"), "%s: the path does not reach the composite",
           run);
}

static void picture_path(char path[512], const char *run, int index)
{
    int length = snprintf(path, 512, "%s/%s-%s.png", out_folder, run, picture_names[index]);

    for (char *at = path + length; at > path + strlen(out_folder); --at)
        if (*at == ' ')
            *at = '-';
}

static void tell_stage(const struct pipeline *p, const char *run, enum stage stage, const char *check, const char *path)
{
    const tg_result outcome = p->outcomes[stage];

    table_row(&table, "%s|%s|%" PRIu64 "|%s%s|%s|%s", run, stages[stage].name, stages[stage].stream,
              outcome == TG_OK ? "ran" : outcome == TG_SKIPPED ? "skipped" : "failed: ",
              outcome == TG_OK || outcome == TG_SKIPPED ? "" : name_of(outcome), check, path);
}

/* ---- the runs ---- */

/* Every picture against a CPU: the integer stages exactly, the blur and what is made from it within one grey level. */
static bool run_clean(tg_device device, const struct picture *photo, struct picture clean[PICTURES])
{
    struct picture reference[PICTURES] = {{0}};
    uint32_t curve[256];
    struct pipeline p;
    const char *run = faults[NO_FAULT].run;

    for (int i = 0; i < PICTURES; ++i)
        if (!picture_create(&clean[i], photo->width, photo->height) ||
            !picture_create(&reference[i], photo->width, photo->height))
            return false;
    if (!reference_blur(&reference[0], photo))
        return false;
    reference_edges(&reference[1], photo);
    reference_curve(curve, photo);
    reference_tone(&reference[2], photo, curve);
    reference_composite(&reference[3], &reference[0], &reference[1], &reference[2]);

    pipeline_create(&p, device, photo, NO_FAULT);
    pipeline_run(&p, NO_FAULT);
    for (enum stage stage = 0; stage < STAGES; ++stage) {
        char path[512] = "", check[64] = "";
        for (int i = 0; i < PICTURES; ++i) {
            if (picture_makers[i] != stage)
                continue;
            const tg_result result = pipeline_read(&p, i, &clean[i]);
            const uint32_t apart = picture_difference(&clean[i], &reference[i]);
            expect(result == TG_OK, "clean: reading %s gives %s", picture_names[i], name_of(result));
            expect(apart <= (stage == SOBEL || stage == TONE ? 0u : 1u), "clean: %s is %" PRIu32 " levels off",
                   picture_names[i], apart);
            picture_path(path, run, i);
            if (!picture_save(&clean[i], path))
                return false;
            snprintf(check, sizeof check, apart == 0 ? "equals the CPU's" : "%" PRIu32 " level off the CPU's", apart);
        }
        expect(p.outcomes[stage] == TG_OK, "clean: %s gives %s", stages[stage].name,
               name_of(p.outcomes[stage]));
        tell_stage(&p, run, stage, check, path);
    }
    pipeline_destroy(&p);
    for (int i = 0; i < PICTURES; ++i)
        picture_free(&reference[i]);
    return true;
}

/* A failed read leaves the destination as it was. */
static bool untouched(const struct picture *picture)
{
    for (size_t i = 0; i < (size_t)picture->width * picture->height; ++i)
        if (picture->pixels[i] != 0xa5a5a5a5u)
            return false;
    return true;
}

static bool run_broken(tg_device device, const struct picture *photo, enum fault fault, tg_report *report)
{
    const char *run = faults[fault].run, *repaired = faults[fault].repaired;
    const enum stage spoilt = picture_makers[faults[fault].spoilt];
    char path[512], clean_path[512];
    char paths[STAGES][512] = {{0}};
    const char *checks[STAGES] = {"", "", "", "", "", "", ""};
    struct picture out = {0};
    struct pipeline p;

    if (!picture_create(&out, photo->width, photo->height))
        return false;
    pipeline_create(&p, device, photo, fault);
    pipeline_run(&p, fault);
    for (int i = 0; i < PICTURES; ++i) {
        memset(out.pixels, 0xa5, picture_size(&out));
        const tg_result result = pipeline_read(&p, i, &out);
        if (i == faults[fault].spoilt || i == COMPOSITE_PICTURE) {
            expect(result == TG_ERROR_UNWRITTEN, "%s: reading %s gives %s", run, picture_names[i],
                   name_of(result));
            expect(untouched(&out), "%s: the failed read of %s wrote to its destination", run, picture_names[i]);
            expect(p.outcomes[picture_makers[i]] == TG_SKIPPED, "%s: %s gives %s", run, stages[picture_makers[i]].name,
                   name_of(p.outcomes[picture_makers[i]]));
            snprintf(paths[picture_makers[i]], sizeof paths[0], "none: %s", name_of(result));
            if (i == COMPOSITE_PICTURE) {
                expect(tg_last_report(report) == TG_OK, "%s: no report", run);
                check_report(*report, fault);
            }
        } else {
            expect(result == TG_OK, "%s: reading %s gives %s", run, picture_names[i], name_of(result));
            picture_path(paths[picture_makers[i]], run, i);
            picture_path(clean_path, faults[NO_FAULT].run, i);
            if (!picture_save(&out, paths[picture_makers[i]]))
                return false;
            const bool same = files_equal(paths[picture_makers[i]], clean_path);
            expect(same, "%s: %s is not the clean run's", run, picture_names[i]);
            checks[picture_makers[i]] = same ? "equals the clean run's" : "differs";
        }
    }
    table_row(&table, "%s|%s|-|%s%s", run, faults[fault].broken, fault == TAINTED ? "tainted" : "failed: ",
              fault == TAINTED ? "" : name_of(p.creation));
    for (enum stage stage = 0; stage < STAGES; ++stage)
        tell_stage(&p, run, stage, checks[stage], paths[stage]);

    const tg_result cure = pipeline_repair(&p, fault, photo);
    expect(cure == TG_OK, "%s: gives %s", repaired, name_of(cure));
    pipeline_run_stage(&p, COMPOSITE);
    memset(out.pixels, 0xa5, picture_size(&out));
    const tg_result result = pipeline_read(&p, COMPOSITE_PICTURE, &out);
    expect(result == TG_OK, "%s: reading the composite gives %s", repaired, name_of(result));
    picture_path(path, repaired, COMPOSITE_PICTURE);
    picture_path(clean_path, faults[NO_FAULT].run, COMPOSITE_PICTURE);
    if (!picture_save(&out, path))
        return false;
    const bool same = files_equal(path, clean_path);
    expect(same, "%s: the composite is not the clean run's", repaired);
    table_row(&table, "%s|%s|-|%s%s", repaired, faults[fault].broken, cure == TG_OK ? "repaired" : "failed: ",
              cure == TG_OK ? "" : name_of(cure));
    if (spoilt == BLUR_COLUMNS)
        tell_stage(&p, repaired, BLUR_ROWS, "", "");
    tell_stage(&p, repaired, spoilt, "", "");
    tell_stage(&p, repaired, COMPOSITE, same ? "equals the clean run's" : "differs", path);
    pipeline_destroy(&p);
    picture_free(&out);
    return true;
}

/* `--scheduling NAME` before the other arguments: which driver orders the streams. The pictures are the same. */
static bool choose_scheduling(tg_device_desc *desc, int *argc, char ***argv)
{
    static const struct {
        const char *name;
        uint32_t scheduling;
    } known[] = {
        {"event", TG_SCHEDULING_EVENT}, {"interleave", TG_SCHEDULING_INTERLEAVE}, {"sequence", TG_SCHEDULING_SEQUENCE}};

    if (*argc < 2 || strcmp((*argv)[1], "--scheduling") != 0)
        return true;
    for (size_t i = 0; *argc > 2 && i < sizeof known / sizeof *known; ++i)
        if (strcmp((*argv)[2], known[i].name) == 0) {
            desc->scheduling = known[i].scheduling;
            *argc -= 2;
            *argv += 2;
            return true;
        }
    fprintf(stderr, "--scheduling is one of: event interleave sequence\n");
    return false;
}

int main(int argc, char **argv)
{
    tg_device_desc desc = TG_DEVICE_DESC_INIT;

    if (!choose_scheduling(&desc, &argc, &argv))
        return EXIT_FAILURE;
    const char *photo_path = argc > 1 ? argv[1] : EXAMPLE_FOLDER "/data/astronaut.png";
    tg_device_info info = TG_DEVICE_INFO_INIT;
    tg_report reports[TAINTED + 1] = {{0}};
    struct picture photo, clean[PICTURES];
    tg_device device;
    uint64_t failures = 0;

    out_folder = argc > 2 ? argv[2] : out_folder;
    if (strlen(out_folder) > 400) {
        fprintf(stderr, "%s: too long a name\n", out_folder);
        return EXIT_FAILURE;
    }
    if (!folder_create(out_folder) || !picture_load(&photo, photo_path))
        return EXIT_FAILURE;
    if (tg_device_create(&desc, &device) != TG_OK) {
        if (tg_last_report(&reports[0]) == TG_OK)
            print_report(stderr, reports[0]);
        return EXIT_FAILURE;
    }
    go_on(tg_device_get_info(device, &info), "tg_device_get_info");
    printf("%s, %" PRIu32 " x %" PRIu32 ", on %s\n\n", photo_path, photo.width, photo.height, info.name);

    table_row(&table, "RUN|STAGE|STREAM|OUTCOME|CHECK|PICTURE");
    if (!run_clean(device, &photo, clean))
        return EXIT_FAILURE;
    for (enum fault fault = BROKEN_SHADER; fault <= TAINTED; ++fault) {
        table_row(&table, "%s", "");
        if (!run_broken(device, &photo, fault, &reports[fault]))
            return EXIT_FAILURE;
    }
    go_on(tg_device_failure_count(device, &failures), "tg_device_failure_count");
    expect(failures == 0, "failures outlive everything that carried them");
    expect(tg_device_destroy(device, TG_WAIT_FOREVER) == TG_OK, "the device does not close");

    table_print(&table, stdout);
    /* Reports are snapshots: they are still there when the device is not. */
    for (enum fault fault = BROKEN_SHADER; fault <= TAINTED; ++fault) {
        printf("\n---- %s: why the composite could not be read ----\n", faults[fault].run);
        print_report(stdout, reports[fault]);
        tg_report_release(reports[fault]);
    }
    printf("\n%s\n", wrong == 0 ? "All of it holds." : "Not all of it holds; see above.");
    for (int i = 0; i < PICTURES; ++i)
        picture_free(&clean[i]);
    picture_free(&photo);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
