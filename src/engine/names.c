#include "engine/names.h"

#include <ctype.h>
#include <string.h>

#include "base/gw_i18n.h"
#include "model/kernel_metrics.h"

/* How a row matches: IN anywhere, AT at the start, ALL the whole name. */
enum { IN, AT, ALL };

struct gw_api_row {
    int how;
    const char *word; /* after the prefix cuda, hip or cu and without _ptsz, _v2, _spt */
    enum gw_api api;
};

/* First match wins. Names from the CUDA 13 runtime and driver callback tables and HIP's API list. */
static const struct gw_api_row api_rows[] = {
    {AT, "GraphLaunch", GW_API_GRAPH_LAUNCH},
    {AT, "GraphInstantiate", GW_API_GRAPH_BUILD},
    {AT, "GraphExecUpdate", GW_API_GRAPH_BUILD},
    {AT, "GraphUpload", GW_API_GRAPH_BUILD},
    {AT, "StreamBeginCapture", GW_API_GRAPH_BUILD},
    {AT, "StreamEndCapture", GW_API_GRAPH_BUILD},
    {AT, "LaunchHostFunc", GW_API_OTHER},
    {AT, "Launch", GW_API_LAUNCH},
    {AT, "ModuleLaunch", GW_API_LAUNCH},
    {AT, "ExtModuleLaunch", GW_API_LAUNCH},
    {AT, "ExtLaunch", GW_API_LAUNCH},
    {AT, "MemcpyWithStream", GW_API_COPY},
    {AT, "Memcpy", GW_API_COPY},
    {AT, "Memset", GW_API_SET},
    {AT, "StreamSynchronize", GW_API_SYNC_STREAM},
    {AT, "DeviceSynchronize", GW_API_SYNC_DEVICE},
    {AT, "CtxSynchronize", GW_API_SYNC_DEVICE},
    {AT, "ThreadSynchronize", GW_API_SYNC_DEVICE},
    {AT, "EventSynchronize", GW_API_SYNC_EVENT},
    {AT, "StreamWaitEvent", GW_API_WAIT_EVENT},
    {AT, "StreamQuery", GW_API_QUERY},
    {AT, "EventQuery", GW_API_QUERY},
    {AT, "Event", GW_API_EVENT},
    {AT, "HostAlloc", GW_API_HOST_ALLOC},
    {AT, "HostMalloc", GW_API_HOST_ALLOC},
    {AT, "HostRegister", GW_API_HOST_ALLOC},
    {AT, "HostUnregister", GW_API_HOST_ALLOC},
    {AT, "HostFree", GW_API_HOST_ALLOC},
    {AT, "MallocHost", GW_API_HOST_ALLOC},
    {AT, "FreeHost", GW_API_HOST_ALLOC},
    {AT, "MemHostAlloc", GW_API_HOST_ALLOC},
    {AT, "MemHostRegister", GW_API_HOST_ALLOC},
    {AT, "MemHostUnregister", GW_API_HOST_ALLOC},
    {AT, "MemAllocHost", GW_API_HOST_ALLOC},
    {AT, "MemFreeHost", GW_API_HOST_ALLOC},
    {AT, "Malloc", GW_API_ALLOC},
    {AT, "ExtMalloc", GW_API_ALLOC},
    {AT, "MemAlloc", GW_API_ALLOC},
    {AT, "MemCreate", GW_API_ALLOC},
    {AT, "MemMap", GW_API_ALLOC},
    {AT, "MemSetAccess", GW_API_ALLOC},
    {AT, "MemAddressReserve", GW_API_ALLOC},
    {AT, "MemUnmap", GW_API_FREE},
    {AT, "MemRelease", GW_API_FREE},
    {AT, "MemAddressFree", GW_API_FREE},
    {AT, "MemFree", GW_API_FREE},
    {ALL, "Free", GW_API_FREE},
    {AT, "ModuleLoad", GW_API_MODULE},
    {AT, "ModuleGetFunction", GW_API_MODULE},
    {AT, "ModuleUnload", GW_API_MODULE},
    {AT, "LibraryLoad", GW_API_MODULE},
    {AT, "LibraryGet", GW_API_MODULE},
    {AT, "LinkComplete", GW_API_MODULE},
    {AT, "LinkAdd", GW_API_MODULE},
};

static int match(const char *s, int how, const char *word)
{
    return how == IN ? strstr(s, word) != NULL : how == AT ? !strncmp(s, word, strlen(word)) : !strcmp(s, word);
}

static enum gw_api classify_api(const char *name)
{
    char s[96];
    size_t skip = !strncmp(name, "cuda", 4) ? 4 : !strncmp(name, "hip", 3) ? 3 : !strncmp(name, "cu", 2) ? 2 : 0;
    if (!skip)
        return GW_API_OTHER;
    size_t n = strlen(name + skip);
    if (n >= sizeof s)
        n = sizeof s - 1;
    memcpy(s, name + skip, n);
    s[n] = 0;
    for (char *u; (u = strrchr(s, '_')) && (!strcmp(u, "_ptsz") || !strcmp(u, "_ptds") || !strcmp(u, "_spt") ||
                                            (u[1] == 'v' && isdigit((unsigned char)u[2])));)
        *u = 0;
    if (strstr(s, "Async")) {
        if (!strncmp(s, "Memcpy", 6))
            return GW_API_COPY_ASYNC;
        if (!strncmp(s, "Memset", 6))
            return GW_API_SET;
        if (!strncmp(s, "Malloc", 6) || !strncmp(s, "MemAlloc", 8))
            return GW_API_OTHER; /* pool allocations in stream order: no driver round trip, no sync */
        return GW_API_OTHER;
    }
    for (size_t i = 0; i < sizeof api_rows / sizeof *api_rows; i++)
        if (match(s, api_rows[i].how, api_rows[i].word))
            return api_rows[i].api;
    return GW_API_OTHER;
}

/* A kernel is communication when its name contains one of these (the list is fixed by the design document). */
static const char *const comm_words[] = {"ncclDevKernel", "ncclKernel", "ncclSymk", "rcclGenericKernel", "nvshmem",
                                         "deep_ep::", "dpsk::ep::", "cross_device_reduce", "mscclpp", "multimem_"};

struct gw_kernel_row {
    const char *word;
    enum gw_kclass kclass;
};

/* First match wins, on the lower-cased name without its arguments. fp32 marks come before the general words. */
static const struct gw_kernel_row kernel_rows[] = {
    {"multi_tensor_apply", GW_K_OPTIMIZER}, {"fusedoptimizer", GW_K_OPTIMIZER}, {"multi_tensor", GW_K_OPTIMIZER},
    {"fused_adam", GW_K_OPTIMIZER}, {"fusedadam", GW_K_OPTIMIZER}, {"lamb_stage", GW_K_OPTIMIZER},
    {"flash", GW_K_ATTENTION}, {"fmha", GW_K_ATTENTION}, {"attention", GW_K_ATTENTION}, {"sdpa", GW_K_ATTENTION},
    {"nchwtonhwc", GW_K_COPY}, {"nhwctonchw", GW_K_COPY}, {"transpose", GW_K_COPY}, {"direct_copy", GW_K_COPY},
    {"copy_kernel", GW_K_COPY}, {"copy_device_to_device", GW_K_COPY}, {"catarraybatched", GW_K_COPY},
    {"embedding", GW_K_EMBEDDING}, {"gather", GW_K_EMBEDDING}, {"scatter", GW_K_EMBEDDING},
    {"index_select", GW_K_EMBEDDING}, {"indexselect", GW_K_EMBEDDING}, {"index_elementwise", GW_K_EMBEDDING},
    {"split_embedding", GW_K_EMBEDDING},
    {"splitkreduce", GW_K_REDUCE}, {"splitk_reduce", GW_K_REDUCE}, {"reducesplitk", GW_K_REDUCE},
    {"computeoffsets", GW_K_OTHER}, {"computeboffsets", GW_K_OTHER}, {"computewgrad", GW_K_OTHER},
    {"scudnn", GW_K_CONV_FP32}, {"implicit_convolve_sgemm", GW_K_CONV_FP32},
    {"dgrad_engine<float", GW_K_CONV_FP32}, {"wgrad_alg0_engine<float", GW_K_CONV_FP32},
    {"fft2d_r2c", GW_K_CONV_FP32}, {"fft2d_c2r", GW_K_CONV_FP32}, {"fft1d_", GW_K_CONV_FP32},
    {"winograd", GW_K_CONV}, {"fprop", GW_K_CONV}, {"dgrad", GW_K_CONV}, {"wgrad", GW_K_CONV}, {"conv", GW_K_CONV},
    {"igemm_", GW_K_CONV}, {"miopen", GW_K_CONV},
    {"sgemm", GW_K_GEMM_FP32}, {"gemm", GW_K_GEMM}, {"nvjet", GW_K_GEMM}, {"cijk_", GW_K_GEMM},
    {"cutlass", GW_K_GEMM}, {"matmul", GW_K_GEMM}, {"bmm_", GW_K_GEMM}, {"gemv", GW_K_GEMM}, {"wgmma", GW_K_GEMM},
    {"batch_norm", GW_K_NORM}, {"layer_norm", GW_K_NORM}, {"layernorm", GW_K_NORM}, {"rms_norm", GW_K_NORM},
    {"rmsnorm", GW_K_NORM}, {"bn_fw", GW_K_NORM}, {"bn_bw", GW_K_NORM}, {"group_norm", GW_K_NORM},
    {"softmax", GW_K_NORM},
    {"reduce", GW_K_REDUCE}, {"scan", GW_K_REDUCE}, {"sort", GW_K_REDUCE}, {"topk", GW_K_REDUCE},
    {"elementwise", GW_K_ELEMENTWISE}, {"triton_poi", GW_K_ELEMENTWISE}, {"triton_red", GW_K_REDUCE},
    {"triton_per", GW_K_REDUCE}, {"dropout", GW_K_ELEMENTWISE}, {"distribution", GW_K_ELEMENTWISE},
    {"pool", GW_K_ELEMENTWISE}, {"upsample", GW_K_ELEMENTWISE},
};

/* Words that say tensor cores, and words that say the fp32 pipe, in the names of cuBLAS, cuDNN and CUTLASS kernels. */
static const char *const tensor_words[] = {"tensorop", "s1688", "s16816", "s161616", "s884", "h884", "h1688", "h16816",
                                           "i8816", "i16832", "hmma", "imma", "wgmma", "tf32", "bf16", "f16f16",
                                           "fp16", "e4m3", "e5m2", "nvjet", "umma", "_mi16x16", "_mi32x32", "mfma"};
static const char *const fp32_words[] = {"ffma", "simt_sgemm", "_f32f32_f32f32_f32_", "winograd_nonfused", "winogradtileskernel<0, float"};

static int any_of(const char *s, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(s, words[i]))
            return 1;
    return 0;
}
#define ANY_OF(s, words) any_of(s, words, sizeof(words) / sizeof *(words))

static void classify_kernel(const char *name, struct gw_name_info *info)
{
    if (ANY_OF(name, comm_words)) {
        info->kclass = GW_K_COMM;
        return;
    }
    char s[640]; /* the telling words of even the longest C++ names come before this */
    size_t n = 0;
    for (; name[n] && n < sizeof s - 1; n++)
        s[n] = (char)tolower((unsigned char)name[n]);
    s[n] = 0;
    info->tensor = ANY_OF(s, tensor_words) != 0;
    for (size_t i = 0; i < sizeof kernel_rows / sizeof *kernel_rows; i++) {
        if (!strstr(s, kernel_rows[i].word))
            continue;
        info->kclass = (uint8_t)kernel_rows[i].kclass;
        break;
    }
    int fp32 = ANY_OF(s, fp32_words);
    if (info->kclass == GW_K_GEMM && fp32 && !info->tensor)
        info->kclass = GW_K_GEMM_FP32;
    if (info->kclass == GW_K_CONV && fp32 && !info->tensor)
        info->kclass = GW_K_CONV_FP32;
    if (info->tensor && info->kclass == GW_K_GEMM_FP32)
        info->kclass = GW_K_GEMM; /* e.g. cutlass_tensorop_s1688gemm: "sgemm" does not occur, but be safe */
}

struct gw_ctx_row {
    int how;
    const char *word;
    uint32_t ctx;
    int in_op, in_annot, in_py; /* in which kinds of names the word counts */
};

/* Every matching row counts. PyTorch's own range names, then Python frames, then words of users. */
static const struct gw_ctx_row ctx_rows[] = {
    {AT, "ProfilerStep#", GW_CTX_STEP, 1, 1, 0},
    {IN, "_SingleProcessDataLoaderIter.__next__", GW_CTX_LOADING, 1, 1, 0},
    {IN, "_MultiProcessingDataLoaderIter.__next__", GW_CTX_LOADER, 1, 1, 0},
    {AT, "enumerate(DataLoader)#", GW_CTX_LOADER, 1, 1, 0},
    {AT, "enumerate(DataPipe)#", GW_CTX_LOADER, 1, 1, 0},
    {IN, "torch/utils/data/dataloader.py", GW_CTX_LOADER, 0, 0, 1},
    {IN, "torch/utils/data/_utils/fetch.py", GW_CTX_LOADING, 0, 0, 1},
    {IN, "_SingleProcessDataLoaderIter.", GW_CTX_LOADING, 0, 0, 1},
    {AT, "Optimizer.step#", GW_CTX_OPTIMIZER, 1, 1, 0},
    {AT, "Optimizer.zero_grad#", GW_CTX_OPTIMIZER, 1, 1, 0},
    {IN, "torch/serialization.py", GW_CTX_CHECKPOINT, 0, 0, 1},
    {IN, "torch/distributed/checkpoint/", GW_CTX_CHECKPOINT, 0, 0, 1},
    {IN, "safetensors/torch.py", GW_CTX_CHECKPOINT, 0, 0, 1},
    {IN, "save_checkpoint", GW_CTX_CHECKPOINT, 0, 1, 1},
    {IN, "torch/_dynamo/convert_frame.py", GW_CTX_COMPILE, 0, 0, 1},
    {IN, "torch/_inductor/compile_fx.py", GW_CTX_COMPILE, 0, 0, 1},
    {IN, "torch/_inductor/codecache.py", GW_CTX_COMPILE, 0, 0, 1},
    {IN, "triton/compiler/", GW_CTX_COMPILE, 0, 0, 1},
    {IN, "triton/runtime/autotuner.py", GW_CTX_COMPILE, 0, 0, 1},
    {AT, "_compile.compile_inner", GW_CTX_COMPILE, 1, 1, 0},
    {IN, "dynamo_timed", GW_CTX_COMPILE, 1, 1, 0},
    {AT, "compile_fx", GW_CTX_COMPILE, 1, 1, 0},
    {AT, "entire_frame_compile", GW_CTX_COMPILE, 1, 1, 0},
    {AT, "backend_compile", GW_CTX_COMPILE, 1, 1, 0},
    {ALL, "aten::item", GW_CTX_SYNC_OP, 1, 0, 0},
    {ALL, "aten::_local_scalar_dense", GW_CTX_SYNC_OP, 1, 0, 0},
    {ALL, "aten::nonzero", GW_CTX_SYNC_OP, 1, 0, 0},
    {ALL, "aten::is_nonzero", GW_CTX_SYNC_OP, 1, 0, 0},
    {ALL, "aten::equal", GW_CTX_SYNC_OP, 1, 0, 0},
    {ALL, "aten::masked_select", GW_CTX_SYNC_OP, 1, 0, 0},
    {AT, "nccl:", GW_CTX_COMM, 1, 1, 0},
    {AT, "c10d::", GW_CTX_COMM, 1, 1, 0},
    {ALL, "record_param_comms", GW_CTX_COMM, 1, 0, 0},
    {AT, "gloo:", GW_CTX_HOST_COMM, 1, 1, 0},
    {IN, "c10d::barrier", GW_CTX_HOST_COMM, 1, 1, 0},
    {IN, "TCPStore", GW_CTX_HOST_COMM, 1, 1, 1},
    {IN, "gymnasium/", GW_CTX_SIM, 0, 0, 1},
    {IN, "/gym/", GW_CTX_SIM, 0, 0, 1},
    {IN, "stable_baselines3/common/vec_env", GW_CTX_SIM, 0, 0, 1},
    {IN, "env_step", GW_CTX_SIM, 0, 1, 0},
    {IN, "env.step", GW_CTX_SIM, 0, 1, 0},
    {IN, "rollout", GW_CTX_SIM, 0, 1, 0},
    {IN, "simulat", GW_CTX_SIM, 0, 1, 0},
    {IN, "threading.py", GW_CTX_LOCK, 0, 0, 1},
    {AT, "nn.Module:", GW_CTX_MODULE, 0, 0, 1},
    {ALL, "DistributedDataParallel.forward", GW_CTX_MODULE, 1, 1, 0},
    {IN, "forward", GW_CTX_MODULE, 0, 1, 0},
    {IN, "backward", GW_CTX_BACKWARD, 0, 1, 0},
    {AT, "Torch-Compiled Region", GW_CTX_MODULE, 1, 1, 0},
    {AT, "CompiledFunction", GW_CTX_MODULE, 1, 1, 0},
    {AT, "execute_", GW_CTX_MODULE, 0, 1, 0},
    {AT, "autograd::engine::evaluate_function", GW_CTX_BACKWARD, 1, 0, 0},
    {IN, "run_backward", GW_CTX_BACKWARD, 0, 0, 1},
    {IN, "empty_cache", GW_CTX_EMPTY_CACHE, 0, 1, 1},
    {IN, "dataload", GW_CTX_LOADER, 0, 1, 0},
    {IN, "data_load", GW_CTX_LOADER, 0, 1, 0},
    {IN, "data loading", GW_CTX_LOADER, 0, 1, 0},
    {IN, "wait_for_batch", GW_CTX_LOADER, 0, 1, 0},
    {IN, "load_batch", GW_CTX_LOADER, 0, 1, 0},
    {IN, "next_batch", GW_CTX_LOADER, 0, 1, 0},
    {IN, "get_batch", GW_CTX_LOADER, 0, 1, 0},
    {IN, "checkpoint_save", GW_CTX_CHECKPOINT, 0, 1, 0},
    {IN, "save_model", GW_CTX_CHECKPOINT, 0, 1, 1},
    {ALL, "checkpoint", GW_CTX_SAVES, 0, 1, 0},
    {IN, "evaluat", GW_CTX_EVAL, 0, 1, 0},
    {IN, "validat", GW_CTX_EVAL, 0, 1, 0},
    {IN, "metric", GW_CTX_EVAL, 0, 1, 0},
    {IN, "logging", GW_CTX_EVAL, 0, 1, 0},
    {IN, "tokeniz", GW_CTX_PREP, 0, 1, 1},
    {IN, "preprocess", GW_CTX_PREP, 0, 1, 1},
    {IN, "augment", GW_CTX_PREP, 0, 1, 1},
    {IN, "collate", GW_CTX_PREP, 0, 1, 1},
};

/* Frames of installed packages and the interpreter: a place the user cannot edit. */
static const char *const library_words[] = {"site-packages/", "dist-packages/", "lib/python", "<frozen ", "<built-in",
                                            "nn.Module:", "<string>", "torchinductor_", "sitecustomize.py("};
static const char *const library_heads[] = {"torch/", "torchvision/", "transformers/", "accelerate/", "numpy/",
                                            "multiprocessing/", "threading.py", "contextlib.py", "functools.py",
                                            "importlib/", "runpy.py", "vllm/", "sglang/", "triton/", "selectors.py",
                                            "queue.py", "concurrent/", "asyncio/", "lightning/", "pytorch_lightning/",
                                            "deepspeed/", "apex/", "logging/", "typing.py", "enum.py", "copy.py",
                                            "scipy/", "PIL/", "cv2/", "pandas/", "sklearn/", "skimage/", "tqdm/",
                                            "datasets/", "tokenizers/", "huggingface_hub/", "einops/", "matplotlib/",
                                            "pyarrow/", "h5py/", "albumentations/", "timm/", "peft/", "trl/",
                                            "diffusers/", "xformers/", "flash_attn/", "flashinfer/", "bitsandbytes/",
                                            "fsspec/", "aiohttp/", "ray/", "wandb/", "tensorboard/", "torchaudio/",
                                            "torchtext/", "torchmetrics/", "webdataset/", "dgl/", "torch_geometric/",
                                            "gymnasium/", "stable_baselines3/", "megatron/", "transformer_engine/",
                                            "json/", "pickle.py", "random.py", "os.py", "posixpath.py", "re.py",
                                            "abc.py", "inspect.py", "traceback.py", "warnings.py", "weakref.py",
                                            "collections/", "dataclasses.py", "tempfile.py", "shutil.py", "struct.py",
                                            "socket.py", "subprocess.py", "time.py", "types.py", "io.py"};

/* Code that Inductor wrote: a file in a cache that may lie anywhere, named "c" and 51 more digits of base 32. */
static int is_generated(const char *s)
{
    const char *end = strstr(s, ".py("), *name = end;
    while (name && name > s && ((name[-1] >= 'a' && name[-1] <= 'z') || (name[-1] >= '2' && name[-1] <= '7')))
        name--;
    return end && end - name == 52 && *name == 'c' && (name == s || name[-1] == '/');
}

static int is_user_frame(const char *s)
{
    if (!strstr(s, ".py(") || ANY_OF(s, library_words) || is_generated(s))
        return 0;
    for (size_t i = 0; i < sizeof library_heads / sizeof *library_heads; i++)
        if (!strncmp(s, library_heads[i], strlen(library_heads[i])))
            return 0;
    return 1;
}

static void classify_host(const char *s, unsigned kinds, struct gw_name_info *info)
{
    int op = (kinds >> GW_KIND_OP) & 1, an = (kinds >> GW_KIND_ANNOT) & 1, py = (kinds >> GW_KIND_PYFUNC) & 1;
    for (size_t i = 0; i < sizeof ctx_rows / sizeof *ctx_rows; i++) {
        const struct gw_ctx_row *r = ctx_rows + i;
        if (((op && r->in_op) || (an && r->in_annot) || (py && r->in_py)) && match(s, r->how, r->word))
            info->ctx |= r->ctx;
    }
    if (info->ctx & GW_CTX_LOADING)
        info->ctx &= ~(uint32_t)GW_CTX_LOADER;
    if (op && !strchr(s, '#')) /* old traces keep annotations among the operators: those carry a '#' */
        info->ctx |= GW_CTX_OP;
    if (py)
        info->user_frame = (uint8_t)is_user_frame(s);
    const char *digits = strrchr(s, '#');
    info->step = (uint8_t)(digits && isdigit((unsigned char)digits[1]) && !strncmp(s, "ProfilerStep", 12));
}

uint32_t gw_names_frame(const char *frame, int *user)
{
    struct gw_name_info info = {0};
    classify_host(frame, 1u << GW_KIND_PYFUNC, &info);
    *user = info.user_frame;
    return info.ctx;
}

struct gw_name_info *gw_names_classify(const struct gw_trace *t, struct gw_arena *arena)
{
    uint32_t n = gw_intern_count(t->names);
    struct gw_name_info *info = gw_arena_calloc(arena, (size_t)n + 1, sizeof *info);
    uint16_t *kinds = gw_arena_calloc(arena, (size_t)n + 1, sizeof *kinds);
    if (!info || !kinds)
        return NULL;
    const struct gw_event *ev = t->events.data;
    for (size_t i = 0; i < t->events.len; i++)
        if (ev[i].name <= n && ev[i].kind < 16)
            kinds[ev[i].name] |= (uint16_t)(1u << ev[i].kind);
    for (size_t i = 0; i < gw_kernel_metrics_count(t); i++) /* counters may come without a timeline */
        kinds[gw_kernel_metrics_at(t, i)->name] |= 1u << GW_KIND_KERNEL;
    const unsigned host = 1u << GW_KIND_OP | 1u << GW_KIND_ANNOT | 1u << GW_KIND_PYFUNC | 1u << GW_KIND_OSRT;
    for (uint32_t i = 1; i <= n; i++) {
        const char *s = gw_trace_text(t, i);
        if (kinds[i] & (1u << GW_KIND_API))
            info[i].api = (uint8_t)classify_api(s);
        if (kinds[i] & (1u << GW_KIND_KERNEL))
            classify_kernel(s, info + i);
        if (kinds[i] & host)
            classify_host(s, kinds[i], info + i);
    }
    return info;
}

const char *gw_kclass_name(unsigned k)
{
    static const char *const names[] = {N_("other"),     N_("communication"), N_("matmul"), N_("fp32 matmul"), N_("convolution"),
                                        N_("fp32 convolution"), N_("attention"), N_("elementwise"), N_("reduction"), N_("normalisation"),
                                        N_("copy and layout"), N_("embedding and indexing"), N_("optimizer")};
    return k < GW_K_CLASS_COUNT ? names[k] : N_("other");
}

int gw_names_pyframe(const char *name, struct gw_arena *arena, const char **file, int64_t *line, const char **func)
{
    const char *p = strstr(name, ".py(");
    if (!p)
        return 0;
    const char *d = p + 4;
    int64_t n = 0;
    while (isdigit((unsigned char)*d) && n < 100000000)
        n = n * 10 + (*d++ - '0');
    if (d == p + 4 || d[0] != ')' || d[1] != ':')
        return 0;
    if (file)
        *file = gw_arena_strndup(arena, name, (size_t)(p + 3 - name));
    if (line)
        *line = n;
    if (func)
        *func = d[2] == ' ' ? d + 3 : d + 2;
    return 1;
}

/* "void at::native::(anonymous namespace)::foo<4, T>(int, T*)" -> "foo". */
const char *gw_names_short_kernel(const char *name, struct gw_arena *arena)
{
    const char *s = name;
    if (!strncmp(s, "void ", 5))
        s += 5;
    const char *last = s, *p = s;
    int depth = 0;
    for (; *p; p++) {
        if (!strncmp(p, "(anonymous namespace)", 21)) {
            p += 20;
            continue;
        }
        if (*p == '<')
            depth++;
        else if (*p == '>' && depth)
            depth--;
        else if (*p == '(' && !depth)
            break;
        else if (!depth && p[0] == ':' && p[1] == ':')
            last = p + 2;
    }
    const char *end = last;
    while (end < p && *end != '<')
        end++;
    if (end == last)
        return name;
    /* CUTLASS wraps every kernel in Kernel<> or Kernel2<>: the argument is its name */
    size_t word = (size_t)(end - last);
    if (*end == '<' && ((word == 6 && !strncmp(last, "Kernel", 6)) || (word == 7 && !strncmp(last, "Kernel2", 7)))) {
        size_t n = strspn(end + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        if (end[1 + n] == '>')
            return gw_arena_printf(arena, "%.*s", (int)n, end + 1);
    }
    /* the functor of a generic elementwise or reduce kernel says more than the kernel's own name */
    char functor[64] = "";
    static const char *const marks[] = {"Functor", "_kernel_cuda", "_scalar_kernel", "ReduceOp"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks && end < p && *end == '<'; i++) {
        const char *m = strstr(end, marks[i]);
        if (!m)
            continue;
        const char *b = m;
        while (b > end + 1 && (isalnum((unsigned char)b[-1]) || b[-1] == '_'))
            b--;
        const char *e = m;
        while (isalnum((unsigned char)*e) || *e == '_')
            e++;
        size_t len = (size_t)(e - b);
        if (len < sizeof functor) {
            memcpy(functor, b, len);
            functor[len] = 0;
        }
        break;
    }
    if (functor[0])
        return gw_arena_printf(arena, "%.*s<%s>", (int)(end - last), last, functor);
    return gw_arena_printf(arena, "%.*s", (int)(end - last), last);
}
