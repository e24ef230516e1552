/* The generated descriptors against the tables of all messages, enums and services, row by row.
 *
 * Descriptors are found by walking from the services and a few roots, so that one that no table names would be seen
 * as well. What protobuf-c keeps no trace of (streams, extensions) is looked up in the .proto text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "authpb.pb-c.h"
#include "etcdserverpb.pb-c.h"
#include "etcdserverpb_v2.pb-c.h"
#include "grpc_health_v1.pb-c.h"
#include "leasepb.pb-c.h"
#include "membershippb.pb-c.h"
#include "mvccpb.pb-c.h"
#include "raftpb.pb-c.h"
#include "shared.h"
#include "snappb.pb-c.h"
#include "v3electionpb.pb-c.h"
#include "v3lockpb.pb-c.h"
#include "walpb.pb-c.h"

enum { KNOWN_MAX = 512, COLUMNS_MAX = 12, NAME_MAX_BYTES = 256 };

static const ProtobufCServiceDescriptor *const services[] = {
    &etcdserverpb__kv__descriptor,
    &etcdserverpb__watch__descriptor,
    &etcdserverpb__lease__descriptor,
    &etcdserverpb__cluster__descriptor,
    &etcdserverpb__maintenance__descriptor,
    &etcdserverpb__auth__descriptor,
    &v3lockpb__lock__descriptor,
    &v3electionpb__election__descriptor,
    &grpc__health__v1__health__descriptor,
};

static const ProtobufCMessageDescriptor *const roots[] = {
    &etcdserverpb__internal_raft_request__descriptor,
    &etcdserverpb__empty_response__descriptor,
    &etcdserverpb__lease_checkpoint_response__descriptor,
    &etcdserverpb__metadata__descriptor,
    &mvccpb__event__descriptor,
    &authpb__user__descriptor,
    &authpb__role__descriptor,
    &membershippb__member__descriptor,
    &leasepb__lease__descriptor,
    &leasepb__lease_internal_request__descriptor,
    &leasepb__lease_internal_response__descriptor,
    &raftpb__message__descriptor,
    &raftpb__hard_state__descriptor,
    &raftpb__conf_change__descriptor,
    &raftpb__conf_change_v2__descriptor,
    &walpb__record__descriptor,
    &walpb__snapshot__descriptor,
    &snappb__snapshot__descriptor,
};

struct known {
    const ProtobufCMessageDescriptor *messages[KNOWN_MAX];
    size_t message_count;
    const ProtobufCEnumDescriptor *enums[KNOWN_MAX];
    size_t enum_count;
};

static struct known known;

/* ---- finding all descriptors ------------------------------------------------------------------------ */

static void add_message(const ProtobufCMessageDescriptor *d)
{
    for (size_t i = 0; i < known.message_count; i++) {
        if (known.messages[i] == d) return;
    }
    assert_true(known.message_count < KNOWN_MAX);
    known.messages[known.message_count++] = d;
}

static void add_enum(const ProtobufCEnumDescriptor *d)
{
    for (size_t i = 0; i < known.enum_count; i++) {
        if (known.enums[i] == d) return;
    }
    assert_true(known.enum_count < KNOWN_MAX);
    known.enums[known.enum_count++] = d;
}

static int find_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        add_message(roots[i]);
    }
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        for (unsigned j = 0; j < services[i]->n_methods; j++) {
            add_message(services[i]->methods[j].input);
            add_message(services[i]->methods[j].output);
        }
    }
    /* The list grows while it is walked. */
    for (size_t i = 0; i < known.message_count; i++) {
        for (unsigned j = 0; j < known.messages[i]->n_fields; j++) {
            const ProtobufCFieldDescriptor *f = &known.messages[i]->fields[j];
            if (f->type == PROTOBUF_C_TYPE_MESSAGE) add_message(f->descriptor);
            if (f->type == PROTOBUF_C_TYPE_ENUM) add_enum(f->descriptor);
        }
    }
    return 0;
}

static const ProtobufCMessageDescriptor *message_of(const char *package, const char *name)
{
    char full[NAME_MAX_BYTES];
    snprintf(full, sizeof full, "%s.%s", package, name);
    for (size_t i = 0; i < known.message_count; i++) {
        if (strcmp(known.messages[i]->name, full) == 0) return known.messages[i];
    }
    fail_msg("no message %s", full);
    return NULL;
}

/* ---- tables ----------------------------------------------------------------------------------------- */

struct row {
    char *column[COLUMNS_MAX];
};

typedef void (*row_fn)(const struct row *row);

static void split(char *line, struct row *row)
{
    static char nothing[1];
    for (size_t i = 0; i < COLUMNS_MAX; i++) {
        row->column[i] = line == NULL ? nothing : strsep(&line, "\t");
    }
}

/* Calls `fn` for each row but remarks and the heading; returns how many there were. */
static size_t each_row(const char *path, row_fn fn)
{
    size_t len = 0;
    size_t count = 0;
    char *text = shared_read(path, &len);
    assert_non_null(text);
    char *rest = text;
    while (rest != NULL && *rest != 0) {
        char *line = strsep(&rest, "\n");
        if (line[0] == '#' || strncmp(line, "package\t", 8) == 0) continue;
        struct row row;
        split(line, &row);
        fn(&row);
        count++;
    }
    free(text);
    return count;
}

/* ---- messages --------------------------------------------------------------------------------------- */

static const char *const scalar_names[] = {
    [PROTOBUF_C_TYPE_INT32] = "int32",   [PROTOBUF_C_TYPE_INT64] = "int64",
    [PROTOBUF_C_TYPE_UINT32] = "uint32", [PROTOBUF_C_TYPE_UINT64] = "uint64",
    [PROTOBUF_C_TYPE_BOOL] = "bool",     [PROTOBUF_C_TYPE_STRING] = "string",
    [PROTOBUF_C_TYPE_BYTES] = "bytes",
};

/* The type of a field as the tables write it. */
static void type_text(const ProtobufCFieldDescriptor *f, const char *label,
                      char out[NAME_MAX_BYTES])
{
    if (strcmp(label, "map") == 0) {
        const ProtobufCMessageDescriptor *entry = f->descriptor;
        assert_int_equal(2, entry->n_fields);
        assert_int_equal(PROTOBUF_C_TYPE_STRING, entry->fields[0].type);
        const ProtobufCMessageDescriptor *value = entry->fields[1].descriptor;
        snprintf(out, NAME_MAX_BYTES, "map<string, %s>", value->name);
    } else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        const ProtobufCMessageDescriptor *d = f->descriptor;
        snprintf(out, NAME_MAX_BYTES, "%s", d->name);
    } else if (f->type == PROTOBUF_C_TYPE_ENUM) {
        const ProtobufCEnumDescriptor *d = f->descriptor;
        snprintf(out, NAME_MAX_BYTES, "enum %s", d->name);
    } else {
        snprintf(out, NAME_MAX_BYTES, "%s", scalar_names[f->type]);
    }
}

static void check_label(const ProtobufCFieldDescriptor *f, const char *label, const char *notes)
{
    bool proto2 = strncmp(notes, "proto2", 6) == 0;
    bool oneof = strncmp(label, "oneof ", 6) == 0;
    bool many = strcmp(label, "repeated") == 0 || strcmp(label, "map") == 0;
    if (!oneof && !many) assert_string_equal("singular", label);
    ProtobufCLabel want = proto2 ? PROTOBUF_C_LABEL_OPTIONAL : PROTOBUF_C_LABEL_NONE;
    assert_int_equal(many ? PROTOBUF_C_LABEL_REPEATED : want, f->label);
    assert_int_equal(oneof, (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0);
    assert_int_equal(strstr(notes, "packed") != NULL,
                     (f->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0);
}

static void check_extension(const struct row *row)
{
    char want[NAME_MAX_BYTES];
    size_t len = 0;
    char *text = shared_read("proto/versionpb.proto", &len);
    assert_non_null(text);
    const char *kind = strchr(row->column[1], ' ') + 1;
    snprintf(want, sizeof want, "extend google.protobuf.%.*s {\n  optional %s %s = %s;\n",
             (int)strcspn(kind, ")"), kind, row->column[4], row->column[2], row->column[3]);
    if (strstr(text, want) == NULL) fail_msg("not in versionpb.proto: %s", want);
    free(text);
}

static size_t field_rows;
static const ProtobufCMessageDescriptor *described[KNOWN_MAX];
static size_t described_count;

static void note_described(const ProtobufCMessageDescriptor *d)
{
    for (size_t i = 0; i < described_count; i++) {
        if (described[i] == d) return;
    }
    described[described_count++] = d;
}

/* package message field number type label notes since */
static void check_message_row(const struct row *row)
{
    char *const *c = row->column;
    if (strcmp(c[0], "versionpb") == 0) {
        check_extension(row);
        return;
    }
    const ProtobufCMessageDescriptor *d = message_of(c[0], c[1]);
    note_described(d);
    if (strcmp(c[2], "-") == 0) {
        assert_int_equal(0, d->n_fields);
        return;
    }
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(d, c[2]);
    if (f == NULL) fail_msg("no field %s.%s", d->name, c[2]);
    char type[NAME_MAX_BYTES];
    type_text(f, c[5], type);
    assert_string_equal(c[4], type);
    assert_int_equal(strtoul(c[3], NULL, 10), f->id);
    check_label(f, c[5], c[6]);
    field_rows++;
}

static void test_messages_are_those_of_the_table(void **state)
{
    (void)state;
    char path[SHARED_PATH_BYTES_MAX];
    SHARED_OR_SKIP("spec/messages.tsv", path);
    field_rows = 0;
    described_count = 0;
    size_t rows = each_row(path, check_message_row);
    assert_true(rows > 300);
    /* No more messages and fields than the table has; a map makes one of its own, with two fields. */
    size_t fields = 0;
    for (size_t i = 0; i < known.message_count; i++) {
        fields += known.messages[i]->n_fields;
    }
    assert_int_equal(described_count + 1, known.message_count);
    assert_int_equal(field_rows + 2, fields);
    print_message("compared %zu rows, %zu messages, %zu fields\n", rows, described_count,
                  field_rows);
}

/* ---- enums ------------------------------------------------------------------------------------------ */

/* package enum value number notes since */
static void check_enum_row(const struct row *row)
{
    char *const *c = row->column;
    char full[NAME_MAX_BYTES];
    snprintf(full, sizeof full, "%s.%s", c[0], c[1]);
    for (size_t i = 0; i < known.enum_count; i++) {
        if (strcmp(known.enums[i]->name, full) != 0) continue;
        const ProtobufCEnumValue *v =
            protobuf_c_enum_descriptor_get_value_by_name(known.enums[i], c[2]);
        if (v == NULL) fail_msg("no value %s in %s", c[2], full);
        assert_int_equal(strtol(c[3], NULL, 10), v->value);
        return;
    }
    fail_msg("no enum %s", full);
}

static void test_enums_are_those_of_the_table(void **state)
{
    (void)state;
    char path[SHARED_PATH_BYTES_MAX];
    SHARED_OR_SKIP("spec/enums.tsv", path);
    size_t rows = each_row(path, check_enum_row);
    size_t values = 0;
    for (size_t i = 0; i < known.enum_count; i++) {
        values += known.enums[i]->n_values;
    }
    assert_true(rows > 50);
    assert_int_equal(rows, values);
    print_message("compared %zu rows, %zu enums\n", rows, known.enum_count);
}

/* ---- services --------------------------------------------------------------------------------------- */

static const ProtobufCServiceDescriptor *service_of(const char *package, const char *name)
{
    char full[NAME_MAX_BYTES];
    snprintf(full, sizeof full, "%s.%s", package, name);
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        if (strcmp(services[i]->name, full) == 0) return services[i];
    }
    fail_msg("no service %s", full);
    return NULL;
}

/* Which sides of an rpc stream, by the words of the .proto file. */
static void check_kind(const char *package, const char *rpc, const char *kind)
{
    char path[NAME_MAX_BYTES];
    char head[NAME_MAX_BYTES];
    snprintf(path, sizeof path, "proto/%s.proto",
             strcmp(package, "grpc.health.v1") == 0 ? "grpc_health_v1" : package);
    snprintf(head, sizeof head, "  rpc %s(", rpc);
    size_t len = 0;
    char *text = shared_read(path, &len);
    assert_non_null(text);
    char *line = strstr(text, head);
    if (line == NULL) fail_msg("no rpc %s in %s", rpc, path);
    line[strcspn(line, "\n")] = 0;
    bool in = strstr(line, "(stream ") == line + strlen(head) - 1;
    bool out = strstr(line, "returns (stream ") != NULL;
    const char *seen = in && out ? "bidi" : out ? "server-stream" : in ? "client-stream" : "unary";
    assert_string_equal(kind, seen);
    free(text);
}

/* package service rpc grpc_path request response kind gateway body notes */
static void check_service_row(const struct row *row)
{
    char *const *c = row->column;
    const ProtobufCServiceDescriptor *s = service_of(c[0], c[1]);
    const ProtobufCMethodDescriptor *m = protobuf_c_service_descriptor_get_method_by_name(s, c[2]);
    if (m == NULL) fail_msg("no rpc %s in %s", c[2], s->name);
    char path[2 * NAME_MAX_BYTES];
    snprintf(path, sizeof path, "/%s/%s", s->name, m->name);
    assert_string_equal(c[3], path);
    assert_string_equal(c[4], m->input->name);
    assert_string_equal(c[5], m->output->name);
    check_kind(c[0], c[2], c[6]);
}

static void test_services_are_those_of_the_table(void **state)
{
    (void)state;
    char path[SHARED_PATH_BYTES_MAX];
    SHARED_OR_SKIP("spec/services.tsv", path);
    size_t rows = each_row(path, check_service_row);
    size_t methods = 0;
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        methods += services[i]->n_methods;
    }
    assert_true(rows > 40);
    assert_int_equal(rows, methods);
    print_message("compared %zu rows\n", rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_are_those_of_the_table),
        cmocka_unit_test(test_enums_are_those_of_the_table),
        cmocka_unit_test(test_services_are_those_of_the_table),
    };
    return cmocka_run_group_tests_name("pb: tables", tests, find_all, NULL);
}
