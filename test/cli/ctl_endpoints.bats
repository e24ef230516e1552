# etcd-ctl: endpoints, environment, credentials.
load helper

setup_file() { start_member "$BATS_FILE_TMPDIR"; }
teardown_file() { stop_member; }

@test "a unix socket is an endpoint in each of its forms" {
    ctl put u 1
    for form in unix: unix://; do
        run "$BIN/etcd-ctl" --endpoints="$form$BATS_FILE_TMPDIR/member.sock" get u --print-value-only
        assert_output 1
    done
}

@test "host names, schemes and blanks are understood" {
    ctl put h 1
    for form in "http://$ENDPOINT" " $ENDPOINT " "localhost:${ENDPOINT##*:}" "http://$ENDPOINT/"; do
        run "$BIN/etcd-ctl" --endpoints="$form" get h --print-value-only
        assert_output 1
    done
}

@test "dead endpoints are passed over" {
    ctl put d 1
    for i in 1 2 3; do
        run "$BIN/etcd-ctl" --endpoints="127.0.0.1:1,$ENDPOINT,unix:/nowhere" get d --print-value-only
        assert_output 1
    done
}

@test "an endpoint that accepts and says nothing does not hang a command" {
    python3 -c '
import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
print(s.getsockname()[1], flush=True)
time.sleep(20)' >"$BATS_TEST_TMPDIR/port" 3>&- &
    local pid=$!
    for i in $(seq 200); do [ -s "$BATS_TEST_TMPDIR/port" ] && break; sleep 0.01; done
    run "$BIN/etcd-ctl" --endpoints="127.0.0.1:$(cat "$BATS_TEST_TMPDIR/port")" --command-timeout=200ms get a
    kill "$pid"
    assert_failure 1
    assert_output "Error: context deadline exceeded"
}

@test "health: every endpoint is told, dead ones on stderr, in the order given" {
    run --separate-stderr "$BIN/etcd-ctl" --endpoints="127.0.0.1:1,$ENDPOINT" --command-timeout=300ms endpoint health
    assert_failure 1
    assert_output --partial "$ENDPOINT is healthy: successfully committed proposal: took = "
    assert_equal "${stderr_lines[0]}" "127.0.0.1:1 is unhealthy: failed to commit proposal: context deadline exceeded"
    assert_equal "${stderr_lines[1]}" "Error: unhealthy cluster"
}

@test "health: dead endpoints are waited for together" {
    local start=$SECONDS
    run "$BIN/etcd-ctl" --endpoints=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4,127.0.0.1:5 --command-timeout=1s endpoint health
    assert_failure 1
    [ $((SECONDS - start)) -lt 4 ]
}

@test "status: --cluster asks the members, scheme included" {
    run ctl endpoint status --cluster
    assert_success
    assert_output --regexp "^http://$ENDPOINT, [0-9a-f]+, 3\.7\.1, "
}

@test "environment: a flag and its variable together are fatal" {
    ETCDCTL_ENDPOINTS=$ENDPOINT run ctl get a
    assert_failure 1
    assert_output --partial ETCDCTL_ENDPOINTS
    ETCDCTL_HEX= run ctl --hex get a
    assert_failure 1
}

@test "environment: --cluster has a variable, flags of commands have none" {
    ETCDCTL_CLUSTER=true run ctl endpoint hashkv
    assert_output --regexp "^http://$ENDPOINT, "
    ETCDCTL_REV=99999 run ctl endpoint hashkv
    assert_success
}

@test "environment: version, options and help do not look at it" {
    ETCDCTL_HEX=true run "$BIN/etcd-ctl" --hex version
    assert_success
    ETCDCTL_HEX=true run "$BIN/etcd-ctl" --hex options
    assert_success
}

@test "credentials: the password is asked on stdout and read from stdin" {
    run --separate-stderr "$BIN/etcd-ctl" --endpoints=127.0.0.1:1 --dial-timeout=50ms --user=root get a < <(printf '  secret \n')
    assert_failure 2
    assert_output "Password: "
    assert_equal "$stderr" "Error: context deadline exceeded"
}

@test "credentials: without a password nobody logs in" {
    run "$BIN/etcd-ctl" --endpoints="$ENDPOINT" --user=root: get nothing
    assert_success
    assert_output ""
}

@test "debug: settings are shown, the password is not" {
    run ctl --debug --password=hidden --user=a get a
    assert_output --partial "ETCDCTL_COMMAND_TIMEOUT="
    refute_output --partial hidden
}

@test "TLS: asked for, it is refused with a reason" {
    run "$BIN/etcd-ctl" --endpoints="https://$ENDPOINT" get a
    assert_failure 2
    assert_output --partial TLS
    run ctl --insecure-transport=false get a
    assert_failure 2
    assert_output --partial TLS
}

# Types a password on a terminal of its own; prints whether the terminal echoed before, while asked, and after.
on_a_terminal() {
    python3 - "$BIN/etcd-ctl" "$ENDPOINT" "$1" <<'PY'
import os, pty, signal, sys, termios, time
program, endpoint, keys = sys.argv[1:]
echo = lambda: bool(termios.tcgetattr(ours)[3] & termios.ECHO)
ours, theirs = pty.openpty()
before = echo()
child = os.fork()
if child == 0:
    os.setsid()
    os.dup2(theirs, 0)
    import fcntl
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.execv(program, [program, "--endpoints=" + endpoint, "--user=root", "get", "nothing"])
end = time.monotonic() + 10
while echo() and time.monotonic() < end:
    time.sleep(0.005)
asked = echo()
os.write(ours, keys.encode().decode("unicode_escape").encode("latin-1"))
status = os.waitpid(child, 0)[1]
how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exit"
print(before, asked, echo(), how)
PY
}

@test "credentials: a terminal does not show the password, and shows again afterwards" {
    run on_a_terminal 'secret\n'
    assert_line --partial "True False True exit"
}

@test "credentials: an interrupt gives the terminal its echo back" {
    run on_a_terminal '\x03'
    assert_line --partial "True False True SIGINT"
}
