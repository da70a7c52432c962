# Runs a command that can't make sockets of AF_NETLINK, as systemd does with RestrictAddressFamilies=, with a filter of
# seccomp(2). A filter can't be taken off again, so the command runs in this process.
#
#     python3 without-netlink.py node script.js
import ctypes, os, platform, struct, sys

AF_NETLINK, EAFNOSUPPORT = 16, 97
SOCKET = {'x86_64': 41, 'aarch64': 198}[platform.machine()]
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # of linux/bpf_common.h, as used below
ALLOW, ERROR = 0x7FFF0000, 0x00050000  # of linux/seccomp.h
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2

program = b''.join(
    struct.pack('HBBI', *step)
    for step in [
        (LOAD, 0, 0, 0),  # the number of the system call
        (EQUAL, 0, 3, SOCKET),
        (LOAD, 0, 0, 16),  # its first argument
        (EQUAL, 0, 1, AF_NETLINK),
        (RETURN, 0, 0, ERROR | EAFNOSUPPORT),
        (RETURN, 0, 0, ALLOW),
    ]
)


class Filter(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('program', ctypes.c_char_p)]


libc = ctypes.CDLL(None)
filter = Filter(len(program) // 8, program)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
    PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter), 0, 0
):
    sys.exit('seccomp does not work here')
os.execvp(sys.argv[1], sys.argv[1:])
