/* nvidia-smi -q -x. Expat reads it, with no external entity ever fetched. */
#include "collect/capture/capture.h"

int gw_smi_xml_begins(struct gw_slice rest)
{
    struct gw_slice line;
    if (!gw_slice_line(&rest, &line))
        return 0;
    line = gw_slice_trim(line);
    if (gw_slice_starts(line, "<nvidia_smi_log"))
        return 1;
    if (!gw_slice_starts(line, "<?xml") && !gw_slice_starts(line, "<!DOCTYPE nvidia_smi_log"))
        return 0;
    struct gw_slice head = {line.p, line.n + rest.n < 2048 ? line.n + rest.n : 2048};
    return gw_slice_has(head, "nvidia_smi_log");
}

#ifndef GW_HAVE_EXPAT

int64_t gw_smi_xml_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    *used = rest.n;
    gw_env_note(env, "nvidia-smi -q -x", "XML was left out: this build has no expat; use `nvidia-smi -q` without -x");
    return 0;
}

#else

#include <expat.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 256, MAX_VALUE = 256, MAX_DEPTH = 32 };

struct xml {
    struct gw_env *env;
    XML_Parser parser;
    struct gw_smi_block block;
    char path[MAX_PATH];   /* elements below <nvidia_smi_log>, or below <gpu> */
    size_t cut[MAX_DEPTH]; /* length of the path before each open element */
    int depth, skipped;    /* open elements; those too deep or too long to follow */
    char value[MAX_VALUE];
    size_t value_len;
    int64_t gpus, time, source, facts;
    long long end; /* byte behind </nvidia_smi_log>, -1 before it */
    struct gw_env_proc *proc;
    struct gw_env_mig mig;
};

static void begin_gpu(struct xml *x, const XML_Char **attr)
{
    const char *bus = NULL;
    for (int i = 0; attr[i]; i += 2)
        if (strcmp(attr[i], "id") == 0)
            bus = attr[i + 1];
    struct gw_gpu *g = gw_env_gpu(x->env, x->gpus++, bus);
    if (g)
        gw_smi_begin(&x->block, g);
}

static void XMLCALL on_start(void *user, const XML_Char *name, const XML_Char **attr)
{
    struct xml *x = user;
    size_t len = strlen(x->path), add = strlen(name);
    x->value_len = 0;
    if (x->skipped || x->depth >= MAX_DEPTH || len + add + 2 > sizeof x->path) {
        x->skipped++;
        return;
    }
    x->cut[x->depth++] = len;
    if (x->depth == 1)
        return; /* the root is not part of any path */
    if (x->depth == 2 && strcmp(name, "gpu") == 0) {
        begin_gpu(x, attr);
        return;
    }
    if (len)
        x->path[len++] = '/';
    memcpy(x->path + len, name, add + 1);
    if (!x->block.gpu)
        return;
    if (strcmp(name, "mig_device") == 0)
        x->mig = (struct gw_env_mig){x->block.gpu->index, GW_ENV_NONE, GW_ENV_NONE, GW_ENV_NONE};
    if (strcmp(name, "process_info") == 0)
        x->proc = NULL;
}

static void XMLCALL on_text(void *user, const XML_Char *s, int n)
{
    struct xml *x = user;
    size_t room = sizeof x->value - x->value_len, take = (size_t)n < room ? (size_t)n : room;
    memcpy(x->value + x->value_len, s, take);
    x->value_len += take;
}

static void top_value(struct xml *x, struct gw_slice value)
{
    int64_t v;
    if (strcmp(x->path, "driver_version") == 0)
        gw_smi_driver(x->env, value);
    else if (strcmp(x->path, "cuda_version") == 0)
        gw_smi_cuda(x->env, value);
    else if (strcmp(x->path, "attached_gpus") == 0 && gw_slice_number(value, &v) == 0)
        gw_env_set(x->env, GW_HOST_GPUS_ATTACHED, v);
    else if (strcmp(x->path, "timestamp") == 0) {
        x->time = gw_slice_time(value);
        gw_env_set_str(x->env, GW_HSTR_CAPTURED, value.p, value.n);
    } else {
        return;
    }
    x->facts++;
}

static void process_value(struct xml *x, const char *leaf, struct gw_slice value)
{
    int64_t v;
    if (strcmp(leaf, "pid") == 0 && gw_slice_number(value, &v) == 0)
        x->proc = gw_smi_process(x->env, x->block.gpu, v);
    else if (!x->proc)
        return;
    else if (strcmp(leaf, "type") == 0)
        x->proc->compute = gw_slice_has(value, "C");
    else if (strcmp(leaf, "process_name") == 0)
        x->proc->name = gw_env_dup(x->env, value.p, value.n);
    else if (strcmp(leaf, "used_memory") == 0 && gw_unit_parse(GW_UNIT_BYTES, value.p, value.n, &v) == 0)
        x->proc->bytes = v;
}

static void gpu_value(struct xml *x, struct gw_slice value)
{
    struct gw_gpu *g = x->block.gpu;
    const char *leaf = strrchr(x->path, '/');
    int64_t v;
    leaf = leaf ? leaf + 1 : x->path;
    if (strcmp(x->path, "product_name") == 0)
        g->name = gw_env_dup(x->env, value.p, value.n);
    else if (strcmp(x->path, "product_architecture") == 0)
        g->arch = gw_env_dup(x->env, value.p, value.n);
    else if (strcmp(x->path, "uuid") == 0)
        g->uuid = gw_env_dup(x->env, value.p, value.n);
    else if (strcmp(leaf, "virtualization_mode") == 0)
        g->virt = gw_env_dup(x->env, value.p, value.n);
    else if (strncmp(leaf, "clocks_event_reason_", 20) == 0)
        gw_smi_reason(&x->block, GW_SMI_XML, (struct gw_slice){leaf + 20, strlen(leaf + 20)}, value);
    else if (strncmp(leaf, "clocks_throttle_reason_", 23) == 0)
        gw_smi_reason(&x->block, GW_SMI_XML, (struct gw_slice){leaf + 23, strlen(leaf + 23)}, value);
    else if (strncmp(x->path, "processes/process_info/", 23) == 0)
        process_value(x, leaf, value);
    else if (strncmp(x->path, "mig_devices/mig_device/", 23) == 0) {
        if (strcmp(leaf, "gpu_instance_id") == 0 && gw_slice_number(value, &v) == 0)
            x->mig.gi = v;
        else if (strcmp(leaf, "multiprocessor_count") == 0 && gw_slice_number(value, &v) == 0)
            x->mig.sm_count = v;
        else if (strcmp(x->path, "mig_devices/mig_device/fb_memory_usage/total") == 0 &&
                 gw_unit_parse(GW_UNIT_BYTES, value.p, value.n, &v) == 0)
            x->mig.bytes = v;
    } else {
        gw_smi_value(&x->block, GW_SMI_XML, x->path, strlen(x->path), value);
    }
}

static void end_gpu(struct xml *x)
{
    gw_env_sample(x->env, x->block.gpu, x->time, x->source);
    x->facts += x->block.facts;
    x->block.gpu = NULL;
    x->proc = NULL;
}

static void XMLCALL on_end(void *user, const XML_Char *name)
{
    struct xml *x = user;
    struct gw_slice value = gw_slice_trim((struct gw_slice){x->value, x->value_len});
    (void)name;
    if (x->skipped) {
        x->skipped--;
        return;
    }
    if (x->block.gpu && x->depth > 2 && value.n)
        gpu_value(x, value);
    else if (!x->block.gpu && x->depth == 2 && value.n)
        top_value(x, value);
    if (x->block.gpu && strcmp(x->path, "mig_devices/mig_device") == 0)
        gw_smi_mig(x->env, &x->mig);
    x->value_len = 0;
    if (x->depth == 2 && x->block.gpu)
        end_gpu(x);
    x->path[x->cut[--x->depth]] = '\0';
    if (x->depth == 0) {
        x->end = (long long)XML_GetCurrentByteIndex(x->parser) + XML_GetCurrentByteCount(x->parser);
        XML_StopParser(x->parser, XML_FALSE); /* what follows in the file is another capture */
    }
}

int64_t gw_smi_xml_read(struct gw_env *env, struct gw_slice rest, size_t *used)
{
    struct xml x = {.env = env, .time = GW_ENV_NONE, .source = env->next_source++, .end = -1};
    *used = rest.n;
    /* Blanks before <?xml make expat refuse the document. The text is UTF-8 by now, whatever the document says. */
    struct gw_slice body = gw_slice_trim(rest);
    if (!(x.parser = XML_ParserCreate("UTF-8"))) {
        env->no_memory = 1;
        return 0;
    }
    XML_SetUserData(x.parser, &x);
    XML_SetElementHandler(x.parser, on_start, on_end);
    XML_SetCharacterDataHandler(x.parser, on_text);
    if (XML_Parse(x.parser, body.p, (int)body.n, 1) != XML_STATUS_OK && x.end < 0) {
        gw_env_note(env, "nvidia-smi -q -x",
                    "the XML ends early or is damaged in line %lu (%s); what came before was kept",
                    (unsigned long)XML_GetCurrentLineNumber(x.parser), XML_ErrorString(XML_GetErrorCode(x.parser)));
        if (x.block.gpu)
            end_gpu(&x);
        /* Go on behind the damage, so that a capture after it is still read. */
        long at = XML_GetCurrentByteIndex(x.parser);
        x.end = at > 0 ? at : 1;
    }
    XML_ParserFree(x.parser);
    size_t skip = (size_t)(body.p - rest.p);
    *used = skip + (size_t)x.end < rest.n ? skip + (size_t)x.end : rest.n;
    return x.facts;
}

#endif
