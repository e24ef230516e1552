/* What a test asks of a member, as one small program whose output is read by programs.
 *
 *   look ENDPOINT state        "revision R", "hash H COMPACT REVISION", then a line "KEY MOD VALUE" for each key
 *   look ENDPOINT put KEY VALUE
 *   look ENDPOINT fill KEY BYTES    a put of so many letters
 *   look ENDPOINT del KEY
 *   look ENDPOINT compact REVISION
 *   look ENDPOINT alarms       a line for each alarm
 *   look ENDPOINT disarm       all alarms
 *
 * Ends with 0, or with 1 and the server's words on stderr. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "etcdserverpb.pb-c.h"
#include "os/heap.h"

enum { ANSWER_BYTES_MAX = 256 * 1024 * 1024, REQUEST_BYTES_MAX = 4 * 1024 * 1024 };
static const uint64_t TIMEOUT_NS = 20000000000;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static ProtobufCBinaryData binary(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

/* Gives the unpacked answer. */
static ProtobufCMessage *call(struct client *c, const char *path, const ProtobufCMessage *m,
                              const ProtobufCMessageDescriptor *answer)
{
    struct client_status st;
    struct buf out;
    char text[1024];
    size_t size = protobuf_c_message_get_packed_size(m);
    uint8_t *packed = malloc(size + 1);
    if (packed == NULL) die("out of memory");
    struct client_request req = {.path = path,
                                 .body = bytes_of(packed, protobuf_c_message_pack(m, packed)),
                                 .timeout_ns = TIMEOUT_NS};
    buf_init(&out, &os_heap, ANSWER_BYTES_MAX);
    if (client_unary(c, &req, &out, &st) < 0) {
        client_status_text(&st, text, sizeof text);
        die(text);
    }
    ProtobufCMessage *got = protobuf_c_message_unpack(answer, NULL, out.len, out.data);
    if (got == NULL) die("the answer cannot be read");
    free(packed);
    buf_deinit(&out);
    return got;
}

static void free_answer(void *m)
{
    protobuf_c_message_free_unpacked(m, NULL);
}

static void show_hash(struct client *c)
{
    Etcdserverpb__HashKVRequest m = ETCDSERVERPB__HASH_KVREQUEST__INIT;
    Etcdserverpb__HashKVResponse *a = (Etcdserverpb__HashKVResponse *)call(
        c, "/etcdserverpb.Maintenance/HashKV", &m.base, &etcdserverpb__hash_kvresponse__descriptor);
    printf("hash %" PRIu32 " %" PRId64 " %" PRId64 "\n", a->hash, a->compact_revision,
           a->hash_revision);
    free_answer(a);
}

static void do_state(struct client *c, char **argv)
{
    (void)argv;
    uint8_t zero[1] = {0};
    Etcdserverpb__RangeRequest m = ETCDSERVERPB__RANGE_REQUEST__INIT;
    m.key = m.range_end = (ProtobufCBinaryData){1, zero};
    Etcdserverpb__RangeResponse *a = (Etcdserverpb__RangeResponse *)call(
        c, "/etcdserverpb.KV/Range", &m.base, &etcdserverpb__range_response__descriptor);
    printf("revision %" PRId64 "\n", a->header->revision);
    show_hash(c);
    for (size_t i = 0; i < a->n_kvs; i++) {
        const Mvccpb__KeyValue *kv = a->kvs[i];
        printf("%.*s %" PRId64 " %.*s\n", (int)kv->key.len, (const char *)kv->key.data,
               kv->mod_revision, (int)kv->value.len, (const char *)kv->value.data);
    }
    free_answer(a);
}

static void put(struct client *c, const char *key, const char *value)
{
    Etcdserverpb__PutRequest m = ETCDSERVERPB__PUT_REQUEST__INIT;
    m.key = binary(key);
    m.value = binary(value);
    free_answer(call(c, "/etcdserverpb.KV/Put", &m.base, &etcdserverpb__put_response__descriptor));
}

static void do_put(struct client *c, char **argv)
{
    put(c, argv[0], argv[1]);
}

static void do_fill(struct client *c, char **argv)
{
    size_t n = strtoul(argv[1], NULL, 10);
    char *value = n < REQUEST_BYTES_MAX ? malloc(n + 1) : NULL;
    if (value == NULL) die("out of memory");
    memset(value, 'f', n);
    value[n] = '\0';
    put(c, argv[0], value);
    free(value);
}

static void do_del(struct client *c, char **argv)
{
    Etcdserverpb__DeleteRangeRequest m = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    m.key = binary(argv[0]);
    free_answer(call(c, "/etcdserverpb.KV/DeleteRange", &m.base,
                     &etcdserverpb__delete_range_response__descriptor));
}

static void do_compact(struct client *c, char **argv)
{
    Etcdserverpb__CompactionRequest m = ETCDSERVERPB__COMPACTION_REQUEST__INIT;
    m.revision = strtoll(argv[0], NULL, 10);
    free_answer(call(c, "/etcdserverpb.KV/Compact", &m.base,
                     &etcdserverpb__compaction_response__descriptor));
}

static Etcdserverpb__AlarmResponse *alarm_call(struct client *c,
                                               Etcdserverpb__AlarmRequest__AlarmAction action,
                                               const Etcdserverpb__AlarmMember *of)
{
    Etcdserverpb__AlarmRequest m = ETCDSERVERPB__ALARM_REQUEST__INIT;
    m.action = action;
    m.memberid = of != NULL ? of->memberid : 0;
    m.alarm = of != NULL ? of->alarm : ETCDSERVERPB__ALARM_TYPE__NONE;
    return (Etcdserverpb__AlarmResponse *)call(c, "/etcdserverpb.Maintenance/Alarm", &m.base,
                                               &etcdserverpb__alarm_response__descriptor);
}

static void each_alarm(struct client *c, bool disarm)
{
    Etcdserverpb__AlarmResponse *a =
        alarm_call(c, ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__GET, NULL);
    for (size_t i = 0; i < a->n_alarms; i++) {
        printf("%s\n",
               a->alarms[i]->alarm == ETCDSERVERPB__ALARM_TYPE__NOSPACE ? "NOSPACE" : "OTHER");
        if (disarm)
            free_answer(
                alarm_call(c, ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__DEACTIVATE, a->alarms[i]));
    }
    free_answer(a);
}

static void do_alarms(struct client *c, char **argv)
{
    (void)argv;
    each_alarm(c, false);
}

static void do_disarm(struct client *c, char **argv)
{
    (void)argv;
    each_alarm(c, true);
}

static const struct {
    const char *name;
    int arguments;
    void (*run)(struct client *c, char **argv);
} COMMANDS[] = {{"state", 0, do_state},  {"put", 2, do_put},         {"fill", 2, do_fill},
                {"del", 1, do_del},      {"compact", 1, do_compact}, {"alarms", 0, do_alarms},
                {"disarm", 0, do_disarm}};

int main(int argc, char **argv)
{
    if (argc < 3) die("usage: look ENDPOINT COMMAND [ARGUMENT]...");
    const char *endpoints[1] = {argv[1]};
    struct client *c = NULL;
    struct client_opts o = {
        .endpoints = endpoints, .endpoint_count = 1, .user_agent = "look", .alloc = &os_heap};
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        if (strcmp(COMMANDS[i].name, argv[2]) != 0 || COMMANDS[i].arguments != argc - 3) continue;
        if (client_new(&o, &c, NULL) < 0) die("no such endpoint");
        COMMANDS[i].run(c, argv + 3);
        client_free(c);
        return 0;
    }
    die("no such command");
}
