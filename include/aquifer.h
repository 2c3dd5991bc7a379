/* aquifer.h - memory that reaches below RAM.
 *
 * Replace malloc by aq_malloc and the program's objects live in the fastest
 * tier that has room for them: a mapped page, a compact cache in RAM, flash.
 * Pointers are ordinary pointers; an object that is not in RAM is brought in
 * when it is touched.
 *
 *     #include <aquifer.h>
 *
 *     char *s = aq_malloc(100);      // opens the default heap on first use
 *     strcpy(s, "hello");
 *     aq_free(s);
 *
 * The default heap takes its settings from aq_init() or, without it, from the
 * environment: AQUIFER_RAM, AQUIFER_FLASH, AQUIFER_FLASH_SIZE,
 * AQUIFER_OBJECT_BYTES, AQUIFER_POLICY, AQUIFER_FAULTS, AQUIFER_SOCKET,
 * AQUIFER_DEVICE_PROFILE, AQUIFER_COMPRESS. Link with -laquifer.
 *
 * All functions may be called from any thread. None may be called from a
 * signal handler, but a signal handler may touch objects.
 *
 * Those objects are gone when the process ends. What stays is at the end of this
 * file: a heap whose objects stay, aq_durable_open(), and files on flash that can
 * be mapped as memory, aq_volume_open().
 */
#ifndef AQUIFER_H
#define AQUIFER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AQ_VERSION_MAJOR 0
#define AQ_VERSION_MINOR 2
#define AQ_VERSION_PATCH 0

/* ---- Errors ------------------------------------------------------------ */

/* Functions return 0 or one of these. aq_strerror() gives the sentence that
 * says what to do. */
enum aq_error {
    AQ_OK = 0,
    AQ_EINVAL = 1,       /* an argument makes no sense: zero, absurd, misaligned, overflow */
    AQ_ENOMEM = 2,       /* the heap is full: flash or address space is used up */
    AQ_EBUDGET_SMALL = 3,/* the RAM budget is below the minimum (AQ_RAM_MIN) */
    AQ_EBUDGET_LARGE = 4,/* the RAM budget is above what the machine has */
    AQ_EFLASH_MISSING = 5,  /* the flash path or its directory does not exist */
    AQ_EFLASH_SMALL = 6,    /* the flash file, device or size is too small */
    AQ_EFLASH_PERMISSION = 7, /* the flash path may not be read and written, or holds data */
    AQ_EFLASH_BUSY = 8,  /* another process or heap uses the flash path */
    AQ_EFLASH_FULL = 9,  /* the file system has no room to reserve the flash file */
    AQ_EKERNEL = 10,     /* the kernel is older than 6.8 or lacks a feature */
    AQ_EUFFD_FORBIDDEN = 11, /* userfaultfd may not be used here */
    AQ_EIO = 12,         /* the flash device reported an error */
    AQ_ECORRUPT = 13,    /* bytes on flash do not match their checksum */
    AQ_EFOREIGN = 14,    /* the pointer is not from this heap */
    AQ_EDOUBLE_FREE = 15,/* the object is not allocated */
    AQ_EPINNED = 16,     /* the object is pinned or in use, or too much is */
    AQ_EFORKED = 17,     /* this process was forked from one with open heaps */
    AQ_EOPEN = 18,       /* the default heap is already open */
    AQ_ECLOSED = 19,     /* the heap is not open */
    AQ_EINVARIANT = 20,  /* aq_check found a broken invariant */
    AQ_ECONFLICT = 21,   /* the transaction met another one: abort it, run it again */
    AQ_ENOTALLOCATED = 22, /* no object is there: the reference is wrong, or it was freed */
    AQ_EFORMAT = 23,     /* the file is no durable heap or volume, or of a version not known */
    AQ_EABORTED = 24,    /* a nested transaction was aborted, and the whole with it */
    AQ_EBUSY = 25,       /* a transaction is under way, or a file is open or mapped; end it first */
    /* of files in volumes, and the first one of maps, trees and queues */
    AQ_ENOTFOUND = 26,   /* no such file, folder or key */
    AQ_EEXISTS = 27,     /* the name exists already */
    AQ_ENOTFOLDER = 28,  /* a part of the path is no folder */
    AQ_EISFOLDER = 29,   /* it is a folder */
    AQ_ENOTEMPTY = 30,   /* the folder has entries */
    AQ_ENAME = 31,       /* not possible as a name or path: empty, '.' or '..', too long */
    AQ_EPERMISSION = 32, /* mode and owner forbid it, or the way in which the file was opened */
    AQ_ETOOLARGE = 33,   /* a file has at most AQ_FILE_BYTES_MAX */
    AQ_ELINKS = 34,      /* too many names of a file, or symbolic links in a path */
    AQ_ENOSPACE = 35,    /* the volume is full */
    AQ_EREADONLY = 36,   /* the volume, heap or transaction was opened to read only */
    AQ_EGONE = 37,       /* the process that has the volume is gone, or the machines that lend RAM */
    AQ_EWRONGTYPE = 38,  /* a named root is of another type, or no map, tree or queue is there */
    AQ_EROOM = 39        /* the buffer is smaller than what there is */
};

/* The sentence for an error; never NULL. The most specific message of the
 * calling thread's last failure is in aq_error_message(). */
const char *aq_strerror(int error);

/* What exactly failed last in this thread and what to do about it: names the
 * path, the size, the limit. Valid until the thread's next call. */
const char *aq_error_message(void);

/* Its number, for functions that return NULL; AQ_OK if nothing has failed. */
int aq_error_code(void);

/* "0.2.0" */
const char *aq_version(void);

/* ---- Options ----------------------------------------------------------- */

#define AQ_RAM_MIN (8u << 20)         /* bytes */
#define AQ_OBJECT_BYTES_MAX (1ull << 30)

enum aq_faults {
    AQ_FAULTS_SIGNAL = 0, /* in the faulting thread, by SIGBUS: fastest */
    AQ_FAULTS_THREAD = 1, /* in a thread of the library: system calls may
                             be given absent pages */
    AQ_FAULTS_FENCE = 2   /* in the faulting thread, by SIGSEGV: three times slower,
                             where userfaultfd is refused */
};

enum aq_policy {
    AQ_POLICY_CLOCK = 0,
    AQ_POLICY_LRU = 1,
    AQ_POLICY_S3FIFO = 2,
    AQ_POLICY_SIEVE = 3
};

enum aq_compression {
    AQ_COMPRESS_NEVER = 0,
    AQ_COMPRESS_ALWAYS = 1, /* whole pages that leave RAM, if they shrink to three quarters,
                               stay there compressed while there is room */
    AQ_COMPRESS_AUTO = 2    /* the same, while that saves more time than it costs, and
                               processors have some left */
};

/* Structures begin with their size. Later versions add fields at the end, and an older
 * program works with them: nothing is read or written behind its own structure.
 *
 * Fill with aq_options_init(&options, sizeof options) first. A zero or NULL field means
 * the default. AQ_EINVAL: it was not filled, or has something in a field that is newer
 * than the library. */
typedef struct aq_options {
    size_t struct_bytes;     /* set by aq_options_init */
    uint64_t ram_bytes;      /* everything the heap keeps in RAM; default 256 MiB */
    const char *flash_path;  /* file, block device or directory; default: an
                                unnamed file in $TMPDIR or /var/tmp */
    uint64_t flash_bytes;    /* size of the flash file; default 8 GiB; for a
                                block device: the part that is used, 0 = all */
    int faults;              /* enum aq_faults */
    int policy;              /* enum aq_policy */
    const char *socket_path; /* where `aquifer stats` finds this heap; NULL: nowhere */
    uint64_t object_bytes;   /* the size that most objects have, by which RAM is divided;
                                default 128; 4096 for a heap of aq_page_malloc */
    const char *device_profile_path; /* settings for the flash, as `aquifer advise
                                --write-profile` makes them; NULL: none */
    int compression;         /* enum aq_compression */
} aq_options;

/* Makes all of the options 0, and sets struct_bytes. */
void aq_options_init(aq_options *options, size_t struct_bytes);

/* ---- The default heap -------------------------------------------------- */

/* Opens the default heap. Optional: the first allocation does it too, with the
 * settings of the environment. options may be NULL. */
int aq_init(const aq_options *options);

/* Closes the default heap; all its objects are gone. */
int aq_shutdown(void);

/* size bytes whose contents are undefined, or NULL (see aq_error_message).
 * size 0 gives a pointer to a one-byte object. Aligned to 4096. */
void *aq_malloc(size_t size);

/* Zeroed; costs no flash or RAM until written. */
void *aq_calloc(size_t count, size_t size);

/* As realloc. On NULL the old object is untouched. */
void *aq_realloc(void *object, size_t size);

/* Frees: at once in RAM, and on flash together with others, at the latest when
 * room is wanted. Unlike free(), it says when the pointer is wrong: AQ_EFOREIGN (pointers of libc are left alone), AQ_EDOUBLE_FREE. */
int aq_free(void *object);

/* count zeroed objects of size bytes each (1 to 4096), each on a page of its
 * own: element i is at base + i * *stride_bytes. Freed by aq_free(base). */
void *aq_array(size_t count, size_t size, size_t *stride_bytes);

/* Blocks that share pages, as those of malloc do: for objects of a page and
 * more, and for small ones that are used together. RAM and flash keep pages of
 * 4096 bytes with all that is on them. Aligned to 16; freed by aq_free. */
void *aq_page_malloc(size_t size);
void *aq_page_calloc(size_t count, size_t size);
void *aq_page_realloc(void *block, size_t size);
/* alignment is a power of two. */
void *aq_page_memalign(size_t alignment, size_t size);

/* Bytes that may be used at object; 0 for foreign pointers. */
size_t aq_usable_size(const void *object);

/* Brings count objects into RAM with all reads under way at once. A hint: NULL
 * is skipped, as is what finds no room. If pointers are not the heap's it brings
 * in the others and then gives AQ_EFOREIGN; the message says how many they were. */
int aq_prefetch(void *const *objects, size_t count);

/* ---- Classes: objects that live and die together ------------------------ */

#define AQ_CLASS_MAX 255

/* Objects and arrays that the calling thread allocates from now on, in any heap,
 * are of this class: 0 (the default) to AQ_CLASS_MAX, else AQ_EINVAL. Objects of
 * different classes never share one of the units of 512 pages that are written
 * together, and as far as the log has room to spare no segment of it, so that
 * what is freed together leaves nothing to be moved. An object keeps its class,
 * also when aq_realloc moves it. Blocks of aq_page_malloc have no class. Classes
 * that are not used cost nothing. */
int aq_set_class(unsigned number);

/* The calling thread's class. */
unsigned aq_class(void);

/* ---- References: no fault, no copy ------------------------------------- */

/* The number of an object: the same for as long as it lives. */
typedef uint64_t aq_ref;
#define AQ_REF_NULL 0

enum aq_intent {
    AQ_READ = 0,
    AQ_WRITE = 1
};

/* AQ_REF_NULL if the address is not the heap's. */
aq_ref aq_ref_of(const void *object);

/* The bytes of an object where they are in RAM, until aq_release; they are
 * brought there if need be. NULL on failure. Uses nest, also of different
 * threads; every aq_deref needs its aq_release. All uses of an object and its
 * address are the same bytes. While an object is in use, an access to its
 * address waits for the release: a thread that uses an object must not touch
 * its address. Threads that write take turns by locks of their own. */
void *aq_deref(aq_ref object, int intent);
int aq_release(aq_ref object);

/* ---- Batches: one thread, the whole device ------------------------------ */

typedef struct aq_item {
    void *object;  /* an address in the heap, also within an object */
    void *memory;  /* the program's memory; if it is a heap's, a copy of it is made */
    size_t bytes;
} aq_item;

/* Copies objects to memory, or memory to objects: what is not in RAM is read
 * with many reads under way at once, in the order of addresses, and each page
 * once. On failure some of the items may have been copied. */
int aq_read_batch(const aq_item *items, size_t count);
int aq_write_batch(const aq_item *items, size_t count);

/* The same in the background. *result is -1 until the batch has ended, then its
 * code; after that 1 is added to the eventfd, unless it is -1. Items, memory
 * and result stay untouched until then. */
int aq_batch_start(const aq_item *items, size_t count, int write, int eventfd, int *result);

/* ---- Hints --------------------------------------------------------------- */

enum aq_hint {
    AQ_WILLNEED = 0,   /* soon: brought into RAM, as far as there is room */
    AQ_SEQUENTIAL = 1, /* from one end to the other: read ahead from the first faults on */
    AQ_RANDOM = 2,     /* in no order: nothing is read ahead */
    AQ_COLD = 3        /* not soon: leaves RAM before others */
};

/* How the memory of bytes from address will be used. Nothing depends on it but
 * speed. AQ_SEQUENTIAL and AQ_RANDOM hold for whole ranges of 2 MiB. */
int aq_advise(const void *address, size_t bytes, int hint);

/* ---- Pins --------------------------------------------------------------- */

/* Keeps the pages of [address, address + bytes) mapped and writable until
 * aq_unpin, so that system calls can use them. Pins nest. */
int aq_pin(void *address, size_t bytes);
int aq_unpin(void *address, size_t bytes);

/* ---- Statistics -------------------------------------------------------- */

typedef struct aq_stats {
    size_t struct_bytes;          /* set by the caller to sizeof(aq_stats) */
    uint64_t ram_budget_bytes;
    uint64_t ram_used_bytes;      /* mapped pages, cache, tables, buffers, page tables */
    uint64_t metadata_bytes;      /* of these: entries, leaves, slot headers, bitmaps, segments */
    uint64_t page_buffer_bytes;   /* mapped pages */
    uint64_t page_table_bytes;    /* the kernel's page tables for them */
    uint64_t cache_bytes;         /* slabs of the object cache */
    uint64_t cache_objects;
    uint64_t objects;             /* allocated */
    uint64_t object_bytes;        /* allocated, rounded to size classes */
    uint64_t flash_bytes;
    uint64_t flash_live_bytes;    /* records that are still needed */
    uint64_t faults;
    uint64_t faults_write_upgrade;/* first write to a page that was read before */
    uint64_t hits;                /* faults served from the object cache */
    uint64_t misses;              /* faults that read flash */
    uint64_t zero_fills;          /* faults on objects never written */
    uint64_t evicted_pages;
    uint64_t evicted_objects;
    uint64_t device_reads, device_read_bytes;
    uint64_t device_writes, device_written_bytes;
    uint64_t objects_written;     /* records by the writer, and their payload */
    uint64_t objects_written_bytes;
    uint64_t objects_cleaned;     /* records copied by the cleaner, and their payload */
    uint64_t objects_cleaned_bytes;
    uint64_t leaves_written, leaves_written_bytes;
    uint64_t leaves_read;
    uint64_t segments_cleaned;
    uint64_t writer_waits;        /* times an allocation in the cache waited for the writer */
    uint64_t io_errors;
    uint64_t flash_wait_ns;       /* nanoseconds that threads waited for flash, and for room in RAM */
    uint64_t process_ram_bytes;   /* anonymous memory and page tables of the process */
    uint64_t group_used_bytes;    /* of its tightest memory cgroup, kernel memory included; 0 without a limit */
    uint64_t group_limit_bytes;
    uint64_t decompressed;        /* faults served by decompressing a page */
    uint64_t compressed, compressed_bytes; /* pages that were compressed, and what they took then */
    uint64_t incompressible;      /* pages that did not shrink when that was tried */
} aq_stats;

int aq_stats_get(aq_stats *stats);

/* Proves on the live heap that entries, slots, pages and log agree. Other
 * threads must not use the heap meanwhile. AQ_OK or AQ_EINVARIANT. */
int aq_check(void);

/* ---- Explicit heaps ---------------------------------------------------- */

typedef struct aq_heap aq_heap;

/* *heap is set on success only. */
int aq_heap_open(const aq_options *options, aq_heap **heap);
int aq_heap_close(aq_heap *heap);
void *aq_heap_malloc(aq_heap *heap, size_t size);
void *aq_heap_calloc(aq_heap *heap, size_t count, size_t size);
void *aq_heap_realloc(aq_heap *heap, void *object, size_t size);
int aq_heap_free(aq_heap *heap, void *object);
void *aq_heap_array(aq_heap *heap, size_t count, size_t size, size_t *stride_bytes);
void *aq_heap_page_malloc(aq_heap *heap, size_t size);
void *aq_heap_page_calloc(aq_heap *heap, size_t count, size_t size);
void *aq_heap_page_realloc(aq_heap *heap, void *block, size_t size);
void *aq_heap_page_memalign(aq_heap *heap, size_t alignment, size_t size);
size_t aq_heap_usable_size(aq_heap *heap, const void *object);
int aq_heap_prefetch(aq_heap *heap, void *const *objects, size_t count);
aq_ref aq_heap_ref_of(aq_heap *heap, const void *object);
void *aq_heap_deref(aq_heap *heap, aq_ref object, int intent);
int aq_heap_release(aq_heap *heap, aq_ref object);
int aq_heap_read_batch(aq_heap *heap, const aq_item *items, size_t count);
int aq_heap_write_batch(aq_heap *heap, const aq_item *items, size_t count);
int aq_heap_batch_start(aq_heap *heap, const aq_item *items, size_t count, int write, int eventfd,
                        int *result);
int aq_heap_advise(aq_heap *heap, const void *address, size_t bytes, int hint);
int aq_heap_pin(aq_heap *heap, void *address, size_t bytes);
int aq_heap_unpin(aq_heap *heap, void *address, size_t bytes);
int aq_heap_stats_get(aq_heap *heap, aq_stats *stats);
int aq_heap_check(aq_heap *heap);

/* ---- The durable heap --------------------------------------------------- */

/* A heap of its own in a file, whose objects survive the end of the program,
 * kill -9 and, on a disk or on persistent memory, the loss of power. It is read
 * and changed in transactions: all of one happens, or nothing of it.
 *
 *     int increment(aq_durable *heap, aq_durable_ref counter)
 *     {
 *         int error;
 *         do {
 *             aq_tx *tx;
 *             uint64_t n;
 *             if ((error = aq_tx_begin(heap, &tx)) != AQ_OK)
 *                 return error;
 *             error = aq_tx_load_u64(tx, counter, 0, &n);
 *             if (error == AQ_OK)
 *                 error = aq_tx_store_u64(tx, counter, 0, n + 1);
 *             if (error == AQ_OK)
 *                 error = aq_tx_commit(tx);    // durable when this gives AQ_OK
 *             else
 *                 aq_tx_abort(tx);
 *         } while (error == AQ_ECONFLICT);     // met another thread's
 *         return error;
 *     }
 *
 * Durability: a transaction is durable when its aq_tx_commit returns AQ_OK, and
 * no other one sees it before. After a crash the heap holds every transaction
 * that was acknowledged so, and of each other one all or nothing. */
typedef struct aq_durable aq_durable;
typedef struct aq_tx aq_tx;

/* An object: the same number for as long as it lives, in every process that
 * opens the file, so that objects can refer to each other. Not an aq_ref. */
typedef uint64_t aq_durable_ref;
#define AQ_DURABLE_NULL 0
#define AQ_DURABLE_OBJECT_BYTES_MAX (16u << 20)

enum aq_backing {
    AQ_BACKING_DETECT = 0, /* AQ_BACKING_MEMORY on persistent memory (DAX), and on tmpfs,
                              but there caches are not flushed: what is stored survives
                              the process, and nothing the machine; else AQ_BACKING_FLASH */
    AQ_BACKING_MEMORY = 1, /* durable is what was stored and fenced. On a disk it survives
                              the process, not the machine */
    AQ_BACKING_FLASH = 2   /* durable is what fdatasync has written; threads that commit
                              at the same time share one */
};

/* When a commit is durable. A crash of the machine leaves a prefix of the commits in each case. */
enum aq_durability {
    AQ_DURABLE_SYNC = 0,   /* when aq_tx_commit returns */
    AQ_DURABLE_GROUP = 1,  /* about group_us later: a thread makes all durable at intervals */
    AQ_DURABLE_RELAXED = 2 /* after the next aq_durable_sync, or aq_durable_close */
};

/* Fill with aq_durable_options_init(&options, sizeof options) first. A zero field means
 * the default. */
typedef struct aq_durable_options {
    size_t struct_bytes;     /* set by aq_durable_options_init */
    uint64_t capacity_bytes; /* how large the file may become; default 1 GiB, at most 4 TiB, at
                                least 12 chunks. It grows as needed, and may be given anew
                                each time */
    uint64_t chunk_bytes;    /* when the file is made: size of what is cleaned at a time, a power
                                of two from 64 KiB to 16 MiB; a file has 2^20 of them at most;
                                default 1 MiB, more if the capacity is over 256 GiB */
    uint32_t utilisation_percent; /* the file grows only while at least this share of it is
                                objects, else it is cleaned; 5 to 95, default 85 */
    int backing;             /* enum aq_backing */
    int durability;          /* enum aq_durability */
    uint32_t group_us;       /* of AQ_DURABLE_GROUP: between two groups; default 10000 */
    uint64_t checkpoint_bytes; /* a checkpoint of the address map is written when about so many
                                bytes were appended since the last one, and by aq_durable_close:
                                opening takes a fraction of the time then, and what it does not
                                read is verified before it is loaded, or by and by. Default: none */
    int read_only;           /* not 0: nothing can be changed, and nothing is written; other
                                processes may open it so at the same time. The file must be there;
                                of the other fields only socket_path counts */
    const char *socket_path; /* where `aquifer stats`, `top` and `export` ask; default: nowhere */
} aq_durable_options;

void aq_durable_options_init(aq_durable_options *options, size_t struct_bytes);

/* Opens the heap in the file at path, or makes an empty one. options may be NULL.
 * *heap is set on success only. Nobody else can open the file meanwhile, unless
 * all open it with read_only, and nobody may change it. Reads the whole file, with all processors.
 * AQ_EFLASH_MISSING, AQ_EFLASH_PERMISSION, AQ_EFLASH_BUSY: the path does not
 * exist, may not be used, is in use. AQ_EFORMAT: it is something else.
 * AQ_ECORRUPT: it is damaged at the byte that the message names; `aquifer durable
 * dump` shows what is left. The file is as it was then. */
int aq_durable_open(const char *path, const aq_durable_options *options, aq_durable **heap);

/* Makes all durable that has committed before this call, and returns when it is; at once
 * with AQ_DURABLE_SYNC. AQ_EIO: nothing more is durable then, and every later commit and
 * sync fails so until the heap is opened again; what is there can be read. */
int aq_durable_sync(aq_durable *heap);

/* Closes the heap; what was committed is durable, and stays in the file. AQ_EBUSY, and it is open
 * as before, if any thread has a transaction on it. AQ_EIO: it is closed, and what was not durable
 * before may be lost. */
int aq_durable_close(aq_durable *heap);

typedef struct aq_durable_stats {
    size_t struct_bytes;      /* set by the caller to sizeof(aq_durable_stats) */
    uint64_t capacity_bytes;  /* how large the file may become */
    uint64_t file_bytes;      /* memory of the file's chunks, free ones included */
    uint64_t live_bytes;      /* of these: bytes of objects */
    uint64_t map_bytes;       /* RAM of the address map */
    uint64_t fences;          /* waits for durability since it was opened */
    uint64_t written_bytes;   /* made durable since it was opened */
} aq_durable_stats;

int aq_durable_stats_get(aq_durable *heap, aq_durable_stats *stats);

/* Begins a transaction; *tx is set on success only. It belongs to the thread that
 * began it, and can be used by no other one (AQ_EINVAL). All that it reads is of
 * one moment between its begin and its end, and includes its own writes. It locks
 * nothing, but 64 can be under way on a heap at a time: aq_tx_begin waits for one
 * of them to end then, so end them soon.
 *
 * Nested: if the thread has a transaction on this heap already, *tx is the same
 * one. Each begin needs its commit or abort. An inner aq_tx_commit ends its level
 * and makes nothing durable; an inner aq_tx_abort dooms the whole: everything that
 * follows in it, and the outer aq_tx_commit, gives AQ_EABORTED.
 *
 * After an error of any of the functions below, the transaction can only be
 * aborted: the functions, aq_tx_commit included, give the same error again. So a
 * step that is not checked does no harm. */
int aq_tx_begin(aq_durable *heap, aq_tx **tx);

/* The same, of a transaction that only reads: all that would change something
 * gives AQ_EREADONLY, and its commit costs nothing. So do all transactions of a
 * heap that was opened with read_only. Nested, it forbids changes until its level
 * ends; what is nested in it only reads too. */
int aq_tx_begin_read(aq_durable *heap, aq_tx **tx);

/* Begins a transaction, calls body with it and with argument, and commits. If the
 * transaction met another one, body is called again, in a new one: so body should
 * have no other effects that count twice. The example above is then
 *
 *     static int add_one(aq_tx *tx, void *counter)
 *     {
 *         uint64_t n;
 *         aq_tx_load_u64(tx, *(aq_durable_ref *)counter, 0, &n);
 *         return aq_tx_store_u64(tx, *(aq_durable_ref *)counter, 0, n + 1);
 *     }
 *     error = aq_durable_run(heap, add_one, &counter);
 *
 * If body returns something else than 0, the transaction is aborted, and that is
 * returned as it is; but after AQ_ECONFLICT, returned by body or given to it by
 * any function, body is called again. Return an aq_error, or for purposes of the
 * program a negative number: there are no negative errors. body leaves tx as it
 * was begun, returns, and does not jump or throw out.
 *
 * Nested in a transaction of the thread, body is called once, in that one: what
 * aborts then dooms the whole, and AQ_ECONFLICT is for the outermost to act on. */
int aq_durable_run(aq_durable *heap, int (*body)(aq_tx *tx, void *argument), void *argument);

/* Makes all of it durable, and then visible, at once. Whatever it returns, this
 * level has ended; if it was the outermost one, tx is gone, and after an error
 * nothing has happened. AQ_ECONFLICT: run it again. AQ_ENOTALLOCATED: it stored to
 * an object that another one has freed meanwhile. AQ_ENOMEM: the file has reached its capacity,
 * AQ_EFLASH_FULL: the file system is full; transactions that only free still
 * succeed. AQ_EIO: the device failed; nothing more can be committed, and whether this
 * has happened is known when the heap has been opened again. */
int aq_tx_commit(aq_tx *tx);

/* Ends the transaction, and nothing of it has happened. A thread that ends, and a
 * process, does that with what it has begun. */
int aq_tx_abort(aq_tx *tx);

/* A new object of bytes, all zeros, at most AQ_DURABLE_OBJECT_BYTES_MAX; 0 bytes
 * count as 1. Its reference is a multiple of 4. It exists if the transaction commits.
 * AQ_ENOMEM, AQ_EINVAL. */
int aq_tx_alloc(aq_tx *tx, size_t bytes, aq_durable_ref *object);

/* AQ_ENOTALLOCATED if no object begins there. AQ_DURABLE_NULL is allowed. */
int aq_tx_free(aq_tx *tx, aq_durable_ref object);

/* *bytes is what the object was allocated with, rounded up to a multiple of 4.
 * AQ_ENOTALLOCATED. */
int aq_tx_size(aq_tx *tx, aq_durable_ref object, uint64_t *bytes);

/* *next is the first object behind after, in the order of references; after and
 * *next may be AQ_DURABLE_NULL, which stands before the first and behind the last
 * one. So a program finds objects that nothing leads to any more. All that this
 * transaction sees are among them, also those that maps, trees, queues and the
 * named roots are made of. */
int aq_tx_next(aq_tx *tx, aq_durable_ref after, aq_durable_ref *next);

/* Copies bytes between an object, from byte offset on, and the program's memory.
 * AQ_ENOTALLOCATED: no object begins at the reference, or it does not have all of
 * these bytes; nothing was stored. What was loaded into buffer before an error is
 * undefined. AQ_ECONFLICT. */
int aq_tx_load(aq_tx *tx, aq_durable_ref object, uint64_t offset, void *buffer, size_t bytes);
int aq_tx_store(aq_tx *tx, aq_durable_ref object, uint64_t offset, const void *buffer, size_t bytes);

/* The same for a number in the byte order of this machine; fastest if object and
 * offset are multiples of 4. *value is set on success only. */
int aq_tx_load_u64(aq_tx *tx, aq_durable_ref object, uint64_t offset, uint64_t *value);
int aq_tx_store_u64(aq_tx *tx, aq_durable_ref object, uint64_t offset, uint64_t value);

/* The program's first object, through which it finds all others; AQ_DURABLE_NULL
 * in a new heap. */
int aq_tx_root(aq_tx *tx, aq_durable_ref *root);
int aq_tx_set_root(aq_tx *tx, aq_durable_ref root);

/* Roots with names, of 1 to AQ_ROOT_NAME_BYTES_MAX bytes, and with the names of
 * their types, which the program chooses. type may be NULL or "", which is any type:
 * else AQ_EWRONGTYPE if the root was set with another one; the message names both.
 * *root is AQ_DURABLE_NULL if there is no such name; setting a root to that takes
 * the name away, which the object outlives. AQ_ENAME: the name or type cannot be.
 * AQ_ENOTALLOCATED: no object begins at root. */
#define AQ_ROOT_NAME_BYTES_MAX 255
int aq_tx_root_named(aq_tx *tx, const char *name, const char *type, aq_durable_ref *root);
int aq_tx_set_root_named(aq_tx *tx, const char *name, const char *type, aq_durable_ref root);

/* The first root whose name is behind after, in the order of bytes; NULL or "" is
 * before all, and *root is AQ_DURABLE_NULL behind the last one. name and type, which
 * may be NULL, have room for AQ_ROOT_NAME_BYTES_MAX + 1 bytes; name may be after. */
int aq_tx_next_root(aq_tx *tx, const char *after, char *name, char *type, aq_durable_ref *root);

/* ---- Maps, trees and queues in a durable heap */

/* Keys have 0 to AQ_KEY_BYTES_MAX bytes, values 0 to AQ_VALUE_BYTES_MAX, all of any
 * value. Changes of different keys by several threads seldom conflict. The reference
 * that a structure is created with stands for it: keep it in a named root, or in
 * another object. What else belongs to the structure is its own.
 *
 *     char text[100];
 *     aq_bytes value = {text, sizeof text, 0};
 *     aq_map_put(tx, map, "tea", 3, "Assam", 5);
 *     if (aq_map_get(tx, map, "tea", 3, &value) == AQ_OK)
 *         fwrite(text, 1, value.count, stdout);
 *
 * Two answers are no errors of the transaction, which goes on: AQ_ENOTFOUND, there is
 * no such key, or nothing behind it; and AQ_EROOM, below. Errors are AQ_EINVAL for
 * more bytes than a key or value may have, AQ_EWRONGTYPE for a reference of something
 * else, and those of aq_tx_load, aq_tx_store and aq_tx_alloc. */
#define AQ_KEY_BYTES_MAX 65535
#define AQ_VALUE_BYTES_MAX (15u << 20)

/* Room of the program for a key or a value. count is set to how many bytes it has.
 * If that is more than room, the answer is AQ_EROOM, and nothing is copied: so with
 * room 0, where bytes may be NULL, one asks how many they are. Only a key that is
 * given, for the one behind it, stays as it is then; the message tells the size.
 * NULL in place of an aq_bytes: it is not wanted. */
typedef struct aq_bytes {
    void *bytes;
    size_t room;
    size_t count;
} aq_bytes;

/* A map: keys in no order. destroy frees it with all that is in it; nothing may use
 * the reference afterwards. put gives a key a value, in place of an earlier one.
 * remove gives AQ_ENOTFOUND if the key is not there. A transaction that asks for the
 * count conflicts with all that add or remove keys. */
int aq_map_create(aq_tx *tx, aq_durable_ref *map);
int aq_map_destroy(aq_tx *tx, aq_durable_ref map);
int aq_map_put(aq_tx *tx, aq_durable_ref map, const void *key, size_t key_bytes, const void *value, size_t value_bytes);
int aq_map_get(aq_tx *tx, aq_durable_ref map, const void *key, size_t key_bytes, aq_bytes *value);
int aq_map_remove(aq_tx *tx, aq_durable_ref map, const void *key, size_t key_bytes);
int aq_map_count(aq_tx *tx, aq_durable_ref map, uint64_t *count);

/* Walks a map: next goes on behind the key in *key, which need not be there any more,
 * and puts the one that it finds in its place. Also over many transactions, and while
 * keys come and go: each key that is there all the time is found once.
 *
 *     for (error = aq_map_first(tx, map, &key, &value); error == AQ_OK;
 *          error = aq_map_next(tx, map, &key, &value)) ...
 *     // AQ_ENOTFOUND: that was all */
int aq_map_first(aq_tx *tx, aq_durable_ref map, aq_bytes *key, aq_bytes *value);
int aq_map_next(aq_tx *tx, aq_durable_ref map, aq_bytes *key, aq_bytes *value);

/* A tree: the same with keys in the order of their bytes, as memcmp compares them; a
 * key that another one begins with is before it. seek finds the first key that is
 * *key or behind it. previous goes on before *key. */
int aq_tree_create(aq_tx *tx, aq_durable_ref *tree);
int aq_tree_destroy(aq_tx *tx, aq_durable_ref tree);
int aq_tree_put(aq_tx *tx, aq_durable_ref tree, const void *key, size_t key_bytes, const void *value, size_t value_bytes);
int aq_tree_get(aq_tx *tx, aq_durable_ref tree, const void *key, size_t key_bytes, aq_bytes *value);
int aq_tree_remove(aq_tx *tx, aq_durable_ref tree, const void *key, size_t key_bytes);
int aq_tree_count(aq_tx *tx, aq_durable_ref tree, uint64_t *count);
int aq_tree_first(aq_tx *tx, aq_durable_ref tree, aq_bytes *key, aq_bytes *value);
int aq_tree_last(aq_tx *tx, aq_durable_ref tree, aq_bytes *key, aq_bytes *value);
int aq_tree_seek(aq_tx *tx, aq_durable_ref tree, aq_bytes *key, aq_bytes *value);
int aq_tree_next(aq_tx *tx, aq_durable_ref tree, aq_bytes *key, aq_bytes *value);
int aq_tree_previous(aq_tx *tx, aq_durable_ref tree, aq_bytes *key, aq_bytes *value);

/* A queue: first in, first out. front and pop give AQ_ENOTFOUND if it is empty; after
 * AQ_EROOM pop has taken nothing. at gives the value n places behind the front; behind
 * the last one, AQ_ENOTFOUND. Pushes conflict with pushes and pops with pops; the
 * two meet when it is nearly empty. */
int aq_queue_create(aq_tx *tx, aq_durable_ref *queue);
int aq_queue_destroy(aq_tx *tx, aq_durable_ref queue);
int aq_queue_push(aq_tx *tx, aq_durable_ref queue, const void *value, size_t value_bytes);
int aq_queue_front(aq_tx *tx, aq_durable_ref queue, aq_bytes *value);
int aq_queue_at(aq_tx *tx, aq_durable_ref queue, uint64_t n, aq_bytes *value);
int aq_queue_pop(aq_tx *tx, aq_durable_ref queue, aq_bytes *value);
int aq_queue_count(aq_tx *tx, aq_durable_ref queue, uint64_t *count);

/* ---- Volumes: files on flash, also as memory ------------------------------ */

/* A file system of its own on a file or block device, in this process. A file is
 * read and written by calls, or mapped: then its bytes are ordinary memory, of
 * which a part is in RAM, and a fault goes from the address straight to flash.
 *
 *     aq_volume *volume;
 *     aq_file *file;
 *     void *address;
 *     if (aq_volume_open("/var/lib/program/volume", NULL, &volume) == AQ_OK &&
 *         aq_file_open(volume, "/table", AQ_OPEN_READ | AQ_OPEN_WRITE, 0, &file) == AQ_OK &&
 *         aq_file_map(file, 0, bytes, AQ_MAP_READ | AQ_MAP_WRITE, &address) == AQ_OK) {
 *         ((struct row *)address)[7].visits++;
 *         aq_volume_sync(volume);            // durable now, whatever happens next
 *     }
 *
 * Durability: what was changed before aq_volume_sync(), by calls or by stores to
 * mapped memory, is durable when it returns AQ_OK. After a crash the volume is as
 * it was at one moment, all files and folders together: that of the last sync, or
 * a later one. A later one, because changes also go to flash unasked, every five
 * seconds and when RAM is full of them, by a thread that takes no signals; of the stores of each thread it has all up to some point, in their
 * order, and none behind it.
 *
 * Names: paths begin in the volume's first folder, with or without a slash in
 * front; "." and ".." and symbolic links are followed, and none leads out of the
 * volume. A path has at most 4095 bytes, a name 255, of any value but '/' and 0.
 *
 * Rights: modes, owners and groups count as in Linux, for the user and groups
 * that this process had when it opened the volume (the effective ones; user 0 may
 * do all). They do not protect the volume's own file, so give that a mode.
 *
 * Besides what is said below, all functions return AQ_EINVAL for NULL, AQ_EFORKED
 * in a child of the process that opened the volume, AQ_EREADONLY for changes of a
 * volume that was opened so, AQ_ENOSPACE when it is full, AQ_ECORRUPT for bytes on
 * flash that are not what was written, and AQ_EIO when the device failed: nothing
 * more is written then, and what was synced can still be read. Those with a path
 * return AQ_ENOTFOUND, AQ_ENOTFOLDER, AQ_ENAME, AQ_ELINKS, AQ_EPERMISSION. */
typedef struct aq_volume aq_volume;
typedef struct aq_file aq_file;

#define AQ_VOLUME_RAM_MIN (1u << 20)     /* bytes */
#define AQ_FILE_BYTES_MAX (1ull << 44)   /* 16 TiB */
#define AQ_FILE_PAGE_BYTES 4096

/* Makes an empty volume in the file or on the block device at path, which is all
 * its own. WHAT IT HELD IS LOST. A file is made if it is missing; size_bytes is
 * its size, and for a block device the part that is used, 0 for all of it.
 * segment_bytes is what is written and cleaned at once: a power of two from 32 KiB
 * to 64 MiB, at most a sixteenth of the size; 0 chooses. The first folder belongs
 * to this process's user. Durable when this returns.
 * AQ_EFLASH_MISSING, AQ_EFLASH_PERMISSION, AQ_EFLASH_SMALL, AQ_EFLASH_BUSY,
 * AQ_EFLASH_FULL: the path. AQ_EINVAL: the sizes. */
int aq_volume_create(const char *path, uint64_t size_bytes, uint64_t segment_bytes);

/* Fill with aq_volume_options_init(&options, sizeof options) first. A zero field means
 * the default. */
typedef struct aq_volume_options {
    size_t struct_bytes; /* set by aq_volume_options_init */
    uint64_t ram_bytes;  /* for pages, mapped ones included, and for the table; default
                            64 MiB, at least AQ_VOLUME_RAM_MIN */
    int read_only;       /* not 0: nothing can be changed, and nothing is written */
    const char *socket_path; /* where `aquifer stats`, `top` and `export` ask; default: nowhere */
} aq_volume_options;

void aq_volume_options_init(aq_volume_options *options, size_t struct_bytes);

/* Opens the volume at path. options may be NULL. *volume is set on success only.
 * Nobody else can open it meanwhile. AQ_EFLASH_MISSING, AQ_EFLASH_PERMISSION,
 * AQ_EFLASH_BUSY: the path does not exist, may not be used, is in use. AQ_EFORMAT:
 * it is something else. AQ_ECORRUPT: it is damaged. */
int aq_volume_open(const char *path, const aq_volume_options *options, aq_volume **volume);

/* As aq_volume_open(), of a volume that another process has: `aquifer volume serve`,
 * which listens at the socket at socket_path. All functions with an aq_volume or an
 * aq_file then work as for a volume that this process has opened, through the
 * owner: pages that several processes have mapped are in RAM once, what one stores
 * the others load. The owner takes user and groups from the kernel. Differences:
 *
 *   - aq_volume_check() is refused with AQ_EPERMISSION: the owner's matter.
 *   - aq_file_append(), and writes of a file opened with AQ_OPEN_APPEND, take at
 *     most 4 MiB, else AQ_EINVAL. Of other reads and writes 64 KiB are one step.
 *   - Memory of a file that was not opened with AQ_OPEN_WRITE cannot be made
 *     writable, whatever this process tries.
 *   - When the owner is gone, calls return AQ_EGONE, accesses to mapped files raise
 *     SIGBUS without a line on standard error, and what was not synced may be lost.
 *     Unmap and close what there was, and connect again.
 *   - aq_volume_close() makes durable and ends the connection; the volume stays open.
 *
 * AQ_EFLASH_MISSING, AQ_EFLASH_PERMISSION: the socket does not exist, may not be
 * used. AQ_EGONE: nobody listens at it. AQ_EFORMAT: the owner is of another version,
 * or something else listens there. AQ_ENAME: the path is too long for a socket.
 * AQ_ENOMEM: the owner has as many clients, or this one as many files, as can be.
 * Calls on the volume say the same when all programs of this user have as many open
 * files or mappings as a user may. */
int aq_volume_connect(const char *socket_path, aq_volume **volume);

/* Makes all durable, and closes. No other thread may use the volume meanwhile.
 * AQ_EBUSY, and it is open as before, while a file is open or mapped. After
 * AQ_EIO and its like it is closed too, and what was not synced is lost. */
int aq_volume_close(aq_volume *volume);

/* Makes durable what was changed before this call, in all files and folders. */
int aq_volume_sync(aq_volume *volume);

typedef struct aq_space {
    size_t struct_bytes;     /* set by the caller to sizeof(aq_space) */
    uint64_t capacity_bytes; /* that files can take */
    uint64_t used_bytes;     /* that they take, with the table */
    uint64_t kept_bytes;     /* of the others, what only folders and the table may take, so that
                                a full volume can be emptied */
    uint64_t files;          /* files, folders and symbolic links */
    uint64_t files_max;      /* how many there can be */
} aq_space;

int aq_volume_space(aq_volume *volume, aq_space *space);

/* Reads everything, and proves that tables, names and bytes fit together. Waits
 * for changes, and they for it. AQ_ECORRUPT: files are damaged. AQ_EINVARIANT:
 * the volume's own books are wrong. The message names the first of it. */
int aq_volume_check(aq_volume *volume);

/* ---- Files */

enum aq_open {
    AQ_OPEN_READ = 1,
    AQ_OPEN_WRITE = 2,
    AQ_OPEN_CREATE = 4,     /* make the file if it is missing */
    AQ_OPEN_EXCLUSIVE = 8,  /* with CREATE: AQ_EEXISTS if it is there */
    AQ_OPEN_TRUNCATE = 16,  /* with WRITE: take its bytes away */
    AQ_OPEN_APPEND = 32     /* with WRITE: aq_file_write ignores its offset, and writes
                               behind the last byte */
};

/* Opens a file; flags are AQ_OPEN_READ, AQ_OPEN_WRITE or both, and others of enum
 * aq_open. mode: the permissions of a file that is made, as they are given (0644;
 * the process's umask is not applied). *file is set on success only. It may be
 * used by many threads. Its bytes stay until it is closed, also if its name is
 * removed. AQ_EISFOLDER. */
int aq_file_open(aq_volume *volume, const char *path, int flags, unsigned mode, aq_file **file);

/* Nothing becomes durable by this. What is mapped stays mapped. */
int aq_file_close(aq_file *file);

/* Copies bytes between a file and the program's memory, which may be mapped memory
 * of the same volume. *done is how many: in reads fewer than len at the end of the
 * file, in writes when the volume became full, else all. If that is at least one,
 * the call succeeds. 256 KiB at a time are one step for others that read and write.
 * A file grows as it is written; what was never written in it reads as zeros, and
 * takes no room. AQ_EPERMISSION: it was not opened for that. AQ_ETOOLARGE. */
int aq_file_read(aq_file *file, uint64_t offset, void *buffer, size_t len, size_t *done);
int aq_file_write(aq_file *file, uint64_t offset, const void *buffer, size_t len, size_t *done);

/* Writes behind the last byte, in one step, however long. *offset, unless offset is
 * NULL, is where. AQ_ENOMEM: there is no memory for a copy. */
int aq_file_append(aq_file *file, const void *buffer, size_t len, uint64_t *offset, size_t *done);

/* Cuts the file, or lets it grow by zeros that take no room. */
int aq_file_truncate(aq_file *file, uint64_t size_bytes);

/* Makes a range zeros that take no room. The size stays. */
int aq_file_punch(aq_file *file, uint64_t offset, uint64_t len_bytes);

/* As aq_volume_sync: a sync is a moment of the whole volume, never of one file. */
int aq_file_sync(aq_file *file);

enum aq_kind {
    AQ_KIND_FILE = 1,
    AQ_KIND_FOLDER = 2,
    AQ_KIND_SYMLINK = 3,
    AQ_KIND_PIPE = 4, /* of this kind and those below a volume keeps the name alone */
    AQ_KIND_SOCKET = 5,
    AQ_KIND_BLOCK_DEVICE = 6,
    AQ_KIND_CHARACTER_DEVICE = 7
};

/* What is known of a file. Times are nanoseconds since 1970. */
typedef struct aq_inode {
    size_t struct_bytes;    /* set by the caller to sizeof(aq_inode) */
    uint64_t ino;           /* its number */
    uint64_t generation;    /* how many files had this number before */
    uint64_t size_bytes;
    uint64_t flash_bytes;   /* of its pages on flash, or when they are written back */
    int64_t read_at_ns, written_at_ns, changed_at_ns, made_at_ns;
    uint32_t kind;          /* enum aq_kind */
    uint32_t mode;          /* permissions: the lower 12 bits */
    uint32_t links;         /* names; of a folder 2, and one for each folder in it */
    uint32_t uid, gid;
    uint32_t device;        /* of a device: its number, as Linux packs it into 32 bits */
} aq_inode;

int aq_file_stat(aq_file *file, aq_inode *inode);

/* ---- Files as memory */

enum aq_map {
    AQ_MAP_READ = 1,
    AQ_MAP_WRITE = 2,   /* loads as well */
    AQ_MAP_PRIVATE = 4, /* what is stored is seen by nobody else, and never on flash: it
                           stays in RAM, outside of ram_bytes */
    AQ_MAP_SHARE = 8    /* nothing else is to be seen: only the cost is another. For files
                           that are also written by calls where they are mapped */
};

/* Maps len bytes of a file from offset, a multiple of AQ_FILE_PAGE_BYTES, at
 * *address, which is set on success only. The file must be open to read, and for
 * AQ_MAP_WRITE without AQ_MAP_PRIVATE also to write: AQ_EPERMISSION. All mappings
 * and calls see the same bytes. Stores do not make a file longer: truncate it to
 * its size first. A file can be much larger than ram_bytes, and so can a mapping.
 * Needs Linux 6.8 (AQ_EKERNEL) and userfaultfd (AQ_EUFFD_FORBIDDEN).
 *
 * SIGBUS, which ends the process unless it has a handler, is raised by accesses to
 * pages behind the end of the file, to pages that cannot be read, and by stores
 * for which the volume has no room; standard error has a line that says which.
 *
 * System calls: the kernel does not fault on the program's behalf. A system call
 * that is given a page which is not in RAM, or is given a page to write to that
 * was only read, fails with EFAULT or does less. Give it a copy; aq_file_read and
 * aq_file_write may be given mapped memory. SIGBUS must not be blocked.
 *
 * Cost: what one mapping shows is memory of this process alone, and becomes shared
 * memory, once and at the same addresses, when another mapping or process shows it
 * too. AQ_MAP_SHARE begins with that: bringing a page costs more, a call that writes
 * to a mapped page less.
 *
 * Advice: madvise(MADV_DONTNEED), munmap and mmap over a mapping take bytes away that
 * nobody else has. What was not synced is lost then, and the volume takes no more
 * changes (AQ_EIO); aq_file_unmap is what ends a mapping.
 *
 * Forks: a child does not have the memory (SIGSEGV); the parent goes on. */
int aq_file_map(aq_file *file, uint64_t offset, size_t len, int flags, void **address);

/* Ends a mapping by its first address. What was stored is in the file.
 * AQ_EFOREIGN: nothing is mapped there. */
int aq_file_unmap(void *address);

/* ---- Names */

/* mode as of aq_file_open. AQ_EEXISTS. */
int aq_volume_make_folder(aq_volume *volume, const char *path, unsigned mode);

/* Takes a file, a symbolic link or an empty folder away. The bytes of a file go with its
 * last name, once it is neither open nor mapped. AQ_ENOTEMPTY. */
int aq_volume_remove(aq_volume *volume, const char *path);

enum aq_if_taken {
    AQ_TAKEN_REPLACE = 0, /* what has the new name loses it, in the same moment */
    AQ_TAKEN_FAIL = 1,    /* AQ_EEXISTS */
    AQ_TAKEN_EXCHANGE = 2 /* the two change names */
};

/* AQ_ENOTEMPTY, AQ_EISFOLDER, AQ_ENOTFOLDER: what has the new name cannot be
 * replaced. AQ_EINVAL: a folder would come into itself. */
int aq_volume_rename(aq_volume *volume, const char *path, const char *new_path, int if_taken);

/* Another name for a file. AQ_EEXISTS; AQ_EPERMISSION for folders. */
int aq_volume_link(aq_volume *volume, const char *path, const char *new_path);

/* A symbolic link at path that says target, which need not be there. AQ_EEXISTS. */
int aq_volume_symlink(aq_volume *volume, const char *target, const char *path);

/* What a symbolic link says, with a zero byte behind it. AQ_EINVAL if it is none,
 * or if len is too small; 4096 is enough. */
int aq_volume_read_link(aq_volume *volume, const char *path, char *buffer, size_t len);

/* follow, if not 0: of what a symbolic link at the end of the path leads to. */
int aq_volume_stat(aq_volume *volume, const char *path, int follow, aq_inode *inode);

/* Valid until the function that is given it returns. */
typedef struct aq_entry {
    const char *name;  /* ends with a zero byte */
    size_t name_bytes; /* without it */
    uint64_t ino;
    uint32_t kind;     /* enum aq_kind */
    uint32_t zero;
} aq_entry;

/* Calls visit for each name in a folder, in no particular order, without "." and
 * "..", until it returns something else than 0. It may use the volume. Names that
 * others make or remove meanwhile may be missing; those that stay come once. */
int aq_volume_list(aq_volume *volume, const char *path,
                   int (*visit)(const aq_entry *entry, void *context), void *context);

#ifdef __cplusplus
}
#endif
#endif
