#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t channel(uint32_t pixel, int index)
{
    return pixel >> (8 * index) & 255;
}

static int64_t held(int64_t at, uint32_t size)
{
    return at < 0 ? 0 : at >= size ? (int64_t)size - 1 : at;
}

void blur_weights(float weights[BLUR_TAPS])
{
    const double sigma = BLUR_RADIUS / 2.0;
    double sum = 0;

    for (int pass = 0; pass < 2; ++pass) {
        for (int tap = 0; tap < BLUR_TAPS; ++tap) {
            const double away = (tap - BLUR_RADIUS) / sigma, weight = exp(-away * away / 2);
            if (pass == 0)
                sum += weight;
            else
                weights[tap] = (float)(weight / sum);
        }
    }
}

/* In double precision: a grey level of difference is what the float arithmetic of a GPU may cost. */
bool reference_blur(struct picture *out, const struct picture *photo)
{
    const uint32_t width = photo->width, height = photo->height;
    double *rows = malloc((size_t)width * height * 3 * sizeof *rows);
    float weights[BLUR_TAPS];

    if (rows == NULL) {
        fprintf(stderr, "no memory for the reference blur\n");
        return false;
    }
    blur_weights(weights);
    for (uint32_t y = 0; y < height; ++y) {
        for (uint32_t x = 0; x < width; ++x) {
            for (int c = 0; c < 3; ++c) {
                double sum = 0;
                for (int tap = 0; tap < BLUR_TAPS; ++tap) {
                    const int64_t from = held((int64_t)x + tap - BLUR_RADIUS, width);
                    sum += (double)weights[tap] * channel(photo->pixels[(size_t)y * width + (size_t)from], c);
                }
                rows[((size_t)y * width + x) * 3 + (size_t)c] = sum;
            }
        }
    }
    for (uint32_t y = 0; y < height; ++y) {
        for (uint32_t x = 0; x < width; ++x) {
            uint32_t pixel = 0xff000000u;
            for (int c = 0; c < 3; ++c) {
                double sum = 0;
                for (int tap = 0; tap < BLUR_TAPS; ++tap) {
                    const int64_t from = held((int64_t)y + tap - BLUR_RADIUS, height);
                    sum += (double)weights[tap] * rows[((size_t)from * width + x) * 3 + (size_t)c];
                }
                pixel |= (uint32_t)(sum + 0.5 > 255 ? 255 : sum + 0.5) << (8 * c);
            }
            out->pixels[(size_t)y * width + x] = pixel;
        }
    }
    free(rows);
    return true;
}

static uint32_t luma(uint32_t pixel)
{
    return (77 * channel(pixel, 0) + 150 * channel(pixel, 1) + 29 * channel(pixel, 2)) >> 8;
}

void reference_edges(struct picture *out, const struct picture *photo)
{
    static const int smooth[3] = {1, 2, 1}, slope[3] = {-1, 0, 1};

    for (uint32_t y = 0; y < photo->height; ++y) {
        for (uint32_t x = 0; x < photo->width; ++x) {
            int across = 0, down = 0;
            for (int j = 0; j < 3; ++j) {
                for (int i = 0; i < 3; ++i) {
                    const size_t row = (size_t)held((int64_t)y + j - 1, photo->height);
                    const size_t column = (size_t)held((int64_t)x + i - 1, photo->width);
                    const int value = (int)luma(photo->pixels[row * photo->width + column]);
                    across += slope[i] * smooth[j] * value;
                    down += smooth[i] * slope[j] * value;
                }
            }
            const int edge = (abs(across) + abs(down)) / 2;
            out->pixels[(size_t)y * photo->width + x] = (uint32_t)(edge > 255 ? 255 : edge) * 0x010101u | 0xff000000u;
        }
    }
}

void reference_curve(uint32_t curve[256], const struct picture *photo)
{
    const uint64_t pixels = (uint64_t)photo->width * photo->height;
    uint64_t bins[256] = {0}, below = 0;

    for (size_t i = 0; i < pixels; ++i)
        ++bins[luma(photo->pixels[i])];
    for (uint32_t level = 0; level < 256; ++level) {
        below += bins[level];
        const uint64_t spread = 256 * below / pixels;
        curve[level] = (level + (uint32_t)(spread > 255 ? 255 : spread)) / 2;
    }
}

void reference_tone(struct picture *out, const struct picture *photo, const uint32_t curve[256])
{
    for (size_t i = 0; i < (size_t)photo->width * photo->height; ++i) {
        const uint32_t pixel = photo->pixels[i];
        out->pixels[i] = curve[channel(pixel, 0)] | curve[channel(pixel, 1)] << 8 | curve[channel(pixel, 2)] << 16 |
                         0xff000000u;
    }
}

void reference_composite(struct picture *out, const struct picture *blurred, const struct picture *edges,
                         const struct picture *toned)
{
    for (size_t i = 0; i < (size_t)out->width * out->height; ++i) {
        const uint32_t light = 255 - channel(edges->pixels[i], 0) / 2;
        out->pixels[i] = 0xff000000u;
        for (int c = 0; c < 3; ++c) {
            const uint32_t glow = (3 * channel(toned->pixels[i], c) + channel(blurred->pixels[i], c) + 2) / 4;
            out->pixels[i] |= (glow * light + 127) / 255 << (8 * c);
        }
    }
}
