/* The photo pipeline itself: its buffers, kernels and launches. */
#ifndef EXAMPLE_PIPELINE_H
#define EXAMPLE_PIPELINE_H

#include "picture.h"

#include <stdio.h>
#include <tidegate/tidegate.h>

enum stage { BLUR_ROWS, BLUR_COLUMNS, SOBEL, HISTOGRAM, TONE_CURVE, TONE, COMPOSITE, STAGES };
enum fault { NO_FAULT, BROKEN_SHADER, OUT_OF_MEMORY, TAINTED };

enum { PICTURES = 4, COMPOSITE_PICTURE = 3 };

struct stage_info {
    const char *name, *shader;
    uint64_t stream;
    uint32_t accesses[4], bindings;
};
extern const struct stage_info stages[STAGES];
extern const char *const picture_names[PICTURES];
extern const enum stage picture_makers[PICTURES]; /* the stage that makes each picture */

struct pipeline {
    tg_device device;
    uint32_t width, height, tile_rows;
    tg_buffer photo, weights, scratch, blurred, edges, bins, curve, toned, composite;
    tg_kernel kernels[STAGES];
    tg_result creation; /* what the buffer or kernel that could not be made said */
    tg_result outcomes[STAGES];
};

/* What the caller taints the tone curve with. */
enum { TAINT_CODE = 4711 };
extern const char taint_message[], taint_label[];

/* With OUT_OF_MEMORY a buffer, with BROKEN_SHADER a kernel cannot be made. The pipeline lives all the same. */
void pipeline_create(struct pipeline *p, tg_device device, const struct picture *photo, enum fault fault);
void pipeline_destroy(struct pipeline *p);

/* All stages to the end, whatever becomes of them; with TAINTED the curve is tainted on the way. */
void pipeline_run(struct pipeline *p, enum fault fault);
void pipeline_run_stage(struct pipeline *p, enum stage stage); /* either blur stage runs both */

/* What puts the broken stage right, and that stage again; TG_OK when it could be. The composite is still to be run. */
tg_result pipeline_repair(struct pipeline *p, enum fault fault, const struct picture *photo);

tg_result pipeline_read(const struct pipeline *p, int picture, struct picture *out);

/* A failure is no reason to stop: what could not be written is remembered by the library. A misuse is a bug of ours. */
tg_result go_on(tg_result result, const char *what);
const char *name_of(tg_result result);
void print_report(FILE *out, tg_report report);

#endif
