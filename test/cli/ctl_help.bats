# etcd-ctl: help, flags, completion.
load helper

@test "help: every command and every flag has one" {
    for words in "" get put del txn compaction alarm "alarm list" "alarm disarm" endpoint "endpoint health" \
        "endpoint status" "endpoint hashkv" member "member list" version completion options; do
        run --separate-stderr "$BIN/etcd-ctl" $words --help
        assert_success
        assert_equal "$stderr" ""
        assert_output --partial "Usage:"
    done
}

@test "help: the forms of asking agree" {
    run "$BIN/etcd-ctl" help endpoint status
    local asked=$output
    run "$BIN/etcd-ctl" endpoint status -h
    assert_output "$asked"
    run "$BIN/etcd-ctl" end st --help
    assert_output "$asked"
}

@test "a link named etcdctl calls itself so" {
    ln -s "$BIN/etcd-ctl" "$BATS_TEST_TMPDIR/etcdctl"
    run "$BATS_TEST_TMPDIR/etcdctl" version
    assert_line --index 0 "etcdctl version: 3.7.1"
    run "$BIN/etcd-ctl" version
    assert_line --index 0 "etcd-ctl version: 3.7.1"
}

@test "flags: usage goes to stderr with the error, exit 1" {
    run --separate-stderr "$BIN/etcd-ctl" get a --limit=x
    assert_failure 1
    assert_output ""
    assert_equal "${stderr_lines[0]}" 'Error: invalid argument "x" for "--limit" flag: strconv.ParseInt: parsing "x": invalid syntax'
    assert_equal "${stderr_lines[1]}" "Usage:"
}

@test "flags: a bool takes no next word" {
    run "$BIN/etcd-ctl" --endpoints=127.0.0.1:1 --command-timeout=50ms get --prefix true more
    assert_failure 128
}

# What bash offers for a line that ends where the cursor is.
offers() {
    local line=$1
    PATH=$BIN:$PATH bash -c '
        compopt() { :; }
        source <(etcd-ctl completion bash)
        COMP_LINE=$1 COMP_POINT=${#1}
        read -ra COMP_WORDS <<<"$1"
        _etcd_ctl_complete
        printf "%s\n" "${COMPREPLY[@]}"' - "$line"
}

@test "completion: commands and subcommands" {
    run offers "etcd-ctl en"
    assert_output endpoint
    run offers "etcd-ctl endpoint h"
    assert_output $'hashkv\nhealth'
    run offers "etcd-ctl --endpoints a:1 endpoint s"
    assert_output status
    run offers "etcd-ctl __"
    assert_output ""
}

@test "completion: flags, and their values in all ways of writing them" {
    run offers "etcd-ctl get --pr"
    assert_output $'--prefix\n--print-value-only'
    run offers "etcd-ctl get -w "
    assert_output $'fields\njson\nprotobuf\nsimple\ntable'
    run offers "etcd-ctl get --write-out=j"
    assert_output json
    run offers "etcd-ctl get --order D"
    assert_output DESCEND
    run offers "etcd-ctl completion z"
    assert_output zsh
    run offers "etcd-ctl put -- --pr"
    assert_output ""
}

@test "completion: the helper speaks as cobra's does" {
    run --separate-stderr "$BIN/etcd-ctl" __complete end
    assert_output --regexp $'^endpoint\t.*\n:4$'
    assert_equal "$stderr" "Completion ended with directive: ShellCompDirectiveNoFileComp"
    run --separate-stderr "$BIN/etcd-ctl" __completeNoDesc get --cacert ""
    assert_output ":0"
}

@test "completion: each shell accepts its script" {
    bash -n <("$BIN/etcd-ctl" completion bash)
    if command -v zsh >/dev/null; then "$BIN/etcd-ctl" completion zsh >"$BATS_TEST_TMPDIR/z"; zsh -n "$BATS_TEST_TMPDIR/z"; fi
    if command -v fish >/dev/null; then "$BIN/etcd-ctl" completion fish >"$BATS_TEST_TMPDIR/f"; fish --no-execute "$BATS_TEST_TMPDIR/f"; fi
}

@test "completion: fish offers candidates with their descriptions" {
    command -v fish >/dev/null || skip "fish is not installed"
    "$BIN/etcd-ctl" completion fish >"$BATS_TEST_TMPDIR/f"
    run env PATH="$BIN:$PATH" HOME="$BATS_TEST_TMPDIR" fish -c "source $BATS_TEST_TMPDIR/f; complete -C'etcd-ctl endpoint he'"
    assert_output --regexp $'^health\t'
}

@test "manual: scdoc accepts it" {
    command -v scdoc >/dev/null || skip "scdoc is not installed"
    run bash -c "'$BIN/etcd-ctl' __manual | scdoc"
    assert_success
    assert_output --partial "etcd-ctl"
}

@test "completion: zsh is given candidates with their descriptions" {
    command -v zsh >/dev/null || skip "zsh is not installed"
    "$BIN/etcd-ctl" completion zsh >"$BATS_TEST_TMPDIR/z"
    run env PATH="$BIN:$PATH" zsh -fc '
        compdef() { }
        _files() { print files }
        _describe() { print -l -- "${(@P)3}" }
        source '"$BATS_TEST_TMPDIR"'/z
        words=(etcd-ctl endpoint h) CURRENT=3
        _etcd_ctl
        words=(etcd-ctl get --cacert "") CURRENT=4
        _etcd_ctl'
    assert_line --index 0 --regexp '^hashkv:.'
    assert_line --index 1 --regexp '^health:.'
    assert_line --index 2 files
}
