#include "table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void table_row(struct table *table, const char *format, ...)
{
    char line[TABLE_COLUMNS * TABLE_CELL];
    va_list arguments;
    const char *from = line;

    if (table->rows == TABLE_ROWS) {
        fprintf(stderr, "the table is full\n");
        abort();
    }
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (int column = 0; column < TABLE_COLUMNS; ++column) {
        const size_t length = strcspn(from, "|");
        snprintf(table->cells[table->rows][column], TABLE_CELL, "%.*s", (int)length, from);
        from += length + (from[length] == '|');
    }
    ++table->rows;
}

void table_print(const struct table *table, FILE *out)
{
    int widths[TABLE_COLUMNS] = {0}, last = 0;

    for (int row = 0; row < table->rows; ++row) {
        for (int column = 0; column < TABLE_COLUMNS; ++column) {
            const int width = (int)strlen(table->cells[row][column]);
            if (width > widths[column])
                widths[column] = width;
            if (width > 0 && column > last)
                last = column;
        }
    }
    for (int row = 0; row < table->rows; ++row) {
        const char (*cells)[TABLE_CELL] = table->cells[row];
        const int line = cells[0][0] == '\0';
        int end = last;
        while (!line && end > 0 && cells[end][0] == '\0')
            --end;
        for (int column = 0; column <= end; ++column) {
            for (int i = 0; line && i < widths[column]; ++i)
                fputc('-', out);
            if (!line)
                fprintf(out, "%-*s", column == end ? 0 : widths[column], cells[column]);
            fputs(column == end ? "\n" : "  ", out);
        }
    }
}
