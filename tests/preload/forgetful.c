/* forgetful.c - a malloc that begins with main(): what it gave out before is free, and the program break where the kernel put it.
 *
 * Lisp systems that start from a saved image do so.
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>

enum { ARENA = 4 << 20, HEADER = 16, BLOCKS = 48 };

static _Alignas(16) char arena[ARENA];
static size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *cut(size_t bytes, size_t align)
{
    pthread_mutex_lock(&lock);
    uintptr_t at = ((uintptr_t)arena + used + HEADER + align - 1) & ~(align - 1);
    bool fits = at + bytes <= (uintptr_t)arena + ARENA;
    if (fits)
        used = at + bytes - (uintptr_t)arena;
    pthread_mutex_unlock(&lock);
    if (!fits) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy((char *)at - sizeof bytes, &bytes, sizeof bytes);
    return (void *)at;
}

void *malloc(size_t bytes)
{
    return cut(bytes, 16);
}

void *memalign(size_t align, size_t bytes)
{
    return cut(bytes, align);
}

void *calloc(size_t count, size_t bytes)
{
    void *block = cut(count * bytes, 16);
    return block ? memset(block, 0, count * bytes) : NULL;
}

void *realloc(void *block, size_t bytes)
{
    size_t before = 0;
    if (block)
        memcpy(&before, (char *)block - sizeof before, sizeof before);
    void *moved = cut(bytes, 16);
    return moved && block ? memcpy(moved, block, before < bytes ? before : bytes) : moved;
}

static bool began;
static int freed_early;

/* One that begins with main() may not be asked before, or crashes (maxima). */
void free(void *block)
{
    freed_early += !began && block != NULL;
}

/* Where the kernel put the break: the 47th number of a process. */
static char *first_break(void)
{
    char text[2048];
    unsigned long address = 0;
    FILE *file = fopen("/proc/self/stat", "r");
    size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[bytes] = '\0';
    char *at = strrchr(text, ')');
    for (int number = 2; at && number < 47; number++)
        at = strchr(at + 1, ' ');
    if (at)
        address = strtoul(at, NULL, 10);
    if (file)
        fclose(file);
    return (char *)address;
}

/* All from `kept` on, and what lies behind the first break. Threads that were made before main() keep their own. */
static void begin_anew(size_t kept)
{
    char *low = first_break(), *high = sbrk(0);
    if (low && high > low)
        memset(low, 0xA5, (size_t)(high - low));
    memset(arena + kept, 0xA5, sizeof arena - kept);
    used = kept;
}

static void *stack_of_a_thread(void *argument)
{
    stack_t small = {.ss_sp = malloc(16 * KIB), .ss_size = 16 * KIB};
    return sigaltstack(&small, NULL) == 0 ? argument : NULL;
}

static void all_works(void)
{
    char *blocks[BLOCKS];
    for (uint64_t n = 0; n < BLOCKS; n++) {
        blocks[n] = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(blocks[n] != MAP_FAILED);
        fill(blocks[n], MIB, n);
    }
    for (uint64_t n = 0; n < BLOCKS; n++)
        CHECK(is_filled(blocks[n], MIB, n));
    pthread_t thread;
    void *result;
    CHECK_IS(0, pthread_create(&thread, NULL, stack_of_a_thread, blocks));
    CHECK_IS(0, pthread_join(thread, &result));
    CHECK(result != NULL);
}

int main(void)
{
    size_t kept = used;
    began = true;
    if (freed_early)
        printf("FAIL free: called %d times before main\n", freed_early);
    if (!stack_of_a_thread(arena))
        return 1;
    begin_anew(kept);
    RUN(all_works);
    begin_anew(kept);
    return tests_failed();
}
