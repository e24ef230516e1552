# What the bats files share: a fresh member for each file, and etcd-ctl bound to it.
bats_require_minimum_version 1.5.0
load /usr/lib/bats/bats-support/load
load /usr/lib/bats/bats-assert/load

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Starts a member in $1 and waits until it serves; sets ENDPOINT and MEMBER_PID.
start_member() {
    local folder=$1 peer
    ENDPOINT=127.0.0.1:$(free_port)
    peer=127.0.0.1:$(free_port)
    "$BIN/etcd-server" --data-dir "$folder/data" --log-level warn --heartbeat-interval 20 --election-timeout 200 \
        --listen-client-urls "http://$ENDPOINT,unix://$folder/member.sock" --advertise-client-urls "http://$ENDPOINT" \
        --listen-peer-urls "http://$peer" --initial-advertise-peer-urls "http://$peer" \
        --initial-cluster "default=http://$peer" >"$folder/log" 2>&1 3>&- &
    MEMBER_PID=$!
    export ENDPOINT MEMBER_PID
    ETCDCTL_ENDPOINTS=$ENDPOINT "$BIN/etcd-ctl" get --consistency=s ready >/dev/null || { cat "$folder/log"; return 1; }
}

stop_member() {
    kill "$MEMBER_PID" && wait "$MEMBER_PID" || true
}

# Runs etcd-ctl against the file's member.
ctl() {
    "$BIN/etcd-ctl" --endpoints="$ENDPOINT" "$@"
}
