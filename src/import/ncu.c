/* The importer of Nsight Compute output: sniffing, numbers, launches. See ncu.h for the parts. */
#include "import/ncu.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/gw_i18n.h"
#include "import/gw_stream.h"

int ncu_is(struct ncu_str a, const char *b) { return a.len == strlen(b) && !memcmp(a.s, b, a.len); }

struct ncu_str ncu_trim(struct ncu_str a)
{
    while (a.len && (a.s[0] == ' ' || a.s[0] == '\t'))
        a.s++, a.len--;
    while (a.len && (a.s[a.len - 1] == ' ' || a.s[a.len - 1] == '\t'))
        a.len--;
    return a;
}

/* ------------------------------------------------------------------ numbers */

/* "1,234.56", "1.234,56", "1 234,56" (with any kind of blank), "12,3". One sign of one sort is a decimal sign when the
 * locale says so, and separates thousands otherwise; the last of two sorts is the decimal sign in every locale. */
int ncu_number(struct ncu_str s, int decimal_comma, double *out)
{
    char plain[64];
    size_t n = 0;
    int commas = 0, points = 0;
    char decimal = 0;
    s = ncu_trim(s);
    for (size_t i = 0; i < s.len; i++) {
        commas += s.s[i] == ',';
        points += s.s[i] == '.';
        if (s.s[i] == ',' || s.s[i] == '.')
            decimal = s.s[i];
    }
    if (commas && points)
        ; /* the last one is it */
    else if (commas)
        decimal = commas == 1 && decimal_comma ? ',' : 0;
    else if (points)
        decimal = points == 1 && !decimal_comma ? '.' : 0;
    int digits = 0;
    for (size_t i = 0; i < s.len && n + 1 < sizeof plain; i++) {
        unsigned char c = (unsigned char)s.s[i];
        if (isdigit(c)) {
            plain[n++] = (char)c;
            digits = 1;
        } else if (c == (unsigned char)decimal && decimal) {
            plain[n++] = '.';
        } else if ((c == '-' || c == '+') && (n == 0 || plain[n - 1] == 'e')) {
            plain[n++] = (char)c;
        } else if ((c == 'e' || c == 'E') && digits) {
            plain[n++] = 'e';
        } else if (c != ',' && c != '.' && c != ' ' && c != '\'' && c < 0x80) {
            return 0;
        }
    }
    plain[n] = 0;
    if (!digits)
        return 0;
    char *end;
    *out = strtod(plain, &end);
    return *end == 0 && isfinite(*out);
}

/* A sign with one or two digits behind it at the end is a decimal sign: ncu prints two decimals. */
static void vote(struct ncu *x, struct ncu_str s)
{
    s = ncu_trim(s);
    for (size_t back = 1; back <= 3 && back <= s.len; back++) {
        char c = s.s[s.len - back];
        if (isdigit((unsigned char)c))
            continue;
        if (back > 1 && back < 4) {
            x->commas += c == ',';
            x->points += c == '.';
        }
        return;
    }
}

/* ------------------------------------------------------------------ launches */

void ncu_begin(struct ncu *x, struct ncu_str name, struct ncu_str key)
{
    size_t n = key.len < sizeof x->key ? key.len : sizeof x->key;
    if (x->open && n == x->key_len && !memcmp(x->key, key.s, n))
        return;
    ncu_end(x);
    memcpy(x->key, key.s, n);
    x->key_len = n;
    x->name_len = name.len < sizeof x->name ? name.len : sizeof x->name;
    memcpy(x->name, name.s, x->name_len);
    x->sample = (struct gw_kernel_sample){.launches = 1, .duration_ns = NAN};
    for (int k = 0; k < GW_KM_COUNT; k++)
        x->sample.value[k] = NAN;
    x->open = 1;
}

int ncu_end(struct ncu *x)
{
    int rc = GW_OK;
    if (x->open && !x->voting) {
        uint32_t name = gw_trace_name(x->t, x->name, x->name_len);
        if (name)
            rc = gw_kernel_metrics_add(x->t, name, &x->sample);
        x->launches += x->sample.launches;
    }
    x->open = 0;
    return rc;
}

/* Pipes have a metric for each way to count and each generation of GPUs:
 * sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed, sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_...
 */
static int pipe_metric(struct ncu_str m)
{
    if (m.len < 20 || memcmp(m.s, "sm", 2) != 0 || !memmem(m.s, m.len, ".avg.pct_of_peak_sustained_", 27))
        return -1;
    if (memmem(m.s, m.len, "pipe_tensor", 11))
        return GW_KM_TENSOR;
    if (memmem(m.s, m.len, "pipe_fma", 8) && !memmem(m.s, m.len, "pipe_fma64", 10))
        return GW_KM_FP32;
    return -1;
}

int ncu_what(struct ncu_str m)
{
    static const struct {
        const char *name;
        int what;
    } names[] = {
#define NCU_NAME(name, what) {name, what},
#include "import/ncu_names.def"
#undef NCU_NAME
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ncu_is(m, names[i].name))
            return names[i].what;
    return pipe_metric(m);
}

/* ns a unit of time; 0 when it is none. Without a unit (--print-units base, or cut off) it is ns. */
static double time_unit(struct ncu_str u)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"", 1},     {"ns", 1},        {"nsecond", 1}, {"us", 1e3},    {"usecond", 1e3}, {"\xc2\xb5s", 1e3},
                 {"ms", 1e6}, {"msecond", 1e6}, {"s", 1e9},     {"second", 1e9}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (ncu_is(u, units[i].name))
            return units[i].ns;
    return 0;
}

static int is_percentage(int what)
{
    return what != GW_KM_WAVES && what != GW_KM_BLOCKS && what != GW_KM_THREADS && what != GW_KM_REGISTERS;
}

void ncu_metric(struct ncu *x, int what, struct ncu_str metric, struct ncu_str unit, struct ncu_str value)
{
    double v;
    (void)metric;
    if (x->voting)
        vote(x, value);
    if (what < 0 || !x->open || !ncu_number(value, x->commas > x->points, &v) || v < 0)
        return;
    if (what == NCU_DURATION) {
        double ns = v * time_unit(unit);
        if (ns <= 0)
            return;
        x->sample.duration_ns = ns;
    } else {
        /* "Memory Throughput" is a share in one section and bytes a second in another */
        if (is_percentage(what) && unit.len && !ncu_is(unit, "%"))
            return;
        double *to = &x->sample.value[what];
        if (!(*to >= v)) /* a pipe with several metrics is as busy as the busiest of them says */
            *to = v;
    }
    x->metrics++;
}

void ncu_shape(struct ncu *x, enum gw_km k, struct ncu_str dims)
{
    double n = 1;
    int any = 0;
    for (size_t i = 0; i < dims.len;) {
        if (!isdigit((unsigned char)dims.s[i])) {
            i++;
            continue;
        }
        double one = 0;
        for (; i < dims.len && isdigit((unsigned char)dims.s[i]); i++)
            one = one * 10 + (dims.s[i] - '0');
        n *= one;
        any = 1;
    }
    if (any && x->open)
        x->sample.value[k] = n;
}

/* ------------------------------------------------------------------ reading */

static int one_line(struct ncu *x, char *line, size_t len)
{
    if (len > 2 && line[0] == '=' && line[1] == '=') { /* ==PROF==, ==WARNING==, ==ERROR== */
        x->denied |= memmem(line, len, "ERR_NVGPUCTRPERM", 16) != NULL;
        return GW_OK;
    }
    int rc = ncu_csv_line(x, line, len);
    if (rc == 0)
        rc = ncu_text_line(x, line, len);
    return rc < 0 ? rc : GW_OK;
}

static int drain(struct ncu *x, struct ncu_lines *l, int last)
{
    size_t len;
    for (char *line; (line = ncu_lines_next(l, last, &len)) != NULL;)
        if (one_line(x, line, len) < 0)
            return GW_ENOMEM;
    return GW_OK;
}

/* Learns from the first block which sign is the decimal sign. */
static int look_first(struct ncu *x, const char *head, size_t len)
{
    struct ncu_lines l = {0};
    x->voting = 1;
    int rc = ncu_lines_feed(&l, head, len);
    if (rc == GW_OK)
        rc = drain(x, &l, 0);
    ncu_lines_free(&l);
    x->voting = x->open = 0;
    x->csv.shape = 0;
    x->text = (struct ncu_text){0};
    x->metrics = x->rows = 0;
    return rc;
}

static int nothing(struct ncu *x)
{
    if (x->denied)
        return gw_error_set(x->err, GW_ENODATA, x->path, -1,
                            _("run ncu as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"),
                            _("ncu was not allowed to read the GPU's counters (ERR_NVGPUCTRPERM)"));
    if (x->launches)
        return gw_error_set(x->err, GW_ENODATA, x->path, -1, _("record with: ncu --set full -o report COMMAND"),
                            _("Nsight Compute output, but with none of the metrics that are used here"));
    return gw_error_set(x->err, GW_ENODATA, x->path, -1,
                        _("export it again: ncu --import REPORT.ncu-rep --csv --page raw"),
                        _("Nsight Compute output without a single kernel"));
}

static int ncu_read(struct gw_trace *t, struct gw_stream *s, const char *path, const struct gw_import_options *o,
                    struct gw_error *err)
{
    struct ncu *x = calloc(1, sizeof *x);
    struct ncu_lines l = {0};
    int64_t bytes = gw_stream_file_bytes(s), text = 0;
    const unsigned char *head;
    int rc = x ? GW_OK : GW_ENOMEM, stopped = 0;
    if (x) {
        x->t = t;
        x->path = path;
        x->err = err;
        size_t len = gw_stream_peek(s, &head);
        rc = look_first(x, (const char *)head, len);
    }
    for (struct gw_stream_block *b; rc == GW_OK && !stopped && (b = gw_stream_next(s, 1)) != NULL;) {
        rc = ncu_lines_feed(&l, b->data, b->len);
        text += (int64_t)b->len;
        stopped = o && o->progress && o->progress(o->user, b->file_pos, bytes);
        gw_stream_release(s, b);
        if (rc == GW_OK)
            rc = drain(x, &l, 0);
    }
    if (rc == GW_OK)
        rc = drain(x, &l, 1);
    if (rc == GW_OK)
        rc = ncu_end(x);
    if (rc < 0)
        gw_error_set(err, rc, path, -1, _("read it on a larger machine"), _("out of memory"));
    else if (!x->metrics)
        rc = nothing(x);
    if (rc == GW_OK) {
        const struct gw_stream_status *st = gw_stream_status(s);
        if (stopped)
            gw_trace_lose(t, GW_LOSS_TRUNCATED, 1, -1);
        else if (st->code < 0)
            gw_trace_lose(t, GW_LOSS_DECOMPRESS, 1, st->text_off);
        struct gw_source *src = gw_trace_source(t, path, "ncu");
        if (src) {
            src->bytes = bytes;
            src->text_bytes = text;
            src->events = (int64_t)x->launches;
        }
    }
    if (x)
        ncu_csv_free(x);
    free(x);
    ncu_lines_free(&l);
    return rc;
}

/* ------------------------------------------------------------------ sniffing */

static int has(const char *s, size_t len, const char *what) { return memmem(s, len, what, strlen(what)) != NULL; }

static int ncu_sniff(const char *path, const unsigned char *head, size_t len)
{
    struct ncu_lines l = {0};
    int sure = 0;
    (void)path;
    if (len == 0 || head[0] == '{' ||
        (head[0] == '[' && (len < 2 || !isdigit(head[1])))) /* JSON; text begins "[1433] app@host" */
        return 0;
    size_t take = len < 262144 ? len : 262144;
    if (ncu_lines_feed(&l, (const char *)head, take) == GW_OK) {
        if (has(l.buf, l.len, "Kernel Name") && (has(l.buf, l.len, "Metric Name") || has(l.buf, l.len, "__")))
            sure = 95;
        else if (has(l.buf, l.len, "Section: ") && has(l.buf, l.len, "Metric Value") && has(l.buf, l.len, ", Context "))
            sure = 95;
        else if (has(l.buf, l.len, "==PROF==") || has(l.buf, l.len, "ERR_NVGPUCTRPERM"))
            sure = 60;
    }
    ncu_lines_free(&l);
    return sure;
}

const struct gw_importer gw_importer_ncu = {
    .name = "ncu", .title = N_("Nsight Compute: ncu --csv, or its text"), .sniff = ncu_sniff, .read_stream = ncu_read, .timeless = 1};
