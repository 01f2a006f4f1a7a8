#include "pipeline.h"

#include "reference.h"

#include <stdlib.h>
#include <string.h>

#ifndef EXAMPLE_FOLDER
#define EXAMPLE_FOLDER "."
#endif

enum { UPLOAD_STREAM = 0, BLUR_STREAM = 1, EDGES_STREAM = 2, TONE_STREAM = 3, COMPOSITE_STREAM = 4 };

/* Multiples of 64 rows: then the first byte of a tile is a multiple of 256, the coarsest alignment a device may ask for. */
enum { TILE_ROWS = 256, SMALL_TILE_ROWS = 64 };

/* The accesses are what the shaders say too; said here, they hold even for a shader that cannot be read. */
const struct stage_info stages[STAGES] = {
    [BLUR_ROWS] = {"blur rows", "blur_horizontal", BLUR_STREAM, {TG_ACCESS_WRITE, TG_ACCESS_READ, TG_ACCESS_READ}, 3},
    [BLUR_COLUMNS] = {"blur columns", "blur_vertical", BLUR_STREAM, {TG_ACCESS_WRITE, TG_ACCESS_READ, TG_ACCESS_READ}, 3},
    [SOBEL] = {"sobel", "sobel", EDGES_STREAM, {TG_ACCESS_WRITE, TG_ACCESS_READ}, 2},
    [HISTOGRAM] = {"histogram", "histogram", TONE_STREAM, {TG_ACCESS_READ_WRITE, TG_ACCESS_READ}, 2},
    [TONE_CURVE] = {"tone curve", "tone_curve", TONE_STREAM, {TG_ACCESS_WRITE, TG_ACCESS_READ}, 2},
    [TONE] = {"tone", "tone", TONE_STREAM, {TG_ACCESS_WRITE, TG_ACCESS_READ, TG_ACCESS_READ}, 3},
    [COMPOSITE] = {"composite", "composite", COMPOSITE_STREAM,
                   {TG_ACCESS_WRITE, TG_ACCESS_READ, TG_ACCESS_READ, TG_ACCESS_READ}, 4},
};

const enum stage picture_makers[PICTURES] = {BLUR_COLUMNS, SOBEL, TONE, COMPOSITE};
const char *const picture_names[PICTURES] = {"blurred", "edges", "toned", "composite"};

const char *name_of(tg_result result)
{
    return tg_result_name(result).data; /* strings out of the library end in NUL, too */
}

void print_report(FILE *out, tg_report report)
{
    tg_str rendered;

    if (tg_report_text(report, &rendered) == TG_OK)
        fputs(rendered.data, out);
}

tg_result go_on(tg_result result, const char *what)
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

void pipeline_create(struct pipeline *p, tg_device device, const struct picture *photo, enum fault fault)
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

void pipeline_destroy(struct pipeline *p)
{
    const tg_buffer buffers[] = {p->photo, p->weights, p->scratch, p->blurred,  p->edges,
                                 p->bins,  p->curve,   p->toned,   p->composite};

    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; ++i)
        go_on(tg_buffer_destroy(p->device, buffers[i]), "tg_buffer_destroy");
    for (enum stage stage = 0; stage < STAGES; ++stage)
        go_on(tg_kernel_destroy(p->device, p->kernels[stage]), "tg_kernel_destroy");
}

struct push {
    uint32_t width, height;           /* every stage */
    uint32_t first_row, rows, radius; /* the blur only */
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

void pipeline_run_stage(struct pipeline *p, enum stage stage)
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

const char taint_label[] = "lamp calibration";
const char taint_message[] = "the lamp's calibration was out of date when the curve was made";

void pipeline_run(struct pipeline *p, enum fault fault)
{
    run_blur(p);
    pipeline_run_stage(p, SOBEL);
    pipeline_run_stage(p, HISTOGRAM);
    pipeline_run_stage(p, TONE_CURVE);
    if (fault == TAINTED) {
        const tg_slice curve = whole(p->curve);
        tg_error_desc error = TG_ERROR_DESC_INIT;
        error.code = TAINT_CODE;
        error.message = text(taint_message);
        error.label = text(taint_label);
        go_on(tg_taint(p->device, &curve, 1, &error), "tg_taint");
    }
    pipeline_run_stage(p, TONE);
    pipeline_run_stage(p, COMPOSITE);
}

tg_result pipeline_read(const struct pipeline *p, int picture, struct picture *out)
{
    const tg_buffer buffers[PICTURES] = {p->blurred, p->edges, p->toned, p->composite};

    return go_on(tg_buffer_read(p->device, stages[picture_makers[picture]].stream, out->pixels, picture_size(out),
                                whole(buffers[picture]), TG_WAIT_FOREVER),
                 picture_names[picture]);
}

tg_result pipeline_repair(struct pipeline *p, enum fault fault, const struct picture *photo)
{
    uint32_t curve[256];
    tg_result result;

    switch (fault) {
    case BROKEN_SHADER:
        result = build_kernel(p, SOBEL, false);
        pipeline_run_stage(p, SOBEL);
        break;
    case OUT_OF_MEMORY:
        p->tile_rows = p->height < SMALL_TILE_ROWS ? p->height : SMALL_TILE_ROWS;
        result = go_on(tg_buffer_allocate(p->device, p->scratch, scratch_bytes(p, p->tile_rows)), "blur scratch");
        run_blur(p);
        break;
    default:
        reference_curve(curve, photo);
        result = go_on(tg_buffer_write(p->device, TONE_STREAM, whole(p->curve), curve, sizeof curve), "curve");
        pipeline_run_stage(p, TONE);
    }
    return result;
}
