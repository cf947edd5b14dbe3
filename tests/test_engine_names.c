/* What names mean: real names of runtime calls, kernels and ranges, traps among them. A new framework is a new row
 * here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/names.h"

/* Classifies one name as an event of one kind. */
static struct gw_name_info classify(unsigned kind, const char *name)
{
    struct gw_trace *t = gw_trace_create(0);
    struct gw_arena *a = gw_arena_create(0);
    uint32_t lane = kind == GW_KIND_KERNEL ? gw_trace_lane_gpu(t, 0, 7) : gw_trace_lane_host(t, 1, 1);
    gw_trace_add(t, &(struct gw_event){
                        .kind = (uint16_t)kind, .end = 1, .name = gw_trace_name(t, name, strlen(name)), .lane = lane});
    assert_int_equal(gw_trace_finish(t), GW_OK);
    struct gw_name_info *info = gw_names_classify(t, a);
    assert_non_null(info);
    struct gw_name_info one = info[1];
    gw_arena_destroy(a);
    gw_trace_destroy(t);
    return one;
}

static const struct {
    const char *name;
    enum gw_api api;
} calls[] = {
    {"cudaLaunchKernel", GW_API_LAUNCH},
    {"cudaLaunchKernelExC", GW_API_LAUNCH},
    {"cudaLaunchKernel_ptsz", GW_API_LAUNCH},
    {"cudaLaunchCooperativeKernel", GW_API_LAUNCH},
    {"cuLaunchKernel", GW_API_LAUNCH},
    {"cuLaunchKernelEx", GW_API_LAUNCH},
    {"cudaLaunchKernel_v7000", GW_API_LAUNCH}, /* Nsight Systems writes the version */
    {"hipLaunchKernel", GW_API_LAUNCH},
    {"hipModuleLaunchKernel", GW_API_LAUNCH},
    {"hipExtModuleLaunchKernel", GW_API_LAUNCH},
    {"hipExtLaunchKernel", GW_API_LAUNCH},
    {"cudaLaunchHostFunc", GW_API_OTHER}, /* trap: gives the GPU no kernel */
    {"cudaGraphLaunch", GW_API_GRAPH_LAUNCH},
    {"cudaGraphLaunch_v10000", GW_API_GRAPH_LAUNCH},
    {"cuGraphLaunch", GW_API_GRAPH_LAUNCH},
    {"hipGraphLaunch", GW_API_GRAPH_LAUNCH},
    {"cudaGraphInstantiateWithFlags", GW_API_GRAPH_BUILD},
    {"cudaStreamBeginCapture", GW_API_GRAPH_BUILD},
    {"cudaStreamEndCapture", GW_API_GRAPH_BUILD},
    {"cudaStreamIsCapturing", GW_API_OTHER}, /* trap: a question that PyTorch asks all the time */
    {"cudaStreamGetCaptureInfo_v2", GW_API_OTHER},
    {"cudaMemcpyAsync", GW_API_COPY_ASYNC},
    {"cudaMemcpyAsync_ptsz", GW_API_COPY_ASYNC},
    {"cuMemcpyHtoDAsync_v2", GW_API_COPY_ASYNC},
    {"cuMemcpyDtoHAsync_v2_ptsz", GW_API_COPY_ASYNC},
    {"cudaMemcpyPeerAsync", GW_API_COPY_ASYNC},
    {"hipMemcpyAsync", GW_API_COPY_ASYNC},
    {"cudaMemcpy", GW_API_COPY},
    {"cuMemcpyHtoD_v2", GW_API_COPY},
    {"cudaMemcpy2D", GW_API_COPY},
    {"hipMemcpyWithStream", GW_API_COPY}, /* trap: synchronous, although it takes a stream */
    {"cudaMemsetAsync", GW_API_SET},
    {"cuMemsetD32Async", GW_API_SET},
    {"cudaMemset", GW_API_SET},
    {"cudaMemGetInfo", GW_API_OTHER},
    {"cudaStreamSynchronize", GW_API_SYNC_STREAM},
    {"cuStreamSynchronize_ptsz", GW_API_SYNC_STREAM},
    {"hipStreamSynchronize", GW_API_SYNC_STREAM},
    {"cudaDeviceSynchronize", GW_API_SYNC_DEVICE},
    {"cuCtxSynchronize", GW_API_SYNC_DEVICE},
    {"cudaEventSynchronize", GW_API_SYNC_EVENT},
    {"cudaStreamWaitEvent", GW_API_WAIT_EVENT}, /* trap: the stream waits, the host does not */
    {"hipStreamWaitEvent", GW_API_WAIT_EVENT},
    {"cudaEventQuery", GW_API_QUERY},
    {"cudaStreamQuery", GW_API_QUERY},
    {"cudaEventRecord", GW_API_EVENT},
    {"cudaEventRecordWithFlags", GW_API_EVENT},
    {"cudaEventCreateWithFlags", GW_API_EVENT},
    {"cudaEventElapsedTime", GW_API_EVENT},
    {"cudaMalloc", GW_API_ALLOC},
    {"cuMemAlloc_v2", GW_API_ALLOC},
    {"cuMemCreate", GW_API_ALLOC},
    {"cuMemMap", GW_API_ALLOC},
    {"cuMemSetAccess", GW_API_ALLOC},
    {"hipMalloc", GW_API_ALLOC},
    {"hipExtMallocWithFlags", GW_API_ALLOC},
    {"cudaMallocAsync", GW_API_OTHER}, /* trap: from a pool, in stream order */
    {"cuMemAllocAsync", GW_API_OTHER},
    {"cudaFreeAsync", GW_API_OTHER},
    {"cudaMallocManaged", GW_API_ALLOC},
    {"cudaFree", GW_API_FREE},
    {"cuMemFree_v2", GW_API_FREE},
    {"cuMemUnmap", GW_API_FREE},
    {"cuMemRelease", GW_API_FREE},
    {"hipFree", GW_API_FREE},
    {"cudaFreeHost", GW_API_HOST_ALLOC}, /* trap: begins like cudaFree */
    {"cudaHostAlloc", GW_API_HOST_ALLOC},
    {"cudaMallocHost", GW_API_HOST_ALLOC}, /* trap: begins like cudaMalloc */
    {"cudaHostRegister", GW_API_HOST_ALLOC},
    {"cuMemHostAlloc", GW_API_HOST_ALLOC},
    {"cuMemHostUnregister", GW_API_HOST_ALLOC},
    {"cuMemFreeHost", GW_API_HOST_ALLOC},
    {"hipHostMalloc", GW_API_HOST_ALLOC},
    {"cuMemHostGetDevicePointer_v2", GW_API_OTHER}, /* trap: a question, no allocation */
    {"cudaHostGetDevicePointer", GW_API_OTHER},
    {"cuModuleLoadData", GW_API_MODULE},
    {"cuModuleLoadDataEx", GW_API_MODULE},
    {"cuLibraryLoadData", GW_API_MODULE},
    {"cuModuleUnload", GW_API_MODULE},
    {"hipModuleLoad", GW_API_MODULE},
    {"cudaFuncGetAttributes", GW_API_OTHER},
    {"cudaGetDevice", GW_API_OTHER},
    {"cudaDeviceGetAttribute", GW_API_OTHER},
    {"cudaOccupancyMaxActiveBlocksPerMultiprocessor", GW_API_OTHER},
    {"cublasSgemm_v2", GW_API_OTHER}, /* trap: begins with "cu" */
    {"cudnnConvolutionForward", GW_API_OTHER},
    {"launch_kernel", GW_API_OTHER},
    {"cu", GW_API_OTHER},
    {"cuda", GW_API_OTHER},
};

static void test_calls(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int got = classify(GW_KIND_API, calls[i].name).api;
        if (got != (int)calls[i].api) {
            print_error("%s is %d, should be %d\n", calls[i].name, got, (int)calls[i].api);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

static const struct {
    const char *name;
    enum gw_kclass kclass;
    int tensor; /* the name says tensor cores */
} kernels[] = {
    {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", GW_K_COMM, 0},
    {"ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)", GW_K_COMM, 0},
    {"ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_bf16", GW_K_COMM, 0},
    {"rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)", GW_K_COMM, 0},
    {"void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)", GW_K_COMM, 0},
    {"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)", GW_K_COMM, 0},
    {"multimem_all_reduce_kernel", GW_K_COMM, 0},
    {"ampere_sgemm_128x64_nn", GW_K_GEMM_FP32, 0},
    {"volta_sgemm_128x32_tn", GW_K_GEMM_FP32, 0},
    {"cutlass_80_simt_sgemm_128x64_8x5_nn_align1", GW_K_GEMM_FP32, 0},
    {"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel__"
     "5x_cublas",
     GW_K_GEMM_FP32, 0},
    {"cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4", GW_K_GEMM, 1}, /* trap: holds "s1688gemm", runs TF32 */
    {"ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", GW_K_GEMM, 1},
    {"ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x6_nn", GW_K_GEMM, 1},
    {"volta_fp16_s884gemm_fp16_128x256_ldg8_f2f_tn", GW_K_GEMM, 1},
    {"turing_h1688gemm_128x128_ldg8_stages_32x1_nn", GW_K_GEMM, 1},
    {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_"
     "cublas",
     GW_K_GEMM, 1},
    {"nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", GW_K_GEMM, 1},
    {"Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN_1LDSB0", GW_K_GEMM, 1}, /* MI: matrix instructions */
    {"Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1", GW_K_GEMM, 0},
    {"void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_64x2_tn_align8>(Params)", GW_K_GEMM,
     1},
    {"void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>(float)", GW_K_GEMM, 0},
    {"void splitKreduce_kernel<32, 16, int, float, float, float, float, true, true, false>(float*)", GW_K_REDUCE, 0},
    {"void cublasLt::splitKreduce_kernel<32, 16, int, __half>(float*)", GW_K_REDUCE, 0},
    {"sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_tensor16x8x8",
     GW_K_CONV, 1},
    {"sm80_xmma_wgrad_implicit_gemm_indexed_f32f32_f32f32_f32_nhwckrsc_nhwc_ffma_tilesize64x64", GW_K_CONV_FP32, 0},
    {"ampere_scudnn_128x64_relu_interior_nn_v1", GW_K_CONV_FP32, 0},
    {"void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>(int)", GW_K_CONV_FP32, 0},
    {"void cudnn::winograd_nonfused::winogradForwardOutput4x4<float, float>(int)", GW_K_CONV_FP32, 0},
    {"void cudnn::cnn::dgrad_engine<float, 128, 6, 7, 3, 3, 5, true>(int)", GW_K_CONV_FP32, 0},
    {"void wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int)", GW_K_CONV_FP32, 0},
    {"miopenSp3AsmConv_v21_1_2_gfx9_fp32_stride1", GW_K_CONV, 0},
    {"cask_cudnn::computeOffsetsKernel(cask_cudnn::ComputeOffsetsParams)", GW_K_OTHER,
     0}, /* trap: a helper of convolutions */
    {"void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true, "
     "(cudnnKernelDataType_t)2>(int)",
     GW_K_COPY, 0},
    {"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)", GW_K_ATTENTION,
     0},
    {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)", GW_K_ATTENTION, 1},
    {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128", GW_K_ATTENTION, 1},
    {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, "
     "3>>(int)",
     GW_K_ELEMENTWISE, 0},
    {"void "
     "at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#"
     "3}>(int)",
     GW_K_COPY, 0},
    {"void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::BinaryFunctor>>(int)",
     GW_K_ELEMENTWISE, 0},
    {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, "
     "float>>>(at::native::ReduceOp)",
     GW_K_REDUCE, 0},
    {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float>(float*)", GW_K_NORM, 0},
    {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)", GW_K_NORM, 0},
    {"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(int)", GW_K_NORM, 0},
    {"void at::native::batch_norm_transform_input_kernel<float, float, float, true, int>(int)", GW_K_NORM, 0},
    {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
     "namespace)::TensorListMetadata<4>, "
     "at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>>(int)",
     GW_K_OPTIMIZER, 0},
    {"void multi_tensor_apply_kernel<TensorListMetadata<2>, ScaleFunctor<float, float>, float>(long)", GW_K_OPTIMIZER,
     0},
    {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 4, 64, 64>(float*)", GW_K_COPY,
     0},
    {"void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float>(long*)", GW_K_EMBEDDING, 0},
    {"void at::native::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(int)", GW_K_EMBEDDING, 0},
    {"void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)", GW_K_EMBEDDING, 0},
    {"split_embedding_codegen_forward_unweighted_kernel<float, float, float, false, long>(int)", GW_K_EMBEDDING, 0},
    {"void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<int>(int)", GW_K_REDUCE, 0},
    {"triton_poi_fused_add_relu_0", GW_K_ELEMENTWISE, 0},
    {"triton_red_fused_native_layer_norm_3", GW_K_NORM, 0},
    {"triton_per_fused_mean_2", GW_K_REDUCE, 0},
    {"void at::native::(anonymous namespace)::upsample_bilinear2d_out_frame<float, float>(int)", GW_K_ELEMENTWISE, 0},
    {"my_kernel", GW_K_OTHER, 0},
};

static void test_kernels(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        struct gw_name_info got = classify(GW_KIND_KERNEL, kernels[i].name);
        if (got.kclass != kernels[i].kclass || got.tensor != kernels[i].tensor) {
            print_error("%s is %s (tensor %d), should be %s (tensor %d)\n", kernels[i].name, gw_kclass_name(got.kclass),
                        got.tensor, gw_kclass_name(kernels[i].kclass), kernels[i].tensor);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

static const struct {
    unsigned kind;
    const char *name;
    uint32_t has, has_not;
} ranges[] = {
    {GW_KIND_ANNOT, "ProfilerStep#12", GW_CTX_STEP, GW_CTX_OP},
    {GW_KIND_OP, "ProfilerStep*", 0, GW_CTX_STEP},
    {GW_KIND_OP, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", GW_CTX_LOADER,
     GW_CTX_LOADING | GW_CTX_OP},
    {GW_KIND_OP, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", GW_CTX_LOADING, GW_CTX_LOADER},
    {GW_KIND_PYFUNC, "torch/utils/data/dataloader.py(701): __next__", GW_CTX_LOADER, GW_CTX_LOADING},
    {GW_KIND_PYFUNC, "torch/utils/data/_utils/fetch.py(52): <listcomp>", GW_CTX_LOADING, GW_CTX_LOADER},
    {GW_KIND_ANNOT, "Optimizer.step#AdamW.step", GW_CTX_OPTIMIZER, 0},
    {GW_KIND_ANNOT, "Optimizer.zero_grad#SGD.zero_grad", GW_CTX_OPTIMIZER, 0},
    {GW_KIND_PYFUNC, "torch/optim/adamw.py(164): step", 0, GW_CTX_CHECKPOINT | GW_CTX_EVAL},
    {GW_KIND_PYFUNC, "torch/serialization.py(943): save", GW_CTX_CHECKPOINT, 0},
    {GW_KIND_PYFUNC, "torch/utils/checkpoint.py(480): checkpoint", 0,
     GW_CTX_CHECKPOINT | GW_CTX_SAVES}, /* trap: activations */
    {GW_KIND_OP, "CheckpointFunction", 0, GW_CTX_CHECKPOINT},
    {GW_KIND_OP, "CheckpointFunctionBackward", 0, GW_CTX_CHECKPOINT},
    {GW_KIND_ANNOT, "checkpoint", GW_CTX_SAVES, GW_CTX_CHECKPOINT}, /* what it is depends on what it does */
    {GW_KIND_ANNOT, "save_checkpoint", GW_CTX_CHECKPOINT, 0},
    {GW_KIND_PYFUNC, "train.py(80): save_checkpoint", GW_CTX_CHECKPOINT, 0},
    {GW_KIND_PYFUNC, "torch/distributed/checkpoint/state_dict_saver.py(40): save", GW_CTX_CHECKPOINT, 0},
    {GW_KIND_OP, "aten::item", GW_CTX_SYNC_OP | GW_CTX_OP, 0},
    {GW_KIND_OP, "aten::_local_scalar_dense", GW_CTX_SYNC_OP, 0},
    {GW_KIND_OP, "aten::itemsize", GW_CTX_OP, GW_CTX_SYNC_OP},
    {GW_KIND_OP, "aten::nonzero", GW_CTX_SYNC_OP, 0},
    {GW_KIND_OP, "aten::add", GW_CTX_OP, GW_CTX_SYNC_OP | GW_CTX_EVAL},
    {GW_KIND_ANNOT, "nccl:all_reduce", GW_CTX_COMM, GW_CTX_HOST_COMM},
    {GW_KIND_ANNOT, "gloo:all_reduce", GW_CTX_HOST_COMM, 0},
    {GW_KIND_OP, "c10d::allreduce_", GW_CTX_COMM, GW_CTX_HOST_COMM},
    {GW_KIND_OP, "c10d::barrier", GW_CTX_HOST_COMM, 0},
    {GW_KIND_OP, "autograd::engine::evaluate_function: AddmmBackward0", GW_CTX_BACKWARD, 0},
    {GW_KIND_PYFUNC, "torch/_dynamo/convert_frame.py(1164): __call__", GW_CTX_COMPILE, 0},
    {GW_KIND_PYFUNC, "triton/compiler/compiler.py(226): compile", GW_CTX_COMPILE, 0},
    {GW_KIND_PYFUNC, "torch/_dynamo/eval_frame.py(433): _fn", 0, GW_CTX_COMPILE}, /* trap: runs compiled code */
    {GW_KIND_ANNOT, "Torch-Compiled Region: 0/0", GW_CTX_MODULE, GW_CTX_COMPILE},
    {GW_KIND_OP, "CompiledFunction", GW_CTX_MODULE, GW_CTX_COMPILE},
    {GW_KIND_ANNOT, "env_step", GW_CTX_SIM, 0},
    {GW_KIND_PYFUNC, "gymnasium/vector/sync_vector_env.py(230): step", GW_CTX_SIM, 0},
    {GW_KIND_PYFUNC, "train.py(12): environment_setup", 0, GW_CTX_SIM},
    {GW_KIND_PYFUNC, "threading.py(629): wait", GW_CTX_LOCK, 0},
    {GW_KIND_PYFUNC, "nn.Module: Linear_3", GW_CTX_MODULE, 0},
    {GW_KIND_ANNOT, "validation", GW_CTX_EVAL, 0},
    {GW_KIND_PYFUNC, "torch/distributions/utils.py(10): validate", 0, GW_CTX_EVAL}, /* trap: a frame of a library */
    {GW_KIND_ANNOT, "tokenize batch", GW_CTX_PREP, 0},
    {GW_KIND_PYFUNC, "torch/cuda/memory.py(222): empty_cache", GW_CTX_EMPTY_CACHE, 0},
};

static void test_ranges(void **state)
{
    (void)state;
    int bad = 0;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        uint32_t got = classify(ranges[i].kind, ranges[i].name).ctx;
        if ((got & ranges[i].has) != ranges[i].has || (got & ranges[i].has_not)) {
            print_error("%s has contexts 0x%x, should have 0x%x and not 0x%x\n", ranges[i].name, got, ranges[i].has,
                        ranges[i].has_not);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
}

static void test_steps_and_frames(void **state)
{
    (void)state;
    assert_int_equal(classify(GW_KIND_ANNOT, "ProfilerStep#7").step, 1);
    assert_int_equal(classify(GW_KIND_OP, "ProfilerStep#7").step, 1); /* old traces */
    assert_int_equal(classify(GW_KIND_ANNOT, "ProfilerStep#x").step, 0);
    assert_int_equal(classify(GW_KIND_ANNOT, "MyStep#7").step, 0);
    assert_int_equal(classify(GW_KIND_PYFUNC, "train.py(57): step").user_frame, 1);
    assert_int_equal(classify(GW_KIND_PYFUNC, "my/torch/layer.py(5): forward").user_frame, 1);
    assert_int_equal(classify(GW_KIND_PYFUNC, "torch/nn/functional.py(1845): linear").user_frame, 0);
    assert_int_equal(classify(GW_KIND_PYFUNC, "/usr/lib/python3.11/site-packages/foo/x.py(3): f").user_frame, 0);
    assert_int_equal(classify(GW_KIND_PYFUNC, "/usr/lib/python3.11/json/decoder.py(3): f").user_frame, 0);
    assert_int_equal(classify(GW_KIND_PYFUNC, "<built-in method acquire of lock>").user_frame, 0);
    assert_int_equal(classify(GW_KIND_PYFUNC, "nn.Module: Net_0").user_frame, 0);
}

static void test_frame_parts(void **state)
{
    (void)state;
    struct gw_arena *a = gw_arena_create(0);
    const char *file = NULL, *func = NULL;
    int64_t line = -1;
    assert_int_equal(gw_names_pyframe("dir/train.py(57): log_loss", a, &file, &line, &func), 1);
    assert_string_equal(file, "dir/train.py");
    assert_int_equal(line, 57);
    assert_string_equal(func, "log_loss");
    assert_int_equal(gw_names_pyframe("train.py(57): f", a, NULL, NULL, NULL), 1);
    assert_int_equal(gw_names_pyframe("train.py(): f", a, &file, &line, &func), 0);
    assert_int_equal(gw_names_pyframe("train.py(57)", a, &file, &line, &func), 0);
    assert_int_equal(gw_names_pyframe("aten::mm", a, &file, &line, &func), 0);
    assert_int_equal(gw_names_pyframe("train.py(99999999999999999999): f", a, &file, &line, &func), 0);
    gw_arena_destroy(a);
}

static void test_short_kernels(void **state)
{
    (void)state;
    static const struct {
        const char *name, *want;
    } rows[] = {
        {"ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"},
        {"void foo<4, bar>(int, float*)", "foo"},
        {"void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float>(float*)", "cunn_SoftMaxForward"},
        {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
         "vectorized_elementwise_kernel<CUDAFunctor_add>"},
        {"", ""},
        {"void <>", "void <>"},
        {"operator()", "operator"},
        {"a::b<c::d>::e<f>(g)", "e"},
    };
    struct gw_arena *a = gw_arena_create(0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(gw_names_short_kernel(rows[i].name, a), rows[i].want);
    gw_arena_destroy(a);
}

/* One name used for several kinds of events is classified for each. */
static void test_one_name_two_kinds(void **state)
{
    (void)state;
    struct gw_trace *t = gw_trace_create(0);
    struct gw_arena *a = gw_arena_create(0);
    uint32_t n = gw_trace_name(t, "cudaLaunchKernel", 16);
    gw_trace_add(t, &(struct gw_event){.kind = GW_KIND_API, .end = 1, .name = n, .lane = gw_trace_lane_host(t, 1, 1)});
    gw_trace_add(t, &(struct gw_event){.kind = GW_KIND_OP, .end = 1, .name = n, .lane = gw_trace_lane_host(t, 1, 1)});
    gw_trace_finish(t);
    struct gw_name_info *info = gw_names_classify(t, a);
    assert_int_equal(info[n].api, GW_API_LAUNCH);
    assert_true(info[n].ctx & GW_CTX_OP);
    gw_arena_destroy(a);
    gw_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_steps_and_frames),
        cmocka_unit_test(test_frame_parts),
        cmocka_unit_test(test_short_kernels),
        cmocka_unit_test(test_one_name_two_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
