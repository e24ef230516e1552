/* A run of flags, commands and printers in memory: words from C strings, output as text. */
#ifndef TEST_UNIT_CLI_KIT_H
#define TEST_UNIT_CLI_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "test_heap.h"

enum { KIT_WORDS_MAX = 32, KIT_ARENA_BYTES = 16 * 1024 * 1024 };

struct kit {
    struct test_heap heap;
    struct arena arena;
    struct cli_out out, err;
    struct errmsg em;
    struct bytes items[KIT_WORDS_MAX];
    struct cli_words words;
};

__attribute__((unused)) static struct kit *kit_new(void)
{
    struct kit *k = calloc(1, sizeof *k);
    test_heap_init(&k->heap);
    arena_init(&k->arena, &k->heap.alloc, KIT_ARENA_BYTES);
    cli_out_init(&k->out, &k->heap.alloc, -1);
    cli_out_init(&k->err, &k->heap.alloc, -1);
    return k;
}

__attribute__((unused)) static void kit_free(struct kit *k)
{
    cli_out_deinit(&k->out);
    cli_out_deinit(&k->err);
    arena_deinit(&k->arena);
    test_heap_check_empty(&k->heap);
    free(k);
}

/* Splits at blanks; "''" is the empty word. */
__attribute__((unused)) static struct cli_words *kit_words(struct kit *k, const char *line)
{
    struct bytes text = arena_copy(&k->arena, bytes_str(line));
    k->words = (struct cli_words){k->items, 0};
    for (char *at = (char *)(uintptr_t)text.data; *at != '\0';) {
        size_t n = strcspn(at, " ");
        bool last = at[n] == '\0';
        at[n] = '\0';
        bool empty = strcmp(at, "''") == 0;
        assert_true(k->words.count < KIT_WORDS_MAX);
        k->items[k->words.count++] = empty ? bytes_str("") : bytes_of(at, n);
        at += n + (last ? 0 : 1);
    }
    return &k->words;
}

__attribute__((unused)) static void kit_expect(struct cli_out *o, const char *expected)
{
    assert_int_equal(o->rc, 0);
    assert_int_equal(buf_put_u8(&o->buf, 0), 0);
    assert_string_equal((const char *)o->buf.data, expected);
    buf_reset(&o->buf);
}

#endif
