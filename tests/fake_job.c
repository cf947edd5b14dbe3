/*
 * fake_job.c - a job for the recorder's tests: links the fake libcuda and does what its arguments say, in order.
 * Prints "launched N" last, so that a test can compare with what was recorded.
 *
 *   late MS        (first) CUDA is started this much later; its library is mapped all the while
 *   steps N        N training steps: copy, 10 kernels of 50 us, sync
 *   threads N K    N threads, each K steps on its own stream
 *   sleep MS       nothing
 *   burst N        N launches without a pause
 *   fork           a child that exits at once (atexit handlers run), one that _exits, one that calls cuInit
 *   rtbusy MS      through the CUDA runtime, for MS ms: launches of 1 us every 3 us, no wait
 *   rttime N       prints what a launch takes, the best of N blocks
 *   rtfull MS      launches that mostly wait for room in the queue; rtgrids: with a new grid at every tenth
 *   rtwait MS      the same time: ten launches of 1 ms, then a wait; every tenth wait a graph; prints what it called
 *   exec ARGS...   exec this program again with ARGS
 *   other MS       another profiler takes CUPTI for MS ms while steps go on; prints "other saw X of Y"
 *   pausing MS     the same, between gpuwhy_inject_pause(1) and (0), as the settings hook does it
 *   closefds       closes every descriptor above 2
 *   kill N         kill -N itself        _exit N / exit N / abort
 *   traps          handles USR1, TERM and INT: prints the signal; ends with status 7 on TERM
 *   cat            copies stdin to stdout
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_libcuda.h"
#include "fake_libcudart.h"

static volatile sig_atomic_t got;
static void on_signal(int n) { got = n; }

static uint64_t ns_now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void steps(int n, int stream) {
    static const char *const names[] = {"_Z5gemm1PfS_S_i", "elementwise_kernel<add>", "_ZN2at6native13reduce_kernelEv"};
    for (int i = 0; i < n; i++) {
        fake_copy_h2d(1 << 20, 40000, stream, i % 2);
        fake_noise(8);
        for (int k = 0; k < 10; k++)
            fake_launch(names[k % 3], 50000, stream);
        fake_memset(4096, 2000, stream);
        fake_stream_sync(stream);
        if (got) {
            printf("signal %d\n", (int)got);
            fflush(stdout);
            if (got == SIGTERM)
                exit(7);
            got = 0;
        }
    }
}

struct job { int n, stream; };
static void *thread(void *arg) {
    struct job *j = arg;
    steps(j->n, j->stream);
    return NULL;
}

static void forks(void) {
    pid_t p[3];
    for (int i = 0; i < 3; i++) {
        p[i] = fork();
        if (p[i] == 0) {
            if (i == 2)
                steps(2, 3);
            if (i == 1)
                _exit(0);
            exit(0);
        }
    }
    for (int i = 0; i < 3; i++) {
        int st = 0;
        waitpid(p[i], &st, 0);
        printf("child %d ended %d\n", i, st);
    }
}

static void other(int ms, int polite) {
    void *h = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    void *g = dlopen(getenv("CUDA_INJECTION64_PATH") ? getenv("CUDA_INJECTION64_PATH") : "-", RTLD_NOW | RTLD_NOLOAD);
    void (*begin)(void) = h ? (void (*)(void))(uintptr_t)dlsym(h, "fake_cupti_other_begin") : NULL;
    unsigned long (*end)(void) = h ? (unsigned long (*)(void))(uintptr_t)dlsym(h, "fake_cupti_other_end") : NULL;
    void (*pause)(int) = g && polite ? (void (*)(int))(uintptr_t)dlsym(g, "gpuwhy_inject_pause") : NULL;
    if (!begin || !end) {
        printf("other: no CUPTI\n");
        return;
    }
    if (pause)
        pause(1);
    uint64_t before = fake_launched();
    begin();
    for (uint64_t until = ns_now() + (uint64_t)ms * 1000000u; ns_now() < until;)
        steps(1, 0);
    uint64_t launched = fake_launched() - before;
    unsigned long saw = end();
    if (pause)
        pause(0);
    printf("other saw %lu of %llu\n", saw, (unsigned long long)launched);
}

static void runtime(int ms, int waits) {
    unsigned long launches = 0, waited = 0, graphs = 0, copies = 0, reads = 0, wrong = 0;
    char from[4096] = {0}, to[4096];
    for (uint64_t until = ns_now() + (uint64_t)ms * 1000000u; ns_now() < until;) {
        void *args[] = {(void *)0x5eed, (void *)(uintptr_t)(waits ? 1000000 : 1000), NULL};
        for (int k = 0; k < 10; k++) {
            uint64_t t0 = ns_now();
            struct dim3 grid = {101, 102, 103}, block = {201, 202, 203};
            wrong += (k % 2 ? cudaLaunchKernel("rt_kernel", grid, block, args, 48 * 1024, NULL)
                            : __cudaLaunchKernel("rt_kernel", grid, block, args, 48 * 1024, NULL)) != 0;
            launches++;
            while (!waits && ns_now() - t0 < 3000)
                ;
        }
        if (!waits)
            continue;
        for (int k = 0; k < 3; k++) /* two to the GPU, one back */
            wrong += cudaMemcpyAsync(to, from, sizeof from, k < 2 ? 1 : 2, NULL) != 0, *(k < 2 ? &copies : &reads) += 1;
        wrong += cudaStreamSynchronize(NULL) != 17;
        if (++waited % 10 == 0)
            wrong += cudaGraphLaunch((void *)0x9af, NULL) != 0, graphs++;
    }
    printf("runtime launches %lu waits %lu graphs %lu copies %lu reads %lu wrong %lu\n", launches, waited, graphs, copies, reads, wrong);
}

/* The GPU is behind: two launches of three wait for room in its queue. A new grid with every tenth launch, or one for all. */
static void queue_is_full(int ms, int is_growing) {
    unsigned long launches = 0;
    struct dim3 grid = {101, 102, 103}, block = {201, 202, 203};
    for (uint64_t until = ns_now() + (uint64_t)ms * 1000000u; ns_now() < until; launches++) {
        void *args[] = {(void *)0x5eed, (void *)(uintptr_t)30000, (void *)(uintptr_t)(launches % 3 ? 60000 : 4000)};
        grid.y += is_growing && launches % 10 == 0;
        cudaLaunchKernel("full", grid, block, args, 48 * 1024, NULL);
    }
    printf("runtime launches %lu\n", launches);
}

/* What a launch takes at the least, in blocks, so that the best block tells it on a machine that does other things too. */
static void time_launches(int blocks) {
    enum { CALLS = 20000 };
    struct dim3 grid = {101, 102, 103}, block = {201, 202, 203};
    void *args[] = {(void *)0x5eed, (void *)(uintptr_t)100, NULL};
    uint64_t best = UINT64_MAX;
    for (int b = 0; b < blocks; b++) {
        uint64_t start = ns_now();
        for (int i = 0; i < CALLS; i++)
            cudaLaunchKernel("timed", grid, block, args, 48 * 1024, NULL);
        uint64_t took = ns_now() - start;
        best = took < best ? took : best;
        usleep(1000);
    }
    printf("launch %.1f ns\n", (double)best / CALLS);
}

int main(int argc, char **argv) {
    int first = argc > 2 && !strcmp(argv[1], "late") ? 3 : 1;
    if (first == 3)
        usleep((useconds_t)atoi(argv[2]) * 1000u);
    cuInit(0);
    for (int i = first; i < argc; i++) {
        const char *a = argv[i];
        int n = i + 1 < argc ? atoi(argv[i + 1]) : 0;
        if (!strcmp(a, "steps")) {
            steps(n, 0), i++;
        } else if (!strcmp(a, "threads")) {
            pthread_t t[16];
            struct job j[16];
            int k = i + 2 < argc ? atoi(argv[i + 2]) : 0;
            for (int x = 0; x < n && x < 16; x++) {
                j[x] = (struct job){k, x};
                pthread_create(&t[x], NULL, thread, &j[x]);
            }
            for (int x = 0; x < n && x < 16; x++)
                pthread_join(t[x], NULL);
            i += 2;
        } else if (!strcmp(a, "sleep")) {
            usleep((useconds_t)n * 1000), i++;
        } else if (!strcmp(a, "burst")) {
            for (int x = 0; x < n; x++)
                fake_launch("burst", 100, 0);
            fake_stream_sync(0), i++;
        } else if (!strcmp(a, "rtbusy") || !strcmp(a, "rtwait")) {
            runtime(n, a[2] == 'w'), i++;
        } else if (!strcmp(a, "rttime")) {
            time_launches(n), i++;
        } else if (!strcmp(a, "rtfull") || !strcmp(a, "rtgrids")) {
            queue_is_full(n, a[2] == 'g'), i++;
        } else if (!strcmp(a, "fork")) {
            fflush(stdout);
            forks();
        } else if (!strcmp(a, "exec")) {
            fflush(stdout);
            argv[i] = argv[0];
            execv("/proc/self/exe", argv + i);
            return 99;
        } else if (!strcmp(a, "other")) {
            other(n, 0), i++;
        } else if (!strcmp(a, "pausing")) {
            other(n, 1), i++;
        } else if (!strcmp(a, "closefds")) {
            for (int fd = 3; fd < 1024; fd++)
                close(fd);
            FILE *f = fopen("mine.txt", "w"); /* may get a number that was ours */
            (void)f;
        } else if (!strcmp(a, "kill")) {
            fflush(stdout);
            kill(getpid(), n);
            i++;
        } else if (!strcmp(a, "_exit")) {
            fflush(stdout);
            _exit(n);
        } else if (!strcmp(a, "exit")) {
            exit(n);
        } else if (!strcmp(a, "abort")) {
            abort();
        } else if (!strcmp(a, "traps")) {
            signal(SIGUSR1, on_signal), signal(SIGTERM, on_signal), signal(SIGINT, on_signal);
            printf("ready\n"), fflush(stdout);
        } else if (!strcmp(a, "cat")) {
            for (int c; (c = getchar()) != EOF;)
                putchar(c);
        }
    }
    printf("launched %llu\n", (unsigned long long)fake_launched());
    return 0;
}
