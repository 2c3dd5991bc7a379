/* The part of libfabric that Aquifer uses: connected endpoints that read and write memory of the other side.
 *
 * Functions return 0, or a negative error: those of errno.h, or libfabric's own from 256 on. Handles are not for use by
 * several threads at once, but for aqf_read, aqf_write and aqf_poll of one link. */
#ifndef AQF_FABRIC_H
#define AQF_FABRIC_H

#include <stddef.h>
#include <stdint.h>

enum { AQF_TOKEN_BYTES = 32, AQF_NAME_BYTES = 64 };

typedef struct aqf_listener aqf_listener;
typedef struct aqf_request aqf_request;
typedef struct aqf_link aqf_link;
typedef struct aqf_region aqf_region;

/* What has ended. */
typedef struct aqf_completion {
    uint64_t tag;
    int error; /* 0, or as above. */
} aqf_completion;

/* Where a region is for the other side. */
typedef struct aqf_place {
    uint64_t address;
    uint64_t key;
} aqf_place;

/* Opens the library, once. -ENOENT if it is not installed. */
int aqf_load(void);
/* Major version << 16 | minor version, once the library is open. */
uint32_t aqf_version(void);
/* Writes a sentence of at most `bytes` bytes with its NUL. */
void aqf_explain(int error, char *text, size_t bytes);
/* Writes the names of the providers that can do this on this machine, each with a line feed behind it; what has no room in `bytes` bytes is cut. */
int aqf_providers(char *text, size_t bytes);

/* Port "0" is any that is free. */
int aqf_listen(const char *provider, const char *host, const char *port, aqf_listener **listener);
/* The port in host order. */
int aqf_listener_port(aqf_listener *listener, uint16_t *port);
/* Waits for somebody who wants to connect. -EAGAIN when the time is over. */
int aqf_next_request(aqf_listener *listener, int timeout_ms, aqf_request **request, unsigned char token[AQF_TOKEN_BYTES]);
/* Both end the request. */
int aqf_accept(aqf_listener *listener, aqf_request *request, int timeout_ms, aqf_link **link);
void aqf_reject(aqf_listener *listener, aqf_request *request);
void aqf_listener_close(aqf_listener *listener);

int aqf_connect(const char *provider, const char *host, const char *port, const unsigned char token[AQF_TOKEN_BYTES],
                int timeout_ms, aqf_link **link);
/* The provider in use. */
const char *aqf_link_provider(const aqf_link *link);
/* Whether the other side has closed it. */
int aqf_link_is_down(aqf_link *link);
/* Ends the link and releases its regions: from its return on nothing is read from or written to memory of this process. */
void aqf_link_close(aqf_link *link);

/* Memory for the other side to read and write, or else memory that this side reads into and writes from. `key` is a wish. */
int aqf_register(aqf_link *link, void *base, size_t bytes, int is_remote, uint64_t key, aqf_region **region);
aqf_place aqf_region_place(const aqf_region *region);
/* Takes one region out of the link. */
int aqf_release(aqf_region *region);

/* Begin a transfer; -EAGAIN when there is no room for more. Its end comes out of aqf_poll with its tag. A write has ended when it is in the memory of the
 * other side. */
int aqf_read(aqf_link *link, void *to, size_t bytes, aqf_region *local, aqf_place from, uint64_t tag);
int aqf_write(aqf_link *link, const void *from, size_t bytes, aqf_region *local, aqf_place to, uint64_t tag);
/* Moves transfers on, and says how many have ended, waiting for the first one for at most so long. Also moves on what the other side asks for. */
int aqf_poll(aqf_link *link, aqf_completion *completions, int max, int timeout_ms);

#endif
