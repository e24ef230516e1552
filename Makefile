# etcd in C. `make help` lists the targets; sources and tests are found by folder.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
SHELL := /bin/bash

PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif

# ---- flavour: one folder of objects for each kind of build ------------------------------------
comma := ,
FLAVOUR := $(notdir $(CC))
ifneq ($(SANITIZE),)
FLAVOUR := $(FLAVOUR)-$(subst $(comma),-,$(SANITIZE))
endif
ifneq ($(FAILPOINTS),)
FLAVOUR := $(FLAVOUR)-failpoints
endif
B   := build/$(FLAVOUR)
GEN := build/gen

# ---- flags --------------------------------------------------------------------------------------
PKGS := libprotobuf-c lmdb libsodium libnghttp2 libssl libcrypto libuv json-c yaml-0.1 libcrypt zlib
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lhttp_parser
TEST_LIBS  := $(shell pkg-config --libs cmocka 2>/dev/null)

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
        -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough -Wswitch-enum \
        -Wno-unused-parameter
WERROR ?= $(if $(CI),-Werror,)
HARDEN := -fPIE -fstack-protector-strong
LDHARDEN := -pie -Wl,-z,relro -Wl,-z,now -Wl,--as-needed
ifeq ($(SANITIZE),)
HARDEN += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
OPT := -O2 -g
else
OPT := -O1 -g -fno-omit-frame-pointer
SAN := -fsanitize=$(SANITIZE) $(if $(findstring undefined,$(SANITIZE)),-fno-sanitize-recover=undefined)
endif
ifneq ($(FAILPOINTS),)
DEFS += -DFAILPOINTS=1
endif
DEFS += -D_GNU_SOURCE
CFLAGS_ALL := -std=c17 $(OPT) $(WARN) $(WERROR) $(HARDEN) $(SAN) $(DEFS) -Ilibcore -isystem $(GEN) $(PKG_CFLAGS) -pthread $(CFLAGS)
GENFLAGS   := -std=c17 $(OPT) -w -DNDEBUG $(HARDEN) $(SAN) $(DEFS) -I$(GEN) $(PKG_CFLAGS) $(CFLAGS)
LDFLAGS_ALL := $(LDHARDEN) $(SAN) -pthread $(LDFLAGS)

# ---- what there is ------------------------------------------------------------------------------
LAYER_LINES := $(shell sed -n 's/^[0-9][[:space:]]*//p' libcore/LAYERS | tr -s ' ' ',')
MODULES := $(shell awk '/^[0-9]/ {print $$2}' libcore/LAYERS)
closure  = $(shell awk -v m=$(1) '/^[0-9]/ {d=""; for(i=5;i<=NF;i++) d=d" "$$i; dep[$$2]=d; order[++n]=$$2} \
           END {need[m]=1; for(k=n;k>0;k--) if(order[k] in need){c=split(dep[order[k]],a," "); for(j=1;j<=c;j++) need[a[j]]=1} \
           for(k=n;k>0;k--) if(order[k] in need) print order[k]}' libcore/LAYERS)

# versionpb holds descriptor options only; protobuf-c makes nothing usable of them.
PROTOS   := $(shell cd proto 2>/dev/null && find . -name '*.proto' ! -name versionpb.proto | sed 's,^\./,,' | sort)
GEN_C    := $(PROTOS:%.proto=$(GEN)/%.pb-c.c)
GEN_H    := $(PROTOS:%.proto=$(GEN)/%.pb-c.h)
GEN_O    := $(PROTOS:%.proto=$(B)/gen/%.pb-c.o)
LIB_C    := $(foreach m,$(MODULES),$(sort $(wildcard libcore/$(m)/*.c)))
PROGRAMS := $(notdir $(patsubst %/main.c,%,$(wildcard cmd/*/main.c)))
BINS     := $(PROGRAMS:%=$(B)/bin/%)
UNIT_C   := $(sort $(wildcard test/unit/*/test_*.c))
UNITS    := $(UNIT_C:%.c=$(B)/%)
TESTLIB_C := $(sort $(wildcard test/lib/*.c))
TESTLIB_O := $(TESTLIB_C:%.c=$(B)/%.o)
mod_objs  = $(patsubst %.c,$(B)/%.o,$(sort $(wildcard libcore/$(1)/*.c))) $(if $(filter pb,$(1)),$(GEN_O))

.PHONY: all
all: $(B)/libcore.a $(BINS)

# ---- rules --------------------------------------------------------------------------------------
$(GEN)/%.pb-c.c $(GEN)/%.pb-c.h: proto/%.proto $(PROTOS:%=proto/%)
	@mkdir -p $(GEN)
	@protoc-c -Iproto --c_out=$(GEN) proto/$*.proto
.PRECIOUS: $(GEN)/%.pb-c.c $(GEN)/%.pb-c.h

$(B)/gen/%.pb-c.o: $(GEN)/%.pb-c.c $(GEN_H)
	@mkdir -p $(@D)
	@$(CC) $(GENFLAGS) -c -o $@ $<

$(B)/%.o: %.c | $(GEN_H)
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) $(if $(filter libcore/%,$<),$(BANNED)) -MMD -MP -c -o $@ $<

define module_rule
$(B)/lib/$(1).a: $(call mod_objs,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@; ar rcs $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call module_rule,$(m))))

$(B)/libcore.a: $(LIB_C:%.c=$(B)/%.o) $(GEN_O)
	@rm -f $@; ar rcs $@ $^

define program_rule
$(B)/bin/$(1): $(patsubst %.c,$(B)/%.o,$(wildcard cmd/$(1)/*.c)) $(B)/libcore.a
	@mkdir -p $$(@D)
	@$(CC) $(LDFLAGS_ALL) -o $$@ $$^ $(PKG_LIBS)
endef
$(foreach p,$(PROGRAMS),$(eval $(call program_rule,$(p))))

# A unit test is linked with its module's own closure of LAYERS, so a forbidden edge fails to link.
define unit_rule
$(B)/test/unit/$(1)/%: $(B)/test/unit/$(1)/%.o $(TESTLIB_O) $(foreach m,$(call closure,$(1)),$(B)/lib/$(m).a)
	@$(CC) $(LDFLAGS_ALL) -o $$@ $$< $(TESTLIB_O) -Wl,--start-group $(foreach m,$(call closure,$(1)),$(B)/lib/$(m).a) -Wl,--end-group $(PKG_LIBS) $(TEST_LIBS)
endef
$(foreach m,$(MODULES),$(if $(wildcard test/unit/$(m)/test_*.c),$(eval $(call unit_rule,$(m)))))
$(UNIT_C:%.c=$(B)/%.o): CFLAGS_ALL += -Itest/lib

# ---- tests --------------------------------------------------------------------------------------
# `make unit` runs all, `make unit M=wal` those of one module.
.PHONY: unit
unit: $(if $(M),$(filter $(B)/test/unit/$(M)/%,$(UNITS)),$(UNITS))
	@rc=0; for t in $^; do echo "# $$t"; $$t || rc=1; done; exit $$rc

.PHONY: clean
clean:
	rm -rf build

.PHONY: format
format:
	clang-format -i $$(git ls-files -co --exclude-standard '*.c' '*.h')

-include $(shell find $(B) -name '*.d' 2>/dev/null)
