/* JSON reports that an earlier run wrote, back from their files. */
#include <string.h>
#include <sys/stat.h>

#include "cli/load.h"
#include "import/gw_stream.h"
#include "report/report_read.h"

/* All of the file, decompressed, when it begins like a report of ours. 1 = yes, 0 = no, or a negative code. */
static int read_text(const char *path, struct gw_array *text, struct gw_error *err)
{
    struct gw_stream_options so = {0};
    struct gw_stream *s = gw_stream_open(path, &so, NULL);
    const unsigned char *head;
    if (!s)
        return 0; /* the importer will say why */
    size_t n = gw_stream_peek(s, &head);
    int rc = gw_report_sniff(head, n);
    for (struct gw_stream_block *b; rc == 1 && (b = gw_stream_next(s, 1)) != NULL; gw_stream_release(s, b)) {
        if (text->len + b->len > GW_REPORT_READ_MAX)
            rc = gw_error_set(err, GW_EFORMAT, path, -1, "", _("too large for a report"));
        else if (gw_array_reserve(text, b->len + 1) < 0)
            rc = gw_error_set(err, GW_ENOMEM, path, -1, "", _("out of memory"));
        else if (b->len) {
            memcpy((char *)text->data + text->len, b->data, b->len);
            text->len += b->len;
        }
    }
    gw_stream_close(s);
    return rc;
}

static int is_regular(const char *path) /* a pipe could not be read a second time */
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int gw_load_is_saved(const char *path)
{
    struct gw_stream_options so = {0};
    struct gw_stream *s = is_regular(path) ? gw_stream_open(path, &so, NULL) : NULL;
    const unsigned char *head;
    size_t n = s ? gw_stream_peek(s, &head) : 0;
    int is = n > 0 && gw_report_sniff(head, n);
    gw_stream_close(s);
    return is;
}

int gw_load_saved(const char *path, struct gw_arena *arena, struct gw_report **out, int *status)
{
    struct gw_array text;
    struct gw_error err;
    *out = NULL;
    *status = GW_EXIT_OK;
    if (!is_regular(path))
        return 0;
    memset(&err, 0, sizeof err);
    gw_array_init(&text, 1, GW_REPORT_READ_MAX + 1);
    int rc = read_text(path, &text, &err);
    if (rc == 1)
        (void)gw_report_read(text.data, text.len, path, arena, out, &err);
    if (rc != 0 && !*out)
        *status = gw_cli_fail(&err);
    gw_array_free(&text);
    return rc != 0;
}
