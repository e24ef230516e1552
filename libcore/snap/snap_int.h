/* Shared inside the snap module. */
#ifndef SNAP_SNAP_INT_H
#define SNAP_SNAP_INT_H

#include "snap/snap.h"
#include "wal/wal_fs.h"

#endif
