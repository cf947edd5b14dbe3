/* The table of file formats, and the door that all files come through. */
#include "import/importer.h"

#include "base/gw_i18n.h"
#include "import/foreign.h"
#include "import/gw_stream.h"
#include "import/kineto.h"

#ifdef GW_WITH_NSYS
#include "import/ncu.h"
#include "import/nsys_importer.h"
#include "import/xla.h"
#endif
#ifdef GW_WITH_RECORD
#include "import/record_importer.h"
#endif

const struct gw_importer *const gw_importers[] = {
    &gw_importer_kineto,
#ifdef GW_WITH_NSYS
    &gw_importer_nsys,
    &gw_importer_ncu,
    &gw_importer_xla,
#endif
#ifdef GW_WITH_RECORD
    &gw_importer_record,
#endif
    NULL,
};

static const struct gw_importer *pick(const char *path, const unsigned char *head, size_t len)
{
    const struct gw_importer *best = NULL;
    int sure = 0;
    for (size_t i = 0; gw_importers[i]; i++) {
        int s = gw_importers[i]->sniff(path, head, len);
        if (s > sure) {
            sure = s;
            best = gw_importers[i];
        }
    }
    return best;
}

const struct gw_importer *gw_import_sniff(const char *path)
{
    struct gw_stream_options so = {0};
    struct gw_error err = {0};
    const unsigned char *head;
    struct gw_stream *s = gw_stream_open(path, &so, &err);
    if (!s)
        return NULL;
    size_t len = gw_stream_peek(s, &head);
    const struct gw_importer *im = pick(path, head, len);
    gw_stream_close(s);
    return im;
}

static int no_format(struct gw_stream *s, const char *path, const unsigned char *head, size_t len, struct gw_error *err)
{
    const struct gw_stream_status *st = gw_stream_status(s);
    if (len == 0 && st->code < 0)
        return gw_error_set(err, st->code == GW_EIO ? GW_EIO : GW_EFORMAT, path, 0, _("copy the file again"), "%s",
                            _(st->what));
    const struct gw_foreign *f = gw_foreign_find(path, head, len);
    return gw_error_set(err, GW_EFORMAT, path, 0, _(f->advice), "%s", _(f->what));
}

#ifdef GW_WITH_RECORD
static int import_folder(struct gw_trace *t, const char *path, const struct gw_import_options *o, struct gw_error *err)
{
    int rc = gw_importer_record.read(t, path, o, err);
    if (rc == GW_OK && gw_trace_finish(t) < 0)
        rc = gw_error_set(err, GW_ENOMEM, path, -1, _("record fewer steps, or read it on a larger machine"),
                          _("out of memory"));
    return rc;
}
#endif

int gw_import_file(struct gw_trace *t, const char *path, const struct gw_import_options *o, struct gw_error *err)
{
    struct gw_import_options none = {0};
    if (!o)
        o = &none;
#ifdef GW_WITH_RECORD
    if (gw_record_is_folder(path))
        return import_folder(t, path, o, err);
#endif
    struct gw_stream_options so = {.threaded = kineto_threads(o) > 1};
    struct gw_stream *s = gw_stream_open(path, &so, err);
    if (!s)
        return err ? err->code : GW_EIO;
    const unsigned char *head;
    size_t len = gw_stream_peek(s, &head);
    const struct gw_importer *im = pick(path, head, len);
    int rc = !im               ? no_format(s, path, head, len, err)
             : im->read_stream ? im->read_stream(t, s, path, o, err)
                               : im->read(t, path, o, err);
    gw_stream_close(s);
    if (rc == GW_OK && gw_trace_finish(t) < 0)
        rc = gw_error_set(err, GW_ENOMEM, path, -1, _("record fewer steps, or read it on a larger machine"),
                          _("out of memory"));
    return rc;
}
