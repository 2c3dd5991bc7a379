/* messages.c - sendmsg and its family, all of whose parts are in memory that is not there. */
#include "check.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

/* A descriptor travels along with the bytes. */
static void control_data(size_t bytes)
{
    int ends[2], file = open("/dev/null", O_RDWR);
    CHECK(file >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    struct msghdr *message = malloc(8 * KIB);
    struct iovec *list = malloc(8 * KIB);
    char *control = malloc(8 * KIB), *out = filled(bytes, 1), *in = filled(bytes, 2);
    int room = 8 << 20;
    CHECK(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
    memset(message, 0, 8 * KIB);
    memset(control, 0, 8 * KIB);
    *list = (struct iovec){out, bytes};
    *message = (struct msghdr){.msg_iov = list, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(4)};
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(4)};
    memcpy(CMSG_DATA(head), &file, 4);
    PUSH_OUT(out, bytes);
    ssize_t sent = sendmsg(ends[1], message, MSG_DONTWAIT);
    CHECK(sent > 0 && (bytes > 100000 || sent == (ssize_t)bytes));

    memset(control, 0, 8 * KIB);
    list->iov_base = in;
    *message = (struct msghdr){.msg_iov = list, .msg_iovlen = 1, .msg_control = control, .msg_controllen = 1000};
    PUSH_OUT(in, bytes);
    ssize_t got = recvmsg(ends[0], message, MSG_CMSG_CLOEXEC);
    CHECK(got > 0 && got <= sent);
    CHECK_IS(CMSG_SPACE(4), message->msg_controllen);
    CHECK_IS(0, message->msg_flags & ~MSG_CMSG_CLOEXEC);
    CHECK_IS(0, message->msg_namelen);
    head = CMSG_FIRSTHDR(message);
    CHECK(head && head->cmsg_type == SCM_RIGHTS);
    int arrived = -1;
    memcpy(&arrived, CMSG_DATA(head), 4);
    CHECK(arrived > 2 && write(arrived, "x", 1) == 1);
    close(arrived);
    for (ssize_t more; got < sent; got += more) {
        more = recv(ends[0], in + got, bytes - (size_t)got, 0);
        CHECK(more > 0);
    }
    CHECK(memcmp(in, out, (size_t)got) == 0);
    close(file);
    close(ends[0]);
    close(ends[1]);
    free(message);
    free(list);
    free(control);
    free(in);
    free(out);
}

static void descriptors_with_short_messages(void)
{
    control_data(5000);
}

static void descriptors_with_long_messages(void)
{
    control_data(4 * MIB);
}

/* Many datagrams in one call, together more than may be pinned. */
static void many(int count, size_t bytes)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    struct mmsghdr *list = calloc((size_t)count + 200, sizeof *list);
    struct iovec *buffers = calloc((size_t)count + 600, sizeof *buffers);
    char *out = filled((size_t)count * bytes, 3), *in = filled((size_t)count * MIB / 2, 4);
    int sent = 0, got = 0;
    while (got < count) {
        for (int i = 0; i < count; i++) {
            buffers[i] = (struct iovec){out + (size_t)i * bytes, bytes};
            list[i].msg_hdr = (struct msghdr){.msg_iov = &buffers[i], .msg_iovlen = 1};
            list[i].msg_len = 0;
        }
        PUSH_OUT(out, (size_t)count * bytes);
        int now = sendmmsg(ends[1], list + sent, (unsigned)(count - sent), MSG_DONTWAIT);
        CHECK(now > 0 || sent == count || errno == EAGAIN);
        for (int i = 0; i < now; i++)
            CHECK_IS(bytes, list[sent + i].msg_len);
        sent += now > 0 ? now : 0;
        for (int i = 0; i < count; i++) {
            buffers[i] = (struct iovec){in + (size_t)i * (MIB / 2), MIB / 2};
            list[i].msg_hdr = (struct msghdr){.msg_iov = &buffers[i], .msg_iovlen = 1};
        }
        PUSH_OUT(in, (size_t)count * MIB / 2);
        now = recvmmsg(ends[0], list, (unsigned)count, MSG_WAITFORONE, NULL);
        CHECK(now > 0);
        for (int i = 0; i < now; i++) {
            CHECK_IS(bytes, list[i].msg_len);
            CHECK(memcmp(in + (size_t)i * (MIB / 2), out + (size_t)(got + i) * bytes, bytes) == 0);
        }
        got += now;
    }
    CHECK_IS(count, sent);
    CHECK(recvmmsg(ends[0], list, (unsigned)count, MSG_DONTWAIT, NULL) == -1 && errno == EAGAIN);
    close(ends[0]);
    close(ends[1]);
    free(list);
    free(buffers);
    free(in);
    free(out);
}

static void many_messages(void)
{
    many(8, 20000);
}

static void more_messages_than_may_be_pinned(void)
{
    many(40, 100000);
}

/* All messages that were asked for arrive in one call. */
static void waits_for_as_many_as_asked(void)
{
    enum { COUNT = 6, BYTES = 3000 };
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    struct mmsghdr *list = calloc(200, sizeof *list);
    struct iovec *buffers = calloc(600, sizeof *buffers);
    char *in = filled(COUNT * MIB, 5), *out = filled(BYTES, 6);
    for (int i = 0; i < COUNT; i++) {
        buffers[i] = (struct iovec){in + (size_t)i * MIB, MIB};
        list[i].msg_hdr = (struct msghdr){.msg_iov = &buffers[i], .msg_iovlen = 1};
        CHECK(send(ends[1], out, BYTES, 0) == BYTES);
    }
    PUSH_OUT(in, COUNT * MIB);
    struct timespec *limit = malloc(8 * KIB);
    *limit = (struct timespec){5, 0};
    CHECK_IS(COUNT, recvmmsg(ends[0], list, COUNT, 0, limit));
    for (int i = 0; i < COUNT; i++)
        CHECK(list[i].msg_len == BYTES && is_filled(in + (size_t)i * MIB, BYTES, 6));
    close(ends[0]);
    close(ends[1]);
    free(list);
    free(buffers);
    free(limit);
    free(in);
    free(out);
}

/* Addresses go in and out. */
static void addresses(void)
{
    int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in *address = malloc(8 * KIB), *from = malloc(8 * KIB);
    socklen_t *len = malloc(8 * KIB);
    memset(address, 0, 8 * KIB);
    memset(from, 0, 8 * KIB);
    memset(len, 0, 8 * KIB);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *len = sizeof *address;
    PUSH_OUT(address, PAGE);
    CHECK(bind(a, (struct sockaddr *)address, sizeof *address) == 0);
    PUSH_OUT(address, PAGE);
    CHECK(getsockname(a, (struct sockaddr *)address, len) == 0);
    char *out = filled(20000, 7), *in = filled(20000, 8);
    PUSH_OUT(out, 20000);
    CHECK_IS(20000, sendto(b, out, 20000, 0, (struct sockaddr *)address, sizeof *address));
    PUSH_OUT(in, 20000);
    *len = sizeof *from;
    CHECK_IS(20000, recvfrom(a, in, 20000, 0, (struct sockaddr *)from, len));
    CHECK(memcmp(in, out, 20000) == 0 && *len == sizeof *from && from->sin_family == AF_INET);
    struct iovec list = {out, 100};
    struct msghdr message = {.msg_name = address, .msg_namelen = sizeof *address, .msg_iov = &list, .msg_iovlen = 1};
    PUSH_OUT(address, PAGE);
    CHECK_IS(100, sendmsg(b, &message, 0));
    list.iov_base = in;
    message.msg_name = from;
    memset(from, 0, sizeof *from);
    PUSH_OUT(from, PAGE);
    CHECK_IS(100, recvmsg(a, &message, 0));
    CHECK(message.msg_namelen == sizeof *from && from->sin_family == AF_INET);
    PUSH_OUT(address, PAGE);
    CHECK(connect(b, (struct sockaddr *)address, sizeof *address) == 0);
    PUSH_OUT(len, PAGE);
    CHECK(getpeername(b, (struct sockaddr *)from, len) == 0 && from->sin_port == address->sin_port);
    close(a);
    close(b);
    free(address);
    free(from);
    free(len);
    free(in);
    free(out);
}

static void connections(void)
{
    int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un *address = malloc(8 * KIB), *from = malloc(8 * KIB);
    socklen_t *len = malloc(8 * KIB);
    memset(address, 0, 8 * KIB);
    address->sun_family = AF_UNIX;
    CHECK(strlen(file_name("socket")) < sizeof address->sun_path);
    strcpy(address->sun_path, file_name("socket"));
    fill(from, 8 * KIB, 1);
    fill(len, 8 * KIB, 1);
    PUSH_OUT(address, PAGE);
    CHECK(bind(server, (struct sockaddr *)address, sizeof *address) == 0 && listen(server, 2) == 0);
    PUSH_OUT(address, PAGE);
    CHECK(connect(client, (struct sockaddr *)address, sizeof *address) == 0);
    *len = sizeof *from;
    PUSH_OUT(len, PAGE);
    int end = accept(server, (struct sockaddr *)from, len);
    CHECK(end >= 0 && from->sun_family == AF_UNIX);
    int *value = malloc(8 * KIB);
    *value = 100000;
    PUSH_OUT(value, PAGE);
    CHECK(setsockopt(end, SOL_SOCKET, SO_RCVBUF, value, sizeof *value) == 0);
    *len = sizeof *value;
    PUSH_OUT(value, PAGE);
    CHECK(getsockopt(end, SOL_SOCKET, SO_RCVBUF, value, len) == 0 && *value >= 100000 && *len == sizeof *value);
    close(server);
    close(client);
    close(end);
    free(address);
    free(from);
    free(len);
    free(value);
}

int main(void)
{
    begin();
    RUN(descriptors_with_short_messages);
    RUN(descriptors_with_long_messages);
    RUN(many_messages);
    RUN(more_messages_than_may_be_pinned);
    RUN(waits_for_as_many_as_asked);
    RUN(addresses);
    RUN(connections);
    return tests_failed();
}
