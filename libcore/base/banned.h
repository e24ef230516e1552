/* Force-included into every source of libcore: what it names must not be called there.
 *
 * Each has a bounded or typed replacement, named in the message of the compiler. */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define BANNED(name, instead) banned_##name##_use_##instead

#undef strcpy
#define strcpy(...) BANNED(strcpy, memcpy_or_buf_put_str)
#undef strcat
#define strcat(...) BANNED(strcat, buf_put_str)
#undef strncpy
#define strncpy(...) BANNED(strncpy, memcpy)
#undef strncat
#define strncat(...) BANNED(strncat, buf_put)
#undef sprintf
#define sprintf(...) BANNED(sprintf, snprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf, vsnprintf)
#undef gets
#define gets(...) BANNED(gets, file_read)
#undef strtok
#define strtok(...) BANNED(strtok, a_span_loop)
#undef atoi
#define atoi(...) BANNED(atoi, text_parse_int)
#undef atol
#define atol(...) BANNED(atol, text_parse_int)
#undef alloca
#define alloca(...) BANNED(alloca, arena_new)
#undef gmtime
#define gmtime(...) BANNED(gmtime, gmtime_r)
#undef localtime
#define localtime(...) BANNED(localtime, localtime_r)
#undef rand
#define rand(...) BANNED(rand, prng)
#undef exit
#define exit(...) BANNED(exit, a_return_value)

#endif
