/* What the system says about this process: the process_* metrics. */
#ifndef OS_PROC_H
#define OS_PROC_H

#include <stdint.h>

struct proc_stats {
    double cpu_s;        /* user and system */
    double start_time_s; /* since the Unix epoch */
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t virtual_bytes_max; /* UINT64_MAX: no limit */
    uint64_t open_fds;
    uint64_t max_fds;
    /* Of all interfaces of the network namespace, as upstream's collector counts. */
    uint64_t network_receive_bytes;
    uint64_t network_transmit_bytes;
};

/* Reads /proc/self. What cannot be read is 0. E_IO when there is no /proc. Any thread; a few system
 * calls. */
int proc_stats_read(struct proc_stats *out);

/* Processors that this process may run on; 0 when unknown. */
unsigned proc_cpu_count(void);

/* Raises the soft limit of open descriptors to the hard one; returns the limit now in force. */
uint64_t proc_raise_fd_limit(void);

#endif
