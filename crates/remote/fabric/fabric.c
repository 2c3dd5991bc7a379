#include "fabric.h"

#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

/* Most of libfabric are inline functions over tables; these few are symbols. They are looked up when remote memory is asked for: programs that use none of it do not
 * load the library and the many it depends on. */
static struct {
    uint32_t (*version)(void);
    int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
    void (*freeinfo)(struct fi_info *);
    struct fi_info *(*dupinfo)(const struct fi_info *);
    int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
    const char *(*strerror)(int);
} lib;

static pthread_once_t lib_once = PTHREAD_ONCE_INIT;
static int lib_error;

/* Opens the library, and leaves the signals of the process as they were: a library that libfabric's psm2 provider brings (libinfinipath) takes SIGBUS, SIGSEGV, SIGABRT,
 * SIGILL, SIGINT and SIGTERM for itself when it is loaded, to write a file and end the process. */
static void *open_library(void) {
    struct sigaction before[NSIG];
    int is_known[NSIG];
    void *handle;

    for (int nth = 1; nth < NSIG; nth++)
        is_known[nth] = sigaction(nth, NULL, &before[nth]) == 0;
    handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    for (int nth = 1; nth < NSIG; nth++) {
        struct sigaction now;

        if (is_known[nth] && sigaction(nth, NULL, &now) == 0 && now.sa_sigaction != before[nth].sa_sigaction)
            sigaction(nth, &before[nth], NULL);
    }
    return handle;
}

static void load(void) {
    void *handle = open_library();
    struct {
        const char *name;
        void **to;
    } symbols[] = {
        {"fi_version", (void **)&lib.version},   {"fi_getinfo", (void **)&lib.getinfo},
        {"fi_freeinfo", (void **)&lib.freeinfo}, {"fi_dupinfo", (void **)&lib.dupinfo},
        {"fi_fabric", (void **)&lib.fabric},     {"fi_strerror", (void **)&lib.strerror},
    };

    if (!handle) {
        lib_error = -ENOENT;
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        *symbols[i].to = dlsym(handle, symbols[i].name);
        if (!*symbols[i].to)
            lib_error = -ENOSYS;
    }
}

int aqf_load(void) {
    pthread_once(&lib_once, load);
    return lib_error;
}

uint32_t aqf_version(void) {
    return lib.version();
}

void aqf_explain(int error, char *text, size_t bytes) {
    error = error < 0 ? -error : error;
    if (error == ENOENT && lib_error)
        snprintf(text, bytes, "libfabric.so.1 is not installed");
    else
        snprintf(text, bytes, "%s", lib.strerror ? lib.strerror(error) : strerror(error));
}

struct aqf_listener {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    struct fid_pep *pep;
};

struct aqf_request {
    struct fi_info *info;
};

struct aqf_link {
    struct fi_info *info;
    struct fid_fabric *own_fabric; /* NULL if it is the listener's. */
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_cq *cq;
    struct fid_ep *ep;
    aqf_region *regions;
    int is_down;
};

struct aqf_region {
    aqf_region *next;
    aqf_link *link;
    struct fid_mr *mr;
    aqf_place place;
};

static void close_fid(struct fid *fid) {
    if (fid)
        fi_close(fid);
}

#define CLOSE(object)                                                                                                                      \
    do {                                                                                                                                   \
        if (object)                                                                                                                        \
            close_fid(&(object)->fid);                                                                                                     \
    } while (0)

/* What providers can do it: `provider`, or any if it is NULL. */
static int find(const char *provider, const char *host, const char *port, uint64_t flags, struct fi_info **info) {
    int error = aqf_load();
    struct fi_info *hints;

    if (error)
        return error;
    hints = lib.dupinfo(NULL);
    if (!hints)
        return -ENOMEM;
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_RX_CQ_DATA;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = provider ? strdup(provider) : NULL;
    error = provider && !hints->fabric_attr->prov_name ? -ENOMEM : lib.getinfo(FI_VERSION(1, 11), host, port, flags, hints, info);
    lib.freeinfo(hints);
    return error;
}

int aqf_providers(char *text, size_t bytes) {
    struct fi_info *found = NULL;
    const char *last = "";
    size_t used = 0;
    int error = find(NULL, NULL, NULL, 0, &found);

    text[0] = '\0';
    if (error)
        return error == -FI_ENODATA ? 0 : error;
    for (const struct fi_info *info = found; info && used < bytes; info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        int more = strcmp(name, last) ? snprintf(text + used, bytes - used, "%s\n", name) : 0;

        used += more > 0 ? (size_t)more : 0;
        last = name;
    }
    lib.freeinfo(found);
    return 0;
}

static int open_eq(struct fid_fabric *fabric, struct fid_eq **eq) {
    struct fi_eq_attr attr = {.size = 64, .wait_obj = FI_WAIT_UNSPEC};

    return fi_eq_open(fabric, &attr, eq, NULL);
}

/* Room for an event, and for the private data that comes with it. */
union event {
    struct fi_eq_cm_entry entry;
    unsigned char bytes[sizeof(struct fi_eq_cm_entry) + 256];
};

/* Waits for an event of connections; returns the bytes of private data. */
static int next_event(struct fid_eq *eq, int timeout_ms, uint32_t *kind, union event *event) {
    ssize_t got = timeout_ms ? fi_eq_sread(eq, kind, event, sizeof *event, timeout_ms, 0) : fi_eq_read(eq, kind, event, sizeof *event, 0);

    if (got == -FI_EAVAIL) {
        struct fi_eq_err_entry failure = {0};

        got = fi_eq_readerr(eq, &failure, 0);
        return got < 0 ? (int)got : failure.err ? -failure.err : -EIO;
    }
    if (got == -FI_ETIMEDOUT || got == -FI_EINTR)
        return -EAGAIN;
    if (got < 0)
        return (int)got;
    if ((size_t)got < sizeof event->entry)
        return -EPROTO;
    return (int)((size_t)got - sizeof event->entry);
}

int aqf_listen(const char *provider, const char *host, const char *port, aqf_listener **listener) {
    aqf_listener *made = calloc(1, sizeof *made);
    int error;

    if (!made)
        return -ENOMEM;
    error = find(provider, host, port, FI_SOURCE, &made->info);
    if (!error)
        error = lib.fabric(made->info->fabric_attr, &made->fabric, NULL);
    if (!error)
        error = open_eq(made->fabric, &made->eq);
    if (!error)
        error = fi_passive_ep(made->fabric, made->info, &made->pep, NULL);
    if (!error)
        error = fi_pep_bind(made->pep, &made->eq->fid, 0);
    if (!error)
        error = fi_listen(made->pep);
    if (error) {
        aqf_listener_close(made);
        return error;
    }
    *listener = made;
    return 0;
}

int aqf_listener_port(aqf_listener *listener, uint16_t *port) {
    struct sockaddr_storage address = {0};
    size_t bytes = sizeof address;
    int error = fi_getname(&listener->pep->fid, &address, &bytes);

    if (error)
        return error;
    if (address.ss_family == AF_INET)
        *port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    else if (address.ss_family == AF_INET6)
        *port = ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    else
        return -EAFNOSUPPORT;
    return 0;
}

int aqf_next_request(aqf_listener *listener, int timeout_ms, aqf_request **request, unsigned char token[AQF_TOKEN_BYTES]) {
    union event event;
    uint32_t kind = 0;
    int bytes = next_event(listener->eq, timeout_ms, &kind, &event);
    aqf_request *made;

    if (bytes < 0)
        return bytes;
    if (kind != FI_CONNREQ)
        return -EAGAIN;
    made = calloc(1, sizeof *made);
    /* Data may be longer than what was sent: some providers round up. */
    if (!made || bytes < AQF_TOKEN_BYTES) {
        fi_reject(listener->pep, event.entry.info->handle, NULL, 0);
        lib.freeinfo(event.entry.info);
        free(made);
        return made ? -EPROTO : -ENOMEM;
    }
    made->info = event.entry.info;
    memcpy(token, event.entry.data, AQF_TOKEN_BYTES);
    *request = made;
    return 0;
}

void aqf_reject(aqf_listener *listener, aqf_request *request) {
    fi_reject(listener->pep, request->info->handle, NULL, 0);
    lib.freeinfo(request->info);
    free(request);
}

void aqf_listener_close(aqf_listener *listener) {
    CLOSE(listener->pep);
    CLOSE(listener->eq);
    CLOSE(listener->fabric);
    if (listener->info)
        lib.freeinfo(listener->info);
    free(listener);
}

/* An endpoint that can connect or accept. Every link has a domain of its own: keys of one mean nothing to another. */
static int open_endpoint(aqf_link *link, struct fid_fabric *fabric) {
    struct fi_cq_attr attr = {.size = 512, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_UNSPEC};
    int error = fi_domain(fabric, link->info, &link->domain, NULL);

    if (!error)
        error = open_eq(fabric, &link->eq);
    if (!error)
        error = fi_cq_open(link->domain, &attr, &link->cq, NULL);
    if (!error)
        error = fi_endpoint(link->domain, link->info, &link->ep, NULL);
    if (!error)
        error = fi_ep_bind(link->ep, &link->eq->fid, 0);
    if (!error)
        error = fi_ep_bind(link->ep, &link->cq->fid, FI_TRANSMIT | FI_RECV);
    if (!error)
        error = fi_enable(link->ep);
    return error;
}

static int wait_until_connected(aqf_link *link, int timeout_ms) {
    union event event;
    uint32_t kind = 0;
    int bytes = next_event(link->eq, timeout_ms, &kind, &event);

    if (bytes == -EAGAIN)
        return -ETIMEDOUT;
    if (bytes < 0)
        return bytes;
    return kind == FI_CONNECTED ? 0 : -ECONNABORTED;
}

int aqf_accept(aqf_listener *listener, aqf_request *request, int timeout_ms, aqf_link **link) {
    aqf_link *made = calloc(1, sizeof *made);
    int error;

    if (!made) {
        aqf_reject(listener, request);
        return -ENOMEM;
    }
    made->info = request->info;
    error = open_endpoint(made, listener->fabric);
    if (error)
        fi_reject(listener->pep, request->info->handle, NULL, 0);
    free(request);
    if (!error)
        error = fi_accept(made->ep, NULL, 0);
    if (!error)
        error = wait_until_connected(made, timeout_ms);
    if (error) {
        aqf_link_close(made);
        return error;
    }
    *link = made;
    return 0;
}

int aqf_connect(const char *provider, const char *host, const char *port, const unsigned char token[AQF_TOKEN_BYTES],
                int timeout_ms, aqf_link **link) {
    aqf_link *made = calloc(1, sizeof *made);
    int error;

    if (!made)
        return -ENOMEM;
    error = find(provider, host, port, 0, &made->info);
    if (!error)
        error = lib.fabric(made->info->fabric_attr, &made->own_fabric, NULL);
    if (!error)
        error = open_endpoint(made, made->own_fabric);
    if (!error)
        error = fi_connect(made->ep, made->info->dest_addr, token, AQF_TOKEN_BYTES);
    if (!error)
        error = wait_until_connected(made, timeout_ms);
    if (error) {
        aqf_link_close(made);
        return error;
    }
    *link = made;
    return 0;
}

const char *aqf_link_provider(const aqf_link *link) {
    return link->info->fabric_attr->prov_name;
}

int aqf_link_is_down(aqf_link *link) {
    union event event;
    uint32_t kind = 0;
    int bytes;

    if (link->is_down)
        return 1;
    bytes = next_event(link->eq, 0, &kind, &event);
    link->is_down = bytes == -EAGAIN ? 0 : bytes < 0 || kind == FI_SHUTDOWN;
    return link->is_down;
}

void aqf_link_close(aqf_link *link) {
    CLOSE(link->ep);
    while (link->regions)
        aqf_release(link->regions);
    CLOSE(link->cq);
    CLOSE(link->eq);
    CLOSE(link->domain);
    CLOSE(link->own_fabric);
    if (link->info)
        lib.freeinfo(link->info);
    free(link);
}

int aqf_register(aqf_link *link, void *base, size_t bytes, int is_remote, uint64_t key, aqf_region **region) {
    aqf_region *made = calloc(1, sizeof *made);
    uint64_t access = is_remote ? FI_REMOTE_READ | FI_REMOTE_WRITE : FI_READ | FI_WRITE;
    int mode = link->info->domain_attr->mr_mode, error;

    if (!made)
        return -ENOMEM;
    error = fi_mr_reg(link->domain, base, bytes, access, 0, key, 0, &made->mr, NULL);
    if (!error && (mode & FI_MR_ENDPOINT)) {
        error = fi_mr_bind(made->mr, &link->ep->fid, 0);
        if (!error)
            error = fi_mr_enable(made->mr);
    }
    if (error) {
        CLOSE(made->mr);
        free(made);
        return error;
    }
    made->place.key = fi_mr_key(made->mr);
    made->place.address = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)base : 0;
    made->link = link;
    made->next = link->regions;
    link->regions = made;
    *region = made;
    return 0;
}

aqf_place aqf_region_place(const aqf_region *region) {
    return region->place;
}

int aqf_release(aqf_region *region) {
    int error = fi_close(&region->mr->fid);
    aqf_region **at = &region->link->regions;

    while (*at != region)
        at = &(*at)->next;
    *at = region->next;
    free(region);
    return error;
}

int aqf_read(aqf_link *link, void *to, size_t bytes, aqf_region *local, aqf_place from, uint64_t tag) {
    return (int)fi_read(link->ep, to, bytes, fi_mr_desc(local->mr), 0, from.address, from.key, (void *)(uintptr_t)tag);
}

int aqf_write(aqf_link *link, const void *from, size_t bytes, aqf_region *local, aqf_place to, uint64_t tag) {
    struct iovec part = {.iov_base = (void *)from, .iov_len = bytes};
    struct fi_rma_iov target = {.addr = to.address, .len = bytes, .key = to.key};
    void *desc = fi_mr_desc(local->mr);
    struct fi_msg_rma message = {
        .msg_iov = &part,
        .desc = &desc,
        .iov_count = 1,
        .rma_iov = &target,
        .rma_iov_count = 1,
        .context = (void *)(uintptr_t)tag,
    };

    return (int)fi_writemsg(link->ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

int aqf_poll(aqf_link *link, aqf_completion *completions, int max, int timeout_ms) {
    struct fi_cq_entry entries[64];
    size_t room = max < 64 ? (size_t)max : 64;
    ssize_t got = timeout_ms ? fi_cq_sread(link->cq, entries, room, NULL, timeout_ms) : fi_cq_read(link->cq, entries, room);

    if (got == -FI_EAVAIL) {
        struct fi_cq_err_entry failure = {0};

        got = fi_cq_readerr(link->cq, &failure, 0);
        if (got == -FI_EAGAIN)
            return 0;
        if (got < 0)
            return (int)got;
        completions[0].tag = (uint64_t)(uintptr_t)failure.op_context;
        completions[0].error = failure.err ? -failure.err : -EIO;
        return 1;
    }
    if (got == -FI_EAGAIN || got == -FI_ETIMEDOUT || got == -FI_EINTR)
        return 0;
    for (ssize_t i = 0; i < got; i++) {
        completions[i].tag = (uint64_t)(uintptr_t)entries[i].op_context;
        completions[i].error = 0;
    }
    return (int)got;
}
