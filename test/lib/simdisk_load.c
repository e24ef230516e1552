/* Copies real files into a simulated disk. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "simdisk_int.h"

enum { LOAD_BYTES = 1024 * 1024, LOAD_DEPTH_MAX = 16 };

static _Noreturn void give_up(const char *what, const char *path)
{
    (void)fprintf(stderr, "simdisk_load: %s: %s\n", what, path);
    abort();
}

static void load_file(struct simdisk *d, const char *host, const char *to, uint64_t size_bytes)
{
    FILE *f = fopen(host, "rb");
    if (f == NULL) give_up("cannot open", host);
    uint8_t *chunk = sim_alloc(LOAD_BYTES);
    uint64_t at = 0;
    simdisk__put_page(d, to, size_bytes, 0, BYTES_EMPTY);
    for (size_t n = 0; (n = fread(chunk, 1, LOAD_BYTES, f)) > 0; at += n) {
        simdisk__put_page(d, to, size_bytes, at, bytes_of(chunk, n));
    }
    free(chunk);
    (void)fclose(f);
    if (at != size_bytes) give_up("changed while it was read", host);
}

static void load(struct simdisk *d, const char *host, const char *to, unsigned depth)
{
    struct stat st;
    if (stat(host, &st) != 0) give_up("cannot stat", host);
    if (!S_ISDIR(st.st_mode)) {
        load_file(d, host, to, (uint64_t)st.st_size);
        return;
    }
    DIR *dir = depth < LOAD_DEPTH_MAX ? opendir(host) : NULL;
    if (dir == NULL) give_up("cannot list", host);
    simdisk__put_dir(d, to);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char host_sub[SIM_PATH_BYTES_MAX];
        char to_sub[SIM_PATH_BYTES_MAX];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        int n = snprintf(host_sub, sizeof host_sub, "%s/%s", host, e->d_name);
        int m = snprintf(to_sub, sizeof to_sub, "%s/%s", to, e->d_name);
        if (n >= SIM_PATH_BYTES_MAX || m >= SIM_PATH_BYTES_MAX) give_up("name too long", host);
        load(d, host_sub, to_sub, depth + 1);
    }
    (void)closedir(dir);
}

void simdisk_load(struct simdisk *d, const char *host_path, const char *to)
{
    load(d, host_path, to, 0);
}
