/* --feature-gates: NAME=true,NAME=false, the last word on a name counts. */
#include <stdio.h>

#include "base/err.h"
#include "base/text.h"
#include "server/config.h"

enum { GATE_NAME_BYTES_MAX = 64 };

struct gate {
    const char *name;
    bool fixed_off; /* what it switches on is not there yet */
};

/* What is not fixed is switched by it, or has no effect that could be seen. */
static const struct gate GATES[] = {{"AllAlpha", true},
                                    {"AllBeta", false},
                                    {"StopGRPCServiceOnDefrag", true},
                                    {"InitialCorruptCheck", true},
                                    {"CompactHashCheck", true},
                                    {"TxnModeWriteWithSharedBuffer", false},
                                    {"LeaseCheckpoint", false},
                                    {"LeaseCheckpointPersist", false},
                                    {"SetMemberLocalAddr", true},
                                    {"FastLeaseKeepAlive", false},
                                    {"PriorityRequest", false}};

static const struct gate *gate_named(const char *name)
{
    for (size_t i = 0; i < sizeof GATES / sizeof *GATES; i++) {
        if (strcmp(GATES[i].name, name) == 0) return &GATES[i];
    }
    return NULL;
}

/* Takes the next word: 1, or 0 at the end, or E_CONFIG. */
static int next_gate(const char **at, const struct gate **gate, bool *value, struct errmsg *em)
{
    char name[GATE_NAME_BYTES_MAX];
    const char *word = *at;
    size_t len = strcspn(word, ",");
    size_t eq = strcspn(word, "=,");
    if (*word == '\0') return 0;
    if (eq == len) {
        errmsg_set(em, "missing bool value for %.*s", (int)len, word);
        return E_CONFIG;
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)eq, word);
    *gate = gate_named(name);
    if (*gate == NULL) {
        errmsg_set(em, "unrecognized feature gate: %s", name);
        return E_CONFIG;
    }
    struct errmsg why = {""};
    if (text_parse_bool(bytes_of(word + eq + 1, len - eq - 1), value, &why) < 0) {
        errmsg_set(em, "invalid value of %.*s, err: %s", (int)len, word, why.text);
        return E_CONFIG;
    }
    *at = word + len + (word[len] == ',' ? 1 : 0);
    return 1;
}

int config__check_gates(const struct config *c, struct errmsg *em)
{
    const char *at = c->feature_gates;
    const struct gate *gate = NULL;
    bool value = false;
    int rc;
    while ((rc = next_gate(&at, &gate, &value, em)) > 0) {
        if (!value || !gate->fixed_off) continue;
        errmsg_set(em, "feature gate %s: this server cannot do that yet; leave it off", gate->name);
        return E_CONFIG;
    }
    if (rc == 0 && config_gate(c, "LeaseCheckpointPersist") && !config_gate(c, "LeaseCheckpoint")) {
        errmsg_set(em, "enabling feature gate LeaseCheckpointPersist requires enabling feature "
                       "gate LeaseCheckpoint");
        return E_CONFIG;
    }
    return rc;
}

bool config_gate(const struct config *c, const char *name)
{
    const char *at = c->feature_gates;
    const struct gate *gate = NULL;
    bool value = false;
    bool on = false;
    while (next_gate(&at, &gate, &value, NULL) > 0) {
        if (strcmp(gate->name, name) == 0) on = value;
    }
    return on;
}
