/* huge.c - huge pages in memory that becomes a heap's
 *
 * Parts of a huge page that are given back stay in RAM as long as the rest does: the kernel frees it as one. A heap takes single pages
 * away, so it divides them when it takes over, and there must be none afterwards. Seen by /proc/kpageflags, which is root's; without it only the bytes are checked.
 */
#include "check.h"

#include <fcntl.h>

enum { IS_HUGE = 22, BYTES_FIRST = 12 << 20, BYTES_MORE = 3 << 20 };

/* Pages of the block that are parts of huge ones; -1 if that cannot be seen. A page that leaves between both looks is none: its frame may be
 * part of somebody else's huge page by then. */
static long huge_pages(const char *block, size_t bytes)
{
    int map = open("/proc/self/pagemap", O_RDONLY), flags = open("/proc/kpageflags", O_RDONLY);
    long count = map < 0 || flags < 0 ? -1 : 0;
    for (size_t at = 0; at < bytes && count >= 0; at += PAGE) {
        uint64_t page = 0, again = 0, flag = 0;
        off_t entry = (off_t)((uintptr_t)(block + at) / PAGE * sizeof page);
        if (pread(map, &page, sizeof page, entry) != sizeof page)
            count = -1;
        else if (page >> 63) {
            off_t number = (off_t)((page & (((uint64_t)1 << 55) - 1)) * sizeof flag);
            if (number == 0 || pread(flags, &flag, sizeof flag, number) != sizeof flag)
                count = -1;
            else if (pread(map, &again, sizeof again, entry) == sizeof again && again == page)
                count += flag >> IS_HUGE & 1;
        }
    }
    close(map);
    close(flags);
    return count;
}

static void takeover_leaves_no_huge_pages(void)
{
    char *first = mmap(NULL, BYTES_FIRST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(first != MAP_FAILED);
    /* Kernels without huge pages refuse. */
    madvise(first, BYTES_FIRST, MADV_HUGEPAGE);
    for (size_t at = 0; at < BYTES_FIRST; at++)
        first[at] = (char)(at * 7 + at / PAGE);
    long before = huge_pages(first, BYTES_FIRST);
    char *more = malloc(BYTES_MORE);
    CHECK(more != NULL);
    memset(more, 1, BYTES_MORE);
    const char *preload = getenv("LD_PRELOAD");
    if (before > 0 && preload != NULL && strstr(preload, "aquifer") != NULL)
        CHECK(huge_pages(first, BYTES_FIRST) <= 1); /* one is shared by all: the page of zeros */
    for (size_t at = 0; at < BYTES_FIRST; at++)
        CHECK_IS((char)(at * 7 + at / PAGE), first[at]);
    free(more);
    CHECK_IS(0, munmap(first, BYTES_FIRST));
}

int main(void)
{
    RUN(takeover_leaves_no_huge_pages);
    return tests_failed();
}
