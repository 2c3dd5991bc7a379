/* raw.h - system calls by an instruction of the program's own, past the C library. On x86-64 alone. */
#ifndef RAW_H
#define RAW_H

#ifdef __x86_64__

/* The answer of the kernel: a negative number is an error. */
static inline long raw(long number, long a, long b, long c, long d, long e, long f)
{
    long answer;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return answer;
}
#define RAW3(number, a, b, c) raw(number, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define RAW4(number, a, b, c, d) raw(number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

#endif
#endif
