/* From the names that nvidia-smi's formats use to metrics: the names are columns of gpu_metrics.def and reasons.def. */
#include <string.h>

#include "collect/capture/capture.h"

struct reason {
    int64_t bit;
    const char *q, *word;
};
static const struct reason reasons[] = {
#define GW_REASON(sym, bit, id, q, word, text) {bit, q, word},
#include "collect/reasons.def"
#undef GW_REASON
};

void gw_smi_begin(struct gw_smi_block *b, struct gw_gpu *g)
{
    memset(b, 0, sizeof *b);
    b->gpu = g;
    for (int m = 0; m < GW_GPU_DYNAMIC; m++)
        g->has[m / 64] &= ~(1ull << (m % 64));
}

/* The place of `name` among the alternatives "a|b|c", counted from 1; 0 = not among them. */
static int alternative(const char *names, const char *name, size_t len)
{
    int k = 1;
    for (;; k++) {
        size_t n = strcspn(names, "|");
        if (n == len && n && memcmp(names, name, len) == 0)
            return k;
        if (!names[n])
            return 0;
        names += n + 1;
    }
}

int gw_smi_metric(enum gw_smi_names names, const char *name, size_t len, int *alt)
{
    for (int m = 0; m < GW_GPU_COUNT; m++) {
        const struct gw_metric_info *info = gw_gpu_metric_info((enum gw_gpu_metric)m);
        *alt = alternative(names == GW_SMI_Q ? info->q : names == GW_SMI_XML ? info->xml : info->csv, name, len);
        if (*alt)
            return m;
    }
    return -1;
}

void gw_smi_set(struct gw_smi_block *b, int m, int alt, struct gw_slice value)
{
    int64_t v;
    if ((b->best[m] && alt > b->best[m]) ||
        gw_unit_parse(gw_gpu_metric_info((enum gw_gpu_metric)m)->unit, value.p, value.n, &v) < 0)
        return;
    b->best[m] = (unsigned char)alt;
    gw_gpu_set(b->gpu, (enum gw_gpu_metric)m, v);
    if (m == GW_GPU_REASONS && !gw_gpu_has(b->gpu, GW_GPU_REASONS_KNOWN))
        gw_gpu_set(b->gpu, GW_GPU_REASONS_KNOWN, 0x1ff); /* the mask holds every bit of reasons.def */
    b->facts++;
}

int gw_smi_value(struct gw_smi_block *b, enum gw_smi_names names, const char *name, size_t name_len,
                 struct gw_slice value)
{
    int alt, m = gw_smi_metric(names, name, name_len, &alt);
    if (m >= 0)
        gw_smi_set(b, m, alt, value);
    return m >= 0;
}

int gw_smi_reason(struct gw_smi_block *b, enum gw_smi_names names, struct gw_slice word, struct gw_slice value)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        int64_t on;
        if (!gw_slice_is(word, names == GW_SMI_Q ? reasons[i].q : reasons[i].word))
            continue;
        if (gw_unit_parse(GW_UNIT_BOOL, value.p, value.n, &on) < 0)
            return 1;
        int64_t mask = gw_gpu_has(b->gpu, GW_GPU_REASONS) ? b->gpu->v[GW_GPU_REASONS] : 0;
        int64_t known = gw_gpu_has(b->gpu, GW_GPU_REASONS_KNOWN) ? b->gpu->v[GW_GPU_REASONS_KNOWN] : 0;
        gw_gpu_set(b->gpu, GW_GPU_REASONS, on ? mask | reasons[i].bit : mask & ~reasons[i].bit);
        gw_gpu_set(b->gpu, GW_GPU_REASONS_KNOWN, known | reasons[i].bit);
        b->facts++;
        return 1;
    }
    return 0;
}

void gw_smi_driver(struct gw_env *env, struct gw_slice version)
{
    const char *old = gw_env_str(env, GW_HSTR_DRIVER);
    version = gw_slice_trim(version);
    if (!version.n || version.n > 32 || gw_slice_is(version, "N/A"))
        return;
    if (old && !gw_slice_is(version, old)) {
        gw_env_note(env, "driver",
                    "the captures name two drivers, %s and %.*s: they are of different machines or from "
                    "different days",
                    old, (int)version.n, version.p);
        return;
    }
    gw_env_set_str(env, GW_HSTR_DRIVER, version.p, version.n);
}

void gw_smi_cuda(struct gw_env *env, struct gw_slice version)
{
    int64_t v = gw_slice_cuda_version(gw_slice_trim(version));
    if (v > 0)
        gw_env_set(env, GW_HOST_CUDA_DRIVER, v);
}

struct gw_env_proc *gw_smi_process(struct gw_env *env, const struct gw_gpu *g, int64_t pid)
{
    int64_t gpu = g->index;
    for (size_t i = 0; i < gw_env_count(env, GW_REC_PROC); i++) {
        struct gw_env_proc *p = gw_env_at(env, GW_REC_PROC, i);
        if (p->gpu == gpu && p->pid == pid)
            return p;
    }
    struct gw_env_proc *p = gw_env_add(env, GW_REC_PROC);
    if (p) {
        p->gpu = gpu;
        p->pid = pid;
        p->resolved = 1;
    }
    return p;
}

void gw_smi_mig(struct gw_env *env, const struct gw_env_mig *mig)
{
    struct gw_env_mig *to = NULL;
    for (size_t i = 0; i < gw_env_count(env, GW_REC_MIG) && !to; i++) {
        struct gw_env_mig *m = gw_env_at(env, GW_REC_MIG, i);
        if (m->gpu == mig->gpu && m->gi == mig->gi)
            to = m;
    }
    if (to || (to = gw_env_add(env, GW_REC_MIG)))
        *to = *mig;
}

struct gw_env_pair *gw_env_find_pair(struct gw_env *env, int64_t gpu, int64_t peer_gpu, const char *peer_nic)
{
    for (size_t i = 0; i < gw_env_count(env, GW_REC_PAIR); i++) {
        struct gw_env_pair *p = gw_env_at(env, GW_REC_PAIR, i);
        if (p->gpu == gpu && p->peer_gpu == peer_gpu &&
            (!peer_nic || (p->peer_nic && strcmp(p->peer_nic, peer_nic) == 0)))
            return p;
    }
    const char *nic = peer_nic ? gw_env_dup(env, peer_nic, strlen(peer_nic)) : NULL;
    struct gw_env_pair *p = gw_env_add(env, GW_REC_PAIR);
    if (p) {
        p->gpu = gpu;
        p->peer_gpu = peer_gpu;
        p->peer_nic = nic;
    }
    return p;
}
