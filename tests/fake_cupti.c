/*
 * fake_cupti.c - a libcupti.so.13 for machines without a GPU. It keeps the real one's rules (buffers, one global pair of
 * callbacks, what each flush returns) and writes each breach of a rule as a line to $FAKE_LOG; a test then expects that
 * file to be empty.
 *
 *   FAKE_CUPTI_VERSION=130001          what cuptiGetVersion says
 *   FAKE_CUPTI_FAIL=cuptiActivityEnable:39[,...]   these functions return that code
 *   FAKE_CUPTI_BLOCK=30000             cuptiActivityFlushAll does not return for so many ms
 *   FAKE_CALLS=path                    a line for each call made by the thread gpuwhy-rec, and where another profiler starts
 *   FAKE_CUPTI_CLOCK=mono              CUPTI's clock is CLOCK_MONOTONIC_RAW instead of CLOCK_REALTIME
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fake_cupti.h"

#define EXPORT __attribute__((visibility("default")))
typedef void (*request_fn)(uint8_t **, size_t *, size_t *);
typedef void (*complete_fn)(void *, uint32_t, uint8_t *, size_t, size_t);

enum { KINDS = 64, LISTED = 256 };
struct filled {
    uint8_t *data;
    size_t size, used;
    uint64_t ready; /* when the last operation in it ends */
    request_fn from;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int enabled[KINDS];
static request_fn request;
static complete_fn complete;
static struct filled current, full[LISTED];
static int full_count, zeroed, thread_type, has_worker;
static _Atomic int dead; /* after fork */
static _Atomic uint64_t dropped;
static __thread int in_callback;
static uint8_t *lent[1024];
static int lent_count;

static void breach(const char *fmt, ...) {
    const char *path = getenv("FAKE_LOG");
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    line[n] = '\n';
    int fd = open(path ? path : "/dev/stderr", O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd >= 0) {
        if (write(fd, line, (size_t)n + 1) < 0)
            abort();
        close(fd);
    }
}

static void note(const char *what) {
    const char *path = getenv("FAKE_CALLS");
    char me[17] = "", line[80];
    if (!path || !strcmp(what, "cuptiActivityGetNextRecord") || (prctl(PR_GET_NAME, me), strcmp(me, "gpuwhy-rec") != 0 && *what != '-'))
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644), n = snprintf(line, sizeof line, "%s\n", what);
    if (fd >= 0) {
        if (write(fd, line, (size_t)n) < 0)
            abort();
        close(fd);
    }
}

static int fails(const char *fn) {
    const char *env = getenv("FAKE_CUPTI_FAIL");
    const char *p = env ? strstr(env, fn) : NULL;
    return p && p[strlen(fn)] == ':' ? atoi(p + strlen(fn) + 1) : 0;
}
#define ENTER(fn)                                                                                                     \
    do {                                                                                                              \
        note(fn);                                                                                                     \
        if (in_callback)                                                                                              \
            breach(fn " called inside a callback");                                                                   \
        if (dead)                                                                                                     \
            breach(fn " called in a forked child");                                                                   \
        int bad = fails(fn);                                                                                          \
        if (bad)                                                                                                      \
            return bad;                                                                                               \
    } while (0)

uint64_t fake_cupti_now(void) {
    struct timespec ts;
    const char *c = getenv("FAKE_CUPTI_CLOCK");
    clock_gettime(c && !strcmp(c, "mono") ? CLOCK_MONOTONIC_RAW : CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
static uint64_t real(void) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* --- buffers (lock held) --------------------------------------------------------------------------------------- */

static void get_buffer(void) {
    size_t max = 0;
    uint8_t *data = NULL;
    size_t size = 0;
    request_fn from = request;
    in_callback = 1;
    from(&data, &size, &max);
    in_callback = 0;
    const char *v = getenv("FAKE_CUPTI_VERSION");
    if (!data) {
        if (v && atoi(v) < 27)
            breach("NULL buffer handed to a CUPTI that crashes on it");
        return;
    }
    if ((uintptr_t)data % 8 != 0)
        breach("buffer not aligned");
    if (size < 1024)
        breach("buffer of %zu bytes", size);
    for (int i = 0; i < lent_count; i++)
        if (lent[i] == data)
            breach("buffer lent twice");
    for (size_t i = 0; zeroed && i < size; i++)
        if (data[i]) {
            breach("buffer not zeroed at %zu", i);
            break;
        }
    if (lent_count < 1024)
        lent[lent_count++] = data;
    current = (struct filled){data, size, 0, 0, from};
}

static void hand_back(struct filled *f, int forced) {
    uint64_t t = fake_cupti_now();
    if (forced && f->ready > t) { /* unfinished records lose their end */
        for (size_t at = 0; at < f->used;) {
            uint32_t kind, bytes;
            memcpy(&kind, f->data + at, 4);
            bytes = kind == 10 ? 216 : kind == 1 ? 96 : kind == 2 ? 88 : kind == 38 ? 56 : 40;
            uint64_t end, zero = 0;
            if (kind == 10) {
                memcpy(&end, f->data + at + 24, 8);
                if (end > t)
                    memcpy(f->data + at + 24, &zero, 8);
            }
            at += bytes;
        }
    }
    for (int i = 0; i < lent_count; i++)
        if (lent[i] == f->data) {
            lent[i] = lent[--lent_count];
            break;
        }
    in_callback = 1;
    complete(NULL, 0, f->data, f->size, f->used);
    in_callback = 0;
    memset(f, 0, sizeof *f);
}

static void hand_back_ready(int forced) {
    uint64_t t = fake_cupti_now();
    for (int i = 0; i < full_count;) {
        if (forced || full[i].ready <= t) {
            hand_back(&full[i], forced);
            full[i] = full[--full_count];
        } else {
            i++;
        }
    }
}

static void *worker(void *unused) {
    (void)unused;
    for (;;) {
        usleep(5000);
        pthread_mutex_lock(&lock);
        hand_back_ready(0);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static uint8_t *room(size_t bytes, uint64_t ready) {
    if (current.data && current.size - current.used < bytes) {
        if (full_count < LISTED)
            full[full_count++] = current;
        else
            breach("fake: too many full buffers");
        memset(&current, 0, sizeof current);
    }
    if (!current.data)
        get_buffer();
    if (!current.data) {
        dropped++;
        return NULL;
    }
    uint8_t *p = current.data + current.used;
    current.used += bytes;
    if (ready > current.ready)
        current.ready = ready;
    return p;
}

static void put32(uint8_t *r, size_t off, uint32_t v) { memcpy(r + off, &v, 4); }
static void put64(uint8_t *r, size_t off, uint64_t v) { memcpy(r + off, &v, 8); }

/* Only one thread may run its body; others wait. NULL when the kind is off. */
static uint8_t *begin(int kind, size_t bytes, uint64_t ready) {
    if (dead || !enabled[kind])
        return NULL;
    pthread_mutex_lock(&lock);
    uint8_t *r = request ? room(bytes, ready) : NULL;
    if (!r) {
        pthread_mutex_unlock(&lock);
        return NULL;
    }
    put32(r, 0, (uint32_t)kind);
    return r;
}

void fake_cupti_api(int driver, uint32_t cbid, uint64_t start, uint64_t end, uint32_t corr, uint32_t result) {
    uint8_t *r = begin(driver ? 4 : 5, 40, 0);
    if (!r)
        return;
    put32(r, 4, cbid), put64(r, 8, start), put64(r, 16, end), put32(r, 24, (uint32_t)getpid());
    put32(r, 28, thread_type == 1 ? (uint32_t)syscall(SYS_gettid) : 0x77777777u);
    put32(r, 32, corr), put32(r, 36, result);
    pthread_mutex_unlock(&lock);
}
void fake_cupti_kernel(const char *name, uint64_t start, uint64_t end, uint32_t corr, uint32_t device, uint32_t stream) {
    uint8_t *r = begin(10, 216, end);
    if (!r)
        return;
    put64(r, 16, start), put64(r, 24, end), put32(r, 40, device), put32(r, 44, 1), put32(r, 48, stream);
    put32(r, 52, 132), put32(r, 56, 2), put32(r, 60, 1), put32(r, 64, 256), put32(r, 68, 1), put32(r, 72, 1);
    put32(r, 92, corr), put64(r, 104, (uint64_t)(uintptr_t)name);
    r[6] = 64;
    pthread_mutex_unlock(&lock);
}
void fake_cupti_copy(unsigned kind, unsigned src, unsigned dst, uint64_t bytes, uint64_t start, uint64_t end, uint32_t corr,
                     uint32_t device, uint32_t stream) {
    uint8_t *r = begin(1, 96, end);
    if (!r)
        return;
    r[4] = (uint8_t)kind, r[5] = (uint8_t)src, r[6] = (uint8_t)dst, r[7] = 1;
    put64(r, 8, bytes), put64(r, 16, start), put64(r, 24, end), put32(r, 32, device), put32(r, 36, 1), put32(r, 40, stream);
    put32(r, 44, corr);
    pthread_mutex_unlock(&lock);
}
void fake_cupti_set(uint64_t bytes, uint64_t start, uint64_t end, uint32_t corr, uint32_t device, uint32_t stream) {
    uint8_t *r = begin(2, 88, end);
    if (!r)
        return;
    put64(r, 8, bytes), put64(r, 16, start), put64(r, 24, end), put32(r, 32, device), put32(r, 36, 1), put32(r, 40, stream);
    put32(r, 44, corr);
    pthread_mutex_unlock(&lock);
}
void fake_cupti_sync(unsigned type, uint64_t start, uint64_t end, uint32_t corr, uint32_t stream) {
    uint8_t *r = begin(38, 56, 0);
    if (!r)
        return;
    put32(r, 4, type), put64(r, 8, start), put64(r, 16, end), put32(r, 24, corr), put32(r, 28, 1), put32(r, 32, stream);
    pthread_mutex_unlock(&lock);
}

/* --- the API ------------------------------------------------------------------------------------------------------ */

EXPORT int cuptiGetVersion(uint32_t *v), cuptiActivityRegisterCallbacks(request_fn q, complete_fn c), cuptiActivityEnable(int kind),
    cuptiActivityDisable(int kind), cuptiActivityFlushAll(uint32_t flag), cuptiActivityGetNextRecord(uint8_t *b, size_t n, void **rec),
    cuptiActivityGetNumDroppedRecords(void *c, uint32_t s, size_t *n), cuptiActivitySetAttribute(int a, size_t *size, void *v),
    cuptiSetThreadIdType(int type), cuptiGetTimestamp(uint64_t *t), cuptiGetCallbackName(int domain, uint32_t cbid, const char **name),
    cuptiActivityEnableAllSyncRecords(uint8_t on), cuptiActivityEnableAndDump(int kind), cuptiSubscribe(void *a, void *b, void *c), cuptiFinalize(void);

static void in_child(void) { dead = 1; }

static void __attribute__((constructor)) prepare(void) { pthread_atfork(NULL, NULL, in_child); }

int cuptiGetVersion(uint32_t *v) {
    ENTER("cuptiGetVersion");
    const char *e = getenv("FAKE_CUPTI_VERSION");
    *v = e ? (uint32_t)atoi(e) : 130001;
    return 0;
}
int cuptiActivityRegisterCallbacks(request_fn q, complete_fn c) {
    ENTER("cuptiActivityRegisterCallbacks");
    if (!q || !c)
        breach("NULL callbacks");
    pthread_mutex_lock(&lock);
    request = q;
    complete = c;
    if (!has_worker) {
        pthread_t t;
        has_worker = pthread_create(&t, NULL, worker, NULL) == 0;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuptiActivityEnable(int kind) {
    ENTER("cuptiActivityEnable");
    if (kind == 3)
        breach("kind KERNEL serialises kernels");
    if (!request)
        breach("enabled before callbacks were registered");
    if (kind <= 0 || kind >= KINDS)
        return 1;
    enabled[kind] = 1;
    return 0;
}
int cuptiActivityDisable(int kind) {
    ENTER("cuptiActivityDisable");
    if (kind <= 0 || kind >= KINDS)
        return 1;
    enabled[kind] = 0;
    return 0;
}
int cuptiActivityFlushAll(uint32_t flag) {
    ENTER("cuptiActivityFlushAll");
    if (getenv("FAKE_CUPTI_BLOCK"))
        usleep((useconds_t)atoi(getenv("FAKE_CUPTI_BLOCK")) * 1000u);
    pthread_mutex_lock(&lock);
    if (current.data && current.used && (flag == 1 || current.ready <= fake_cupti_now()))
        hand_back(&current, flag == 1);
    hand_back_ready(flag == 1);
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuptiActivityGetNextRecord(uint8_t *b, size_t n, void **rec) {
    ENTER("cuptiActivityGetNextRecord");
    size_t at = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < lent_count; i++)
        if (lent[i] == b)
            breach("reads a buffer that CUPTI still fills");
    pthread_mutex_unlock(&lock);
    if (*rec) {
        uint32_t kind;
        at = (size_t)((uint8_t *)*rec - b);
        memcpy(&kind, *rec, 4);
        at += kind == 10 ? 216 : kind == 1 ? 96 : kind == 2 ? 88 : kind == 38 ? 56 : 40;
    }
    if (at >= n)
        return 12;
    *rec = b + at;
    return 0;
}
int cuptiActivityGetNumDroppedRecords(void *c, uint32_t s, size_t *n) {
    ENTER("cuptiActivityGetNumDroppedRecords");
    (void)c, (void)s;
    *n = atomic_exchange(&dropped, 0);
    return 0;
}
int cuptiActivitySetAttribute(int a, size_t *size, void *v) {
    ENTER("cuptiActivitySetAttribute");
    if (*size != 1)
        breach("attribute %d with %zu bytes", a, *size);
    if (a == 9 && request)
        return 1; /* must come before the callbacks */
    if (a == 5)
        zeroed = *(uint8_t *)v;
    return 0;
}
int cuptiSetThreadIdType(int type) {
    ENTER("cuptiSetThreadIdType");
    thread_type = type;
    return 0;
}
int cuptiGetTimestamp(uint64_t *t) {
    ENTER("cuptiGetTimestamp");
    *t = fake_cupti_now();
    return 0;
}
int cuptiGetCallbackName(int domain, uint32_t cbid, const char **name) {
    ENTER("cuptiGetCallbackName");
    if (domain == 2)
        *name = cbid == 211 ? "cudaLaunchKernel_v7000" : cbid == 41 ? "cudaMemcpyAsync_v3020" : cbid == 131 ? "cudaStreamSynchronize_v3020"
                : cbid == 10 ? "cudaGetLastError_v3020" : cbid == 51 ? "cudaMemsetAsync_v3020" : NULL;
    else
        *name = cbid == 307 ? "cuLaunchKernel" : NULL;
    return *name ? 0 : 1;
}
int cuptiActivityEnableAllSyncRecords(uint8_t on) {
    ENTER("cuptiActivityEnableAllSyncRecords");
    (void)on;
    return 0;
}
int cuptiActivityEnableAndDump(int kind) {
    ENTER("cuptiActivityEnableAndDump");
    if (!request)
        breach("enabled before callbacks were registered");
    if (kind != 8)
        return 1;
    enabled[kind] = 1;
    if (begin(kind, 40, 0))
        pthread_mutex_unlock(&lock);
    return 0;
}
int cuptiSubscribe(void *a, void *b, void *c) {
    (void)a, (void)b, (void)c;
    breach("cuptiSubscribe keeps torch.profiler out");
    return 0;
}
int cuptiFinalize(void) {
    breach("cuptiFinalize without a subscriber");
    return 0;
}

/* --- another profiler ----------------------------------------------------------------------------------------------- */

static unsigned long other_seen;
static uint8_t other_pool[8][65536] __attribute__((aligned(8)));
static unsigned other_next;
static void other_request(uint8_t **b, size_t *size, size_t *max) {
    *b = other_pool[other_next++ % 8];
    memset(*b, 0, sizeof other_pool[0]);
    *size = sizeof other_pool[0];
    *max = 0;
}
static void other_complete(void *c, uint32_t s, uint8_t *b, size_t size, size_t valid) {
    (void)c, (void)s, (void)size;
    if (b < other_pool[0] || b > &other_pool[7][65535])
        return; /* a buffer of whoever was there before */
    for (size_t at = 0; at < valid;) {
        uint32_t kind;
        memcpy(&kind, b + at, 4);
        other_seen += kind == 10;
        at += kind == 10 ? 216 : kind == 1 ? 96 : kind == 2 ? 88 : kind == 38 ? 56 : 40;
    }
}
EXPORT void fake_cupti_other_begin(void) {
    other_seen = 0;
    note("-- another profiler");
    cuptiActivityFlushAll(0);
    cuptiActivityRegisterCallbacks(other_request, other_complete);
    cuptiActivityEnable(10);
}
EXPORT unsigned long fake_cupti_other_end(void) {
    uint64_t until = real() + 300000000u;
    while (real() < until)
        usleep(1000);
    cuptiActivityDisable(10);
    cuptiActivityFlushAll(1);
    return other_seen;
}
