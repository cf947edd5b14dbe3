/*
 * nsys_importer.h - the importer of Nsight Systems exports, for the table in importers.c.
 *
 * Reads `nsys export --type sqlite` files of 2021.1 to 2026.4, and names the command that makes one from a .nsys-rep.
 * Without SQLite the importer stays in the table and answers GW_ENOTSUP.
 */
#ifndef GW_NSYS_IMPORTER_H
#define GW_NSYS_IMPORTER_H

#include "import/importer.h"

extern const struct gw_importer gw_importer_nsys;

#endif
