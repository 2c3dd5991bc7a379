/* eager.c - a malloc of the program's own, which maps memory with its lock held, as large allocators do */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { HEADER = 16, CHUNK = 1 << 20, LARGE = 128 << 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *chunk;
static size_t used = CHUNK;

static size_t *header_of(void *block)
{
    return (size_t *)((char *)block - HEADER);
}

static char *mapped(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void *memalign(size_t align, size_t bytes)
{
    size_t needed = (bytes + HEADER + align + 15) & ~(size_t)15;
    pthread_mutex_lock(&lock);
    char *memory;
    if (needed >= LARGE) {
        memory = mapped(needed);
    } else {
        if (used + needed > CHUNK && (chunk = mapped(CHUNK)) != NULL)
            used = 0;
        memory = chunk == NULL ? NULL : chunk + used;
        used += needed;
    }
    pthread_mutex_unlock(&lock);
    if (memory == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = (char *)(((uintptr_t)memory + HEADER + align - 1) & ~(align - 1));
    *header_of(block) = bytes;
    return block;
}

void *malloc(size_t bytes)
{
    return memalign(16, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

int posix_memalign(void **block, size_t align, size_t bytes)
{
    *block = memalign(align, bytes);
    return *block == NULL ? ENOMEM : 0;
}

void *calloc(size_t count, size_t bytes)
{
    void *block = malloc(count * bytes);
    if (block != NULL)
        memset(block, 0, count * bytes);
    return block;
}

/* Nothing is used again. */
void free(void *block)
{
    pthread_mutex_lock(&lock);
    if (block != NULL)
        *header_of(block) = 0;
    pthread_mutex_unlock(&lock);
}

void *realloc(void *block, size_t bytes)
{
    void *moved = malloc(bytes);
    if (block != NULL && moved != NULL) {
        size_t old = *header_of(block);
        memcpy(moved, block, old < bytes ? old : bytes);
        free(block);
    }
    return moved;
}

size_t malloc_usable_size(void *block)
{
    return block == NULL ? 0 : *header_of(block);
}
