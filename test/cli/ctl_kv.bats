# etcd-ctl: keys and values, beyond what upstream's transcripts hold.
load helper

setup_file() { start_member "$BATS_FILE_TMPDIR"; }
teardown_file() { stop_member; }

@test "get: a value of a MiB comes back byte for byte" {
    head -c 1000000 /dev/urandom >"$BATS_TEST_TMPDIR/in"
    ctl put big <"$BATS_TEST_TMPDIR/in"
    ctl get big --print-value-only >"$BATS_TEST_TMPDIR/out"
    cmp -n 1000000 "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
    run stat -c %s "$BATS_TEST_TMPDIR/out"
    assert_output 1000001
}

@test "get: an answer larger than any window comes whole, in every format" {
    for i in $(seq 40); do head -c 200000 /dev/zero | ctl put "many/$i" >/dev/null; done
    run bash -c "'$BIN/etcd-ctl' --endpoints=$ENDPOINT get many/ --prefix --print-value-only | wc -c"
    assert_output 8000040
    run bash -c "'$BIN/etcd-ctl' --endpoints=$ENDPOINT get many/ --prefix --stream -w json | python3 -c '
import json, sys
answer = json.load(sys.stdin)
print(answer[\"count\"], len(answer[\"kvs\"]))'"
    assert_output "40 40"
    run bash -c "'$BIN/etcd-ctl' --endpoints=$ENDPOINT get many/ --prefix -w protobuf | wc -c"
    [ "$output" -gt 8000000 ]
}

@test "get: printing to a full device is an error" {
    ctl put k v
    run bash -c "'$BIN/etcd-ctl' --endpoints=$ENDPOINT get k >/dev/full"
    assert_failure 1
    assert_output "Error: cannot write the output: no space left on device"
}

@test "get: a reader that goes away ends it by SIGPIPE" {
    run bash -c "set -o pipefail; for i in \$(seq 20); do head -c 100000 /dev/zero | '$BIN/etcd-ctl' --endpoints=$ENDPOINT put p/\$i; done >/dev/null; '$BIN/etcd-ctl' --endpoints=$ENDPOINT get p/ --prefix | head -c 1 >/dev/null"
    assert_equal "$status" 141
}

@test "put: a request above --max-request-bytes is not sent" {
    run ctl --max-request-bytes=10 put key 0123456789
    assert_failure 1
    assert_output --partial "trying to send message larger than max ("
}

@test "del: a range waits for two seconds, and an interrupt saves it" {
    ctl put r1 v
    "$BIN/etcd-ctl" --endpoints="$ENDPOINT" del r0 r9 2>"$BATS_TEST_TMPDIR/err" 3>&- &
    local pid=$!
    for i in $(seq 100); do [ -s "$BATS_TEST_TMPDIR/err" ] && break; sleep 0.01; done
    kill "$pid"
    wait "$pid" || true
    run cat "$BATS_TEST_TMPDIR/err"
    assert_output 'Warning: Keys between "r0" and "r9" will be deleted. Please interrupt the command within next 2 seconds to cancel. You can provide `--range` flag to avoid the delay.'
    run ctl get r1 --print-value-only
    assert_output v
}

@test "txn: lease compares work, unlike upstream" {
    ctl put leased v
    run ctl txn < <(printf 'lease("leased") = "0"\n\nput leased w\n\n\n')
    assert_success
    assert_line --index 0 SUCCESS
    run ctl txn < <(printf 'lease("leased") > "ff"\n\n\nput leased x\n\n')
    assert_line --index 0 FAILURE
}

@test "txn: an unknown operator is named" {
    run ctl txn < <(printf 'mod("k") >= "0"\n\n\n\n')
    assert_failure 3
    assert_output 'Error: malformed comparison: mod("k") >= "0" (unknown operator >=)'
}

@test "txn: nothing happens when a line is wrong" {
    run ctl txn < <(printf '\nput never 1\nput "bad \\q" 1\n\n\n')
    assert_failure 3
    run ctl get never
    assert_output ""
}

@test "txn: --command-timeout counts when it is given" {
    run "$BIN/etcd-ctl" --endpoints=127.0.0.1:1 --command-timeout=100ms txn < <(printf '\n\n\n')
    assert_failure 1
    assert_output "Error: context deadline exceeded"
}

@test "--command-timeout=0 fails at once" {
    run ctl --command-timeout=0 get a
    assert_failure 1
    assert_output "Error: context deadline exceeded"
}
