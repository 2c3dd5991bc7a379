/* small.c - small blocks, which are managed when they are a large part of the RAM
 *
 * Runs without --threshold: a search tree of more nodes than fit in RAM, strings that grow, threads that free what others have
 * allocated, and a child that reads and frees its copy.
 */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>

enum { NODES = 450000, THREADS = 4, STRINGS = 20000 };

struct node {
    struct node *less, *more;
    uint64_t key, value;
    char text[];
};

static uint64_t mixed(uint64_t number)
{
    number = (number ^ number >> 31) * 0x9E3779B97F4A7C15;
    return number ^ number >> 29;
}

static size_t text_bytes(uint64_t key)
{
    return 1 + key % 40;
}

/* NULL without memory. */
static struct node *new_node(uint64_t key)
{
    struct node *node = malloc(sizeof *node + text_bytes(key));
    if (node != NULL) {
        *node = (struct node){.key = key, .value = mixed(key)};
        memset(node->text, (int)(key & 0x7F), text_bytes(key));
    }
    return node;
}

static bool is_right(const struct node *node)
{
    bool right = node->value == mixed(node->key);
    for (size_t n = 0; n < text_bytes(node->key); n++)
        right = right && node->text[n] == (char)(node->key & 0x7F);
    return right;
}

static bool add(struct node **root, uint64_t key)
{
    while (*root != NULL)
        root = key < (*root)->key ? &(*root)->less : &(*root)->more;
    return (*root = new_node(key)) != NULL;
}

/* Nodes that are right; all are freed if that is asked for. */
static long walk(struct node *node, bool frees)
{
    long right = 0;
    while (node != NULL) {
        struct node *more = node->more;
        right += walk(node->less, frees) + is_right(node);
        if (frees)
            free(node);
        node = more;
    }
    return right;
}

static struct node *tree;

/* RAM of anonymous memory, in bytes. */
static long anonymous_bytes(void)
{
    long kib = -1;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "RssAnon: %ld", &kib) == 1)
            break;
    if (status != NULL)
        fclose(status);
    return kib * 1024;
}

static void a_tree_is_larger_than_ram(void)
{
    /* Neighbours in the tree are mostly neighbours in memory. */
    for (uint64_t n = 0; n < NODES; n++)
        CHECK(add(&tree, mixed(n / 64) << 6 | n % 64));
    CHECK_IS(NODES, walk(tree, false));
    /* The heap's 16 MiB, and what libraries and threads have. */
    const char *preload = getenv("LD_PRELOAD");
    if (preload != NULL && strstr(preload, "aquifer") != NULL)
        CHECK(anonymous_bytes() < (long)(22 * MIB));
}

static void a_child_has_a_copy(void)
{
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(walk(tree, true) == NODES ? 7 : 8);
    int status;
    CHECK_IS(child, waitpid(child, &status, 0));
    CHECK(WIFEXITED(status));
    CHECK_IS(7, WEXITSTATUS(status));
    CHECK_IS(NODES, walk(tree, false));
}

static char *strings[STRINGS];

static void strings_grow_and_shrink(void)
{
    for (size_t bytes = 8; bytes <= 4096 + 512; bytes = bytes * 3 / 2)
        for (size_t n = 0; n < STRINGS; n += bytes < 256 ? 1 : 37) {
            char *grown = realloc(strings[n], bytes);
            CHECK(grown != NULL);
            size_t before = strings[n] == NULL ? 0 : bytes * 2 / 3;
            for (size_t at = 0; at < before && at < 5; at++)
                CHECK_IS((char)(n + at), grown[at]);
            for (size_t at = 0; at < bytes; at++)
                grown[at] = (char)(n + at);
            strings[n] = grown;
        }
    for (size_t n = 0; n < STRINGS; n++) {
        strings[n] = realloc(strings[n], 3);
        CHECK(strings[n] != NULL);
        CHECK_IS((char)(n + 2), strings[n][2]);
        free(strings[n]);
    }
}

static void blocks_are_aligned_and_zero(void)
{
    for (size_t align = sizeof(void *); align <= PAGE; align *= 2)
        for (size_t bytes = 1; bytes <= PAGE; bytes = bytes * 2 + 1) {
            void *block = NULL;
            CHECK_IS(0, posix_memalign(&block, align, bytes));
            CHECK_IS(0, (uintptr_t)block % align);
            memset(block, 0xFF, bytes);
            free(block);
            unsigned char *zeros = calloc(1, bytes);
            CHECK(zeros != NULL);
            CHECK_IS(0, (uintptr_t)zeros % 16 * (bytes >= 16));
            for (size_t at = 0; at < bytes; at++)
                CHECK_IS(0, zeros[at]);
            free(zeros);
        }
}

/* What a thread has allocated and the next one frees. */
static void *shared[THREADS][1000];
static pthread_barrier_t barrier;

static void *exchange(void *number)
{
    size_t own = (size_t)number;
    long wrong = 0;
    for (size_t round = 0; round < 40; round++) {
        for (size_t n = 0; n < 1000; n++) {
            size_t bytes = 16 + (n * 31 + round * 7) % 500;
            uint32_t *block = malloc(bytes);
            if (block == NULL)
                return "malloc gave NULL";
            block[0] = (uint32_t)(own * 1000 + n);
            block[bytes / 4 - 1] = block[0];
            shared[own][n] = block;
        }
        pthread_barrier_wait(&barrier);
        size_t other = (own + 1) % THREADS;
        for (size_t n = 0; n < 1000; n++) {
            wrong += *(uint32_t *)shared[other][n] != other * 1000 + n;
            free(shared[other][n]);
        }
        pthread_barrier_wait(&barrier);
    }
    return wrong == 0 ? NULL : "wrong bytes";
}

static void threads_free_what_others_have(void)
{
    pthread_t threads[THREADS];
    CHECK_IS(0, pthread_barrier_init(&barrier, NULL, THREADS));
    for (size_t n = 0; n < THREADS; n++)
        CHECK_IS(0, pthread_create(&threads[n], NULL, exchange, (void *)n));
    for (size_t n = 0; n < THREADS; n++) {
        void *problem;
        CHECK_IS(0, pthread_join(threads[n], &problem));
        if (problem != NULL)
            end_test("%s", (char *)problem);
    }
}

static void all_of_it_is_freed(void)
{
    CHECK_IS(NODES, walk(tree, true));
    tree = NULL;
}

/* Pages of a collector's heap: small mappings that are too many, cut to be aligned. */
static void of_a_collector(void)
{
    enum { COUNT = 2000, IN_RAM_MAX = 16 * 256 };
    static char *pages[COUNT];
    for (size_t n = 0; n < COUNT; n++) {
        char *all = mmap(NULL, 32 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(all != MAP_FAILED);
        size_t before = -(uintptr_t)all & (16 * KIB - 1);
        pages[n] = all + before;
        CHECK(before == 0 || munmap(all, before) == 0);
        CHECK(munmap(pages[n] + 16 * KIB, 16 * KIB - before) == 0);
        fill(pages[n], 16 * KIB, n);
    }
    for (size_t n = 0; n < COUNT; n++)
        CHECK(is_filled(pages[n], 16 * KIB, n));
    size_t present = 0;
    for (size_t at = 0; at < COUNT * 4; at++)
        present += is_present(pages[at / 4] + at % 4 * PAGE);
    CHECK(!on_managed_memory() || present <= IN_RAM_MAX);
    for (size_t n = 0; n < COUNT; n++) {
        CHECK(is_filled(pages[n], 16 * KIB, n));
        CHECK(munmap(pages[n], 16 * KIB) == 0);
    }
}

int main(void)
{
    RUN(of_a_collector);
    RUN(a_tree_is_larger_than_ram);
    RUN(a_child_has_a_copy);
    RUN(strings_grow_and_shrink);
    RUN(blocks_are_aligned_and_zero);
    RUN(threads_free_what_others_have);
    RUN(all_of_it_is_freed);
    return tests_failed();
}
