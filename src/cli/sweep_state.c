/* sweep_state.c - see sweep_state.h */
#include "cli/sweep_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gw_i18n.h"

static const char head[] = "gpuwhy.sweep-state/1\n";

/* The numbers of a run, in the order of the file. */
enum { NUMBERS = 14 };
static void numbers(struct gw_sweep_run *r, double *out[NUMBERS])
{
    double *const all[NUMBERS] = {&r->rate,     &r->error,        &r->at_s,      &r->took_s,    &r->warmup_s,
                                  &r->steady_s, &r->steps,        &r->gpu_bytes, &r->gpu_total, &r->gpu_busy,
                                  &r->workers,  &r->worker_bytes, &r->host_free, &r->kernels};
    memcpy(out, all, sizeof all);
}

/* A word of the file has no blanks: those of a value stand there as %20. */
static size_t put_word(char *buf, size_t n, size_t cap, const char *value)
{
    for (const unsigned char *p = (const unsigned char *)value; *p && n + 4 < cap; p++)
        n += (size_t)snprintf(buf + n, cap - n, *p <= ' ' || *p == '%' ? "%%%02x" : "%c", *p);
    return n;
}

enum { VALUES = GW_SWEEP_KNOBS * 3 * GW_SWEEP_VALUE + 8 };

/* "4" or "4,2": the values of a point. */
static void values(const struct gw_sweep *s, size_t point, char *buf, size_t cap)
{
    size_t n = 0;
    *buf = 0;
    for (size_t k = 0; k < s->knobs; k++) {
        if (k)
            buf[n++] = ',';
        n = put_word(buf, n, cap, s->knob[k].value[gw_sweep_at(s, point, k)]);
    }
}

static size_t point_of(const struct gw_sweep *s, const char *text)
{
    char buf[VALUES];
    for (size_t p = 0; p < s->points; p++) {
        values(s, p, buf, sizeof buf);
        if (strcmp(buf, text) == 0)
            return p;
    }
    return GW_SWEEP_NONE;
}

/* One line "run VALUES OUTCOME SETTLED SOURCE NUMBER...\tWHY". 1 when it is whole. */
static int parse_run(char *line, const struct gw_sweep *s, struct gw_sweep_run *r, int *source)
{
    char *why = strchr(line, '\t'), *save = NULL, *word;
    double *field[NUMBERS];
    memset(r, 0, sizeof *r);
    numbers(r, field);
    if (!why)
        return 0;
    *why++ = 0;
    why[strcspn(why, "\n")] = 0;
    snprintf(r->why, sizeof r->why, "%s", why);
    if (!(word = strtok_r(line, " ", &save)) || strcmp(word, "run") != 0 || !(word = strtok_r(NULL, " ", &save)))
        return 0;
    r->point = point_of(s, word);
    long head_numbers[3];
    for (int i = 0; i < 3; i++) {
        if (!(word = strtok_r(NULL, " ", &save)))
            return 0;
        head_numbers[i] = strtol(word, NULL, 10);
    }
    if (head_numbers[0] < 0 || head_numbers[0] >= GW_SWEEP_OUTCOMES)
        return 0;
    r->outcome = (enum gw_sweep_outcome)head_numbers[0];
    r->is_settled = head_numbers[1] != 0;
    *source = (int)head_numbers[2];
    for (int i = 0; i < NUMBERS; i++) {
        if (!(word = strtok_r(NULL, " ", &save)))
            return 0;
        *field[i] = strtod(word, NULL);
    }
    return r->outcome != GW_SWEEP_OK || (r->rate > 0 && r->error >= 0 && isfinite(r->at_s));
}

static int wrong(struct gw_error *err, const char *path, int64_t line, const char *what)
{
    int rc = gw_error_set(err, GW_EFORMAT, path, -1, _("give --resume another file, or remove this one"), "%s", what);
    if (err)
        err->line = line;
    return rc;
}

static int cannot_write(const char *path, struct gw_error *err)
{
    return gw_error_set(err, GW_EIO, path, -1, _("give --resume a file that can be written"), "%s", gw_i18n_errno(errno));
}

/* Takes away what is behind `whole`. */
static int cut(const char *path, off_t whole, struct gw_error *err)
{
    return truncate(path, whole) == 0 ? GW_OK : cannot_write(path, err);
}

int gw_sweep_state_try(const char *path, struct gw_error *err)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return cannot_write(path, err);
    close(fd);
    return GW_OK;
}

int gw_sweep_state_load(const char *path, const char *plan, struct gw_sweep *s, int64_t *began, int *source,
                        struct gw_error *err)
{
    char line[4096];
    int rc = GW_OK;
    off_t whole = 0; /* where the lines that are complete end */
    *source = -1;
    FILE *f = fopen(path, "re");
    if (!f)
        return errno == ENOENT ? GW_OK
                               : gw_error_set(err, GW_EIO, path, -1, _("give --resume a file that can be read"), "%s",
                                              gw_i18n_errno(errno));
    if (!fgets(line, sizeof line, f)) {
        rc = ferror(f) ? wrong(err, path, 1, _("cannot be read")) : GW_OK; /* empty: as good as new */
        goto out;
    }
    if (!strchr(line, '\n') && strncmp(line, head, strlen(line)) == 0) {
        rc = cut(path, 0, err);
        goto out;
    }
    whole = ftello(f);
    if (strcmp(line, head) != 0) {
        rc = wrong(err, path, 1, _("not a file that gpuwhy sweep wrote"));
        goto out;
    }
    for (int64_t n = 2; fgets(line, sizeof line, f); n++) {
        struct gw_sweep_run r;
        int64_t t;
        if (!strchr(line, '\n')) { /* the program ended in the middle of it: what follows must not be added to that */
            rc = cut(path, whole, err);
            goto out;
        }
        whole = ftello(f);
        if (sscanf(line, "began %" SCNd64, &t) == 1) {
            *began = t;
        } else if (strncmp(line, "plan ", 5) == 0) {
            line[strcspn(line, "\n")] = 0;
            if (strcmp(line + 5, plan) != 0) {
                rc = wrong(err, path, n, _("it belongs to a sweep of another command, other knobs or another metric"));
                goto out;
            }
        } else if (!parse_run(line, s, &r, source)) {
            rc = wrong(err, path, n, _("a line that cannot be read"));
            goto out;
        } else if (r.point != GW_SWEEP_NONE && (rc = gw_sweep_add(s, &r)) < 0) {
            (void)wrong(err, path, n, _("too many runs"));
            goto out;
        }
    }
out:
    fclose(f);
    return rc;
}

int gw_sweep_state_add(const char *path, const char *plan, const struct gw_sweep *s, int64_t began, int source,
                       const struct gw_sweep_run *run, struct gw_error *err)
{
    char text[VALUES];
    struct gw_sweep_run r = *run;
    double *field[NUMBERS];
    FILE *f = fopen(path, "ae");
    if (!f)
        return cannot_write(path, err);
    if (ftell(f) == 0)
        fprintf(f, "%splan %s\nbegan %" PRId64 "\n", head, plan, began);
    values(s, run->point, text, sizeof text);
    fprintf(f, "run %s %d %d %d", text, (int)run->outcome, run->is_settled, source);
    numbers(&r, field);
    for (int i = 0; i < NUMBERS; i++)
        fprintf(f, " %.17g", *field[i]);
    for (char *p = r.why; *p; p++)
        if (*p == '\n' || *p == '\t' || *p == '\r')
            *p = ' ';
    fprintf(f, "\t%s\n", r.why);
    int bad = ferror(f);
    if (fclose(f) != 0 || bad)
        return cannot_write(path, err);
    return GW_OK;
}
