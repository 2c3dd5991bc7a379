/* contained.c - runs a program as a container with default settings would: as a user who is not root, without capabilities, with the system calls refused that the
 * usual profiles refuse.
 *
 *   contained PROGRAM [ARGUMENT...]
 */
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static const unsigned refused[] = {
    SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_perf_event_open, SYS_bpf, SYS_keyctl,
    SYS_add_key, SYS_request_key, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_swapon, SYS_swapoff, SYS_reboot, SYS_unshare,
    SYS_setns, SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy, SYS_move_pages, SYS_migrate_pages, SYS_open_by_handle_at,
    SYS_fanotify_init, SYS_quotactl, SYS_acct, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load,
    SYS_settimeofday, SYS_clock_settime, SYS_syslog, SYS_vhangup, SYS_chroot, SYS_personality,
};
enum { REFUSED = sizeof refused / sizeof *refused };

static int refuse(void)
{
    struct sock_filter filter[REFUSED + 3];
    filter[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < REFUSED; i++)
        filter[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], REFUSED - i, 0);
    filter[REFUSED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[REFUSED + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_fprog program = {REFUSED + 3, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: contained PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    if (geteuid() == 0 && (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))) {
        perror("contained: to be nobody");
        return 125;
    }
    /* A program that has changed its user is not dumpable, and has no /proc/self/mem; after exec it is. */
    if (refuse()) {
        perror("contained: a filter of system calls");
        return 125;
    }
    execvp(arguments[1], arguments + 1);
    fprintf(stderr, "contained: %s: %s\n", arguments[1], strerror(errno));
    return 127;
}
