/* Pictures in memory and as PNG files. */
#ifndef EXAMPLE_PICTURE_H
#define EXAMPLE_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One uint32_t a pixel, red in the lowest byte, as the shaders see it. */
struct picture {
    uint32_t width, height;
    uint32_t *pixels;
};

/* What is wrong goes to stderr; the caller frees the pixels with picture_free. */
bool picture_create(struct picture *picture, uint32_t width, uint32_t height);
bool picture_load(struct picture *picture, const char *path);
bool picture_save(const struct picture *picture, const char *path);
void picture_free(struct picture *picture);

size_t picture_size(const struct picture *picture); /* bytes of the pixels */

/* The largest difference of any channel of any pixel. */
uint32_t picture_difference(const struct picture *a, const struct picture *b);

/* The bytes of a file, allocated, or NULL; what is wrong goes to stderr. */
unsigned char *file_load(const char *path, size_t *size);
bool files_equal(const char *a, const char *b);
bool folder_create(const char *path); /* it may be there already */

#endif
