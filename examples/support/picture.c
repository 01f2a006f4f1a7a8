#define _POSIX_C_SOURCE 200809L /* for mkdir */
#include "picture.h"

#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <direct.h>
#define mkdir(path, mode) _mkdir(path)
#else
#include <sys/stat.h>
#endif

bool picture_create(struct picture *picture, uint32_t width, uint32_t height)
{
    picture->width = width;
    picture->height = height;
    picture->pixels = calloc((size_t)width * height, sizeof *picture->pixels);
    if (picture->pixels == NULL)
        fprintf(stderr, "no memory for a picture of %u x %u\n", width, height);
    return picture->pixels != NULL;
}

void picture_free(struct picture *picture)
{
    free(picture->pixels);
    memset(picture, 0, sizeof *picture);
}

size_t picture_size(const struct picture *picture)
{
    return (size_t)picture->width * picture->height * sizeof *picture->pixels;
}

/* libpng turns grey, palettes, 16 bits and alpha into 8-bit RGB; what is transparent lies on white. */
bool picture_load(struct picture *picture, const char *path)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    const png_color white = {255, 255, 255};
    unsigned char *bytes = NULL;
    bool loaded = false;

    memset(picture, 0, sizeof *picture);
    if (!png_image_begin_read_from_file(&image, path))
        goto out;
    image.format = PNG_FORMAT_RGB;
    bytes = malloc(PNG_IMAGE_SIZE(image));
    if (bytes == NULL || !picture_create(picture, image.width, image.height))
        goto out;
    if (!png_image_finish_read(&image, &white, bytes, 0, NULL))
        goto out;
    for (size_t i = 0; i < (size_t)image.width * image.height; ++i) {
        const unsigned char *rgb = bytes + 3 * i;
        picture->pixels[i] = rgb[0] | (uint32_t)rgb[1] << 8 | (uint32_t)rgb[2] << 16 | 0xff000000u;
    }
    loaded = true;
out:
    if (!loaded) {
        fprintf(stderr, "cannot read %s: %s\n", path, image.message[0] ? image.message : "no memory");
        picture_free(picture);
    }
    png_image_free(&image);
    free(bytes);
    return loaded;
}

bool picture_save(const struct picture *picture, const char *path)
{
    png_image image = {.version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_RGB};
    const size_t pixels = (size_t)picture->width * picture->height;
    unsigned char *bytes = malloc(3 * pixels);
    bool saved = false;

    image.width = picture->width;
    image.height = picture->height;
    if (bytes != NULL) {
        for (size_t i = 0; i < pixels; ++i) {
            bytes[3 * i + 0] = (unsigned char)(picture->pixels[i] & 255);
            bytes[3 * i + 1] = (unsigned char)(picture->pixels[i] >> 8 & 255);
            bytes[3 * i + 2] = (unsigned char)(picture->pixels[i] >> 16 & 255);
        }
        saved = png_image_write_to_file(&image, path, 0, bytes, 0, NULL);
    }
    if (!saved)
        fprintf(stderr, "cannot write %s: %s\n", path, image.message[0] ? image.message : "no memory");
    free(bytes);
    return saved;
}

uint32_t picture_difference(const struct picture *a, const struct picture *b)
{
    uint32_t most = 0;

    if (a->width != b->width || a->height != b->height)
        return 256;
    for (size_t i = 0; i < (size_t)a->width * a->height; ++i) {
        for (int shift = 0; shift < 32; shift += 8) {
            const uint32_t left = a->pixels[i] >> shift & 255, right = b->pixels[i] >> shift & 255;
            const uint32_t apart = left > right ? left - right : right - left;
            if (apart > most)
                most = apart;
        }
    }
    return most;
}

unsigned char *file_load(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = NULL;
    long length = -1;

    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0)
        bytes = malloc((size_t)length + 1);
    if (bytes != NULL && fread(bytes, 1, (size_t)length, file) != (size_t)length) {
        free(bytes);
        bytes = NULL;
    }
    if (bytes == NULL)
        fprintf(stderr, "cannot read %s: %s\n", path, strerror(errno));
    if (file != NULL)
        fclose(file);
    *size = bytes != NULL ? (size_t)length : 0;
    return bytes;
}

bool files_equal(const char *a, const char *b)
{
    size_t a_size, b_size;
    unsigned char *a_bytes = file_load(a, &a_size), *b_bytes = file_load(b, &b_size);
    const bool equal = a_bytes != NULL && b_bytes != NULL && a_size == b_size && memcmp(a_bytes, b_bytes, a_size) == 0;

    free(a_bytes);
    free(b_bytes);
    return equal;
}

bool folder_create(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return true;
    fprintf(stderr, "cannot create %s: %s\n", path, strerror(errno));
    return false;
}
