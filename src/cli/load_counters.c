/* Output of Nsight Compute given beside recordings: told apart, read once, and joined with each of them. */
#include <string.h>
#include <sys/stat.h>

#include "cli/load_counters.h"
#include "cli/progress.h"
#include "import/importer.h"
#include "model/kernel_metrics.h"

int gw_load_is_counters(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) /* a pipe could not be read a second time */
        return 0;
    const struct gw_importer *im = gw_import_sniff(path);
    return im && im->timeless;
}

int gw_load_counters(struct gw_trace **t, const char *path, const struct gw_cli_options *o, int *interrupted)
{
    struct gw_trace *one = gw_cli_trace(o);
    struct gw_error err;
    struct gw_progress p;
    if (!one)
        return gw_cli_no_memory(path);
    memset(&err, 0, sizeof err);
    gw_progress_begin(&p, path, !o->quiet);
    struct gw_import_options io = {.progress = gw_progress_step, .user = &p, .threads = o->threads};
    int rc = gw_import_file(one, path, &io, &err);
    *interrupted = gw_progress_end(&p);
    int status = rc >= 0 ? GW_EXIT_OK : gw_cli_fail(&err);
    if (status == GW_EXIT_OK && !*t) {
        *t = one;
        return status;
    }
    if (status == GW_EXIT_OK && gw_load_join_counters(*t, one, 1) < 0)
        status = gw_cli_no_memory(path);
    gw_trace_destroy(one);
    return status;
}

int gw_load_join_counters(struct gw_trace *to, const struct gw_trace *from, int sources)
{
    const struct gw_source *s = from->sources.data;
    if (gw_kernel_metrics_copy(to, from) < 0)
        return GW_ENOMEM;
    for (unsigned i = 0; i < GW_LOSS_COUNT;
         i++) /* what was lost of the counters; a timeline was never theirs to lose */
        if (from->loss[i].count && i != GW_LOSS_NO_GPU)
            gw_trace_lose(to, (enum gw_loss)i, from->loss[i].count, from->loss[i].first_byte);
    for (size_t i = 0; sources && i < from->sources.len; i++) {
        struct gw_source *copy = gw_trace_source(to, s[i].path, s[i].format);
        if (!copy)
            return GW_ENOMEM;
        copy->bytes = s[i].bytes;
        copy->text_bytes = s[i].text_bytes;
        copy->events = s[i].events;
    }
    return GW_OK;
}

int gw_load_counters_used(const struct gw_report *const *reports, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!reports[i]->counters || reports[i]->counters->count)
            return 1;
    return n == 0;
}
