#include "shared.h"

#include <stdio.h>
#include <stdlib.h>

bool shared_find(const char *relative, char out[SHARED_PATH_BYTES_MAX])
{
    const char *root = getenv("SHARED");
    int n =
        snprintf(out, SHARED_PATH_BYTES_MAX, "%s/%s", root == NULL ? "../shared" : root, relative);
    if (n < 0 || n >= SHARED_PATH_BYTES_MAX) return false;
    FILE *f = fopen(out, "r");
    if (f == NULL) return false;
    fclose(f);
    return true;
}

char *shared_read(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    size_t cap = 1 << 16;
    char *data = malloc(cap);
    size_t n;
    *len = 0;
    while (data != NULL && (n = fread(data + *len, 1, cap - *len - 1, f)) > 0) {
        *len += n;
        if (cap - *len > 1) continue;
        cap *= 2;
        char *grown = realloc(data, cap);
        if (grown == NULL) free(data);
        data = grown;
    }
    fclose(f);
    if (data != NULL) data[*len] = 0;
    return data;
}
