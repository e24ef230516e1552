/* What every implementation of env/disk.h must do, as cases that its own test file runs. */
#ifndef TEST_LIB_DISK_CONTRACT_H
#define TEST_LIB_DISK_CONTRACT_H

#include "env/disk.h"

/* Each fails the running test on a breach. `dir` is an empty folder that exists. */
void disk_contract_read_write(const struct disk *d, const char *dir);
void disk_contract_open_flags(const struct disk *d, const char *dir);
void disk_contract_sizes(const struct disk *d, const char *dir);
void disk_contract_locks(const struct disk *d, const char *dir);
void disk_contract_names(const struct disk *d, const char *dir);
void disk_contract_list(const struct disk *d, const char *dir);

#endif
