/* LD_PRELOAD: uname() tells the kernel release of FAKE_UNAME_RELEASE and the machine of FAKE_UNAME_MACHINE. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

static void replace(char *field, size_t size, const char *variable) {
    const char *text = getenv(variable);
    if (text) snprintf(field, size, "%s", text);
}

int uname(struct utsname *out) {
    int result = (int)syscall(SYS_uname, out);
    if (result == 0) replace(out->release, sizeof out->release, "FAKE_UNAME_RELEASE");
    if (result == 0) replace(out->machine, sizeof out->machine, "FAKE_UNAME_MACHINE");
    return result;
}
