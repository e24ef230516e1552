# etcd in C; sources and tests are found by folder.
#
## make run        install what a build needs, build, start a member in ./default.etcd
## make            build the programs: build/FLAVOUR/bin (FLAVOUR: gcc, clang, gcc-thread, ...)
## make deps       install the Debian packages that building and testing need
## make quick      lint and the unit tests of what changed: before every commit
## make check      every test, one total line at the end: before every landing
## make lint       what of the style a program can check
## make unit       all unit tests; M=wal: those of one module
## make cli | scenario | raft | sim | fault | interop | house | fuzz S=60
##                 one suite each; fuzz runs its targets for S seconds in all
## make bench      measure; ETCD_PEER=/path/to/etcd compares with another etcd
## make docs       man pages and completion scripts: build/FLAVOUR/share
## make install    programs, links, man pages, completion, systemd unit; STRIP=1 without symbols
## make uninstall  remove what install put there
## make tidy M=wal clang-tidy over a module
## make format     lay out all C by .clang-format
## make clean      remove build/
##
## Variables: PREFIX=/usr/local DESTDIR= CC=gcc|clang CFLAGS= LDFLAGS= CI=true (warnings are errors)
##            SANITIZE=address,undefined | thread   FAILPOINTS=1   each builds into a folder of its own

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
# Not with a sanitizer: what it adds to the code makes gcc warn of things that are not so, as its manual says.
WERROR ?= $(if $(CI),$(if $(SANITIZE),,-Werror))
HARDEN := -fPIE -fstack-protector-strong
LDHARDEN := -pie -Wl,-z,relro -Wl,-z,now -Wl,--as-needed
ifneq ($(SANITIZE),)
WARN += $(if $(findstring clang,$(CC)),,-Wno-format-truncation -Wno-maybe-uninitialized)
endif
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

# Generated headers count as the system's, which -MMD leaves out; all depends on them.
$(B)/%.o: %.c $(GEN_H)
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) $(if $(filter libcore/%,$<),-include libcore/base/banned.h) -MMD -MP -c -o $@ $<

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

# ---- documents and completion: from the tables of flags and commands ----------------------------
# The server's rows come from a generator, those of the client from the client itself.
SHARE := $(B)/share
ROWS  := $(B)/doc/gen/rows
fill   = sed -e '/^@flags@$$/{r $(1)' -e 'd}' $(2) >$@
SHELLS := bash zsh fish
PAGES := $(SHARE)/man/man8/etcd-server.8 $(if $(filter etcd-ctl,$(PROGRAMS)),$(SHARE)/man/man1/etcd-ctl.1)
CTL_NAMES := $(if $(filter etcd-ctl,$(PROGRAMS)),etcd-ctl etcdctl)
COMPLETIONS := $(SHELLS:%=$(SHARE)/%/etcd-server) $(foreach s,$(SHELLS),$(CTL_NAMES:%=$(SHARE)/$(s)/%))
# The date in a page is that of the last commit, so that equal sources make equal pages.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

.PHONY: docs
docs: $(PAGES) $(COMPLETIONS) $(SHARE)/etcd.service

$(B)/doc/gen/etcd-server: $(B)/doc/gen/etcd-server.o $(B)/libcore.a
	@$(CC) $(LDFLAGS_ALL) -o $@ $^ $(PKG_LIBS)
$(ROWS).%: $(B)/doc/gen/etcd-server
	@$< $* >$@
$(SHARE)/etcd-server.8.scd: doc/man/etcd-server.8.scd.in $(ROWS).man
	@mkdir -p $(@D)
	@$(call fill,$(ROWS).man,$<)
$(SHARE)/etcd-ctl.1.scd: doc/man/etcd-ctl.1.scd.in $(B)/bin/etcd-ctl
	@mkdir -p $(@D)
	@$(B)/bin/etcd-ctl __manual >$@.rows
	@sed -e '/^@manual@$$/{r $@.rows' -e 'd}' $< >$@
define page_rule
$(SHARE)/man/man$(2)/$(1).$(2): $(SHARE)/$(1).$(2).scd
	@mkdir -p $$(@D)
	@command -v scdoc >/dev/null || { echo "scdoc is not installed: make deps" >&2; exit 1; }
	@scdoc <$$< >$$@
endef
$(eval $(call page_rule,etcd-server,8))
$(eval $(call page_rule,etcd-ctl,1))
define completion_rule
$(SHARE)/$(1)/etcd-server: completion/etcd-server.$(1).in $(ROWS).$(1)
	@mkdir -p $$(@D)
	@$$(call fill,$(ROWS).$(1),$$<)
$(SHARE)/$(1)/etcd-ctl $(SHARE)/$(1)/etcdctl: $(B)/bin/etcd-ctl
	@mkdir -p $$(@D)
	@(exec -a $$(@F) $(B)/bin/etcd-ctl completion $(1)) >$$@
endef
$(foreach s,$(SHELLS),$(eval $(call completion_rule,$(s))))
# Made anew each time: PREFIX may have changed.
.PHONY: FORCE
$(SHARE)/etcd.service: doc/systemd/etcd.service.in FORCE
	@mkdir -p $(@D)
	@sed 's,@BINDIR@,$(PREFIX)/bin,' $< >$@

# ---- installing ---------------------------------------------------------------------------------
# SOURCE:TARGET:MODE below PREFIX, and NAME:LINK; uninstalling removes exactly these.
STRIP ?=
UNIT_FOLDER := lib/systemd/system
INSTALL_FILES := $(foreach p,$(PROGRAMS),$(B)/bin/$(p):bin/$(p):755) \
    $(foreach p,$(PAGES),$(p):$(p:$(B)/%=%):644) \
    $(foreach n,etcd-server $(CTL_NAMES),$(SHARE)/bash/$(n):share/bash-completion/completions/$(n):644 \
        $(SHARE)/zsh/$(n):share/zsh/site-functions/_$(n):644 \
        $(SHARE)/fish/$(n):share/fish/vendor_completions.d/$(n).fish:644) \
    $(SHARE)/etcd.service:$(UNIT_FOLDER)/etcd.service:644
INSTALL_LINKS := etcd-server:bin/etcd etcd-server.8:share/man/man8/etcd.8 \
    etcd-server:share/bash-completion/completions/etcd etcd-server.fish:share/fish/vendor_completions.d/etcd.fish \
    $(if $(filter etcd-ctl,$(PROGRAMS)),etcd-ctl:bin/etcdctl etcd-ctl.1:share/man/man1/etcdctl.1) \
    $(if $(filter etcd-utl,$(PROGRAMS)),etcd-utl:bin/etcdutl)
part = $(word $(1),$(subst :, ,$(2)))

.PHONY: install uninstall
install: all docs
	@$(foreach f,$(INSTALL_FILES),install -D -m $(call part,3,$(f)) $(if $(STRIP),$(if $(filter %:755,$(f)),-s)) \
	    $(call part,1,$(f)) $(DESTDIR)$(PREFIX)/$(call part,2,$(f)) &&) true
	@$(foreach l,$(INSTALL_LINKS),ln -sf $(call part,1,$(l)) $(DESTDIR)$(PREFIX)/$(call part,2,$(l)) &&) true
	@echo "installed under $(DESTDIR)$(PREFIX)"
uninstall:
	@rm -f $(foreach f,$(INSTALL_FILES) $(INSTALL_LINKS),$(DESTDIR)$(PREFIX)/$(call part,2,$(f)))

# ---- packages -----------------------------------------------------------------------------------
# What a build needs, and what the tests need on top; `make deps` installs both, `make run` the first.
BUILD_PACKAGES := gcc libc6-dev pkg-config protobuf-c-compiler libprotobuf-c-dev liblmdb-dev libsodium-dev \
    libnghttp2-dev libssl-dev libuv1-dev libhttp-parser-dev libjson-c-dev libyaml-dev libcrypt-dev zlib1g-dev scdoc
TEST_PACKAGES := libcmocka-dev bats bats-support bats-assert bats-file clang clang-format llvm libclang-rt-14-dev \
    python3 python3-venv protobuf-compiler etcd-client $(if $(shell command -v go),,golang-go) xz-utils procps binutils curl ca-certificates man-db \
    zsh fish systemd strace

.PHONY: deps deps-build deps-test
deps: deps-build deps-test
deps-build:
	@.ci/packages $(BUILD_PACKAGES)
deps-test:
	@.ci/packages $(TEST_PACKAGES)

# ---- use ----------------------------------------------------------------------------------------
.PHONY: run
run: deps-build
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@.ci/member $(B)/bin

# ---- tests --------------------------------------------------------------------------------------
# `make unit` runs all, `make unit M=wal` those of one module. Every suite speaks TAP; test/run.py adds up.
unit_bins = $(if $(M),$(filter $(B)/test/unit/$(M)/%,$(UNITS)),$(UNITS))
.PHONY: unit units
units: $(unit_bins)
unit: units
	@test/run.py $(foreach t,$(unit_bins),unit=$(t))

# Tests that start threads, and the client's, run under ThreadSanitizer too.
THREADED := $(shell grep -lE 'pthread.h|os/thread.h|os/actor.h' $(UNIT_C) /dev/null) $(wildcard test/unit/client/test_*.c)
TSAN_UNITS = $(THREADED:%.c=build/$(notdir $(CC))-thread/%)
ASAN_B = build/$(notdir $(CC))-address-undefined
ASAN_UNITS = $(UNIT_C:%.c=build/$(notdir $(CC))-address-undefined/%)

.PHONY: lint
lint: all $(MODULES:%=$(B)/lib/%.a)
	@test/run.py lint="test/lint/lint.py --objects $(B)" lint="test/lint/test_lint.py"

# Suites by folder: test/NAME/run prints TAP; it finds the programs in $$BIN.
# Those that `make check` does not run, or runs otherwise, are fuzz and bench.
SUITES := $(filter-out fuzz bench,$(patsubst test/%/run,%,$(wildcard test/*/run)))
suite_command = BIN=$(CURDIR)/$(B)/bin BUILD=$(CURDIR)/$(B) test/$(1)/run
define suite_rule
.PHONY: $(1)
$(1): all test-programs
	@test/run.py $(1)="$(call suite_command,$(1))"
endef
$(foreach s,$(SUITES),$(eval $(call suite_rule,$(s))))
# On its own every cut and a hundred crashes; in `make check` a part of them.
fault: export FAULT = long
EMPTY_SUITES := $(filter-out $(SUITES),scenario cli sim fault interop house)
.PHONY: $(EMPTY_SUITES) bench
$(EMPTY_SUITES):
	@echo "test/$@ has no cases yet"
bench: all test-programs
	@BIN=$(CURDIR)/$(B)/bin BUILD=$(CURDIR)/$(B) test/bench/run

# Helpers in C of the suites: one program a file, linked with the whole library.
TEST_PROGRAM_C := $(sort $(wildcard test/bench/*.c test/fault/*.c test/sim/*.c test/scenario/*.c))
TEST_SHIM_C    := $(filter test/fault/iotrace.c,$(TEST_PROGRAM_C))
TEST_PROGRAMS  := $(filter-out $(TEST_SHIM_C:%.c=$(B)/%),$(TEST_PROGRAM_C:%.c=$(B)/%)) $(TEST_SHIM_C:%.c=$(B)/%.so)
.PHONY: test-programs
test-programs: $(TEST_PROGRAMS)
$(TEST_PROGRAM_C:%.c=$(B)/%.o): CFLAGS_ALL += -Itest/lib
RAFT_PROGRAMS := $(patsubst %.c,$(B)/%,$(wildcard test/scenario/raft_*.c))
$(filter-out %.so $(RAFT_PROGRAMS),$(TEST_PROGRAMS)): $(B)/%: $(B)/%.o $(TESTLIB_O) $(B)/libcore.a
	@$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(B)/libcore.a $(PKG_LIBS) $(TEST_LIBS)
# What the programs of test/bench share.
BENCHLIB_O := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard test/bench/lib/*.c)))
$(BENCHLIB_O) $(patsubst %.c,$(B)/%.o,$(wildcard test/bench/*.c)): CFLAGS_ALL += -Itest/bench
$(patsubst %.c,$(B)/%,$(wildcard test/bench/*.c)): $(BENCHLIB_O)
# The programs raft_*.c of test/scenario share a folder, and need no more of the library than raft does.
RAFTLIB_O := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard test/scenario/raft/*.c)))
$(RAFTLIB_O) $(RAFT_PROGRAMS:%=%.o): CFLAGS_ALL += -Itest/lib -Itest/scenario/raft
$(RAFT_PROGRAMS): $(B)/%: $(B)/%.o $(TESTLIB_O) $(RAFTLIB_O) $(foreach m,$(call closure,raft),$(B)/lib/$(m).a)
	@$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(PKG_LIBS) $(TEST_LIBS)
$(B)/test/fault/%.so: test/fault/%.c
	@mkdir -p $(@D)
	@$(CC) -std=c17 $(OPT) $(WARN) $(WERROR) $(DEFS) -fPIC -shared -o $@ $< -ldl -pthread

# ---- fuzzing ------------------------------------------------------------------------------------
# `make fuzz S=600` runs each target for S seconds in all; the corpora are replayed by `make check`.
S ?= 60
FUZZ_C := $(sort $(wildcard test/fuzz/fuzz_*.c))
FB := build/fuzz
FUZZERS := $(FUZZ_C:test/fuzz/%.c=$(FB)/%)
FUZZ_FLAGS := -std=c17 -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined $(DEFS) \
    -DFUZZING=1 -Ilibcore -Itest/lib -isystem $(GEN) $(PKG_CFLAGS)
FUZZ_O := $(LIB_C:%.c=$(FB)/%.o) $(GEN_C:$(GEN)/%.c=$(FB)/gen/%.o) $(TESTLIB_C:%.c=$(FB)/%.o)
$(FB)/%.o: %.c $(GEN_H)
	@mkdir -p $(@D)
	@clang $(FUZZ_FLAGS) -w -MMD -MP -c -o $@ $<
$(FB)/gen/%.o: $(GEN)/%.c $(GEN_H)
	@mkdir -p $(@D)
	@clang $(FUZZ_FLAGS) -w -c -o $@ $<
$(FB)/libcore.a: $(FUZZ_O)
	@rm -f $@; ar rcs $@ $^
$(FB)/fuzz_%: test/fuzz/fuzz_%.c $(FB)/libcore.a
	@clang $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined -w -o $@ $< $(FB)/libcore.a $(PKG_LIBS) $(TEST_LIBS) -pthread
# The same with its planted bug, to prove that it would be found.
$(FB)/planted_%: test/fuzz/fuzz_%.c $(FB)/libcore.a
	@clang $(FUZZ_FLAGS) -DPLANT_OVERFLOW -fsanitize=fuzzer,address,undefined -w -o $@ $< $(FB)/libcore.a $(PKG_LIBS) $(TEST_LIBS) -pthread
.PHONY: fuzzers fuzz
fuzzers: $(FUZZERS)
fuzz: fuzzers $(FUZZERS:$(FB)/fuzz_%=$(FB)/planted_%)
	@S=$(S) BIN=$(FB) test/fuzz/run long

# ---- everything ---------------------------------------------------------------------------------
# Two jobs unless told otherwise: the machine that lands changes has two cores.
JOBS ?= 2
FLOORS := $(if $(CI),--floors test/floors)
ASAN_SERVER := build/$(notdir $(CC))-address-undefined/bin/etcd-server
TSAN_SERVER := build/$(notdir $(CC))-thread/bin/etcd-server
.PHONY: check check-build
check-build:
	@$(MAKE) --no-print-directory -j$(JOBS) all units test-programs
	@$(MAKE) --no-print-directory -j$(JOBS) units $(ASAN_SERVER) $(ASAN_B)/test/sim/sim $(ASAN_B)/test/scenario/raft_data SANITIZE=address,undefined
	@$(MAKE) --no-print-directory -j$(JOBS) $(TSAN_UNITS) $(TSAN_SERVER) SANITIZE=thread
	@$(MAKE) --no-print-directory -j$(JOBS) all CC=clang
	@$(MAKE) --no-print-directory -j$(JOBS) fuzzers
# The long suites begin first, so that two at a time end together.
LONG := $(filter fault cli scenario interop,$(SUITES))
check: deps
	@$(MAKE) --no-print-directory check-build
	@test/run.py $(FLOORS) --jobs $(JOBS) \
	    $(foreach s,$(LONG) $(filter-out $(LONG),$(SUITES)),$(s)="$(call suite_command,$(s))") \
	    lint="test/lint/lint.py --objects $(B)" lint="test/lint/test_lint.py" \
	    sim-asan="BUILD=$(CURDIR)/$(ASAN_B) SEEDS=40 test/sim/run" raft-asan="BUILD=$(CURDIR)/$(ASAN_B) SCRIPTS=40 test/raft/run" \
	    $(foreach t,$(ASAN_UNITS),unit-asan=$(t)) $(foreach t,$(TSAN_UNITS),unit-tsan=$(t)) \
	    $(foreach t,$(UNITS),unit=$(t)) fuzz="BIN=$(FB) test/fuzz/run replay"

# For every commit: lint, and the unit tests of modules that differ from the last commit.
CHANGED := $(shell git diff --name-only HEAD -- libcore test/unit 2>/dev/null; git ls-files -o --exclude-standard libcore test/unit 2>/dev/null)
QUICK_MODULES := $(sort $(foreach f,$(CHANGED),$(word 2,$(subst /, ,$(f:test/unit/%=libcore/%)))))
QUICK_UNITS = $(foreach m,$(QUICK_MODULES),$(filter $(B)/test/unit/$(m)/%,$(UNITS)))
.PHONY: quick
quick:
	@$(MAKE) --no-print-directory -j$(JOBS) all $(MODULES:%=$(B)/lib/%.a) $(QUICK_UNITS)
	@test/run.py lint="test/lint/lint.py --objects $(B)" $(foreach t,$(QUICK_UNITS),unit=$(t))

# A look now and then, at one module or at all: clang-tidy finds what the compilers do not.
.PHONY: tidy
tidy: $(GEN_H)
	@.ci/packages clang-tidy
	@clang-tidy --quiet $(filter libcore/$(if $(M),$(M)/)%,$(LIB_C)) -- -std=c17 $(DEFS) -Ilibcore -isystem $(GEN) $(PKG_CFLAGS)

.PHONY: help clean format
help:
	@sed -n 's/^## \{0,1\}//p' Makefile
clean:
	rm -rf build
format:
	clang-format -i $$(git ls-files -co --exclude-standard '*.c' '*.h')

-include $(shell find $(B) $(FB) -name '*.d' 2>/dev/null)
