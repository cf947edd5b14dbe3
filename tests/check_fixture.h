/*
 * check_fixture.h - machines for tests: a text file that unpacks to a folder with proc/, sys/, etc/ and so on.
 *
 *     === /proc/loadavg           a file; its lines follow
 *     0.10 0.20 0.30 1/100 4242
 *     --> /sys/bus/pci/devices/0000:41:00.0 ../../../devices/pci0000:40/0000:40:01.1/0000:41:00.0     a link
 *     +++ /sys/kernel/iommu_groups/17    a folder
 */
#ifndef CHECK_FIXTURE_H
#define CHECK_FIXTURE_H

#include <stddef.h>

/* Unpacks `manifest` into a new temporary folder, whose path goes to `dir`. Ends the test program when it cannot. */
void fixture_unpack(const char *manifest, char *dir, size_t cap);
/* Writes `text` to a new temporary file. */
void fixture_file(const char *text, size_t len, char *path, size_t cap);
/* Removes a folder or file that these functions made. */
void fixture_remove(const char *path);
/* The whole file, NUL-terminated; caller frees. NULL when it is not there. */
char *fixture_read(const char *path, size_t *len);

#endif
