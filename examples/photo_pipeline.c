/*
 * A photo through seven compute stages on four streams, first as it should be, then three times broken.
 *
 *   photo --+-- blur rows -- blur columns (stream 1) ----------------+
 *           +-- sobel (stream 2) ------------------------------------+-- composite (stream 4)
 *           +-- histogram -- tone curve -- tone (stream 3) ----------+
 *
 *   photo_pipeline [photo.png [output folder]]
 *
 * What to look for: nothing between tg_buffer_create and tg_buffer_read asks whether a failure happened. The stages are
 * enqueued to the end, whatever is broken; the read at the end says whether every byte is good, its report says what went
 * wrong first, and writing the bytes again is the whole recovery.
 */
#include "support/picture.h"
#include "support/reference.h"
#include "support/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <tidegate/tidegate.h>

#ifndef EXAMPLE_FOLDER
#define EXAMPLE_FOLDER "."
#endif

enum { UPLOAD_STREAM = 0, BLUR_STREAM = 1, EDGES_STREAM = 2, TONE_STREAM = 3, COMPOSITE_STREAM = 4 };

/* Multiples of 64 rows: then the first byte of a tile is a multiple of 256, the coarsest alignment a device may ask for. */
enum { TILE_ROWS = 256, SMALL_TILE_ROWS = 64 };

enum stage { BLUR_ROWS, BLUR_COLUMNS, SOBEL, HISTOGRAM, TONE_CURVE, TONE, COMPOSITE, STAGES };
enum fault { NO_FAULT, BROKEN_SHADER, OUT_OF_MEMORY, TAINTED };

/* The accesses are what the shaders say too; said here, they hold even for a shader that cannot be read. */
static const struct {
    const char *name, *shader;
    uint64_t stream;
    uint32_t accesses[4], bindings;
} stages[STAGES] = {
    [BLUR_ROWS] = {"blur rows", "blur_horizontal", BLUR_STREAM, {TG_ACCESS_WRITE, TG_ACCESS_READ, TG_ACCESS_READ}, 3},
    [BLUR_COLUMNS] = {"blur columns", "blur_vertical", BLUR_STREAM, {TG_ACCESS_WRITE, TG_ACCESS_READ, TG_ACCESS_READ}, 3},
    [SOBEL] = {"sobel", "sobel", EDGES_STREAM, {TG_ACCESS_WRITE, TG_ACCESS_READ}, 2},
    [HISTOGRAM] = {"histogram", "histogram", TONE_STREAM, {TG_ACCESS_READ_WRITE, TG_ACCESS_READ}, 2},
    [TONE_CURVE] = {"tone curve", "tone_curve", TONE_STREAM, {TG_ACCESS_WRITE, TG_ACCESS_READ}, 2},
    [TONE] = {"tone", "tone", TONE_STREAM, {TG_ACCESS_WRITE, TG_ACCESS_READ, TG_ACCESS_READ}, 3},
    [COMPOSITE] = {"composite", "composite", COMPOSITE_STREAM,
                   {TG_ACCESS_WRITE, TG_ACCESS_READ, TG_ACCESS_READ, TG_ACCESS_READ}, 4},
};

/* The stage that makes each picture. */
enum { PICTURES = 4, COMPOSITE_PICTURE = 3 };
static const enum stage makers[PICTURES] = {BLUR_COLUMNS, SOBEL, TONE, COMPOSITE};
static const char *const picture_names[PICTURES] = {"blurred", "edges", "toned", "composite"};

static const struct {
    const char *run, *broken, *repaired;
    int spoilt; /* the one picture beside the composite that the fault reaches */
} faults[] = {
    [NO_FAULT] = {"clean", "", "", -1},
    [BROKEN_SHADER] = {"broken shader", "kernel sobel", "shader rebuilt", 1},
    [OUT_OF_MEMORY] = {"out of memory", "buffer blur scratch", "smaller tiles", 0},
    [TAINTED] = {"tainted", "buffer curve", "bytes written", 2},
};

struct pipeline {
    tg_device device;
    uint32_t width, height, tile_rows;
    tg_buffer photo, weights, scratch, blurred, edges, bins, curve, toned, composite;
    tg_kernel kernels[STAGES];
    tg_result creation; /* what the buffer or kernel that could not be made said */
    tg_result outcomes[STAGES];
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

static const char *name_of(tg_result result)
{
    return tg_result_name(result).data; /* strings out of the library end in NUL, too */
}

static void print_report(FILE *out, tg_report report)
{
    tg_str rendered;

    if (tg_report_text(report, &rendered) == TG_OK)
        fprintf(out, "%s\n", rendered.data);
}

/* A failure is no reason to stop: what could not be written is remembered by the library. A misuse is a bug of ours. */
static tg_result go_on(tg_result result, const char *what)
{
    if (TG_IS_MISUSE(result)) {
        tg_report report = {0};
        fprintf(stderr, "%s: %s\n", what, name_of(result));
        if (tg_last_report(&report) == TG_OK)
            print_report(stderr, report);
        exit(EXIT_FAILURE);
    }
    return result;
}

/* ---- the pipeline ---- */

static uint64_t picture_bytes(const struct pipeline *p)
{
    return (uint64_t)p->width * p->height * 4;
}

/* A tile's rows and the halo above and below them, four floats a pixel. */
static uint64_t scratch_bytes(const struct pipeline *p, uint32_t rows)
{
    return (uint64_t)p->width * (rows + 2 * BLUR_RADIUS) * 16;
}

static tg_str text(const char *string)
{
    return (tg_str){string, strlen(string)};
}

static tg_slice slice(tg_buffer buffer, uint64_t offset, uint64_t size)
{
    return (tg_slice){buffer, offset, size};
}

static tg_slice whole(tg_buffer buffer)
{
    return slice(buffer, 0, TG_WHOLE_SIZE);
}

static tg_buffer create_buffer(struct pipeline *p, const char *label, uint64_t stream, uint64_t size)
{
    tg_buffer_desc desc = TG_BUFFER_DESC_INIT;
    tg_buffer buffer;

    desc.size = size;
    desc.stream = stream;
    desc.label = text(label);
    const tg_result result = go_on(tg_buffer_create(p->device, &desc, &buffer), label);
    if (result != TG_OK)
        p->creation = result;
    return buffer;
}

/* Builds a stage's kernel, or rebuilds it behind the same handle. A malformed one is cut off in the middle. */
static tg_result build_kernel(struct pipeline *p, enum stage stage, bool malformed)
{
    tg_kernel_desc desc = TG_KERNEL_DESC_INIT;
    char path[512];
    size_t size;
    tg_result result;

    snprintf(path, sizeof path, "%s/shaders/%s.spv", EXAMPLE_FOLDER, stages[stage].shader);
    unsigned char *code = file_load(path, &size);
    if (code == NULL)
        exit(EXIT_FAILURE);
    desc.code = code;
    desc.code_size = malformed ? size / 2 : size;
    desc.accesses = stages[stage].accesses;
    desc.access_count = stages[stage].bindings;
    desc.label = text(stages[stage].name);
    if (p->kernels[stage].id == 0)
        result = tg_kernel_create(p->device, &desc, &p->kernels[stage]);
    else
        result = tg_kernel_rebuild(p->device, p->kernels[stage], &desc);
    free(code);
    return go_on(result, stages[stage].name);
}

static void create_pipeline(struct pipeline *p, tg_device device, const struct picture *photo, enum fault fault)
{
    const uint64_t too_large = UINT64_C(1) << 46; /* 64 TiB, more than any device holds */
    float weights[BLUR_TAPS];

    memset(p, 0, sizeof *p);
    p->device = device;
    p->width = photo->width;
    p->height = photo->height;
    p->tile_rows = p->height < TILE_ROWS ? p->height : TILE_ROWS;

    p->photo = create_buffer(p, "photo", UPLOAD_STREAM, picture_bytes(p));
    p->weights = create_buffer(p, "weights", UPLOAD_STREAM, sizeof weights);
    p->scratch = create_buffer(p, "blur scratch", BLUR_STREAM,
                               fault == OUT_OF_MEMORY ? too_large : scratch_bytes(p, p->tile_rows));
    p->blurred = create_buffer(p, "blurred", BLUR_STREAM, picture_bytes(p));
    p->edges = create_buffer(p, "edges", EDGES_STREAM, picture_bytes(p));
    p->bins = create_buffer(p, "bins", TONE_STREAM, 256 * sizeof(uint32_t));
    p->curve = create_buffer(p, "curve", TONE_STREAM, 256 * sizeof(uint32_t));
    p->toned = create_buffer(p, "toned", TONE_STREAM, picture_bytes(p));
    p->composite = create_buffer(p, "composite", COMPOSITE_STREAM, picture_bytes(p));
    for (enum stage stage = 0; stage < STAGES; ++stage) {
        const tg_result result = build_kernel(p, stage, fault == BROKEN_SHADER && stage == SOBEL);
        if (result != TG_OK)
            p->creation = result;
    }

    blur_weights(weights);
    go_on(tg_buffer_write(device, UPLOAD_STREAM, whole(p->photo), photo->pixels, picture_size(photo)), "photo");
    go_on(tg_buffer_write(device, UPLOAD_STREAM, whole(p->weights), weights, sizeof weights), "weights");
}

static void destroy_pipeline(struct pipeline *p)
{
    const tg_buffer buffers[] = {p->photo, p->weights, p->scratch, p->blurred,  p->edges,
                                 p->bins,  p->curve,   p->toned,   p->composite};

    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; ++i)
        go_on(tg_buffer_destroy(p->device, buffers[i]), "tg_buffer_destroy");
    for (enum stage stage = 0; stage < STAGES; ++stage)
        go_on(tg_kernel_destroy(p->device, p->kernels[stage]), "tg_kernel_destroy");
}

struct push {
    uint32_t width, height;             /* every stage */
    uint32_t first_row, rows, radius;   /* the blur only */
};

/* Bindings are in the order of the shader's: first what it writes, then what it reads. */
static void launch(struct pipeline *p, enum stage stage, const tg_slice *slices, const struct push *push, uint32_t x,
                   uint32_t y)
{
    tg_launch_desc desc = TG_LAUNCH_DESC_INIT;
    tg_use bindings[4] = {{{{0}, 0, 0}, TG_ACCESS_AUTO, 0}};

    for (uint32_t i = 0; i < stages[stage].bindings; ++i)
        bindings[i].slice = slices[i];
    desc.stream = stages[stage].stream;
    desc.kernel = p->kernels[stage];
    desc.bindings = bindings;
    desc.binding_count = stages[stage].bindings;
    desc.threads[0] = x;
    desc.threads[1] = y;
    desc.push = push;
    desc.push_size = push->radius != 0 ? sizeof *push : 2 * sizeof(uint32_t);
    const tg_result result = go_on(tg_launch(p->device, &desc), stages[stage].name);
    if (p->outcomes[stage] == TG_OK)
        p->outcomes[stage] = result;
}

/* Tile by tile: each launch writes the rows of its tile, and these only. */
static void run_blur(struct pipeline *p)
{
    p->outcomes[BLUR_ROWS] = p->outcomes[BLUR_COLUMNS] = TG_OK;
    for (uint32_t first = 0; first < p->height; first += p->tile_rows) {
        const uint32_t rows = p->height - first < p->tile_rows ? p->height - first : p->tile_rows;
        const struct push push = {p->width, p->height, first, rows, BLUR_RADIUS};
        const tg_slice scratch = slice(p->scratch, 0, scratch_bytes(p, rows));
        const tg_slice tile = slice(p->blurred, (uint64_t)p->width * first * 4, (uint64_t)p->width * rows * 4);

        launch(p, BLUR_ROWS, (tg_slice[]){scratch, whole(p->photo), whole(p->weights)}, &push, p->width,
               rows + 2 * BLUR_RADIUS);
        launch(p, BLUR_COLUMNS, (tg_slice[]){tile, scratch, whole(p->weights)}, &push, p->width, rows);
    }
}

static void run_stage(struct pipeline *p, enum stage stage)
{
    const struct push push = {p->width, p->height, 0, 0, 0};

    p->outcomes[stage] = TG_OK;
    switch (stage) {
    case SOBEL:
        launch(p, stage, (tg_slice[]){whole(p->edges), whole(p->photo)}, &push, p->width, p->height);
        break;
    case HISTOGRAM:
        go_on(tg_buffer_fill(p->device, TONE_STREAM, whole(p->bins), 0, 4), "bins");
        launch(p, stage, (tg_slice[]){whole(p->bins), whole(p->photo)}, &push, p->height, 1);
        break;
    case TONE_CURVE:
        launch(p, stage, (tg_slice[]){whole(p->curve), whole(p->bins)}, &push, 64, 1);
        break;
    case TONE:
        launch(p, stage, (tg_slice[]){whole(p->toned), whole(p->photo), whole(p->curve)}, &push, p->width, p->height);
        break;
    case COMPOSITE:
        launch(p, stage, (tg_slice[]){whole(p->composite), whole(p->blurred), whole(p->edges), whole(p->toned)}, &push,
               p->width, p->height);
        break;
    default:
        run_blur(p);
    }
}

static const char taint_message[] = "the lamp's calibration was out of date when the curve was made";
enum { TAINT_CODE = 4711 };

/* All stages to the end, whatever becomes of them. */
static void run_pipeline(struct pipeline *p, enum fault fault)
{
    run_blur(p);
    run_stage(p, SOBEL);
    run_stage(p, HISTOGRAM);
    run_stage(p, TONE_CURVE);
    if (fault == TAINTED) {
        const tg_slice curve = whole(p->curve);
        tg_error_desc error = TG_ERROR_DESC_INIT;
        error.code = TAINT_CODE;
        error.message = text(taint_message);
        error.label = text("lamp calibration");
        go_on(tg_taint(p->device, &curve, 1, &error), "tg_taint");
    }
    run_stage(p, TONE);
    run_stage(p, COMPOSITE);
}

static tg_result read_picture(const struct pipeline *p, int index, struct picture *out)
{
    const tg_buffer buffers[PICTURES] = {p->blurred, p->edges, p->toned, p->composite};

    return go_on(tg_buffer_read(p->device, stages[makers[index]].stream, out->pixels, picture_size(out),
                                whole(buffers[index]), TG_WAIT_FOREVER),
                 picture_names[index]);
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
    tg_step_info step = TG_STEP_INFO_INIT;
    size_t roots = 0;

    go_on(tg_report_failure_count(report, &roots), run);
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
        expect(says(root.label, "lamp calibration"), "%s: the root's label is %s", run, root.label.data);
        expect(says(root.message, taint_message), "%s: the root's message is %s", run, root.message.data);
    }
    if (root.step_count == 0 || tg_report_step(report, 0, root.step_count - 1, &step) != TG_OK) {
        expect(false, "%s: no path leads from the root to the composite", run);
        return;
    }
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

    create_pipeline(&p, device, photo, NO_FAULT);
    run_pipeline(&p, NO_FAULT);
    for (enum stage stage = 0; stage < STAGES; ++stage) {
        char path[512] = "", check[64] = "";
        for (int i = 0; i < PICTURES; ++i) {
            if (makers[i] != stage)
                continue;
            const tg_result result = read_picture(&p, i, &clean[i]);
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
    destroy_pipeline(&p);
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

/* What puts the broken stage right; what depends on it is run again by the caller. */
static void repair(struct pipeline *p, enum fault fault, const struct picture *photo)
{
    uint32_t curve[256];

    switch (fault) {
    case BROKEN_SHADER:
        expect(build_kernel(p, SOBEL, false) == TG_OK, "the repaired shader does not build");
        run_stage(p, SOBEL);
        break;
    case OUT_OF_MEMORY:
        p->tile_rows = p->height < SMALL_TILE_ROWS ? p->height : SMALL_TILE_ROWS;
        expect(go_on(tg_buffer_allocate(p->device, p->scratch, scratch_bytes(p, p->tile_rows)), "blur scratch") == TG_OK,
               "the scratch of a smaller tile is not allocated");
        run_blur(p);
        break;
    default:
        reference_curve(curve, photo);
        go_on(tg_buffer_write(p->device, TONE_STREAM, whole(p->curve), curve, sizeof curve), "curve");
        run_stage(p, TONE);
    }
}

static bool run_broken(tg_device device, const struct picture *photo, const struct picture clean[PICTURES],
                       enum fault fault, tg_report *report)
{
    const char *run = faults[fault].run, *repaired = faults[fault].repaired;
    const enum stage spoilt = makers[faults[fault].spoilt];
    char path[512], clean_path[512], cell[TABLE_CELL];
    char paths[STAGES][512] = {{0}};
    const char *checks[STAGES] = {"", "", "", "", "", "", ""};
    struct picture out = {0};
    struct pipeline p;

    if (!picture_create(&out, photo->width, photo->height))
        return false;
    create_pipeline(&p, device, photo, fault);
    run_pipeline(&p, fault);
    for (int i = 0; i < PICTURES; ++i) {
        memset(out.pixels, 0xa5, picture_size(&out));
        const tg_result result = read_picture(&p, i, &out);
        if (i == faults[fault].spoilt || i == COMPOSITE_PICTURE) {
            expect(result == TG_ERROR_UNWRITTEN, "%s: reading %s gives %s", run, picture_names[i],
                   name_of(result));
            expect(untouched(&out), "%s: the failed read of %s wrote to its destination", run, picture_names[i]);
            expect(p.outcomes[makers[i]] == TG_SKIPPED, "%s: %s gives %s", run, stages[makers[i]].name,
                   name_of(p.outcomes[makers[i]]));
            snprintf(paths[makers[i]], sizeof paths[0], "none: %s", name_of(result));
            if (i == COMPOSITE_PICTURE && tg_last_report(report) == TG_OK)
                check_report(*report, fault);
        } else {
            expect(result == TG_OK, "%s: reading %s gives %s", run, picture_names[i], name_of(result));
            picture_path(paths[makers[i]], run, i);
            picture_path(clean_path, faults[NO_FAULT].run, i);
            if (!picture_save(&out, paths[makers[i]]))
                return false;
            const bool same = files_equal(paths[makers[i]], clean_path);
            expect(same, "%s: %s is not the clean run's", run, picture_names[i]);
            checks[makers[i]] = same ? "equals the clean run's" : "differs";
        }
    }
    table_row(&table, "%s|%s|-|%s%s", run, faults[fault].broken, fault == TAINTED ? "tainted" : "failed: ",
              fault == TAINTED ? "" : name_of(p.creation));
    for (enum stage stage = 0; stage < STAGES; ++stage)
        tell_stage(&p, run, stage, checks[stage], paths[stage]);

    repair(&p, fault, photo);
    run_stage(&p, COMPOSITE);
    memset(out.pixels, 0xa5, picture_size(&out));
    const tg_result result = read_picture(&p, COMPOSITE_PICTURE, &out);
    expect(result == TG_OK, "%s: reading the composite gives %s", repaired, name_of(result));
    expect(picture_difference(&out, &clean[COMPOSITE_PICTURE]) == 0, "%s: the composite is not the clean run's", repaired);
    picture_path(path, repaired, COMPOSITE_PICTURE);
    if (!picture_save(&out, path))
        return false;
    if (spoilt == BLUR_COLUMNS)
        tell_stage(&p, repaired, BLUR_ROWS, "", "");
    tell_stage(&p, repaired, spoilt, "", "");
    snprintf(cell, sizeof cell, "%s", result == TG_OK ? "equals the clean run's" : name_of(result));
    tell_stage(&p, repaired, COMPOSITE, cell, path);
    destroy_pipeline(&p);
    picture_free(&out);
    return true;
}

int main(int argc, char **argv)
{
    const char *photo_path = argc > 1 ? argv[1] : EXAMPLE_FOLDER "/data/astronaut.png";
    tg_device_desc desc = TG_DEVICE_DESC_INIT;
    tg_device_info info = TG_DEVICE_INFO_INIT;
    tg_report reports[TAINTED + 1] = {{0}};
    struct picture photo, clean[PICTURES];
    tg_device device;
    uint64_t failures = 0;

    out_folder = argc > 2 ? argv[2] : out_folder;
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
        if (!run_broken(device, &photo, clean, fault, &reports[fault]))
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
