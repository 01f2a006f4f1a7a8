/* The same stages on the CPU: what the pictures must look like. */
#ifndef EXAMPLE_REFERENCE_H
#define EXAMPLE_REFERENCE_H

#include "picture.h"

enum { BLUR_RADIUS = 6, BLUR_TAPS = 2 * BLUR_RADIUS + 1 };

/* Gaussian weights that add up to one; the GPU gets the same ones. */
void blur_weights(float weights[BLUR_TAPS]);

/* The outputs are created already, as large as the photo. */
bool reference_blur(struct picture *out, const struct picture *photo);
void reference_edges(struct picture *out, const struct picture *photo);
void reference_curve(uint32_t curve[256], const struct picture *photo);
void reference_tone(struct picture *out, const struct picture *photo, const uint32_t curve[256]);
void reference_composite(struct picture *out, const struct picture *blurred, const struct picture *edges,
                         const struct picture *toned);

#endif
