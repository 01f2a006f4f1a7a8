/* Proves that the sanitizers are on: each mode does one thing they must report. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    char *volatile bytes = malloc(16);
    if (!bytes) return 2;
    if (strcmp(mode, "heap") == 0) {
        ((volatile char *)bytes)[16] = 1;
    } else if (strcmp(mode, "leak") == 0) {
        bytes = NULL;
    } else if (strcmp(mode, "undefined") == 0) {
        volatile int large = INT_MAX;
        large = large + argc;
        printf("%d\n", large);
    }
    free(bytes);
    return 0;
}
