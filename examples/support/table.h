/* A table of text whose columns line up. */
#ifndef EXAMPLE_TABLE_H
#define EXAMPLE_TABLE_H

#include <stdio.h>

enum { TABLE_COLUMNS = 6, TABLE_CELL = 512, TABLE_ROWS = 64 };

struct table {
    char cells[TABLE_ROWS][TABLE_COLUMNS][TABLE_CELL];
    int rows; /* the first one is the heading */
};

/* One row, its cells parted by '|'; an empty row draws a line. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void table_row(struct table *table, const char *format, ...);
void table_print(const struct table *table, FILE *out);

#endif
