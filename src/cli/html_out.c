/* Where reports go, and reports as HTML pages: cli.h says how. */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "cli/load.h"
#include "engine/analysis.h"
#include "report/html/html.h"
#include "report/html/timeline.h"

struct page {
    const struct gw_report *rep;
    const struct gw_timeline *tl;
};

static void write_page(FILE *out, void *user)
{
    const struct page *p = user;
    (void)gw_render_html(p->rep, p->tl, out);
}

int gw_cli_html(const struct gw_report *rep, const struct gw_analysis *an, const struct gw_cli_options *o)
{
    if (!o->html)
        return GW_EXIT_OK;
    struct page p = {.rep = rep, .tl = an ? gw_timeline_make(an, an->arena) : NULL};
    if (an && !p.tl)
        return gw_cli_no_memory(o->html);
    return gw_cli_write(o->html, write_page, &p);
}

/* The recording that the verdict speaks of, among those that were just read: paths inside a report are never followed.
 * NULL when it cannot be told. */
static const char *main_recording(const struct gw_loaded *l)
{
    const struct gw_report *rep = l->report;
    if (l->count == 1)
        return l->paths[0];
    if (rep->main_device >= rep->device_count)
        return NULL;
    for (size_t i = 0; i < rep->rank_count; i++)
        for (size_t k = 0; k < l->count && rep->per_rank[i].rank == rep->devices[rep->main_device].rank; k++)
            if (strcmp(l->paths[k], rep->per_rank[i].path) == 0)
                return l->paths[k];
    return NULL;
}

int gw_cli_html_loaded(const struct gw_loaded *l, const struct gw_cli_options *o)
{
    const char *path = o->html ? main_recording(l) : NULL;
    struct gw_trace *t = path && *path && strcmp(path, "-") != 0 && !gw_load_is_saved(path) ? gw_cli_trace(o) : NULL;
    struct gw_analysis *an = NULL;
    struct gw_beside b = {0};
    if (t && gw_cli_import(t, path, o, &b) == GW_EXIT_OK && !b.interrupted)
        an = gw_analyse(t, t->arena);
    int status = gw_cli_html(l->report, an, o); /* without the recording the page has no timeline */
    gw_beside_free(&b);
    gw_trace_destroy(t);
    return status;
}

int gw_cli_spares_inputs(char *const *inputs, size_t n, const struct gw_cli_options *o)
{
    const char *const outputs[] = {o->json, o->html};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; outputs[k] && strcmp(outputs[k], "-") != 0 && i < n; i++)
            if (gw_cli_same_file(inputs[i], outputs[k])) {
                gw_cli_error(_("--%s=%s would overwrite the recording; give another name"), k ? "html" : "json",
                             outputs[k]);
                return GW_EXIT_USAGE;
            }
    return GW_EXIT_OK;
}

int gw_cli_can_write(const struct gw_cli_options *o)
{
    const char *const outputs[] = {o->json, o->html};
    for (size_t k = 0; k < 2; k++) {
        char folder[PATH_MAX];
        if (!outputs[k] || strcmp(outputs[k], "-") == 0)
            continue;
        const char *slash = strrchr(outputs[k], '/');
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - outputs[k]) + 1 : 1, slash ? outputs[k] : ".");
        if (access(outputs[k], W_OK) != 0 && (errno != ENOENT || access(folder, W_OK | X_OK) != 0)) {
            gw_cli_error(_("%s: cannot be written: %s"), outputs[k], gw_i18n_errno(errno));
            return GW_EXIT_INTERNAL;
        }
    }
    return GW_EXIT_OK;
}
