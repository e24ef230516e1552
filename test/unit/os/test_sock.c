/* Sockets on the loopback interface and in the file system. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "os/sock.h"
#include "tempdir.h"

/* --- addresses -------------------------------------------------------------------------------- */

static void hosts_and_ports_are_split_as_go_does(void **state)
{
    (void)state;
    static const char *const good[][3] = {
        {"localhost:2379", "localhost", "2379"},       {":80", "", "80"}, {"[::1]:80", "::1", "80"},
        {"[fe80::1%lo0]:http", "fe80::1%lo0", "http"}, {"h:", "h", ""},   {"[]:1", "", "1"},
    };
    static const char *const bad[][2] = {
        {"", "address : missing port in address"},
        {"localhost", "address localhost: missing port in address"},
        {"[::1]", "address [::1]: missing port in address"},
        {"[::1]80", "address [::1]80: missing port in address"},
        {"::1:80", "address ::1:80: too many colons in address"},
        {"[::1]:80:90", "address [::1]:80:90: too many colons in address"},
        {"[::1", "address [::1: missing ']' in address"},
        {"a[b]:1", "address a[b]:1: unexpected '[' in address"},
        {"ab]:1", "address ab]:1: unexpected ']' in address"},
        {"[[a]:1", "address [[a]:1: unexpected '[' in address"},
        {"[a]:1]", "address [a]:1]: unexpected ']' in address"},
    };
    struct bytes host;
    struct bytes port;
    struct errmsg em = {""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(sock_split_host_port(bytes_str(good[i][0]), &host, &port, &em), 0);
        assert_true(bytes_eq(host, bytes_str(good[i][1])));
        assert_true(bytes_eq(port, bytes_str(good[i][2])));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sock_split_host_port(bytes_str(bad[i][0]), &host, &port, &em), E_INVAL);
        assert_string_equal(em.text, bad[i][1]);
    }
}

static void numeric_hosts_resolve(void **state)
{
    (void)state;
    struct sock_addr a[SOCK_ADDRS_MAX];
    char text[SOCK_TEXT_BYTES_MAX];
    size_t count = 0;
    assert_int_equal(sock_resolve("127.0.0.1:2379", a, &count, NULL), 0);
    assert_int_equal(count, 1);
    sock_addr_text(&a[0], text);
    assert_string_equal(text, "127.0.0.1:2379");
    assert_int_equal(sock_resolve("[::1]:80", a, &count, NULL), 0);
    sock_addr_text(&a[0], text);
    assert_string_equal(text, "[::1]:80");
    struct errmsg em = {""};
    assert_int_equal(sock_resolve("127.0.0.1:no-such-port", a, &count, &em), E_INVAL);
    assert_string_equal(em.text, "lookup tcp/no-such-port: unknown port");
}

static void a_mapped_address_shows_as_ipv4(void **state)
{
    (void)state;
    struct sock_addr a[SOCK_ADDRS_MAX];
    char text[SOCK_TEXT_BYTES_MAX];
    size_t count = 0;
    assert_int_equal(sock_resolve("[::ffff:10.0.0.1]:7", a, &count, NULL), 0);
    sock_addr_text(&a[0], text);
    assert_string_equal(text, "10.0.0.1:7");
}

/* --- TCP -------------------------------------------------------------------------------------- */

static void wait_for(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    assert_int_equal(poll(&p, 1, 10000), 1);
}

static int listen_ok(char text[SOCK_TEXT_BYTES_MAX])
{
    int fd = -1;
    struct errmsg em = {""};
    if (sock_listen_tcp("127.0.0.1:0", NULL, &fd, &em) < 0) fail_msg("%s", em.text);
    sock_local_text(fd, text);
    return fd;
}

static int connect_ok(const char *text)
{
    struct sock_addr a[SOCK_ADDRS_MAX];
    size_t count = 0;
    int fd = -1;
    assert_int_equal(sock_resolve(text, a, &count, NULL), 0);
    int rc = sock_connect(&a[0], &fd, NULL);
    assert_true(rc == 0 || rc == E_AGAIN);
    wait_for(fd, POLLOUT);
    assert_int_equal(sock_connect_result(fd), 0);
    return fd;
}

static void bytes_go_through_a_connection(void **state)
{
    (void)state;
    char text[SOCK_TEXT_BYTES_MAX];
    char peer_text[SOCK_TEXT_BYTES_MAX];
    char own_text[SOCK_TEXT_BYTES_MAX];
    char data[8];
    size_t done = 0;
    int server = -1;
    struct sock_addr peer;
    int listener = listen_ok(text);
    assert_int_equal(sock_accept(listener, &server, NULL), E_AGAIN);
    int client = connect_ok(text);
    wait_for(listener, POLLIN);
    assert_int_equal(sock_accept(listener, &server, &peer), 0);
    sock_local_text(client, own_text);
    sock_addr_text(&peer, peer_text);
    assert_string_equal(own_text, peer_text);
    sock_peer_text(client, peer_text);
    assert_string_equal(peer_text, text);
    assert_int_equal(sock_read(server, data, sizeof data, &done), E_AGAIN);
    assert_int_equal(sock_write(client, bytes_str("hello"), &done), 0);
    assert_int_equal(done, 5);
    wait_for(server, POLLIN);
    assert_int_equal(sock_read(server, data, sizeof data, &done), 0);
    assert_int_equal(done, 5);
    assert_memory_equal(data, "hello", 5);
    sock_close(client);
    wait_for(server, POLLIN);
    assert_int_equal(sock_read(server, data, sizeof data, &done), E_EOF);
    sock_close(server);
    sock_close(listener);
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void connections_are_set_up_for_servers(void **state)
{
    (void)state;
    char text[SOCK_TEXT_BYTES_MAX];
    int server = -1;
    int listener = listen_ok(text);
    int client = connect_ok(text);
    wait_for(listener, POLLIN);
    assert_int_equal(sock_accept(listener, &server, NULL), 0);
    sock_keepalive(server, 15, 5);
    assert_true(option(server, IPPROTO_TCP, TCP_NODELAY) != 0);
    assert_true(option(client, IPPROTO_TCP, TCP_NODELAY) != 0);
    assert_true(option(server, SOL_SOCKET, SO_KEEPALIVE) != 0);
    assert_int_equal(option(server, IPPROTO_TCP, TCP_KEEPIDLE), 15);
    assert_int_equal(option(server, IPPROTO_TCP, TCP_KEEPINTVL), 5);
    assert_true((fcntl(server, F_GETFL) & O_NONBLOCK) != 0);
    assert_true((fcntl(server, F_GETFD) & FD_CLOEXEC) != 0);
    assert_true((fcntl(listener, F_GETFD) & FD_CLOEXEC) != 0);
    sock_close(server);
    sock_close(client);
    sock_close(listener);
}

static void a_port_in_use_is_named(void **state)
{
    (void)state;
    char text[SOCK_TEXT_BYTES_MAX];
    char expected[256];
    struct errmsg em = {""};
    int second = -1;
    int listener = listen_ok(text);
    assert_int_equal(sock_listen_tcp(text, NULL, &second, &em), E_BUSY);
    (void)snprintf(expected, sizeof expected, "listen tcp %s: bind: address already in use", text);
    assert_string_equal(em.text, expected);
    sock_close(listener);
}

static void a_refused_connection_is_told(void **state)
{
    (void)state;
    char text[SOCK_TEXT_BYTES_MAX];
    struct sock_addr a[SOCK_ADDRS_MAX];
    size_t count = 0;
    int fd = -1;
    sock_close(listen_ok(text)); /* a port that nobody has now */
    assert_int_equal(sock_resolve(text, a, &count, NULL), 0);
    struct errmsg em = {""};
    int rc = sock_connect(&a[0], &fd, &em);
    if (rc == E_AGAIN) {
        wait_for(fd, POLLOUT);
        rc = sock_connect_result(fd);
        sock_close(fd);
    }
    assert_int_equal(rc, E_CONNREFUSED);
}

static void an_address_without_port_is_refused_with_words(void **state)
{
    (void)state;
    struct errmsg em = {""};
    int fd = -1;
    assert_int_equal(sock_listen_tcp("localhost", NULL, &fd, &em), E_INVAL);
    assert_string_equal(em.text, "listen tcp: address localhost: missing port in address");
}

static void writing_to_a_closed_connection_is_an_error_not_a_signal(void **state)
{
    (void)state;
    int fds[2];
    size_t done = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    sock_close(fds[1]);
    assert_int_equal(sock_write(fds[0], bytes_str("x"), &done), E_CLOSED);
    sock_close(fds[0]);
    sock_close(-1);
}

/* --- unix ------------------------------------------------------------------------------------- */

static void a_unix_socket_replaces_a_dead_one_only(void **state)
{
    (void)state;
    struct tempdir dir;
    char path[TEMPDIR_PATH_BYTES_MAX];
    char text[SOCK_TEXT_BYTES_MAX];
    struct errmsg em = {""};
    int first = -1;
    int second = -1;
    int client = -1;
    tempdir_init(&dir);
    tempdir_path(&dir, "s", path);
    assert_int_equal(sock_listen_unix(path, &first, NULL), 0);
    sock_local_text(first, text);
    assert_string_equal(text, path);
    assert_int_equal(sock_listen_unix(path, &second, &em), E_BUSY);
    assert_non_null(strstr(em.text, "bind: address already in use"));
    assert_int_equal(sock_connect_unix(path, &client, NULL), 0);
    sock_close(client);
    sock_close(first); /* the file stays, as after a crash */
    assert_int_equal(sock_listen_unix(path, &second, NULL), 0);
    sock_close(second);
    tempdir_deinit(&dir);
}

static void an_abstract_socket_needs_no_file(void **state)
{
    (void)state;
    char name[64];
    char text[SOCK_TEXT_BYTES_MAX];
    int listener = -1;
    int client = -1;
    (void)snprintf(name, sizeof name, "@etcd-test-%d", (int)getpid());
    assert_int_equal(sock_listen_unix(name, &listener, NULL), 0);
    sock_local_text(listener, text);
    assert_string_equal(text, name);
    assert_int_equal(sock_connect_unix(name, &client, NULL), 0);
    sock_close(client);
    sock_close(listener);
    char too_long[200];
    memset(too_long, 'p', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = 0;
    assert_int_equal(sock_listen_unix(too_long, &listener, NULL), E_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_and_ports_are_split_as_go_does),
        cmocka_unit_test(numeric_hosts_resolve),
        cmocka_unit_test(a_mapped_address_shows_as_ipv4),
        cmocka_unit_test(bytes_go_through_a_connection),
        cmocka_unit_test(connections_are_set_up_for_servers),
        cmocka_unit_test(a_port_in_use_is_named),
        cmocka_unit_test(a_refused_connection_is_told),
        cmocka_unit_test(an_address_without_port_is_refused_with_words),
        cmocka_unit_test(writing_to_a_closed_connection_is_an_error_not_a_signal),
        cmocka_unit_test(a_unix_socket_replaces_a_dead_one_only),
        cmocka_unit_test(an_abstract_socket_needs_no_file),
    };
    return cmocka_run_group_tests_name("os/sock", tests, NULL, NULL);
}
