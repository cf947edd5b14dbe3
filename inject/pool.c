/* pool.c - see inject.h. One fixed mapping; states change by atomics only, so callbacks never wait. */
#include <errno.h>
#include <sys/mman.h>

#include "inject.h"

enum { FREE, LENT, DONE, DRAINING };

struct buffer {
    _Atomic uint32_t state;
    uint64_t seq; /* order of completion; written before state becomes DONE */
    size_t valid;
};

static struct buffer buffers[GW_POOL_BUFFERS];
static uint8_t *base;
static int null_safe;
static _Atomic uint32_t off = 1;
static _Atomic uint64_t requested, completed, overflow;

int gw_pool_init(int null_is_safe)
{
    void *p = mmap(NULL, (size_t)GW_POOL_BUFFERS * GW_POOL_BUFFER_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return -errno;
    base = p;
    null_safe = null_is_safe;
    atomic_store(&off, 0);
    return 0;
}

void gw_pool_disable(void) { atomic_store(&off, 1); }

void gw_pool_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *max_records = 0; /* as many as fit */
    *buffer = NULL;
    *size = 0;
    if (atomic_load_explicit(&off, memory_order_relaxed))
        return;
    atomic_fetch_add_explicit(&requested, 1, memory_order_relaxed);
    for (unsigned i = 0; i < GW_POOL_BUFFERS; i++) {
        uint32_t want = FREE;
        if (atomic_load_explicit(&buffers[i].state, memory_order_relaxed) == FREE &&
            atomic_compare_exchange_strong(&buffers[i].state, &want, LENT)) {
            *buffer = base + (size_t)i * GW_POOL_BUFFER_BYTES;
            *size = GW_POOL_BUFFER_BYTES;
            return;
        }
    }
    atomic_fetch_add_explicit(&overflow, 1, memory_order_relaxed);
    if (null_safe)
        return;
    /* CUPTI before 12.9 may crash on NULL: lend a page that is thrown away when it comes back. The only memory that is
     * ever taken after the start; the writer closes the window long before the pool is empty. */
    void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) {
        *buffer = p;
        *size = 65536;
    }
}

void gw_pool_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    (void)context;
    (void)stream;
    if (!buffer || atomic_load_explicit(&off, memory_order_relaxed))
        return;
    size_t span = (size_t)GW_POOL_BUFFERS * GW_POOL_BUFFER_BYTES;
    uintptr_t at = (uintptr_t)buffer - (uintptr_t)base;
    if (at >= span) {
        if (size == 65536)
            munmap(buffer, size);
        return;
    }
    struct buffer *b = &buffers[at / GW_POOL_BUFFER_BYTES];
    if (at % GW_POOL_BUFFER_BYTES != 0 || atomic_load(&b->state) != LENT)
        return; /* not a buffer of ours, or handed back twice */
    b->valid = valid <= GW_POOL_BUFFER_BYTES ? valid : GW_POOL_BUFFER_BYTES;
    b->seq = atomic_fetch_add(&completed, 1);
    atomic_store(&b->state, DONE);
}

int gw_pool_take(uint8_t **data, size_t *valid)
{
    int best = -1;
    for (int i = 0; i < GW_POOL_BUFFERS; i++)
        if (atomic_load(&buffers[i].state) == DONE && (best < 0 || buffers[i].seq < buffers[best].seq))
            best = i;
    if (best < 0)
        return -1;
    atomic_store(&buffers[best].state, DRAINING);
    *data = base + (size_t)best * GW_POOL_BUFFER_BYTES;
    *valid = buffers[best].valid;
    return best;
}

void gw_pool_give(int index)
{
    /* CUPTI was promised zeroed buffers; here it costs our thread and not the job's. */
    memset(base + (size_t)index * GW_POOL_BUFFER_BYTES, 0, buffers[index].valid);
    atomic_store(&buffers[index].state, FREE);
}

static unsigned count(uint32_t state)
{
    unsigned n = 0;
    for (unsigned i = 0; i < GW_POOL_BUFFERS; i++)
        n += atomic_load(&buffers[i].state) == state;
    return n;
}
unsigned gw_pool_lent(void) { return count(LENT); }
unsigned gw_pool_free(void) { return count(FREE); }
uint64_t gw_pool_requested(void) { return atomic_load(&requested); }
uint64_t gw_pool_completed(void) { return atomic_load(&completed); }
uint64_t gw_pool_overflow(void) { return atomic_load(&overflow); }
