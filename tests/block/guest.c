/* What busybox lacks, for the machine of ublk.sh.
 *
 *   guest touch MIB              writes that much memory in order, then reads it in a random order
 *   guest zero DEVICE FROM LEN   has the kernel write zeros (BLKZEROOUT)
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, WORDS = PAGE_BYTES / sizeof(uint64_t) };

/* Every page has its number in each of its words, mixed with a seed: a page that comes back as another is noticed, and so is one that is half old. */
static uint64_t pattern(uint64_t page)
{
	return page * 0x9E3779B97F4A7C15u + 0xA5A5u;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int touch(uint64_t mib)
{
	uint64_t pages = mib * 256, bad = 0;
	uint64_t *memory = mmap(NULL, pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t *order = malloc(pages * sizeof *order);
	if (memory == MAP_FAILED || order == NULL) {
		perror("guest touch");
		return 2;
	}
	for (uint64_t page = 0; page < pages; page++)
		for (int word = 0; word < WORDS; word++)
			memory[page * WORDS + word] = pattern(page);
	for (uint64_t at = 0; at < pages; at++)
		order[at] = at;
	for (uint64_t at = pages - 1, state = 1; at > 0; at--) {
		uint64_t other = next_random(&state) % (at + 1);
		uint32_t swapped = order[at];
		order[at] = order[other];
		order[other] = swapped;
	}
	for (uint64_t at = 0; at < pages; at++) {
		int is_bad = 0;
		for (int word = 0; word < WORDS; word++)
			is_bad |= memory[(uint64_t)order[at] * WORDS + word] != pattern(order[at]);
		bad += is_bad;
	}
	printf("%llu pages read, %llu bad\n", (unsigned long long)pages, (unsigned long long)bad);
	return bad != 0;
}

static int zero(const char *device, uint64_t from, uint64_t len)
{
	uint64_t range[2] = { from, len };
	int fd = open(device, O_RDWR);
	if (fd < 0 || ioctl(fd, BLKZEROOUT, range) != 0) {
		perror("guest zero");
		return 1;
	}
	return close(fd) != 0;
}

int main(int count, char **words)
{
	if (count == 3 && strcmp(words[1], "touch") == 0)
		return touch(strtoull(words[2], NULL, 0));
	if (count == 5 && strcmp(words[1], "zero") == 0)
		return zero(words[2], strtoull(words[3], NULL, 0), strtoull(words[4], NULL, 0));
	fprintf(stderr, "guest touch MIB | zero DEVICE FROM LEN\n");
	return 2;
}
