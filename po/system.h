/* Texts that come from elsewhere and are looked up when they are shown. Never compiled: xgettext reads it.
 *
 * What system calls fail with, as strerror(3) of glibc words it, for gw_i18n_errno(). */
N_("Operation not permitted") /* EPERM */
N_("No such file or directory") /* ENOENT */
N_("No such process") /* ESRCH */
N_("Interrupted system call") /* EINTR */
N_("Input/output error") /* EIO */
N_("No such device or address") /* ENXIO */
N_("Argument list too long") /* E2BIG */
N_("Exec format error") /* ENOEXEC */
N_("Bad file descriptor") /* EBADF */
N_("No child processes") /* ECHILD */
N_("Resource temporarily unavailable") /* EAGAIN */
N_("Cannot allocate memory") /* ENOMEM */
N_("Permission denied") /* EACCES */
N_("Bad address") /* EFAULT */
N_("Device or resource busy") /* EBUSY */
N_("File exists") /* EEXIST */
N_("Invalid cross-device link") /* EXDEV */
N_("No such device") /* ENODEV */
N_("Not a directory") /* ENOTDIR */
N_("Is a directory") /* EISDIR */
N_("Invalid argument") /* EINVAL */
N_("Too many open files in system") /* ENFILE */
N_("Too many open files") /* EMFILE */
N_("Inappropriate ioctl for device") /* ENOTTY */
N_("Text file busy") /* ETXTBSY */
N_("File too large") /* EFBIG */
N_("No space left on device") /* ENOSPC */
N_("Illegal seek") /* ESPIPE */
N_("Read-only file system") /* EROFS */
N_("Broken pipe") /* EPIPE */
N_("File name too long") /* ENAMETOOLONG */
N_("Function not implemented") /* ENOSYS */
N_("Directory not empty") /* ENOTEMPTY */
N_("Too many levels of symbolic links") /* ELOOP */
N_("Operation not supported") /* EOPNOTSUPP */
N_("Address already in use") /* EADDRINUSE */
N_("Cannot assign requested address") /* EADDRNOTAVAIL */
N_("Network is unreachable") /* ENETUNREACH */
N_("Connection reset by peer") /* ECONNRESET */
N_("No buffer space available") /* ENOBUFS */
N_("Transport endpoint is already connected") /* EISCONN */
N_("Transport endpoint is not connected") /* ENOTCONN */
N_("Connection timed out") /* ETIMEDOUT */
N_("Connection refused") /* ECONNREFUSED */
N_("No route to host") /* EHOSTUNREACH */
N_("Stale file handle") /* ESTALE */
N_("Disk quota exceeded") /* EDQUOT */
N_("Value too large for defined data type") /* EOVERFLOW */
N_("Invalid or incomplete multibyte or wide character") /* EILSEQ */

/* Why a recorder lacked a permission, as it writes it into the record (src/collect/proc). */
N_("libnvidia-ml.so.1 is not there")
N_("NVML does not start")
N_("/proc/PID/io is not readable")
N_("/proc/PID/task/TID/syscall is not readable")
