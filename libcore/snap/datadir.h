/* The layout of a data directory, and what is made, tested and swept in it at start (doc/formats/snap.md). */
#ifndef SNAP_DATADIR_H
#define SNAP_DATADIR_H

#include <stdbool.h>

#include "base/errmsg.h"
#include "snap/snap.h"

enum { DATADIR_PATH_BYTES_MAX = 4096 };

struct datadir {
    char root[DATADIR_PATH_BYTES_MAX];   /* DATADIR */
    char member[DATADIR_PATH_BYTES_MAX]; /* DATADIR/member */
    char snap[DATADIR_PATH_BYTES_MAX];   /* DATADIR/member/snap */
    char db[DATADIR_PATH_BYTES_MAX];     /* DATADIR/member/snap/db */
    char wal[DATADIR_PATH_BYTES_MAX];    /* DATADIR/member/wal, or --wal-dir */
};

/* Names the places; touches nothing. `wal_dir` NULL or "": the default. Errors: E_TOOBIG. */
int datadir_init(struct datadir *d, const char *root, const char *wal_dir);

/* Start-up, in upstream's order: makes root, member and snap (0700, parents too; another mode is only warned about),
 * tests that files can be made in each, and deletes `tmp*` and `db.tmp*` in snap.
 * Errors: of the disk, with the path in `em`. */
int datadir_prepare(const struct datadir *d, const struct snap_opts *o, struct errmsg *em);

/* Makes `dir` and its parents (0700) if need be and tests it by making and deleting `.touch`. */
int datadir_touch(const struct snap_opts *o, const char *dir, struct errmsg *em);

#endif
