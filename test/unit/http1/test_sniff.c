/* Which protocol the first bytes are of, for every way they can be cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http1/sniff.h"

static enum sniff of(const char *text, size_t len)
{
    return sniff_bytes(bytes_of(text, len));
}

static void knows_http2_by_its_whole_preface(void **state)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nmore";
    for (size_t n = 0; n < SNIFF_BYTES_MAX; n++)
        assert_int_equal(of(preface, n), SNIFF_MORE);
    for (size_t n = SNIFF_BYTES_MAX; n < sizeof preface; n++) {
        assert_int_equal(of(preface, n), SNIFF_HTTP2);
    }
}

static void knows_http1_at_the_first_difference(void **state)
{
    static const char *const lines[] = {"GET / HTTP/1.1", "POST /",  "PROPFIND",
                                        "PRI * HTTP/1.1", "\r\nGET", "xyz"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(of(lines[i], strlen(lines[i])), SNIFF_HTTP1);
    }
    assert_int_equal(of("P", 1), SNIFF_MORE);
    assert_int_equal(of("PO", 2), SNIFF_HTTP1);
    assert_int_equal(of("PR", 2), SNIFF_MORE);
    assert_int_equal(of("PRO", 3), SNIFF_HTTP1);
}

static void knows_tls(void **state)
{
    assert_int_equal(of("\x16", 1), SNIFF_MORE);
    assert_int_equal(of("\x16\x03\x01", 3), SNIFF_TLS);
    assert_int_equal(of("\x16\x02", 2), SNIFF_HTTP1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_http2_by_its_whole_preface),
        cmocka_unit_test(knows_http1_at_the_first_difference),
        cmocka_unit_test(knows_tls),
    };
    return cmocka_run_group_tests_name("sniff", tests, NULL, NULL);
}
