/* The five output formats. */
#include "cli/print.h"
#include "kit.h"

struct run {
    struct kit *k;
    struct cli_printer p;
};

static struct run *run_new(enum cli_format format)
{
    struct run *r = calloc(1, sizeof *r);
    r->k = kit_new();
    r->p = (struct cli_printer){.out = &r->k->out, .format = format};
    return r;
}

static void run_free(struct run *r)
{
    kit_free(r->k);
    free(r);
}

static ProtobufCBinaryData data(const char *text, size_t len)
{
    return (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)text};
}

static Etcdserverpb__ResponseHeader header(void)
{
    Etcdserverpb__ResponseHeader h = ETCDSERVERPB__RESPONSE_HEADER__INIT;
    h.cluster_id = 0xfedcba9876543210;
    h.member_id = 17;
    h.revision = 5;
    h.raft_term = 2;
    return h;
}

static Mvccpb__KeyValue pair(const char *key, const char *value, size_t value_len)
{
    Mvccpb__KeyValue kv = MVCCPB__KEY_VALUE__INIT;
    kv.key = data(key, strlen(key));
    kv.value = data(value, value_len);
    kv.create_revision = 3;
    kv.mod_revision = 4;
    kv.version = 2;
    kv.lease = 255;
    return kv;
}

/* --- get --------------------------------------------------------------------------------------------- */

struct range {
    Etcdserverpb__ResponseHeader h;
    Mvccpb__KeyValue kv;
    Mvccpb__KeyValue *kvs[1];
    Etcdserverpb__RangeResponse r;
};

static void range_init(struct range *x)
{
    x->h = header();
    x->kv = pair("k<", "a\n\0\xff", 4);
    x->kvs[0] = &x->kv;
    etcdserverpb__range_response__init(&x->r);
    x->r.header = &x->h;
    x->r.kvs = x->kvs;
    x->r.n_kvs = 1;
    x->r.more = true;
    x->r.count = 9;
}

static void get_in_simple_form(void **state)
{
    struct run *r = run_new(CLI_SIMPLE);
    struct range x;
    range_init(&x);
    assert_int_equal(cli_print_range(&r->p, &x.r, &r->k->em), CLI_OK);
    assert_true(bytes_eq(buf_bytes(&r->k->out.buf), bytes_of("k<\na\n\0\xff\n", 8)));
    buf_reset(&r->k->out.buf);
    r->p.value_only = true;
    r->p.hex = true;
    assert_int_equal(cli_print_range(&r->p, &x.r, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "\\x61\\x0a\\x00\\xff\n");
    run_free(r);
}

static void get_in_json(void **state)
{
    struct run *r = run_new(CLI_JSON);
    struct range x;
    range_init(&x);
    assert_int_equal(cli_print_range(&r->p, &x.r, &r->k->em), CLI_OK);
    kit_expect(
        &r->k->out,
        "{\"header\":{\"cluster_id\":18364758544493064720,\"member_id\":17,\"revision\":5,"
        "\"raft_term\":2},\"kvs\":[{\"key\":\"azw=\",\"create_revision\":3,\"mod_revision\":4,"
        "\"version\":2,\"value\":\"YQoA/w==\",\"lease\":255}],\"more\":true,\"count\":9}\n");
    etcdserverpb__range_response__init(&x.r);
    assert_int_equal(cli_print_range(&r->p, &x.r, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "{}\n");
    run_free(r);
}

static void get_in_fields(void **state)
{
    struct run *r = run_new(CLI_FIELDS);
    struct range x;
    range_init(&x);
    assert_int_equal(cli_print_range(&r->p, &x.r, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "\"ClusterID\" : 18364758544493064720\n\"MemberID\" : 17\n"
                           "\"Revision\" : 5\n\"RaftTerm\" : 2\n\"Key\" : \"k<\"\n"
                           "\"CreateRevision\" : 3\n\"ModRevision\" : 4\n\"Version\" : 2\n"
                           "\"Value\" : \"a\\n\\x00\\xff\"\n\"Lease\" : 255\n"
                           "\"More\" : true\n\"Count\" : 9\n");
    r->p.hex = true;
    x.h.revision = 0;
    x.r.n_kvs = 0;
    assert_int_equal(cli_print_range(&r->p, &x.r, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "\"ClusterID\" : fedcba9876543210\n\"MemberID\" : 11\n"
                           "\"RaftTerm\" : 2\n\"More\" : true\n\"Count\" : 9\n");
    run_free(r);
}

static void get_in_protobuf(void **state)
{
    struct run *r = run_new(CLI_PROTOBUF);
    Etcdserverpb__RangeResponse x = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    x.more = true;
    x.count = 9;
    assert_int_equal(cli_print_range(&r->p, &x, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "\x18\x01\x20\x09");
    run_free(r);
}

static void what_has_no_such_form_is_refused(void **state)
{
    struct run *r = run_new(CLI_TABLE);
    static const Etcdserverpb__RangeResponse RANGE = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    static const Etcdserverpb__PutResponse PUT = ETCDSERVERPB__PUT_RESPONSE__INIT;
    static const Etcdserverpb__DeleteRangeResponse DEL = ETCDSERVERPB__DELETE_RANGE_RESPONSE__INIT;
    static const Etcdserverpb__TxnResponse TXN = ETCDSERVERPB__TXN_RESPONSE__INIT;
    static const Etcdserverpb__AlarmResponse ALARM = ETCDSERVERPB__ALARM_RESPONSE__INIT;
    struct errmsg *em = &r->k->em;
    assert_int_equal(cli_print_range(&r->p, &RANGE, em), CLI_BAD_FEATURE);
    assert_string_equal(em->text, "table not supported as output format");
    assert_int_equal(cli_print_put(&r->p, &PUT, em), CLI_BAD_FEATURE);
    assert_int_equal(cli_print_delete(&r->p, &DEL, em), CLI_BAD_FEATURE);
    assert_int_equal(cli_print_txn(&r->p, &TXN, em), CLI_BAD_FEATURE);
    assert_int_equal(cli_print_alarms(&r->p, &ALARM, em), CLI_BAD_FEATURE);
    r->p.format = CLI_PROTOBUF;
    assert_int_equal(cli_print_status(&r->p, NULL, 0, em), CLI_BAD_FEATURE);
    assert_string_equal(em->text, "protobuf not supported as output format");
    assert_int_equal(cli_print_hash(&r->p, NULL, 0, em), CLI_BAD_FEATURE);
    assert_int_equal(cli_print_health(&r->p, NULL, 0, &r->k->err, em), CLI_BAD_FEATURE);
    kit_expect(&r->k->out, "");
    run_free(r);
}

/* --- put, del, txn ------------------------------------------------------------------------------------- */

struct txn {
    Mvccpb__KeyValue kv;
    Mvccpb__KeyValue *kvs[1];
    Etcdserverpb__PutResponse put;
    Etcdserverpb__DeleteRangeResponse del;
    Etcdserverpb__RangeResponse range;
    Etcdserverpb__TxnResponse inner;
    Etcdserverpb__ResponseOp ops[4];
    Etcdserverpb__ResponseOp *list[4];
    Etcdserverpb__TxnResponse r;
};

static void txn_init(struct txn *x)
{
    x->kv = pair("k", "v", 1);
    x->kvs[0] = &x->kv;
    etcdserverpb__put_response__init(&x->put);
    x->put.prev_kv = &x->kv;
    etcdserverpb__delete_range_response__init(&x->del);
    x->del.deleted = 1;
    x->del.prev_kvs = x->kvs;
    x->del.n_prev_kvs = 1;
    etcdserverpb__range_response__init(&x->range);
    x->range.kvs = x->kvs;
    x->range.n_kvs = 1;
    etcdserverpb__txn_response__init(&x->inner);
    for (int i = 0; i < 4; i++) {
        etcdserverpb__response_op__init(&x->ops[i]);
        x->list[i] = &x->ops[i];
    }
    x->ops[0].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
    x->ops[0].response_put = &x->put;
    x->ops[1].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;
    x->ops[1].response_delete_range = &x->del;
    x->ops[2].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
    x->ops[2].response_range = &x->range;
    x->ops[3].response_case = ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_TXN;
    x->ops[3].response_txn = &x->inner;
    etcdserverpb__txn_response__init(&x->r);
    x->r.succeeded = true;
    x->r.responses = x->list;
    x->r.n_responses = 4;
}

static void txn_in_simple_form(void **state)
{
    struct run *r = run_new(CLI_SIMPLE);
    struct txn x;
    txn_init(&x);
    assert_int_equal(cli_print_txn(&r->p, &x.r, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "SUCCESS\n\nOK\nk\nv\n\n1\nk\nv\n\nk\nv\n\nFAILURE\n");
    run_free(r);
}

#define KV                                                                                         \
    "{\"key\":\"aw==\",\"create_revision\":3,\"mod_revision\":4,\"version\":2,\"value\":\"dg==\"," \
    "\"lease\":255}"

static void txn_in_json(void **state)
{
    struct run *r = run_new(CLI_JSON);
    struct txn x;
    txn_init(&x);
    assert_int_equal(cli_print_txn(&r->p, &x.r, &r->k->em), CLI_OK);
    kit_expect(&r->k->out,
               "{\"succeeded\":true,\"responses\":[{\"Response\":{\"response_put\":{\"prev_kv\":" KV
               "}}},{\"Response\":{\"response_delete_range\":{\"deleted\":1,\"prev_kvs\":[" KV
               "]}}},{\"Response\":{\"response_range\":{\"kvs\":[" KV
               "]}}},{\"Response\":{\"response_txn\":{}}}]}\n");
    run_free(r);
}

static void txn_in_fields(void **state)
{
    struct run *r = run_new(CLI_FIELDS);
    struct txn x;
    txn_init(&x);
    x.r.n_responses = 1;
    assert_int_equal(cli_print_txn(&r->p, &x.r, &r->k->em), CLI_OK);
    kit_expect(&r->k->out,
               "\"ClusterID\" : 0\n\"MemberID\" : 0\n\"RaftTerm\" : 0\n\"Succeeded\" : true\n"
               "\"ClusterID\" : 0\n\"MemberID\" : 0\n\"RaftTerm\" : 0\n"
               "\"PrevKey\" : \"k\"\n\"PrevCreateRevision\" : 3\n\"PrevModRevision\" : 4\n"
               "\"PrevVersion\" : 2\n\"PrevValue\" : \"v\"\n\"PrevLease\" : 255\n");
    run_free(r);
}

/* --- members, alarms ----------------------------------------------------------------------------------- */

static char *URLS[] = {(char *)(uintptr_t) "http://a:1", (char *)(uintptr_t) "http://b:2"};

struct members {
    Etcdserverpb__Member a, b;
    Etcdserverpb__Member *list[2];
    Etcdserverpb__MemberListResponse r;
};

static void members_init(struct members *x)
{
    etcdserverpb__member__init(&x->a);
    x->a.id = 0xff;
    x->a.name = (char *)(uintptr_t) "n&m";
    x->a.peerurls = URLS;
    x->a.n_peerurls = 2;
    x->a.clienturls = URLS;
    x->a.n_clienturls = 1;
    etcdserverpb__member__init(&x->b);
    x->b.id = 1;
    x->b.name = (char *)(uintptr_t) "";
    x->b.islearner = true;
    x->list[0] = &x->a;
    x->list[1] = &x->b;
    etcdserverpb__member_list_response__init(&x->r);
    x->r.members = x->list;
    x->r.n_members = 2;
}

static void members_in_all_forms(void **state)
{
    struct run *r = run_new(CLI_SIMPLE);
    struct members x;
    members_init(&x);
    assert_int_equal(cli_print_members(&r->p, &x.r, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "ff, started, n&m, http://a:1,http://b:2, http://a:1, false\n"
                           "1, unstarted, , , , true\n");
    r->p.format = CLI_JSON;
    r->p.hex = true;
    assert_int_equal(cli_print_members(&r->p, &x.r, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "{\"members\":[{\"ID\":\"ff\",\"name\":\"n\\u0026m\",\"peerURLs\":"
                           "[\"http://a:1\",\"http://b:2\"],\"clientURLs\":[\"http://a:1\"]},"
                           "{\"ID\":\"1\",\"isLearner\":true}]}\n");
    r->p.format = CLI_FIELDS;
    r->p.hex = false;
    x.r.n_members = 1;
    assert_int_equal(cli_print_members(&r->p, &x.r, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "\"ClusterID\" : 0\n\"MemberID\" : 0\n\"RaftTerm\" : 0\n\"ID\" : 255\n"
                           "\"Name\" : \"n&m\"\n\"PeerURL\" : \"http://a:1\"\n"
                           "\"PeerURL\" : \"http://b:2\"\n\"ClientURL\" : \"http://a:1\"\n"
                           "\"IsLearner\" : false\n\n");
    run_free(r);
}

static void alarms_have_names(void **state)
{
    struct run *r = run_new(CLI_SIMPLE);
    Etcdserverpb__AlarmMember a = ETCDSERVERPB__ALARM_MEMBER__INIT;
    Etcdserverpb__AlarmMember *list[] = {&a};
    Etcdserverpb__AlarmResponse x = ETCDSERVERPB__ALARM_RESPONSE__INIT;
    a.memberid = 7;
    a.alarm = ETCDSERVERPB__ALARM_TYPE__CORRUPT;
    x.alarms = list;
    x.n_alarms = 1;
    assert_int_equal(cli_print_alarms(&r->p, &x, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "memberID:7 alarm:CORRUPT\n");
    a.alarm = (Etcdserverpb__AlarmType)9; /* of a later version */
    assert_int_equal(cli_print_alarms(&r->p, &x, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "memberID:7 alarm:UNKNOWN\n");
    run_free(r);
}

/* --- tables -------------------------------------------------------------------------------------------- */

static void tables_are_framed_and_aligned(void **state)
{
    struct kit *k = kit_new();
    static const char *const HEADINGS[] = {"A", "LONG ONE"};
    const struct bytes cells[] = {bytes_str("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"), bytes_str("x"),
                                  bytes_str(""), bytes_str("12")};
    cli_print_table(&k->out, HEADINGS, 2, cells, 2);
    kit_expect(&k->out, "┌──────┬──────────┐\n"
                        "│  A   │ LONG ONE │\n"
                        "├──────┼──────────┤\n"
                        "│ éééé │        x │\n"
                        "│      │       12 │\n"
                        "└──────┴──────────┘\n");
    cli_print_table(&k->out, HEADINGS, 2, NULL, 0);
    kit_expect(&k->out, "┌───┬──────────┐\n"
                        "│ A │ LONG ONE │\n"
                        "├───┼──────────┤\n"
                        "└───┴──────────┘\n");
    kit_free(k);
}

/* --- endpoints ------------------------------------------------------------------------------------------ */

static void sizes_are_rounded_as_humanize_does(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } CASES[] = {
        {0, "0 B"},       {9, "9 B"},          {10, "10 B"},           {999, "999 B"},
        {1000, "1.0 kB"}, {20480, "20 kB"},    {28672, "29 kB"},       {9949, "9.9 kB"},
        {9950, "10 kB"},  {82854982, "83 MB"}, {2147483648, "2.1 GB"}, {UINT64_MAX, "18 EB"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[CLI_SIZE_BYTES_MAX];
        cli_size_text(CASES[i].bytes, text);
        assert_string_equal(text, CASES[i].text);
    }
}

static void health_goes_to_two_streams(void **state)
{
    struct run *r = run_new(CLI_SIMPLE);
    const struct cli_health rows[] = {{bytes_str("a:1"), true, 1500000, ""},
                                      {bytes_str("b:2"), false, 2000000000, "too bad"}};
    assert_int_equal(cli_print_health(&r->p, rows, 2, &r->k->err, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "a:1 is healthy: successfully committed proposal: took = 1.5ms\n");
    kit_expect(&r->k->err, "b:2 is unhealthy: failed to commit proposal: too bad\n");
    r->p.format = CLI_JSON;
    assert_int_equal(cli_print_health(&r->p, rows, 2, &r->k->err, &r->k->em), CLI_OK);
    kit_expect(&r->k->out,
               "[{\"endpoint\":\"a:1\",\"health\":true,\"took\":\"1.5ms\"},"
               "{\"endpoint\":\"b:2\",\"health\":false,\"took\":\"2s\",\"error\":\"too bad\"}]\n");
    kit_expect(&r->k->err, "");
    run_free(r);
}

static void without_answers_json_is_null(void **state)
{
    struct run *r = run_new(CLI_JSON);
    assert_int_equal(cli_print_status(&r->p, NULL, 0, &r->k->em), CLI_OK);
    assert_int_equal(cli_print_hash(&r->p, NULL, 0, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "null\nnull\n");
    run_free(r);
}

static void status_bears_a_server_that_tells_little(void **state)
{
    struct run *r = run_new(CLI_SIMPLE);
    Etcdserverpb__StatusResponse s;
    etcdserverpb__status_response__init(&s);
    const struct cli_status row = {bytes_str("a:1"), &s};
    assert_int_equal(cli_print_status(&r->p, &row, 1, &r->k->em), CLI_OK);
    kit_expect(&r->k->out, "a:1, 0, , , 0 B, 0 B, 0%, 0 B, true, false, 0, 0, 0, , , false\n");
    run_free(r);
}

static void formats_have_names(void **state)
{
    enum cli_format f = CLI_SIMPLE;
    assert_int_equal(cli_format_parse(bytes_str("table"), &f), 0);
    assert_int_equal(f, CLI_TABLE);
    assert_int_equal(cli_format_parse(bytes_str("JSON"), &f), E_INVAL);
    assert_int_equal(cli_format_parse(bytes_str(""), &f), E_INVAL);
}

/* --- memory --------------------------------------------------------------------------------------------- */

static void print_in(struct test_heap *h, void *arg)
{
    struct cli_out out;
    struct members x;
    struct errmsg em;
    members_init(&x);
    cli_out_init(&out, &h->alloc, -1);
    struct cli_printer p = {.out = &out, .format = CLI_TABLE};
    int status = cli_print_members(&p, &x.r, &em);
    assert_true(status == CLI_ERROR || out.rc == E_NOMEM || h->failure_count == 0);
    cli_out_deinit(&out);
}

static void every_allocation_may_fail(void **state)
{
    assert_true(test_heap_every_failure(print_in, NULL) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get_in_simple_form),
        cmocka_unit_test(get_in_json),
        cmocka_unit_test(get_in_fields),
        cmocka_unit_test(get_in_protobuf),
        cmocka_unit_test(what_has_no_such_form_is_refused),
        cmocka_unit_test(txn_in_simple_form),
        cmocka_unit_test(txn_in_json),
        cmocka_unit_test(txn_in_fields),
        cmocka_unit_test(members_in_all_forms),
        cmocka_unit_test(alarms_have_names),
        cmocka_unit_test(tables_are_framed_and_aligned),
        cmocka_unit_test(sizes_are_rounded_as_humanize_does),
        cmocka_unit_test(health_goes_to_two_streams),
        cmocka_unit_test(without_answers_json_is_null),
        cmocka_unit_test(status_bears_a_server_that_tells_little),
        cmocka_unit_test(formats_have_names),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("cli printers", tests, NULL, NULL);
}
