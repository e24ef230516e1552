/* randombytes_buf() reads getrandom(2) and aborts rather than fail. */
#include "os/rand.h"

#include <sodium.h>

#include "base/err.h"

int os_rand_init(void)
{
    return sodium_init() < 0 ? E_IO : 0;
}

static void fill(void *arg, void *data, size_t len)
{
    (void)arg;
    randombytes_buf(data, len);
}

const struct rand_source os_rand = {.fill = fill, .arg = NULL};
