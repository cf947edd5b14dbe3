/* calls.c - see calls.h */
#include "calls.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "record/record_write.h"

enum { SLOTS = 256, OBJECTS = 4096 };

/* --- the table ---------------------------------------------------------------------------------------------------------- */

/* One a thread; written by its thread alone, read by ours and, from outside, by the recorder. */
static struct gw_call_slot table[SLOTS] __attribute__((aligned(64)));
static _Atomic uint32_t used;
static _Atomic int is_off;
static _Atomic uint64_t slack_ticks = UINT64_MAX; /* GW_CALLS_SLACK_NS in ticks, once the clock is known */
/* Kernels and grids that were launched, as bits: two for each. Written by all threads without a lock: a bit that gets lost is one more
 * that seems fresh. Emptied when a quarter of the bits may be set. */
enum { SEEN_BITS = 1 << 19, SEEN_MOST = SEEN_BITS / 8 };
static uint8_t seen_bits[SEEN_BITS / 8];
static _Atomic uint32_t seen_count;
static __thread struct gw_call_slot *mine;
static __thread int is_refused; /* more threads than slots */

const void *gw_calls_table(unsigned *slots)
{
    uint32_t n = atomic_load(&used);
    *slots = n < SLOTS ? n : SLOTS;
    return table;
}

void gw_calls_disable(void) { atomic_store(&is_off, 1); }

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#else
    return gw_clock_ns(CLOCK_MONOTONIC);
#endif
}

static struct gw_call_slot *claim(void)
{
    uint32_t i = is_refused ? SLOTS : atomic_fetch_add(&used, 1);
    if (i >= SLOTS) {
        is_refused = 1;
        return NULL;
    }
    mine = &table[i];
    __atomic_store_n(&mine->tid, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
    return mine;
}

static inline void put(uint64_t *p, uint64_t add) { /* one writer: no read-modify-write on the bus */
    __atomic_store_n(p, __atomic_load_n(p, __ATOMIC_RELAXED) + add, __ATOMIC_RELAXED);
}

static inline struct gw_call_slot *enter(unsigned kind, uint64_t *since)
{
    struct gw_call_slot *s = mine ? mine : claim();
    if (!s || atomic_load_explicit(&is_off, memory_order_relaxed))
        return NULL;
    *since = ticks();
    __atomic_store_n(&s->now, kind, __ATOMIC_RELAXED);
    return s;
}

static int set_bit(uint32_t at) { /* 1 = it was not set */
    uint8_t *byte = &seen_bits[at / 8 % sizeof seen_bits], bit = (uint8_t)(1u << at % 8), old = __atomic_load_n(byte, __ATOMIC_RELAXED);
    if (!(old & bit))
        __atomic_store_n(byte, (uint8_t)(old | bit), __ATOMIC_RELAXED);
    return !(old & bit);
}

/* `grid`: three numbers, x y z; NULL = not a launch with a grid. */
static inline void note_grid(struct gw_call_slot *s, const void *kernel, const unsigned *grid)
{
    if (!s || !grid)
        return;
    uint64_t h = (uintptr_t)kernel; /* multipliers: odd, from the golden ratio and from pi */
    h = (h ^ h >> 29) * 0x9E3779B97F4A7C15u + grid[0];
    h = (h ^ h >> 32) * 0x243F6A8885A308D3u + ((uint64_t)grid[1] << 32 | grid[2]);
    h = (h ^ h >> 29) * 0x9E3779B97F4A7C15u;
    if (set_bit((uint32_t)(h >> 45)) | set_bit((uint32_t)(h >> 26 & (SEEN_BITS - 1)))) {
        put(&s->fresh, 1);
        atomic_fetch_add_explicit(&seen_count, 1, memory_order_relaxed);
    }
}

static inline void leave(struct gw_call_slot *s, unsigned kind, uint64_t since)
{
    if (!s)
        return;
    uint64_t took = ticks() - since, limit = atomic_load_explicit(&slack_ticks, memory_order_relaxed);
    __atomic_store_n(&s->now, 0, __ATOMIC_RELAXED);
    put(&s->count[kind], 1);
    put(&s->ticks[kind], took);
    /* Allocating, and copying from pageable memory, is work; the others wait for the GPU. */
    if (took > limit && kind != GW_CALL_ALLOC && kind != GW_CALL_HOST_ALLOC && kind != GW_CALL_COPY) {
        put(&s->slack_ticks, took - limit);
        if (kind == GW_CALL_LAUNCH || kind == GW_CALL_GRAPH) {
            put(&s->count[GW_CALL_NONE], 1);
            put(&s->ticks[GW_CALL_NONE], took);
        }
    }
}

/* --- the wrappers --------------------------------------------------------------------------------------------------------- */

struct dim3 { unsigned x, y, z; };
typedef void *any;

/* W(kind, result, function, (parameters), (arguments), kernel, grid): the functions that launch, wait, copy or allocate, by the signatures in
 * cuda_runtime_api.h and cuda.h of CUDA 11 to 13. From CUDA 13 on `<<<>>>` calls __cudaLaunchKernel (crt/host_runtime.h). */
#define COPY_OF(k) ((k) == 2 ? GW_CALL_READ : GW_CALL_COPY) /* cudaMemcpyDeviceToHost */
/* Both configurations begin with the grid: cudaLaunchConfig_t in driver_types.h, CUlaunchConfig in cuda.h. */
#define WRAPPED(W)                                                                                                                              \
    W(GW_CALL_LAUNCH, int, cudaLaunchKernel, (const void *f, struct dim3 g, struct dim3 b, any *a, size_t m, any s), (f, g, b, a, m, s), f, &g.x) \
    W(GW_CALL_LAUNCH, int, __cudaLaunchKernel, (any f, struct dim3 g, struct dim3 b, any *a, size_t m, any s), (f, g, b, a, m, s), f, &g.x)     \
    W(GW_CALL_LAUNCH, int, cudaLaunchKernelExC, (const any c, const void *f, any *a), (c, f, a), f, c)                                          \
    W(GW_CALL_LAUNCH, int, cudaLaunchCooperativeKernel, (const void *f, struct dim3 g, struct dim3 b, any *a, size_t m, any s),                 \
      (f, g, b, a, m, s), f, &g.x)                                                                                                              \
    W(GW_CALL_GRAPH, int, cudaGraphLaunch, (any g, any s), (g, s), NULL, NULL)                                                                  \
    W(GW_CALL_WAIT, int, cudaStreamSynchronize, (any s), (s), NULL, NULL)                                                                       \
    W(GW_CALL_WAIT, int, cudaEventSynchronize, (any e), (e), NULL, NULL)                                                                        \
    W(GW_CALL_WAIT, int, cudaDeviceSynchronize, (void), (), NULL, NULL)                                                                         \
    W(COPY_OF(k), int, cudaMemcpyAsync, (any d, const void *p, size_t n, int k, any s), (d, p, n, k, s), NULL, NULL)                            \
    W(COPY_OF(k), int, cudaMemcpy, (any d, const void *p, size_t n, int k), (d, p, n, k), NULL, NULL)                                           \
    W(GW_CALL_ALLOC, int, cudaMalloc, (any *p, size_t n), (p, n), NULL, NULL)                                                                   \
    W(GW_CALL_ALLOC, int, cudaFree, (any p), (p), NULL, NULL)                                                                                   \
    W(GW_CALL_HOST_ALLOC, int, cudaHostAlloc, (any *p, size_t n, unsigned f), (p, n, f), NULL, NULL)                                            \
    W(GW_CALL_HOST_ALLOC, int, cudaFreeHost, (any p), (p), NULL, NULL)                                                                          \
    W(GW_CALL_LAUNCH, int, cuLaunchKernel,                                                                                                      \
      (any f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned m, any s, any *p, any *x),                       \
      (f, a, b, c, d, e, g, m, s, p, x), f, ((const unsigned[]){a, b, c}))                                                                      \
    W(GW_CALL_LAUNCH, int, cuLaunchKernelEx, (const any c, any f, any *p, any *x), (c, f, p, x), f, c)                                          \
    W(GW_CALL_GRAPH, int, cuGraphLaunch, (any g, any s), (g, s), NULL, NULL)                                                                    \
    W(GW_CALL_WAIT, int, cuStreamSynchronize, (any s), (s), NULL, NULL)                                                                         \
    W(GW_CALL_WAIT, int, cuEventSynchronize, (any e), (e), NULL, NULL)                                                                          \
    W(GW_CALL_WAIT, int, cuCtxSynchronize, (void), (), NULL, NULL)

enum {
#define W(kind, ret, name, params, args, kernel, grid) I_##name,
    WRAPPED(W)
#undef W
    WRAPPERS
};
static _Atomic uintptr_t real[WRAPPERS]; /* set before the first entry points at its wrapper */

#define W(kind, ret, name, params, args, kernel, grid)                                                                                 \
    static ret wrap_##name params {                                                                                        \
        uint64_t since = 0;                                                                                                \
        struct gw_call_slot *slot = enter(kind, &since);                                                         \
        note_grid(slot, kernel, grid);                                                                                     \
        ret rc = ((ret(*) params)atomic_load_explicit(&real[I_##name], memory_order_relaxed)) args;                        \
        leave(slot, kind, since);                                                                                \
        return rc;                                                                                                         \
    }
WRAPPED(W)
#undef W

static const struct wrapper {
    const char *name;
    uintptr_t entry;
} wrappers[WRAPPERS] = {
#define W(kind, ret, name, params, args, kernel, grid) {#name, (uintptr_t)wrap_##name},
    WRAPPED(W)
#undef W
};

/* --- finding the entries ----------------------------------------------------------------------------------------------------- */

static struct {
    struct { uintptr_t base; int is_pending; } seen[OBJECTS]; /* pending: it has entries that are not resolved yet */
    unsigned objects;
    unsigned long long adds; /* dlpi_adds at the last look */
    int any_pending, is_first_part;
    struct { uintptr_t low, high; } home[2][4]; /* [0] libcudart, [1] libcuda: where real functions live */
    unsigned homes[2];
    unsigned launch_entries;
} P;

unsigned gw_calls_entries(void) { return P.launch_entries; }

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "";
}

static int find_homes(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    const char *name = base_name(info->dlpi_name);
    int which = strncmp(name, "libcudart", 9) == 0 ? 0 : strncmp(name, "libcuda.so", 10) == 0 ? 1 : -1;
    if (which < 0 || P.homes[which] == 4)
        return 0;
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = info->dlpi_phdr + i;
        if (h->p_type != PT_LOAD)
            continue;
        uintptr_t at = info->dlpi_addr + h->p_vaddr;
        low = at < low ? at : low;
        high = at + h->p_memsz > high ? at + h->p_memsz : high;
    }
    P.home[which][P.homes[which]].low = low;
    P.home[which][P.homes[which]++].high = high;
    return 0;
}

static int lives_at_home(uintptr_t f, int is_driver)
{
    for (unsigned i = 0; i < P.homes[is_driver]; i++)
        if (f >= P.home[is_driver][i].low && f < P.home[is_driver][i].high)
            return 1;
    return 0;
}

/* The entry may lie in a part that the loader made read-only after it had filled it (RELRO). */
static void set_entry(struct dl_phdr_info *info, uintptr_t *entry, uintptr_t value)
{
    uintptr_t at = (uintptr_t)entry;
    int is_ro = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = info->dlpi_phdr + i;
        if (h->p_type == PT_GNU_RELRO && at >= info->dlpi_addr + h->p_vaddr && at < info->dlpi_addr + h->p_vaddr + h->p_memsz)
            is_ro = 1;
    }
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = at & ~(page - 1);
    if (is_ro && mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0)
        return;
    __atomic_store_n(entry, value, __ATOMIC_RELEASE);
    if (is_ro)
        (void)mprotect((void *)start, page, PROT_READ);
}

/* 1 when the entry is one of ours but its library has not called it yet. */
static int look_at_entry(struct dl_phdr_info *info, uintptr_t *entry, const char *name)
{
    if (strncmp(name, "cu", 2) != 0 && strncmp(name, "__cuda", 6) != 0)
        return 0;
    for (unsigned i = 0; i < WRAPPERS; i++) {
        const struct wrapper *w = &wrappers[i];
        if (strcmp(w->name, name) != 0)
            continue;
        uintptr_t f = __atomic_load_n(entry, __ATOMIC_RELAXED), known = atomic_load(&real[i]);
        if (f == w->entry)
            return 0;
        if (!lives_at_home(f, strstr(name, "cuda") == NULL))
            return 1;
        if (known && known != f) /* a second copy of the runtime: left alone */
            return 0;
        atomic_store(&real[i], f);
        set_entry(info, entry, w->entry);
        P.launch_entries += strstr(name, "Launch") != NULL;
        return 0;
    }
    return 0;
}

#if defined(__x86_64__)
enum { R_SLOT = R_X86_64_JUMP_SLOT, R_GLOBAL = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { R_SLOT = R_AARCH64_JUMP_SLOT, R_GLOBAL = R_AARCH64_GLOB_DAT };
#else
enum { R_SLOT = -1, R_GLOBAL = -1 };
#endif

static int look_at_relocations(struct dl_phdr_info *info, const ElfW(Rela) *r, size_t n, const ElfW(Sym) *symbols, const char *strings)
{
    int pending = 0;
    for (size_t i = 0; r && i < n; i++) {
        int type = (int)ELF64_R_TYPE(r[i].r_info);
        if (type != R_SLOT && type != R_GLOBAL)
            continue;
        const ElfW(Sym) *s = symbols + ELF64_R_SYM(r[i].r_info);
        if (s->st_shndx == SHN_UNDEF)
            pending |= look_at_entry(info, (uintptr_t *)(info->dlpi_addr + r[i].r_offset), strings + s->st_name);
    }
    return pending;
}

static uintptr_t address(const struct dl_phdr_info *info, uintptr_t v) { /* glibc has added the base already; others have not */
    return v && v < info->dlpi_addr ? v + info->dlpi_addr : v;
}

static int look_at_dynamic(struct dl_phdr_info *info, int only_calls)
{
    const ElfW(Dyn) *d = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            d = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    uintptr_t calls = 0, all = 0, symbols = 0, strings = 0;
    size_t calls_bytes = 0, all_bytes = 0;
    int uses_rela = 0;
    for (; d && d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_JMPREL: calls = address(info, d->d_un.d_ptr); break;
        case DT_PLTRELSZ: calls_bytes = d->d_un.d_val; break;
        case DT_PLTREL: uses_rela = d->d_un.d_val == DT_RELA; break;
        case DT_RELA: all = address(info, d->d_un.d_ptr); break;
        case DT_RELASZ: all_bytes = d->d_un.d_val; break;
        case DT_SYMTAB: symbols = address(info, d->d_un.d_ptr); break;
        case DT_STRTAB: strings = address(info, d->d_un.d_ptr); break;
        default: break;
        }
    }
    if (!symbols || !strings)
        return 0;
    int pending = 0;
    if (calls && uses_rela)
        pending = look_at_relocations(info, (const ElfW(Rela) *)calls, calls_bytes / sizeof(ElfW(Rela)), (const ElfW(Sym) *)symbols,
                                      (const char *)strings);
    if (all && !only_calls)
        (void)look_at_relocations(info, (const ElfW(Rela) *)all, all_bytes / sizeof(ElfW(Rela)), (const ElfW(Sym) *)symbols,
                                  (const char *)strings);
    return pending;
}

/* Libraries that are CUDA or watch it have their own reasons; ours would count itself. */
static int is_left_alone(const struct dl_phdr_info *info)
{
    static const char *const names[] = {"libcudart", "libcuda.so", "libcupti", "libnvidia", "libnvperf", "libgpuwhy", "linux-vdso", "ld-linux",
                                        "libclang_rt", "libasan", "libtsan", "libsanitizer", "libToolsInjection"};
    const char *name = base_name(info->dlpi_name);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    unsigned i = 0;
    while (i < P.objects && P.seen[i].base != info->dlpi_addr)
        i++;
    if (i == P.objects) {
        if (P.objects == OBJECTS || is_left_alone(info))
            return 0;
        P.seen[P.objects++].base = info->dlpi_addr;
        P.seen[i].is_pending = look_at_dynamic(info, 0);
    } else if (P.seen[i].is_pending) {
        P.seen[i].is_pending = look_at_dynamic(info, 1);
    }
    P.any_pending |= P.seen[i].is_pending;
    return 0;
}

static int count_adds(struct dl_phdr_info *info, size_t size, void *adds)
{
    (void)size;
    *(unsigned long long *)adds = info->dlpi_adds;
    return 1;
}

unsigned gw_calls_patch(void)
{
    unsigned long long adds = 0;
    (void)dl_iterate_phdr(count_adds, &adds);
    if (R_SLOT < 0 || (adds == P.adds && !P.any_pending))
        return P.launch_entries;
    P.adds = adds;
    P.homes[0] = P.homes[1] = 0;
    (void)dl_iterate_phdr(find_homes, NULL);
    P.any_pending = 0;
    (void)dl_iterate_phdr(look_at_object, NULL);
    return P.launch_entries;
}

/* --- a look ------------------------------------------------------------------------------------------------------------------- */

static struct {
    uint64_t ticks0, ns0;      /* where the two clocks were compared first */
    uint64_t last_ns, last_real;
    double ns_per_tick;
    struct gw_call_slot last[SLOTS];
    struct thread_time { uint64_t ran, waited; } last_time[SLOTS]; /* of the slot's thread at the last look: on a CPU, and ready
                                                                  * but without one, ns; ran 0 = unknown */
} L;

static void set_clock(uint64_t now)
{
    uint64_t t = ticks();
    if (!L.ns0) {
        L.ticks0 = t;
        L.ns0 = now;
    } else if (now - L.ns0 > 50000000u && t > L.ticks0) {
        L.ns_per_tick = (double)(now - L.ns0) / (double)(t - L.ticks0);
        atomic_store(&slack_ticks, (uint64_t)(GW_CALLS_SLACK_NS / L.ns_per_tick));
    }
}

static uint64_t since_last(const uint64_t *now, uint64_t *last)
{
    uint64_t v = __atomic_load_n(now, __ATOMIC_RELAXED), d = v - *last;
    *last = v;
    return d;
}

static uint64_t to_ns(uint64_t t) { return (uint64_t)((double)t * L.ns_per_tick); }

static int thread_time(uint32_t tid, struct thread_time *out)
{
    char path[64], text[64], *end = text;
    snprintf(path, sizeof path, "/proc/self/task/%u/schedstat", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    out->ran = strtoull(text, &end, 10);
    out->waited = strtoull(end, NULL, 10);
    return out->ran ? 0 : -1;
}

/* What the slot's thread did since the last look. One that is new to us, or cannot be read, is taken to have run all the time. */
static struct thread_time time_since(unsigned i, uint32_t tid, uint64_t ns)
{
    struct thread_time now, last = L.last_time[i], d = {ns, 0};
    if (thread_time(tid, &now) != 0)
        return d;
    if (last.ran && now.ran >= last.ran && now.waited >= last.waited)
        d = (struct thread_time){now.ran - last.ran, now.waited - last.waited};
    L.last_time[i] = now;
    return d;
}

/* One slot's calls since the last look, and its share of `look`. Returns the number of calls. */
static uint64_t look_at_slot(unsigned i, struct gw_calls_look *look, struct gw_rec_calls *r, uint64_t *awake)
{
    uint64_t calls = 0;
    r->tid = __atomic_load_n(&table[i].tid, __ATOMIC_RELAXED);
    for (unsigned k = 0; k < GW_CALL_SLOTS; k++) {
        uint64_t c = since_last(&table[i].count[k], &L.last[i].count[k]);
        r->count[k] = (uint32_t)c;
        r->ns[k] = to_ns(since_last(&table[i].ticks[k], &L.last[i].ticks[k]));
        calls += k == GW_CALL_NONE ? 0 : c;
    }
    r->slack_ns = to_ns(since_last(&table[i].slack_ticks, &L.last[i].slack_ticks));
    r->fresh = (uint32_t)since_last(&table[i].fresh, &L.last[i].fresh);
    uint64_t launches = (uint64_t)r->count[GW_CALL_LAUNCH] + r->count[GW_CALL_GRAPH], stuck = r->count[GW_CALL_NONE];
    uint64_t inside = r->ns[GW_CALL_LAUNCH] + r->ns[GW_CALL_GRAPH];
    look->calls += calls;
    look->launches += launches;
    if (launches > stuck && inside > r->ns[GW_CALL_NONE])
        look->launch_ns += (inside - r->ns[GW_CALL_NONE]) * launches / (launches - stuck);
    if (!launches || !r->tid) {
        L.last_time[i].ran = 0; /* stale by the time it launches again */
        return calls;
    }
    struct thread_time t = time_since(i, r->tid, look->ns);
    look->slack_ns += r->slack_ns > t.waited ? r->slack_ns - t.waited : 0; /* a call is long, too, when its thread lost the CPU */
    *awake += t.ran + t.waited;
    return calls;
}

unsigned gw_calls_look(struct gw_calls_look *look, struct gw_rec_calls *out, unsigned max)
{
    uint64_t now = gw_clock_ns(CLOCK_MONOTONIC), real_now = gw_clock_ns(CLOCK_REALTIME), awake = 0;
    unsigned slots, n = 0;
    (void)gw_calls_table(&slots);
    set_clock(now);
    *look = (struct gw_calls_look){0};
    if (L.ns_per_tick > 0 && L.last_ns)
        look->ns = now - L.last_ns;
    for (unsigned i = 0; i < slots; i++) {
        struct gw_rec_calls r = {.start = L.last_real, .end = real_now};
        uint64_t calls = look_at_slot(i, look, &r, &awake);
        if (calls && look->ns && n < max && r.tid)
            out[n++] = r;
    }
    look->slack_ns += look->launches && awake < look->ns ? look->ns - awake : 0;
    if (atomic_load_explicit(&seen_count, memory_order_relaxed) > SEEN_MOST) {
        memset(seen_bits, 0, sizeof seen_bits);
        atomic_store(&seen_count, 0);
    }
    L.last_ns = now;
    L.last_real = real_now;
    return n;
}
