#include "report/html/html_words.h"

#include <string.h>

#include "base/gw_i18n.h"
#include "engine/analysis.h"
#include "report/json_writer.h"

enum gw_family gw_html_family(unsigned cause)
{
    static const unsigned char family[GW_CAUSE_COUNT + 1] = {
        [GW_CAUSE_UNEXPLAINED] = GW_FAMILY_UNKNOWN, [GW_CAUSE_DATA_WAIT] = GW_FAMILY_DATA,
        [GW_CAUSE_MAIN_LOADING] = GW_FAMILY_DATA,   [GW_CAUSE_RESPAWN] = GW_FAMILY_DATA,
        [GW_CAUSE_USER_CODE] = GW_FAMILY_LAUNCH,    [GW_CAUSE_BLOCKING_COPY] = GW_FAMILY_SYNC,
        [GW_CAUSE_HOST_SYNC] = GW_FAMILY_SYNC,      [GW_CAUSE_ALLOCATOR] = GW_FAMILY_MEMORY,
        [GW_CAUSE_HOST_ALLOC] = GW_FAMILY_MEMORY,   [GW_CAUSE_MODULE_LOAD] = GW_FAMILY_COMPILE,
        [GW_CAUSE_COMPILE] = GW_FAMILY_COMPILE,     [GW_CAUSE_CHECKPOINT] = GW_FAMILY_PHASE,
        [GW_CAUSE_EVALUATION] = GW_FAMILY_PHASE,    [GW_CAUSE_SIMULATOR] = GW_FAMILY_PHASE,
        [GW_CAUSE_SLOW_OP] = GW_FAMILY_LAUNCH,      [GW_CAUSE_HOST_COMM] = GW_FAMILY_PEER,
        [GW_CAUSE_LOCK] = GW_FAMILY_PEER,           [GW_CAUSE_GPU_DEPENDENCY] = GW_FAMILY_PEER,
        [GW_CAUSE_LAUNCH] = GW_FAMILY_LAUNCH,       [GW_CAUSE_KERNEL_GAP] = GW_FAMILY_LAUNCH,
        [GW_HOST_QUEUE_FULL] = GW_FAMILY_OTHER,
    };
    return cause <= GW_CAUSE_COUNT ? family[cause] : GW_FAMILY_OTHER;
}

static const struct {
    const char *id, *text;
} families[GW_FAMILY_COUNT] = {
    [GW_FAMILY_OTHER] = {"other", N_("outside the code")},
    [GW_FAMILY_DATA] = {"data", N_("waiting for data")},
    [GW_FAMILY_SYNC] = {"sync", N_("reading values, blocking copies")},
    [GW_FAMILY_LAUNCH] = {"launch", N_("issuing work")},
    [GW_FAMILY_MEMORY] = {"memory", N_("allocating memory")},
    [GW_FAMILY_COMPILE] = {"compile", N_("compiling, loading modules")},
    [GW_FAMILY_PEER] = {"peer", N_("other ranks, streams, locks")},
    [GW_FAMILY_PHASE] = {"phase", N_("checkpoint, evaluation, simulator")},
    [GW_FAMILY_UNKNOWN] = {"unknown", N_("unexplained")},
};

const char *gw_html_family_id(enum gw_family f) { return families[f].id; }
const char *gw_html_family_text(enum gw_family f) { return families[f].text; }

struct gw_html_lang gw_html_language(void)
{
    struct gw_html_lang l;
    snprintf(l.s, sizeof l.s, "%s", gw_i18n_language());
    for (char *c = l.s; *c; c++)
        *c = *c == '_' ? '-' : *c;
    return l;
}

/* Where evidence comes from, in the words of the layers; names such as NVML or a path in /proc are the same in every
 * language. */
const char *gw_html_source(const char *source)
{
    static const char *const known[] = {N_("timeline"),
                                        N_("timelines"),
                                        N_("API calls"),
                                        N_("thread samples"),
                                        N_("copy records"),
                                        N_("steps"),
                                        N_("operators"),
                                        N_("kernel names"),
                                        N_("CPU time"),
                                        N_("step times"),
                                        N_("settings"),
                                        N_("scheduler"),
                                        N_("reports"),
                                        N_("processes"),
                                        N_("kernels"),
                                        N_("kernel records"),
                                        N_("kernel order"),
                                        N_("kernel grids"),
                                        N_("files"),
                                        N_("counted calls"),
                                        N_("DataLoader ranges"),
                                        N_("trace"),
                                        N_("threads"),
                                        N_("replay"),
                                        N_("kernels under operators"),
                                        N_("host events"),
                                        N_("environment"),
                                        N_("data sheet"),
                                        N_("affinity")};
    for (size_t i = 0; source && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], source) == 0)
            return _(known[i]);
    return source;
}

/* The words that the script shows. `{}` stands for what it puts in. */
static const struct {
    const char *key, *text;
} labels[] = {
    {"copy", N_("Copy")},
    {"copied", N_("Copied")},
    {"copy_failed", N_("Select the text and copy it by hand")},
    {"timeline",
     N_("Timeline. Arrow keys move, plus and minus zoom, N and P go to the next and the previous idle span, "
        "Enter says more, Home shows everything.")},
    {"hint", N_("Drag to move. Hold Ctrl while turning the wheel, or pinch, to zoom. Click a span to see what it is.")},
    {"zoom_in", N_("Zoom in")},
    {"zoom_out", N_("Zoom out")},
    {"all", N_("All")},
    {"steady", N_("Steady part")},
    {"typical", N_("Typical step")},
    {"slowest", N_("Slowest step")},
    {"previous", N_("Previous idle span")},
    {"next", N_("Next idle span")},
    {"longest", N_("Longest idle span")},
    {"close", N_("Close")},
    {"show", N_("Show in the timeline")},
    {"idle", N_("idle for {}")},
    {"idle_merged", N_("{} idle spans merged")},
    {"merged", N_("{} merged")},
    {"busy", N_("{} of it at work")},
    {"idle_within", N_("{} of it idle")},
    {"among", N_("among them {}")},
    {"zoom_hint", N_("Zoom in to the typical or the slowest step to see single spans.")},
    {"starts", N_("starts at {}")},
    {"step", N_("step {}")},
    {"steps", N_("steps")},
    {"waits_for", N_("The host is in")},
    {"under", N_("Inside")},
    {"ended_by", N_("Ended by")},
    {"issued_by", N_("Issued by")},
    {"issued_at", N_("{} after the GPU ran dry")},
    {"issued_before", N_("{} before the GPU ran dry")},
    {"ran", N_("{} long, from {} after the GPU ran dry")},
    {"ran_before", N_("{} long, from {} before the GPU ran dry")},
    {"not_known", N_("not known")},
    {"host_code", N_("code that makes no GPU call")},
    {"range", N_("{} to {}")},
    {"shown", N_("{} shown")},
    {"no_span", N_("No idle span here")},
    {"step_number", N_("steady step")},
    {"step_time", N_("step time, ms")},
    {"median", N_("median")},
    {"value", N_("{} to {}")},
    {"compute", N_("compute")},
    {"comm", N_("communication")},
    {"copy_kind", N_("copy")},
    {"set_kind", N_("memory set")},
    {"graph_kind", N_("graph launch")},
};

void gw_html_labels(FILE *data)
{
    struct gw_json j = gw_json_begin(data);
    gw_json_object(&j, NULL);
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        gw_json_string(&j, labels[i].key, _(labels[i].text));
    gw_json_end(&j);
}
